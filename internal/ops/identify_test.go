package ops_test

import (
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
)

// F32: who asks is found out; inside a harness nobody is believed to be another.
func TestInsideAHarnessNobodyActsAsSomebodyElse(t *testing.T) {
	const codex, gone = "eeeeeeee-0000-4000-8000-000000000005", "ffffffff-0000-4000-8000-000000000006"
	process := func(pid int) events.Process {
		return events.Process{PID: pid, Start: uint64(pid) * 100, Boot: "boot"}
	}
	for _, c := range []struct {
		what      string
		as        string
		variables map[string]string
		ancestors []int
		is        events.Participant // whom the message is from; empty: refused as no_caller
	}{
		{what: "a shell", is: "@ana"},
		{what: "a shell, as a session", as: alice, is: alice},
		{what: "a shell, as a prefix", as: alice[:6], is: alice},
		{what: "a shell, as a seat", as: "@smith", is: alice},
		{what: "a shell, by a variable", variables: map[string]string{"DECKLOG_AS": bob}, is: bob},
		{what: "a flag before a variable", as: alice, variables: map[string]string{"DECKLOG_AS": bob}, is: alice},
		{what: "a bot", as: "bot:ci"},
		{what: "a prefix that two share", as: "same-pre"},
		{what: "a harness by its variable", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice}, is: alice},
		{what: "a harness by its process", ancestors: []int{7, 1}, is: alice},
		{what: "a harness, as itself", as: alice, variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice}, is: alice},
		{what: "a harness, as its own seat", as: "@smith", ancestors: []int{1}, is: alice},
		{what: "a harness, as another session", as: bob, variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice}},
		{what: "a harness, as another seat", as: "@trinity", ancestors: []int{1}},
		{what: "a harness, as its person", as: "@ana", ancestors: []int{1}},
		{what: "a harness, as a person by a variable", variables: map[string]string{"DECKLOG_AS": "@ana", "CLAUDE_CODE_SESSION_ID": alice}},
		{what: "one harness inside another, by the nearest process", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice, "CODEX_THREAD_ID": codex}, ancestors: []int{8, 5, 1}, is: codex},
		{what: "the same, the other way round", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": alice, "CODEX_THREAD_ID": codex}, ancestors: []int{1, 5}, is: alice},
		{what: "a variable of an ended session, and a live process", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": gone}, ancestors: []int{2}, is: bob},
		{what: "a variable of an ended session alone is silent", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": gone}, is: "@ana"},
		{what: "a variable that is no id", variables: map[string]string{"CLAUDE_CODE_SESSION_ID": "@ana"}, is: "@ana"},
		{what: "a process of an ended session", ancestors: []int{6}, is: "@ana"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			d.policy.Seats = seats("smith", "trinity")
			for pid, id := range map[int]string{1: alice, 2: bob, 5: codex, 6: gone} {
				d.join(id, from(pid, uint64(pid)*100))
			}
			d.join(alice, on("smith"), from(1, 100))
			d.join(bob, on("trinity"), from(2, 200))
			d.join("same-prefix-1")
			d.join("same-prefix-2")
			d.join(carol)
			d.leave(gone)
			d.World.Environ = func(name string) string { return c.variables[name] }
			d.World.Ancestors = func() (found []events.Process) {
				for _, pid := range c.ancestors {
					found = append(found, process(pid))
				}
				return found
			}
			q := inform(carol, "hello")
			q.As = c.as
			receipt, r, err := d.Send(q)
			if c.is == "" {
				d.told(commands.NoCaller, r, err)
				return
			}
			if r != nil || err != nil {
				t.Fatalf("refused %+v, %v", r, err)
			}
			if author := d.recorded(0, events.TypeMessageSent)[0].Actor; author != c.is {
				t.Errorf("%s is from %s, want %s", receipt.ID, author, c.is)
			}
		})
	}
}

// An agent whose hooks are missing is not taken for its user.
func TestAVariableOfASessionThatNobodyKnowsIsNotItsUser(t *testing.T) {
	d := newDesk(t)
	d.join(carol)
	d.World.Environ = func(name string) string {
		if name == "CLAUDE_CODE_SESSION_ID" {
			return alice
		}
		return ""
	}
	if r := d.refused("", commands.SenderNotLive, inform(carol, "hello")); !strings.Contains(r.Message, alice) {
		t.Errorf("told %q", r.Message)
	}
}

// What is wrong with the message is told before what is wrong with --as.
func TestABadMessageIsToldBeforeABadCaller(t *testing.T) {
	d := newDesk(t)
	d.join("same-prefix-1")
	d.join("same-prefix-2")
	d.refused("same-pre", commands.BadRequest, inform("same-prefix-1", " "))
	d.refused("same-pre", commands.NoCaller, inform("nobody-here", "text"))
}
