package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// codex is Codex, driven through its app server, as its editors' extensions do.
type codex struct {
	*stage
	*program
	thread string
	calls  int
}

func codexCLI() *harness {
	return &harness{
		name: "codex", label: "codex app-server", npm: "@openai/codex", version: "0.171.0", command: "codex", wire: responses{},
		prepare: prepareCodex,
		captures: captureHooks(filepath.Join(".codex", "hooks.json"), 3, "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
			"SubagentStart", "SubagentStop", "SessionEnd", "PreCompact", "PostCompact"),
		occasions: occasions{start: "SessionStart", prompt: "UserPromptSubmit", tool: []string{"PostToolUse"}, stop: "Stop"},
		open:      openCodex,
		shell: func(command string) reply {
			return reply{tool: "exec_command", input: map[string]any{"cmd": command, "yield_time_ms": 30_000}}
		},
		delegate: delegateInCodex,
		mcp:      func(tool string) reply { return reply{space: "mcp__decklog", tool: tool} },
		seen:     seenByCodex,
		forks:    forkCodex,
		wakes:    func(s *stage) (conversation, error) { return openCodex(s, "") },
	}
}

// prepareCodex writes a provider that is the stub.
func prepareCodex(s *stage) error {
	folder := filepath.Join(s.home, ".codex")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "config.toml"), fmt.Appendf(nil, `model = %q
model_provider = "stub"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.stub]
name = "stub"
base_url = %q
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 0
stream_max_retries = 0

[projects.%q]
trust_level = "trusted"
`, modelName, s.model.url+"/v1", s.work), 0o600)
}

func openCodex(s *stage, resume string) (conversation, error) {
	c := &codex{stage: s}
	var err error
	c.program, err = start(s.ctx, s.work, s.log("codex"), s.environ("STUB_KEY=nobody"), s.program, "app-server")
	if err != nil {
		return nil, err
	}
	if _, err := c.call("initialize", map[string]any{"clientInfo": map[string]any{"name": "decklog-live", "title": "decklog", "version": "1"}}); err != nil {
		return nil, err
	}
	if err := c.tell(map[string]any{"method": "initialized"}); err != nil {
		return nil, err
	}
	if err := c.approve(); err != nil {
		return nil, err
	}
	if resume != "" {
		return c, c.begin("thread/resume", map[string]any{"threadId": resume})
	}
	return c, c.begin("thread/start", map[string]any{"cwd": s.work})
}

// approve approves the hooks, as a person does in /hooks: the app server takes
// no --dangerously-bypass-hook-trust, and passes over what is not approved
// without a word.
func (c *codex) approve() error {
	result, err := c.call("hooks/list", map[string]any{"cwds": []string{c.work}})
	if err != nil {
		return err
	}
	state := map[string]any{}
	data, _ := at(result, "data").([]any)
	for _, entry := range data {
		hooks, _ := at(entry, "hooks").([]any)
		for _, h := range hooks {
			state[fmt.Sprint(at(h, "key"))] = map[string]any{"trusted_hash": at(h, "currentHash")}
		}
	}
	if len(state) == 0 {
		return fmt.Errorf("codex found no hooks: %v", result)
	}
	_, err = c.call("config/batchWrite", map[string]any{
		"edits":            []any{map[string]any{"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": state}},
		"reloadUserConfig": true,
	})
	return err
}

var agentID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// delegateInCodex spawns a subagent, and waits for the one that it was told of.
func delegateInCodex(prompt string) []reply {
	wait := reply{space: "multi_agent_v1", tool: "wait_agent", input: map[string]any{"timeout_ms": 30_000}}
	wait.before = func(q *request) error {
		said := q.texts[len(q.texts)-1].text
		id := agentID.FindString(said)
		if id == "" {
			return fmt.Errorf("no subagent was spawned: %s", said)
		}
		wait.input["targets"] = []string{id}
		return nil
	}
	return []reply{{space: "multi_agent_v1", tool: "spawn_agent", input: map[string]any{"message": prompt}}, wait}
}

// call asks the app server, and waits for its answer.
func (c *codex) call(method string, params map[string]any) (any, error) {
	c.calls++
	id := float64(c.calls)
	if err := c.tell(map[string]any{"id": c.calls, "method": method, "params": params}); err != nil {
		return nil, err
	}
	line, err := c.hear("an answer to "+method, func(line map[string]any) bool { return line["id"] == id && line["method"] == nil })
	if err != nil {
		return nil, err
	}
	if line["error"] != nil {
		return nil, fmt.Errorf("%s: %v", method, line["error"])
	}
	return line["result"], nil
}

func (c *codex) begin(method string, params map[string]any) error {
	result, err := c.call(method, params)
	if err != nil {
		return err
	}
	id, _ := at(result, "thread", "id").(string)
	if id == "" {
		return fmt.Errorf("%s gave no thread: %v", method, result)
	}
	c.thread = id
	return nil
}

// forkCodex begins a thread that goes on from another.
func forkCodex(s *stage, thread string) (conversation, error) {
	c, err := openCodex(s, "")
	if err != nil {
		return nil, err
	}
	return c, c.(*codex).begin("thread/fork", map[string]any{"threadId": thread})
}

func (c *codex) id() string { return c.thread }

func (c *codex) say(text string) error {
	_, err := c.call("turn/start", map[string]any{"threadId": c.thread, "input": []any{map[string]any{"type": "text", "text": text}}})
	if err != nil {
		return err
	}
	return c.ended()
}

// ended waits for the end of the turn.
func (c *codex) ended() error {
	line, err := c.hear("an end of the turn", func(line map[string]any) bool {
		return line["method"] == "turn/completed" && at(line, "params", "threadId") == c.thread
	})
	if err != nil {
		return err
	}
	if status := at(line, "params", "turn", "status"); status != "completed" {
		return fmt.Errorf("the turn ended as %v: %v", status, at(line, "params", "turn", "error"))
	}
	return nil
}

func (c *codex) clear() error {
	before := c.thread
	if err := c.begin("thread/start", map[string]any{"cwd": c.work, "sessionStartSource": "clear"}); err != nil {
		return err
	}
	if c.thread == before {
		return errNotNew
	}
	return nil
}

func (c *codex) compact() error {
	if _, err := c.call("thread/compact/start", map[string]any{"threadId": c.thread}); err != nil {
		return err
	}
	return c.ended()
}

func (c *codex) another() error { return c.begin("thread/start", map[string]any{"cwd": c.work}) }

func (c *codex) turnTo(session string) error {
	c.thread = session
	return nil
}

// sandboxed begins a session whose tools may write only where they must to reach
// the ledger.
func (c *codex) sandboxed() error {
	return c.begin("thread/start", map[string]any{
		"cwd": c.work, "sandbox": "workspace-write",
		"config": map[string]any{"sandbox_workspace_write.writable_roots": []string{filepath.Join(c.folder, "ledger")}},
	})
}

// seenByCodex reads the messages in the rollout of a session, each as often as
// it was taken into the context.
func seenByCodex(s *stage, session string) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(s.home, ".codex", "sessions", "*", "*", "*", "rollout-*-"+session+".jsonl"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("found %d transcripts of session %s", len(files), session)
	}
	seen := map[string]int{}
	err = eachLine(files[0], func(line map[string]any) {
		if at(line, "type") != "response_item" || at(line, "payload", "type") != "message" {
			return
		}
		parts, _ := at(line, "payload", "content").([]any)
		for _, part := range parts {
			for _, id := range frame.FindAllStringSubmatch(unescape(fmt.Sprint(at(part, "text"))), -1) {
				seen[id[1]]++
			}
		}
	})
	return seen, err
}
