package projections

import (
	"fmt"
	"slices"

	"decklog/events"
)

// Act is the place of an event that driving remembers, and who acted.
type Act struct {
	Position events.Position
	Time     events.Time
	By       events.Participant
}

func actOf(r events.Recorded) Act { return Act{Position: r.Position, Time: r.Time, By: r.Actor} }

func (a Act) because(t events.Type, format string, args ...any) Because {
	return Because{Position: a.Position, Type: t, Time: a.Time, By: a.By, Says: fmt.Sprintf(format, args...)}
}

// Post is the first word of a seat in a thread.
type Post struct {
	Seat string
	Act
}

// Sticker is a mark that lies on the thread's root.
type Sticker struct {
	Seat      string
	Sticker   string
	Hand      events.Hand
	BySeat    string
	Unordered bool
	Act
}

func (st Sticker) because() Because {
	who := string(st.By)
	if st.BySeat != "" {
		who = st.BySeat
	}
	return st.Act.because(events.TypeStickerPlaced, "%s placed the sticker of %s", who, st.Seat)
}

// HandoffState is where a hand-off stands.
type HandoffState string

// The states.
const (
	HandoffIsOffered  HandoffState = "offered"
	HandoffIsAccepted HandoffState = "accepted"
	HandoffIsDeclined HandoffState = "declined"
	HandoffIsClosed   HandoffState = "closed"
)

// Handoff is an offer of a thread's work from one seat to another.
type Handoff struct {
	ID       events.HandoffID
	From     string
	To       string
	Link     string
	State    HandoffState
	End      events.HandoffEnd
	Event    events.EventID // that has the reason beside it
	Answer   events.EventID // that has the reason of a decline beside it; empty: none was given
	Offered  Act
	Accepted *Act
}

// Move is a routing move: a person's mention took the thread to another seat.
type Move struct {
	Message events.MessageID // that mentions
	From    string
	To      string
	Judged  Act
	InForce *Act             // nil: from the new seat's first post
	Before  []Sticker        // as they lay
	Command events.CommandID // that judged
	Passed  []Passing        // items that went with it
	Closed  []Owed           // items that it closed
}

// Passing is an item that went with a move, and the seat that owed it before.
type Passing struct {
	Item string
	From string
}

// Took says whether an item went with the move.
func (m *Move) Took(item string) bool {
	return slices.ContainsFunc(m.Passed, func(p Passing) bool { return p.Item == item })
}

// Review is a critique of one commit.
type Review struct {
	ID       events.ReviewID
	Commit   string
	Author   string
	Reviewer string
	From     string
	Due      *events.Time
	Asked    Act
	Label    events.Label
	Risk     events.Risk
	Late     bool
	Clears   bool
	Labelled *Act
	TimedOut bool // no label had come in time
}

// CardOf is a driver card of the thread.
type CardOf struct {
	Message events.MessageID
	Seat    string // whose card it is
	events.Card
}

// AckOf is an ack on a message.
type AckOf struct {
	ID   events.EventID     `json:"id"`
	By   events.Participant `json:"by"`
	Seat string             `json:"seat,omitempty"`
	Ack  events.Ack         `json:"ack"`
	Time events.Time        `json:"time"`
}

// Drove is the seat that drove after the thread's last event, and since when.
type Drove struct {
	Seat  string
	Since events.Time
}

// changedThread gives a thread that an event changes; nil when the fold never saw it.
func (s *State) changedThread(id events.ThreadID) *Thread {
	if s.Thread(id) == nil {
		return nil
	}
	return s.threads.change(s, string(id))
}

// drove notes after an event of the thread who drives it now, and since when.
func (s *State) drove(r events.Recorded) {
	id := r.Stream.Thread()
	if id == "" || s.Thread(id) == nil {
		return
	}
	t := s.Thread(id)
	seat := t.driver(s.rosterOf(s.policyAt(r.Policy))).Seat
	before := ""
	if t.Drove != nil {
		before = t.Drove.Seat
	}
	t = s.threads.change(s, string(id))
	t.Policy, t.Last = r.Policy, r.Time
	s.happened(t, r)
	switch {
	case seat == "":
		t.Drove = nil
	case seat != before:
		t.Drove = &Drove{Seat: seat, Since: r.Time}
	}
}

