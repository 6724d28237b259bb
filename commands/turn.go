package commands

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"decklog/events"
	"decklog/projections"
)

// TurnVerdict is what the turn gate says to who is about to answer.
type TurnVerdict string

// The verdicts. TurnJudge leaves it to the one who asks: nobody who comes first
// took the message.
const (
	TurnAnswer  TurnVerdict = "answer"
	TurnWait    TurnVerdict = "wait"     // another's answer is pending
	TurnHold    TurnVerdict = "hold"     // those who come first have time yet
	TurnJudge   TurnVerdict = "judge"    // answer if it needs an answer
	TurnStayOut TurnVerdict = "stay_out" // no answer
)

// AskTurn asks whether its caller may answer in a thread, and when. Nothing is
// recorded.
type AskTurn struct {
	Call
	Thread  string // its id, or that of a message in it
	Message string // that would be answered; empty: found out, see question
}

// Turn is the answer of the gate. It has two parts that come in turn: the owner
// window says whether (R5), and only then pending answers say when (R4).
type Turn struct {
	Thread  events.ThreadID       `json:"thread"`
	Message events.MessageID      `json:"message"` // that would be answered; empty: none is there
	Verdict TurnVerdict           `json:"verdict"`
	Whether TurnVerdict           `json:"whether"` // of the owner window alone: no wait
	Until   *events.Time          `json:"until"`   // of a hold or a wait
	Pending []projections.Pending `json:"pending"` // what others have not finished and is waited for
	Tell    string                `json:"tell"`    // whose answer is pending and waited for no more; empty: nobody's
	Says    string                `json:"says"`    // why
	Ack     bool                  `json:"ack"`     // an ack `act` goes on the message before the wait
	overdue []projections.Pending
}

// Waits says whether time, or what somebody does meanwhile, changes the verdict.
func (t Turn) Waits() bool { return t.Verdict == TurnWait || t.Verdict == TurnHold }

// Over is the same turn for who has waited as long as anybody waits: what is
// pending is told, and waited for no more.
func (t Turn) Over() Turn {
	if t.Verdict != TurnWait {
		return t
	}
	t.overdue = append(t.overdue, t.Pending...)
	t.Verdict, t.Until, t.Ack, t.Tell, t.Pending = t.Whether, nil, false, tell(t.overdue), []projections.Pending{}
	return t
}

// Gate judges both parts at this moment.
func (c AskTurn) Gate(s *projections.State, now events.Time, p events.Policy) (Turn, *Refusal) {
	if !c.Caller.Known() {
		return Turn{}, c.nobody("who is about to answer").example("decklog turn THREAD --as SESSION")
	}
	t, r := FindThread(s, c.Thread)
	if r != nil {
		return Turn{}, r
	}
	g := gate{s: s, t: t, who: c.answerer(s, now, p), now: now, policy: p, driver: s.DriverNow(t)}
	if c.Message == "" {
		g.m = g.question()
	} else if g.m, r = FindMessage(s, c.Message); r != nil {
		return Turn{}, r
	} else if g.m.Thread != t.ID {
		return Turn{}, refuse(BadRequest, "message %s is of thread %s, and not of %s", g.m.ID, g.m.Thread, t.ID).
			example("decklog turn %s --message %s", g.m.Thread, g.m.ID)
	}
	return g.turn(), nil
}

// answerer is who asks, also when it is not live: the gate is only a look.
func (c Call) answerer(s *projections.State, now events.Time, p events.Policy) events.Author {
	a, _ := c.author(s, now, p)
	if a.Kind == events.KindSeat {
		a.Seat = a.ID.Name()
	}
	return a
}

// Answering lists what others are writing in a thread, as the caller has to know
// it: what it waits for, and what is waited for no more.
func (c Call) Answering(s *projections.State, t *projections.Thread, now events.Time, p events.Policy) (awaited, overdue []projections.Pending) {
	return PendingOf(s, t, c.answerer(s, now, p), now)
}

// PendingOf lists the messages in a thread that another agent than this one has
// not finished (R2), the oldest first: those that are waited for, and those that
// are so no more.
func PendingOf(s *projections.State, t *projections.Thread, who events.Author, now events.Time) (awaited, overdue []projections.Pending) {
	awaited, overdue = s.Pending(t, now)
	own := func(p projections.Pending) bool {
		return projections.Same(events.Author{ID: p.From, Seat: p.Seat}, who)
	}
	return slices.DeleteFunc(awaited, own), slices.DeleteFunc(overdue, own)
}

