package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/hook"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

// claude is the process of a Claude Code that hooks find above them.
var claude = events.Process{PID: 4711, Start: 228374, Boot: "b0070000-0000-4000-8000-000000000001"}

// joinedIn is the last event by which a session joined.
func (s *stage) joinedIn(session string) events.SessionJoined {
	s.t.Helper()
	all := s.recorded(1)
	for _, r := range slices.Backward(all) {
		if e, is := r.Event.(events.SessionJoined); is && e.Session == events.SessionID(session) {
			return e
		}
	}
	s.t.Fatalf("%s did not join: %q", session, s.happened(1))
	return events.SessionJoined{}
}

func TestASessionStartRegistersTheSessionWithWhereAndUnderWhatItRuns(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "demo", "lease")
	for _, folder := range []string{dir, filepath.Join(root, "demo", ".git")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "demo", ".git", "HEAD"), []byte("ref: refs/heads/lease-fix\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range delivering {
		if !strings.Contains(name, "session-start") {
			continue
		}
		s := newStage(t)
		s.process["claude-code"], s.process["codex"] = claude, claude
		input := given(t, name, with("cwd", dir))
		harness, _, _ := strings.Cut(name, "/")
		s.hook(harness, input).text()
		var in struct {
			Source     events.Source `json:"source"`
			Transcript string        `json:"transcript_path"`
			Title      string        `json:"session_title"`
		}
		if err := json.Unmarshal([]byte(input), &in); err != nil {
			t.Fatal(err)
		}
		session := owner(t, name)
		want := events.SessionJoined{
			Session: events.SessionID(session), Harness: harness, Source: in.Source, Cwd: dir, Repo: filepath.Join(root, "demo"),
			Branch: "lease-fix", Title: in.Title, Person: "ana", Device: "deck", Process: &claude, Transcript: in.Transcript,
		}
		if d := cmp.Diff(want, s.joinedIn(session)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		p := s.peer(session)
		seen := "idle when last seen"
		if in.Source == events.SourceCompact {
			seen = "no hook run seen" // a turn may go on over it
		}
		if !p.Live || p.Busy || p.Evidence != "its process runs; "+seen {
			t.Errorf("%s: it is shown as %+v", name, p)
		}
		s.dead[claude] = true
		if p := s.peer(session); p.Live || p.Evidence != "its process is gone" {
			t.Errorf("%s: without its process it is shown as %+v", name, p)
		}
	}
}

func TestASessionWithoutAHarnessAboveItIsLiveWithoutAProcess(t *testing.T) {
	s := newStage(t)
	s.process["codex"] = claude // that is not the harness which runs the hook
	s.begin("claude-code")
	if e := s.joinedIn(ada); e.Process != nil {
		t.Errorf("process %+v", e.Process)
	}
	if p := s.peer(ada); !p.Live {
		t.Errorf("%+v", p)
	}
}

func TestASourceThatNobodyKnowsIsAStart(t *testing.T) {
	for _, source := range []any{"", "reboot", nil, 7, "manual"} {
		s := newStage(t)
		s.hears("claude-code/session-start-startup", with("source", source)).text()
		if e := s.joinedIn(ada); e.Source != events.SourceStartup {
			t.Errorf("%v is recorded as %s", source, e.Source)
		}
	}
}

func TestAHookJoinsASessionWhoseStartWasMissed(t *testing.T) {
	for _, name := range delivering {
		if strings.Contains(name, "session-start") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.process[filepath.Dir(name)] = claude
			a := s.hears(name)
			if stops(name) {
				a.silent() // the instruction alone holds nobody
			} else if !instructs(a.brings()) {
				t.Errorf("it is told\n%s", a.text())
			}
			e := s.joinedIn(session)
			if e.Process == nil || *e.Process != claude || e.Harness != filepath.Dir(name) || e.Cwd != "/w/demo" || e.Source != events.SourceResume {
				t.Errorf("it joined as %+v", e)
			}
			end := s.end()
			s.hears(name).silent()
			if more := s.happened(end + 1); more != nil {
				t.Errorf("the next hook run does %q", more)
			}
		})
	}
}

