package hook_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/internal/callers"
	"decklog/internal/ops"
	"decklog/internal/runs"
)

// went gives how a run with one of the inputs in testdata went, as it tells.
func (s *stage) went(name string, changes ...change) (all []runs.Outcome) {
	s.t.Helper()
	run, _ := s.run(filepath.Dir(name), strings.NewReader(given(s.t, name, changes...)))
	run.Callers = callers.Beside(s.t.TempDir())
	run.Went = func(harness string, how runs.Outcome) {
		if harness != filepath.Dir(name) {
			s.t.Errorf("a run of %s tells of %s", filepath.Dir(name), harness)
		}
		all = append(all, how)
	}
	run.Do()
	return all
}

func TestARunTellsOnceHowItWent(t *testing.T) {
	s := newStage(t)
	must := func(want runs.Outcome, name string, changes ...change) {
		t.Helper()
		if got := s.went(name, changes...); len(got) != 1 || got[0] != want {
			t.Errorf("%s tells %v, and should tell %s once", name, got, want)
		}
	}
	session := owner(t, "codex/post-tool-use")
	must(runs.Delivered, "codex/session-start-startup", of(session)) // the instruction
	must(runs.Nothing, "codex/post-tool-use")
	_, r, err := s.Join(ops.JoinRequest{Session: "sender-0001"})
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	send := func() {
		t.Helper()
		if _, r, err := s.Send(ops.SendRequest{Asker: ops.Asker{As: "sender-0001"}, To: session, Intent: "request", Body: []byte("?" + s.now.String())}); r != nil || err != nil {
			t.Fatal(r, err)
		}
		s.after(time.Second)
	}
	send()
	must(runs.Passed, "codex/post-tool-use-in-a-subagent", of(session))
	must(runs.Passed, "codex/subagent-stop", of(session))
	must(runs.Passed, "codex/stop-hook-active", of(session))
	s.age = 4 * time.Second
	must(runs.Late, "codex/post-tool-use")
	s.age = 0
	must(runs.Delivered, "codex/post-tool-use")
	must(runs.Passed, "codex/pre-tool-use", of(session))
	must(runs.Stamped, "codex/pre-tool-use", of(session), with("tool_name", "mcp__decklog__decklog_send"), with("tool_input", map[string]any{}))

	// What goes wrong counts as that, whatever else the run did.
	must(runs.Failed, "codex/post-tool-use", with("hook_event_name", "Unheard"))
	must(runs.Failed, "codex/post-tool-use", with("session_id", ""))
	send()
	whole := s.stdout
	s.stdout = func(io.Writer) io.Writer { return broken{} }
	must(runs.Failed, "codex/post-tool-use")
	s.stdout = whole
	must(runs.Failed, "codex/post-tool-use", with("session_id", strings.Repeat("x", 10_000)))

	must(runs.Ended, "codex/session-end", of(session))
	s.environ["DECKLOG"] = "off"
	if got := s.went("codex/post-tool-use"); len(got) != 0 {
		t.Errorf("a session that takes no part tells %v", got)
	}
}

func TestARunInAnIgnoredDirectoryTellsThatItIs(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	s.policy.Sessions.Ignore = []string{dir}
	for _, name := range []string{"claude-code/session-start-startup", "claude-code/post-tool-use"} {
		if got := s.went(name, with("cwd", dir)); len(got) != 1 || got[0] != runs.Ignored {
			t.Errorf("%s tells %v", name, got)
		}
	}
}
