package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"decklog/cmd/internal/surroundings"
	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/projections"
)

// threadModel is a thread as its deciders see it: what they decide one after the
// other is folded into rows of its own.
type threadModel struct {
	rows   *rows.Rows
	policy events.Policy
	print  string // of all that the rules of the thread look at
}

// asks is a command about the thread, and was what it answered: a refusal's code,
// or who drives after it.
type asks struct {
	id      events.CommandID
	as      events.Participant
	decider func(commands.Call) decides
}

type decides interface {
	Decide(*projections.State, events.Time, events.Policy) ([]events.Proposed, *commands.Refusal)
}

type was struct {
	code   commands.Code
	driver string
}

func (m threadModel) after(in asks, thread events.ThreadID) (threadModel, was) {
	s := projections.On(m.rows)
	caller := commands.Caller{ID: in.as, Kind: events.KindSession}
	if in.as.Name() != "" {
		caller.Kind = events.KindPerson
	}
	now := events.At(scenarioStart)
	proposed, r := in.decider(commands.Call{ID: in.id, Caller: caller}).Decide(s, now, m.policy)
	if r != nil {
		return m, was{code: r.Code}
	}
	next := threadModel{rows: m.rows.Copy(), policy: m.policy}
	var recorded []events.Recorded
	for i, p := range proposed {
		recorded = append(recorded, events.Recorded{
			Position: s.Position() + events.Position(i+1), Stream: p.Stream, ID: p.ID, Time: now, Actor: p.Actor, Cause: p.Cause,
			Policy: s.Policy().Position, Version: events.SchemaVersion, Event: p.Event,
		})
	}
	if err := projections.Project(next.rows, recorded); err != nil {
		panic(err)
	}
	s = projections.On(next.rows)
	next.print = footprint(s, thread)
	return next, was{driver: s.Driver(s.Thread(thread)).Seat}
}