// spoken folds what a message means for driving into its thread: whose posts it
// holds, which seats take part, the hops, and whether it puts a move in force.
func (t *Thread) spoken(e events.MessageSent, at Act) {
	if t.Began.Position == 0 {
		t.Began, t.Kind, t.Area = at, e.Kind, e.Area
	}
	seat := e.Author.Seat
	if e.Author.Kind == events.KindSeat {
		seat = e.Author.ID.Name()
	}
	if e.Author.Kind == events.KindPerson {
		t.Hops = 0
	}
	if e.Hop > 0 {
		t.Hops = e.Hop
	}
	t.Group = t.Group || e.Group
	for _, name := range e.Mentions {
		t.seated(name)
		t.joins(events.Named(name))
	}
	if seat == "" {
		return
	}
	switch e.Kind {
	case events.KindMessage:
		t.Posts = posted(t.Posts, seat, at)
		if t.Move != nil && t.Move.InForce == nil && t.Move.To == seat {
			move := *t.Move
			move.InForce = &at
			t.Move = &move
		}
	case events.KindMirror:
		t.Mirrors = posted(t.Mirrors, seat, at)
	}
}

func (s *State) cardPosted(e events.CardPosted, _ events.Recorded) {
	if t := s.changedThread(e.Thread); t != nil {
		t.Cards = append(t.Cards, CardOf{Message: e.Message, Seat: e.Card.Driver, Card: e.Card})
	}
}

func (s *State) cardUpdated(e events.CardUpdated, _ events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	for i := range t.Cards {
		if t.Cards[i].Message == e.Message {
			t.Cards[i].Card = e.Card
		}
	}
}

func posted(posts []Post, seat string, at Act) []Post {
	if slices.ContainsFunc(posts, func(p Post) bool { return p.Seat == seat }) {
		return posts
	}
	return append(slices.Clip(posts), Post{Seat: seat, Act: at})
}

// DriverAfter is who will drive a thread once a message was sent in it.
func (s *State) DriverAfter(t *Thread, e events.MessageSent, r events.Recorded) Driver {
	var after Thread
	if t != nil {
		after = *t
		after.Seats, after.Participants = slices.Clone(t.Seats), slices.Clone(t.Participants)
		after.Cards = slices.Clone(t.Cards)
	} else {
		after.Asker = e.Author
	}
	if e.Author.Seat != "" {
		after.seated(e.Author.Seat)
	}
	if e.To.Kind == events.KindSeat {
		after.seated(e.To.ID.Name())
	}
	after.spoken(e, actOf(r))
	after.Policy = r.Policy
	return s.Driver(&after)
}

// Posted says whether a seat has a real post in the thread.
func (t *Thread) Posted(seat string) bool {
	return slices.ContainsFunc(t.Posts, func(p Post) bool { return p.Seat == seat })
}

// PersonsSticker is a sticker that a person placed, that lies, and that names a
// seat of the roster; nil when none does.
func (t *Thread) PersonsSticker(r Roster) *Sticker {
	for i := range t.Stickers {
		if t.Stickers[i].Hand == events.HandPerson && slices.Contains(r.Order, t.Stickers[i].Seat) {
			return &t.Stickers[i]
		}
	}
	return nil
}

// Handoff finds a hand-off of the thread; nil when it has none with this id.
func (t *Thread) Handoff(id events.HandoffID) *Handoff {
	for i := range t.Handoffs {
		if t.Handoffs[i].ID == id {
			return &t.Handoffs[i]
		}
	}
	return nil
}

// OpenOffer is the hand-off that is offered and not answered; nil when there is none.
func (t *Thread) OpenOffer() *Handoff {
	for i := range t.Handoffs {
		if t.Handoffs[i].State == HandoffIsOffered {
			return &t.Handoffs[i]
		}
	}
	return nil
}

