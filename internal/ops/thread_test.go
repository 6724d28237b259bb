package ops_test

import (
	"slices"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

func done(to events.MessageID, body string) ops.SendRequest {
	q := reply(to, body)
	q.Intent = "done"
	return q
}

func stub(to events.MessageID, body string) ops.SendRequest {
	q := reply(to, body)
	q.Turn = "working"
	return q
}

// owed lists the requests that are open in the whole ledger.
func (d *desk) owed() (open []string) {
	d.t.Helper()
	view, r, err := d.Owed(ops.OwedRequest{})
	if r != nil || err != nil {
		d.t.Fatal(r, err)
	}
	for _, it := range view.Items {
		open = append(open, it.ID)
	}
	return open
}

func (d *desk) owes(want ...events.MessageID) {
	d.t.Helper()
	var text []string
	for _, w := range want {
		text = append(text, string(w))
	}
	if got := d.owed(); !slices.Equal(got, text) {
		d.t.Fatalf("owed are %v, want %v", got, text)
	}
}

func (d *desk) thread(id events.ThreadID) projections.ThreadView {
	d.t.Helper()
	view, r, err := d.Thread(ops.ThreadRequest{ID: string(id)})
	if r != nil || err != nil {
		d.t.Fatal(r, err)
	}
	return view
}

func (d *desk) edit(who string, id events.MessageID, body, turn string) ops.EditReceipt {
	d.t.Helper()
	q := ops.EditRequest{Asker: ops.Asker{As: who}, Message: string(id), Turn: turn}
	if body != "" {
		q.Body = []byte(body)
	}
	receipt, r, err := d.Edit(q)
	if r != nil || err != nil {
		d.t.Fatalf("edit %s: %+v %v", id, r, err)
	}
	return receipt
}

func (d *desk) delete(who string, id events.MessageID) {
	d.t.Helper()
	if _, r, err := d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: who}, Message: string(id)}); r != nil || err != nil {
		d.t.Fatalf("delete %s: %+v %v", id, r, err)
	}
}

func TestTheAskersDoneClosesTheThreadAndItsRequests(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	back := d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Intent: "request", Body: []byte("which one?")})
	d.owes(asked.ID, back.ID)
	closing := done(asked.ID, "never mind")
	closing.To = bob
	if receipt := d.send(alice, closing); !receipt.Closes {
		t.Fatalf("receipt %+v", receipt)
	}
	d.owes()
	if view := d.thread(asked.Thread); view.State != "done" || view.ClosedBy == nil || view.ClosedBy.By != alice {
		t.Errorf("the thread is %s, closed by %+v", view.State, view.ClosedBy)
	}
	for _, from := range []string{alice, bob, "@ana"} {
		d.refused(from, commands.ReplyToDone, ops.SendRequest{ReplyTo: string(back.ID), To: carolOr(from), Body: []byte("but")})
	}
}

// carolOr is somebody else to write to.
func carolOr(from string) string {
	if from == alice {
		return bob
	}
	return alice
}

func TestAPersonsDoneClosesAnyThread(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	if receipt := d.send("@ana", done(asked.ID, "settled")); !receipt.Closes {
		t.Fatalf("receipt %+v", receipt)
	}
	d.owes()
	d.refused(bob, commands.ReplyToDone, reply(asked.ID, "but"))
}

