package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/projections"
)

// slow is a ledger whose writers wait for others first.
type slow struct {
	ops.Ledger
	wait time.Duration
}

func (s *slow) Update(write func(events.Tx) error) error {
	<-time.After(s.wait) // by the bubble's clock: nobody sleeps
	return s.Ledger.Update(write)
}

// A harness gives a hook up that takes too long. What is leased after that is
// printed to nobody.
func TestALeaseWhoseTimeIsOverWhenItsTurnComesTakesNothing(t *testing.T) {
	for _, c := range []struct {
		within string
		wait   time.Duration
		takes  bool
	}{
		{`,"within_us":3000000`, 2 * time.Second, true}, {`,"within_us":3000000`, 4 * time.Second, false},
		{`,"within_us":0`, 0, false}, {`,"within_us":-5`, 0, false}, {``, time.Hour, true},
		{`,"within_us":9223372036854775807`, time.Minute, true}, {`,"within_us":-9223372036854775808`, 0, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &slow{Ledger: memory.New(projections.Project)}
				n := byte(0)
				desk := &ops.Ops{Ledger: ledger, World: ops.World{
					Now: func() events.Time { return events.At(time.Now()) }, Random: func(b []byte) { n++; b[len(b)-1] = n },
					Alive: func(events.Process) bool { return true }, Seen: func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
					Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
					PolicyFile: func() (events.Policy, error) { return events.DefaultPolicy(), nil },
				}}
				for _, id := range []string{"alice-0001", "bob-00002"} {
					if _, r, err := desk.Join(ops.JoinRequest{Session: id, Harness: "codex", Cwd: "/"}); r != nil || err != nil {
						t.Fatal(r, err)
					}
				}
				send := ops.SendRequest{Asker: ops.Asker{As: "alice-0001"}, To: "bob-00002", Intent: "inform", Body: []byte("Hello.")}
				if _, r, err := desk.Send(send); r != nil || err != nil {
					t.Fatal(r, err)
				}
				ledger.wait = c.wait
				got, r, err := api.Lease.Do(t.Context(), desk, json.RawMessage(`{"as":"bob-00002"`+c.within+`}`))
				if r != nil || err != nil {
					t.Fatal(r, err)
				}
				lease := got.(api.Leased)
				if (lease.ID != "") != c.takes {
					t.Errorf("it got lease %q", lease.ID)
				}
				said, err := json.Marshal(lease)
				if err != nil || strings.Contains(string(said), `"sought":null`) {
					t.Errorf("it says %s: %v", said, err)
				}
			})
		})
	}
}
