package ops_test

import (
	"context"
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// Who calls a tool is found out in one order, and what contradicts itself is
// nobody. F32: over MCP the stamp decides.
func TestWhoCallsAToolIsTheFirstThatAnswersAndAContradictionIsNobody(t *testing.T) {
	const stranger, gone = "eeeeeeee-0000-4000-8000-000000000005", "ffffffff-0000-4000-8000-000000000006"
	for _, c := range []struct {
		what      string
		as        string
		claims    ops.Claims
		variables map[string]string
		ancestors []int
		is        events.Participant // empty: refused as no_caller
		says      []string           // in the refusal
	}{
		{what: "the stamp", claims: ops.Claims{Stamp: alice}, is: alice},
		{what: "the stamp before a stale variable", claims: ops.Claims{Stamp: alice}, variables: map[string]string{"CLAUDE_CODE_SESSION_ID": bob}, is: alice},
		{what: "the stamp before another process", claims: ops.Claims{Stamp: alice}, ancestors: []int{2}, is: alice},
		{what: "the stamp and all that agrees", as: alice, claims: ops.Claims{Stamp: alice, Meta: []events.SessionID{alice}, ToolUse: alice}, is: alice},
		{what: "the stamp and its seat", as: "@smith", claims: ops.Claims{Stamp: alice}, is: alice},
		{what: "a stamp that is none", claims: ops.Claims{StampFault: "it is old", Meta: []events.SessionID{alice}}, says: []string{"it is old"}},
		{what: "a stamp that is none, and a name", as: alice, claims: ops.Claims{StampFault: "it is old"}, says: []string{"it is old"}},
		{what: "what Codex says", claims: ops.Claims{Meta: []events.SessionID{bob}}, variables: map[string]string{"CODEX_THREAD_ID": alice}, is: bob},
		{what: "what Codex says of a subagent", claims: ops.Claims{Meta: []events.SessionID{stranger, bob}}, is: bob},
		{what: "a subagent of Codex that is stamped", claims: ops.Claims{Stamp: bob, Meta: []events.SessionID{stranger, bob}}, is: bob},
		{what: "the hook that saw the call", claims: ops.Claims{ToolUse: bob}, ancestors: []int{1}, is: bob},
		{what: "the environment", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice}, is: alice},
		{what: "a stale variable, and the process after /clear", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": gone}, ancestors: []int{2}, is: bob},
		{what: "the process", ancestors: []int{1}, is: alice},
		{what: "a name that whoever configured it gave", as: bob, is: bob},
		{what: "a person's name likewise", as: "@ana", is: "@ana"},
		{what: "nothing at all is not the user", says: []string{"nothing says"}},
		{what: "a stale variable alone is not the user", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": gone}, says: []string{"nothing says"}},
		{what: "a name and a stamp that differ", as: bob, claims: ops.Claims{Stamp: alice}, says: []string{alice, bob}},
		{what: "a person and a stamp", as: "@ana", claims: ops.Claims{Stamp: alice}, says: []string{alice, "@ana"}},
		{what: "a name by a variable and a stamp that differ", variables: map[string]string{"DECKLOG_AS": bob}, claims: ops.Claims{Stamp: alice}, says: []string{alice, bob}},
		{what: "a name and what Codex says", as: bob, claims: ops.Claims{Meta: []events.SessionID{alice}}, says: []string{alice, bob}},
		{what: "a stamp and what Codex says", claims: ops.Claims{Stamp: alice, Meta: []events.SessionID{bob}}, says: []string{alice, bob}},
		{what: "a stamp and the hook that saw the call", claims: ops.Claims{Stamp: alice, ToolUse: bob}, says: []string{alice, bob}},
		{what: "what Codex says and the hook", claims: ops.Claims{Meta: []events.SessionID{alice}, ToolUse: bob}, says: []string{alice, bob}},
		{what: "a name and the session that runs it", as: bob, ancestors: []int{1}, says: []string{alice, bob}},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			d.policy.Seats = seats("smith", "trinity")
			d.join(gone, from(6, 600))
			d.join(alice, on("smith"), from(1, 100))
			d.join(bob, from(2, 200))
			d.join(carol)
			d.leave(gone)
			d.World.Environ = func(name string) string { return c.variables[name] }
			d.World.Ancestors = func() (found []events.Process) {
				for _, pid := range c.ancestors {
					found = append(found, events.Process{PID: pid, Start: uint64(pid) * 100, Boot: "boot"})
				}
				return found
			}
			c.claims.Agents = true
			q := inform(carol, "hello")
			q.Asker = ops.Asker{As: c.as, Claims: c.claims}
			_, r, err := d.Send(q)
			if c.is == "" {
				d.told(commands.NoCaller, r, err)
				for _, says := range c.says {
					if !strings.Contains(r.Message, says) {
						t.Errorf("told %q, which does not name %s", r.Message, says)
					}
				}
				return
			}
			if r != nil || err != nil {
				t.Fatalf("refused %+v, %v", r, err)
			}
			if author := d.recorded(0, events.TypeMessageSent)[0].Actor; author != c.is {
				t.Errorf("it is from %s, want %s", author, c.is)
			}
		})
	}
}

