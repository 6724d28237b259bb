package commands

import (
	"fmt"
	"slices"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// RoutingProtocol is the oldest protocol of a driver's seat that a person's
// mention moves a thread from.
const RoutingProtocol = 5

// Question is whether a person's mention of a seat moves its thread (R12).
type Question struct {
	Message *projections.Message
	Thread  *projections.Thread
	From    string // the seat that drives
	To      string // the seat that is mentioned
}

// Routing says whether there is a question to ask about a message, and if not,
// why: the first condition of R12 that does not hold.
func Routing(s *projections.State, m *projections.Message) (q Question, why string) {
	t := s.Thread(m.Thread)
	if t == nil {
		return q, "its thread is not known"
	}
	driver := s.DriverNow(t).Seat
	q = Question{Message: m, Thread: t, From: driver}
	called := m.Called()
	if len(called) == 1 {
		q.To = called[0]
	}
	switch {
	case m.Author.Kind != events.KindPerson:
		return q, "no person wrote it"
	case m.Group:
		return q, "it mentions all seats"
	case len(called) == 0:
		return q, "it mentions no seat"
	case driver == "":
		return q, "no seat drives the thread"
	case slices.Contains(called, driver):
		return q, "it mentions the driver"
	case len(called) > 1:
		return q, "it mentions several seats"
	case m.Deleted != nil:
		return q, "the message was deleted"
	case t.Done:
		return q, "the thread is closed"
	case t.PersonsSticker(s.RosterNow()) != nil:
		return q, "human sticker"
	}
	protocol := 0
	if seat := s.Seat(driver); seat != nil {
		protocol = seat.Protocol
	}
	if protocol < RoutingProtocol {
		return q, fmt.Sprintf("driver below protocol %d", RoutingProtocol)
	}
	return q, ""
}

// Route records a verdict on a person's mention, and moves the thread where it
// is to route.
type Route struct {
	Call
	Thread  string
	Message string
	Verdict string
	Says    string // why it is unavailable
	ByHand  bool   // somebody's own word, and not a classifier's
}

// Decide records the verdict: one for a message, where an `unavailable` that is
// nobody's word leaves it open to somebody's. It is given by the driver's seat or
// a person. Where a condition of R12 does not hold any more, a
// `route` is recorded as no move, with the reason.
func (c Route) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	verdict := events.Verdict(strings.ToLower(strings.TrimSpace(c.Verdict)))
	switch verdict {
	case events.VerdictRoute, events.VerdictStay, events.VerdictUnavailable:
	default:
		return nil, refuse(BadRequest, "the verdict %q is none of route, stay, unavailable", c.Verdict).example("decklog route THREAD MESSAGE route")
	}
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	m, r := FindMessage(s, c.Message)
	if r != nil {
		return nil, r
	}
	if m.Thread != d.t.ID {
		return nil, refuse(NotFound, "message %s is of thread %s, and not of %s", m.ID, m.Thread, d.t.ID).naming(m.ID, m.Thread).
			example("decklog route %s %s %s", m.Thread, m.ID, verdict)
	}
	if m.Author.Kind != events.KindPerson || len(m.Called()) == 0 {
		return nil, refuse(BadRequest, "message %s is no mention of a seat by a person", m.ID).naming(m.ID, m.Thread).
			fix("judge a message in which a person mentions a seat; or place a sticker").example("decklog sticker place %s SEAT", d.t.ID)
	}
	if !d.person() && !d.drives() {
		return nil, d.notDriver("judge whether the thread moves")
	}
	if m.Verdict != "" && !(m.Unclear && c.ByHand) {
		return nil, refuse(AlreadyDecided, "message %s was judged: %s", m.ID, m.Verdict).naming(m.ID, m.Thread).
			fix("let a person move the thread with another message, or with a sticker").example("decklog sticker place %s SEAT", d.t.ID)
	}
	d.cause = m.Bodies[0]
	q, why := Routing(s, m)
	e := events.RoutingJudged{Message: m.ID, Thread: d.t.ID, Verdict: verdict, Says: c.Says, From: q.From, To: q.To, By: d.from.ID, ByHand: c.ByHand}
	if verdict == events.VerdictRoute && why != "" {
		e.Verdict, e.Says = events.VerdictNoMove, why
	}
	if e.Verdict != events.VerdictRoute {
		d.add(e, nil)
		return d.out, nil
	}
	d.lapse()
	d.add(e, nil)
	d.restamp(q.To, q.From)
	d.follow(q.To, d.driver.Seat)
	return d.out, nil
}
