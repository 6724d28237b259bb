package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/internal/callers"
	"decklog/internal/stamp"
)

// stampedBy runs a harness's hook before a tool with a key in a folder.
func (s *stage) stampedBy(c callers.Callers, harness, tool string, more ...change) *answer {
	s.t.Helper()
	input := given(s.t, harness+"/pre-tool-use", append([]change{
		with("tool_name", tool), with("tool_input", json.RawMessage(`{"to":"@smith","body":"a \"c\" é","n":12345678901234567890}`)), with("tool_use_id", "use_1"),
	}, more...)...)
	run, a := s.run(harness, strings.NewReader(input))
	run.Callers = c
	run.Do()
	return a
}

// The tool as each harness calls it, and the document that it takes.
var stampedTools = map[string]struct{ tool, begins, ends string }{
	"claude-code": {"mcp__decklog__decklog_send", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"_decklog":"v1.`,
		`","body":"a \"c\" é","n":12345678901234567890,"to":"@smith"}}}` + "\n"},
	"codex": {"mcp__decklog__decklog_send", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"_decklog":"v1.`,
		`","body":"a \"c\" é","n":12345678901234567890,"to":"@smith"}}}` + "\n"},
	"gemini": {"mcp_decklog_decklog_send", `{"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"_decklog":"v1.`,
		`","body":"a \"c\" é","n":12345678901234567890,"to":"@smith"}}}` + "\n"},
	"opencode": {"decklog_decklog_send", `{"args":{"_decklog":"v1.`, `"}}` + "\n"},
}

func TestACallOfDecklogsOwnToolIsStampedInTheFormThatItsHarnessTakes(t *testing.T) {
	for harness, want := range stampedTools {
		for _, agent := range []string{"", "agent-1"} {
			t.Run(harness+"/"+agent, func(t *testing.T) {
				s := newStage(t)
				c := callers.Beside(t.TempDir())
				var more []change
				if agent != "" {
					more = append(more, with("agent_id", agent))
				}
				printed := s.stampedBy(c, harness, want.tool, more...).stdout.String()
				rest, is := strings.CutPrefix(printed, want.begins)
				signed, ends := strings.CutSuffix(rest, want.ends)
				if !is || !ends {
					t.Fatalf("printed %s", printed)
				}
				key, err := c.Key()
				if err != nil {
					t.Fatal(err)
				}
				input := []byte(`{"n":12345678901234567890,"body":"a \"c\" é","to":"@smith"}`)
				claim, err := stamp.Verify(key, "v1."+signed, "decklog_send", "use_1", input, s.now.Std().Add(time.Second))
				if session := owner(t, harness+"/pre-tool-use"); err != nil || claim.Session != session || claim.Harness != harness || claim.Agent != agent {
					t.Errorf("it says %+v %v", claim, err)
				}
				use, noted := c.Noted("use_1", "decklog_send", s.now.Std())
				if !noted || use.Session != claim.Session || use.Agent != agent {
					t.Errorf("noted %+v", use)
				}
				if s.opened > 0 || s.end() > 0 {
					t.Error("the ledger was opened for it")
				}
			})
		}
	}
}

func TestNoOtherToolIsTouchedAndNothingIsPrintedForIt(t *testing.T) {
	for harness := range stampedTools {
		for _, tool := range []string{
			"Bash", "", "decklog_send", "mcp__other__decklog_send", "mcp_other_decklog_send", "other_decklog_send", "mcp__decklog__other", "decklog_other",
		} {
			s := newStage(t)
			dir := t.TempDir()
			s.stampedBy(callers.Beside(dir), harness, tool).silent()
			if files, _ := os.ReadDir(dir); len(files) > 0 || s.end() > 0 {
				t.Errorf("%s before %q leaves %v", harness, tool, files)
			}
		}
	}
}

// A model that writes a stamp, or another's name, into the field, gets it replaced.
func TestWhatAModelWritesIntoTheStampsFieldIsReplaced(t *testing.T) {
	s := newStage(t)
	c := callers.Beside(t.TempDir())
	printed := s.stampedBy(c, "claude-code", "mcp__decklog__decklog_send", with("tool_input", json.RawMessage(`{"_decklog":"v1.forged","body":"x"}`))).stdout.String()
	if strings.Contains(printed, "forged") || strings.Count(printed, "_decklog") != 1 {
		t.Errorf("printed %s", printed)
	}
}

func TestACallIsMadeUnstampedWhereTheKeyCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stamp.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]callers.Callers{"a broken key": callers.Beside(dir), "no folder": callers.Beside(filepath.Join(dir, "none"))} {
		s := newStage(t)
		a := s.stampedBy(c, "claude-code", "mcp__decklog__decklog_send")
		if a.stdout.Len() > 0 || !strings.Contains(a.stderr.String(), "stamp") {
			t.Errorf("%s: printed %q, and complained %q", what, a.stdout.String(), a.stderr.String())
		}
	}
	s := newStage(t)
	a := s.stampedBy(callers.Callers{}, "claude-code", "mcp__decklog__decklog_send") // a ledger in memory
	a.silent()
	a = s.stampedBy(callers.Beside(t.TempDir()), "claude-code", "mcp__decklog__decklog_send", with("tool_input", "text"))
	if a.stdout.Len() > 0 {
		t.Errorf("what is no object is stamped: %s", a.stdout.String())
	}
}
