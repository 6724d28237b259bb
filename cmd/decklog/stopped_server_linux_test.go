package main

import (
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A server that is stopped, or whose machine hangs, takes connections and answers
// none. A harness waits for its hook, and a person for a command.
func TestNobodyWaitsForEverForAServerThatIsStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until commands give a server up")
	}
	m := aboard(t)
	s := m.serves("--listen", "127.0.0.1:0")
	m.ok(m.command("join", "--session", "alice-0001", "--ledger", s.socket).Run())
	m.ok(s.cmd.Process.Signal(syscall.SIGSTOP))
	defer func() { m.ok(s.cmd.Process.Signal(syscall.SIGCONT)) }()
	var work sync.WaitGroup
	for _, ledger := range []string{s.socket, s.http} {
		reaching := m.with("DECKLOG_LEDGER="+ledger, "DECKLOG_TOKEN="+m.secret())
		for _, small := range []bool{false, true} {
			work.Go(func() {
				hooked := *reaching
				hooked.first = small
				r, err := finish(hooked.hookCommand("claude-code"), strings.NewReader(stdinOf("UserPromptSubmit", "alice-0001", nil)))
				if err != nil || r.code != 0 || len(r.stdout) > 0 {
					t.Errorf("a hook over %s: %v %v", ledger, r, err)
				}
			})
		}
		for code, args := range map[string][]string{
			"unknown_outcome": {"send", "--as", "alice-0001", "--to", "bob-00002", "--intent", "inform", "--", "Hello."},
			"no_answer":       {"inbox", "--as", "alice-0001"},
		} {
			work.Go(func() {
				r, err := finish(reaching.command(append(args, "--json")...), nil)
				if err != nil || r.code <= 0 || !strings.Contains(string(r.stdout)+string(r.stderr), code) {
					t.Errorf("%s over %s: %v %v", args[0], ledger, r, err)
				}
			})
		}
	}
	work.Wait()
}