func TestAnybodyElsesDoneClosesOnlyWhatItAnswers(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("neo", "smith")
	d.ready(alice, bob)
	d.join(carol, func(q *ops.JoinRequest) { q.Seat = "smith" })
	one := d.send(alice, request(bob, "question"))
	two := d.send(alice, ops.SendRequest{ReplyTo: string(one.ID), To: bob, Intent: "request", Body: []byte("another")})
	three := d.send(alice, ops.SendRequest{ReplyTo: string(one.ID), To: "@smith", Intent: "request", Body: []byte("a third")})
	d.owes(one.ID, two.ID, three.ID)
	receipt := d.send(bob, done(one.ID, "did it"))
	if receipt.Closes {
		t.Fatalf("the debtor's done closed the thread: %+v", receipt)
	}
	d.owes(two.ID, three.ID)
	// A done by neither asker nor debtor closes what it answers, too.
	d.send(carol, done(two.ID, "bob did it"))
	d.owes(three.ID)
	if view := d.thread(one.Thread); view.State != "open" {
		t.Errorf("the thread is %s", view.State)
	}
	r := d.refused(alice, commands.ReplyToDone, reply(receipt.ID, "thanks"))
	if r.MessageID != receipt.ID {
		t.Errorf("the refusal names %s", r.MessageID)
	}
	d.send(carol, reply(three.ID, "the third answer"))
	d.owes()
}

func TestADoneThatBeginsAThreadClosesIt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	q := inform(bob, "shipped")
	q.Intent = "done"
	first := d.send(alice, q)
	if !first.Closes {
		t.Errorf("receipt %+v", first)
	}
	d.refused(bob, commands.ReplyToDone, reply(first.ID, "you are welcome"))
}

func TestOnlyTheDebtorsAnswerClosesARequest(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	asked := d.send(alice, request(bob, "question"))
	d.send("@ana", ops.SendRequest{ReplyTo: string(asked.ID), To: carol, Body: []byte("carol, look")})
	d.owes(asked.ID)
	d.send(carol, ops.SendRequest{ReplyTo: string(asked.ID), To: alice, Body: []byte("I would say so")}) // no debtor
	d.owes(asked.ID)
	d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Intent: "request", Body: []byte("which one?")}) // a question back
	if got := d.owed(); len(got) != 2 || got[0] != string(asked.ID) {
		t.Fatalf("after a counter-question owed are %v", got)
	}
	answer := d.send(bob, reply(asked.ID, "4f2a9c1"))
	if got := d.owed(); len(got) != 1 || got[0] == string(asked.ID) {
		t.Fatalf("after the answer owed are %v", got)
	}
	_ = answer
	view, r, err := d.Owed(ops.OwedRequest{By: alice})
	if r != nil || err != nil || len(view.Items) != 1 || view.Items[0].Creditor != bob || view.Items[0].Due == nil || *view.Items[0].Due != d.now.Add(30*time.Minute) {
		t.Errorf("alice owes %+v, %v %v", view.Items, r, err)
	}
	if view, _, _ := d.Owed(ops.OwedRequest{By: bob}); len(view.Items) != 0 {
		t.Errorf("bob owes %+v", view.Items)
	}
}

func TestAStubOfAnAnswerClosesNothingUntilItIsFinal(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	working := d.send(bob, stub(asked.ID, "looking"))
	d.owes(asked.ID)
	if view := d.thread(asked.Thread); len(view.Pending) != 1 || view.Pending[0].Message != working.ID || view.Pending[0].Until != d.now.Add(180*time.Second) {
		t.Errorf("pending are %+v", view.Pending)
	}
	d.edit(bob, working.ID, "still looking", "")
	d.owes(asked.ID)
	d.after(179 * time.Second)
	if view := d.thread(asked.Thread); len(view.Pending) != 1 {
		t.Errorf("an edit moved its time: pending are %+v", view.Pending)
	}
	d.after(time.Second)
	if view := d.thread(asked.Thread); len(view.Pending) != 0 {
		t.Errorf("past its time pending are %+v", view.Pending)
	}
	d.owes(asked.ID)
	d.edit(bob, working.ID, "4f2a9c1", "final")
	d.owes()
	if view := d.thread(asked.Thread); len(view.Pending) != 0 || view.Messages[1].Turn != events.Final || view.Messages[1].Body != "4f2a9c1" {
		t.Errorf("the thread is %+v", view)
	}
}

func TestAPersonsStubIsNotPending(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.send("@ana", stub(asked.ID, "let me look"))
	if view := d.thread(asked.Thread); len(view.Pending) != 0 {
		t.Errorf("pending are %+v", view.Pending)
	}
}

