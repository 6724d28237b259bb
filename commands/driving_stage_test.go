package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// stage is a ledger of the decided cases: what the deciders decide is folded at
// once, at a clock that counts seconds.
type stage struct {
	t      testing.TB
	rows   *rows.Rows
	s      *projections.State
	policy events.Policy
	now    events.Time
	count  int64 // of events
	asked  int   // commands
	log    []events.Recorded
	bodies map[events.EventID]string
}

// The cast of the decided cases.
const (
	smithsSession   = "session-of-smith"
	trinitysSession = "session-of-trinity"
	oraclesSession  = "session-of-oracle"
	ownerA          = "@owner-a"
	ownerB          = "@owner-b"
	third           = "@third"
)

// stageStart is second 0.
var stageStart = events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))

// castPolicy is the policy of the decided cases: smith and trinity, with further
// seats behind them.
func castPolicy(more ...string) events.Policy {
	p := events.DefaultPolicy()
	p.Seats = []events.Seat{
		{Name: "smith", Stickers: []string{"driver-smith", "agent-smith"}, Fallback: "robot_face"},
		{Name: "trinity", Stickers: []string{"driver-trinity"}, Fallback: "large_blue_circle"},
	}
	p.Persons = []events.Person{
		{Name: "owner-a", Home: "smith", Roles: []string{"owner"}},
		{Name: "owner-b", Home: "trinity", Roles: []string{"owner"}},
		{Name: "third"},
	}
	for _, name := range more {
		p.Seats = append(p.Seats, events.Seat{Name: name})
		p.Persons[2].Home = name
	}
	p.Areas = []events.Area{{
		Seat: "trinity", Priority: 10, Reason: "of trinity's lane",
		Match: []string{"agents/clara", "AppFolio sync lambda", "PMS delivery", "guest-card", "email-stress", "voice-harness"},
	}}
	p.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	p.Routing = &events.Routing{Group: []string{"Agent Force"}, Timeout: events.Span(10 * time.Second)}
	return p
}

// newStage has adopted the policy, and a live session sits on each seat.
func newStage(t testing.TB, policy events.Policy) *stage {
	plays(t)
	st := &stage{t: t, rows: rows.New(), policy: policy, now: stageStart, bodies: map[events.EventID]string{}}
	st.s = projections.On(st.rows)
	st.record(events.PolicyStream, "device:test", events.PolicyAdopted{Policy: policy})
	for _, seat := range policy.Seats {
		st.join("session-of-"+seat.Name, seat.Name)
	}
	return st
}

// at is so many seconds after the start.
func (st *stage) at(seconds float64) *stage {
	st.now = stageStart.Add(time.Duration(seconds * float64(time.Second)))
	return st
}

// record folds an event that nobody decided here.
func (st *stage) record(stream events.Stream, actor events.Participant, e events.Event) events.Recorded {
	st.asked++
	c := events.CommandID(fmt.Sprintf("00000000-0000-7000-8000-%012d", st.asked))
	return st.append(events.Proposed{Stream: stream, ID: c.Event(0), Actor: actor, Cause: events.Cause{Command: c}, Event: e})[0]
}

func (st *stage) append(proposed ...events.Proposed) (recorded []events.Recorded) {
	var policy events.Position
	if p := st.s.Policy(); p != nil {
		policy = p.Position
	}
	for _, p := range proposed {
		st.count++
		recorded = append(recorded, events.Recorded{
			Position: events.Position(st.count), Stream: p.Stream, ID: p.ID, Time: st.now, Actor: p.Actor, Cause: p.Cause,
			Policy: policy, Version: events.SchemaVersion, Event: p.Event,
		})
		if p.Body != nil {
			st.bodies[p.ID] = string(p.Body.Text)
		}
	}
	if err := projections.Project(st.rows, recorded); err != nil {
		st.t.Fatal(err)
	}
	st.s = projections.On(st.rows)
	st.log = append(st.log, recorded...)
	return recorded
}

// join makes a session live and, where one is named, puts it on a seat.
func (st *stage) join(session, seat string) {
	who := events.Participant(session)
	if seat != "" {
		st.record(events.SeatStream(seat), who, events.SeatTaken{Seat: seat, Session: who.Session(), Protocol: events.Protocol})
	}
	st.record(events.SessionStream(who.Session()), who, events.SessionJoined{Session: who.Session(), Source: events.SourceManual, Device: "test"})
}