func TestAStartOfASessionThatIsRegisteredAsItIsRecordsNothing(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		s.begin(harness)
		end := s.end()
		for _, source := range []string{"startup", "resume"} {
			s.hears(harness+"/session-start-startup", with("source", source)).silent()
		}
		if more := s.happened(end + 1); more != nil {
			t.Errorf("%s: %q", harness, more)
		}
	}
}

func TestALostContextIsOwedTheShortInstructionBeforeAnyMessage(t *testing.T) {
	for _, name := range []string{"claude-code/session-start-compact", "codex/session-start-compact", "codex/session-start-clear"} {
		s := newStage(t)
		harness, _, _ := strings.Cut(name, "/")
		session := s.begin(harness)
		asked := s.request(session, "Still there?")
		s.age = hook.LateAfter + time.Second // nobody reads what this one would print
		s.hears(name).silent()
		s.age = 0
		text := s.hears(harness + "/post-tool-use").brings(asked)
		if !instructs(text) || !strings.Contains(text, `form="short"`) {
			t.Errorf("%s: it is told\n%s", name, text)
		}
		s.hears(harness + "/post-tool-use").silent()
	}
}

func TestEachReasonEndsTheSession(t *testing.T) {
	for name, want := range map[string]events.EndReason{
		"claude-code/session-end-clear": events.EndCleared, "claude-code/session-end-resume": events.EndLeft,
		"claude-code/session-end-logout": events.EndLeft, "claude-code/session-end-prompt-input-exit": events.EndLeft,
		"claude-code/session-end-other": events.EndLeft, "codex/session-end": events.EndLeft,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := s.begin(filepath.Dir(name))
			s.after(time.Second)
			end := s.end()
			s.hears(name).silent()
			all := s.recorded(end + 1)
			if len(all) != 1 || all[0].Event != (events.SessionLeft{Session: events.SessionID(session), Reason: want}) {
				t.Errorf("it ends with %+v", all)
			}
			if got := s.notes.Seen(events.SessionID(session)); got != (notes.Observation{}) {
				t.Errorf("what was noted of it stays: %+v", got)
			}
			s.after(time.Second)
			s.leavesNothing("a second end", func() *answer { return s.hears(name) })
		})
	}
}

func TestTheEndOfASessionThatNobodyKnowsLeavesNothing(t *testing.T) {
	for _, name := range inputs(t) {
		if strings.Contains(name, "session-end") {
			s := newStage(t)
			s.leavesNothing(name, func() *answer { return s.hears(name) })
		}
	}
}

func TestTheSessionAfterAClearHasTheSeatAndNotTheMailOfTheOldOne(t *testing.T) {
	for what, ends := range map[string]bool{"the old one's end was told": true, "its end was missed": false} {
		t.Run(what, func(t *testing.T) {
			s := newStage(t)
			s.process["claude-code"] = claude
			s.begin("claude-code")
			s.join(ada, func(q *ops.JoinRequest) { q.Seat = "smith" })
			if e := s.joinedIn(ada); e.Process == nil {
				t.Fatalf("taking a seat lost the process: %+v", e)
			}
			own := s.request(ada, "To the session itself")
			s.after(time.Second)
			if ends {
				s.hears("claude-code/session-end-clear").silent()
				s.after(time.Second)
			}
			text := s.hears("claude-code/session-start-clear").brings()
			if !instructs(text) || strings.Contains(text, `form="short"`) {
				t.Errorf("the new one is told\n%s", text)
			}
			if p := s.peer(cleared); p.Seat != "smith" {
				t.Errorf("the new one has the seat %q", p.Seat)
			}
			if p := s.peer(ada); p.Live || p.Seat != "" || p.Evidence != "left: cleared" {
				t.Errorf("the old one is %+v", p)
			}
			for range 3 {
				s.after(time.Second)
				s.hears("claude-code/user-prompt-submit", of(cleared)).silent()
			}
			if got := s.state(own); got != events.StateQueued {
				t.Errorf("the old one's mail is %s", got)
			}
			seated := s.request("@smith", "To whoever sits there")
			s.hears("claude-code/user-prompt-submit", of(cleared)).brings(seated)

			// Nobody resumed the old one in time, and its sender is told.
			s.after(11 * time.Minute)
			notice := s.hears("claude-code/user-prompt-submit", of(bob)).text()
			if !strings.Contains(notice, `<decklog-notice message="`+string(own)+`"`) || !strings.Contains(notice, `reason="session_ended"`) {
				t.Errorf("its sender is told\n%s", notice)
			}
		})
	}
}