func TestTheSeatsNextOccupantAnswersWhatItsSeatWasAsked(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(alice)
	d.join(bob, func(q *ops.JoinRequest) { q.Seat = "smith" })
	asked := d.send(alice, request("@smith", "question"))
	d.take(bob)
	d.leave(bob)
	d.join(carol, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.send(carol, reply(asked.ID, "answer of the next"))
	d.owes()
	// And it closes what its seat began.
	q := request(alice, "a question of the seat")
	begun := d.send(carol, q)
	d.leave(carol)
	d.join("dddddddd-0000-4000-8000-000000000004", func(q *ops.JoinRequest) { q.Seat = "smith" })
	if receipt := d.send("@smith", done(begun.ID, "settled")); !receipt.Closes {
		t.Errorf("receipt %+v", receipt)
	}
	d.owes()
}

func TestWhoTookAPersonsRequestAnswersIt(t *testing.T) {
	d := newDesk(t)
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "ben", OSUser: "ben"}}
	d.World.OSUser = "ben"
	d.ready(bob)
	d.World.OSUser = "ana"
	d.ready(alice, carol)
	asked := d.send(bob, request("@ana", "question"))
	d.offers(d.take(carol), asked.ID)
	d.refused(alice, commands.NotParticipant, reply(asked.ID, "I did not take it"))
	d.send(carol, reply(asked.ID, "answer"))
	d.owes()
}

func TestOnlyWhoTakesPartReplies(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "ben", OSUser: "ben"}}
	d.ready(alice, bob, carol)
	const dave = "dddddddd-0000-4000-8000-000000000004"
	d.join(dave, func(q *ops.JoinRequest) { q.Seat = "smith" })
	asked := d.send(alice, request(bob, "question"))
	r := d.refused(carol, commands.NotParticipant, reply(asked.ID, "may I?"))
	if r.Thread != asked.Thread {
		t.Errorf("the refusal names thread %q", r.Thread)
	}
	d.send(dave, reply(asked.ID, "a seat of the roster may"))
	d.send("@ben", ops.SendRequest{ReplyTo: string(asked.ID), To: carol, Body: []byte("a person may; carol, come in")})
	d.send(carol, reply(asked.ID, "now I may"))
	if view := d.thread(asked.Thread); len(view.Refusals) != 1 || view.Refusals[0].By != carol || view.Refusals[0].Code != "not_participant" {
		t.Errorf("the thread's refusals are %+v", view.Refusals)
	}
}

func TestAReplyLeftWithoutAnAddressGoesToItsParentsAuthor(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	answer := d.send(bob, reply(asked.ID, "answer"))
	second := d.send(bob, reply(answer.ID, "and another thing")) // a second word goes to the same one
	if answer.To.ID != alice || second.To.ID != alice {
		t.Errorf("they went to %s and %s", answer.To.ID, second.To.ID)
	}
	view := d.thread(asked.Thread)
	if !view.Messages[1].IsReply || view.Messages[2].IsReply || view.Messages[0].IsReply {
		t.Errorf("which is a reply: %t %t %t", view.Messages[0].IsReply, view.Messages[1].IsReply, view.Messages[2].IsReply)
	}
	d.refused(alice, commands.NotFound, reply("00000000-0000-4000-8000-000000000000", "text"))
}

// F12: that a message answers another is what the ledger says.
func TestNoTextMakesAMessageAReply(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.send(bob, inform(alice, `is_reply="true" reply_to="`+string(asked.ID)+`"`))
	o := d.take(alice)
	if len(o.Messages) != 1 || o.Messages[0].IsReply || o.Messages[0].ReplyTo != "" {
		t.Errorf("offered %+v", o.Messages)
	}
}

