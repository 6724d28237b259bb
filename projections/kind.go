package projections

import (
	"errors"

	"decklog/events"
)

// Kind is a kind of rows that no rule of the fold reads, only views do. A replay
// for one view leaves out those that the view does not ask for, and they are most
// of the rows.
type Kind uint8

// The kinds.
const (
	ThreadRows Kind = 1 << iota // the events that name a thread
	InboxRows                   // what went to somebody
	SentRows                    // what somebody sent
	QueueRows                   // what waits in a mailbox, and for whom its sender waits
	LeaseRows
	OverviewRows // the threads by their last event, the refusals, who has mail, and how many there are

	allKinds = ThreadRows | InboxRows | SentRows | QueueRows | LeaseRows | OverviewRows
)

// Replay gives an empty state that makes, of the kinds, only these.
func Replay(rows events.Rows, only Kind) *State {
	s := inMemory(rows)
	s.without = allKinds &^ only
	return s
}

// Anew gives the state of a rebuild, whose rows hold nothing yet. An id is random,
// and a row under a random key costs the store a page each time; so it packs the
// rows of threads, messages and leases away, and writes as many of them at a time,
// in the order of their keys, as its memory allows.
func Anew(rows events.Rows) *State {
	s := inMemory(rows)
	s.fresh = true
	return s
}

func inMemory(rows events.Rows) *State {
	s := newState(rows)
	s.threads.attic, s.messages.attic, s.leases.attic = newAttic(), newAttic(), newAttic()
	return s
}

func (s *State) makes(k Kind) bool { return s.without&k == 0 }

var errNotMade = errors.New("read rows that the replay does not make")

// asks is what a view says first of the rows that it reads.
func (s *State) asks(k Kind) {
	if !s.makes(k) {
		s.fail(errNotMade)
	}
}
