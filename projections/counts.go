package projections

import (
	"strconv"

	"decklog/events"
)

// Counts are how many there are of what the overview counts, so that nobody has
// to go through the ledger to know.
type Counts struct {
	Threads  int // all that were begun
	Done     int // of these
	Messages int // that were sent
	Waiting  int // copies of them that lie in a mailbox
	Boxes    int // mailboxes in which any lies
	Lost     int // copies that expired, or were given up
	Live     int // sessions that joined and have not left
	Refusals int
	Replies  int // open items, by their kind
	Handoffs int
	Reviews  int
}

func (c *Counts) pack(p *packer) {
	for _, n := range []*int{
		&c.Threads, &c.Done, &c.Messages, &c.Waiting, &c.Lost, &c.Live, &c.Refusals, &c.Replies, &c.Handoffs, &c.Reviews, &c.Boxes,
	} {
		number(p, n)
	}
}

// ofLedger is the one row of counts.
const ofLedger = "ledger"

// Counts gives them as they stand.
func (s *State) Counts() Counts {
	s.asks(OverviewRows)
	if c := s.counts.find(s, ofLedger); c != nil {
		return *c
	}
	return Counts{}
}

func (s *State) count() *Counts { return s.counts.change(s, ofLedger) }

// owed is the count of a kind of open items.
func (c *Counts) owed(k OwedKind) *int {
	switch k {
	case OwedHandoff:
		return &c.Handoffs
	case OwedReview:
		return &c.Reviews
	}
	return &c.Replies
}

// farthest is a position behind all that a ledger reaches.
const farthest events.Position = 36*36*36*36*36*36*36*36*36*36 - 1

// back writes a position so that later ones sort first.
func back(p events.Position) string { return place(farthest - p) }

func backOf(s string) events.Position { return farthest - placeOf(s) }

// currentKey is of a thread by the place of its last event. The latest come
// first, so that what each message moves lies beside the checkpoint and the
// counts, in the page of the store that each commit writes anyway.
func currentKey(done bool, at string) string {
	if done {
		return key("current", "done", at)
	}
	return key("current", "open", at)
}

// happened notes that an event was the thread's last.
func (s *State) happened(t *Thread, r events.Recorded) {
	if s.makes(OverviewRows) {
		if t.At > 0 {
			s.unmark(currentKey(t.Done, back(t.At)))
		}
		s.markNew(currentKey(t.Done, back(r.Position)), string(t.ID))
	}
	t.At = r.Position
}

// closed notes that an open thread is done from its present event on.
func (s *State) closed(t *Thread) {
	if t.Done {
		return
	}
	s.count().Done++
	if t.At > 0 && s.makes(OverviewRows) {
		s.unmark(currentKey(false, back(t.At)))
		s.mark(currentKey(true, back(t.At)), string(t.ID))
	}
	t.Done = true
}

// laid counts a copy of a message into a mailbox, or with -1 out of it.
func (s *State) laid(p events.Participant, m *Message, n int) {
	box := s.mailboxes.change(s, string(p))
	before := box.Waiting > 0
	box.Waiting += n
	s.threads.change(s, string(m.Thread)).Waiting += n
	s.count().Waiting += n
	waits := box.Waiting > 0
	if waits == before {
		return
	}
	s.count().Boxes += n
	switch {
	case !s.makes(OverviewRows) || s.here(p):
	case waits:
		s.mark(key("waits", string(p)), "-")
	default:
		s.unmark(key("waits", string(p)))
	}
}

// here says whether a participant is a session that has not left, and so is
// found without an index of its mail.
func (s *State) here(p events.Participant) bool {
	row := s.Session(p.Session())
	return row != nil && row.Left == nil
}

// came notes, before a session's row says so, that the session is here.
func (s *State) came(id events.SessionID) {
	p := events.Participant(id)
	if s.here(p) {
		return
	}
	s.count().Live++
	if s.Mailbox(p).Waiting > 0 && s.makes(OverviewRows) {
		s.unmark(key("waits", string(p)))
	}
}

// went notes, before a session's row says so, that the session is here no more.
func (s *State) went(id events.SessionID) {
	p := events.Participant(id)
	if !s.here(p) {
		return
	}
	s.count().Live--
	if s.Mailbox(p).Waiting > 0 && s.makes(OverviewRows) {
		s.mark(key("waits", string(p)), "-")
	}
}

// lostFrom counts a copy of a message that was lost.
func (s *State) lostFrom(p events.Participant, m *Message, at events.Time) {
	box := s.mailboxes.change(s, string(p))
	box.Lost++
	box.LostAt = at
	s.threads.change(s, string(m.Thread)).Lost++
	s.count().Lost++
}

// countRefusal counts a refusal, or as many as it stands for.
func (s *State) countRefusal(e events.CommandRefused, r events.Recorded) {
	n := max(1, e.Counted)
	s.count().Refusals += n
	if !s.makes(OverviewRows) {
		return
	}
	s.mark(key("refused", place(r.Position)), e.Code)
	k := key("count", "refused", e.Code)
	before, _ := strconv.Atoi(string(s.get(k)))
	s.mark(k, strconv.Itoa(before+n))
}
