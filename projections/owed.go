package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"decklog/events"
)

// OwedKind is what is owed.
type OwedKind string

// The kinds.
const (
	OwedReply   OwedKind = "reply"   // an open request: its answer
	OwedHandoff OwedKind = "handoff" // one that was offered, or accepted and not closed
	OwedReview  OwedKind = "review"  // one without a label
)

// Owed is an item that somebody has to close. Its id is that of the request, the
// hand-off or the review that it came from: a view never makes an id.
type Owed struct {
	ID           string
	Kind         OwedKind
	Thread       events.ThreadID
	Debtor       events.Participant
	Creditor     events.Participant
	DebtorSeat   string
	CreditorSeat string
	Since        events.Time
	Due          *events.Time
	Nudges       int
	Nudged       *events.Time // last
	Paged        *events.Time
	Position     events.Position
	Passed       events.Position // of the event that passed it to its debtor; 0: nobody did
	Calls        []CallRef       // that tell of it
}

func (s *State) owe(t *Thread, m *Message) {
	seat := m.To.Seat
	if m.To.Kind == events.KindSeat {
		seat = m.To.ID.Name()
	}
	s.owes(t, Owed{
		ID: string(m.ID), Kind: OwedReply, Thread: t.ID, Debtor: m.To.ID, DebtorSeat: seat, Creditor: m.Author.ID,
		CreditorSeat: m.Author.Seat, Since: m.Sent, Due: m.Due, Position: m.Position,
	})
}

// owes opens an item. Those of a thread stand in the order in which they were opened.
func (s *State) owes(t *Thread, o Owed) {
	at, _ := slices.BinarySearchFunc(t.Owed, o.Position, func(o Owed, p events.Position) int { return cmp.Compare(o.Position, p) })
	t.Owed = slices.Insert(t.Owed, at, o)
	*s.count().owed(o.Kind)++
	s.markOwed(t, o)
}

func (s *State) markOwed(t *Thread, o Owed) {
	due := "-"
	if o.Due != nil {
		due = strconv.FormatInt(int64(*o.Due), 10)
	}
	for _, k := range o.keys() {
		s.mark(k, fmt.Sprintf("%s %s %s %s %s", t.ID, o.Debtor, o.Creditor, o.Kind, due))
	}
}

func (s *State) unmarkOwed(o Owed) {
	for _, k := range o.keys() {
		s.unmark(k)
	}
}

// keys are the rows under which an open item is found.
func (o Owed) keys() []string {
	at := place(o.Position)
	keys := []string{key("owed", at), ofBox(o.Debtor, "owes", at), ofBox(o.Creditor, "owing", at)}
	if o.DebtorSeat != "" {
		keys = append(keys, key("charge", o.DebtorSeat, at))
	}
	switch {
	case o.Due == nil || o.Paged != nil:
	default: // also once it was nudged: a clock that went back must not hide it
		keys = append(keys, key("due", place(events.Position(*o.Due)), at))
	}
	return keys
}

