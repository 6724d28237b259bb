package ops_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
	"decklog/projections"
)

// atTable runs a test in a bubble whose clock is the desk's: alice sits on smith,
// bob on trinity, carol on no seat, and @ana is the person.
func atTable(t *testing.T, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.policy.Seats = seats("smith", "trinity")
		d.World.Now = func() events.Time { return events.At(time.Now()) }
		for i, id := range []string{alice, bob, carol} {
			d.running(id, i+1, func(q *ops.JoinRequest) { q.Seat = append(d.policy.Seats, events.Seat{})[i].Name })
		}
		test(d)
	})
}

// turned is how a turn ended.
type turned struct {
	ops.TurnAnswer
	after time.Duration
	err   error
}

// blocks begins to wait for a turn, and gives where the end of it comes.
func (d *desk) blocks(ctx context.Context, as string, thread events.ThreadID) <-chan turned {
	end := make(chan turned, 1)
	begun := time.Now()
	go func() {
		answer, r, err := d.Turn(ctx, ops.TurnRequest{Asker: ops.Asker{As: as}, Thread: string(thread), Block: true})
		if r != nil {
			d.t.Errorf("refused: %+v", r)
		}
		end <- turned{answer, time.Since(begun), err}
	}()
	synctest.Wait()
	return end
}

func (d *desk) turnEnds(end <-chan turned, after time.Duration, verdict commands.TurnVerdict, tell string) turned {
	d.t.Helper()
	w := <-end
	if w.err != nil || w.after != after || w.Verdict != verdict || w.Tell != tell {
		d.t.Fatalf("the turn ended after %s with %s, %q, %v; want %s with %s, %q", w.after, w.Verdict, w.Tell, w.err, after, verdict, tell)
	}
	return w
}

// asked is a person's message that calls trinity, whose seat bob has, and a stub
// of smith that was sent at once.
func (d *desk) asked() (question, working commands.SendReceipt) {
	d.t.Helper()
	question = d.send("@ana", ops.SendRequest{Body: []byte("@trinity, what broke the build?")})
	working = d.send(alice, stub(question.ID, "I am looking too."))
	return question, working
}

func TestATurnIsTakenFromTheRereadThreadOnceTheOtherAnswerIsFinal(t *testing.T) {
	atTable(t, func(d *desk) {
		question, working := d.asked()
		pass(time.Second)
		before := d.end()
		end := d.blocks(context.Background(), bob, question.Thread)
		acks := d.recorded(before)
		if len(acks) != 1 || acks[0].Event != (events.AckPlaced{Message: question.ID, Thread: question.Thread, By: bob, Seat: "trinity", Ack: events.AckAct}) {
			t.Fatalf("before the wait it recorded %+v", acks)
		}
		pass(20 * time.Second)
		d.send(alice, inform(carol, "Something else."))
		d.edit(alice, working.ID, "Still looking.", "")
		pass(9 * time.Second)
		d.edit(alice, working.ID, "It was the cache.", "final")
		w := d.turnEnds(end, 29*time.Second, commands.TurnAnswer, "")
		if w.Reread == nil || len(w.Reread.Messages) != 2 || w.Reread.Messages[1].Body != "It was the cache." || len(w.Pending) != 0 {
			t.Errorf("it read %+v", w.Reread)
		}
	})
}

func TestAWaitForATurnIsBoundByTheStubsOwnTimeAndSurvivesARestart(t *testing.T) {
	atTable(t, func(d *desk) {
		question, working := d.asked()
		pass(100 * time.Second)
		ctx, restart := context.WithCancel(context.Background())
		first := d.blocks(ctx, bob, question.Thread)
		pass(30 * time.Second)
		d.edit(alice, working.ID, "Still looking.", "")
		synctest.Wait()
		restart()
		if w := <-first; w.Verdict != commands.TurnWait || w.Reread != nil || w.err != nil {
			t.Errorf("interrupted it says %+v", w)
		}
		w := d.turnEnds(d.blocks(context.Background(), bob, question.Thread), 50*time.Second, commands.TurnAnswer, "smith's answer is still pending")
		if w.Reread == nil || w.Reread.Messages[1].Turn != events.Working {
			t.Errorf("it read %+v", w.Reread)
		}
		if acks := d.recorded(0, events.TypeAckPlaced); len(acks) != 1 {
			t.Errorf("acked %d times", len(acks))
		}
		// Who comes later waits no more.
		d.turnEnds(d.blocks(context.Background(), bob, question.Thread), 0, commands.TurnAnswer, "smith's answer is still pending")
	})
}

