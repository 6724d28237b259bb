package hook

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"decklog/internal/render"
)

// moment is what a harness's event is for decklog.
type moment int

const (
	nothing moment = iota // the harness's own affair
	start                 // the session begins, or lost its context
	prompt                // its user said something
	before                // it is about to use a tool
	tool                  // it used a tool, in the middle of a turn
	stop                  // it is about to end its turn
	end                   // it ends
)

// harness is the contract of one harness, as it was measured on the real program.
type harness struct {
	name string
	// events maps the harness's names. One that is not among them is unknown.
	events map[string]moment
	// budget is how many encoded bytes one answer holds. It is under the cap of
	// the harness by whichever count that uses, characters or bytes.
	budget int
	// answer is the document that brings a text into the model's context at
	// this event. It holds exactly the fields that the harness takes there.
	answer func(event string, m moment, text string) any
	// deaf are the moments at which no text surely reaches the model. Nothing is
	// delivered then: it would count as delivered, and be lost.
	deaf []moment
	// escapes are the moments at which the harness escapes angle brackets.
	escapes []moment
	// subagent says whether a transcript is that of a subagent of the session;
	// nil: no transcript tells.
	subagent func(transcript, session string) bool
	// delegates is the tool by which a session lets a subagent work whose hooks
	// look like its own; empty: the input of a hook tells them apart.
	delegates string
	// stamped is the document that gives a call's input back with a stamp in it;
	// nil: the harness takes none.
	stamped func(event string, input json.RawMessage, signed string) any
	// names is the input's field with the session's id; empty: session_id.
	names string
}

// markup is the form in which a text stands at a moment.
func (h *harness) markup(m moment) render.Markup {
	if slices.Contains(h.escapes, m) {
		return render.Lines
	}
	return render.Tags
}

// Harnesses are the names of those that can be answered.
func Harnesses() []string { return []string{"claude-code", "codex", "gemini", "opencode", "cursor"} }

func find(name string) *harness {
	switch name {
	case "claude-code":
		return claudeCode()
	case "codex":
		return codex()
	case "gemini":
		return gemini()
	case "opencode":
		return opencode()
	case "cursor":
		return cursor()
	}
	return nil
}

// names makes the map of a harness's events: those that mean something here,
// and those that are its own affair.
func names(ours map[string]moment, others string) map[string]moment {
	for _, name := range strings.Fields(others) {
		if _, known := ours[name]; !known {
			ours[name] = nothing
		}
	}
	return ours
}

// hookOutput is the form in which most harnesses take added context.
type hookOutput struct {
	HookSpecificOutput specific `json:"hookSpecificOutput"`
}

type specific struct {
	HookEventName     string `json:"hookEventName"`
	AdditionalContext string `json:"additionalContext"`
}

func claudeCode() *harness {
	return &harness{
		name:    "claude-code",
		stamped: stampedInClaudeCode,
		events: names(map[string]moment{
			"SessionStart": start, "UserPromptSubmit": prompt, "PreToolUse": before, "PostToolUse": tool, "PostToolUseFailure": tool,
			"PostToolBatch": tool, "Stop": stop, "SessionEnd": end,
		}, `Notification UserPromptExpansion StopFailure SubagentStart SubagentStop PreCompact PostCompact PreModelSwitch
			PostModelSwitch PermissionRequest PermissionDenied Setup TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult
			ConfigChange WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded MessageDisplay PreSkillShellCommand`),
		budget: 9000, // of 10,000 characters
		answer: func(event string, _ moment, text string) any {
			return hookOutput{specific{event, text}}
		},
		subagent: func(transcript, _ string) bool {
			return strings.Contains(filepath.ToSlash(transcript), "/subagents/agent-")
		},
	}
}

// block is how Codex and Gemini are told to go on after a turn's end: they take
// no added context there.
type block struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

func codex() *harness {
	return &harness{
		name:    "codex",
		stamped: stampedInCodex,
		events: names(map[string]moment{
			"SessionStart": start, "UserPromptSubmit": prompt, "PreToolUse": before, "PostToolUse": tool, "Stop": stop, "SessionEnd": end,
		}, `PreModelRequest PostModelRequest PermissionRequest PreCompact PostCompact SubagentStart SubagentStop Interrupt`),
		budget: 9000, // of 2,500 tokens, counted as 4 bytes each
		answer: func(event string, m moment, text string) any {
			if m == stop {
				return block{"block", text}
			}
			return hookOutput{specific{event, text}}
		},
		escapes: []moment{stop}, // into <hook_prompt>
		// A subagent's rollout file bears its own thread's id, not the session's.
		subagent: func(transcript, session string) bool {
			id := rollout().FindStringSubmatch(filepath.Base(transcript))
			return id != nil && id[1] != session
		},
	}
}

var rollout = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^rollout-.*-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl$`)
})