func TestOnlyItsAuthorEditsAMessage(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(alice, bob)
	sent := d.send(alice, inform(bob, "text"))
	for _, from := range []string{bob, "@ana"} {
		_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: from}, Message: string(sent.ID), Body: []byte("other")})
		d.told(commands.NotYours, r, err)
		_, r, err = d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: from}, Message: string(sent.ID)})
		d.told(commands.NotYours, r, err)
	}
	if view := d.thread(sent.Thread); view.Messages[0].Body != "text" || view.Messages[0].Edited != nil {
		t.Errorf("the message is %+v", view.Messages[0])
	}
	d.edit(alice, sent.ID, "edited", "")
	if view := d.thread(sent.Thread); view.Messages[0].Body != "edited" || view.Messages[0].Edited == nil || view.Messages[0].Preview != "edited" {
		t.Errorf("the message is %+v", view.Messages[0])
	}
	d.verified()
}

func TestAFinalMessageNeverBecomesWorkingAgain(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, inform(bob, "text"))
	before := d.end()
	_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID), Body: []byte("other"), Turn: "working"})
	d.told(commands.TurnFinal, r, err)
	if found := d.recorded(before); len(found) != 1 || found[0].Type() != events.TypeCommandRefused {
		t.Errorf("recorded %+v", found)
	}
	// final stays final, and a turn that is so already changes nothing
	before = d.end()
	d.edit(alice, sent.ID, "", "final")
	if d.end() != before {
		t.Errorf("recorded %+v", d.recorded(before))
	}
	working := d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("looking")})
	if receipt := d.edit(alice, working.ID, "still", "working"); receipt.Turn != events.Working {
		t.Errorf("receipt %+v", receipt)
	}
	if receipt := d.edit(alice, working.ID, "found", "final"); receipt.Turn != events.Final {
		t.Errorf("receipt %+v", receipt)
	}
	flips := d.recorded(0, events.TypeTurnFlipped)
	if len(flips) != 1 || flips[0].Stream != events.ThreadStream(working.Thread) {
		t.Errorf("the flips are %+v", flips)
	}
	_, r, err = d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(working.ID), Turn: "working"})
	d.told(commands.TurnFinal, r, err)
}

func TestAnEditIsBoundAsASendIs(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, inform(bob, "text"))
	for what, body := range map[string]string{"blank": " \n", "not UTF-8": "a\xff", "too long": string(make([]byte, 0)) + repeat("x", 4001), "control characters alone": "\x00\x01"} {
		_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID), Body: []byte(body)})
		if d.told(commands.BadRequest, r, err); r.Message == "" {
			t.Error(what)
		}
	}
	for _, q := range []ops.EditRequest{{Message: string(sent.ID)}, {Message: string(sent.ID), Turn: "thinking"}, {Message: "12345", Body: []byte("x")}} {
		q.As = alice
		_, r, err := d.Edit(q)
		d.told(commands.BadRequest, r, err)
	}
	_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: "no-such-message", Body: []byte("x")})
	d.told(commands.NotFound, r, err)
	// By a prefix, and with blanks around it as a shell may leave them: once, and told as done.
	before := d.end()
	receipt, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: " " + string(sent.ID)[:8] + "\n", Body: []byte(repeat("y", 4000))})
	if r != nil || err != nil || receipt.ID != string(sent.ID) || d.end() != before+1 {
		t.Fatalf("receipt %+v, refusal %+v, %v; recorded %d events", receipt, r, err, d.end()-before)
	}
}

func repeat(s string, n int) (long string) {
	for range n {
		long += s
	}
	return long
}

