package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// inTime runs a test in a bubble whose clock is the desk's: where each waiter is
// woken by every commit, and where a hub wakes only whom it concerns.
func inTime(t *testing.T, test func(d *desk)) {
	t.Helper()
	for _, name := range []string{"alone", "hub"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.World.Now = func() events.Time { return events.At(time.Now()) }
				if name == "hub" {
					d.withHub(t)
				}
				d.running(alice, 1)
				d.running(bob, 2)
				test(d)
			})
		})
	}
}

// withHub has a hub wake those who wait, until the test is over.
func (d *desk) withHub(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d.Hub = ops.NewHub(d.Ledger)
	go func() {
		defer close(ended)
		d.Hub.Run(ctx, func(err error) { t.Errorf("the hub could not read: %v", err) })
	}()
	t.Cleanup(func() {
		end()
		<-ended
	})
}

// pass lets time pass, in a bubble.
func pass(span time.Duration) { <-time.After(span) }

// waited is how a wait ended.
type waited struct {
	ops.Waited
	refused *commands.Refusal
	err     error
	after   time.Duration
	printed int
}

// wait begins to wait, and gives where the end of it comes.
func (d *desk) wait(q ops.WaitRequest, timeout time.Duration) <-chan waited {
	end := make(chan waited, 1)
	begun := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		var w waited
		w.Waited, w.refused, w.err = d.Wait(ctx, q, func(ops.Waited) error { w.printed++; return nil })
		w.after = time.Since(begun)
		end <- w
	}()
	synctest.Wait()
	return end
}

func messages(w waited) (found []events.MessageID) {
	for _, m := range w.Messages {
		found = append(found, m.ID)
	}
	return found
}

func (d *desk) ended(w waited, after time.Duration, want ...events.MessageID) {
	d.t.Helper()
	if w.refused != nil || w.err != nil || w.TimedOut || w.after != after || !slices.Equal(messages(w), want) {
		d.t.Fatalf("the wait ended after %s with %v, timed out %t, %+v %v; want %v after %s", w.after, messages(w), w.TimedOut, w.refused, w.err, want, after)
	}
}

func TestAWaitEndsWithTheReplyWhichIsThenDelivered(t *testing.T) {
	inTime(t, func(d *desk) {
		asked := d.send(alice, request(bob, "question"))
		end := d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}, ID: string(asked.ID)}, time.Minute)
		pass(30 * time.Second)
		d.send(bob, inform(alice, "something else"))
		answer := d.send(bob, reply(asked.ID, "answer"))
		w := <-end
		if w.printed == 0 || !slices.Contains(messages(w), answer.ID) || w.after != 30*time.Second {
			d.t.Fatalf("the wait ended after %s with %v", w.after, messages(w))
		}
		d.stands(answer.ID, events.StateDelivered, "")
		if o := d.lease(alice); len(o.Messages) > 0 && slices.Contains(ids(o), answer.ID) {
			d.t.Errorf("offered again: %+v", o)
		}
	})
}

func TestAWaitThatTimesOutRecordsNothing(t *testing.T) {
	inTime(t, func(d *desk) {
		asked := d.send(alice, request(bob, "question"))
		before := d.end()
		w := <-d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}, ID: string(asked.ID)}, time.Minute)
		if !w.TimedOut || w.after != time.Minute || len(w.Messages) != 0 || w.printed != 0 || d.end() != before {
			d.t.Errorf("ended %+v, recorded %+v", w, d.recorded(before))
		}
	})
}

func TestAStubIsNoReplyUntilItIsFinalOrItsTimeIsOver(t *testing.T) {
	for _, final := range []time.Duration{0, 100 * time.Second} {
		t.Run(fmt.Sprint(final), func(t *testing.T) {
			inTime(t, func(d *desk) {
				asked := d.send(alice, request(bob, "question"))
				d.take(bob)
				working := d.send(bob, stub(asked.ID, "looking"))
				end := d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}, ID: string(asked.ID)}, 10*time.Minute)
				want := 180 * time.Second
				if final > 0 {
					pass(final)
					d.edit(bob, working.ID, "found", "final")
					want = final
				}
				w := <-end
				d.ended(w, want, working.ID)
			})
		})
	}
}

// Without a thread the wait is for whatever comes, and a stub comes when its
// time is over, though nothing is recorded then.
func TestAWaitForAnythingEndsWhenAStubsTimeIsOver(t *testing.T) {
	inTime(t, func(d *desk) {
		working := d.send(bob, ops.SendRequest{To: alice, Turn: "working", Body: []byte("looking")})
		w := <-d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}}, 10*time.Minute)
		d.ended(w, 180*time.Second, working.ID)
	})
}

