package commands_test

import (
	"fmt"
	"slices"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// gate asks the turn gate for somebody, in the thread of a message.
func (st *stage) gate(as string, m *projections.Message, about ...*projections.Message) commands.Turn {
	st.t.Helper()
	ask := commands.AskTurn{Call: st.call(as), Thread: string(m.Thread)}
	for _, message := range about {
		ask.Message = string(message.ID)
	}
	turn, r := ask.Gate(st.s, st.now, st.policy)
	if r != nil {
		st.t.Fatalf("the gate refuses: %s: %s", r.Code, r.Message)
	}
	return turn
}

// turns demands a verdict, written as the decided cases do: the verdict, until
// which second, whether an ack goes on first, and who is told to be pending.
func (st *stage) turns(as string, m *projections.Message, want string, about ...*projections.Message) {
	st.t.Helper()
	if got := spelled(st.gate(as, m, about...)); got != want {
		st.t.Errorf("the gate says to %s at %s: %q, want %q", as, st.second(st.now), got, want)
	}
}

func spelled(t commands.Turn) string {
	says := string(t.Verdict)
	if t.Verdict == commands.TurnWait && t.Whether != commands.TurnAnswer {
		says = fmt.Sprintf("%s, then wait", t.Whether)
	}
	if t.Until != nil {
		says += fmt.Sprintf(" until %v", t.Until.Sub(stageStart).Seconds())
	}
	if t.Ack {
		says = "ack, " + says
	}
	if t.Tell != "" {
		says += ", told " + t.Tell
	}
	return says
}

func (st *stage) second(t events.Time) string {
	return fmt.Sprintf("second %v", t.Sub(stageStart).Seconds())
}

// marked records a message whose turn may be anything, as older code wrote it, by
// an author who may be anybody.
func (st *stage) marked(parent *projections.Message, author events.Author, turn events.Turn, kind events.MessageKind) *projections.Message {
	st.asked++
	c := events.CommandID(fmt.Sprintf("00000000-0000-7000-8000-%012d", st.asked))
	by := st.now.Add(st.policy.Limits.WaitFinal.Std())
	st.append(events.Proposed{
		Stream: events.ThreadStream(parent.Thread), ID: c.Event(0), Actor: author.ID, Cause: events.Cause{Command: c},
		Event: events.MessageSent{
			Message: c.Message(), Thread: parent.Thread, Kind: kind, Author: author, To: events.Recipient{ID: parent.Author.ID, Kind: parent.Author.Kind},
			ReplyTo: parent.ID, Intent: events.Inform, Turn: turn, FinalBy: &by,
		},
	})
	return st.s.Message(c.Message())
}

// question is a person's message that calls smith, of second 980.
func (st *stage) question() *projections.Message {
	st.t.Helper()
	return st.at(980).says(ownerA, "@smith, which commit fixed the lease test?")
}

func (st *stage) stub(seconds float64, as string, m *projections.Message) *projections.Message {
	st.t.Helper()
	return st.at(seconds).says(as, fmt.Sprintf("I am looking, since second %v.", seconds), replyTo(m), working, over)
}

func over(s *commands.Send) { s.Over = true }

func trinitySeat() events.Author {
	return events.Author{ID: trinitysSession, Kind: events.KindSession, Seat: "trinity"}
}

// edits changes an own message.
func (st *stage) edits(as string, m *projections.Message, body, turn string) {
	st.t.Helper()
	edit := commands.Edit{Call: st.call(as), Message: string(m.ID), Turn: turn}
	if body != "" {
		edit.Body = []byte(body)
	}
	st.does(edit)
}

func (st *stage) acks(as string, m *projections.Message, ack string) []events.Recorded {
	st.t.Helper()
	return st.does(commands.PlaceAck{Call: st.call(as), Message: string(m.ID), Ack: ack})
}

// The rows of the decided cases about R4: smith would answer, and another's
// answer may be pending.
func TestDrivingWaitsForWhatAnotherHasNotFinished(t *testing.T) {
	for _, c := range []struct {
		row   string
		seats []string
		given func(*stage, *projections.Message)
		want  string
	}{
		{"row 1: no other seat has a working message", nil, func(st *stage, q *projections.Message) {
			st.at(990).says(trinitysSession, "Done already.", replyTo(q))
			st.at(1000)
		}, "answer"},
		{"row 2: the other seat's message is unmarked", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, trinitySeat(), "", events.KindMessage)
			st.at(1000)
		}, "answer"},
		{"row 3: the other seat's message has an unknown state word", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, trinitySeat(), "thinking", events.KindMessage)
			st.at(1000)
		}, "answer"},
		{"row 4: the own stub is working, nobody else's", nil, func(st *stage, q *projections.Message) {
			st.stub(990, smithsSession, q)
			st.at(1000)
		}, "answer"},
		{"row 5: a sibling's stub of 990, at 1000", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(1000)
		}, "ack, wait until 1170"},
		{"row 7: a progress edit at 1150 without a turn", nil, func(st *stage, q *projections.Message) {
			stub := st.stub(990, trinitysSession, q)
			st.at(1150).edits(trinitysSession, stub, "Still looking.", "")
			st.at(1160)
		}, "ack, wait until 1170"},
		{"row 9: an age of exactly 180 s", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(1170)
		}, "answer, told trinity's answer is still pending"},
		{"one moment less than 180 s", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(1169.999999)
		}, "ack, wait until 1170"},
		{"first seen long after its time", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(90_000)
		}, "answer, told trinity's answer is still pending"},
		{"row 11: a stub that turned final at an age of 60 s", nil, func(st *stage, q *projections.Message) {
			stub := st.stub(990, trinitysSession, q)
			st.at(1050).edits(trinitysSession, stub, "It was 4f2a9c1.", "final")
			st.at(1051)
		}, "answer"},
		{"row 12: a stub that was deleted", nil, func(st *stage, q *projections.Message) {
			stub := st.stub(990, trinitysSession, q)
			st.at(1050).does(commands.Delete{Call: st.call(trinitysSession), Message: string(stub.ID)})
			st.at(1051)
		}, "answer"},
		{"row 13: two stubs, of 990 and 1040, at 1050", []string{"oracle"}, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.stub(1040, oraclesSession, q)
			st.at(1050)
		}, "ack, wait until 1220"},
		{"of two stubs one past its time", []string{"oracle"}, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.stub(1040, oraclesSession, q)
			st.at(1200)
		}, "ack, wait until 1220, told trinity's answer is still pending"},
		{"row 15: a working mark on the message of a person", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, events.Author{ID: ownerB, Kind: events.KindPerson}, events.Working, events.KindMessage)
			st.at(1000)
		}, "answer"},
		{"row 15: a working mark on the message of an unknown bot", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, events.Author{ID: "bot:ci", Kind: events.KindBot}, events.Working, events.KindMessage)
			st.at(1000)
		}, "answer"},
		{"a working mark on a card", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, trinitySeat(), events.Working, events.KindCard)
			st.at(1000)
		}, "answer"},
		{"a session without a seat is an agent too", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, events.Author{ID: "session-of-nobody", Kind: events.KindSession}, events.Working, events.KindMessage)
			st.at(1000)
		}, "ack, wait until 1170"},
		{"an earlier session of the own seat is none other", nil, func(st *stage, q *projections.Message) {
			st.at(990).marked(q, events.Author{ID: "session-of-old", Kind: events.KindSession, Seat: "smith"}, events.Working, events.KindMessage)
			st.at(1000)
		}, "answer"},
		{"acked already", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(1000).acks(smithsSession, q, "act")
		}, "wait until 1170"},
		{"a stub whose time lies ahead counts from the event before it", nil, func(st *stage, q *projections.Message) {
			st.stub(5000, trinitysSession, q)
			st.at(1000)
		}, "ack, wait until 1160"},
		{"one whose time lies ahead is over 180 s after the event before it", nil, func(st *stage, q *projections.Message) {
			st.stub(5000, trinitysSession, q)
			st.at(1160)
		}, "answer, told trinity's answer is still pending"},
		{"one behind an event that lies ahead too pins nobody", nil, func(st *stage, q *projections.Message) {
			st.at(4000).acks(trinitysSession, q, "act")
			st.stub(5000, trinitysSession, q)
			st.at(1000)
		}, "answer, told trinity's answer is still pending"},
		{"the question was taken back", nil, func(st *stage, q *projections.Message) {
			st.stub(990, trinitysSession, q)
			st.at(1000).does(commands.Delete{Call: st.call(ownerA), Message: string(q.ID)})
		}, "stay_out"},
		{"the thread was closed", nil, func(st *stage, q *projections.Message) {
			st.at(1000).says(ownerA, "Settled.", replyTo(q), func(s *commands.Send) { s.Intent = "done" })
		}, "stay_out"},
	} {
		t.Run(c.row, func(t *testing.T) {
			st := newStage(t, castPolicy(c.seats...))
			q := st.question()
			c.given(st, q)
			st.turns(smithsSession, q, c.want)
		})
	}
}

