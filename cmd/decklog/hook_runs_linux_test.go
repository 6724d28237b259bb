package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/internal/runs"
)

// heardRuns hears what hook runs on the machine tell.
func (m *machine) heardRuns() <-chan runs.Told {
	m.Helper()
	l, err := runs.Listen(filepath.Dir(m.file()))
	m.ok(err)
	heard, end := make(chan runs.Told, 100), make(chan error, 1)
	go func() {
		end <- l.Hear(func(t runs.Told) { heard <- t }, func() { heard <- runs.Told{Outcome: "malformed"} })
	}()
	m.Cleanup(func() {
		m.ok(l.Close())
		m.ok(<-end)
	})
	return heard
}

func TestEveryHookRunOfTheRealProgramsTellsHowItWent(t *testing.T) {
	for name, small := range map[string]bool{"decklog hook": false, "decklog-hook": true} {
		t.Run(name, func(t *testing.T) {
			m := aboard(t)
			m.first = small
			m.join("sender-01")
			heard := m.heardRuns()
			run := func(want runs.Outcome, event string, more map[string]any) {
				t.Helper()
				began := time.Now()
				r, err := finish(m.hookCommand("claude-code"), strings.NewReader(stdinOf(event, "taker-0001", more)))
				took := time.Since(began)
				m.ok(err)
				if r.code != 0 || len(r.stderr) > 0 {
					t.Fatalf("%s: %s", event, r)
				}
				// It was told before the process ended, so it is there.
				if got := <-heard; got.Harness != "claude-code" || got.Outcome != want || got.Took <= 0 || got.Took > took {
					t.Errorf("%s tells %+v, took %v, and should tell %s", event, got, took, want)
				}
			}
			run(runs.Delivered, "SessionStart", nil) // the instruction
			run(runs.Nothing, "PostToolUse", nil)
			run(runs.Nothing, "PostToolUse", nil) // now its bell is silent
			m.bell("taker-0001", "silent")
			run(runs.Passed, "PostToolUse", map[string]any{"agent_id": "a-1"})
			m.send("sender-01", "taker-0001", "Are you there?")
			run(runs.Delivered, "PostToolUse", nil)
			run(runs.Passed, "Notification", nil)
			run(runs.Ended, "SessionEnd", nil)
			select {
			case more := <-heard:
				t.Errorf("somebody tells %+v besides", more)
			default:
			}
			m.verified()
		})
	}
}

func TestAHookRunThatFailsTellsItToo(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	heard := m.heardRuns()
	r := m.run(strings.NewReader("no JSON"), "hook", "codex")
	if got := <-heard; r.code != 0 || got.Harness != "codex" || got.Outcome != runs.Failed {
		t.Errorf("it tells %+v, and is %s", got, r)
	}
	// So does the small one that finds nobody to hand over to.
	text, err := os.ReadFile(filepath.Join(filepath.Dir(m.program), "decklog-hook"))
	m.ok(err)
	folder := t.TempDir()
	alone := filepath.Join(folder, "decklog-hook")
	m.ok(os.WriteFile(alone, text, 0o700))
	cmd := exec.Command(alone, "codex")
	cmd.Env = []string{"HOME=" + m.dir, "PATH=" + folder, "DECKLOG_LEDGER=" + m.url}
	r, err = finish(cmd, strings.NewReader(stdinOf("SessionStart", "taker-0001", nil)))
	m.ok(err)
	if got := <-heard; r.code != 0 || got.Outcome != runs.Failed {
		t.Errorf("alone it tells %+v, and is %s", got, r)
	}
}

func TestASessionThatTakesNoPartTellsNothing(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	heard := m.heardRuns()
	for _, small := range []bool{false, true} {
		off := m.with("DECKLOG=off")
		off.first = small
		r, err := finish(off.hookCommand("codex"), strings.NewReader(stdinOf("PostToolUse", "taker-0001", nil)))
		m.ok(err)
		select {
		case told := <-heard:
			t.Errorf("it tells %+v, and is %s", told, r)
		default:
		}
	}
}

// A listener that was killed, or is none, is no hook's trouble.
func TestNobodyWhoListensIsNoTroubleForAHook(t *testing.T) {
	for what, lay := range map[string]func(string) error{
		"a file":            func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a folder":          func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to nowhere": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(what, func(t *testing.T) {
			m := aboard(t)
			m.first = true
			m.join("sender-01")
			m.ok(lay(filepath.Join(filepath.Dir(m.file()), runs.SocketName)))
			for _, event := range []string{"SessionStart", "PostToolUse", "PostToolUse", "SessionEnd"} {
				m.hook("codex", event, "taker-0001") // which must end well
			}
		})
	}
}
