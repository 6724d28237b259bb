package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What a session does through decklog's own tools, and what nobody may do.

// viaTools has the session answer a request by decklog_send, whose caller is
// found by what the harness's hook writes into the call.
func (p *play) viaTools(step, question, answer string) error {
	message, err := p.send(peer, p.id(), "request", question)
	if err != nil {
		return err
	}
	call := p.mcp("decklog_send")
	call.input = map[string]any{"reply_to": message, "body": answer}
	all, err := p.turn(step, call, reply{text: "I have answered."})
	if err != nil {
		return err
	}
	if err := p.arrived(message, all, 0, p.atPrompt()...); err != nil {
		return err
	}
	return p.answered(message, all)
}

// answered says that a message has one answer, and that it is the session's.
func (p *play) answered(message string, all []*request) error {
	thread, err := p.thread(message)
	if err != nil {
		return err
	}
	for _, m := range thread {
		if m.ReplyTo != message {
			continue
		}
		if m.From != p.id() {
			return fmt.Errorf("the answer is %s's, not the session's %s", m.From, p.id())
		}
		return nil
	}
	return fmt.Errorf("the ledger has no answer; the tool gave %q", given(all))
}

// given is what the last tool in a step gave.
func given(all []*request) (output string) {
	for _, q := range all {
		for _, s := range q.texts {
			if s.role == "tool" {
				output = s.text
			}
		}
	}
	return output
}

func (p *play) tools() error {
	return p.viaTools("tools", "Which branch has the lease fix?", "lease-fix")
}

func (p *play) toolsAfterClear() error {
	if p.id() == p.started {
		return undriven("the session was not cleared")
	}
	return p.viaTools("tools-after-clear", "And which one has the clock fix?", "clock-fix")
}

// toolsBeside has both of two sessions of one process answer by the same server.
func (p *play) toolsBeside() error {
	if p.elder == "" {
		return unoffered("one process has one session")
	}
	if err := p.viaTools("tools-younger", "Which one are you?", "the younger"); err != nil {
		return err
	}
	younger := p.id()
	if err := p.turnTo(p.elder); err != nil {
		return err
	}
	err := p.viaTools("tools-elder", "And you?", "the elder")
	return errors.Join(err, p.turnTo(younger))
}

// childByTools has a subagent send by decklog_send: it goes out as its session's,
// and the subagent is told so.
func (p *play) childByTools() error {
	const step = "child-tools"
	body := "A subagent says so by its tools"
	call := p.mcp("decklog_send")
	call.input = map[string]any{"to": peer, "body": body}
	p.model.script(step, call, p.reports("The subagent has sent."))
	if _, err := p.turn(step+"-parent", append(p.delegate("[[step "+step+"]] Send it."), reply{text: "The subagent has reported."})...); err != nil {
		return err
	}
	from, err := p.authorOf(body)
	switch own := p.model.of(step); {
	case err != nil:
		return err
	case len(own) < 2:
		return undriven(fmt.Sprintf("the subagent made %d requests", len(own)))
	case from == "":
		return fmt.Errorf("the ledger has no message of the subagent; its tool gave %q", given(own))
	case from != p.id():
		return fmt.Errorf("the subagent's message is %s's, not its session's %s", from, p.id())
	case !strings.Contains(given(own), "You are a subagent"):
		return fmt.Errorf("the subagent is not told that it sends as its session: %q", given(own))
	}
	return nil
}

// authorOf is who wrote the peer's message with this body; empty: there is none.
func (p *play) authorOf(body string) (string, error) {
	b, err := p.run("inbox", "--json", "--as", peer)
	if err != nil {
		return "", err
	}
	var inbox struct{ Messages []struct{ From, Body string } }
	if err := json.Unmarshal(b, &inbox); err != nil {
		return "", err
	}
	for _, m := range inbox.Messages {
		if m.Body == body {
			return m.From, nil
		}
	}
	return "", nil
}

