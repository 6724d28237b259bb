package kit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/kit"
	"decklog/internal/mcp"
	"decklog/internal/memory"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/projections"
)

// Strict clients leave a skill out whose front matter has other keys, or whose
// name is not that of its folder.
func TestTheSkillsFrontMatterIsPortable(t *testing.T) {
	text := string(kit.Skill())
	front, body, found := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
	if !found || !strings.HasPrefix(text, "---\n") {
		t.Fatal("it has no front matter")
	}
	fields := map[string]string{}
	for line := range strings.Lines(front) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fields[name] = value
	}
	if n := len(fields["description"]); fields["name"] != "decklog" || n < 100 || n > 1024 || len(fields) != 2 {
		t.Errorf("its front matter is %q", fields)
	}
	if strings.ContainsAny(fields["description"], ":#<>\"'") {
		t.Error("its description needs quotes in YAML, or is taken for a tag")
	}
	if n := strings.Count(text, "\n"); n >= 120 {
		t.Errorf("it has %d lines", n)
	}
	if !strings.HasPrefix(body, "\n# decklog\n") {
		t.Errorf("it begins with %.40q", body)
	}
}

// commandLines are the command lines in the skill.
func commandLines(t *testing.T) (lines []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("`(decklog [^`]+)`").FindAllStringSubmatch(string(kit.Skill()), -1) {
		lines = append(lines, m[1])
	}
	if len(lines) < 25 {
		t.Fatalf("only %d command lines: %q", len(lines), lines)
	}
	return lines
}

// words splits a command line as a shell does, as far as the skill needs it.
func words(line string) (all []string) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

func TestEveryCommandLineInTheSkillIsOneThatTheProgramTakes(t *testing.T) {
	for _, line := range commandLines(t) {
		if line == "decklog send" {
			continue // the command, by its name
		}
		var stdout, stderr bytes.Buffer
		code := cli.Main(&cli.Env{
			Args: words(line)[1:], Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Environ: func(name string) string { return map[string]string{"DECKLOG_SESSION": "5d0c33e1-0001"}[name] }, Getwd: os.Getwd,
			Open: func(_ string, env *cli.Env) (ops.Operations, cli.Beside, error) {
				return &ops.Ops{Ledger: memory.New(projections.Project), World: env.World}, cli.Beside{Notes: notes.InMemory()}, nil
			},
			LedgerFile: func(string) (string, error) { return "", nil },
			Folder:     func(string) (string, error) { return "", nil },
			World: ops.World{
				Now:    func() events.Time { return events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)) },
				Random: func([]byte) {}, Alive: func(events.Process) bool { return true }, Device: "deck", OSUser: "ana",
				Seen:    func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
				Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
				PolicyFile: func() (events.Policy, error) { return events.DefaultPolicy(), nil },
			},
		})
		if code == cli.ExitUsage {
			t.Errorf("%s: exit code %d: %s", line, code, stderr.String())
		}
	}
}

func TestEveryToolThatTheSkillNamesExists(t *testing.T) {
	const asks = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`
	input, say := io.Pipe()
	hear, output := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Run(context.Background(), mcp.Config{Version: "test", Now: time.Now, Stderr: io.Discard}, input, output)
	}()
	go func() { _, _ = io.WriteString(say, asks) }()
	var tools []string
	for d := json.NewDecoder(hear); tools == nil; {
		var answer struct {
			ID     int
			Result struct{ Tools []struct{ Name string } }
		}
		if err := d.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		for _, tool := range answer.Result.Tools {
			tools = append(tools, tool.Name)
		}
	}
	say.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bdecklog_[a-z]+`).FindAllString(string(kit.Skill()), -1)
	if len(named) < 2 {
		t.Errorf("it names only %q", named)
	}
	for _, name := range named {
		if !slices.Contains(tools, name) {
			t.Errorf("there is no tool %s among %q", name, tools)
		}
	}
}

// opencode takes every function that a plugin's file exports for a plugin, and
// refuses the file when it exports anything else.
func TestThePluginExportsOneFunctionAndNothingElse(t *testing.T) {
	exports := regexp.MustCompile(`(?m)^export .*$`).FindAllString(string(kit.OpencodePlugin()), -1)
	if len(exports) != 1 || !strings.HasPrefix(exports[0], "export const Decklog = async (") {
		t.Errorf("it exports %q", exports)
	}
}
