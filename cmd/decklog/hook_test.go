package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/events"
)

// hookInputs are what the real harnesses send their hooks, by HARNESS/NAME.
func hookInputs(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../internal/hook/testdata/*/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d inputs: %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".json")] = string(text)
	}
	return all
}

// left are the files in a folder, with what they hold.
func left(t testing.TB, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

func TestAHookEndsWellAfterWhateverARealHarnessSends(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	for name, input := range hookInputs(t) {
		harness, _, _ := strings.Cut(name, "/")
		r := m.run(strings.NewReader(input), "hook", harness)
		if r.code != 0 || len(r.stderr) > 0 {
			t.Errorf("%s: %s", name, r)
		}
		if len(r.stdout) > 0 && (!json.Valid(r.stdout) || bytes.Count(r.stdout, []byte("\n")) != 1 || !bytes.HasSuffix(r.stdout, []byte("}\n"))) {
			t.Errorf("%s: prints %q", name, r.stdout)
		}
	}
	if noted := m.noted(); len(noted) > 0 {
		t.Errorf("noted %+v", noted)
	}
	m.verified()
}

// A closed pipe would end the process by a signal, and to a harness that is a
// hook which failed.
func TestAHookWhoseOutputIsAClosedPipeEndsWellAndConfirmsNothing(t *testing.T) {
	for _, harness := range hooked {
		for _, event := range []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"} {
			t.Run(harness+"/"+event, func(t *testing.T) {
				m := aboard(t)
				m.join("sender-01")
				m.hook(harness, "SessionStart", "taker-02")
				id := m.send("sender-01", "taker-02", "Are you there?", "--intent", "request")

				read, write, err := os.Pipe()
				m.ok(err)
				m.ok(read.Close())
				cmd := m.command("hook", harness)
				var stderr bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdinOf(event, "taker-02", nil)), write, &stderr
				if err := cmd.Run(); err != nil {
					t.Fatalf("the hook ends with %v: %s", err, stderr.Bytes())
				}
				m.ok(write.Close())
				if said := stderr.String(); !strings.Contains(said, ": print: ") || strings.Count(said, "\n") != 1 {
					t.Errorf("it says %q", said)
				}
				if noted := m.noted(); len(noted) != 1 || noted[0].Code != "print" || noted[0].Event != event {
					t.Errorf("noted %+v", noted)
				}
				if got := m.message(id); got.State != events.StateLeased || got.Deliveries[0].Confirmed != nil {
					t.Errorf("it is %s after %+v", got.State, got.Deliveries)
				}

				// Nobody else is offered it before the lease ends; then it comes as a repeat.
				if out := m.hook(harness, "PostToolUse", "taker-02"); len(out) > 0 {
					t.Errorf("while the lease runs: %s", out)
				}
				m.at(scenarioStart.Add(10 * time.Second))
				again := contextOf(t, "PostToolUse", m.hook(harness, "PostToolUse", "taker-02"))
				if !strings.Contains(again, id) || !strings.Contains(again, `attempt="2"`) || !strings.Contains(again, "This is a repeat: ") {
					t.Errorf("it comes again as %q", again)
				}
				if got := m.message(id); got.State != events.StateDelivered {
					t.Errorf("then it is %s", got.State)
				}
				m.verified()
			})
		}
	}
}

func TestAHookToWhichEverythingIsClosedEndsWell(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	m.hook("codex", "SessionStart", "taker-02")
	m.send("sender-01", "taker-02", "Are you there?")
	for what, stdin := range map[string]string{"mail": stdinOf("PostToolUse", "taker-02", nil), "garbage": "garbage", "nothing to do": stdinOf("Interrupt", "taker-02", nil)} {
		read, write, err := os.Pipe()
		m.ok(err)
		m.ok(read.Close())
		cmd := m.command("hook", "codex")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), write, write
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: the hook ends with %v", what, err)
		}
		m.ok(write.Close())
	}
	if noted := m.noted(); len(noted) != 2 {
		t.Errorf("noted %+v", noted)
	}
}

// Exit code 2 says to a harness: forbid this. A prompt would be erased.
func TestAHookThatIsSetUpWronglyForbidsNothing(t *testing.T) {
	m := aboard(t)
	prompt := stdinOf("UserPromptSubmit", "taker-02", nil)
	for _, args := range [][]string{
		{"hook", "claude-code", "--no-such-flag"}, {"hook", "--verbose", "codex"}, {"hook", "codex", "--ledger"}, {"hook", "codex", "--command", "x"},
		{"hook", "--ledger", "nothing:x", "codex"}, {"hook", "--ledger", "sqlite:" + filepath.Join(m.clock, "ledger.db"), "codex"},
		{"--ledger", "esdb://localhost:2113", "hook", "codex"}, {"hook", "claude"}, {"hook"},
	} {
		r := m.run(strings.NewReader(prompt), args...)
		if r.code != 0 || len(r.stdout) > 0 || len(r.stderr) == 0 {
			t.Errorf("%q: %s", args, r)
		}
	}
}

func TestF42ASessionThatIsOffLeavesNoFile(t *testing.T) {
	for _, existing := range []bool{false, true} {
		m := aboard(t)
		folder := filepath.Join(m.dir, "deck")
		m.url = "sqlite:" + filepath.Join(folder, "ledger.db")
		if existing {
			m.join("taker-02")
		}
		before := left(t, m.dir)
		for name, input := range hookInputs(t) {
			harness, _, _ := strings.Cut(name, "/")
			if r := m.with("DECKLOG=off").run(strings.NewReader(input), "hook", harness); r.code != 0 || len(r.stdout)+len(r.stderr) > 0 {
				t.Errorf("%s: %s", name, r)
			}
		}
		if r := m.with("DECKLOG=off").run(strings.NewReader("garbage"), "hook", "emacs"); r.code != 0 || len(r.stdout)+len(r.stderr) > 0 {
			t.Errorf("garbage: %s", r)
		}
		sameFiles(t, before, left(t, m.dir))
	}
}

func sameFiles(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, text := range after {
		if was, there := before[path]; !there {
			t.Errorf("%s is new, and holds %.200q", path, text)
		} else if was != text {
			t.Errorf("%s changed", path)
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			t.Errorf("%s is gone", path)
		}
	}
}

func TestF42ASessionInAnIgnoredDirectoryLeavesNoFile(t *testing.T) {
	m := aboard(t)
	private := filepath.Join(m.dir, "private")
	m.ok(os.MkdirAll(filepath.Join(private, "deep"), 0o700))
	m.policy(fmt.Sprintf("[sessions]\nignore = [%q]\n", private))
	m.join("sender-01")
	m.join("taker-02")
	m.send("sender-01", "taker-02", "Are you there?", "--intent", "request")
	folder := filepath.Dir(m.file())
	before := left(t, folder)
	for _, harness := range hooked {
		for _, event := range []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"} {
			for _, session := range []string{"taker-02", "new-session"} {
				r := m.run(strings.NewReader(stdinOf(event, session, map[string]any{"cwd": filepath.Join(private, "deep")})), "hook", harness)
				if r.code != 0 || len(r.stdout)+len(r.stderr) > 0 {
					t.Errorf("%s %s %s: %s", harness, event, session, r)
				}
			}
		}
	}
	// The bells may have a list of the ignored directories, which spares the next
	// run the look at the policy; of the session there is nothing.
	after, list := left(t, folder), filepath.Join(folder, "bells", ".ignored")
	if text, there := after[list]; there && text != private+"\n" {
		t.Errorf("the list of the ignored directories is %q", text)
	}
	delete(after, list)
	sameFiles(t, before, after)
	if text := contextOf(t, "PostToolUse", m.hook("codex", "PostToolUse", "taker-02")); !strings.Contains(text, "Are you there?") {
		t.Errorf("elsewhere it is told %q", text)
	}
}

// F43: a policy that cannot be read keeps no harness from going on. What is the
// matter with it takes several lines to say, and is said in one.
func TestF43AHookUnderAPolicyThatCannotBeReadEndsWellAndSaysWhy(t *testing.T) {
	m := aboard(t)
	m.policy("[limits]\nbody_bytes = many\nrefs = 'x'\n")
	for _, harness := range hooked {
		for _, event := range []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"} {
			before := len(m.noted())
			r := m.run(strings.NewReader(stdinOf(event, "taker-02", nil)), "hook", harness)
			if r.code != 0 || len(r.stdout) > 0 || bytes.Count(r.stderr, []byte("\n")) != 1 {
				t.Errorf("%s %s: %s", harness, event, r)
			}
			noted := m.noted()[before:]
			if len(noted) != 1 || noted[0].Code != "bad_policy" || noted[0].Event != event || noted[0].Time != events.At(scenarioStart) {
				t.Errorf("%s %s: noted %+v", harness, event, noted)
			}
		}
	}
}
