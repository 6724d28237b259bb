package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// built are the programs, once: with the clock of a test, which is the machine's
// where no test sets it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "decklogd-programs-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-tags", "testclock", "-o", dir+string(filepath.Separator), ".", "../decklog", "../decklog-hook")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

const (
	ada = "11110000-0000-4000-8000-000000000001"
	bob = "bbbbbbbb-0000-4000-8000-000000000002"
)

// versions are those of the protocol that the server speaks.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// machine is a place of its own for the programs: a home, a ledger, and nothing
// of the harness that the test is started in.
type machine struct {
	testing.TB
	programs, dir, url string
	more               []string
}

func aboard(t testing.TB) *machine {
	t.Helper()
	programs, err := built()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{TB: t, programs: programs, dir: t.TempDir()}
	m.url = "sqlite:" + filepath.Join(m.dir, "ledger", "ledger.db")
	return m
}

func (m *machine) with(environ ...string) *machine {
	other := *m
	other.more = append(append([]string{}, m.more...), environ...)
	return &other
}

func (m *machine) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(m.programs, program), args...)
	cmd.Dir = m.dir
	cmd.Env = append([]string{"HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "DECKLOG_LEDGER=" + m.url}, m.more...)
	return cmd
}

// done runs a command that must succeed, and gives what it printed.
func (m *machine) done(stdin string, program string, args ...string) string {
	m.Helper()
	cmd := m.command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		m.Fatalf("%s %s: %v\n%s%s", program, args, err, &stdout, &stderr)
	}
	return stdout.String()
}

func (m *machine) join(sessions ...string) {
	m.Helper()
	for _, id := range sessions {
		m.done("", "decklog", "join", "--session", id, "--harness", "claude-code")
	}
}

// instructed gives a session its standing instruction, and whatever waits.
func (m *machine) instructed(session string) {
	m.Helper()
	var v struct{ Receipt struct{ ID string } }
	m.read(m.done("", "decklog", "lease", "--json", "--as", session), &v)
	m.done("", "decklog", "confirm", v.Receipt.ID)
}

// sent sends a message and gives its id and thread.
func (m *machine) sent(from, to string, args ...string) (id, thread string) {
	m.Helper()
	var v struct{ Receipt struct{ ID, Thread string } }
	m.read(m.done("", "decklog", append([]string{"send", "--json", "--as", from, "--to", to}, args...)...), &v)
	return v.Receipt.ID, v.Receipt.Thread
}

func (m *machine) read(document string, into any) {
	m.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		m.Fatalf("read %.400q: %v", document, err)
	}
}

// client is the SDK's own, connected to a server that runs as `decklog mcp`.
type client struct {
	*machine
	session *mcp.ClientSession
	stderr  *bytes.Buffer
}

// pipes connects the client to a command as it stands: the SDK's own takes the
// command's standard error away.
type pipes struct {
	*exec.Cmd
}

func (p pipes) Connect(ctx context.Context) (mcp.Connection, error) {
	stdin, err := p.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return (&mcp.IOTransport{Reader: stdout, Writer: ended{stdin, p.Cmd}}).Connect(ctx)
}

// ended waits for the process behind its standard input.
type ended struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (e ended) Close() error {
	_ = e.WriteCloser.Close()
	return e.cmd.Wait()
}

// connect starts a server and speaks a version of the protocol with it; empty:
// the newest.
func (m *machine) connect(version string, args ...string) *client {
	m.Helper()
	c := &client{machine: m, stderr: &bytes.Buffer{}}
	cmd := m.command("decklog", append([]string{"mcp"}, args...)...)
	cmd.Stderr = c.stderr
	var err error
	c.session, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(m.Context(), pipes{cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		m.Fatalf("connect: %v\n%s", err, c.stderr)
	}
	m.Cleanup(func() {
		if err := c.session.Close(); err != nil {
			m.Errorf("the server ended with %v\n%s", err, c.stderr)
		}
	})
	return c
}

// told is what a tool answered.
type told struct {
	text    string
	data    map[string]any
	isError bool
	size    int
}

// call calls a tool, with a stamp if one is given.
func (c *client) call(tool string, arguments any, meta ...any) told {
	c.Helper()
	r, err := c.ask(c.Context(), tool, arguments, meta...)
	if err != nil {
		c.Fatalf("%s %v: %v\n%s", tool, arguments, err, c.stderr)
	}
	return r
}

func (c *client) ask(ctx context.Context, tool string, arguments any, meta ...any) (told, error) {
	p := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	for i := 0; i+1 < len(meta); i += 2 {
		if p.Meta == nil {
			p.Meta = mcp.Meta{}
		}
		p.Meta[meta[i].(string)] = meta[i+1]
	}
	result, err := c.session.CallTool(ctx, p)
	if err != nil {
		return told{}, err
	}
	v := told{isError: result.IsError}
	if len(result.Content) != 1 {
		return v, fmt.Errorf("%d blocks", len(result.Content))
	}
	v.text = result.Content[0].(*mcp.TextContent).Text
	v.data, _ = result.StructuredContent.(map[string]any)
	// As it is on the wire: the SDK's types would write it with other escapes.
	var whole bytes.Buffer
	encoder := json.NewEncoder(&whole)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(map[string]any{"content": []any{map[string]any{"type": "text", "text": v.text}}, "structuredContent": v.data, "isError": v.isError})
	v.size = whole.Len()
	return v, err
}

// stamped is a call's input as the hook gives it back to Claude Code.
func (m *machine) stamped(session, tool, use string, input map[string]any) map[string]any {
	m.Helper()
	said, err := json.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": session, "cwd": m.dir, "tool_name": "mcp__decklog__" + tool, "tool_input": input, "tool_use_id": use,
	})
	if err != nil {
		m.Fatal(err)
	}
	var v struct {
		HookSpecificOutput struct{ UpdatedInput map[string]any }
	}
	m.read(m.done(string(said), "decklog-hook", "claude-code"), &v)
	return v.HookSpecificOutput.UpdatedInput
}

// at is what stands in data under names.
func at(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// clockAt sets a clock that stands, in a file.
func (m *machine) clockAt(now time.Time) string {
	m.Helper()
	file := filepath.Join(m.dir, "clock")
	if err := os.WriteFile(file+".next", []byte(now.Format(time.RFC3339Nano)), 0o600); err != nil {
		m.Fatal(err)
	}
	if err := os.Rename(file+".next", file); err != nil {
		m.Fatal(err)
	}
	return file
}
