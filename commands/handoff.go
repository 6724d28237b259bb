package commands

import (
	"strings"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// HandoffOffer asks another seat to take the work of a thread over (R11).
type HandoffOffer struct {
	Call
	Thread string
	To     string
	Reason []byte
	Link   string
}

// ReasonBytesMax bounds the reason of a hand-off, and what a person says when
// closing an item.
const ReasonBytesMax = 1000

// reason cleans what somebody gives as a reason, and refuses what is none.
func (c Call) reason(text []byte, example string) (events.Body, *Refusal) {
	bad := func(format string, args ...any) (events.Body, *Refusal) {
		return events.Body{}, refuse(BadRequest, format, args...).fix("say why in a line or two, with --reason").example("%s", example)
	}
	if !utf8.Valid(text) {
		return bad("the reason has bytes that are not UTF-8, the first at byte %d", firstInvalid(text))
	}
	clean := Clean(text)
	if len(clean) > ReasonBytesMax {
		return bad("the reason takes %d bytes; at most %d", len(clean), ReasonBytesMax)
	}
	if strings.TrimSpace(string(clean)) == "" {
		return bad("the reason is missing")
	}
	clean, _ = Mask(clean)
	return events.Body{Salt: c.Salt, Text: clean}, nil
}

// Decide offers the hand-off. Only the driver does, to another seat, and while
// no other offer in the thread is open. It moves nothing yet.
func (c HandoffOffer) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	const example = `decklog handoff offer THREAD --to trinity --reason "guest-card delivery is yours"`
	reason, r := c.reason(c.Reason, example)
	if r != nil {
		return nil, r
	}
	link := strings.TrimSpace(c.Link)
	if len(link) > RefBytesMax || !utf8.ValidString(link) || link != "" && !shownWhole(link) || strings.ContainsAny(link, "\n\t") {
		return nil, refuse(BadRequest, "the link takes %d bytes, or holds what cannot be shown whole; at most %d bytes, in one line", len(link), RefBytesMax).
			example(`decklog handoff offer THREAD --to trinity --reason "..." --link https://example.org/alert/17`)
	}
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	seat, r := seatNamed(p, c.To)
	if r != nil {
		return nil, r
	}
	switch open := d.t.OpenOffer(); {
	case d.t.Done:
		return nil, closedThread(d.t)
	case !d.drives():
		return nil, d.notDriver("hand it over")
	case seat.Name == d.driver.Seat:
		return nil, refuse(BadRequest, "seat %s drives the thread already", seat.Name).fix("offer it to another seat").example(example)
	case open != nil:
		r := refuse(AlreadyDecided, "hand-off %s of this thread is offered to %s and not answered yet", open.ID, open.To).
			fix("wait for its answer, or close it first").example("decklog handoff close %s", open.ID)
		r.Thread = d.t.ID
		return nil, r
	}
	e := events.HandoffOffered{
		Handoff: c.ID.Handoff(), Thread: d.t.ID, From: d.from.Seat, To: seat.Name, By: d.from.ID, Reason: reason.Commit(), Link: link,
		Due: d.due(p.Limits.OwedAfter),
	}
	d.add(e, &reason)
	return d.out, nil
}

// closedThread refuses to go on in a thread that is closed.
func closedThread(t *projections.Thread) *Refusal {
	by := t.ClosedBy
	return refuse(ReplyToDone, "thread %s was closed by %s with message %s at %s", t.ID, by.By, by.Message, by.Time).naming(by.Message, t.ID)
}

// due is when something that is owed from now on has to be there; nil under a
// policy without a bound.
func (d *inThread) due(after events.Span) *events.Time {
	if after == 0 {
		return nil
	}
	at := d.now.Add(after.Std())
	return &at
}

// handoff finds a hand-off by its id, or a refusal.
func (c Call) handoff(s *projections.State, id string, now events.Time, p events.Policy) (*inThread, *projections.Handoff, *Refusal) {
	id = whole(s.HandoffsWith, id)
	thread := s.ThreadOfHandoff(events.HandoffID(id))
	if thread == "" {
		if !c.Caller.Known() {
			return nil, nil, c.nobody("who is asking")
		}
		return nil, nil, refuse(NotFound, "no hand-off has the id %q", cut(id, ToBytesMax)).
			fix("take the id from the thread or from what is owed").example("decklog owed")
	}
	d, r := c.within(s, string(thread), now, p)
	if r != nil {
		return nil, nil, r
	}
	h := d.t.Handoff(events.HandoffID(id))
	if h == nil {
		return nil, nil, damagedView("the hand-off %s", id)
	}
	d.cause = h.Event
	return d, h, nil
}

