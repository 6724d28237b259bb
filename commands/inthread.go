package commands

import (
	"slices"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// FindThread finds the thread that the full id, or a prefix that only one has, of
// a thread or of a message in it names.
func FindThread(s *projections.State, id string) (*projections.Thread, *Refusal) {
	id = strings.TrimSpace(id)
	if t := s.Thread(events.ThreadID(id)); t != nil {
		return t, nil
	}
	thread := events.ThreadID("")
	if m := s.Message(events.MessageID(id)); m != nil {
		thread = m.Thread
	} else {
		if len(id) < PrefixMin {
			return nil, refuse(BadRequest, "%q is too short for the id of a thread or message: at least %d characters", id, PrefixMin).
				fix("use the id as the inbox or the receipt shows it").example("decklog inbox")
		}
		threads, messages := s.Find(id, 2)
		switch {
		case len(threads)+len(messages) > 1:
			return nil, refuse(BadRequest, "%q begins the ids of several threads or messages", id).
				fix("use more characters of the id").example("decklog inbox")
		case len(threads) == 1:
			thread = threads[0]
		case len(messages) == 1:
			m, r := FindMessage(s, string(messages[0]))
			if r != nil {
				return nil, r
			}
			thread = m.Thread
		default:
			return nil, refuse(NotFound, "no thread's and no message's id is or begins with %q", id)
		}
	}
	t := s.Thread(thread)
	if t == nil {
		return nil, damagedView("the thread %s", thread)
	}
	return t, nil
}

// inThread is a command about a thread on its way to a decision: who asks, the
// thread, who drives it, and what was decided so far.
type inThread struct {
	Call
	s      *projections.State
	now    events.Time
	policy events.Policy
	from   events.Author
	t      *projections.Thread
	driver projections.Driver
	cause  events.EventID // of the events; empty: none
	out    []events.Proposed
}

// within finds out who asks, who must be there, and the thread that is named.
func (c Call) within(s *projections.State, id string, now events.Time, p events.Policy) (*inThread, *Refusal) {
	if !c.Caller.Known() {
		return nil, c.nobody("who is asking")
	}
	d := &inThread{Call: c, s: s, now: now, policy: p}
	var live bool
	if d.from, live = c.author(s, now, p); !live {
		return nil, NotLive(s, c, now)
	}
	var r *Refusal
	if d.t, r = FindThread(s, id); r != nil {
		return nil, r
	}
	d.driver = s.DriverNow(d.t)
	return d, nil
}

func (d *inThread) add(e events.Event, body *events.Body) {
	d.out = append(d.out, events.Proposed{
		Stream: events.ThreadStream(d.t.ID), ID: d.ID.Event(len(d.out)), Actor: d.from.ID,
		Cause: events.Cause{Command: d.ID, Event: d.cause}, Event: e, Body: body,
	})
}

func (d *inThread) person() bool { return d.from.Kind == events.KindPerson }

// drives says whether the one who asks sits on the seat that drives.
func (d *inThread) drives() bool { return d.from.Seat != "" && d.from.Seat == d.driver.Seat }

// notDriver refuses what only the driver does.
func (d *inThread) notDriver(what string) *Refusal {
	r := refuse(NotDriver, "%s does not drive thread %s: %s", d.who(), d.t.ID, drivenBy(d.driver)).
		fix("ask the seat that drives to %s", what)
	r.Thread = d.t.ID
	switch {
	case d.person():
		return r.fix("a person moves a thread with a sticker").example("decklog sticker place %s SEAT", d.t.ID)
	case d.driver.Seat != "": // in a thread of its own: a post in this one may itself move it
		return r.example(`decklog send --to @%s --intent request -- "May I take thread %s over?"`, d.driver.Seat, d.t.ID)
	}
	return r.example("decklog driver %s --why", d.t.ID)
}

func (d *inThread) who() string {
	if d.from.Seat != "" {
		return "seat " + d.from.Seat
	}
	return string(d.from.ID)
}

func drivenBy(d projections.Driver) string {
	if d.Seat == "" {
		return "no seat does"
	}
	return d.Seat + " does (" + string(d.Source) + ")"
}

// seat finds a seat of the roster by its name or by the name of any of its stickers.
func seatNamed(p events.Policy, name string) (events.Seat, *Refusal) {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	if seat, found := SeatOfSticker(p, name); found {
		return seat, nil
	}
	var known []string
	for _, seat := range p.Seats {
		known = append(known, seat.Name)
	}
	if len(known) == 0 {
		return events.Seat{}, refuse(NoSuchSeat, "the policy has no seats, and none is called %q", cut(name, ToBytesMax)).
			fix("have a person write seats into the policy and adopt it").example("decklog policy adopt --policy decklog.toml")
	}
	return events.Seat{}, refuse(NoSuchSeat, "no seat of the roster is called %q; there are %s", cut(name, ToBytesMax), strings.Join(known, ", "))
}

// SeatOfSticker finds the seat that a name stands for: its own, or any of its
// stickers', so that a name which appears later orphans nothing.
func SeatOfSticker(p events.Policy, name string) (events.Seat, bool) {
	if name == "" {
		return events.Seat{}, false
	}
	for _, seat := range p.Seats {
		if seat.Name == name {
			return seat, true
		}
	}
	for _, seat := range p.Seats {
		if seat.Fallback == name || slices.Contains(seat.Stickers, name) {
			return seat, true
		}
	}
	return events.Seat{}, false
}

// StickerOf is the name of the mark to place for a seat: the first of its names
// that exists where it is placed, else its fallback, else its own name. Nil
// exists: there every name does.
func StickerOf(seat events.Seat, exists func(string) bool) string {
	for _, name := range seat.Stickers {
		if exists == nil || exists(name) {
			return name
		}
	}
	return or(seat.Fallback, seat.Name)
}

// follow passes what these seats owed in the thread to the one that drives from
// now on, and with it what a move that is not in force yet had taken elsewhere;
// what would be owed to itself is closed. An open offer is owed by the one that is
// asked, whoever drives.
func (d *inThread) follow(to string, from ...string) {
	passed := map[string][]string{}
	var order []string
	for _, o := range d.t.Owed {
		seat := d.holder(o, to, from)
		switch {
		case seat == "":
		case !o.OwedTo(to):
			if passed[seat] == nil {
				order = append(order, seat)
			}
			passed[seat] = append(passed[seat], o.ID)
		case o.Kind == projections.OwedHandoff:
			d.add(events.HandoffClosed{Handoff: events.HandoffID(o.ID), Thread: d.t.ID, By: d.from.ID, Reason: events.HandoffCreditor}, nil)
		default:
			d.add(events.OwedClosed{Thread: d.t.ID, Item: o.ID, By: d.from.ID, Why: events.OwedToOneself}, nil)
		}
	}
	for _, seat := range order {
		d.add(events.OwedPassed{Thread: d.t.ID, Items: passed[seat], From: seat, To: to, By: d.from.ID}, nil)
	}
}

// holder is the seat from which an item follows the driver to another; empty: it stays.
func (d *inThread) holder(o projections.Owed, to string, from []string) string {
	if open := d.t.OpenOffer(); open != nil && o.ID == string(open.ID) {
		return ""
	}
	for _, seat := range from {
		if seat != to && o.OwedBy(seat) {
			return seat
		}
	}
	if m := d.t.Move; m != nil && m.InForce == nil && m.To != to && o.OwedBy(m.To) && m.Took(o.ID) {
		return m.To
	}
	return ""
}

// lapse closes an open offer, which another act that moves the driver overtook.
func (d *inThread) lapse() {
	if h := d.t.OpenOffer(); h != nil {
		d.add(events.HandoffClosed{Handoff: h.ID, Thread: d.t.ID, By: d.from.ID, Reason: events.HandoffLapsed}, nil)
	}
}

// restamp takes off every sticker that a seat placed and puts one on, by the hand
// of a seat; while a person's sticker lies, none is touched.
func (d *inThread) restamp(to, hand string) {
	if d.personsSticker() {
		return
	}
	seat, known := SeatOfSticker(d.policy, to)
	lie := d.seatStickers()
	if !known || len(lie) == 1 && lie[0].Seat == to {
		return
	}
	d.peel()
	d.add(events.StickerPlaced{
		Thread: d.t.ID, Seat: to, Sticker: StickerOf(seat, nil), By: events.Named(hand), Hand: events.HandSeat, BySeat: hand,
	}, nil)
}

func (d *inThread) seatStickers() (lie []projections.Sticker) {
	for _, st := range d.t.Stickers {
		if st.Hand == events.HandSeat {
			lie = append(lie, st)
		}
	}
	return lie
}

// peel takes off every sticker that a seat placed, whomever it names.
func (d *inThread) peel() {
	for _, st := range d.seatStickers() {
		d.add(events.StickerRemoved{Thread: d.t.ID, Seat: st.Seat, Of: st.By, By: d.from.ID}, nil)
	}
}

func (d *inThread) personsSticker() bool { return d.t.PersonsSticker(d.s.RosterNow()) != nil }

// undo takes back a move that is not in force, as if it had never been made: the
// stickers as they lay before, and what it closed is owed again. What went with it
// goes back where back is true, else it is for whoever called to pass it on.
func (d *inThread) undo(because events.MessageID, back bool) {
	m := d.t.Move
	if m == nil || m.InForce != nil {
		return
	}
	d.add(events.RoutingUndone{Message: m.Message, Thread: d.t.ID, Because: because, By: d.from.ID}, nil)
	if !d.personsSticker() {
		d.peel()
		for _, st := range m.Before {
			if st.Hand == events.HandSeat {
				d.add(events.StickerPlaced{Thread: d.t.ID, Seat: st.Seat, Sticker: st.Sticker, By: st.By, Hand: st.Hand, BySeat: st.BySeat}, nil)
			}
		}
	}
	t := *d.t
	t.Owed = append(slices.Clone(t.Owed), d.s.Reopened(d.t)...)
	d.t = &t
	if back {
		d.giveBack(m)
	}
}

// giveBack passes what went with a move to the seats that owed it before.
func (d *inThread) giveBack(m *projections.Move) {
	items := map[string][]string{}
	var order []string
	for _, o := range d.t.Owed {
		i := slices.IndexFunc(m.Passed, func(p projections.Passing) bool { return p.Item == o.ID })
		if i < 0 || !o.OwedBy(m.To) {
			continue
		}
		from := m.Passed[i].From
		if items[from] == nil {
			order = append(order, from)
		}
		items[from] = append(items[from], o.ID)
	}
	for _, seat := range order {
		d.add(events.OwedPassed{Thread: d.t.ID, Items: items[seat], From: m.To, To: seat, By: d.from.ID}, nil)
	}
}
