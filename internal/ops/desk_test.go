package ops_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/projections"
)

// desk is a set of operations on a ledger in memory, with a clock, processes
// and observations that the test sets.
type desk struct {
	*ops.Ops
	t      rapid.TB
	now    events.Time
	dead   map[int]bool
	busy   map[events.SessionID]events.Time
	policy events.Policy
	n      atomic.Uint64 // what is random is counted, so that a test plays the same twice
}

const (
	alice = "aaaaaaaa-0000-4000-8000-000000000001"
	bob   = "bbbbbbbb-0000-4000-8000-000000000002"
	carol = "cccccccc-0000-4000-8000-000000000003"
)

func newDesk(t rapid.TB) *desk {
	d := &desk{
		t: t, now: events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)), dead: map[int]bool{}, busy: map[events.SessionID]events.Time{},
		policy: events.DefaultPolicy(),
	}
	d.Ops = &ops.Ops{
		Ledger: memory.New(projections.Project),
		World: ops.World{
			Now: func() events.Time { return d.now },
			Random: func(b []byte) {
				binary.BigEndian.PutUint64(b[len(b)-8:], d.n.Add(1))
			},
			Alive: func(p events.Process) bool { return !d.dead[p.PID] },
			Seen: func(id events.SessionID) (bool, events.Time, bool) {
				at, known := d.busy[id]
				return known, at, known
			},
			Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
			PolicyFile: func() (events.Policy, error) { return d.policy, nil },
		},
	}
	return d
}

func (d *desk) after(span time.Duration) { d.now = d.now.Add(span) }

func (d *desk) join(id string, change ...func(*ops.JoinRequest)) {
	d.t.Helper()
	q := ops.JoinRequest{Session: id, Harness: "claude-code", Cwd: "/w/" + id[:min(4, len(id))], Repo: "/w", Branch: "main"}
	for _, c := range change {
		c(&q)
	}
	if _, r, err := d.Join(q); r != nil || err != nil {
		d.t.Fatalf("join %s: %v %v", id, r, err)
	}
}

func (d *desk) send(from string, q ops.SendRequest) commands.SendReceipt {
	d.t.Helper()
	q.As = from
	receipt, r, err := d.Send(q)
	if r != nil || err != nil {
		d.t.Fatalf("send from %s: %+v %v", from, r, err)
	}
	return receipt
}

func (d *desk) refused(from string, code commands.Code, q ops.SendRequest) *commands.Refusal {
	d.t.Helper()
	q.As = from
	receipt, r, err := d.Send(q)
	if receipt.ID != "" {
		d.t.Fatalf("send from %s: receipt %+v; want %s", from, receipt, code)
	}
	return d.told(code, r, err)
}

// told demands that a command was refused with this code, and that the refusal
// has all that a refusal must have.
func (d *desk) told(code commands.Code, r *commands.Refusal, err error) *commands.Refusal {
	d.t.Helper()
	if err != nil || r == nil || r.Code != code {
		d.t.Fatalf("refusal %+v, error %v; want %s", r, err, code)
	}
	if r.Status != code.Status() || r.Message == "" || r.Fix == "" || !strings.HasPrefix(r.Example, "decklog ") || strings.ContainsAny(r.Example, "$`;|&") {
		d.t.Fatalf("the refusal %+v lacks something, or has an example that nobody should run", r)
	}
	return r
}

