package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/projections"
)

// The programs that the tests of this package run, each built once.
var (
	toldTheTime = sync.OnceValues(func() (string, error) { return buildOnce("told", "-tags", "testclock") })
	released    = sync.OnceValues(func() (string, error) { return buildOnce("released") })

	programs = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "decklog-programs-") })
)

func buildOnce(folder string, flags ...string) (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	into := filepath.Join(dir, folder) + string(filepath.Separator)
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", into, ".", "../decklog-hook", "../decklogd")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return into + "decklog", nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// machine is a place of its own for real processes: a home, a ledger, a clock,
// and nothing of whatever harness the test was started in.
type machine struct {
	testing.TB
	program string
	first   bool // hooks are run by decklog-hook, which looks at the bell before it hands over
	dir     string
	url     string
	clock   string // the file that tells the time; empty: the machine's clock does
	more    []string
}

// aboard sets up a machine whose clock stands at scenarioStart.
func aboard(t testing.TB) *machine {
	t.Helper()
	return aboardAt(t, t.TempDir())
}

// aboardAt sets one up whose ledger lies in a folder of the caller's.
func aboardAt(t testing.TB, folder string) *machine {
	t.Helper()
	program, err := toldTheTime()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{TB: t, program: program, dir: t.TempDir()}
	m.url = "sqlite:" + filepath.Join(folder, "ledger.db")
	m.clock = filepath.Join(m.dir, "clock")
	m.at(scenarioStart)
	return m
}

// file is the ledger's.
func (m *machine) file() string { return strings.TrimPrefix(m.url, "sqlite:") }

// at sets the clock. A process that looks meanwhile sees the old time or the new.
func (m *machine) at(now time.Time) {
	m.Helper()
	next := m.clock + ".next"
	m.ok(os.WriteFile(next, []byte(now.Format(time.RFC3339Nano)), 0o600))
	m.ok(os.Rename(next, m.clock))
}

func (m *machine) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// with is the same machine for processes that have more in their environment.
func (m *machine) with(environ ...string) *machine {
	other := *m
	other.more = append(append([]string{}, m.more...), environ...)
	return &other
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(m.program, args...)
	cmd.Dir = m.dir
	cmd.Env = append([]string{
		"HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "USER=" + surroundings.OSUser(),
		"XDG_STATE_HOME=" + filepath.Join(m.dir, "state"), "DECKLOG_LEDGER=" + m.url,
	}, m.more...)
	if m.clock != "" {
		cmd.Env = append(cmd.Env, "DECKLOG_TEST_CLOCK="+m.clock)
	}
	return cmd
}

// hookCommand is a run of a harness's hook.
func (m *machine) hookCommand(harness string) *exec.Cmd {
	if !m.first {
		return m.command("hook", harness)
	}
	small := *m
	small.program = filepath.Join(filepath.Dir(m.program), "decklog-hook")
	return small.command(harness)
}

// ran is what a process that ended left behind.
type ran struct {
	code           int // -1: it was killed
	stdout, stderr []byte
}

func (r ran) String() string {
	return fmt.Sprintf("exit %d\nstandard output: %.2000s\nstandard error: %.2000s", r.code, r.stdout, r.stderr)
}

// run runs the program to its end. stdin may be nil.
func (m *machine) run(stdin io.Reader, args ...string) ran {
	m.Helper()
	r, err := finish(m.command(args...), stdin)
	m.ok(err)
	return r
}

func finish(cmd *exec.Cmd, stdin io.Reader) (ran, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.Bytes(), stderr.Bytes()}, err
}

// done runs a command that must succeed, and gives what it printed.
func (m *machine) done(args ...string) []byte {
	m.Helper()
	r := m.run(nil, args...)
	if r.code != 0 {
		m.Fatalf("decklog %s: %s", args, r)
	}
	return r.stdout
}

// told runs a command with --json and reads the document that it prints.
func told[T any](m *machine, args ...string) (v T) {
	m.Helper()
	return read[T](m, m.done(append([]string{"--json"}, args...)...))
}

