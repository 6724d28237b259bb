// Command mainjob plays decklog's main job on a fresh ledger, and tells what
// happens: a Claude Code session asks a Codex session through the program; the
// question comes into the other's context through its harness's hook; it
// answers, and the answer comes back the same way; the thread closes, one more
// reply is refused, and an auditor replays the thread. In a second act seats drive
// threads (see driving.go). At the end the ledger is verified.
//
// Every step runs the real program in a process of its own, with input in the
// form that the harnesses give. `make run` runs it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	asker    = "5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90" // a Claude Code session
	answerer = "01a0b7c2-4e5d-7f10-8a3b-6c9d0e1f2a3b" // a Codex session
)

func main() {
	program := flag.String("program", "bin/decklog", "the program to play with")
	folder := flag.String("folder", ".run", "the folder of the ledger; what it holds is removed first")
	flag.Parse()
	if err := play(*program, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "the main job failed:", err)
		os.Exit(1)
	}
}

// job is the stage: the program and its ledger.
type job struct {
	program, ledger string
	step            int
}

func play(program, folder string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	j := &job{program: program, ledger: "sqlite:" + filepath.Join(folder, "ledger.db")}
	for _, act := range []func() error{j.begin, j.ask, j.answer, j.close, j.audit, j.drive, j.verify} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// next names command lines to go on with.
func (j *job) next() {
	fmt.Printf(`
Try next:
  bin/decklog --ledger %[1]s thread %[2]s
  bin/decklog --ledger %[1]s inbox --as %[3]s
  bin/decklog --ledger %[1]s driver %[4]s --why
  bin/decklog --ledger %[1]s events
  bin/decklog help

See both acts in a browser, at http://127.0.0.1:7717, with the token that the first line prints:
  bin/decklog --ledger %[1]s token create --for %[5]s
  bin/decklog --ledger %[1]s serve

`, j.ledger, question.Receipt.ID, asker, alert.Receipt.Thread, owner)
}

func (j *job) say(format string, args ...any) {
	j.step++
	fmt.Printf("%2d. %s\n", j.step, fmt.Sprintf(format, args...))
}

func quote(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Printf("      | %s\n", strings.TrimRight(line, "\n"))
	}
}