func TestAResumedSessionGetsItsMailAndAForkDoesNot(t *testing.T) {
	s := newStage(t)
	s.process["claude-code"] = claude
	s.begin("claude-code")
	s.join(ada, func(q *ops.JoinRequest) { q.Seat = "smith" })
	s.after(time.Second)
	s.hears("claude-code/session-end-prompt-input-exit").silent()
	waiting := s.send(ops.SendRequest{To: ada, Intent: "request", Body: []byte("When you are back")})
	if waiting.Arrives != events.ArrivesOnlyIfResumed {
		t.Errorf("to one that ended: it arrives %s", waiting.Arrives)
	}
	s.after(time.Minute)

	s.hears("claude-code/session-start-fork").brings()
	s.hears("claude-code/user-prompt-submit", of(forked)).silent()
	if p := s.peer(forked); p.Seat != "" {
		t.Errorf("the fork has the seat %q", p.Seat)
	}

	next := events.Process{PID: claude.PID, Start: claude.Start + 100, Boot: claude.Boot} // the pid was used again
	s.dead[claude] = true
	s.process["claude-code"] = next
	s.hears("claude-code/session-start-resume").brings(waiting.ID)
	if e := s.joinedIn(ada); e.Source != events.SourceResume || *e.Process != next {
		t.Errorf("it was resumed as %+v", e)
	}
	if p := s.peer(ada); !p.Live || p.Seat != "smith" {
		t.Errorf("resumed, it is %+v", p)
	}
	if p := s.peer(forked); p.Live {
		t.Errorf("the fork lives on a process that ended: %+v", p)
	}
}

func TestAResumeInTheSameProcessHasTheSeatOfTheOneThatWasLeft(t *testing.T) {
	s := newStage(t)
	s.process["claude-code"] = claude
	s.hears("claude-code/session-start-startup", of(cleared)).text() // another session, of some time ago
	s.after(time.Second)
	s.hears("claude-code/session-end-other", of(cleared)).silent()
	s.begin("claude-code")
	s.join(ada, func(q *ops.JoinRequest) { q.Seat = "smith" })
	s.after(time.Second)
	s.hears("claude-code/session-end-resume").silent()
	s.after(time.Second)
	s.hears("claude-code/session-start-resume", of(cleared)).silent()
	if p := s.peer(cleared); !p.Live || p.Seat != "smith" {
		t.Errorf("%+v", p)
	}
}

func TestAHookThatBeganBeforeItsSessionEndedDoesNothing(t *testing.T) {
	for _, name := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			if a := s.hears(filepath.Dir(name)+"/session-start-startup", of(session)); !deaf(a.harness, a.event) {
				a.text()
			}
			s.request(session, "Are you there?")
			s.after(time.Second)
			s.hears(filepath.Dir(name)+"/user-prompt-submit", with("hook_event_name", "SessionEnd"), of(session)).silent()
			s.after(time.Second)
			s.age = 1500 * time.Millisecond // it began before the end, and comes to work after it
			s.leavesNothing(name, func() *answer { return s.hears(name) })
		})
	}
}