// read reads a document.
func read[T any](t testing.TB, document []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatalf("read %.400q: %v", document, err)
	}
	return v
}

// receipt is what of a receipt these tests look at.
type receipt struct {
	Receipt struct {
		ID       string
		Thread   string
		Position events.Position
		State    string
		Masked   []any
		Sent     events.Time
	}
}

// built is the receipt of a rebuild.
type built struct {
	Receipt struct {
		Position events.Position
		Rows     int
		Digest   string
	}
}

// refused is a refusal as it is printed.
type refused struct {
	Refusal struct {
		Code, Message, Fix, Example string
		Status                      int
	}
}

// failed is an error as it is printed.
type failed struct {
	Error struct{ Code, Message, Fix string }
}

// refuses runs a command that must be refused with this code.
func (m *machine) refuses(code string, args ...string) refused {
	m.Helper()
	r := m.run(nil, append([]string{"--json"}, args...)...)
	if r.code != cli.ExitRefused {
		m.Fatalf("decklog %.200q: %s", args, r)
	}
	v := read[refused](m, r.stdout)
	if v.Refusal.Code != code || v.Refusal.Fix == "" || v.Refusal.Example == "" {
		m.Fatalf("decklog %.200q is refused with %s, want %s", args, r.stdout, code)
	}
	return v
}

// fails runs a command that must fail with this error code.
func (m *machine) fails(code string, args ...string) failed {
	m.Helper()
	r := m.run(nil, append([]string{"--json"}, args...)...)
	if r.code != cli.ExitFailed {
		m.Fatalf("decklog %s: %s", args, r)
	}
	v := read[failed](m, r.stdout)
	if v.Error.Code != code || v.Error.Message == "" || v.Error.Fix == "" {
		m.Fatalf("decklog %s fails with %s, want %s", args, r.stdout, code)
	}
	return v
}

// join registers a session and gives its id.
func (m *machine) join(session string, more ...string) string {
	m.Helper()
	m.done(append([]string{"join", "--session", session}, more...)...)
	return session
}

// send sends a message and gives its id.
func (m *machine) send(from, to, body string, more ...string) string {
	m.Helper()
	args := append([]string{"send", "--as", from, "--to", to}, more...)
	return told[receipt](m, append(args, "--", body)...).Receipt.ID
}

// verified audits the whole ledger, which must be in order.
func (m *machine) verified() ops.Audited {
	m.Helper()
	audited := told[ops.Audited](m, "verify")
	if !audited.OK || audited.Checked != int(audited.Position) {
		m.Fatalf("verify: %+v", audited)
	}
	return audited
}

// events lists the ledger's events.
func (m *machine) events(more ...string) (all []ops.EventShown) {
	m.Helper()
	for line := range bytes.Lines(m.done(append([]string{"events"}, more...)...)) {
		all = append(all, read[ops.EventShown](m, line))
	}
	return all
}

// thread shows the thread of a message.
func (m *machine) thread(id string) projections.ThreadView {
	m.Helper()
	return told[projections.ThreadView](m, "thread", id)
}

// message is the one of a thread with this id.
func (m *machine) message(id string) projections.ShownInThread {
	m.Helper()
	for _, shown := range m.thread(id).Messages {
		if string(shown.ID) == id {
			return shown
		}
	}
	m.Fatalf("the thread of %s has no such message", id)
	return projections.ShownInThread{}
}

// policy writes the policy that the first command adopts.
func (m *machine) policy(text string) {
	m.Helper()
	m.ok(os.MkdirAll(filepath.Dir(m.file()), 0o700))
	m.ok(os.WriteFile(filepath.Join(filepath.Dir(m.file()), cli.PolicyName), []byte(text), 0o600))
}

// unbounded is a policy under which nobody is held up for having sent much.
const unbounded = `[limits]
session_rate = 0
device_rate = 0
person_rate = 0
thread_rate = 0
recipient_full = 0
`

