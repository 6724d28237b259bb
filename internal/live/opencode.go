package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// opencode is opencode, driven through its server, as its own clients do.
type opencode struct {
	*stage
	*program
	url     string
	client  *http.Client
	session string
}

func opencodeServer() *harness {
	return &harness{
		name: "opencode", label: "opencode serve", npm: "opencode-ai", version: "1.18.33", command: "opencode", wire: completions{},
		prepare:  prepareOpencode,
		captures: captureOpencode,
		open:     openOpencode,
		occasions: occasions{
			prompt: "chat.message", tool: []string{"tool.execute.after"}, stop: "session.idle", again: true,
		},
		shell: func(command string) reply {
			return reply{tool: "bash", input: map[string]any{"command": command, "description": "a step of the test"}}
		},
		delegate: func(prompt string) []reply {
			return []reply{{tool: "task", input: map[string]any{"description": "a subagent's step", "prompt": prompt, "subagent_type": "general"}}}
		},
		mcp:   func(tool string) reply { return reply{tool: "decklog_" + tool} },
		seen:  seenByOpencode,
		forks: forkOpencode,
		wakes: func(s *stage) (conversation, error) { return openOpencode(s, "") },
	}
}

// prepareOpencode writes a provider that is the stub. At its start opencode
// fetches a package for its plugins, and tries for more than a minute.
func prepareOpencode(s *stage) error {
	if err := os.WriteFile(filepath.Join(s.home, ".npmrc"), []byte("fetch-retries=0\nfetch-timeout=1000\n"), 0o600); err != nil {
		return err
	}
	return s.writeJSON(filepath.Join(".config", "opencode", "opencode.json"), map[string]any{
		"$schema": "https://opencode.ai/config.json",
		"model":   "stub/" + modelName, "autoupdate": false, "share": "disabled",
		"permission": map[string]any{"bash": "allow", "edit": "allow", "external_directory": "allow"},
		"provider": map[string]any{"stub": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "stub",
			"options": map[string]any{"baseURL": s.model.url + "/v1", "apiKey": "nobody"},
			"models":  map[string]any{modelName: map[string]any{"name": "Some Model", "limit": map[string]any{"context": 200_000, "output": 8000}}},
		}},
	})
}

func (s *stage) environOfOpencode() []string {
	return s.environ("OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1")
}

func openOpencode(s *stage, resume string) (conversation, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &opencode{
		stage: s, session: resume, url: "http://127.0.0.1:" + port,
		client: &http.Client{Timeout: patience, Transport: &http.Transport{Proxy: nil}},
	}
	c.program, err = start(s.ctx, s.work, s.log("opencode"), s.environOfOpencode(), s.program, "serve", "--port", port)
	if err != nil {
		return nil, err
	}
	// A request that comes before it listens is never answered.
	_, err = c.hear("a server that listens", func(line map[string]any) bool {
		plain, _ := line["plain"].(string)
		return strings.Contains(plain, "listening on")
	})
	if err != nil || resume != "" {
		return c, err
	}
	return c, c.another()
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// call asks the server.
func (c *opencode) call(method, path string, body any) (answer any, err error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(c.ctx, method, c.url+path, sent)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, b)
	}
	if len(b) > 0 {
		err = json.Unmarshal(b, &answer)
	}
	return answer, err
}

// forkOpencode begins a session that goes on from another.
func forkOpencode(s *stage, session string) (conversation, error) {
	opened, err := openOpencode(s, session)
	if err != nil {
		return nil, err
	}
	c := opened.(*opencode)
	answer, err := c.call(http.MethodPost, "/session/"+session+"/fork", map[string]any{})
	if err != nil {
		return nil, err
	}
	c.session, _ = at(answer, "id").(string)
	return c, nil
}

func (c *opencode) id() string { return c.session }

func (c *opencode) say(text string) error {
	answer, err := c.call(http.MethodPost, "/session/"+c.session+"/message", map[string]any{
		"parts": []any{map[string]any{"type": "text", "text": text}},
	})
	if failure := at(answer, "info", "error"); err == nil && failure != nil {
		err = fmt.Errorf("the turn ended with %v", failure)
	}
	return err
}

// settle waits until the session neither works nor is held: its end of a turn is
// told to decklog after the turn.
func (c *opencode) settle(rest func() int) error {
	deadline := time.Now().Add(patience / 3)
	for time.Now().Before(deadline) {
		works, err := c.call(http.MethodGet, "/session/status", nil)
		if err != nil {
			return err
		}
		if at(works, c.session) == nil && rest() == 0 && !c.busy(c.session) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil // what is missing is told by who waits
}

func (c *opencode) clear() error {
	return unoffered("/new begins a session beside the other")
}

func (c *opencode) compact() error {
	_, err := c.call(http.MethodPost, "/session/"+c.session+"/summarize", map[string]any{"providerID": "stub", "modelID": modelName})
	return err
}

func (c *opencode) another() error {
	answer, err := c.call(http.MethodPost, "/session", map[string]any{})
	if err != nil {
		return err
	}
	id, _ := at(answer, "id").(string)
	if id == "" {
		return fmt.Errorf("no session was made: %v", answer)
	}
	c.session = id
	return nil
}

func (c *opencode) turnTo(session string) error {
	c.session = session
	return nil
}

func (c *opencode) sandboxed() error { return unoffered("it has no sandbox") }

// end lets the server close its sessions, and ends it. By a signal alone it would
// tell its plugins nothing.
func (c *opencode) end() error {
	if _, err := c.call(http.MethodPost, "/global/dispose", nil); err != nil {
		return err
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	if err := c.program.end(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}

// seenByOpencode reads the messages in a session, each as often as it was taken
// into the context.
func seenByOpencode(s *stage, session string) (map[string]int, error) {
	// It ends before a pipe has all of it.
	file, err := os.Create(s.log("export") + ".json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.CommandContext(s.ctx, s.program, "export", session)
	cmd.Dir, cmd.Env, cmd.Stdout = s.work, s.environOfOpencode(), file
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("opencode export: %w", err)
	}
	b, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}
	var export struct {
		Messages []struct {
			Parts []struct {
				Type, Text string
				Synthetic  bool
				State      struct{ Output string }
			}
		}
	}
	if err := json.Unmarshal(b, &export); err != nil {
		return nil, fmt.Errorf("opencode export: %w", err)
	}
	seen := map[string]int{}
	for _, m := range export.Messages {
		for _, p := range m.Parts {
			text := p.State.Output
			if p.Type == "text" && p.Synthetic {
				text = p.Text
			}
			for _, id := range frame.FindAllStringSubmatch(text, -1) {
				seen[id[1]]++
			}
		}
	}
	return seen, nil
}