// tell says whose answers are pending and waited for no more.
func tell(overdue []projections.Pending) string {
	var whose []string
	for _, p := range overdue {
		if says := p.Who() + "'s answer is still pending"; !slices.Contains(whose, says) {
			whose = append(whose, says)
		}
	}
	return strings.Join(whose, "; ")
}

// gate is the turn gate at work on one thread, for one who would answer.
type gate struct {
	s      *projections.State
	t      *projections.Thread
	m      *projections.Message // nil: there is none to answer
	who    events.Author
	driver projections.Driver
	now    events.Time
	policy events.Policy
}

func (g gate) turn() Turn {
	awaited, overdue := PendingOf(g.s, g.t, g.who, g.now)
	verdict, until, says := g.whether()
	turn := Turn{
		Thread: g.t.ID, Verdict: verdict, Whether: verdict, Until: until, Says: says, Pending: awaited, Tell: tell(overdue), overdue: overdue,
	}
	if turn.Pending == nil {
		turn.Pending = []projections.Pending{}
	}
	if g.m != nil {
		turn.Message = g.m.ID
	}
	if len(awaited) == 0 || g.who.Kind == events.KindPerson || verdict != TurnAnswer && verdict != TurnJudge {
		return turn
	}
	turn.Verdict, turn.Ack = TurnWait, g.m != nil && ackOf(g.m, g.who, events.AckAct) == nil
	turn.Says = fmt.Sprintf("%s is answering; after that: %s", awaited[0].Who(), says)
	for _, p := range awaited {
		if turn.Until == nil || p.Until > *turn.Until {
			until := p.Until
			turn.Until = &until
		}
	}
	return turn
}

// question is the message that would be answered: the latest that went to the
// one who asks; else the latest of a person, or of anybody else. One that was
// deleted still is it: it wants no answer.
func (g gate) question() *projections.Message {
	var mine, persons, others *projections.Message
	for _, m := range g.s.MessagesOf(g.t.ID) {
		switch {
		case projections.Same(m.Author, g.who) || m.Turn == events.Working || m.Kind != events.KindMessage && m.Kind != events.KindAlert:
			continue
		case goesTo(m, g.who):
			mine = m
		case m.Author.Kind == events.KindPerson:
			persons = m
		}
		others = m
	}
	for _, m := range []*projections.Message{mine, persons, others} {
		if m != nil {
			return m
		}
	}
	return nil
}

// goesTo says whether a copy of the message is for somebody: under its own name
// or its seat's, or because it took it.
func goesTo(m *projections.Message, who events.Author) bool {
	return slices.ContainsFunc(m.Deliveries, func(d projections.Delivery) bool {
		return d.To == who.ID || d.At == who.ID || who.Seat != "" && d.To == events.Named(who.Seat)
	})
}

// whether is the first part: may this one answer at all (R5, R9, R10), with the
// end of a hold and the reason.
func (g gate) whether() (TurnVerdict, *events.Time, string) {
	m := g.m
	switch {
	case m == nil:
		return TurnAnswer, nil, "nobody else has said anything here"
	case m.Deleted != nil:
		return TurnStayOut, nil, fmt.Sprintf("message %s was taken back", m.ID)
	case g.t.Done:
		return TurnStayOut, nil, fmt.Sprintf("%s closed the thread with message %s", g.t.ClosedBy.By, g.t.ClosedBy.Message)
	case m.Intent == events.Done:
		return TurnStayOut, nil, fmt.Sprintf("message %s says done, and wants no answer", m.ID)
	case g.who.Kind == events.KindPerson:
		return TurnAnswer, nil, "a person speaks when it likes"
	}
	if triager, is := TriagerOf(g.policy, m.Channel); is && m.ReplyTo == "" {
		return g.triaged(triager)
	}
	switch called := Answers(g.s, g.t, m); {
	case m.Author.Kind != events.KindPerson:
		return TurnAnswer, nil, "the message is no person's"
	case g.driver.Seat == "":
		return TurnAnswer, nil, "no seat drives the thread"
	case m.Address && m.To.ID == g.who.ID, called != "" && called == g.who.Seat:
		return TurnAnswer, nil, "you are called"
	case called != "":
		return TurnStayOut, nil, fmt.Sprintf("%s is called, and answers", called)
	case g.driver.Seat == g.who.Seat:
		return TurnAnswer, nil, "you drive the thread"
	}
	return g.window()
}

