package ops_test

import (
	"fmt"
	"sync"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// atOnce runs something as often at the same time, behind one barrier.
func atOnce(n int, run func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			run(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// F3: of hook runs that start in the same moment, one takes each message.
func TestOfHookRunsAtOnceOneTakesEachMessage(t *testing.T) {
	d := newDesk(t)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate = 0, 0, 0
	d.ready(alice, bob)
	const runs, rounds = 8, 50
	taken := map[events.MessageID]int{}
	lost := 0
	for round := range rounds {
		var sent []events.MessageID
		for i := range 1 + round%3 {
			sent = append(sent, d.send(alice, inform(bob, fmt.Sprint("round ", round, " message ", i))).ID)
		}
		var offered [runs]ops.Offered
		atOnce(runs, func(i int) {
			o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}})
			if r != nil || err != nil {
				t.Errorf("lease: %+v %v", r, err)
			}
			offered[i] = o
		})
		for _, o := range offered {
			if o.ID == "" {
				lost++
				continue
			}
			for _, m := range o.Messages {
				if taken[m.ID]++; m.Attempt != 1 {
					t.Errorf("round %d: attempt %d", round, m.Attempt)
				}
			}
			// And its confirm, by several at once, is one confirm.
			atOnce(3, func(int) {
				if _, r, err := d.Confirm(ops.Asker{As: bob}, o.ID); r != nil || err != nil {
					t.Errorf("confirm: %+v %v", r, err)
				}
			})
		}
		for _, id := range sent {
			if taken[id] != 1 {
				t.Fatalf("round %d: message %s was taken %d times", round, id, taken[id])
			}
		}
	}
	if lost != (runs-1)*rounds {
		t.Errorf("%d runs got nothing, want %d", lost, (runs-1)*rounds)
	}
	if n := len(d.recorded(0, events.TypeMailboxConfirmed)); n != rounds {
		t.Errorf("%d confirms", n)
	}
	d.verified()
}

// F13: one key sent by many at once is one message, and each gets its receipt.
func TestOneKeySentByManyAtOnceIsOneMessage(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for round := range 20 {
		var receipts [8]commands.SendReceipt
		atOnce(len(receipts), func(i int) {
			receipt, r, err := d.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, To: bob, Body: []byte(fmt.Sprint("round ", round)), Key: fmt.Sprint("key ", round)})
			if r != nil || err != nil {
				t.Errorf("send: %+v %v", r, err)
			}
			receipts[i] = receipt
		})
		for _, r := range receipts {
			if asJSON(r) != asJSON(receipts[0]) {
				t.Fatalf("receipts %+v and %+v", r, receipts[0])
			}
		}
		d.take(bob)
	}
	if n := len(d.recorded(0, events.TypeMessageSent)); n != 20 {
		t.Errorf("%d messages were sent", n)
	}
	d.verified()
}

// F20: of two that claim one seat at once, one wins.
func TestOfTwoThatClaimASeatAtOnceOneWins(t *testing.T) {
	for range 20 {
		d := newDesk(t)
		d.join(dave)
		var refused [2]*commands.Refusal
		atOnce(2, func(i int) {
			_, r, err := d.Join(ops.JoinRequest{Session: []string{alice, bob}[i], Seat: "smith"})
			if err != nil {
				t.Error(err)
			}
			refused[i] = r
		})
		winner := d.occupant("smith")
		for i, id := range []events.SessionID{alice, bob} {
			if won := id == winner; won == (refused[i] != nil) || !won && refused[i].Candidates[0].Session != string(winner) {
				t.Errorf("%s has the seat, and %s was told %+v", winner, id, refused[i])
			}
		}
		if winner == "" {
			t.Error("nobody has the seat")
		}
	}
}