// footprint is all of a thread that its rules look at, whatever the positions.
func footprint(s *projections.State, id events.ThreadID) string {
	t := s.Thread(id)
	d := s.Driver(t)
	type hand struct {
		ID    events.HandoffID
		State projections.HandoffState
		End   events.HandoffEnd
	}
	print := struct {
		Driver   string
		Detail   string
		Stickers []string
		Handoffs []hand
		Move     string
		Posts    []string
		Owed     []string
		Verdicts []events.Verdict
	}{Driver: d.Seat, Detail: d.Detail}
	for _, st := range t.Stickers {
		print.Stickers = append(print.Stickers, st.Seat+" "+string(st.By))
	}
	for _, h := range t.Handoffs {
		print.Handoffs = append(print.Handoffs, hand{h.ID, h.State, h.End})
	}
	if m := t.Move; m != nil {
		print.Move = fmt.Sprint(m.From, m.To, m.InForce != nil, len(m.Before), m.Message)
	}
	for _, p := range t.Posts {
		print.Posts = append(print.Posts, p.Seat)
	}
	for _, o := range t.Owed {
		print.Owed = append(print.Owed, o.ID+" "+string(o.Debtor))
	}
	for _, m := range s.MessagesOf(id) {
		print.Verdicts = append(print.Verdicts, m.Verdict)
	}
	text, err := json.Marshal(print)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Of two moves, a stamp that is on its way and two hand-offs at once, the answers
// are those that the deciders would have given one after the other, in some order.
func TestAThreadAnswersAsIfItsDecidersWereAskedOneAtATime(t *testing.T) {
	conflicts := 0
	for round := range 25 {
		f := newFight(t)
		verdict := func(m events.MessageID, v string) func(commands.Call) decides {
			return func(c commands.Call) decides {
				return commands.Route{Call: c, Thread: string(f.thread), Message: string(m), Verdict: v, ByHand: true}
			}
		}
		first, second := f.mention("@owner-a", "@trinity yours?"), f.mention("@owner-b", "@oracle yours?")
		offer := f.command()
		type move struct {
			asks
			act func(ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error)
		}
		clients := [][]move{
			{{asks{f.command(), "@owner-a", verdict(first, "route")}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
				return f.ops.Route(ops.RouteRequest{Asker: a, Thread: string(f.thread), Message: string(first), Verdict: "route"})
			}}},
			{{asks{f.command(), "@owner-b", verdict(second, "route")}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
				return f.ops.Route(ops.RouteRequest{Asker: a, Thread: string(f.thread), Message: string(second), Verdict: "route"})
			}}},
			{
				{asks{offer, "smith-0001", func(c commands.Call) decides {
					return commands.HandoffOffer{Call: c, Thread: string(f.thread), To: "oracle", Reason: []byte("yours")}
				}}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
					return f.ops.OfferHandoff(ops.OfferRequest{Asker: a, Thread: string(f.thread), To: "oracle", Reason: []byte("yours")})
				}},
				{asks{f.command(), "oracle-0001", func(c commands.Call) decides {
					return commands.HandoffAccept{Call: c, Handoff: string(offer.Handoff())}
				}}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
					return f.ops.AcceptHandoff(ops.HandoffRequest{Asker: a, Handoff: string(offer.Handoff())})
				}},
			},
			{{asks{f.command(), "smith-0001", func(c commands.Call) decides {
				return commands.HandoffOffer{Call: c, Thread: string(f.thread), To: "trinity", Reason: []byte("yours")}
			}}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
				return f.ops.OfferHandoff(ops.OfferRequest{Asker: a, Thread: string(f.thread), To: "trinity", Reason: []byte("yours")})
			}}},
			{{asks{f.command(), "smith-0001", func(c commands.Call) decides {
				return commands.PlaceSticker{Call: c, Thread: string(f.thread), Seat: "smith"}
			}}, func(a ops.Asker) (ops.DrivingReceipt, *commands.Refusal, error) {
				return f.ops.PlaceSticker(ops.StickerRequest{Asker: a, Thread: string(f.thread), Seat: "smith"})
			}}},
		}
		init := f.model()
		var mu sync.Mutex
		var history []porcupine.Operation
		var done sync.WaitGroup
		barrier := make(chan struct{})
		began := time.Now()
		for c, moves := range clients {
			done.Add(1)
			go func() {
				defer done.Done()
				<-barrier
				for _, m := range moves {
					call := time.Since(began).Nanoseconds()
					receipt, r, err := m.act(ops.Asker{As: string(m.as), Command: m.id})
					back := time.Since(began).Nanoseconds()
					if err != nil {
						t.Error(err)
					}
					var out was
					if r != nil {
						out.code = r.Code
					} else if receipt.Driver.Seat != nil {
						out.driver = *receipt.Driver.Seat
					}
					mu.Lock()
					if r != nil {
						conflicts++
					}
					history = append(history, porcupine.Operation{ClientId: c, Input: m.asks, Call: call, Output: out, Return: back})
					mu.Unlock()
				}
			}()
		}
		close(barrier)
		done.Wait()
		says := porcupine.Model{
			Init:  func() any { return init },
			Equal: func(a, b any) bool { return a.(threadModel).print == b.(threadModel).print },
			Step: func(state, input, output any) (bool, any) {
				next, out := state.(threadModel).after(input.(asks), f.thread)
				return out == output.(was), next
			},
		}
		if !porcupine.CheckOperations(says, history) {
			for _, op := range history {
				t.Logf("%d to %d: %s as %s: %+v", op.Call, op.Return, op.Input.(asks).id, op.Input.(asks).as, op.Output)
			}
			t.Errorf("round %d: no order explains this", round)
		}
		f.holds()
	}
	if conflicts == 0 {
		t.Error("nothing was refused: no two acts met")
	}
}

// fight is a thread that smith drives, by its post, on a ledger in a file.
type fight struct {
	t        *testing.T
	file     string
	ops      *ops.Ops
	thread   events.ThreadID
	root     events.MessageID
	position events.Position // of the root
	policy   events.Policy
	asked    int
}