// A person is told what is pending, and is never made to wait for it.
func TestAPersonWaitsForNobody(t *testing.T) {
	st := newStage(t, castPolicy())
	q := st.question()
	st.stub(990, trinitysSession, q)
	st.at(1000).turns(ownerB, q, "answer")
	if turn := st.gate(ownerB, q); len(turn.Pending) != 1 || turn.Pending[0].Seat != "trinity" {
		t.Errorf("pending are %+v", turn.Pending)
	}
}

// meeting is a thread in which each seat has posted once, smith first and
// therefore driving, and owner-a asks something that mentions nobody, at a second.
func (st *stage) meeting(seconds float64, body string, more ...func(*commands.Send)) *projections.Message {
	st.t.Helper()
	root := st.at(0).says(ownerA, "What broke the build?")
	for i, seat := range st.policy.Seats {
		st.at(float64(i+1)).says("session-of-"+seat.Name, "A look from "+seat.Name, replyTo(root))
	}
	st.drivenBy(root, "smith (sticker)")
	return st.at(seconds).says(ownerA, body, append([]func(*commands.Send){replyTo(root)}, more...)...)
}

// The rows of the decided cases about R5 and R9.
func TestDrivingHoldsThePersonsMessageForItsDriver(t *testing.T) {
	const asks = "And the second failure?"
	post := func(seconds float64, as string) func(*stage, *projections.Message) {
		return func(st *stage, q *projections.Message) { st.at(seconds).says(as, "I have it.", replyTo(q), over) }
	}
	ack := func(seconds float64, as, word string) func(*stage, *projections.Message) {
		return func(st *stage, q *projections.Message) { st.at(seconds).acks(as, q, word) }
	}
	for _, c := range []struct {
		row   string
		seats []string
		sent  float64
		body  string
		given func(*stage, *projections.Message)
		now   float64
		who   string
		want  string
	}{
		{"row 16: the driver gets a message that mentions nobody", nil, 100, asks, nil, 100, smithsSession, "answer"},
		{"row 17: a non-driver, 3 s after the message, the driver silent", nil, 100, asks, nil, 103, trinitysSession, "hold until 112"},
		{"one moment before the hold ends", nil, 100, asks, nil, 111.999999, trinitysSession, "hold until 112"},
		{"row 19: 12 s passed, the driver silent", nil, 100, asks, nil, 112, trinitysSession, "judge"},
		{"row 20: a non-driver that the person mentions", nil, 100, "@trinity, and the second failure?", nil, 101, trinitysSession, "answer"},
		{"the driver while another seat alone is mentioned", nil, 100, "@trinity, and the second failure?", nil, 101, smithsSession, "stay_out"},
		{"several are mentioned, the driver among them", nil, 100, "@trinity @smith, and the second?", nil, 101, smithsSession, "answer"},
		{"several are mentioned, another than the driver", nil, 100, "@trinity @smith, and the second?", nil, 101, trinitysSession, "stay_out"},
		{"several are mentioned without the driver: the first in order", []string{"oracle"}, 100, "@oracle @trinity, and the second?", nil, 101, trinitysSession, "answer"},
		{"several are mentioned without the driver: not the second", []string{"oracle"}, 100, "@oracle @trinity, and the second?", nil, 101, oraclesSession, "stay_out"},
		{"the group is mentioned: the driver", nil, 100, "@Agent Force, and the second?", nil, 101, smithsSession, "answer"},
		{"the group is mentioned: another", nil, 100, "@Agent Force, and the second?", nil, 101, trinitysSession, "stay_out"},
		{"a mention in code mentions nobody", nil, 100, "And `@trinity`?", nil, 101, trinitysSession, "hold until 112"},
		{"the second non-driver holds twice as long", []string{"oracle"}, 100, asks, nil, 113, oraclesSession, "hold until 124"},
		{"nobody took it: the second non-driver judges after its own hold", []string{"oracle"}, 100, asks, nil, 124, oraclesSession, "judge"},
		{"row 22: the second non-driver at 13 s, the first took it", []string{"oracle"}, 100, asks, post(112.5, trinitysSession), 113, oraclesSession, "stay_out"},
		{"the second non-driver took it: the first does not stay out", []string{"oracle"}, 100, asks, ack(101, oraclesSession, "act"), 113, trinitysSession, "judge"},
		{"row 23: both gates in turn", nil, 985, asks, func(st *stage, q *projections.Message) { st.stub(998, smithsSession, q) }, 1000, trinitysSession,
			"ack, judge, then wait until 1178"},
		{"S7: the driver takes it at 11.9 s", nil, 100, asks, func(st *stage, q *projections.Message) { st.stub(111.9, smithsSession, q) }, 112, trinitysSession, "stay_out"},
		{"S8: the driver is silent for 12 s and begins at 13 s", nil, 100, asks, func(st *stage, q *projections.Message) { st.stub(113, smithsSession, q) }, 114, trinitysSession,
			"ack, judge, then wait until 293"},
		{"the driver takes it just as the hold ends, which is too late", nil, 100, asks, ack(112, smithsSession, "act"), 113, trinitysSession, "judge"},
		{"the driver takes it early: nobody holds any longer", nil, 100, asks, ack(102, smithsSession, "act"), 103, trinitysSession, "stay_out"},
		{"the driver needs nothing to be done", nil, 100, asks, ack(102, smithsSession, "no_input"), 103, trinitysSession, "stay_out"},
		{"a post before the message takes nothing", nil, 100, asks, nil, 113, trinitysSession, "judge"},
		{"a clock that went back holds nobody", nil, 100, asks, nil, 50, trinitysSession, "judge"},
		{"a person's ack takes nothing from a seat", nil, 100, asks, ack(102, ownerB, "act"), 103, trinitysSession, "hold until 112"},
		{"to a seat that was moved here meanwhile the message is its own", nil, 100, asks, func(st *stage, q *projections.Message) {
			st.at(101).does(commands.PlaceSticker{Call: st.call(ownerB), Thread: string(q.Thread), Seat: "trinity"})
		}, 102, trinitysSession, "answer"},
		{"who drove holds then", nil, 100, asks, func(st *stage, q *projections.Message) {
			st.at(101).does(commands.PlaceSticker{Call: st.call(ownerB), Thread: string(q.Thread), Seat: "trinity"})
		}, 102, smithsSession, "hold until 112"},
	} {
		t.Run(c.row, func(t *testing.T) {
			st := newStage(t, castPolicy(c.seats...))
			q := st.meeting(c.sent, c.body)
			if c.given != nil {
				c.given(st, q)
			}
			st.at(c.now).turns(c.who, q, c.want, q)
			st.turns(c.who, q, c.want) // it is also the message that is found out
		})
	}
}