func TestAHookThatBeganAfterItsSessionEndedJoinsItAgain(t *testing.T) {
	for _, name := range delivering {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.join(session)
			s.hears(filepath.Dir(name)+"/user-prompt-submit", of(session)).text()
			s.after(time.Second)
			s.hears(filepath.Dir(name)+"/user-prompt-submit", with("hook_event_name", "SessionEnd"), of(session)).silent()
			asked := s.request(session, "Are you back?")
			s.after(time.Second)
			s.age = 500 * time.Millisecond
			s.hears(name).brings(asked)
			if p := s.peer(session); !p.Live {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestAClockThatWentBackKeepsNoSessionOut(t *testing.T) {
	s := newStage(t)
	s.begin("claude-code")
	s.hears("claude-code/session-end-other").silent()
	asked := s.request(ada, "Are you back?")
	s.after(-time.Hour)
	s.hears("claude-code/session-start-resume").brings(asked)
	if p := s.peer(ada); !p.Live {
		t.Errorf("%+v", p)
	}
}

func TestF44ALateRunLeasesNothingButRegistersAndEnds(t *testing.T) {
	for _, name := range delivering {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.join(session)
			s.hears(filepath.Dir(name)+"/user-prompt-submit", of(session)).text()
			s.after(-time.Hour)
			s.hears(filepath.Dir(name)+"/user-prompt-submit", with("hook_event_name", "SessionEnd"), of(session)).silent()
			s.after(time.Hour)
			asked := s.request(session, "Are you back?")
			s.after(time.Second)

			s.age = hook.LateAfter + 10*time.Millisecond
			s.hears(name).silent()
			if p := s.peer(session); !p.Live {
				t.Errorf("it was not registered: %+v", p)
			}
			if got := s.state(asked); got != events.StateQueued {
				t.Errorf("the message is %s", got)
			}
			s.age = hook.LateAfter
			s.hears(name).brings(asked)

			s.after(10 * time.Second)
			s.age = 5 * time.Second
			s.hears(filepath.Dir(name)+"/user-prompt-submit", with("hook_event_name", "SessionEnd"), of(session)).silent()
			if p := s.peer(session); p.Live {
				t.Errorf("a late end did not end it: %+v", p)
			}
		})
	}
}

func TestARunThatBecomesLateWhileItWaitsForTheLedgerLeasesNothing(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	asked := s.request(kay, "Are you there?")
	run, a := s.run("codex", strings.NewReader(given(t, "codex/user-prompt-submit")))
	asks := 0
	run.Age = func() time.Duration {
		asks++
		return time.Duration(asks) * hook.LateAfter / 2 // 3 s when it looks whether it is late, more when it has the ledger
	}
	run.Do()
	a.silent()
	if asks < 3 {
		t.Fatalf("it looked at its age %d times", asks)
	}
	if got := s.state(asked); got != events.StateQueued {
		t.Errorf("the message is %s", got)
	}
}

func TestF42OffLeavesNoTrace(t *testing.T) {
	for _, off := range []string{"off", "OFF", "Off"} {
		for _, name := range inputs(t) {
			s := newStage(t)
			s.join(owner(t, name))
			s.request(owner(t, name), "Are you there?")
			opened := s.opened
			s.environ["DECKLOG"] = off
			s.leavesNothing(name, func() *answer { return s.hears(name) })
			s.leavesNothing("garbage", func() *answer { return s.hook("no-harness", "garbage") })
			if s.opened != opened {
				t.Errorf("%s: it opened the ledger", name)
			}
		}
	}
	s := newStage(t)
	s.environ["DECKLOG"] = "on"
	s.begin("claude-code")
}

func TestF42ASessionInAnIgnoredDirectoryTakesNoPart(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"private/deep", "privateer", "home/scratch"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.FromSlash(folder)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "private"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return filepath.Join(root, filepath.FromSlash(path)) }
	for _, c := range []struct {
		what, ignored, cwd string
		takesPart          bool
	}{
		{"itself", at("private"), at("private"), false},
		{"with a slash behind it", at("private") + "/", at("private"), false},
		{"a folder in it", at("private"), at("private/deep"), false},
		{"a folder in it that is gone", at("private"), at("private/deep/gone"), false},
		{"through a link to it", at("private"), at("link/deep"), false},
		{"ignored by a link", at("link"), at("private/deep"), false},
		{"in the home folder", "~/scratch", at("home/scratch"), false},
		{"everywhere", "/", at("privateer"), false},
		{"beside it, with its name in front", at("private"), at("privateer"), true},
		{"above it", at("private/deep"), at("private"), true},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, name := range inputs(t) {
				s := newStage(t)
				s.environ["HOME"] = at("home")
				s.policy.Sessions.Ignore = []string{"/nowhere", c.ignored}
				if c.takesPart {
					s.hears(name, with("cwd", c.cwd))
					if _, is := takes[filepath.Dir(name)]; is && slices.Contains(delivering, name) && s.end() == 0 {
						t.Errorf("%s: it takes no part", name)
					}
					continue
				}
				s.leavesNothing(name, func() *answer { return s.hears(name, with("cwd", c.cwd)) })
				if s.end() != 0 {
					t.Errorf("%s: %q", name, s.happened(1))
				}
			}
		})
	}
}