// asOther has the session say that it is somebody else, by command line and by
// tool: neither sends anything in the other's name.
func (p *play) asOther() error {
	const other = "9ee50000-0000-4000-8000-000000000002"
	if err := p.join(other); err != nil {
		return err
	}
	byLine, byTool := "I am the other, by command line", "I am the other, by tool"
	stamped := p.mcp("decklog_send")
	stamped.input = map[string]any{"to": peer, "body": byTool, "_decklog": "v1.e30.AAAA"}
	all, err := p.turn("as-other",
		p.shell("decklog send --as "+other+" --to "+peer+` -- "`+byLine+`"`), stamped, reply{text: "I have tried."})
	if err != nil {
		return err
	}
	for _, body := range []string{byLine, byTool} {
		from, err := p.authorOf(body)
		if err != nil {
			return err
		}
		if from != "" && from != p.id() {
			return fmt.Errorf("%q was sent as %s", body, from)
		}
		if from != "" && body == byLine {
			return fmt.Errorf("%q was sent at all", body)
		}
	}
	for _, q := range all[1:] {
		for _, s := range q.texts {
			if s.role == "tool" && strings.Contains(s.text, "no_caller") {
				return nil
			}
		}
	}
	return fmt.Errorf("nothing says that this was refused; the last tool gave %q", given(all))
}

// ambiguous has the session address a prefix that two sessions share.
func (p *play) ambiguous() error {
	call := p.mcp("decklog_send")
	call.input = map[string]any{"to": peer[:12], "body": "Whichever of you"}
	all, err := p.turn("ambiguous", call, reply{text: "I see."})
	if err != nil {
		return err
	}
	text := given(all)
	if !strings.Contains(text, "ambiguous_recipient") || !strings.Contains(text, peer) {
		return fmt.Errorf("the tool gave %q", text)
	}
	return nil
}

// counts has the status line and the inbox say how much waits.
func (p *play) counts() error {
	var sent []string
	for _, body := range []string{"The first of two.", "The second of two."} {
		message, err := p.send(peer, p.id(), "inform", body)
		if err != nil {
			return err
		}
		sent = append(sent, message)
	}
	line, err := p.runWith(fmt.Sprintf(`{"session_id":%q}`, p.id()), "statusline", "--json")
	if err != nil {
		return err
	}
	var status struct{ Waiting int }
	if err := json.Unmarshal(line, &status); err != nil {
		return err
	}
	b, err := p.run("inbox", "--json", "--as", p.id(), "--state", "queued")
	if err != nil {
		return err
	}
	var inbox struct{ Messages []struct{ ID string } }
	if err := json.Unmarshal(b, &inbox); err != nil {
		return err
	}
	if len(inbox.Messages) != len(sent) || status.Waiting != len(sent) {
		return fmt.Errorf("the inbox lists %d, the status line counts %d, and %d wait", len(inbox.Messages), status.Waiting, len(sent))
	}
	all, err := p.turn("counts", reply{text: "I have both."})
	if err != nil {
		return err
	}
	for _, message := range sent {
		if err := p.arrived(message, all, 0, p.atPrompt()...); err != nil {
			return err
		}
	}
	return nil
}

// runWith runs decklog with this on its standard input.
func (s *stage) runWith(input string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(s.ctx, s.decklog, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.work, s.environ(), strings.NewReader(input)
	return cmd.Output()
}

// broken has a turn while the ledger is no ledger: the harness goes on as if
// there were no decklog, and the mail comes once it is mended.
func (p *play) broken() error {
	ledger, aside := filepath.Join(p.folder, "ledger"), filepath.Join(p.folder, "ledger-aside")
	message, err := p.send(peer, p.id(), "inform", "The ledger was away.")
	if err != nil {
		return err
	}
	if err := os.Rename(ledger, aside); err != nil {
		return err
	}
	back := func() error { return errors.Join(os.RemoveAll(ledger), os.Rename(aside, ledger)) }
	err = os.MkdirAll(ledger, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(ledger, "ledger.db"), bytes.Repeat([]byte("no ledger "), 1000), 0o600)
	}
	var all []*request
	if err == nil {
		all, err = p.turn("broken", p.shell("echo the tool has run"), reply{text: "I went on."})
	}
	noted, reading := os.ReadFile(filepath.Join(ledger, "hook-faults.jsonl"))
	if err := errors.Join(err, back()); err != nil {
		return err
	}
	for _, q := range all {
		if q.frames()[message] > 0 {
			return fmt.Errorf("message %s came out of a broken ledger", message)
		}
	}
	if reading != nil || len(noted) == 0 {
		return fmt.Errorf("the hook noted no fault: %v", reading)
	}
	all, err = p.turn("mended", reply{text: "There it is."})
	if err != nil {
		return err
	}
	return p.arrived(message, all, 0, p.atPrompt()...)
}