// HandoffsWith lists the hand-offs whose id begins with a prefix, at most limit.
func (s *State) HandoffsWith(prefix string, limit int) (ids []events.HandoffID) {
	s.scan(key("handoff", prefix), "", false, func(k string, _ []byte) bool {
		ids = append(ids, events.HandoffID(last(k)))
		return len(ids) < limit
	})
	return ids
}

// ReviewsWith lists the reviews whose id begins with a prefix, at most limit.
func (s *State) ReviewsWith(prefix string, limit int) (ids []events.ReviewID) {
	s.scan(key("review", prefix), "", false, func(k string, _ []byte) bool {
		ids = append(ids, events.ReviewID(last(k)))
		return len(ids) < limit
	})
	return ids
}

// ThreadOfHandoff is the thread of a hand-off; empty when there is none with this id.
func (s *State) ThreadOfHandoff(id events.HandoffID) events.ThreadID {
	return events.ThreadID(s.get(key("handoff", string(id))))
}

// ThreadOfReview is the thread of a review; empty when there is none with this id.
func (s *State) ThreadOfReview(id events.ReviewID) events.ThreadID {
	return events.ThreadID(s.get(key("review", string(id))))
}

// Review finds a review of the thread; nil when it has none with this id.
func (t *Thread) Review(id events.ReviewID) *Review {
	for i := range t.Reviews {
		if t.Reviews[i].ID == id {
			return &t.Reviews[i]
		}
	}
	return nil
}

func (s *State) ackPlaced(e events.AckPlaced, r events.Recorded) {
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	m.Acks = append(m.Acks, AckOf{ID: r.ID, By: e.By, Seat: e.Seat, Ack: e.Ack, Time: r.Time})
	if t := s.Thread(e.Thread); t != nil && e.Seat != "" {
		s.taken(t, m, e.Seat, r.Time)
	}
}

func (s *State) stickerPlaced(e events.StickerPlaced, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	t.seated(e.Seat)
	st := Sticker{Seat: e.Seat, Sticker: e.Sticker, Hand: e.Hand, BySeat: e.BySeat, Unordered: e.Unordered, Act: actOf(r)}
	st.By = e.By
	t.Stickers = slices.DeleteFunc(slices.Clone(t.Stickers), func(old Sticker) bool { return old.Seat == e.Seat && old.By == e.By })
	t.Stickers = append(t.Stickers, st)
	if e.Hand == events.HandPerson && t.Move != nil && t.Move.InForce == nil {
		t.Move = nil
	}
}

func (s *State) stickerRemoved(e events.StickerRemoved, _ events.Recorded) {
	if t := s.changedThread(e.Thread); t != nil {
		t.Stickers = slices.DeleteFunc(slices.Clone(t.Stickers), func(st Sticker) bool { return st.Seat == e.Seat && st.By == e.Of })
	}
}

func (s *State) handoffOffered(e events.HandoffOffered, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	t.seated(e.From)
	t.seated(e.To)
	t.joins(events.Named(e.From))
	t.joins(events.Named(e.To))
	t.Handoffs = append(t.Handoffs, Handoff{
		ID: e.Handoff, From: e.From, To: e.To, Link: e.Link, State: HandoffIsOffered, Event: r.ID, Offered: actOf(r),
	})
	s.mark(key("handoff", string(e.Handoff)), string(t.ID))
	s.owes(t, Owed{
		ID: string(e.Handoff), Kind: OwedHandoff, Thread: t.ID, Debtor: events.Named(e.To), DebtorSeat: e.To,
		Creditor: events.Named(e.From), Since: r.Time, Due: e.Due, Position: r.Position,
	})
	s.call(t, string(e.Handoff), events.Named(e.To), r)
}

// handoff changes a hand-off of a thread; nil when the fold never saw it.
func (s *State) handoff(thread events.ThreadID, id events.HandoffID) (*Thread, *Handoff) {
	if t := s.Thread(thread); t == nil || t.Handoff(id) == nil {
		return nil, nil
	}
	t := s.threads.change(s, string(thread))
	return t, t.Handoff(id)
}

