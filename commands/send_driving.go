package commands

import (
	"slices"
	"time"

	"decklog/events"
	"decklog/projections"
)

// What a send has to do with driving: who will drive, whose answer is pending,
// the hops, who gets a copy, and what the post brings about for the driver.

// toTheDriver says whether the message may leave out its recipient although it
// is a root: a person's goes to the seat that will drive the thread.
func (d *draft) toTheDriver() bool {
	return d.Caller.Kind == events.KindPerson && len(d.policy.Seats) > 0
}

// root says who will drive the thread that the message begins.
func (d *draft) root() {
	if d.area = AreaOf(d.from, d.Kind, string(d.body), string(d.payload), d.policy); d.area == nil {
		return
	}
	e := events.MessageSent{Kind: d.Kind, Author: d.from, To: d.to.Recipient, Mentions: d.mentions, Group: d.group, Area: d.area}
	if d.To == "" && d.Kind != events.KindAlert {
		e.To.Kind = events.KindSeat // whichever: it will be the driver's
		e.To.ID = events.Named(d.area.Seat)
	}
	d.driver = d.s.DriverAfter(nil, e, d.place())
}

// place is where the message's event will stand, as far as a rule looks at it.
func (d *draft) place() events.Recorded {
	r := events.Recorded{Position: d.s.Position() + 1, Time: d.now, Actor: d.from.ID}
	if p := d.s.Policy(); p != nil {
		r.Policy = p.Position
	}
	return r
}

// pending refuses an agent that answers a person while another's answer is
// pending in the thread (check 9).
func (d *draft) pending() *Refusal {
	if d.thread == nil || d.from.Kind != events.KindSession || d.Kind != events.KindMessage || d.above.Author.Kind != events.KindPerson {
		return nil
	}
	waits, _ := PendingOf(d.s, d.thread, d.from, d.now)
	if len(waits) == 0 {
		return nil
	}
	if d.Over {
		for _, w := range waits {
			d.over = append(d.over, w.Message)
		}
		return nil
	}
	w := waits[0]
	r := refuse(IsPending, "%s is answering in thread %s: its message %s is working, and is waited for until %s", w.From, d.thread.ID, w.Message, w.Until).
		naming(w.Message, d.thread.ID).example("decklog turn %s --block", d.thread.ID)
	until := w.Until
	r.Free = &until
	return r
}

// hops is how many other seats the message mentions for the first time in it,
// each of which is a hop; only what a seat says is one.
func (d *draft) hops() int {
	if d.from.Seat == "" || d.Kind != events.KindMessage {
		return 0
	}
	n := 0
	for _, seat := range d.policy.Seats {
		if seat.Name != d.from.Seat && (d.group || slices.Contains(d.mentions, seat.Name)) {
			n++
		}
	}
	return n
}

func (d *draft) before() int {
	if d.thread == nil {
		return 0
	}
	return d.thread.Hops
}

// hopLimit bounds how often seats call each other with nobody else having a word
// (check 10, R15).
func (d *draft) hopLimit() *Refusal {
	limit := d.policy.Limits.Hops
	if n := d.hops(); limit == 0 || n == 0 || d.before()+n <= limit {
		return nil
	}
	r := refuse(HopLimit, "the message would be hop %d of this thread; at most %d since a person last spoke in it", d.before()+d.hops(), limit)
	r.Count, r.Limit = d.before(), limit
	if d.above != nil {
		r.example(`decklog send --reply-to %s -- "text that mentions nobody"`, d.above.ID)
	}
	return r
}

// copies are the deliveries besides that to the recipient: in a thread in which a
// seat takes part, to the driver and to each seat that is mentioned; and of a
// person's message that mentions nobody, held, to the other seats that posted.
func (d *draft) copies() (out []events.Delivery) {
	given := map[string]bool{"": true, d.from.Seat: true, d.to.Seat: true}
	if d.from.Kind == events.KindSeat {
		given[d.from.ID.Name()] = true
	}
	if d.to.Kind == events.KindSeat {
		given[d.to.ID.Name()] = true
	}
	give := func(seat string, hold *events.Time) {
		if given[seat] {
			return
		}
		given[seat] = true
		state := events.StateHeld
		if hold == nil && d.turn == events.Final && d.occupant(d.s, seat, d.now) != nil {
			state = events.StateQueued
		}
		out = append(out, events.Delivery{To: events.Named(seat), State: state, Hold: hold})
	}
	takesPart := d.from.Seat != "" || d.to.Kind == events.KindSeat || d.to.Seat != "" || len(d.mentions) > 0 || d.group
	if takesPart || d.Kind == events.KindAlert || d.thread != nil && (len(d.thread.Seats) > 0 || d.thread.Group) {
		give(d.driver.Seat, nil)
	}
	for _, seat := range d.policy.Seats {
		if d.group || slices.Contains(d.mentions, seat.Name) {
			give(seat.Name, nil)
		}
	}
	if d.thread != nil && d.from.Kind == events.KindPerson && len(d.called()) == 0 && !d.group {
		for k, seat := range HoldingSeats(d.s, d.thread) {
			until := d.now.Add(time.Duration(k+1) * d.policy.Limits.OwnerWindow.Std())
			give(seat, &until)
		}
	}
	return out
}

// called lists the seats that the message calls, as projections.Message.Called does.
func (d *draft) called() []string {
	m := projections.Message{Author: d.from, To: d.to.Recipient, Address: d.To != "", Mentions: d.mentions}
	return m.Called()
}

// HoldingSeats lists, in seat order, the seats that hold a person's message
// which mentions nobody: those other than the driver that posted in the thread
// (R5). The k-th holds k times the owner window.
func HoldingSeats(s *projections.State, t *projections.Thread) (seats []string) {
	driver := s.DriverNow(t).Seat
	for _, seat := range s.RosterNow().Order {
		if seat != driver && t.Posted(seat) {
			seats = append(seats, seat)
		}
	}
	return seats
}

// driving adds what the message brings about for who drives: a person's word for
// the driver alone undoes a move that is not in force; an offer lapses when the
// post moves the driver; and a seat that took a turn in a thread that it drives
// stamps its own sticker, in the same append.
func (d *draft) driving(out []events.Proposed, e events.MessageSent) []events.Proposed {
	if len(d.policy.Seats) == 0 {
		return out
	}
	w := &inThread{
		Call: d.Call, s: d.s, now: d.now, policy: d.policy, from: d.from, t: d.thread, driver: d.driver, cause: d.ID.Event(0), out: out,
	}
	if w.t == nil {
		w.t = &projections.Thread{ID: e.Thread}
	}
	if called := d.called(); d.from.Kind == events.KindPerson && !d.group && len(called) == 1 && w.t.Move != nil && called[0] == w.t.Move.From {
		w.undo(e.Message, true)
		return w.out
	}
	after := d.s.DriverAfter(d.thread, e, d.place())
	if d.thread != nil && after.Seat != d.driver.Seat {
		if open := d.thread.OpenOffer(); open != nil && open.To != after.Seat { // to whom it is offered may speak first
			w.lapse()
		}
	}
	if seat, known := SeatOfSticker(d.policy, d.from.Seat); known && e.Kind == events.KindMessage && after.Seat == seat.Name {
		w.inForce(e)
		w.stamp(seat)
	}
	return w.out
}