// A seat that is new to the thread comes after those before it in order, and
// who has no seat after them all.
func TestASeatThatHasNotPostedHoldsLikeOneThatHas(t *testing.T) {
	st := newStage(t, castPolicy("oracle"))
	st.join("session-of-nobody", "")
	root := st.at(0).says(ownerA, "What broke the build?")
	st.at(1).turns(oraclesSession, root, "hold until 12")
	st.turns(trinitysSession, root, "hold until 12")
	st.turns("session-of-nobody", root, "hold until 12")
	st.at(2).says(smithsSession, "Mine.", replyTo(root))
	st.at(3).says(trinitysSession, "A look.", replyTo(root), to("@smith"))
	q := st.at(100).says(ownerA, "And now?", replyTo(root))
	st.at(101).turns(oraclesSession, q, "hold until 124", q)
	st.turns("session-of-nobody", q, "hold until 124", q)
	st.turns(trinitysSession, q, "hold until 112", q)
}

// What goes to somebody else is not what is answered, however new it is.
func TestTheMessageToAnswerIsTheLatestThatWentToWhoAsks(t *testing.T) {
	st := newStage(t, castPolicy())
	q := st.meeting(100, "And the second failure?")
	answer := st.at(105).says(smithsSession, "It was the cache.", replyTo(q))
	if turn := st.at(106).gate(trinitysSession, q); turn.Message != q.ID || turn.Verdict != commands.TurnStayOut {
		t.Errorf("after the driver's answer: %+v", turn)
	}
	ask := st.at(110).says(smithsSession, "Can you look at it?", replyTo(answer), to("@trinity"))
	if turn := st.at(111).gate(trinitysSession, q); turn.Message != ask.ID || turn.Verdict != commands.TurnAnswer {
		t.Errorf("after a word to trinity: %+v", turn)
	}
}