func TestNoWaitForATurnLastsLongerThanItsBoundWhateverTheClockSays(t *testing.T) {
	t.Run("the clock goes back", func(t *testing.T) {
		atTable(t, func(d *desk) {
			question := d.send("@ana", ops.SendRequest{Body: []byte("@trinity, what broke the build?")})
			pass(150 * time.Second)
			d.send(alice, stub(question.ID, "I am looking too."))
			end := d.blocks(context.Background(), bob, question.Thread)
			pass(10 * time.Second)
			d.World.Now = func() events.Time { return events.At(time.Now().Add(-100 * time.Second)) }
			d.send(alice, inform(carol, "Something else."))
			d.turnEnds(end, 180*time.Second, commands.TurnAnswer, "smith's answer is still pending")
		})
	})
	t.Run("stub follows stub", func(t *testing.T) {
		atTable(t, func(d *desk) {
			question, _ := d.asked()
			end := d.blocks(context.Background(), bob, question.Thread)
			for _, id := range []string{"one", "two", "three"} {
				pass(50 * time.Second)
				d.send(alice, stub(question.ID, "I am looking at number "+id))
			}
			d.turnEnds(end, 180*time.Second, commands.TurnAnswer, "smith's answer is still pending")
		})
	})
}

func TestAHoldEndsWhenSomebodyTookTheMessageOrItsTimeIsOver(t *testing.T) {
	for _, c := range []struct {
		what   string
		driver func(*desk, events.MessageID)
		after  time.Duration
		want   commands.TurnVerdict
	}{
		{"the driver is silent", func(*desk, events.MessageID) { pass(20 * time.Second) }, 12 * time.Second, commands.TurnJudge},
		{"S7: the driver takes it at 11.9 s", func(d *desk, q events.MessageID) {
			pass(11900 * time.Millisecond)
			d.send(alice, stub(q, "I am looking."))
		}, 11900 * time.Millisecond, commands.TurnStayOut},
		{"the driver acks it", func(d *desk, q events.MessageID) {
			pass(3 * time.Second)
			d.ack(alice, q, "act")
		}, 3 * time.Second, commands.TurnStayOut},
		{"the person takes it back", func(d *desk, q events.MessageID) {
			pass(3 * time.Second)
			d.remove("@ana", q)
		}, 3 * time.Second, commands.TurnStayOut},
		{"the person calls somebody after it", func(d *desk, q events.MessageID) {
			pass(3 * time.Second)
			d.send("@ana", reply(q, "@smith, I mean you."))
		}, 12 * time.Second, commands.TurnJudge},
	} {
		t.Run(c.what, func(t *testing.T) {
			atTable(t, func(d *desk) {
				question := d.send("@ana", ops.SendRequest{Body: []byte("What broke the build?")})
				end := d.blocks(context.Background(), bob, question.Thread)
				c.driver(d, question.ID)
				d.turnEnds(end, c.after, c.want, "")
				for _, e := range d.recorded(0, events.TypeAckPlaced) {
					if e.Event.(events.AckPlaced).Seat == "trinity" {
						t.Errorf("a hold acked: %+v", e.Event)
					}
				}
			})
		})
	}
}

// S8: the hold is over, and then the driver begins: both gates, one after the other.
func TestAfterAHoldTheOtherAnswerIsWaitedFor(t *testing.T) {
	atTable(t, func(d *desk) {
		question := d.send("@ana", ops.SendRequest{Body: []byte("What broke the build?")})
		pass(13 * time.Second)
		working := d.send(alice, stub(question.ID, "I am looking."))
		pass(time.Second)
		end := d.blocks(context.Background(), bob, question.Thread)
		pass(40 * time.Second)
		d.edit(alice, working.ID, "It was the cache.", "final")
		w := d.turnEnds(end, 40*time.Second, commands.TurnJudge, "")
		if acks := d.recorded(0, events.TypeAckPlaced); len(acks) != 1 || w.Reread == nil {
			t.Errorf("acked %d times; read %+v", len(acks), w.Reread)
		}
	})
}

func TestAQuestionThatIsTakenBackWhileWaitingWantsNoAnswer(t *testing.T) {
	atTable(t, func(d *desk) {
		question, working := d.asked()
		end := d.blocks(context.Background(), bob, question.Thread)
		pass(10 * time.Second)
		d.remove("@ana", question.ID)
		d.turnEnds(end, 10*time.Second, commands.TurnStayOut, "")
		d.edit(alice, working.ID, "It was the cache.", "final")
		d.turnEnds(d.blocks(context.Background(), bob, question.Thread), 0, commands.TurnStayOut, "")
	})
}

