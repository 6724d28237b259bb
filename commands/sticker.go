package commands

import (
	"slices"
	"strings"

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
	d.undo("", false)
	d.add(events.StickerPlaced{
		Thread: d.t.ID, Seat: seat.Name, Sticker: StickerOf(seat, nil), By: d.from.ID, Hand: events.HandPerson,
	}, nil)
	if seat.Name != d.driver.Seat {
		d.lapse()
	}
	d.follow(seat.Name, d.driver.Seat)
}

// stamp places a driving seat's own sticker, once. While a person's sticker lies,
// or a move takes the thread elsewhere, a seat stamps nothing.
func (d *inThread) stamp(seat events.Seat) {
	if d.personsSticker() || d.t.Move != nil && d.t.Move.InForce == nil {
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
// the seats' and those of persons whom the policy knows no more; a seat takes off
// the one of its own that it placed itself. No item moves; an offer lapses when
// another seat drives then.
func (c RemoveSticker) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	lie := d.lying(c.Seat)
	if len(lie) == 0 {
		return nil, d.noSticker(c.Seat)
	}
	for _, which := range d.removable() {
		if off := slices.DeleteFunc(slices.Clone(lie), func(st projections.Sticker) bool { return !which(st) }); len(off) > 0 {
			d.takeOff(off)
			return d.out, nil
		}
	}
	return nil, refuse(NotYours, "the sticker of %s was placed by %s", lie[0].Seat, lie[0].By).
		fix("ask the one who placed it to take it off; a person may take off a seat's").example("decklog driver %s --why", d.t.ID)
}

// lying lists the stickers on the thread that name a seat: by its name, also where
// the roster has it no more, or by that of any of its stickers.
func (d *inThread) lying(name string) (lie []projections.Sticker) {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	if seat, known := SeatOfSticker(d.policy, name); known {
		name = seat.Name
	}
	for _, st := range d.t.Stickers {
		if st.Seat == name || st.Sticker == name {
			lie = append(lie, st)
		}
	}
	return lie
}

// removable says which stickers the one who asks may take off: the first kind of
// which one lies there.
func (d *inThread) removable() []func(projections.Sticker) bool {
	if d.person() {
		return []func(projections.Sticker) bool{
			func(st projections.Sticker) bool { return st.By == d.from.ID },
			func(st projections.Sticker) bool {
				return st.Hand != events.HandPerson || !KnownPerson(d.policy, d.OSUser, st.By.Name())
			},
		}
	}
	return []func(projections.Sticker) bool{func(st projections.Sticker) bool {
		return d.from.Seat != "" && st.Seat == d.from.Seat && st.BySeat == d.from.Seat
	}}
}

func (d *inThread) takeOff(off []projections.Sticker) {
	after := *d.t
	after.Stickers = slices.DeleteFunc(slices.Clone(after.Stickers), func(st projections.Sticker) bool { return slices.Contains(off, st) })
	if d.s.DriverNow(&after).Seat != d.driver.Seat {
		d.lapse()
	}
	for _, st := range off {
		d.add(events.StickerRemoved{Thread: d.t.ID, Seat: st.Seat, Of: st.By, By: d.from.ID}, nil)
	}
}

// noSticker refuses to take off what does not lie there.
func (d *inThread) noSticker(name string) *Refusal {
	if _, r := seatNamed(d.policy, name); r != nil {
		return r
	}
	return refuse(NotFound, "no sticker of %s lies on thread %s", cut(name, ToBytesMax), d.t.ID).
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