// doctor says whether the doctor finds all well with this harness.
func (p *play) doctor() error {
	b, err := p.run("doctor", "--json")
	var report struct {
		OK    bool
		Lines []struct{ About, Check, Level, Says string }
	}
	if err != nil {
		b = []byte(err.Error()[max(0, strings.Index(err.Error(), "{")):])
	}
	if json.NewDecoder(bytes.NewReader(b)).Decode(&report) != nil {
		return err
	}
	if err := os.WriteFile(p.log("doctor")+".json", b, 0o600); err != nil {
		return err
	}
	var wrong []string
	about := false
	for _, line := range report.Lines {
		about = about || line.About == p.name
		if line.Level == "fault" || line.Level == "warning" && line.About == p.name {
			wrong = append(wrong, fmt.Sprintf("%s, %s: %s", line.About, line.Check, line.Says))
		}
	}
	untrusted := slices.ContainsFunc(wrong, func(line string) bool { return strings.HasPrefix(line, p.name+", trusted: ") })
	switch {
	case p.unapproved && untrusted && len(wrong) == 1:
		return nil // which is so
	case p.unapproved:
		return fmt.Errorf("it does not say that nobody approved the hooks: %q", wrong)
	case len(wrong) > 0:
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	case !about:
		return fmt.Errorf("it says nothing of %s", p.name)
	}
	return nil
}

// read compares what the ledger has as read with what it has as delivered, as
// far as the transcript proves it: a message is read once, where it stands there.
func (p *play) read() error {
	for session := range p.told {
		recorded, err := p.confirmedFor(session)
		if err != nil {
			return err
		}
		all, err := p.happened("message.read", session)
		if err != nil {
			return err
		}
		read := map[string]int{}
		for _, e := range all {
			read[e.Data.Message]++
			if err := p.standsThere(e); err != nil {
				return err
			}
		}
		for message := range recorded {
			hooks, err := p.hooks(message)
			if err != nil {
				return err
			}
			if slices.Contains(p.occasions.unproven, hooks[len(hooks)-1]) {
				delete(recorded, message)
			}
		}
		if differs := differences(read, recorded); differs != "" {
			return fmt.Errorf("session %s: the ledger has another number as read than it should: %s", session, differs)
		}
	}
	return nil
}

// standsThere says whether the transcript has the message at the offset that the
// ledger names.
func (p *play) standsThere(e event) error {
	if strings.HasSuffix(e.Data.Transcript, ".db") {
		return nil // a row of a database
	}
	b, err := os.ReadFile(e.Data.Transcript)
	if err != nil {
		return err
	}
	if e.Data.Offset < 0 || e.Data.Offset >= int64(len(b)) {
		return fmt.Errorf("message %s was read at %d of a transcript of %d bytes", e.Data.Message, e.Data.Offset, len(b))
	}
	line, _, _ := bytes.Cut(b[e.Data.Offset:], []byte("\n"))
	if e.Data.Offset > 0 && b[e.Data.Offset-1] != '\n' || !bytes.Contains(line, []byte(e.Data.Message)) {
		return fmt.Errorf("message %s does not stand in the line at %d of its transcript", e.Data.Message, e.Data.Offset)
	}
	return nil
}

// wake has an idle session start a turn by itself, because a request waits.
func (p *play) wake() (err error) {
	switch {
	case p.unapproved:
		return undriven("tried with the app server")
	case p.wakes == nil:
		return unoffered("nothing reaches its idle session")
	}
	if help, err := p.run("help", "install"); err != nil || !bytes.Contains(help, []byte("--wake")) {
		return undriven("this decklog cannot install it yet")
	}
	if _, err := p.run("install", p.name, "--wake", "--yes"); err != nil {
		return err
	}
	if p.conversation, err = p.wakes(p.stage); err != nil {
		return err
	}
	if _, err := p.turn("wake", reply{text: "I am idle."}); err != nil {
		return err
	}
	p.model.script("wake", reply{text: "I am awake."})
	if _, err := p.send(peer, p.id(), "inform", "No hurry."); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	if n := len(p.model.of("wake")); n != 1 {
		return fmt.Errorf("an inform woke it: %d requests", n)
	}
	message, err := p.send(peer, p.id(), "request", "Are you there?")
	if err != nil {
		return err
	}
	for range 300 {
		if p.model.rest("wake") == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	all := p.model.of("wake")
	if len(all) != 2 {
		return fmt.Errorf("the request did not wake it within 30 s: %d requests", len(all))
	}
	if n := all[1].frames()[message]; n != 1 {
		return fmt.Errorf("the message is %d times in what the woken model was sent", n)
	}
	if hooks, err := p.hooks(message); err != nil || !slices.Equal(hooks, []string{p.occasions.prompt}) {
		return fmt.Errorf("the message was leased at %q (%v)", hooks, err)
	}
	return p.conversation.end()
}
