package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"decklog/cmd/internal/surroundings"
	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// A mailbox, as a model that knows nothing of events: what waits in it, oldest
// first, and the lease that runs.
type mailboxModel struct {
	waits  string // ids, each with a blank behind it
	lease  string
	leased int // how many of the first are leased
}

type (
	asked    struct{ what, lease string }
	answered struct {
		id  string
		ids []string
		ok  bool
	}
)

// mailboxSays is the model: whether an answer is right, and what is then.
var mailboxSays = porcupine.Model{
	Init: func() any { return mailboxModel{} },
	Step: func(state, input, output any) (bool, any) {
		m, in, out := state.(mailboxModel), input.(asked), output.(answered)
		waits := strings.Fields(m.waits)
		switch in.what {
		case "send":
			m.waits += out.id + " "
			return true, m
		case "lease":
			if m.lease != "" || len(waits) == 0 {
				return out.id == "", m
			}
			n := min(len(waits), commands.ItemsMax)
			m.lease, m.leased = out.id, n
			return slices.Equal(out.ids, waits[:n]), m
		default:
			if m.lease != in.lease {
				return !out.ok, m
			}
			m.waits, m.lease, m.leased = strings.Join(append(waits[m.leased:], ""), " "), "", 0
			return out.ok, m
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// Of sends, leases and confirms that run at once, the answers are those that one
// after the other would have had, in some order that keeps what was seen to be
// over before another began.
func TestAMailboxAnswersAsIfItWereAskedOneAtATime(t *testing.T) {
	inVain := 0
	for round := range 20 {
		env := newEnv()
		desk, _, err := surroundings.Open("sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), env)
		if err != nil {
			t.Fatal(err)
		}
		env.World.Now = func() events.Time { return events.At(scenarioStart) } // no lease ends by time
		env.World.Environ = func(string) string { return "" }
		env.World.Ancestors = func() []events.Process { return nil }
		policy := events.DefaultPolicy()
		policy.Limits.SessionRate, policy.Limits.DeviceRate, policy.Limits.PersonRate = 0, 0, 0
		env.World.PolicyFile = func() (events.Policy, error) { return policy, nil }
		o := desk.(*ops.Ops)
		o.World = env.World
		const taker, clients, each = "taker-0001", 4, 4
		join := func(id string) {
			if _, r, err := o.Join(ops.JoinRequest{Session: id}); r != nil || err != nil {
				t.Fatal(r, err)
			}
		}
		join(taker)
		if first, r, err := o.Lease(ops.LeaseRequest{Asker: ops.Asker{As: taker}}); r != nil || err != nil {
			t.Fatal(r, err)
		} else if _, r, err := o.Confirm(ops.Asker{}, first.ID); r != nil || err != nil {
			t.Fatal(r, err) // the instruction is out of the way
		}

		var mu sync.Mutex
		var history []porcupine.Operation
		began := time.Now()
		do := func(client int, in asked, act func() answered) answered {
			call := time.Since(began).Nanoseconds()
			out := act()
			back := time.Since(began).Nanoseconds()
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back})
			return out
		}
		barrier := make(chan struct{})
		var done sync.WaitGroup
		for c := range clients {
			sender := fmt.Sprintf("sender-%04d", c)
			join(sender)
			done.Add(1)
			go func() {
				defer done.Done()
				<-barrier
				for n := range each {
					do(c, asked{what: "send"}, func() answered {
						receipt, r, err := o.Send(ops.SendRequest{Asker: ops.Asker{As: sender}, To: taker, Body: fmt.Appendf(nil, "%d of %s", n, sender)})
						if r != nil || err != nil {
							t.Error(r, err)
						}
						return answered{id: string(receipt.ID)}
					})
					lease := do(c, asked{what: "lease"}, func() (out answered) {
						offered, r, err := o.Lease(ops.LeaseRequest{Asker: ops.Asker{As: taker}})
						if r != nil || err != nil {
							t.Error(r, err)
						}
						out.id = string(offered.ID)
						for _, m := range offered.Messages {
							out.ids = append(out.ids, string(m.ID))
						}
						if offered.Busy != nil {
							mu.Lock()
							inVain++
							mu.Unlock()
						}
						return out
					})
					if lease.id == "" {
						continue
					}
					do(c, asked{what: "confirm", lease: lease.id}, func() answered {
						_, r, err := o.Confirm(ops.Asker{}, events.LeaseID(lease.id))
						if err != nil {
							t.Error(err)
						}
						return answered{ok: r == nil}
					})
				}
			}()
		}
		close(barrier)
		done.Wait()
		if !porcupine.CheckOperations(mailboxSays, history) {
			t.Errorf("round %d: no order explains these %d operations: %+v", round, len(history), history)
		}
		if a, err := o.Verify(); err != nil || !a.OK {
			t.Errorf("verify: %+v %v", a, err)
		}
		if err := desk.Close(); err != nil {
			t.Error(err)
		}
	}
	if inVain == 0 {
		t.Error("no lease met another: nothing was at once")
	}
}