// settle closes what a final message answers: the request that it replies to,
// when the debtor answers it, or the seat that drives the thread, or when anybody
// says `done` to it. A question back is no answer.
func (s *State) settle(t *Thread, m, parent *Message) {
	s.closeOwed(t, func(o Owed) bool {
		if o.ID != string(parent.ID) {
			return false
		}
		if m.Intent == events.Done {
			return true
		}
		return m.Intent != events.Request && (s.isDebtor(o, parent, m.Author) || s.drivenFrom(t, m.Author))
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
	return d.At == a.ID && o.Debtor == request.To.ID // and it was not passed on since
}

// drivenFrom says whether an author sits on the seat that drives the thread.
func (s *State) drivenFrom(t *Thread, a events.Author) bool {
	return a.Seat != "" && a.Seat == t.driver(s.Roster(t)).Seat
}

func (s *State) closeOwed(t *Thread, closes func(Owed) bool) {
	var open, closed []Owed
	for _, o := range t.Owed {
		if closes(o) {
			closed = append(closed, o)
		} else {
			open = append(open, o)
		}
	}
	t.Owed = open
	for i := range closed {
		*s.count().owed(closed[i].Kind)--
		s.unmarkOwed(closed[i])
		s.dropCalls(t, &closed[i])
	}
}

// closes closes items, as closeOwed does, and remembers those that a move closed
// in the same command, should it be undone.
func (s *State) closes(t *Thread, r events.Recorded, which func(Owed) bool) {
	if t.Move != nil && t.Move.Command == r.Cause.Command {
		for _, o := range t.Owed {
			if which(o) {
				t.Move.Closed = append(t.Move.Closed, o)
			}
		}
	}
	s.closeOwed(t, which)
}

// OwedBy says whether a seat owes the item: under its own name, or as the session
// on it that was asked.
func (o Owed) OwedBy(seat string) bool {
	return seat != "" && (o.DebtorSeat == seat || o.Debtor == events.Named(seat))
}

// OwedTo says whether the item is owed to a seat.
func (o Owed) OwedTo(seat string) bool {
	return seat != "" && (o.CreditorSeat == seat || o.Creditor == events.Named(seat))
}

func (s *State) owedPassed(e events.OwedPassed, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	if t.Move != nil && t.Move.Command == r.Cause.Command {
		for _, item := range e.Items {
			if !t.Move.Took(item) { // else it goes back to where it first came from
				t.Move.Passed = append(t.Move.Passed, Passing{Item: item, From: e.From})
			}
		}
	}
	for i := range t.Owed {
		o := &t.Owed[i]
		if !slices.Contains(e.Items, o.ID) {
			continue
		}
		s.unmarkOwed(*o)
		s.dropCalls(t, o)
		o.Debtor, o.DebtorSeat = events.Named(e.To), e.To
		o.Passed, o.Nudges, o.Nudged, o.Paged = r.Position, 0, nil, nil // its new debtor is reminded anew
		s.markOwed(t, *o)
		s.call(t, o.ID, o.Debtor, r)
	}
}

func (s *State) owedClosed(e events.OwedClosed, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	for _, o := range t.Owed {
		if o.ID == e.Item && e.Why == events.OwedByPerson {
			s.call(t, "", o.Debtor, r)
			s.call(t, "", o.Creditor, r)
		}
	}
	s.closes(t, r, func(o Owed) bool { return o.ID == e.Item })
	if h := t.Handoff(events.HandoffID(e.Item)); h != nil && h.State != HandoffIsDeclined {
		h.State, h.End = HandoffIsClosed, events.HandoffDone
	}
}

func (s *State) owedNudged(e events.OwedNudged, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	for i := range t.Owed {
		if o := &t.Owed[i]; o.ID == e.Item {
			s.dropCalls(t, o)
			s.unmarkOwed(*o)
			at := r.Time
			o.Nudges, o.Nudged = e.Nudge, &at
			s.markOwed(t, *o)
			s.remind(t, o.ID, o.Debtor, r)
		}
	}
}

func (s *State) owedPaged(e events.OwedPaged, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	item := ""
	for i := range t.Owed {
		if o := &t.Owed[i]; o.ID == e.Item {
			s.unmarkOwed(*o)
			at := r.Time
			o.Paged, item = &at, o.ID
			s.markOwed(t, *o)
		}
	}
	for _, owner := range e.Owners {
		s.remind(t, item, owner, r)
	}
}

// Item finds an open item; false when there is none with this id.
func (s *State) Item(id string) (Owed, bool) {
	for _, thread := range []events.ThreadID{s.threadOfMessage(events.MessageID(id)), s.ThreadOfHandoff(events.HandoffID(id)), s.ThreadOfReview(events.ReviewID(id))} {
		if t := s.Thread(thread); t != nil {
			for _, o := range t.Owed {
				if o.ID == id {
					return o, true
				}
			}
		}
	}
	return Owed{}, false
}

func (s *State) threadOfMessage(id events.MessageID) events.ThreadID {
	if m := s.Message(id); m != nil {
		return m.Thread
	}
	return ""
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
			all = append(all, found{at: placeOf(last(k)), thread: events.ThreadID(word(value, 0))})
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

// DueScanMax bounds how many open items one look for those that are due passes over.
const DueScanMax = 1000

// DueBy visits the open items that are due by a moment, or of which the debtor
// was reminded by then, and of which the owners were not told yet: those that one
// of these participants owes or is owed, with nil all. The longest due come first.
func (s *State) DueBy(by events.Time, of []events.Participant, visit func(Owed) bool) {
	seen := 0
	s.scan(key("due", ""), "", false, func(k string, value []byte) bool {
		if events.Time(placeOf(part(k, 1))) > by {
			return false
		}
		seen++
		debtor, creditor := events.Participant(word(value, 1)), events.Participant(word(value, 2))
		if of != nil && !slices.Contains(of, debtor) && !slices.Contains(of, creditor) {
			return seen < DueScanMax
		}
		at := placeOf(part(k, 2))
		if t := s.Thread(events.ThreadID(word(value, 0))); t != nil {
			for _, o := range t.Owed {
				if o.Position == at && !visit(o) {
					return false
				}
			}
		}
		return seen < DueScanMax
	})
}

// Charged says whether a seat owes anything: under its own name, or as the
// session on it that was asked.
func (s *State) Charged(seat string) (owes bool) {
	s.scan(key("charge", seat, ""), "", false, func(string, []byte) bool {
		owes = true
		return false
	})
	return owes
}