// triaged is the first part for what stands at the top level of an alert
// channel. A seat to which a person, a hand-off or a routing move gave the
// thread works on in it.
func (g gate) triaged(triager string) (TurnVerdict, *events.Time, string) {
	given := g.driver.Source == projections.SourcePerson || g.driver.Source == projections.SourceHandoff ||
		g.t.Move != nil && g.t.Move.InForce != nil && g.t.Move.To == g.driver.Seat
	switch {
	case TriageOf(g.policy, g.m, g.who.Seat) == TriageDecide:
		return TurnAnswer, nil, fmt.Sprintf("you triage %s", g.m.Channel)
	case given && g.who.Seat != "" && g.driver.Seat == g.who.Seat:
		return TurnAnswer, nil, "you drive the thread"
	}
	return TurnStayOut, nil, fmt.Sprintf("%s triages %s", triager, g.m.Channel)
}

// window is the owner window of a person's message that mentions nobody, for who
// does not drive: a hold until those before it had their time; then, or as soon
// as one of them took the message, the end of it.
func (g gate) window() (TurnVerdict, *events.Time, string) {
	hold := g.hold()
	if taker := g.taker(hold); taker != "" {
		return TurnStayOut, nil, fmt.Sprintf("%s took message %s", taker, g.m.ID)
	}
	// A message whose time lies ahead, because the clock went back, holds nobody.
	if g.m.Sent <= g.now && g.now < hold {
		return TurnHold, &hold, fmt.Sprintf("%s drives, and answers first", g.driver.Seat)
	}
	return TurnJudge, nil, "nobody before you took it: answer if it needs you"
}

// hold is when the one who asks need not hold any longer: as its copy of the
// message says, else by its place among the seats that posted.
func (g gate) hold() events.Time {
	if d := copyOf(g.m, g.who.Seat); d != nil && d.Hold != nil {
		return *d.Hold
	}
	k := 1
	for _, seat := range HoldingSeats(g.s, g.t) {
		if seat != g.who.Seat && g.before(seat) {
			k++
		}
	}
	return g.m.Sent.Add(time.Duration(k) * g.policy.Limits.OwnerWindow.Std())
}

// copyOf is the copy of a message that is for a seat; nil when there is none.
func copyOf(m *projections.Message, seat string) *projections.Delivery {
	for i := range m.Deliveries {
		if seat != "" && m.Deliveries[i].To == events.Named(seat) {
			return &m.Deliveries[i]
		}
	}
	return nil
}

// before says whether a seat comes before the one who asks: it drives, or stands
// earlier in the order, in which who has no seat comes last.
func (g gate) before(seat string) bool {
	order := g.s.RosterNow().Order
	mine := slices.Index(order, g.who.Seat)
	return seat == g.driver.Seat || mine < 0 || slices.Index(order, seat) < mine
}

// taker is the seat that took the message before the hold ended: with an ack on
// it or a post after it. Empty: none of those before this one did.
func (g gate) taker(hold events.Time) string {
	took := func(seat string, at events.Time) bool {
		return seat != "" && seat != g.who.Seat && at < hold && g.before(seat)
	}
	for _, ack := range g.m.Acks {
		if took(ack.Seat, ack.Time) {
			return ack.Seat
		}
	}
	for _, m := range g.s.MessagesOf(g.t.ID) {
		if m.Position > g.m.Position && m.Kind == events.KindMessage && took(m.Author.Seat, m.Sent) {
			return m.Author.Seat
		}
	}
	if d := copyOf(g.m, g.who.Seat); d != nil && d.State == events.StateDropped {
		return "the seat that drove" // and does so no more
	}
	return ""
}

// Triage is what the one shared alert rule says to a seat that evaluates it (R10).
type Triage string

// What it says. Under TriageRouter a message goes the way of any other.
const (
	TriageDecide Triage = "decide"
	TriageRouter Triage = "router only"
)

// TriageOf says whether a seat decides on a message: it does on what stands at
// the top level of the channel that it triages, and on nothing else.
func TriageOf(p events.Policy, m *projections.Message, seat string) Triage {
	if triager, is := TriagerOf(p, m.Channel); is && seat == triager && m.ReplyTo == "" {
		return TriageDecide
	}
	return TriageRouter
}