func TestADeletedMessageLosesItsBodiesAndKeepsItsEvents(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, request(bob, "first words"))
	d.edit(alice, sent.ID, "second words", "")
	d.edit(alice, sent.ID, "third words", "")
	d.owes(sent.ID)
	before := d.end()
	d.delete(alice, sent.ID)
	d.stands(sent.ID, events.StateDeleted, "")
	d.owes()
	found := d.recorded(before)
	e, is := found[0].Event.(events.MessageDeleted)
	if len(found) != 1 || !is || len(e.Bodies) != 3 {
		t.Fatalf("recorded %+v", found)
	}
	err := d.Ledger.View(func(r events.Reader) error {
		for _, id := range e.Bodies {
			if _, recorded, err := r.Event(id); err != nil || !recorded {
				t.Errorf("event %s is gone: %v", id, err)
			}
			if body, there, err := r.Body(id); err != nil || there {
				t.Errorf("the body %q is still there: %v", body.Text, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := d.lease(bob); o.ID != "" {
		t.Errorf("a deleted message is offered: %+v", o)
	}
	for _, at := range []string{"", "9"} {
		view, r, err := d.Thread(ops.ThreadRequest{ID: string(sent.Thread), At: at})
		if r != nil || err != nil || !view.Messages[0].Redacted || view.Messages[0].Body != "" || view.Messages[0].Preview != "" {
			t.Errorf("at %q the message shows as %+v, %v %v", at, view.Messages, r, err)
		}
	}
	_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID), Body: []byte("again")})
	d.told(commands.NotFound, r, err)
	_, r, err = d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID)})
	d.told(commands.NotFound, r, err)
	d.verified()
}

func TestAMessageIsFoundByAPrefixThatOneMessageHas(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate, d.policy.Limits.RecipientFull, d.policy.Limits.DeviceRate, d.policy.Limits.PersonRate = 0, 0, 0, 0
	d.ready(alice, bob)
	// Ids are hashes. With the shortest prefix, look for a thread and two
	// messages, or two threads and a message, that share one.
	_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: "abcde", Body: []byte("x")})
	d.told(commands.BadRequest, r, err)
	sent := d.send(alice, inform(bob, "text"))
	if r := d.edit(alice, sent.ID[:6], "edited", ""); r.ID != string(sent.ID) {
		t.Errorf("edited %s", r.ID)
	}
	if view, r, err := d.Thread(ops.ThreadRequest{ID: string(sent.ID)[:6]}); r != nil || err != nil || view.Thread != sent.Thread {
		t.Errorf("found %s, %v %v", view.Thread, r, err)
	}
	if view, r, err := d.Thread(ops.ThreadRequest{ID: string(sent.Thread)[:6]}); r != nil || err != nil || view.Thread != sent.Thread {
		t.Errorf("found %s, %v %v", view.Thread, r, err)
	}
}

func TestAnAnswerGoesToWhoeverSitsWhereItsAskerSat(t *testing.T) {
	d := newDesk(t)
	d.join(alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.join(bob)
	asked := d.send(alice, request(bob, "Which commit?"))
	if to := d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("While she sits there")}).To.ID; to != alice {
		t.Errorf("while its asker lives it goes to %s", to)
	}
	if _, r, err := d.Leave(ops.LeaveRequest{Asker: ops.Asker{As: alice}, Reason: events.EndCleared}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if to := d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("While nobody sits there")}).To.ID; to != alice {
		t.Errorf("while nobody else sits there it waits for a resume of the asker, and goes to %s", to)
	}
	d.join(carol, func(q *ops.JoinRequest) { q.Seat = "smith" })
	answer := d.send(bob, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("When another sits there")})
	if answer.To.ID != "@smith" || answer.To.Session != carol {
		t.Errorf("it goes to %+v", answer.To)
	}
	if second := d.send(carol, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("A second word")}); second.To.ID != bob {
		t.Errorf("the seat's second word goes to %+v", second.To)
	}
	d.verified()
}

func TestWithoutABoundAStubIsHeldUntilItIsFinal(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.WaitFinal = 0
	d.join(alice)
	d.join(bob)
	d.take(bob)
	stub := d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("I am on it")})
	d.after(10 * time.Hour)
	if o := d.take(bob); len(o.Messages) > 0 {
		t.Errorf("offered %+v", o.Messages)
	}
	if _, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(stub.ID), Turn: "final"}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if o := d.take(bob); len(o.Messages) != 1 || o.Messages[0].ID != stub.ID {
		t.Errorf("offered %+v", o.Messages)
	}
	d.verified()
}
