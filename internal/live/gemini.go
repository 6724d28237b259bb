package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// gemini is Gemini CLI in a terminal, as a person uses it.
type gemini struct {
	*stage
	*terminal
	session string // empty until a turn shows it
}

func geminiCLI() *harness {
	return &harness{
		name: "gemini", label: "gemini", npm: "@google/gemini-cli", version: "0.61.0", command: "gemini", wire: generate{},
		prepare:   prepareGemini,
		captures:  captureHooks(filepath.Join(".gemini", "settings.json"), 3000, geminiEvents...),
		open:      openGemini,
		occasions: occasions{prompt: "BeforeAgent", tool: []string{"AfterTool"}, stop: "AfterAgent", again: true, untold: true, unproven: []string{"AfterTool", "AfterAgent"}},
		shell: func(command string) reply {
			return reply{tool: "run_shell_command", input: map[string]any{"command": command, "description": "a step of the test"}}
		},
		delegate: func(prompt string) []reply {
			return []reply{{tool: "invoke_agent", input: map[string]any{"agent_name": "generalist", "prompt": prompt}}}
		},
		report: func(text string) reply {
			return reply{tool: "complete_task", input: map[string]any{"result": map[string]any{"response": text}}}
		},
		mcp:  func(tool string) reply { return reply{tool: "mcp_decklog_" + tool} },
		seen: seenByGemini,
	}
}

// geminiEvents are the events that can be captured, without those that hold a
// whole request to the model.
var geminiEvents = []string{
	"SessionStart", "SessionEnd", "BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "PreCompress", "Notification",
}

// prepareGemini writes the settings.
func prepareGemini(s *stage) error {
	return s.writeJSON(filepath.Join(".gemini", "settings.json"), map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"general":  map[string]any{"disableAutoUpdate": true, "disableUpdateNag": true},
		"privacy":  map[string]any{"usageStatisticsEnabled": false},
	})
}

func (s *stage) gemini(more ...string) []string {
	return append([]string{s.program, "--skip-trust", "--approval-mode", "yolo", "-m", modelName}, more...)
}

func (s *stage) environOfGemini(more ...string) []string {
	return s.environ(append(more, "GEMINI_API_KEY=nobody", "GOOGLE_GEMINI_BASE_URL="+s.model.url)...)
}

func openGemini(s *stage, resume string) (conversation, error) {
	var more []string
	if resume != "" {
		more = []string{"--resume", resume}
	}
	g := &gemini{stage: s}
	var err error
	g.terminal, err = startInTerminal(s.ctx, s.work, s.log("gemini"), s.environOfGemini("TERM=xterm-256color", "COLORTERM=truecolor"), s.gemini(more...)...)
	if err != nil {
		return nil, err
	}
	return g, g.look("a prompt to type at", 0, func(shown string) bool { return strings.Contains(shown, "Type your message") })
}

func (g *gemini) id() string {
	if g.session == "" {
		g.session = g.last()
	}
	return g.session
}

// last is the session that wrote its transcript last.
func (g *gemini) last() string {
	files, _ := filepath.Glob(geminiChats(g.stage, "*"))
	newest, when := "", time.Time{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(when) {
			newest, when = file, info.ModTime()
		}
	}
	return sessionOfGemini(newest)
}

// geminiChats is where the transcripts of the stage's only project lie.
func geminiChats(s *stage, name string) string {
	return filepath.Join(s.home, ".gemini", "tmp", "*", "chats", "session-"+name+".jsonl")
}

// sessionOfGemini is the session in a transcript's first line.
func sessionOfGemini(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	var said struct{ SessionID string }
	_ = json.Unmarshal([]byte(first), &said)
	return said.SessionID
}

// enter types a line, and sends it off when it shows. An Enter that comes with
// the text would be taken for part of something pasted; and what is typed while
// the screen is cleared is lost.
func (g *gemini) enter(line string) (since int, err error) {
	const eraseLine = "\x15"
	end := line[max(0, len(line)-8):]
	shows := func(shown string) bool { return strings.Contains(shown, end) }
	for range 5 {
		since = g.now()
		if err := g.keys(eraseLine + line); err != nil {
			return since, err
		}
		if err = g.lookFor(patience/10, "an echo of what was typed", since, shows); err == nil {
			break
		}
	}
	if err != nil {
		return since, err
	}
	time.Sleep(200 * time.Millisecond) // as long as a person takes at least
	since = g.now()
	return since, g.keys("\r")
}

// The titles that the program gives its window.
const (
	geminiWorks = "\x1b]0;✦"
	geminiReady = "\x1b]0;◇  Ready"
)

