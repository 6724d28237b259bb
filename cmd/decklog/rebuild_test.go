package main

import (
	"fmt"
	"sync"
	"testing"

	"decklog/events"
	"decklog/internal/ops"
)

// F21: the views are thrown away and folded anew while other processes send,
// lease and confirm. Nobody sees them half made, nothing is lost or confirmed
// again, and the same events always make the same rows.
func TestF21ViewsRebuiltWhileOthersSendAreAsTheyWere(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred processes beside each other")
	}
	const senders, each, rebuilds = 3, 25, 8
	m := aboard(t)
	m.policy(unbounded)
	m.join("taker-02")
	for s := range senders {
		m.join(fmt.Sprint("sender-0", s))
	}
	var sent sync.Map // the receipts
	var wait sync.WaitGroup
	failure := make(chan string, senders+1)
	for s := range senders {
		wait.Go(func() {
			for n := range each {
				r, err := finish(m.command("send", "--json", "--as", fmt.Sprint("sender-0", s), "--to", "taker-02", "--", fmt.Sprint("message ", n)), nil)
				if err != nil || r.code != 0 {
					failure <- fmt.Sprint(err, r)
					return
				}
				sent.Store(read[receipt](t, r.stdout).Receipt.ID, true)
			}
		})
	}
	over := make(chan struct{})
	confirmed := map[string]bool{}
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			r, err := finish(m.command("lease", "--json", "--as", "taker-02"), nil)
			if err != nil || r.code != 0 {
				failure <- fmt.Sprint(err, r)
				return
			}
			leased := read[struct {
				Receipt struct {
					ID       string
					Messages []struct{ ID string }
				}
			}](t, r.stdout).Receipt
			if leased.ID == "" {
				select {
				case <-over:
					return
				default:
					continue
				}
			}
			if r, err = finish(m.command("confirm", leased.ID), nil); err != nil || r.code != 0 {
				failure <- fmt.Sprint(err, r)
				return
			}
			for _, message := range leased.Messages {
				if confirmed[message.ID] {
					failure <- "message " + message.ID + " was offered again after it was confirmed"
				}
				confirmed[message.ID] = true
			}
		}
	})
	var places []events.Position
	for range rebuilds {
		places = append(places, told[built](m, "rebuild").Receipt.Position)
	}
	wait.Wait()
	close(over)
	taking.Wait()
	select {
	case what := <-failure:
		t.Fatal(what)
	default:
	}
	if first, last := places[0], places[rebuilds-1]; first == last {
		t.Errorf("nothing was sent between the rebuilds, all at %d", first)
	}
	t.Logf("views were rebuilt at %v", places)

	m.verified()
	thread := func(id string) string { return string(m.done("thread", id, "--json")) }
	before := map[string]string{}
	sent.Range(func(id, _ any) bool { before[id.(string)] = thread(id.(string)); return true })
	first, second := told[built](m, "rebuild").Receipt, told[built](m, "rebuild").Receipt
	if first != second {
		t.Errorf("the same events made %+v, and then %+v", first, second)
	}
	m.verified()
	if len(before) != senders*each || len(confirmed) != senders*each {
		t.Errorf("%d messages were sent and %d confirmed, of %d", len(before), len(confirmed), senders*each)
	}
	for id, was := range before {
		if is := thread(id); is != was {
			t.Errorf("the thread of %s was\n%s\nand is\n%s", id, was, is)
		}
		if shown := m.message(id); shown.State != events.StateDelivered || len(shown.Deliveries) != 1 || shown.Deliveries[0].Confirmed == nil {
			t.Errorf("message %s was confirmed, and is %+v", id, shown)
		}
	}
	if offered := told[struct{ Receipt ops.Offered }](m, "lease", "--as", "taker-02").Receipt; offered.ID != "" {
		t.Errorf("what was confirmed is offered again: %+v", offered)
	}
}