func (s *State) handoffAccepted(e events.HandoffAccepted, r events.Recorded) {
	t, h := s.handoff(e.Thread, e.Handoff)
	if t == nil {
		return
	}
	act := actOf(r)
	h.State, h.Accepted = HandoffIsAccepted, &act
	t.Move = nil
	for i := range t.Owed {
		if o := &t.Owed[i]; o.ID == string(h.ID) {
			s.dropCalls(t, o)
			s.unmarkOwed(*o)
			o.Due, o.Nudges, o.Nudged, o.Paged = e.Due, 0, nil, nil // the work is owed now, and not the answer
			s.markOwed(t, *o)
		}
	}
	s.call(t, "", events.Named(h.From), r)
}

func (s *State) handoffDeclined(e events.HandoffDeclined, r events.Recorded) {
	if t, h := s.handoff(e.Thread, e.Handoff); t != nil {
		h.State = HandoffIsDeclined
		if e.Reason != nil {
			h.Answer = r.ID
		}
		s.closeOwed(t, func(o Owed) bool { return o.ID == string(h.ID) })
		s.call(t, "", events.Named(h.From), r)
	}
}

func (s *State) handoffClosed(e events.HandoffClosed, r events.Recorded) {
	t, h := s.handoff(e.Thread, e.Handoff)
	if t == nil {
		return
	}
	h.State, h.End = HandoffIsClosed, e.Reason
	s.closes(t, r, func(o Owed) bool { return o.ID == string(h.ID) })
	if e.Reason != events.HandoffCreditor {
		for _, seat := range []string{h.From, h.To} {
			if events.Named(seat) != e.By && !s.occupies(e.By, seat) {
				s.call(t, "", events.Named(seat), r)
			}
		}
	}
}

// occupies says whether a participant is the session on a seat.
func (s *State) occupies(p events.Participant, seat string) bool {
	row := s.Seat(seat)
	return row != nil && row.Occupant != "" && events.Participant(row.Occupant) == p
}

func (s *State) routingJudged(e events.RoutingJudged, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	if m := s.changed(e.Message); m != nil {
		m.Verdict, m.Unclear = e.Verdict, e.Verdict == events.VerdictUnavailable && !e.ByHand
	}
	if e.Verdict != events.VerdictRoute {
		return
	}
	t.seated(e.To)
	act := actOf(r)
	move := Move{Message: e.Message, From: e.From, To: e.To, Judged: act, Before: slices.Clone(t.Stickers), Command: r.Cause.Command}
	if old := t.Move; old != nil && old.InForce == nil {
		// Until this one is in force they are read as they lay before both; and what
		// went with the one before it goes back with this one.
		move.Before, move.Passed, move.Closed = old.Before, old.Passed, old.Closed
	}
	if t.Posted(e.To) || len(t.Posts) == 0 {
		move.InForce = &act
	}
	t.Move = &move
	s.call(t, "", events.Named(e.From), r)
}

func (s *State) routingUndone(e events.RoutingUndone, _ events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil || t.Move == nil || t.Move.Message != e.Message {
		return
	}
	for _, o := range s.Reopened(t) {
		s.owes(t, o)
		if h := t.Handoff(events.HandoffID(o.ID)); h != nil {
			h.State, h.End = HandoffIsAccepted, ""
		}
	}
	t.Move = nil
}

// Reopened lists what a move closed and is owed again should it be undone: what was
// settled otherwise since is not.
func (s *State) Reopened(t *Thread) (open []Owed) {
	if t.Move == nil {
		return nil
	}
	for _, o := range t.Move.Closed {
		settled := false
		switch o.Kind {
		case OwedReview:
			v := t.Review(events.ReviewID(o.ID))
			settled = v == nil || v.Labelled != nil
		case OwedHandoff:
			h := t.Handoff(events.HandoffID(o.ID))
			settled = h == nil || h.End != events.HandoffCreditor
		case OwedReply:
			m := s.Message(events.MessageID(o.ID))
			settled = t.Done || m == nil || m.Deleted != nil
		}
		if !settled {
			open = append(open, o)
		}
	}
	return open
}

