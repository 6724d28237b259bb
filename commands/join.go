package commands

import (
	"slices"
	"strings"
	"time"

	"decklog/events"
	"decklog/projections"
)

// Join asks for a session to take part, and perhaps to occupy a seat.
type Join struct {
	Call
	Session    string
	Harness    string
	Source     events.Source
	Cwd        string
	Repo       string
	Branch     string
	Title      string
	Seat       string // without the "@"; empty: none, or the one that it has
	Process    *events.Process
	Transcript string
}

// AttributeBytesMax bounds each of a session's attributes.
const AttributeBytesMax = 4096

// Decide registers the session, and takes the seat first: of two sessions that
// claim one seat, the stream of the seat lets one win. A seat that was absent is
// so no more. A session that is registered as it is already changes nothing.
func (c Join) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	if what := CheckSessionID(c.Session); what != "" {
		return nil, refuse(BadRequest, "%s", what).
			fix("give the harness's own full id of the session").example("decklog join --session 5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90 --harness claude-code")
	}
	for _, a := range []*string{&c.Harness, &c.Cwd, &c.Repo, &c.Branch, &c.Title, &c.Transcript} {
		if len(*a) > AttributeBytesMax {
			return nil, refuse(BadRequest, "an attribute of the session takes %d bytes; at most %d", len(*a), AttributeBytesMax).
				example("decklog join --session %s", or(safeWord(c.Session), "SESSION"))
		}
		*a = strings.ToValidUTF8(*a, "\ufffd") // as it will be recorded, so that joining again is known as the same
	}
	j := joining{Join: c, s: s, now: now, policy: p}
	j.session = s.Session(events.SessionID(c.Session))
	if r := j.takeSeat(); r != nil {
		return nil, r
	}
	j.register()
	j.returned()
	return j.out, nil
}

// returned says that a seat which was passed over has a session again: this one
// takes it, or comes back to it.
func (j *joining) returned() {
	me := events.SessionID(j.Session)
	name := ""
	if j.session != nil {
		name = j.s.SeatOf(j.session)
	}
	for _, p := range j.out {
		if taken, is := p.Event.(events.SeatTaken); is {
			name = taken.Seat
		}
	}
	if seat := j.s.Seat(name); seat != nil && seat.Absent != nil {
		j.add(events.SeatStream(name), events.SeatReturned{Seat: name, Session: me})
	}
}

type joining struct {
	Join
	s       *projections.State
	now     events.Time
	policy  events.Policy
	session *projections.Session // as it was; nil: new
	out     []events.Proposed
}

func (j *joining) add(stream events.Stream, e events.Event) {
	j.out = append(j.out, events.Proposed{
		Stream: stream, ID: j.ID.Event(len(j.out)), Actor: events.Participant(j.Session),
		Cause: events.Cause{Command: j.ID}, Event: e,
	})
}

// takeSeat claims the seat that was asked for, or the one that passes on from
// the session before this one in the same process.
func (j *joining) takeSeat() *Refusal {
	me := events.SessionID(j.Session)
	if j.Seat == "" {
		if before := j.follows(); before != nil && before.Seat != "" && (j.session == nil || j.session.Seat == "") {
			j.claim(before.Seat, before.ID)
		}
		return nil
	}
	if what := CheckName(j.Seat); what != "" {
		return refuse(BadRequest, "the seat: %s", what).example("decklog join --session %s --seat smith", or(safeWord(j.Session), "SESSION"))
	}
	if len(j.policy.Seats) > 0 && !KnownSeat(j.s, j.policy, j.Seat) {
		return refuse(NoSuchSeat, "no seat of the roster is called %s", j.Seat)
	}
	if len(j.policy.Seats) == 0 && slices.ContainsFunc(j.policy.Persons, func(p events.Person) bool { return p.Name == j.Seat }) {
		return refuse(NoSuchSeat, "%s is a person of the policy, who could no longer be addressed", j.Seat).
			example("decklog join --session %s --seat smith", or(safeWord(j.Session), "SESSION"))
	}
	seat := j.s.Seat(j.Seat)
	if seat == nil || seat.Occupant == "" || seat.Occupant == me {
		if seat == nil || seat.Occupant != me {
			j.claim(j.Seat, "")
		}
		return nil
	}
	occupant := j.s.Session(seat.Occupant)
	if occupant != nil && j.live(occupant, j.now) || arrives(seat, occupant, j.now) {
		r := refuse(SeatIsTaken, "the seat %s is occupied by session %s since %s", j.Seat, seat.Occupant, seat.Since).
			example(`decklog send --to %s --intent request -- "May I take your seat?"`, or(safeWord("@"+j.Seat), "@SEAT"))
		if occupant != nil {
			r.Candidates = []Candidate{j.candidate(occupant, j.now)}
		}
		return r
	}
	j.claim(j.Seat, seat.Occupant)
	if occupant != nil {
		j.end(occupant, gone(j.look(occupant))) // what it had taken for the seat is for this one
	}
	return nil
}

// arrivalMax is how long after it took a seat a session may be in joining.
const arrivalMax = 10 * time.Second

// arrives says whether an occupant took its seat a moment ago and is about to
// join. In a ledger that takes one stream after the other, somebody else may look
// between the two.
func arrives(seat *projections.Seat, occupant *projections.Session, now events.Time) bool {
	out := occupant == nil || occupant.Left != nil && *occupant.Left < seat.Since
	return out && now.Sub(seat.Since).Abs() < arrivalMax
}

// end records that another session ended, if nobody did yet.
func (j *joining) end(other *projections.Session, reason events.EndReason) {
	if other.Left != nil {
		return
	}
	for _, e := range leaving(j.s, other, reason) {
		j.add(e.stream, e.event)
	}
}