func newFight(t *testing.T) *fight {
	t.Helper()
	env := newEnv()
	file := filepath.Join(t.TempDir(), "ledger.db")
	desk, _, err := surroundings.Open("sqlite:"+file, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = desk.Close() })
	env.World.Now = func() events.Time { return events.At(scenarioStart) }
	env.World.Environ = func(string) string { return "" }
	env.World.Ancestors = func() []events.Process { return nil }
	f := &fight{t: t, file: file, policy: events.DefaultPolicy()}
	f.policy.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}, {Name: "oracle"}}
	f.policy.Persons = []events.Person{{Name: "owner-a", Home: "smith"}, {Name: "owner-b", Home: "trinity"}}
	env.World.PolicyFile = func() (events.Policy, error) { return f.policy, nil }
	f.ops = desk.(*ops.Ops)
	f.ops.World = env.World
	for _, seat := range f.policy.Seats {
		if _, r, err := f.ops.Join(ops.JoinRequest{Session: seat.Name + "-0001", Seat: seat.Name}); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	root := f.send(ops.SendRequest{Asker: ops.Asker{As: "@owner-a"}, Intent: "request", Body: []byte("The guest card is late.")})
	f.thread, f.root, f.position = root.Thread, root.ID, root.Position
	f.send(ops.SendRequest{Asker: ops.Asker{As: "smith-0001"}, ReplyTo: string(f.root), Body: []byte("Looking.")})
	return f
}

func (f *fight) send(q ops.SendRequest) commands.SendReceipt {
	f.t.Helper()
	receipt, r, err := f.ops.Send(q)
	if r != nil || err != nil {
		f.t.Fatal(r, err)
	}
	return receipt
}

func (f *fight) mention(as, body string) events.MessageID {
	return f.send(ops.SendRequest{Asker: ops.Asker{As: as}, ReplyTo: string(f.root), Body: []byte(body)}).ID
}

func (f *fight) command() events.CommandID {
	f.asked++
	return events.CommandID(fmt.Sprintf("00000000-0000-7000-8000-%012d", f.asked))
}

// recorded is all that the ledger holds.
func (f *fight) recorded() (all []events.Recorded) {
	f.t.Helper()
	if _, _, err := f.ops.Events(ops.EventsRequest{}, func(r events.Recorded) error { all = append(all, r); return nil }); err != nil {
		f.t.Fatal(err)
	}
	return all
}

func folded(t *testing.T, all []events.Recorded) *rows.Rows {
	t.Helper()
	memory := rows.New()
	if err := projections.Project(memory, all); err != nil {
		t.Fatal(err)
	}
	return memory
}

// model is the thread as it is now.
func (f *fight) model() threadModel {
	f.t.Helper()
	m := threadModel{rows: folded(f.t, f.recorded()), policy: f.policy}
	m.print = footprint(projections.On(m.rows), f.thread)
	return m
}

// holds checks that one seat drove the thread at every position since it began,
// that at most one sticker of a seat lay after each append, and that the ledger
// is whole.
func (f *fight) holds() {
	f.t.Helper()
	all := f.recorded()
	memory := rows.New()
	for i, r := range all {
		if err := projections.Project(memory, []events.Recorded{r}); err != nil {
			f.t.Fatal(err)
		}
		s := projections.On(memory)
		t := s.Thread(f.thread)
		if t == nil {
			continue
		}
		if d := s.Driver(t); d.Seat == "" {
			f.t.Errorf("position %d: nobody drives", r.Position)
		}
		if i+1 < len(all) && all[i+1].Cause.Command == r.Cause.Command {
			continue // the append goes on
		}
		stamped := 0
		for _, st := range t.Stickers {
			if st.Hand == events.HandSeat {
				stamped++
			}
		}
		if stamped > 1 {
			f.t.Errorf("position %d: %d stickers of seats lie", r.Position, stamped)
		}
	}
	if a, err := f.ops.Verify(); err != nil || !a.OK {
		f.t.Errorf("verify: %+v %v", a, err)
	}
}