func (s *State) reviewAsked(e events.ReviewAsked, r events.Recorded) {
	t := s.changedThread(e.Thread)
	if t == nil {
		return
	}
	t.Reviews = append(t.Reviews, Review{
		ID: e.Review, Commit: e.Commit, Author: e.Author, Reviewer: e.Reviewer, From: e.From, Due: e.Due, Asked: actOf(r),
	})
	s.mark(key("review", string(e.Review)), string(t.ID))
	debtor := e.Reviewer
	if debtor == "" {
		debtor = e.From // who has to find one
	} else {
		t.seated(debtor)
		t.joins(events.Named(debtor))
	}
	s.owes(t, Owed{
		ID: string(e.Review), Kind: OwedReview, Thread: t.ID, Debtor: events.Named(debtor), DebtorSeat: debtor,
		Creditor: events.Named(e.From), Since: r.Time, Due: e.Due, Position: r.Position,
	})
}

func (s *State) reviewLabelled(e events.ReviewLabelled, r events.Recorded) {
	t := s.Thread(e.Thread)
	if t == nil || t.Review(e.Review) == nil {
		return
	}
	t = s.threads.change(s, string(e.Thread))
	v := t.Review(e.Review)
	act := actOf(r)
	v.Label, v.Risk, v.Late, v.Clears, v.Labelled = e.Label, e.Risk, e.Late, e.Clears, &act
	s.closeOwed(t, func(o Owed) bool { return o.ID == string(e.Review) })
	s.call(t, "", events.Named(v.From), r)
	if d := t.driver(s.Roster(t)); d.Seat != "" && d.Seat != v.From {
		s.call(t, "", events.Named(d.Seat), r)
	}
}

// reviewTimedOut notes that the owners were called for want of a label: one that
// comes now is late, whatever the clock says then.
func (s *State) reviewTimedOut(e events.ReviewTimedOut, _ events.Recorded) {
	if t := s.changedThread(e.Thread); t != nil {
		if v := t.Review(e.Review); v != nil {
			v.TimedOut = true
		}
	}
}

func (s *State) seatAbsent(e events.SeatAbsent, r events.Recorded) {
	seat := s.seats.change(s, e.Seat)
	seat.Name = e.Seat
	why := actOf(r).because(r.Type(), "%s is passed over: it has had no live session since %s", e.Seat, e.Since)
	seat.Absent = &why
}

func (s *State) seatReturned(e events.SeatReturned, _ events.Recorded) {
	seat := s.seats.change(s, e.Seat)
	seat.Name, seat.Absent = e.Seat, nil
}

// taken drops the copies of a person's message that are held for those who come
// later in order than the seat that took it, or than the driver (R5).
func (s *State) taken(t *Thread, m *Message, seat string, at events.Time) {
	if m.Author.Kind != events.KindPerson {
		return
	}
	roster := s.Roster(t)
	driver := t.driver(roster).Seat
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		if d.Hold == nil || !d.Waits() || at >= *d.Hold || d.To == events.Named(seat) {
			continue
		}
		if seat == driver || slices.Index(roster.Order, seat) < slices.Index(roster.Order, d.To.Name()) {
			m = s.messages.change(s, string(m.ID))
			d = &m.Deliveries[i]
			s.dequeue(d.At, m)
			d.State = events.StateDropped
		}
	}
}

// takenBy drops what a seat's post in the thread takes: the held copies of the
// persons' messages before it.
func (s *State) takenBy(t *Thread, seat string, at events.Time) {
	t.Held = slices.DeleteFunc(slices.Clone(t.Held), func(id events.MessageID) bool {
		m := s.Message(id)
		if m == nil {
			return true
		}
		s.taken(t, m, seat, at)
		return !slices.ContainsFunc(m.Deliveries, func(d Delivery) bool { return d.Hold != nil && d.Waits() })
	})
}
