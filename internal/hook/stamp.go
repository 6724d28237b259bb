package hook

import (
	"bytes"
	"encoding/json"

	"decklog/internal/callers"
	"decklog/internal/runs"
	"decklog/internal/stamp"
)

// callsUs says whether one of decklog's own tools is about to be called. Of all
// others the hook says nothing.
func (v *visit) callsUs() bool {
	return v.harness.stamped != nil && v.harness.events[v.in.Event] == before && !v.Callers.None() && stamp.Tool(v.in.Tool) != ""
}

// stampCall tells decklog's server who calls: it gives the harness the call's
// input back with a stamp in it, and notes the call, for a harness that names it
// to the server but drops the stamp. A subagent calls as the session that runs it.
func (v *visit) stampCall() error {
	v.went = runs.Stamped
	v.notes = v.Beside // where a fault is told; the ledger stays closed
	key, err := v.Callers.MakeKey()
	if err != nil {
		return fault{"stamp", err.Error()}
	}
	agent := v.subagent()
	claim := stamp.Claim{Session: v.in.Session, Harness: v.harness.name, Agent: agent, Tool: stamp.Tool(v.in.Tool), Use: v.in.ToolUse}
	signed, err := stamp.Sign(key, claim, v.in.ToolInput, v.now.Std())
	if err != nil {
		return fault{"stamp", err.Error()}
	}
	input, err := stamp.Into(v.in.ToolInput, signed)
	if err != nil {
		return fault{"stamp", err.Error()}
	}
	if v.in.ToolUse != "" {
		use := callers.Use{Session: claim.Session, Agent: agent, Tool: claim.Tool, Made: v.now.Std()}
		if err := v.Callers.Note(v.in.ToolUse, use); err != nil {
			v.tell(fault{"stamp", err.Error()}) // the stamp says as much
		}
	}
	return v.answer(v.harness.stamped(v.in.Event, input, signed))
}

// subagent names the subagent that is about to call; empty: the session itself does.
func (v *visit) subagent() string {
	delegating := v.harness.delegates != "" && v.Beside != nil && v.Beside.Delegating(v.session())
	if v.in.Agent == "" && (delegating || v.ofSubagent()) {
		return "subagent"
	}
	return v.in.Agent
}

// answer writes the whole answer at once.
func (v *visit) answer(document any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := v.Stdout.Write(b.Bytes())
	return err
}

// How the harnesses take a call's input back. Claude Code, Codex and Gemini CLI
// take the whole of it, and the last holds it against the tool's schema; Codex
// takes it only together with its leave for the call. opencode's plugin writes
// what it is given over the fields of that name.

type stampedOutput struct {
	HookSpecificOutput any `json:"hookSpecificOutput"`
}

func stampedInClaudeCode(event string, input json.RawMessage, _ string) any {
	return stampedOutput{struct {
		HookEventName string          `json:"hookEventName"`
		UpdatedInput  json.RawMessage `json:"updatedInput"`
	}{event, input}}
}

func stampedInCodex(event string, input json.RawMessage, _ string) any {
	return stampedOutput{struct {
		HookEventName      string          `json:"hookEventName"`
		PermissionDecision string          `json:"permissionDecision"`
		UpdatedInput       json.RawMessage `json:"updatedInput"`
	}{event, "allow", input}}
}

func stampedInGemini(event string, input json.RawMessage, _ string) any {
	return stampedOutput{struct {
		HookEventName string          `json:"hookEventName"`
		ToolInput     json.RawMessage `json:"tool_input"`
	}{event, input}}
}

func stampedInOpencode(_ string, _ json.RawMessage, signed string) any {
	return struct {
		Args map[string]string `json:"args"`
	}{map[string]string{stamp.Field: signed}}
}