func (g *gemini) say(text string) error {
	since, err := g.enter(text)
	if err != nil {
		return err
	}
	return g.look("an end of the turn", since, func(shown string) bool {
		works := strings.Index(shown, geminiWorks)
		return works >= 0 && strings.Contains(shown[works:], geminiReady)
	})
}

// settle waits until the session neither works nor is held: between two tools
// the title may say that it is ready.
func (g *gemini) settle(rest func() int) error {
	deadline := time.Now().Add(patience / 3)
	for time.Now().Before(deadline) {
		shown := g.screen()
		ready := strings.LastIndex(shown, geminiReady) > strings.LastIndex(shown, geminiWorks)
		if ready && rest() == 0 && !g.busy(g.last()) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil // what is missing is told by who waits
}

// clear clears; which session it is then shows at its first turn.
func (g *gemini) clear() error {
	since, err := g.enter("/clear")
	if err != nil {
		return err
	}
	g.session = ""
	return g.look("a cleared screen", since, func(shown string) bool { return strings.Contains(shown, "\x1b[3J") })
}

func (g *gemini) compact() error {
	since, err := g.enter("/compress")
	if err != nil {
		return err
	}
	return g.look("a compressed history", since, func(shown string) bool { return strings.Contains(shown, "Chat history compressed") })
}

func (g *gemini) another() error      { return unoffered("one process has one session") }
func (g *gemini) turnTo(string) error { return unoffered("one process has one session") }
func (g *gemini) sandboxed() error {
	return undriven("its sandbox needs programs that may not be there")
}

func (g *gemini) end() error {
	if _, err := g.enter("/quit"); err != nil {
		return err
	}
	return g.gone()
}

// geminiByPrompt is Gemini CLI driven as scripts do: each turn is a process of
// its own, and those after the first resume the session.
type geminiByPrompt struct {
	*stage
	session string
}

func geminiHeadless() *harness {
	h := geminiCLI()
	h.label, h.oneTurn = "gemini -p", true
	h.open = func(s *stage, resume string) (conversation, error) { return &geminiByPrompt{s, resume}, nil }
	return h
}

func (g *geminiByPrompt) id() string { return g.session }

func (g *geminiByPrompt) say(text string) error {
	argv := g.gemini("-o", "stream-json", "-p", text)
	if g.session != "" {
		argv = append(argv, "--resume", g.session)
	}
	p, err := start(g.ctx, g.work, g.log("gemini"), g.environOfGemini(), argv...)
	if err != nil {
		return err
	}
	_ = p.stdin.Close() // it waits for more of the prompt there
	line, err := p.hear("an end of the turn", func(line map[string]any) bool {
		if id, is := line["session_id"].(string); is {
			g.session = id
		}
		return line["type"] == "result"
	})
	if ended := p.end(); err == nil {
		err = ended
	}
	if err == nil && line["status"] != "success" {
		err = fmt.Errorf("the turn ended with %v", line)
	}
	return err
}

func (g *geminiByPrompt) clear() error        { return undriven("gemini -p has no /clear") }
func (g *geminiByPrompt) compact() error      { return undriven("gemini -p has no /compress") }
func (g *geminiByPrompt) another() error      { return unoffered("one process has one session") }
func (g *geminiByPrompt) turnTo(string) error { return unoffered("one process has one session") }
func (g *geminiByPrompt) sandboxed() error    { return undriven("tried in the terminal") }
func (g *geminiByPrompt) end() error          { return nil }

// seenByGemini reads the messages in the transcript of a session, each as often
// as it was taken into the context. A record that comes again replaces the first.
func seenByGemini(s *stage, session string) (map[string]int, error) {
	all, err := filepath.Glob(geminiChats(s, "*-"+session[:8]))
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(all, func(file string) bool { return sessionOfGemini(file) != session })
	if len(files) == 0 {
		return nil, fmt.Errorf("found no transcript of session %s", session)
	}
	records := map[string]string{}
	for _, file := range files {
		err := eachLine(file, func(line map[string]any) {
			if id, is := line["id"].(string); is && line["type"] == "user" {
				b, _ := json.Marshal(line["content"])
				records[id] = string(b)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	seen := map[string]int{}
	for _, record := range records {
		var content any
		if err := json.Unmarshal([]byte(record), &content); err != nil {
			return nil, err
		}
		for _, id := range frame.FindAllStringSubmatch(fmt.Sprint(content), -1) {
			seen[id[1]]++
		}
	}
	return seen, nil
}
