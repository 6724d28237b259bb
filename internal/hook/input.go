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
	StopHookActive bool
}

var errInput = errors.New("the harness's input cannot be read")

// read takes the input apart. It is an error when it is no whole JSON object.
func read(from io.Reader) (in input, err error) {
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
		Event: text("hook_event_name"), Session: text("session_id"), Transcript: text("transcript_path"), Cwd: text("cwd"),
		Source: text("source"), Reason: text("reason"), Title: text("session_title"), Agent: text("agent_id"),
	}
	_ = json.Unmarshal(fields["stop_hook_active"], &in.StopHookActive)
	switch {
	case in.Event == "":
		return in, fmt.Errorf("%w: it has no hook_event_name", errInput)
	case in.Session == "":
		return in, fmt.Errorf("%w: it has no session_id", errInput)
	}
	return in, nil
}
