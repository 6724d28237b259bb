package ops_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
)

// shaky is a ledger that cannot be read while it shakes.
type shaky struct {
	ops.Ledger
	shakes atomic.Bool
}

var errShaky = errors.New("the disk does not answer")

func (s *shaky) View(read func(events.Reader) error) error {
	if s.shakes.Load() {
		return errShaky
	}
	return s.Ledger.View(read)
}

func TestAHubThatCannotReadForAWhileTellsAgainAndMeanwhileEverybodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.World.Now = func() events.Time { return events.At(time.Now()) }
		d.running(alice, 1)
		d.running(bob, 2)
		ledger := &shaky{Ledger: d.Ledger}
		d.Hub = ops.NewHub(ledger)
		told, ended := make(chan error, 10), make(chan struct{})
		ctx, end := context.WithCancel(context.Background())
		go func() {
			defer close(ended)
			d.Hub.Run(ctx, func(err error) { told <- err })
		}()
		synctest.Wait()
		ledger.shakes.Store(true)
		for range 3 { // however long it takes
			waits := d.wait(ops.WaitRequest{Asker: ops.Asker{As: bob}}, time.Hour)
			sent := d.send(alice, ops.SendRequest{To: bob, Intent: "inform", Body: []byte("Number " + time.Now().String())})
			w := <-waits
			if w.err != nil || len(w.Messages) != 1 || w.Messages[0].ID != sent.ID || w.after >= bell.LookEvery {
				t.Fatalf("while nobody is told, it got %+v after %s", w, w.after)
			}
			if err := d.Hub.Down(); !errors.Is(err, errShaky) {
				t.Fatalf("the hub is down for %v", err)
			}
			pass(time.Minute)
		}
		if err := <-told; !errors.Is(err, errShaky) || len(told) > 0 {
			t.Errorf("told of %v, and %d more", err, len(told))
		}
		ledger.shakes.Store(false)
		if err := <-told; err != nil || d.Hub.Down() != nil {
			t.Errorf("told of %v, and down for %v", err, d.Hub.Down())
		}
		waits := d.wait(ops.WaitRequest{Asker: ops.Asker{As: bob}}, time.Hour)
		sent := d.send(alice, ops.SendRequest{To: bob, Intent: "inform", Body: []byte("Last.")})
		if w := <-waits; w.err != nil || len(w.Messages) != 1 || w.Messages[0].ID != sent.ID || w.after != 0 {
			t.Errorf("afterwards it got %+v after %s", w, w.after)
		}
		end()
		<-ended
	})
}

// Reading the whole ledger is much work, and is for nobody once its caller is gone.
func TestWhatReadsTheWholeLedgerEndsWithItsCaller(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	d.policy.Limits.SessionRate, d.policy.Limits.DeviceRate = 0, 0
	d.comesAndGoes(carol, 3000)
	gone := errors.New("gone")
	for what, read := range map[string]func(*ops.Ops) error{
		"verify": func(o *ops.Ops) error { _, err := o.Verify(); return err },
		"events": func(o *ops.Ops) error {
			_, _, err := o.Events(ops.EventsRequest{}, func(events.Recorded) error { return nil })
			return err
		},
		"a view as of then": func(o *ops.Ops) error { _, _, err := o.Inbox(ops.InboxRequest{As: alice, At: "6000"}); return err },
	} {
		for _, left := range []int{0, 1, 2} {
			ledger := &counted{Ledger: d.Ledger}
			desk := *d.Ops
			desk.Ledger = ledger
			desk.Still = func() error {
				if left--; left < 0 {
					return gone
				}
				return nil
			}
			pages := left
			if err := read(&desk); !errors.Is(err, gone) {
				t.Errorf("%s ended with %v", what, err)
			}
			// One page is read ahead, and a few looks are for no page.
			if reads := ledger.reads.Load(); reads > int64(pages)+5 {
				t.Errorf("%s read %d times after %d pages", what, reads, pages)
			}
		}
	}
}