// noted lists the faults that hook runs left, beside the ledger or in the
// user's state folder.
func (m *machine) noted() []notes.Fault {
	m.Helper()
	var all []notes.Fault
	state := filepath.Join(m.dir, "state", "decklog")
	folders := []string{filepath.Dir(strings.TrimPrefix(m.file(), "unix:")), state}
	elsewhere, err := filepath.Glob(filepath.Join(state, "served", "*")) // of ledgers that others serve
	m.ok(err)
	for _, folder := range append(folders, elsewhere...) {
		text, err := os.ReadFile(filepath.Join(folder, "hook-faults.jsonl"))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			all = append(all, read[notes.Fault](m, line))
		}
	}
	return all
}

// hooked are the harnesses, with the input that each gives at an event.
var hooked = []string{"claude-code", "codex"}

// stdinOf is what a harness writes to its hook.
func stdinOf(event, session string, more map[string]any) string {
	fields := map[string]any{
		"session_id": session, "transcript_path": "/t/" + session + ".jsonl", "cwd": "/", "hook_event_name": event,
	}
	switch event {
	case "SessionStart":
		fields["source"] = "startup"
	case "UserPromptSubmit":
		fields["prompt"] = "go on"
	case "PostToolUse":
		fields["tool_name"], fields["tool_use_id"] = "Bash", "u1"
	case "SessionEnd":
		fields["reason"] = "other"
	}
	for name, value := range more {
		fields[name] = value
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// hook runs a harness's hook, which must end well, and gives what it printed.
func (m *machine) hook(harness, event, session string) []byte {
	m.Helper()
	r, err := finish(m.hookCommand(harness), strings.NewReader(stdinOf(event, session, nil)))
	m.ok(err)
	if r.code != 0 || len(r.stderr) > 0 {
		m.Fatalf("hook %s %s: %s", harness, event, r)
	}
	return r.stdout
}

// contextOf is the text that a hook brings into its harness's context; empty
// when it printed nothing. It takes exactly what the harness takes.
func contextOf(t testing.TB, event string, stdout []byte) string {
	t.Helper()
	if len(stdout) == 0 {
		return ""
	}
	var answer struct {
		HookSpecificOutput *struct {
			HookEventName     string `json:"hookEventName"`
			AdditionalContext string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
		Decision string `json:"decision"` // with its reason, Codex's form at Stop
		Reason   string `json:"reason"`
	}
	d := json.NewDecoder(bytes.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		t.Fatalf("the hook printed %.400q: %v", stdout, err)
	}
	specific := answer.HookSpecificOutput
	switch {
	case d.More():
	case specific == nil && event == "Stop" && answer.Decision == "block" && answer.Reason != "":
		return answer.Reason
	case specific != nil && specific.HookEventName == event && specific.AdditionalContext != "" && answer.Decision+answer.Reason == "":
		return specific.AdditionalContext
	}
	t.Fatalf("the hook printed %.400q at %s", stdout, event)
	return ""
}

// policyFile writes a policy that is adopted by nobody yet.
func (m *machine) policyFile(text string) string {
	m.Helper()
	file := filepath.Join(m.dir, "policy.toml")
	m.ok(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// takesDown is Claude Code that writes into the session's transcript what the
// hook of an event brought, and runs the hook of a tool.
func (m *machine) takesDown(session, event, text string) {
	m.Helper()
	line, err := json.Marshal(map[string]any{
		"type": "attachment", "sessionId": session, "uuid": "u1",
		"attachment": map[string]any{"type": "hook_additional_context", "hookEvent": event, "content": []string{text}},
	})
	m.ok(err)
	file := filepath.Join(m.dir, session+".jsonl")
	m.ok(os.WriteFile(file, append(line, '\n'), 0o600))
	r := m.run(strings.NewReader(stdinOf("PostToolUse", session, map[string]any{"transcript_path": file})), "hook", "claude-code")
	if r.code != 0 || len(r.stderr) > 0 {
		m.Errorf("the hook after a tool: %s", r)
	}
}