// An ack that fails is no reason not to wait: carol takes no part in the thread.
func TestAnAckThatFailsBlocksNoTurn(t *testing.T) {
	atTable(t, func(d *desk) {
		asked := d.send(alice, request(bob, "Which commit fixed the lease test?"))
		working := d.send(bob, stub(asked.ID, "I am looking."))
		end := d.blocks(context.Background(), carol, asked.Thread)
		if acks := d.recorded(0, events.TypeAckPlaced); len(acks) != 0 {
			t.Fatalf("acked %+v", acks)
		}
		pass(30 * time.Second)
		d.edit(bob, working.ID, "4f2a9c1", "final")
		d.turnEnds(end, 30*time.Second, commands.TurnAnswer, "")
		if refusals := d.recorded(0, events.TypeCommandRefused); len(refusals) != 1 {
			t.Errorf("it tried to ack %d times", len(refusals))
		}
	})
}

func TestALookAtATurnRecordsNothing(t *testing.T) {
	atTable(t, func(d *desk) {
		question, working := d.asked()
		before := d.end()
		answer, r, err := d.Turn(context.Background(), ops.TurnRequest{Asker: ops.Asker{As: bob}, Thread: string(question.Thread)})
		if r != nil || err != nil || answer.Verdict != commands.TurnWait || !answer.Ack || len(answer.Pending) != 1 || answer.Pending[0].Message != working.ID {
			t.Errorf("%+v %+v %v", answer, r, err)
		}
		if d.end() != before {
			t.Errorf("recorded %+v", d.recorded(before))
		}
		_, r, err = d.Turn(context.Background(), ops.TurnRequest{Asker: ops.Asker{As: bob}, Thread: "no-such-thread"})
		d.told(commands.NotFound, r, err)
		_, r, err = d.Turn(context.Background(), ops.TurnRequest{Asker: ops.Asker{As: "dddddddd-unknown"}, Thread: string(question.Thread)})
		d.told(commands.NotFound, r, err)
		other := d.send(alice, inform(carol, "Something else."))
		_, r, err = d.Turn(context.Background(), ops.TurnRequest{Asker: ops.Asker{As: bob}, Thread: string(question.Thread), Message: string(other.ID)})
		d.told(commands.BadRequest, r, err)
	})
}

func (d *desk) ack(who string, id events.MessageID, word string) ops.AckReceipt {
	d.t.Helper()
	receipt, r, err := d.Ack(ops.AckRequest{Asker: ops.Asker{As: who}, Message: string(id), Ack: word})
	if r != nil || err != nil {
		d.t.Fatalf("ack %s: %+v %v", id, r, err)
	}
	return receipt
}

func TestAnAckGetsTheSameReceiptAgain(t *testing.T) {
	atTable(t, func(d *desk) {
		question := d.send("@ana", ops.SendRequest{Body: []byte("What broke the build?")})
		first := d.ack(alice, question.ID, "act")
		if first.ID == "" || first.Message != question.ID || first.Thread != question.Thread || first.Ack != events.AckAct {
			t.Errorf("receipt %+v", first)
		}
		again := d.ack(alice, question.ID[:8], "act")
		if again.ID != first.ID || len(d.recorded(0, events.TypeAckPlaced)) != 1 {
			t.Errorf("again: %+v", again)
		}
	})
}

func (d *desk) remove(who string, id events.MessageID) {
	d.t.Helper()
	if _, r, err := d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: who}, Message: string(id)}); r != nil || err != nil {
		d.t.Fatalf("delete %s: %+v %v", id, r, err)
	}
}

// A held copy comes by itself when its hold ends: the bell is due then, and a
// wait wakes then.
func TestAHeldCopyComesWhenItsHoldEnds(t *testing.T) {
	atTable(t, func(d *desk) {
		root := d.send("@ana", ops.SendRequest{Body: []byte("What broke the build?")})
		d.send(alice, reply(root.ID, "The cache, I think."))
		d.send(bob, reply(root.ID, "Or the clock."))
		d.take(alice)
		d.take(bob)
		question := d.send("@ana", reply(root.ID, "And the second failure?"))
		ends := d.World.Now().Add(12 * time.Second)
		d.see(func(s *projections.State) {
			call := commands.Call{Caller: commands.Caller{ID: bob, Kind: events.KindSession}, Device: "deck", OSUser: "ana"}
			quiet, until := commands.Quiet(s, call, bob, bell.LookEvery, d.World.Now(), d.policy)
			if !quiet || until == nil || *until != ends {
				t.Errorf("the bell is silent %t, until %v; want %s", quiet, until, ends)
			}
		})
		d.offers(d.lease(bob))
		end := d.wait(ops.WaitRequest{Asker: ops.Asker{As: bob}}, time.Minute)
		d.ended(<-end, 12*time.Second, question.ID)
		if view := d.thread(root.Thread); len(view.Messages) != 4 {
			t.Errorf("the thread has %d messages", len(view.Messages))
		}
		d.verified()
	})
}