func TestF27ASubagentTakesNothingAndWritesNothing(t *testing.T) {
	for _, name := range inputs(t) {
		harness, _, _ := strings.Cut(name, "/")
		changes := map[string]change{"by its id": with("agent_id", "a1b2c3d")}
		switch harness {
		case "claude-code":
			changes["by its transcript"] = with("transcript_path", "/home/ana/.claude/projects/-w-demo/"+ada+"/subagents/agent-a1b2c3d.jsonl")
		case "codex":
			changes["by its rollout"] = with("transcript_path", "/home/ana/.codex/sessions/2026/11/30/rollout-2026-11-30T09-00-05-01a00000-0000-7000-8000-0000000000b1.jsonl")
		}
		if strings.Contains(name, "in-a-subagent") {
			changes = map[string]change{"as it is": with("permission_mode", "default")}
		}
		for how, c := range changes {
			for _, known := range []bool{true, false} {
				s := newStage(t)
				if known {
					s.join(owner(t, name))
					s.request(owner(t, name), "To the session itself")
				}
				opened := s.opened
				s.leavesNothing(name+" "+how, func() *answer { return s.hears(name, c) })
				if s.opened != opened {
					t.Errorf("%s %s opened the ledger", name, how)
				}
			}
		}
	}
}

func TestAnOwnTranscriptIsNoSubagents(t *testing.T) {
	for _, name := range delivering {
		for _, transcript := range []any{nil, "", "/w/rollout-x.jsonl", "/w/rollout-2026-11-30T09-00-00-" + owner(t, name) + ".jsonl", "/w/subagents/notes.jsonl"} {
			s := newStage(t)
			s.hears(name, with("transcript_path", transcript))
			if s.end() == 0 {
				t.Errorf("%s with the transcript %v is taken for a subagent's", name, transcript)
			}
		}
	}
}

func TestALongTitleIsCutAndKeepsNobodyOut(t *testing.T) {
	s := newStage(t)
	if text := s.hears("claude-code/session-start-startup", with("session_title", strings.Repeat("日", 5000))).text(); !instructs(text) {
		t.Errorf("it is told\n%s", text)
	}
	if title := s.joinedIn(ada).Title; title != strings.Repeat("日", commands.AttributeBytesMax/3) || !utf8.ValidString(title) {
		t.Errorf("a title of %d bytes", len(title))
	}
}

func TestWithoutADirectoryTheHooksOwnIsTheSessions(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if here, err = filepath.EvalSymlinks(here); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []any{nil, "", 7} {
		s := newStage(t)
		s.hears("codex/session-start-startup", with("cwd", cwd)).text()
		if e := s.joinedIn(kay); e.Cwd != here {
			t.Errorf("%v: it works in %q", cwd, e.Cwd)
		}
	}
}