// whole is the id that a prefix stands for; as it is given where none, or more than
// one, begins so.
func whole[ID ~string](with func(string, int) []ID, id string) string {
	id = strings.TrimSpace(id)
	if len(id) >= PrefixMin {
		if found := with(id, 2); len(found) == 1 {
			return string(found[0])
		}
	}
	return id
}

// decided refuses to answer a hand-off that is answered.
func (d *inThread) decided(h *projections.Handoff) *Refusal {
	state := string(h.State)
	if h.State == projections.HandoffIsClosed {
		state = string(h.End)
	}
	r := refuse(AlreadyDecided, "hand-off %s is %s", h.ID, state).
		fix("look who drives the thread now, and act on that").example("decklog driver %s --why", d.t.ID)
	r.Thread = d.t.ID
	return r
}

// HandoffAccept says yes to an offer.
type HandoffAccept struct {
	Call
	Handoff string
}

// Decide accepts the hand-off, for the seat that it was offered to: the stickers
// and what the offerer owed follow in the same append.
func (c HandoffAccept) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, h, r := c.handoff(s, c.Handoff, now, p)
	if r != nil {
		return nil, r
	}
	if r := d.answers(h, "accept"); r != nil {
		return nil, r
	}
	d.add(events.HandoffAccepted{Handoff: h.ID, Thread: d.t.ID, By: d.from.ID, Due: d.due(p.Limits.OwedAfter)}, nil)
	d.restamp(h.To, h.From)
	d.follow(h.To, d.driver.Seat, h.From)
	return d.out, nil
}

// answers refuses whoever the offer was not made to, and an offer that is answered.
func (d *inThread) answers(h *projections.Handoff, verb string) *Refusal {
	switch {
	case d.from.Seat != h.To:
		return d.here(refuse(NotYours, "hand-off %s is offered to seat %s, and %s asks to %s it", h.ID, h.To, d.who(), verb).
			fix("leave the answer to the seat that was asked; a person moves the thread with a sticker").
			example("decklog sticker place %s %s", d.t.ID, h.To))
	case h.State != projections.HandoffIsOffered:
		return d.decided(h)
	}
	return nil
}

// HandoffDecline says no to an offer.
type HandoffDecline struct {
	Call
	Handoff string
	Reason  []byte // may be left out
}

// Decide declines the hand-off; nothing moves.
func (c HandoffDecline) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	var body *events.Body
	if len(c.Reason) > 0 {
		reason, r := c.reason(c.Reason, `decklog handoff decline HANDOFF --reason "my lane is another"`)
		if r != nil {
			return nil, r
		}
		body = &reason
	}
	d, h, r := c.handoff(s, c.Handoff, now, p)
	if r != nil {
		return nil, r
	}
	if r := d.answers(h, "decline"); r != nil {
		return nil, r
	}
	e := events.HandoffDeclined{Handoff: h.ID, Thread: d.t.ID, By: d.from.ID}
	if body != nil {
		ref := body.Commit()
		e.Reason = &ref
	}
	d.add(e, body)
	return d.out, nil
}

// HandoffClose says that a hand-off is over.
type HandoffClose struct {
	Call
	Handoff string
}

// Decide closes the hand-off, for a seat of it, the seat that owes it now, or a
// person. It changes no driver.
func (c HandoffClose) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, h, r := c.handoff(s, c.Handoff, now, p)
	if r != nil {
		return nil, r
	}
	party := d.person() || d.from.Seat != "" && (d.from.Seat == h.From || d.from.Seat == h.To)
	for _, o := range d.t.Owed {
		party = party || o.ID == string(h.ID) && o.OwedBy(d.from.Seat)
	}
	switch {
	case !party:
		return nil, d.here(refuse(NotYours, "hand-off %s is from %s to %s, and %s asks to close it", h.ID, h.From, h.To, d.who()).
			fix("leave it to one of the two seats, or to a person").example("decklog thread %s", d.t.ID))
	case h.State == projections.HandoffIsClosed || h.State == projections.HandoffIsDeclined:
		return nil, d.decided(h)
	}
	d.add(events.HandoffClosed{Handoff: h.ID, Thread: d.t.ID, By: d.from.ID, Reason: events.HandoffDone}, nil)
	return d.out, nil
}
