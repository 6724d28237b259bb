package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// InputMax bounds what is read of a harness's input. A tool's answer may be large.
const InputMax = 64 << 20

// input is what a harness says, as far as it is of use. What is missing, or of
// another type than it should be, is empty.
type input struct {
	Event          string
	Session        string
	Transcript     string
	Cwd            string
	Source         string
	Reason         string
	Title          string
	Agent          string // a subagent's id
	Tool           string
	ToolUse        string          // the harness's id of the call
	ToolInput      json.RawMessage // as the harness wrote it
	StopHookActive bool
	Status         string // how a turn ended; empty: the harness does not say
	Loops          int    // how often the end of this turn was held already
}

// letsGo says that the end of this turn must not be held: it was already, or
// somebody broke it off, or it failed.
func (in input) letsGo() bool {
	return in.StopHookActive || in.Loops > 0 || in.Status != "" && in.Status != "completed"
}

var errInput = errors.New("the harness's input cannot be read")

// read takes the input apart, whose field names gives the session. It is an
// error when it is no whole JSON object.
func read(from io.Reader, names string) (in input, err error) {
	if names == "" {
		names = "session_id"
	}
	b, err := io.ReadAll(io.LimitReader(from, InputMax+1))
	switch {
	case err != nil:
		return in, fmt.Errorf("%w: %w", errInput, err)
	case len(b) > InputMax:
		return in, fmt.Errorf("%w: more than %d bytes", errInput, InputMax)
	case len(bytes.TrimSpace(b)) == 0:
		return in, fmt.Errorf("%w: it is empty", errInput)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return in, fmt.Errorf("%w: it is no JSON object: %w", errInput, err)
	}
	text := func(name string) (s string) {
		_ = json.Unmarshal(fields[name], &s)
		return s
	}
	in = input{
		Event: text("hook_event_name"), Session: text(names), Transcript: text("transcript_path"), Cwd: text("cwd"),
		Source: text("source"), Reason: text("reason"), Title: text("session_title"), Agent: text("agent_id"),
		Tool: text("tool_name"), ToolUse: text("tool_use_id"), ToolInput: fields["tool_input"], Status: text("status"),
	}
	_ = json.Unmarshal(fields["stop_hook_active"], &in.StopHookActive)
	_ = json.Unmarshal(fields["loop_count"], &in.Loops)
	if in.Cwd == "" {
		var roots []string
		if _ = json.Unmarshal(fields["workspace_roots"], &roots); len(roots) > 0 {
			in.Cwd = roots[0]
		}
	}
	switch {
	case in.Event == "":
		return in, fmt.Errorf("%w: it has no hook_event_name", errInput)
	case in.Session == "":
		return in, fmt.Errorf("%w: it has no %s", errInput, names)
	}
	return in, nil
}
