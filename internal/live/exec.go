package main

import "fmt"

// codexExec is Codex, driven as scripts do: each turn is a process of its own,
// and those after the first resume the session.
type codexExec struct {
	*stage
	thread string
}

func codexByExec() *harness {
	h := codexCLI()
	h.label, h.oneTurn, h.unapproved = "codex exec", true, true
	h.open = func(s *stage, resume string) (conversation, error) { return &codexExec{stage: s, thread: resume}, nil }
	return h
}

func (c *codexExec) id() string { return c.thread }

func (c *codexExec) say(text string) error {
	argv := []string{c.program, "exec"}
	if c.thread != "" {
		argv = append(argv, "resume", c.thread)
	}
	p, err := start(c.ctx, c.work, c.log("codex"), c.environ("STUB_KEY=nobody"), append(argv, "--json", "--dangerously-bypass-hook-trust", text)...)
	if err != nil {
		return err
	}
	_ = p.stdin.Close() // it waits for more of the prompt there
	heard := map[string]any{}
	_, err = p.hear("an end of the turn", func(line map[string]any) bool {
		if id, is := line["thread_id"].(string); is {
			c.thread = id
		}
		heard = line
		return line["type"] == "turn.completed" || line["type"] == "turn.failed"
	})
	if ended := p.end(); err == nil {
		err = ended
	}
	if err == nil && heard["type"] != "turn.completed" {
		err = fmt.Errorf("the turn ended with %v", heard)
	}
	return err
}

func (c *codexExec) clear() error        { return undriven("codex exec has no /clear") }
func (c *codexExec) compact() error      { return undriven("codex exec has no /compact") }
func (c *codexExec) another() error      { return unoffered("one process has one session") }
func (c *codexExec) turnTo(string) error { return unoffered("one process has one session") }
func (c *codexExec) sandboxed() error    { return undriven("tried with the app server") }
func (c *codexExec) end() error          { return nil }
