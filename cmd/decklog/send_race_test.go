package main

import (
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"decklog/events"
	"decklog/projections"
)

// F19: many processes send at once, and nothing is lost, doubled or refused:
// every one of them ends well, every receipt names a message that is there, and
// the positions have no gap.
func TestF19ManyProcessesSendAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 800 processes")
	}
	const senders, each = 16, 50
	program, err := released()
	if err != nil {
		t.Fatal(err)
	}
	m := aboard(t)
	m.program, m.clock = program, "" // the released program, by the machine's clock
	m.policy(unbounded)
	session := func(n int) string { return fmt.Sprintf("sender-%02d", n%senders) }
	for n := range senders {
		m.join(session(n))
	}

	begin := make(chan struct{})
	var wait sync.WaitGroup
	var got [senders][each]ran
	for n := range senders {
		wait.Go(func() {
			next := func(k int) *exec.Cmd {
				return m.command("send", "--as", session(n), "--to", session(n+1), "--json", "--", fmt.Sprint(n, " says ", k))
			}
			<-begin
			for k := range each {
				r, err := finish(next(k), nil)
				if err != nil {
					r = ran{code: -1, stderr: []byte(err.Error())}
				}
				got[n][k] = r
			}
		})
	}
	close(begin)
	wait.Wait()

	receipts := map[string]events.Position{}
	for n := range got {
		for k, r := range got[n] {
			if r.code != 0 {
				t.Fatalf("message %d of %s: %s", k, session(n), r)
			}
			said := read[receipt](m, r.stdout).Receipt
			if said.ID == "" || receipts[said.ID] > 0 {
				t.Fatalf("message %d of %s has the receipt %s", k, session(n), r.stdout)
			}
			receipts[said.ID] = said.Position
		}
	}

	var sent, turns int
	var last events.Participant
	for at, e := range m.events() {
		if e.Position != events.Position(at+1) {
			t.Fatalf("position %d comes after %d", e.Position, at)
		}
		if e.Type != events.TypeMessageSent {
			continue
		}
		sent++
		if e.Actor != last {
			last = e.Actor
			turns++
		}
		id := read[struct{ Message string }](m, e.Data).Message
		if receipts[id] != e.Position {
			t.Fatalf("message %s lies at %d, its receipt says %d", id, e.Position, receipts[id])
		}
	}
	if sent != senders*each || len(receipts) != senders*each {
		t.Errorf("%d messages were sent, %d receipts given, of %d", sent, len(receipts), senders*each)
	}
	// Had they gone one after the other, there would be 16 turns.
	if turns < 2*senders {
		t.Errorf("the senders took only %d turns: they did not race", turns)
	}
	for n := range senders {
		view := told[projections.InboxView](m, "inbox", "--as", session(n), "--limit", "200")
		if len(view.Messages) != each {
			t.Errorf("%s was sent %d messages", session(n), len(view.Messages))
		}
		for _, shown := range view.Messages {
			if receipts[string(shown.ID)] == 0 {
				t.Errorf("%s has message %s, of which there is no receipt", session(n), shown.ID)
			}
		}
	}
	if refused := m.events("--type", "command.refused"); len(refused) > 0 {
		t.Errorf("refused: %+v", refused)
	}
	if audited := m.verified(); audited.Position != 1+senders+senders*each {
		t.Errorf("the ledger ends at %d", audited.Position)
	}
}
