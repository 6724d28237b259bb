package ops_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"decklog/events"
	"decklog/internal/ops"
)

// counted is a ledger that counts how often it is read.
type counted struct {
	ops.Ledger
	reads atomic.Int64
}

func (c *counted) View(read func(events.Reader) error) error {
	c.reads.Add(1)
	return c.Ledger.View(read)
}

func TestACommitCostsThoseWhoWaitForSomethingElseNothing(t *testing.T) {
	const crowd = 300
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.World.Now = func() events.Time { return events.At(time.Now()) }
		d.policy.Limits.SessionRate, d.policy.Limits.DeviceRate, d.policy.Limits.PersonRate = 0, 0, 0
		ledger := &counted{Ledger: d.Ledger}
		d.Ledger = ledger
		d.withHub(t)
		d.running(alice, 1)
		ended := make([]<-chan waited, crowd)
		for i := range crowd {
			id := fmt.Sprintf("waiter-%04d", i)
			d.running(id, 100+i)
			ended[i] = d.wait(ops.WaitRequest{Asker: ops.Asker{As: id}}, 30*time.Second)
		}
		for i := range crowd {
			before := ledger.reads.Load()
			sent := d.send(alice, ops.SendRequest{To: fmt.Sprintf("waiter-%04d", i), Intent: "inform", Body: fmt.Appendf(nil, "For number %d.", i)})
			w := <-ended[i]
			if w.err != nil || len(w.Messages) != 1 || w.Messages[0].ID != sent.ID {
				t.Fatalf("waiter %d got %+v", i, w)
			}
			synctest.Wait()
			if reads := ledger.reads.Load() - before; reads > 30 {
				t.Fatalf("one message for one waiter, and the ledger was read %d times", reads)
			}
		}
	})
}

// comesAndGoes has a session leave and join this often.
func (d *desk) comesAndGoes(id string, times int) {
	d.t.Helper()
	for range times {
		if _, r, err := d.Leave(ops.LeaveRequest{Session: id}); err != nil {
			d.t.Fatal(r, err)
		}
		d.join(id)
	}
}

func TestWhoComesLateLooksAtOnce(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate, d.policy.Limits.DeviceRate, d.policy.Limits.PersonRate, d.policy.Limits.RecipientFull = 0, 0, 0, 0
	d.policy.Limits.ThreadRate = 0
	d.join(alice)
	d.join(bob)
	d.withHub(t)
	// More than the hub remembers, all of it for somebody else.
	d.comesAndGoes(carol, 4200)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		end, err := d.End()
		if err != nil {
			t.Fatal(err)
		}
		// Nobody knows any more whether one of the first events was for alice.
		if err := d.Hub.Wait(ctx, 1, "session "+alice); err != nil {
			t.Fatal(err)
		}
		if d.Hub.At() == end {
			break
		}
	}
}

func TestAHubThatEndsWakesEverybody(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	ctx, end := context.WithCancel(context.Background())
	d.Hub = ops.NewHub(d.Ledger)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Hub.Run(ctx, nil)
	}()
	woken := make(chan error, 1)
	go func() {
		at, _ := d.End()
		for {
			if err := d.Hub.Wait(context.Background(), at, "session "+alice); err != nil {
				woken <- err
				return
			}
		}
	}()
	end()
	<-ended
	if err := <-woken; err == nil {
		t.Error("who waits was not told")
	}
}
