package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"decklog/events"
	"decklog/internal/kit"
)

// opencode is a process that runs the plugin as opencode does.
type opencode struct {
	*machine
	say  io.Writer
	hear *bufio.Scanner
}

// done is what the plugin did about one event.
type done struct {
	Output struct {
		Parts  []struct{ ID, Text, MessageID, SessionID, Type string }
		Args   map[string]any
		Env    map[string]string
		Output string
		Thrown string
	}
	Prompts []struct {
		Path struct{ ID string }
		Body struct {
			Agent string
			Model map[string]string
			Parts []struct {
				Text      string
				Synthetic bool
			}
		}
	}
	Hooks []string
}

// opencodeOn starts the plugin with these programs on its path.
func opencodeOn(m *machine, path string, environ ...string) *opencode {
	m.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		m.Skip("opencode's plugin is JavaScript, and there is no node to run it")
	}
	plugin := filepath.Join(m.dir, "decklog.mjs")
	m.ok(os.WriteFile(plugin, kit.OpencodePlugin(), 0o600))
	cmd := exec.Command(node, "testdata/opencode.mjs", plugin, `{"ses_child":"ses_root"}`)
	cmd.Env = append([]string{"HOME=" + m.dir, "PATH=" + path, "DECKLOG_LEDGER=" + m.url, "DECKLOG_TEST_CLOCK=" + m.clock}, environ...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	m.ok(err)
	out, err := cmd.StdoutPipe()
	m.ok(err)
	m.ok(cmd.Start())
	m.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			m.Errorf("the process that runs the plugin ends with %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &opencode{machine: m, say: in, hear: lines}
}

// programsOf is a path on which the machine's programs lie, and what they need.
func (m *machine) programsOf() string { return filepath.Dir(m.program) + ":/usr/bin:/bin" }

// does lets something happen in opencode, given as JSON.
func (o *opencode) does(what string) (d done) {
	o.Helper()
	_, err := io.WriteString(o.say, strings.ReplaceAll(what, "\n", " ")+"\n")
	o.ok(err)
	if !o.hear.Scan() {
		o.Fatalf("the plugin ended at %s: %v", what, o.hear.Err())
	}
	o.ok(json.Unmarshal(o.hear.Bytes(), &d))
	if d.Output.Thrown != "" {
		o.Fatalf("%s throws %s", what, d.Output.Thrown)
	}
	return d
}

// prompts lets the person in a session say something, and gives what the model
// is told beside it.
func (o *opencode) prompts(session, text string) (told string) {
	o.Helper()
	d := o.does(`{"hook":"chat.message","input":{"sessionID":"` + session + `"},"output":{"message":{"id":"msg_1","agent":"plan","model":{"providerID":"p","modelID":"m"}},
		"parts":[{"id":"prt_1","type":"text","text":"` + text + `"}]}}`)
	for _, p := range d.Output.Parts[1:] {
		if p.Type != "text" || p.SessionID != session || p.MessageID != "msg_1" || !strings.HasPrefix(p.ID, "prt_") || p.ID <= "prt_1" {
			o.Errorf("it adds %+v", p)
		}
		told += p.Text
	}
	return told
}

func (o *opencode) answers(session string) {
	o.does(`{"hook":"event","input":{"event":{"type":"message.updated","properties":{"info":{"id":"msg_2","role":"assistant","sessionID":"` + session + `","finish":"stop"}}}}}`)
}

func (o *opencode) happens(event, session string) done {
	o.Helper()
	return o.does(`{"hook":"event","input":{"event":{"type":"` + event + `","properties":{"sessionID":"` + session + `","info":{"id":"` + session + `"}}}}}`)
}

func (o *opencode) uses(tool, session string) done {
	o.Helper()
	return o.does(`{"hook":"tool.execute.after","input":{"tool":"` + tool + `","sessionID":"` + session + `","callID":"c"},"output":{"title":"","output":"ok","metadata":{}}}`)
}

func TestThePluginOfOpencodeDeliversAtAPromptAToolAndATurnsEnd(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	o.happens("session.created", "ses_root")
	if told := o.prompts("ses_root", "hello"); !strings.HasPrefix(told, "<decklog-instruction ") {
		t.Fatalf("the first prompt brings %q", told)
	}
	asked := m.send("sender-01", "ses_root", "By a tool?", "--intent", "request")
	if d := o.uses("bash", "ses_root"); !strings.HasPrefix(d.Output.Output, "ok\n\n<decklog-message id=\""+asked+`"`) {
		t.Errorf("a tool brings %q", d.Output.Output)
	}

	asked = m.send("sender-01", "ses_root", "At the end?", "--intent", "request")
	informed := m.send("sender-01", "ses_root", "By the way.")
	o.answers("ses_root")
	d := o.happens("session.idle", "ses_root")
	if len(d.Prompts) != 1 || d.Prompts[0].Path.ID != "ses_root" || d.Prompts[0].Body.Agent != "plan" || d.Prompts[0].Body.Model["modelID"] != "m" {
		t.Fatalf("the end of the turn is followed by %+v", d.Prompts)
	}
	if p := d.Prompts[0].Body.Parts; len(p) != 1 || !p[0].Synthetic || !strings.HasPrefix(p[0].Text, `<decklog-message id="`+asked) {
		t.Errorf("the session goes on with %+v", p)
	}
	if told := o.prompts("ses_root", "that prompt"); !strings.Contains(told, informed) {
		t.Errorf("the prompt that goes on brings %q", told)
	}
	// What was held once ends.
	m.send("sender-01", "ses_root", "And now?", "--intent", "request")
	o.answers("ses_root")
	if d := o.happens("session.idle", "ses_root"); len(d.Prompts) > 0 {
		t.Errorf("the second end is followed by %+v", d.Prompts)
	}

	o.happens("session.deleted", "ses_root")
	for _, e := range m.events() {
		if e.Type == events.TypeSessionLeft {
			return
		}
	}
	t.Error("the session that was deleted lives on")
}

func TestThePluginOfOpencodeHoldsNoTurnThatWasBrokenOff(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	o.prompts("ses_root", "hello")
	m.send("sender-01", "ses_root", "Are you there?", "--intent", "request")
	if d := o.happens("session.idle", "ses_root"); len(d.Prompts) > 0 {
		t.Errorf("it goes on with %+v", d.Prompts)
	}
}

func TestWhatThePluginOfOpencodeCouldNotPromptComesWithTheNextPrompt(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	o.prompts("ses_root", "hello")
	asked := m.send("sender-01", "ses_root", "Are you there?", "--intent", "request")
	o.answers("ses_root")
	o.does(`{"hook":"none","broken":true}`)
	if d := o.happens("session.idle", "ses_root"); len(d.Prompts) > 0 {
		t.Fatalf("it goes on with %+v", d.Prompts)
	}
	if told := o.prompts("ses_root", "still here"); strings.Count(told, asked) == 0 {
		t.Errorf("the next prompt brings %q", told)
	}
}

func TestASubagentInOpencodeTakesNothing(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	o.prompts("ses_root", "hello")
	asked := m.send("sender-01", "ses_root", "Are you there?", "--intent", "request")
	if told := o.prompts("ses_child", "do a step"); told != "" {
		t.Errorf("a subagent is told %q", told)
	}
	o.answers("ses_child")
	if d := o.uses("bash", "ses_child"); d.Output.Output != "ok" {
		t.Errorf("a subagent's tool says %q", d.Output.Output)
	}
	if d := o.happens("session.idle", "ses_child"); len(d.Prompts) > 0 {
		t.Errorf("a subagent goes on with %+v", d.Prompts)
	}
	// Its shell speaks for the session that it works for.
	if d := o.does(`{"hook":"shell.env","input":{"sessionID":"ses_child","cwd":"/"},"output":{"env":{}}}`); d.Output.Env["DECKLOG_SESSION"] != "ses_root" {
		t.Errorf("its shell has %v", d.Output.Env)
	}
	if d := o.uses("task", "ses_root"); !strings.Contains(d.Output.Output, asked) {
		t.Errorf("the session itself is told %q", d.Output.Output)
	}
}

// What an MCP tool gave has no output yet, and is cut to a size later.
func TestThePluginOfOpencodeLeavesAnMCPToolsResultAlone(t *testing.T) {
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	o.prompts("ses_root", "hello")
	id := m.send("sender-01", "ses_root", "Are you there?")
	o.does(`{"hook":"tool.execute.after","input":{"tool":"other_look","sessionID":"ses_root","callID":"c"},"output":{"content":[{"type":"text","text":"ok"}]}}`)
	if got := m.message(id).State; got != events.StateQueued {
		t.Errorf("the message is %s", got)
	}
}

func TestThePluginOfOpencodeBreaksNothingWhateverItsProgramDoes(t *testing.T) {
	for what, program := range map[string]string{
		"is not there": "", "fails": "exit 3", "prints garbage": "echo garbage", "prints null": "echo null", "prints a list": "echo '[1]'",
		"reads nothing": "exec 0<&-; echo '{}'", "prints half": `printf '{"part":"half'`, "prints another type": `echo '{"part":7,"output":[],"prompt":{},"args":1}'`,
	} {
		t.Run(what, func(t *testing.T) {
			m := aboard(t)
			bin := filepath.Join(m.dir, "bin")
			m.ok(os.Mkdir(bin, 0o700))
			if program != "" {
				m.ok(os.WriteFile(filepath.Join(bin, "decklog-hook"), []byte("#!/bin/sh\n"+program+"\n"), 0o700))
			}
			o := opencodeOn(m, bin+":/usr/bin:/bin")
			o.happens("session.created", "ses_root")
			if told := o.prompts("ses_root", "hello"); told != "" {
				t.Errorf("the prompt brings %q", told)
			}
			if d := o.uses("bash", "ses_root"); d.Output.Output != "ok" {
				t.Errorf("the tool says %q", d.Output.Output)
			}
			if d := o.does(`{"hook":"tool.execute.before","input":{"tool":"decklog_decklog_peers","sessionID":"ses_root","callID":"c"},"output":{"args":{"repo":"."}}}`); len(d.Output.Args) != 1 {
				t.Errorf("the tool is called with %v", d.Output.Args)
			}
			o.answers("ses_root")
			if d := o.happens("session.idle", "ses_root"); len(d.Prompts) > 0 {
				t.Errorf("it goes on with %+v", d.Prompts)
			}
			o.does(`{"hook":"event","input":{"event":{"type":"session.created"}}}`)
			o.does(`{"hook":"event","input":{}}`)
			o.does(`{"hook":"dispose"}`)
		})
	}
}

func TestThePluginOfOpencodeDoesNothingWhereDecklogIsOff(t *testing.T) {
	m := aboard(t)
	o := opencodeOn(m, m.programsOf(), "DECKLOG=off")
	if d := o.does(`{"hook":"none"}`); len(d.Hooks) > 0 {
		t.Errorf("it has the hooks %q", d.Hooks)
	}
}

// What the real opencode gave to a plugin's hooks.
func TestThePluginOfOpencodeTakesWhatTheRealOneGives(t *testing.T) {
	files, err := filepath.Glob("../../internal/hook/testdata/plugin/opencode/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	const root, child = "ses_1111000011114000ffAAAAAAAAAAAA", "ses_2222000022224000ffBBBBBBBBBBBB"
	m := aboard(t)
	m.join("sender-01")
	o := opencodeOn(m, m.programsOf())
	gives := func(name string) done {
		t.Helper()
		text, err := os.ReadFile("../../internal/hook/testdata/plugin/opencode/" + name + ".json")
		m.ok(err)
		return o.does(string(text))
	}
	gives("event-session-created")
	gives("event-session-created-in-a-subagent")
	if d := gives("chat-message"); len(d.Output.Parts) != 2 || !strings.HasPrefix(d.Output.Parts[1].Text, "<decklog-instruction ") {
		t.Errorf("its prompt becomes %+v", d.Output.Parts)
	}
	m.send("sender-01", root, "Are you there?")
	if d := gives("chat-message-in-a-subagent"); len(d.Output.Parts) != 1 {
		t.Errorf("its subagent's prompt becomes %+v", d.Output.Parts)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.Contains(name, "deleted") {
			continue
		}
		d := gives(name)
		if strings.Contains(name, "shell-env") && d.Output.Env["DECKLOG_SESSION"] != root {
			t.Errorf("%s: its shell has %v", name, d.Output.Env)
		}
	}
	gives("event-session-deleted-in-a-subagent")
	gives("event-session-deleted")
	for _, e := range m.events("--type", string(events.TypeSessionJoined)) {
		if j := read[events.SessionJoined](m, e.Data); string(j.Session) == child {
			t.Error("a subagent is registered")
		}
	}
	if left := m.events("--type", string(events.TypeSessionLeft)); len(left) != 1 {
		t.Errorf("%d sessions left", len(left))
	}
	if noted := m.noted(); len(noted) > 0 {
		t.Errorf("noted %+v", noted)
	}
}
