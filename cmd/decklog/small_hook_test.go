package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"decklog/events"
)

// dialects are the harnesses' own names of a session's events, and of the field
// that names the session.
var dialects = map[string]struct{ start, prompt, tool, stop, end, session string }{
	"claude-code": {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "session_id"},
	"codex":       {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "session_id"},
	"gemini":      {"SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd", "session_id"},
	"opencode":    {"session.created", "chat.message", "tool.execute.after", "session.idle", "session.deleted", "session_id"},
	"cursor":      {"sessionStart", "beforeSubmitPrompt", "postToolUse", "stop", "sessionEnd", "conversation_id"},
}

// alone runs decklog-hook where no full program is: with a silent bell it needs
// none, and else it says that it has none to hand over to.
func (m *machine) alone(harness, input string) (printed, handsOver bool) {
	m.Helper()
	folder := m.TempDir()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(m.program), "decklog-hook"))
	m.ok(err)
	small := filepath.Join(folder, "decklog-hook")
	m.ok(os.WriteFile(small, text, 0o700))
	cmd := exec.Command(small, harness)
	var stdout, stderr bytes.Buffer
	cmd.Env = []string{"HOME=" + m.dir, "PATH=" + folder, "DECKLOG_LEDGER=" + m.url, "DECKLOG_TEST_CLOCK=" + m.clock}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	m.ok(cmd.Run())
	return stdout.Len() > 0, strings.Contains(stderr.String(), "hand over")
}

func TestTheSmallHookNeedsNoOtherWhileABellIsSilentInEveryHarness(t *testing.T) {
	for harness, d := range dialects {
		t.Run(harness, func(t *testing.T) {
			m := aboard(t)
			m.first = true
			says := func(event string) string {
				return `{"hook_event_name":"` + event + `","` + d.session + `":"taker-0001","cwd":"/","status":"completed","transcript_path":"/t/x.jsonl"}`
			}
			hears := func(event string) string {
				r, err := finish(m.hookCommand(harness), strings.NewReader(says(event)))
				m.ok(err)
				if r.code != 0 || len(r.stderr) > 0 {
					t.Fatalf("%s: %s", event, r)
				}
				return string(r.stdout)
			}
			for _, event := range []string{d.start, d.prompt, d.tool, d.tool} {
				hears(event)
			}
			m.bell("taker-0001", "silent")
			for _, event := range []string{d.prompt, d.tool, d.stop} {
				if printed, handsOver := m.alone(harness, says(event)); printed || handsOver {
					t.Errorf("%s prints (%t) or hands over (%t)", event, printed, handsOver)
				}
			}
			for _, event := range []string{d.start, d.end} {
				if _, handsOver := m.alone(harness, says(event)); !handsOver {
					t.Errorf("%s is left out", event)
				}
			}
			m.join("sender-01")
			id := m.send("sender-01", "taker-0001", "Are you there?", "--intent", "request")
			if _, handsOver := m.alone(harness, says(d.tool)); !handsOver {
				t.Error("it looks at no bell")
			}
			if out := hears(d.tool); !strings.Contains(out, id) {
				t.Errorf("a tool brings %q", out)
			}
			asked := m.send("sender-01", "taker-0001", "At the end?", "--intent", "request")
			if out := hears(d.stop); !strings.Contains(out, asked) {
				t.Errorf("the end of the turn brings %q", out)
			}
			if got := m.message(asked).State; got != events.StateDelivered {
				t.Errorf("it is %s", got)
			}
			hears(d.end)
			m.bell("taker-0001", "none")
			m.verified()
		})
	}
}

func TestTheSmallHookHandsOverWhileASubagentOfGeminiWorks(t *testing.T) {
	m := aboard(t)
	m.first = true
	says := func(event, tool string) string {
		return `{"hook_event_name":"` + event + `","session_id":"taker-0001","cwd":"/","tool_name":"` + tool + `"}`
	}
	for _, input := range []string{
		says("SessionStart", ""), says("BeforeAgent", ""), says("AfterTool", "run_shell_command"), says("BeforeTool", "invoke_agent"),
	} {
		if r, err := finish(m.hookCommand("gemini"), strings.NewReader(input)); err != nil || r.code != 0 || len(r.stderr) > 0 {
			t.Fatalf("%v: %s", err, r)
		}
	}
	m.bell("taker-0001", "silent")
	if _, handsOver := m.alone("gemini", says("AfterTool", "run_shell_command")); !handsOver {
		t.Error("nobody would hear of the subagent's end")
	}
	if r, err := finish(m.hookCommand("gemini"), strings.NewReader(says("AfterTool", "invoke_agent"))); err != nil || r.code != 0 || len(r.stderr) > 0 {
		t.Fatalf("%v: %s", err, r)
	}
	if _, handsOver := m.alone("gemini", says("AfterTool", "run_shell_command")); handsOver {
		t.Error("the subagent works on")
	}
}