// call is the envelope of somebody's next command.
func (st *stage) call(as string) commands.Call {
	st.asked++
	c := commands.Caller{ID: events.Participant(as), Kind: events.KindSession}
	switch {
	case strings.HasPrefix(as, "@"):
		c.Kind = events.KindPerson
	case strings.HasPrefix(as, "bot:"):
		c.Kind = events.KindBot
	}
	return commands.Call{ID: events.CommandID(fmt.Sprintf("00000000-0000-7000-8000-%012d", st.asked)), Caller: c, Device: "test"}
}

// decider is what every command of this package is.
type decider interface {
	Decide(*projections.State, events.Time, events.Policy) ([]events.Proposed, *commands.Refusal)
}

// does runs a command, which must be admitted, and folds what it decided.
func (st *stage) does(d decider) []events.Recorded {
	st.t.Helper()
	proposed, r := d.Decide(st.s, st.now, st.policy)
	if r != nil {
		st.t.Fatalf("%T is refused: %s: %s", d, r.Code, r.Message)
	}
	return st.append(proposed...)
}

// refused runs a command, which must be refused with this code.
func (st *stage) refused(d decider, code commands.Code) *commands.Refusal {
	st.t.Helper()
	_, r := d.Decide(st.s, st.now, st.policy)
	if r == nil {
		st.t.Fatalf("%T is admitted, and not refused with %s", d, code)
	}
	if r.Code != code {
		st.t.Fatalf("%T is refused with %s (%s), and not %s", d, r.Code, r.Message, code)
	}
	typed(st.t, string(code), r.Example)
	return r
}

// says sends a message: a root, or with a parent a reply to it.
func (st *stage) says(as, body string, more ...func(*commands.Send)) *projections.Message {
	st.t.Helper()
	send := commands.Send{Call: st.call(as), Body: []byte(body)}
	for _, m := range more {
		m(&send)
	}
	sent := st.does(send)[0].Event.(events.MessageSent)
	return st.s.Message(sent.Message)
}

func replyTo(m *projections.Message) func(*commands.Send) {
	return func(s *commands.Send) { s.ReplyTo = string(m.ID) }
}

func to(who string) func(*commands.Send) { return func(s *commands.Send) { s.To = who } }

func working(s *commands.Send) { s.Turn = "working" }

// alert records an alert, as its own command sends it.
func (st *stage) alert(as, body string) *projections.Message {
	st.t.Helper()
	return st.says(as, body, to("@smith"), func(s *commands.Send) { s.Kind, s.Channel = events.KindAlert, "#alerts" })
}

// sticks records that somebody places a sticker, as a surface reports it.
func (st *stage) sticks(m *projections.Message, seat, sticker string, hand events.Hand, by string) {
	e := events.StickerPlaced{Thread: m.Thread, Seat: seat, Sticker: sticker, Hand: hand, By: events.Participant(by)}
	if hand == events.HandSeat {
		e.BySeat = strings.TrimPrefix(by, "@")
	}
	st.record(events.ThreadStream(m.Thread), e.By, e)
}

// posts records a real post of a seat, with nothing else that a send brings.
func (st *stage) posts(m *projections.Message, seat string, kind events.MessageKind) {
	st.asked++
	c := events.CommandID(fmt.Sprintf("00000000-0000-7000-8000-%012d", st.asked))
	who := events.Participant("session-of-" + seat)
	st.append(events.Proposed{
		Stream: events.ThreadStream(m.Thread), ID: c.Event(0), Actor: who, Cause: events.Cause{Command: c},
		Event: events.MessageSent{
			Message: c.Message(), Thread: m.Thread, Kind: kind, Author: events.Author{ID: who, Kind: events.KindSession, Seat: seat},
			To: events.Recipient{ID: m.Author.ID, Kind: m.Author.Kind}, ReplyTo: m.ID, Intent: events.Inform, Turn: events.Final,
		},
	})
}

// driver is who drives the thread of a message, as "seat (detail)".
func (st *stage) driver(m *projections.Message) string {
	d := st.s.Driver(st.s.Thread(m.Thread))
	return fmt.Sprintf("%s (%s)", d.Seat, d.Detail)
}

func (st *stage) drivenBy(m *projections.Message, want string) {
	st.t.Helper()
	if got := st.driver(m); got != want {
		st.t.Errorf("driven by %s, want %s", got, want)
	}
}

// stickers lists the stickers that lie on the root, as "seat by hand".
func (st *stage) stickers(m *projections.Message) (lie []string) {
	for _, s := range st.s.Thread(m.Thread).Stickers {
		lie = append(lie, s.Seat+" by "+string(s.Hand))
	}
	return lie
}
