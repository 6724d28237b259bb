package projections

import (
	"slices"

	"decklog/events"
)

// OwedKind is what is owed.
type OwedKind string

// OwedReply is an open request: its answer is owed.
const OwedReply OwedKind = "reply"

// Owed is an item that somebody has to close. Its id is that of the request
// that it came from: a view never makes an id.
type Owed struct {
	ID         string
	Kind       OwedKind
	Thread     events.ThreadID
	Debtor     events.Participant
	Creditor   events.Participant
	DebtorSeat string
	Since      events.Time
	Due        *events.Time
	Nudges     int
	Paged      *events.Time
	Position   events.Position
}

func (s *State) owe(t *Thread, m *Message) {
	o := Owed{
		ID: string(m.ID), Kind: OwedReply, Thread: t.ID, Debtor: m.To.ID, Creditor: m.Author.ID,
		Since: m.Sent, Due: m.Due, Position: m.Position,
	}
	t.Owed = append(t.Owed, o)
	at := place(o.Position)
	s.mark(key("owed", at), string(t.ID))
	s.mark(ofBox(o.Debtor, "owes", at), string(t.ID))
	s.mark(ofBox(o.Creditor, "owing", at), string(t.ID))
}

// settle closes what a final message answers: the request that it replies to,
// when the debtor answers it, or when anybody says `done` to it. A question
// back is no answer.
func (s *State) settle(t *Thread, m, parent *Message) {
	s.closeOwed(t, func(o Owed) bool {
		if o.ID != string(parent.ID) {
			return false
		}
		if m.Intent == events.Done {
			return true
		}
		return m.Intent != events.Request && s.isDebtor(o, parent, m.Author)
	})
}

// isDebtor says whether an author speaks for the debtor: as that session or
// person, from its seat, or as the session that took the request out of the
// mailbox of its seat or person.
func (s *State) isDebtor(o Owed, request *Message, a events.Author) bool {
	if is(o.Debtor, a) {
		return true
	}
	d := request.Main()
	return d.At == a.ID
}

func (s *State) closeOwed(t *Thread, closes func(Owed) bool) {
	t.Owed = slices.DeleteFunc(t.Owed, func(o Owed) bool {
		if !closes(o) {
			return false
		}
		at := place(o.Position)
		s.unmark(key("owed", at))
		s.unmark(ofBox(o.Debtor, "owes", at))
		s.unmark(ofBox(o.Creditor, "owing", at))
		return true
	})
}

// OwedItems lists the open items, oldest first, at most limit (0: all): those
// that by owes and to is owed, where they are named. Several participants stand
// for one: a session and its seat.
func (s *State) OwedItems(by, to []events.Participant, limit int) (items []Owed) {
	type found struct {
		at     events.Position
		thread events.ThreadID
	}
	var all []found
	collect := func(prefix string) {
		s.scan(prefix, "", false, func(k string, value []byte) bool {
			all = append(all, found{at: placeOf(last(k)), thread: events.ThreadID(value)})
			return limit == 0 || len(by) > 0 && len(to) > 0 || len(all) < limit
		})
	}
	switch {
	case len(by) > 0:
		for _, p := range by {
			collect(ofBox(p, "owes", ""))
		}
	case len(to) > 0:
		for _, p := range to {
			collect(ofBox(p, "owing", ""))
		}
	default:
		collect(key("owed", ""))
	}
	slices.SortFunc(all, func(a, b found) int { return int(a.at - b.at) })
	for _, f := range all {
		t := s.Thread(f.thread)
		if t == nil {
			continue
		}
		for _, o := range t.Owed {
			if o.Position == f.at && (len(to) == 0 || slices.Contains(to, o.Creditor)) {
				items = append(items, o)
			}
		}
		if limit > 0 && len(items) >= limit {
			return items[:limit]
		}
	}
	return items
}