// recorded gives the events after a position, of some types or of all.
func (d *desk) recorded(after events.Position, types ...events.Type) (found []events.Recorded) {
	d.t.Helper()
	err := d.Ledger.View(func(r events.Reader) error {
		all, err := r.All(after+1, 1_000_000)
		for _, e := range all {
			if len(types) == 0 || slices.Contains(types, e.Type()) {
				found = append(found, e)
			}
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

func (d *desk) end() (end events.Position) {
	d.t.Helper()
	if err := d.Ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err }); err != nil {
		d.t.Fatal(err)
	}
	return end
}

// see reads the folded state.
func (d *desk) see(look func(*projections.State)) {
	d.t.Helper()
	err := d.Ledger.View(func(r events.Reader) error {
		s := projections.On(r.Rows())
		look(s)
		return s.Err()
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// state is where a message stands.
func (d *desk) state(id events.MessageID) (state events.DeliveryState, reason events.LostReason) {
	d.t.Helper()
	d.see(func(s *projections.State) {
		if m := s.Message(id); m != nil {
			state, reason = m.State(), m.Main().Reason
		}
	})
	return state, reason
}

func (d *desk) stands(id events.MessageID, want events.DeliveryState, why events.LostReason) {
	d.t.Helper()
	if state, reason := d.state(id); state != want || reason != why {
		d.t.Fatalf("message %s is %s %s, want %s %s", id, state, reason, want, why)
	}
}

func (d *desk) leave(id string) {
	d.t.Helper()
	if _, r, err := d.Leave(ops.LeaveRequest{Session: id, Reason: events.EndLeft}); r != nil || err != nil {
		d.t.Fatalf("leave %s: %+v %v", id, r, err)
	}
}

// ready joins sessions and gives each the standing instruction.
func (d *desk) ready(ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		d.join(id)
		d.take(id)
	}
}

// ids lists the messages that a lease offers.
func ids(o ops.Offered) (found []events.MessageID) {
	for _, m := range o.Messages {
		found = append(found, m.ID)
	}
	return found
}

// offers demands that a lease holds these messages in this order, and no notice.
func (d *desk) offers(o ops.Offered, want ...events.MessageID) {
	d.t.Helper()
	if got := ids(o); !slices.Equal(got, want) || len(o.Notices) > 0 {
		d.t.Fatalf("offered %v and %d notices, want %v", got, len(o.Notices), want)
	}
}

func (d *desk) lease(who string) ops.Offered {
	d.t.Helper()
	o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}})
	if r != nil || err != nil {
		d.t.Fatalf("lease for %s: %+v %v", who, r, err)
	}
	return o
}

func (d *desk) confirm(o ops.Offered) {
	d.t.Helper()
	if _, r, err := d.Confirm(ops.Asker{}, o.ID); r != nil || err != nil {
		d.t.Fatalf("confirm %s: %+v %v", o.ID, r, err)
	}
}

// take leases and confirms what waits, the instruction included.
func (d *desk) take(who string) ops.Offered {
	d.t.Helper()
	o := d.lease(who)
	if o.ID != "" {
		d.confirm(o)
	}
	return o
}

func (d *desk) verified() {
	d.t.Helper()
	a, err := d.Verify()
	if err != nil || !a.OK {
		d.t.Fatalf("verify: %+v %v", a, err)
	}
}

func request(to, body string) ops.SendRequest {
	return ops.SendRequest{To: to, Intent: "request", Body: []byte(body)}
}

func TestARequestIsAnsweredAndItsThreadCloses(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	d.join(bob)
	d.take(alice)
	d.take(bob)
	asked := d.send(alice, request(bob[:8], "Which commit fixed the lease test?"))
	if asked.State != events.StateQueued || asked.Arrives != events.ArrivesNextPrompt || asked.Next == "" {
		t.Fatalf("receipt %+v", asked)
	}
	d.after(time.Second)
	o := d.take(bob)
	if len(o.Messages) != 1 || o.Messages[0].ID != asked.ID || o.Messages[0].IsReply {
		t.Fatalf("bob was offered %+v", o)
	}
	answered := d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("4f2a9c1")})
	if answered.Thread != asked.Thread || answered.To.ID != alice {
		t.Fatalf("the answer's receipt %+v", answered)
	}
	o = d.take(alice)
	if len(o.Messages) != 1 || !o.Messages[0].IsReply || o.Messages[0].ReplyTo != asked.ID {
		t.Fatalf("alice was offered %+v", o.Messages)
	}
	done := d.send(alice, ops.SendRequest{ReplyTo: string(answered.ID), Intent: "done", Body: []byte("Thank you.")})
	if !done.Closes {
		t.Fatalf("done did not close: %+v", done)
	}
	r := d.refused(bob, commands.ReplyToDone, ops.SendRequest{ReplyTo: string(answered.ID), Body: []byte("One more thing")})
	if r.MessageID != done.ID {
		t.Errorf("the refusal names %s, not the closing message %s", r.MessageID, done.ID)
	}
	view, _, err := d.Thread(ops.ThreadRequest{ID: string(asked.ID)})
	if err != nil || view.State != "done" || len(view.Messages) != 3 || len(view.Refusals) != 1 || len(view.Owed) != 0 {
		t.Errorf("thread %+v %v", view, err)
	}
	d.verified()
}
