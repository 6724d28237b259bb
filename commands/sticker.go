package commands

import (
	"decklog/events"
	"decklog/projections"
)

// PlaceSticker asks that a mark on a thread's root names a seat (R6).
type PlaceSticker struct {
	Call
	Thread string
	Seat   string // or the name of one of its stickers
}

// Decide places the sticker. A person may place any, and what the seat that
// drove owed goes with it; a seat places only its own, in a thread that it
// drives. Placing twice is once.
func (c PlaceSticker) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	seat, r := seatNamed(p, c.Seat)
	if r != nil {
		return nil, r
	}
	for _, st := range d.t.Stickers {
		if st.By == d.from.ID && st.Seat == seat.Name && (!d.person() || st == d.t.Stickers[len(d.t.Stickers)-1]) {
			return nil, nil
		}
	}
	if d.person() {
		d.personPlaces(seat)
		return d.out, nil
	}
	switch {
	case !d.drives():
		return nil, d.notDriver("place its sticker, or to hand the thread over")
	case seat.Name != d.from.Seat:
		return nil, refuse(NotYours, "seat %s places its own sticker, and not that of %s", d.from.Seat, seat.Name).
			fix("offer the thread to that seat").
			example(`decklog handoff offer %s --to %s --reason "it is of your lane"`, d.t.ID, seat.Name)
	}
	d.stamp(seat)
	return d.out, nil
}

func (d *inThread) personPlaces(seat events.Seat) {
	debtors := d.debtors()
	d.undo("", false)
	d.add(events.StickerPlaced{
		Thread: d.t.ID, Seat: seat.Name, Sticker: StickerOf(seat, nil), By: d.from.ID, Hand: events.HandPerson,
	}, nil)
	if seat.Name != d.driver.Seat {
		d.lapse()
	}
	d.follow(seat.Name, debtors...)
}

// stamp places a driving seat's own sticker, once. While a person's sticker lies,
// or a move takes the thread elsewhere, a seat stamps nothing.
func (d *inThread) stamp(seat events.Seat) {
	if d.t.PersonsSticker() != nil || d.t.Move != nil && d.t.Move.InForce == nil {
		return
	}
	for _, st := range d.seatStickers() {
		if st.Seat == seat.Name {
			return
		}
	}
	d.add(events.StickerPlaced{
		Thread: d.t.ID, Seat: seat.Name, Sticker: StickerOf(seat, nil), By: d.from.ID, Hand: events.HandSeat, BySeat: d.from.Seat,
	}, nil)
}

// RemoveSticker asks that a mark comes off.
type RemoveSticker struct {
	Call
	Thread string
	Seat   string
}

// Decide takes the mark off. A person takes off its own or, having none there,
// the seats'; a seat takes off what it placed itself. No item moves.
func (c RemoveSticker) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	seat, r := seatNamed(p, c.Seat)
	if r != nil {
		return nil, r
	}
	mine := func(st projections.Sticker) bool {
		return st.By == d.from.ID || d.from.Seat != "" && st.BySeat == d.from.Seat
	}
	remove := func(which func(projections.Sticker) bool) {
		for _, st := range d.t.Stickers {
			if st.Seat == seat.Name && which(st) {
				d.add(events.StickerRemoved{Thread: d.t.ID, Seat: st.Seat, Of: st.By, By: d.from.ID}, nil)
			}
		}
	}
	remove(mine)
	if len(d.out) > 0 {
		return d.out, nil
	}
	if d.person() {
		remove(func(st projections.Sticker) bool { return st.Hand != events.HandPerson })
		if len(d.out) > 0 {
			return d.out, nil
		}
	}
	for _, st := range d.t.Stickers {
		if st.Seat == seat.Name {
			return nil, refuse(NotYours, "the sticker of %s was placed by %s", seat.Name, st.By).
				fix("ask the one who placed it to take it off").example("decklog driver %s --why", d.t.ID)
		}
	}
	return nil, refuse(NotFound, "no sticker of %s lies on thread %s", seat.Name, d.t.ID).
		fix("look which stickers lie there").example("decklog thread %s", d.t.ID)
}

// inForce works on with a thread in which the move to this seat has come into
// force with its first post.
func (d *inThread) inForce(e events.MessageSent) {
	if m := d.t.Move; m != nil && m.InForce == nil && m.To == e.Author.Seat {
		t, move := *d.t, *m
		move.InForce = &projections.Act{Time: d.now, By: d.from.ID}
		t.Move = &move
		d.t = &t
	}
}