func TestAWaitForAnythingTellsOfALossThatTimeAloneBrought(t *testing.T) {
	inTime(t, func(d *desk) {
		lost := d.send(alice, inform(bob, "one"))
		d.leave(bob)
		w := <-d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}}, 30*time.Minute)
		if w.TimedOut || len(w.Notices) != 1 || w.Notices[0].Message != lost.ID || w.after < 10*time.Minute || w.after > 11*time.Minute {
			d.t.Errorf("ended after %s with %+v", w.after, w.Waited)
		}
	})
}

func TestAWaitForWhatAnotherRunHoldsEndsWithItsLease(t *testing.T) {
	inTime(t, func(d *desk) {
		sent := d.send(bob, inform(alice, "one"))
		d.offers(d.lease(alice), sent.ID) // a hook run that dies
		w := <-d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}}, time.Minute)
		d.ended(w, 10*time.Second, sent.ID)
		if w.Messages[0].Attempt != 2 {
			d.t.Errorf("attempt %d", w.Messages[0].Attempt)
		}
	})
}

func TestOfTwoWaitsOfOneSessionOnePrints(t *testing.T) {
	inTime(t, func(d *desk) {
		one := d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}}, time.Minute)
		two := d.wait(ops.WaitRequest{Asker: ops.Asker{As: alice}}, time.Minute)
		pass(time.Second)
		d.send(bob, inform(alice, "one"))
		a, b := <-one, <-two
		if a.err != nil || b.err != nil || a.printed+b.printed != 1 || a.TimedOut == b.TimedOut {
			d.t.Errorf("one ended %+v, the other %+v", a, b)
		}
	})
}

func TestWhoIsNotTheRecipientIsShownTheReplyAndTakesNothing(t *testing.T) {
	inTime(t, func(d *desk) {
		asked := d.send(alice, request(bob, "question"))
		d.take(bob)
		end := d.wait(ops.WaitRequest{Asker: ops.Asker{As: "@ana"}, ID: string(asked.Thread)}, time.Minute)
		pass(time.Second)
		answer := d.send(bob, reply(asked.ID, "answer"))
		w := <-end
		d.ended(w, time.Second, answer.ID)
		d.stands(answer.ID, events.StateQueued, "")
	})
}

// F1, for a wait: what could not be printed is not confirmed.
func TestAWaitThatCannotPrintConfirmsNothing(t *testing.T) {
	inTime(t, func(d *desk) {
		sent := d.send(bob, inform(alice, "one"))
		closed := errors.New("closed pipe")
		_, r, err := d.Wait(context.Background(), ops.WaitRequest{Asker: ops.Asker{As: alice}}, func(ops.Waited) error { return closed })
		if r != nil || !errors.Is(err, closed) {
			d.t.Fatalf("ended %+v %v", r, err)
		}
		d.stands(sent.ID, events.StateLeased, "")
		pass(10 * time.Second)
		if o := d.take(alice); len(o.Messages) != 1 || o.Messages[0].Attempt != 2 {
			d.t.Errorf("offered %+v", o)
		}
	})
}

func TestAWaitForTheFinalEndsWhenEveryStubIsFinal(t *testing.T) {
	inTime(t, func(d *desk) {
		asked := d.send(alice, request(bob, "question"))
		working := d.send(bob, stub(asked.ID, "looking"))
		end := d.wait(ops.WaitRequest{Asker: ops.Asker{As: "@ana"}, ID: string(asked.Thread), For: ops.WaitFinal}, 10*time.Minute)
		pass(50 * time.Second)
		d.edit(bob, working.ID, "found", "final")
		d.ended(<-end, 50*time.Second, asked.ID, working.ID)
	})
}

func TestAWaitForWhatIsNotThereIsRefusedAndNotRecorded(t *testing.T) {
	inTime(t, func(d *desk) {
		before := d.end()
		for _, c := range []struct {
			q    ops.WaitRequest
			code commands.Code
		}{
			{ops.WaitRequest{Asker: ops.Asker{As: alice}, ID: "no-such-thread"}, commands.NotFound},
			{ops.WaitRequest{Asker: ops.Asker{As: alice}, ID: "abc"}, commands.BadRequest},
			{ops.WaitRequest{Asker: ops.Asker{As: alice}, For: "ever"}, commands.BadRequest},
		} {
			w := <-d.wait(c.q, time.Minute)
			d.told(c.code, w.refused, w.err)
		}
		if d.end() != before {
			d.t.Errorf("recorded %+v", d.recorded(before))
		}
	})
}