// The rows of the decided cases about R10.
func TestDrivingAlertsAreDecidedByTheirOneTriager(t *testing.T) {
	st := newStage(t, castPolicy())
	alert := st.at(0).alert("bot:pager", "The AppFolio sync lambda failed")
	for _, c := range []struct {
		row, channel string
		reply        bool
		seat         string
		want         commands.Triage
	}{
		{"row 59: a top-level alert, smith's seat", "#alerts", false, "smith", commands.TriageDecide},
		{"row 60: a top-level alert, trinity's seat evaluates the same rule", "#alerts", false, "trinity", commands.TriageRouter},
		{"row 61: any other channel, smith's seat", "#general", false, "smith", commands.TriageRouter},
		{"no channel at all", "", false, "smith", commands.TriageRouter},
		{"a reply in an alert's thread", "#alerts", true, "smith", commands.TriageRouter},
		{"who has no seat", "#alerts", false, "", commands.TriageRouter},
	} {
		t.Run(c.row, func(t *testing.T) {
			plays(t)
			m := *alert
			m.Channel = c.channel
			if c.reply {
				m.ReplyTo = "another"
			}
			if got := commands.TriageOf(st.policy, &m, c.seat); got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
	st.drivenBy(alert, "trinity (map)")
	st.at(1).turns(smithsSession, alert, "answer")
	st.turns(trinitysSession, alert, "stay_out")
	st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(alert.Thread), Seat: "trinity"})
	st.turns(trinitysSession, alert, "answer")
}

// An ack is one of two words, and each is placed once by a seat, whichever
// session sits on it.
func TestAnAckIsPlacedOnceByASeat(t *testing.T) {
	st := newStage(t, castPolicy())
	st.join("session-of-nobody", "")
	q := st.at(0).says(ownerA, "Which commit fixed the lease test?")
	if placed := st.acks(smithsSession, q, "act"); len(placed) != 1 || placed[0].Event != (events.AckPlaced{
		Message: q.ID, Thread: q.Thread, By: smithsSession, Seat: "smith", Ack: events.AckAct,
	}) {
		t.Fatalf("recorded %+v", placed)
	}
	if again := st.acks(smithsSession, q, " ACT "); len(again) != 0 {
		t.Errorf("again records %+v", again)
	}
	st.join("session-after-smith", "smith")
	if again := st.acks("session-after-smith", q, "act"); len(again) != 0 {
		t.Errorf("by the seat's next session again records %+v", again)
	}
	if other := st.acks("session-after-smith", q, "no_input"); len(other) != 1 {
		t.Errorf("the other word records %+v", other)
	}
	if hers := st.acks(trinitysSession, q, "act"); len(hers) != 1 {
		t.Errorf("another seat's records %+v", hers)
	}
	for _, word := range []string{"", "approve", "act no_input", "👍"} {
		st.refused(commands.PlaceAck{Call: st.call(smithsSession), Message: string(q.ID), Ack: word}, commands.BadRequest)
	}
	act := func(as string, id events.MessageID) commands.PlaceAck {
		return commands.PlaceAck{Call: st.call(as), Message: string(id), Ack: "act"}
	}
	st.refused(act(trinitysSession, "no-such-message"), commands.NotFound)
	st.refused(act("session-unknown", q.ID), commands.SenderNotLive)
	st.refused(commands.PlaceAck{Message: string(q.ID), Ack: "act"}, commands.NoCaller)
	st.refused(act("session-of-nobody", q.ID), commands.NotParticipant)
	st.does(commands.Delete{Call: st.call(ownerA), Message: string(q.ID)})
	st.refused(act(trinitysSession, q.ID), commands.NotFound)
}

// offered lists what a session can be offered now.
func (st *stage) offered(session string) (found []events.MessageID) {
	for _, it := range (commands.Taking{Call: st.call(session), Who: events.Participant(session)}).Offer(st.s, st.now).Items {
		found = append(found, it.Leased.Message)
	}
	return found
}

// The copy of a person's message that mentions nobody is held for each other seat
// that posted, and dropped once somebody before it took the message.
func TestACopyIsHeldForThoseWhoComeFirst(t *testing.T) {
	for _, c := range []struct {
		what             string
		given            func(*stage, *projections.Message)
		trinity, oracles float64 // from which second on it is offered; 0: never
	}{
		{"nobody takes it", func(*stage, *projections.Message) {}, 112, 124},
		{"the driver acks it", func(st *stage, q *projections.Message) { st.at(105).acks(smithsSession, q, "act") }, 0, 0},
		{"the driver answers it", func(st *stage, q *projections.Message) { st.at(105).says(smithsSession, "Yes.", replyTo(q)) }, 0, 0},
		{"the driver takes it after the first hold", func(st *stage, q *projections.Message) { st.at(113).acks(smithsSession, q, "act") }, 112, 0},
		{"the first of the others takes it", func(st *stage, q *projections.Message) { st.at(113).acks(trinitysSession, q, "act") }, 112, 0},
		{"the second of the others takes it", func(st *stage, q *projections.Message) { st.at(105).acks(oraclesSession, q, "act") }, 112, 124},
	} {
		t.Run(c.what, func(t *testing.T) {
			st := newStage(t, castPolicy("oracle"))
			q := st.meeting(100, "And the second failure?")
			c.given(st, q)
			for session, from := range map[string]float64{trinitysSession: c.trinity, oraclesSession: c.oracles} {
				for _, second := range []float64{100, 111.9, 112, 123.9, 124, 4000} {
					want := from > 0 && second >= from
					if got := slices.Contains(st.at(second).offered(session), q.ID); got != want {
						t.Errorf("%s is offered it at second %v: %t", session, second, got)
					}
				}
			}
			if !slices.Contains(st.at(100).offered(smithsSession), q.ID) {
				t.Error("the driver is not offered it at once")
			}
		})
	}
}

// A message that mentions somebody, or that comes from an agent, is held for nobody.
func TestOnlyAPersonsMessageThatMentionsNobodyIsHeld(t *testing.T) {
	st := newStage(t, castPolicy("oracle"))
	q := st.meeting(100, "@oracle, and the second failure?")
	if got := st.offered(oraclesSession); !slices.Contains(got, q.ID) {
		t.Errorf("the seat that is mentioned is offered %v", got)
	}
	if got := st.at(4000).offered(trinitysSession); slices.Contains(got, q.ID) {
		t.Errorf("a seat that is not mentioned is offered %v", got)
	}
	m := st.at(4001).says(smithsSession, "I look at it.", replyTo(q))
	if got := st.offered(trinitysSession); slices.Contains(got, m.ID) {
		t.Errorf("a seat that is not meant is offered %v", got)
	}
}
