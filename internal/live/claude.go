package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// claude is Claude Code, driven without a terminal: one process, told of each
// prompt in a line of JSON.
type claude struct {
	*stage
	*program
	session string
}

func claudeCode() *harness {
	return &harness{
		name: "claude-code", label: "claude-code", npm: "@anthropic-ai/claude-code", version: "2.1.332", command: "claude", wire: messages{},
		prepare: prepareClaude,
		captures: captureHooks(claudeSettings, 3, "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch",
			"Stop", "SubagentStart", "SubagentStop", "SessionEnd", "Notification", "UserPromptExpansion", "PreCompact", "PostCompact"),
		occasions: occasions{start: "SessionStart", prompt: "UserPromptSubmit", tool: []string{"PostToolUse", "PostToolUseFailure", "PostToolBatch"}, stop: "Stop"},
		open:      func(s *stage, resume string) (conversation, error) { return openClaude(s, resume) },
		shell: func(command string) reply {
			return reply{tool: "Bash", input: map[string]any{"command": command, "description": "a step of the test"}}
		},
		delegate: func(prompt string) []reply {
			return []reply{{tool: "Agent", input: map[string]any{
				"description": "a subagent's step", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false,
			}}}
		},
		mcp:   func(tool string) reply { return reply{tool: "mcp__decklog__" + tool} },
		seen:  seenByClaude,
		wakes: wakenClaude,
		forks: func(s *stage, session string) (conversation, error) { return openClaude(s, session, "--fork-session") },
	}
}

// prepareClaude writes the settings.
func prepareClaude(s *stage) error {
	return s.writeJSON(claudeSettings, map[string]any{
		"permissions": map[string]any{"allow": []string{"Bash", "Agent", "Task", "mcp__decklog"}},
	})
}

var claudeSettings = filepath.Join(".claude", "settings.json")

func openClaude(s *stage, resume string, more ...string) (conversation, error) {
	c := &claude{stage: s, session: resume}
	argv := []string{s.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", modelName}
	if resume != "" {
		argv = append(append(argv, "--resume", resume), more...)
	}
	var err error
	c.program, err = start(s.ctx, s.work, s.log("claude"), s.environ(
		"ANTHROPIC_BASE_URL="+s.model.url, "ANTHROPIC_API_KEY=sk-ant-nobody", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	), argv...)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// wakenClaude opens a session that is listened for although nobody sits before it.
func wakenClaude(s *stage) (conversation, error) {
	file := filepath.Join(s.home, claudeSettings)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	const listener = "decklog wake claude-code"
	if !strings.Contains(string(b), listener) {
		return nil, fmt.Errorf("no hook runs %s", listener)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(b), listener, listener+" --unattended")), 0o600); err != nil {
		return nil, err
	}
	return openClaude(s, "")
}

func (c *claude) id() string { return c.session }

func (c *claude) say(text string) error {
	err := c.tell(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}})
	if err != nil {
		return err
	}
	line, err := c.hear("an end of the turn", func(line map[string]any) bool { return line["type"] == "result" })
	if err != nil {
		return err
	}
	if id, _ := line["session_id"].(string); id != "" {
		c.session = id
	}
	if line["subtype"] != "success" {
		return fmt.Errorf("the turn ended with %v: %v", line["subtype"], line["result"])
	}
	return nil
}

func (c *claude) clear() error {
	before := c.session
	if err := c.say("/clear"); err != nil {
		return err
	}
	if c.session == before {
		return errNotNew
	}
	return nil
}

func (c *claude) compact() error { return c.say("/compact") }

var errNotNew = errors.New("the session has the id that it had before")

func (c *claude) another() error      { return unoffered("one process has one session") }
func (c *claude) turnTo(string) error { return unoffered("one process has one session") }
func (c *claude) sandboxed() error {
	return undriven("its sandbox needs programs that may not be there")
}

// seenByClaude reads the messages in the transcript of a session, each as often
// as a hook's text that holds it was taken into the context.
func seenByClaude(s *stage, session string) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(s.home, ".claude", "projects", "*", session+".jsonl"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("found %d transcripts of session %s", len(files), session)
	}
	seen := map[string]int{}
	err = eachLine(files[0], func(line map[string]any) {
		if at(line, "type") != "attachment" || at(line, "attachment", "type") != "hook_additional_context" {
			return
		}
		texts, _ := at(line, "attachment", "content").([]any)
		for _, text := range texts {
			for _, id := range frame.FindAllStringSubmatch(fmt.Sprint(text), -1) {
				seen[id[1]]++
			}
		}
	})
	return seen, err
}

// eachLine goes through a transcript.
func eachLine(file string, visit func(map[string]any)) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			return fmt.Errorf("read transcript %s: %w", filepath.Base(file), err)
		}
		visit(said)
	}
	return nil
}