// run runs the program as a session's shell would; code is the exit code that
// must come.
func (j *job) run(session, stdin string, code int, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(j.program, args...)
	cmd.Env = append(os.Environ(), "DECKLOG_LEDGER="+j.ledger, "CLAUDE_CODE_SESSION_ID=", "CODEX_THREAD_ID=", "GEMINI_SESSION_ID=", "DECKLOG_SESSION=", "DECKLOG_AS=", "DECKLOG=")
	switch session {
	case asker:
		cmd.Env = append(cmd.Env, "CLAUDE_CODE_SESSION_ID="+asker)
	case answerer:
		cmd.Env = append(cmd.Env, "CODEX_THREAD_ID="+answerer)
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return "", "", err
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		return "", "", fmt.Errorf("decklog %s: exit code %d, not %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String(), errs.String(), nil
}

// answered is a receipt or a refusal, as far as the job looks at it.
type answered struct {
	Receipt struct {
		ID, Thread, State, Arrives string
		Position                   int64
		To                         struct{ ID, Kind string }
	}
	Refusal struct{ Code, Message, Fix string }
}

func (j *job) send(session string, code int, args ...string) (a answered, err error) {
	out, _, err := j.run(session, "", code, append([]string{"send", "--json"}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	return a, err
}

// hook runs a harness's hook with what the harness would say, and gives the
// text that it brings into the model's context.
func (j *job) hook(harness, event string, fields map[string]any) (string, error) {
	session := asker
	if harness == "codex" {
		session = answerer
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	said := map[string]any{"session_id": session, "hook_event_name": event, "cwd": cwd, "permission_mode": "default"}
	switch harness {
	case "claude-code":
		said["transcript_path"] = "/home/ana/.claude/projects/-w-demo/" + session + ".jsonl"
	case "codex":
		said["transcript_path"] = "/home/ana/.codex/sessions/2026/11/30/rollout-2026-11-30T09-00-00-" + session + ".jsonl"
		said["turn_id"] = "01a0b7c2-4e5d-7f10-8a3b-0000000000a1"
		said["model"] = "some-model"
	}
	for k, v := range fields {
		said[k] = v
	}
	stdin, err := json.Marshal(said)
	if err != nil {
		return "", err
	}
	out, errs, err := j.run("", string(stdin), 0, "hook", harness)
	if err != nil || errs != "" {
		return "", fmt.Errorf("hook %s %s: %v %s", harness, event, err, errs)
	}
	if out == "" {
		return "", nil
	}
	var answer struct {
		HookSpecificOutput struct{ AdditionalContext string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return "", err
	}
	return answer.HookSpecificOutput.AdditionalContext, nil
}

func (j *job) begin() error {
	fmt.Printf("The main job, on an empty ledger: %s\n\n", j.ledger)
	for _, h := range []struct{ harness, session string }{{"claude-code", asker}, {"codex", answerer}} {
		text, err := j.hook(h.harness, "SessionStart", map[string]any{"source": "startup"})
		if err != nil {
			return err
		}
		if !strings.Contains(text, "decklog-instruction") {
			return fmt.Errorf("session %s was not given the standing instruction: %q", h.session, text)
		}
		j.say("%s session %s… starts: its hook registers it and gives it the standing instruction", h.harness, h.session[:8])
	}
	return nil
}

var question, reply answered

func (j *job) ask() (err error) {
	question, err = j.send(asker, 0, "--to", answerer[:13], "--intent", "request", "--",
		"Which commit made the lease survive a clock that jumps back?\nI am on the release notes and need the hash, nothing more.")
	if err != nil {
		return err
	}
	j.say("the Claude session asks: message %s… to %s…, %s, arrives at the %s", question.Receipt.ID[:8], question.Receipt.To.ID[:8],
		question.Receipt.State, strings.ReplaceAll(question.Receipt.Arrives, "_", " "))
	text, err := j.hook("codex", "UserPromptSubmit", map[string]any{"prompt": "go on with the store"})
	if err != nil {
		return err
	}
	return j.delivered("codex", question.Receipt.ID, text)
}

// delivered tells of a lease, its printing and its confirm, as the ledger has them.
func (j *job) delivered(harness, message, text string) error {
	if !strings.Contains(text, message) {
		return fmt.Errorf("the hook of %s did not print message %s: %q", harness, message, text)
	}
	out, _, err := j.run("", "", 0, "thread", message, "--json")
	if err != nil {
		return err
	}
	var view struct {
		Messages []struct {
			ID         string
			Deliveries []struct{ Lease, Confirmed string }
		}
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		return err
	}
	for _, m := range view.Messages {
		if m.ID != message {
			continue
		}
		if len(m.Deliveries) != 1 || m.Deliveries[0].Confirmed == "" {
			return fmt.Errorf("message %s was not delivered once: %+v", message, m.Deliveries)
		}
		j.say("the %s hook leases it (%s…), prints it into the model's context, and confirms:", harness, m.Deliveries[0].Lease[:8])
	}
	quote(text)
	return nil
}

func (j *job) answer() (err error) {
	reply, err = j.send(answerer, 0, "--reply-to", question.Receipt.ID, "--ref", "commit:4f2a9c1", "--",
		"4f2a9c1: a lease that ends further ahead than its own length counts as ended.")
	if err != nil {
		return err
	}
	j.say("the Codex session answers with message %s…, and works on", reply.Receipt.ID[:8])
	text, err := j.hook("claude-code", "PostToolUse", map[string]any{
		"tool_name": "Bash", "tool_use_id": "toolu_01", "tool_input": map[string]any{"command": "git log --oneline"},
		"tool_response": map[string]any{"stdout": "4f2a9c1 lease: mind the clock", "stderr": ""}, "duration_ms": 12,
	})
	if err != nil {
		return err
	}
	return j.delivered("claude-code", reply.Receipt.ID, text)
}

func (j *job) close() error {
	done, err := j.send(asker, 0, "--reply-to", reply.Receipt.ID, "--intent", "done", "--", "Thank you, that is all I need.")
	if err != nil {
		return err
	}
	j.say("the Claude session says done with message %s…: the thread is closed, and nothing is owed", done.Receipt.ID[:8])
	refused, err := j.send(answerer, 3, "--reply-to", done.Receipt.ID, "--", "You are welcome!")
	if err != nil {
		return err
	}
	j.say("one more reply is refused, and the refusal is an event too: %s: %s", refused.Refusal.Code, refused.Refusal.Message)
	return nil
}

func (j *job) audit() error {
	out, _, err := j.run("", "", 0, "events", "--thread", question.Receipt.ID)
	if err != nil {
		return err
	}
	var positions []string
	for line := range strings.Lines(out) {
		var e struct {
			Position int64
			Type     string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		if e.Type == "message.sent" && len(positions) < 2 || e.Type == "command.refused" {
			positions = append(positions, fmt.Sprint(e.Position))
		}
	}
	if len(positions) != 3 {
		return fmt.Errorf("the thread has no three moments to replay: %v", positions)
	}
	j.say("an auditor replays the thread as it was when asked, when answered, and at the end:")
	for _, at := range positions {
		out, _, err := j.run("", "", 0, "thread", question.Receipt.ID, "--at", at)
		if err != nil {
			return err
		}
		fmt.Println()
		quote(out)
	}
	return nil
}

// verify ends the job: what it recorded is whole.
func (j *job) verify() error {
	out, _, err := j.run("", "", 0, "verify")
	if err != nil {
		return err
	}
	fmt.Println()
	fmt.Print(out)
	j.next()
	return nil
}