// A stamp of a session that nobody knows, or that ended, makes nobody of it.
func TestAStampOfASessionThatIsNotLiveSendsNothing(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	d.join(carol)
	d.leave(alice)
	for _, id := range []events.SessionID{alice, "unknown-session"} {
		q := inform(carol, "hello")
		q.Claims = ops.Claims{Agents: true, Stamp: id}
		_, r, err := d.Send(q)
		if d.told(commands.SenderNotLive, r, err); !strings.Contains(r.Message, string(id)) {
			t.Errorf("told %q", r.Message)
		}
	}
}

// Each operation that asks who calls takes the claims: none falls back to what a
// process is started with.
func TestEveryOperationTakesTheClaims(t *testing.T) {
	d := newDesk(t)
	d.join(alice, from(1, 100))
	d.join(bob)
	d.take(alice)
	d.take(bob)
	d.World.Ancestors = func() []events.Process { return []events.Process{{PID: 1, Start: 100, Boot: "boot"}} }
	asked := d.send(alice, request(bob, "Which commit?"))
	as := ops.Asker{Claims: ops.Claims{Agents: true, Stamp: bob}}
	inbox, r, err := d.Inbox(ops.InboxRequest{Claims: as.Claims})
	if r != nil || err != nil || inbox.Participant != bob || len(inbox.Messages) != 1 {
		t.Errorf("the inbox of %s: %+v %v", inbox.Participant, r, err)
	}
	owed, r, err := d.Owed(ops.OwedRequest{By: ops.Me, Claims: as.Claims})
	if r != nil || err != nil || len(owed.Items) != 1 {
		t.Errorf("owed %+v %+v %v", owed, r, err)
	}
	owed, r, err = d.Owed(ops.OwedRequest{To: ops.Me, Claims: as.Claims})
	if r != nil || err != nil || len(owed.Items) != 0 {
		t.Errorf("owed to bob %+v %+v %v", owed, r, err)
	}
	turn, r, err := d.Turn(context.Background(), ops.TurnRequest{Asker: as, Thread: string(asked.Thread)})
	if r != nil || err != nil || turn.Message != asked.ID {
		t.Errorf("turn %+v %+v %v", turn, r, err)
	}
	if _, r, err := d.Ack(ops.AckRequest{Asker: as, Message: string(asked.ID), Ack: "act"}); r != nil || err != nil {
		t.Errorf("ack %+v %v", r, err)
	}
	waited, r, err := d.Wait(context.Background(), ops.WaitRequest{Asker: as, Once: true}, func(ops.Waited) error { return nil })
	if r != nil || err != nil || len(waited.Messages) != 1 {
		t.Errorf("waited %+v %+v %v", waited, r, err)
	}
	for _, e := range d.recorded(0, events.TypeMailboxConfirmed, events.TypeAckPlaced) {
		if e.Actor != bob {
			t.Errorf("%s is of %s", e.Type(), e.Actor)
		}
	}
	d.stands(asked.ID, events.StateDelivered, "")
}

// A door that prints only once is given one lease, also when what is waited for
// lies behind it.
func TestAWaitThatPrintsOnceTakesOneLease(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for _, text := range strings.Fields("a b c d e f g") {
		d.send(alice, inform(bob, text))
	}
	asked := d.send(bob, request(alice, "Which?"))
	answer := d.send(alice, ops.SendRequest{ReplyTo: string(asked.ID), Body: []byte("That.")})
	printed := 0
	q := ops.WaitRequest{Asker: ops.Asker{As: bob}, ID: string(asked.ID), Once: true}
	print := func(w ops.Waited) error { printed++; return nil }
	for n, want := range []int{5, 3} {
		waited, r, err := d.Wait(context.Background(), q, print)
		if r != nil || err != nil || len(waited.Messages) != want || printed != n+1 {
			t.Fatalf("wait %d printed %d times, and %d messages: %+v %v", n, printed, len(waited.Messages), r, err)
		}
	}
	d.stands(answer.ID, events.StateDelivered, "")
}

// F27: what a subagent sends goes out as its session and says so.
func TestWhatASubagentSendsGoesOutAsItsSessionAndSaysSo(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	environ := map[string]string{}
	d.World.Environ = func(name string) string { return environ[name] }
	send := func(claims ops.Claims) {
		t.Helper()
		q := inform(bob, "hello")
		q.Body = []byte("hello " + string(rune('a'+len(d.recorded(0, events.TypeMessageSent)))))
		q.Claims = claims
		if _, r, err := d.Send(q); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	send(ops.Claims{Stamp: alice})
	send(ops.Claims{Stamp: alice, Subagent: true})
	environ["CODEX_SESSION_ID"] = alice
	send(ops.Claims{})
	environ["CODEX_THREAD_ID"] = alice
	send(ops.Claims{})
	environ["CODEX_THREAD_ID"] = carol
	send(ops.Claims{})
	clear(environ)
	offered := d.lease(bob)
	if n := strings.Count(offered.Text, ` subagent="true"`); len(offered.Messages) != 5 || n != 2 {
		t.Errorf("%d of %d frames say that a subagent wrote:\n%s", n, len(offered.Messages), offered.Text)
	}
	for i, e := range d.recorded(0, events.TypeMessageSent) {
		author := e.Event.(events.MessageSent).Author
		if want := i == 1 || i == 4; author.ID != alice || author.Subagent != want || offered.Messages[i].Subagent != want {
			t.Errorf("message %d is of %+v", i, author)
		}
	}
}