func (j *joining) claim(seat string, from events.SessionID) {
	j.add(events.SeatStream(seat), events.SeatTaken{Seat: seat, Session: events.SessionID(j.Session), Protocol: events.Protocol, From: from})
}

// follows is the session that this one takes the place of in their process:
// one that was cleared, or has left. A process may run several sessions, so one
// that merely shares it is followed by nobody; and nothing passes on to a fork.
func (j *joining) follows() *projections.Session {
	if j.Process == nil || j.Source == events.SourceFork {
		return nil
	}
	before := j.s.RanIn(*j.Process)
	if before == nil || before.ID == events.SessionID(j.Session) || before.Left == nil && j.Source != events.SourceClear {
		return nil
	}
	return before
}

// register joins the session, and ends the one that was cleared for it.
func (j *joining) register() {
	if before := j.follows(); before != nil {
		j.end(before, events.EndCleared)
	}
	person := PersonOf(j.policy, j.OSUser)
	e := events.SessionJoined{
		Session: events.SessionID(j.Session), Harness: j.Harness, Source: j.Source, Cwd: j.Cwd, Repo: j.Repo, Branch: j.Branch,
		Title: j.Title, Person: person, Device: j.Device, Process: j.Process, Transcript: j.Transcript,
	}
	if e.Source == "" {
		e.Source = events.SourceManual
	}
	if was := j.session; was != nil {
		e.Harness, e.Cwd, e.Repo = or(e.Harness, was.Harness), or(e.Cwd, was.Cwd), or(e.Repo, was.Repo)
		e.Branch, e.Title, e.Transcript = or(e.Branch, was.Branch), or(e.Title, was.Title), or(e.Transcript, was.Transcript)
		if e.Process == nil && e.Source == events.SourceManual && j.live(was, j.now) {
			e.Process = was.Process
		}
		renewed := slices.Contains([]events.Source{events.SourceCompact, events.SourceClear}, e.Source)
		if j.live(was, j.now) && !renewed && sameSession(e, was) {
			return
		}
	}
	j.add(events.SessionStream(e.Session), e)
}

func sameSession(e events.SessionJoined, was *projections.Session) bool {
	sameProcess := e.Process == was.Process || e.Process != nil && was.Process != nil && *e.Process == *was.Process
	return sameProcess && e.Harness == was.Harness && e.Cwd == was.Cwd && e.Repo == was.Repo && e.Branch == was.Branch &&
		e.Title == was.Title && e.Person == was.Person && e.Device == was.Device && e.Transcript == was.Transcript
}

// Leave asks for a session to end.
type Leave struct {
	Call
	Session   string
	Reason    events.EndReason
	FreesSeat bool // it said so itself; a session that merely ended keeps its seat for who follows
}

// Decide ends the session: what it had taken from the mailbox of its seat or
// person and not confirmed goes back. No session ends another. One that has left
// changes nothing.
func (c Leave) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	row := s.Session(events.SessionID(c.Session))
	if row == nil {
		return nil, refuse(NotFound, "the session %s never joined", c.Session).
			fix("take the id from the sessions that take part").example("decklog peers")
	}
	if c.Caller.Kind == events.KindSession && c.Caller.ID != events.Participant(row.ID) {
		return nil, refuse(NotYours, "%s asks that session %s ends", c.Caller.ID, row.ID).
			fix("leave a session to end by itself, or have a person end it").example("decklog leave")
	}
	if len(c.Reason) > WordBytesMax {
		return nil, refuse(BadRequest, "the reason has %d bytes", len(c.Reason)).
			fix("give a word of at most %d bytes, or none", WordBytesMax).example("decklog leave")
	}
	if row.Left != nil {
		return nil, nil
	}
	by := c.Caller.ID
	if by == "" {
		by = events.Participant(row.ID)
	}
	var out []events.Proposed
	for _, e := range leaving(s, row, c.Reason) {
		out = append(out, events.Proposed{
			Stream: e.stream, ID: c.ID.Event(len(out)), Actor: by,
			Cause: events.Cause{Command: c.ID}, Event: e.event,
		})
	}
	if c.FreesSeat && row.Seat != "" {
		out = append(out, events.Proposed{
			Stream: events.SeatStream(row.Seat), ID: c.ID.Event(len(out)), Actor: by,
			Cause: events.Cause{Command: c.ID},
			Event: events.SeatLeft{Seat: row.Seat, Session: row.ID, Reason: c.Reason},
		})
	}
	return out, nil
}

type placed struct {
	stream events.Stream
	event  events.Event
}

// leaving is what a session's end brings: it left, and what it had taken for
// its seat or its person lies where it was addressed to.
func leaving(s *projections.State, row *projections.Session, reason events.EndReason) []placed {
	out := []placed{{events.SessionStream(row.ID), events.SessionLeft{Session: row.ID, Reason: reason}}}
	me := events.Participant(row.ID)
	back := map[events.Participant][]events.Moved{}
	var order []events.Participant
	s.QueuedMessages(me, func(q projections.Queued) bool {
		if q.Delivery.To != me {
			if back[q.Delivery.To] == nil {
				order = append(order, q.Delivery.To)
			}
			back[q.Delivery.To] = append(back[q.Delivery.To], events.Moved{Message: q.Message.ID, Thread: q.Message.Thread})
		}
		return true
	})
	for _, to := range order {
		out = append(out, placed{events.MailboxStream(to), events.MailboxReturned{Mailbox: to, Session: row.ID, Items: back[to]}})
	}
	return out
}
