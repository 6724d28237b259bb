package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// peer is the session that writes to the harness's.
const peer = "9ee50000-0000-4000-8000-000000000001"

// play goes through everything that a harness's hooks are for, on the real program.
type play struct {
	*stage
	conversation
	cells   []cell
	told    map[string][]string // the steps of each session, in their order
	started string              // the first session
	elder   string              // the session beside which another began
	waiting []string            // what must wait over a stop
	roles   map[string]string   // in whose name the model sees what each event brings
}

// cell is how one capability fared.
type cell struct{ capability, how string }

const (
	ok         = "ok"
	notOffered = "not offered: "
	notDriven  = "not driven: "
	failed     = "failed: "
)

// unoffered is what the harness lacks for it; undriven why it could not be tried.
type (
	unoffered string
	undriven  string
)

func (u unoffered) Error() string { return string(u) }
func (u undriven) Error() string  { return string(u) }

func (p *play) step(capability string, act func() error) {
	began := time.Now()
	err := act()
	if trouble := p.model.trouble(); err == nil {
		err = trouble
	}
	how := ok
	var lacks unoffered
	var why undriven
	switch {
	case errors.As(err, &lacks):
		how = notOffered + string(lacks)
	case errors.As(err, &why):
		how = notDriven + string(why)
	case err != nil:
		how = failed + err.Error()
	}
	p.cells = append(p.cells, cell{capability, how})
	fmt.Printf("  %-16s %-33s %s (%.1f s)\n", p.label, capability, how, time.Since(began).Seconds())
}

// all is the play.
func (p *play) all() {
	p.told, p.roles = map[string][]string{}, map[string]string{}
	p.step("install", p.installed)
	p.step("session start", p.start)
	if p.conversation == nil {
		return
	}
	p.step("prompt", p.prompt)
	p.step("tool call", p.toolCall)
	p.step("the agent's own send", p.reply)
	p.step("its send by decklog's tools", p.tools)
	p.step("status line and inbox", p.counts)
	p.step("stop", p.stop)
	p.step("what waits over a stop", p.afterStop)
	p.step("subagent takes nothing", p.subagent)
	p.step("a subagent's own send", func() error { return p.childSends("child-sends") })
	p.step("a subagent's send by the tools", p.childByTools)
	p.step("a tool call that fails", p.failedCall)
	p.step("to act as another is refused", p.asOther)
	p.step("a name that two have", p.ambiguous)
	p.step("the ledger is broken", p.broken)
	p.step("compact", p.compacted)
	p.step("clear", p.clear)
	p.step("the agent's own send after clear", p.replyAfterClear)
	p.step("its send by the tools after clear", p.toolsAfterClear)
	p.step("another session beside it", p.beside)
	p.step("a subagent's send beside it", p.childBeside)
	p.step("sends by the tools beside it", p.toolsBeside)
	p.step("send from its own sandbox", p.sandbox)
	p.step("doctor", p.doctor)
	p.step("session end", p.end)
	p.step("resume", p.resume)
	p.step("fork", p.fork)
	p.step("wake", p.wake)
	p.step("what was sent is what is recorded", p.audit)
	p.step("transcript", p.transcript)
	p.step("read receipts", p.read)
}

// settler is a conversation whose turn may go on after its end. It settles when
// the rest of the step's script is none and decklog was told of the end.
type settler interface {
	settle(rest func() int) error
}

// turn says a prompt that names a step, and gives the requests of that step.
func (p *play) turn(step string, replies ...reply) ([]*request, error) {
	p.model.script(step, replies...)
	if err := p.say("[[step " + step + "]] Go on with the test."); err != nil {
		return nil, err
	}
	if by, is := p.conversation.(settler); is {
		if err := by.settle(func() int { return p.model.rest(step) }); err != nil {
			return nil, err
		}
	}
	p.told[p.id()] = append(p.told[p.id()], step)
	all := p.model.of(step)
	if left := p.model.rest(step); left > 0 || len(all) < len(replies) {
		return all, fmt.Errorf("step %s made %d requests, and %d of its script were not asked for", step, len(all), left)
	}
	return all, p.model.trouble()
}

// arrived says that a message reached the model once, first with this request of
// the step, by this hook, and that the ledger has it as delivered once.
func (p *play) arrived(message string, all []*request, first int, hooks ...string) error {
	if len(all) <= first {
		return fmt.Errorf("the step made %d requests, and the message belongs into number %d", len(all), first+1)
	}
	for n, q := range all {
		want := 0
		if n >= first {
			want = 1
		}
		if got := q.frames()[message]; got != want {
			return fmt.Errorf("message %s is %d times in request %d of the step, not %d", message, got, n+1, want)
		}
	}
	leased, err := p.hooks(message)
	if err != nil {
		return err
	}
	if len(leased) != 1 || !slices.Contains(hooks, leased[0]) {
		return fmt.Errorf("message %s was leased at %q, not at %q", message, leased, hooks)
	}
	p.roles[leased[0]] = all[first].roleOf(message)
	return p.confirmed(message)
}

func (p *play) confirmed(message string) error {
	thread, err := p.thread(message)
	if err != nil {
		return err
	}
	for _, m := range thread {
		if m.ID == message && (len(m.Deliveries) != 1 || m.Deliveries[0].Confirmed == "" || m.Deliveries[0].To != p.id()) {
			return fmt.Errorf("the ledger has message %s as %+v", message, m)
		}
	}
	return nil
}

// joined says that the session was registered from this source, under the harness's process.
func (p *play) joined(source string) error {
	all, err := p.happened("session.joined", p.id())
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("session %s is not registered", p.id())
	}
	switch last := all[len(all)-1].Data; {
	case last.Source != source || last.Harness != p.name:
		return fmt.Errorf("session %s joined as a %s of %s, not as a %s of %s", p.id(), last.Source, last.Harness, source, p.name)
	case last.Process == nil:
		return fmt.Errorf("session %s joined without the process of its harness", p.id())
	}
	return nil
}

func (p *play) start() (err error) {
	if err := p.join(peer); err != nil {
		return err
	}
	if p.conversation, err = p.open(p.stage, ""); err != nil {
		return err
	}
	all, err := p.turn("start", reply{text: "I am ready."})
	if err != nil {
		return err
	}
	p.started = p.id()
	if err := p.joined("startup"); err != nil {
		return err
	}
	if n := all[0].instructions(); n != 1 {
		return fmt.Errorf("the standing instruction is %d times in what the model was sent", n)
	}
	return nil
}

func (p *play) prompt() error {
	message, err := p.send(peer, p.id(), "inform", "The lease test is green again.")
	if err != nil {
		return err
	}
	all, err := p.turn("prompt", reply{text: "I see."})
	if err != nil {
		return err
	}
	return p.arrived(message, all, 0, p.atPrompt()...)
}

// atPrompt are the events at which what waits before a turn is delivered.
func (p *play) atPrompt() []string {
	if p.oneTurn {
		return []string{p.occasions.start, p.occasions.prompt}
	}
	return []string{p.occasions.prompt}
}

func (p *play) toolCall() error {
	began, goOn := filepath.Join(p.folder, "tool-began"), filepath.Join(p.folder, "tool-go-on")
	// Gemini runs no command with a $( in it.
	command := fmt.Sprintf("touch %s; timeout 20 sh -c 'until [ -e %s ]; do sleep 0.05; done'; echo the tool has run", began, goOn)
	var message string
	sent := make(chan error, 1)
	go func() {
		sent <- func() (err error) {
			for range 400 {
				if _, err := os.Stat(began); err == nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if message, err = p.send(peer, p.id(), "inform", "The tool may take the other branch."); err != nil {
				return err
			}
			return os.WriteFile(goOn, nil, 0o600)
		}()
	}()
	all, err := p.turn("tool", p.shell(command), reply{text: "The tool has run."})
	if sending := <-sent; err == nil {
		err = sending
	}
	if err != nil {
		return err
	}
	return p.arrived(message, all, 1, p.occasions.tool...)
}

var call = regexp.MustCompile(`by command line: (decklog send --reply-to \S+ -- )"your answer"`)

// obey makes a tool call of the command that the frame of a request gives.
func (p *play) obey(answer string) reply {
	r := p.shell("")
	r.before = func(q *request) error {
		for _, s := range q.texts {
			if m := call.FindAllStringSubmatch(s.text, -1); m != nil {
				maps.Copy(r.input, p.shell(m[len(m)-1][1]+`"`+answer+`"`).input)
			}
		}
		return nil
	}
	return r
}

// answers has the session answer a request from its own shell, and says that the
// ledger has this session as the author.
func (p *play) answers(step, question, answer string) error {
	message, err := p.send(peer, p.id(), "request", question)
	if err != nil {
		return err
	}
	all, err := p.turn(step, p.obey(answer), reply{text: "I have answered."})
	if err != nil {
		return err
	}
	if err := p.arrived(message, all, 0, p.atPrompt()...); err != nil {
		return err
	}
	return p.answered(message, all)
}

func (p *play) reply() error {
	return p.answers("reply", "Which commit fixed the lease test?", "4f2a9c1")
}

func (p *play) replyAfterClear() error {
	if p.id() == p.started {
		return undriven("the session was not cleared")
	}
	return p.answers("reply-after-clear", "And which one broke it?", "77b01de")
}

// stop holds the turn once: what comes while it goes on waits, as does an inform.
func (p *play) stop() error {
	var held, inform string
	all, err := p.turn("stop", reply{text: "I am done.", before: func(*request) (err error) {
		if held, err = p.send(peer, p.id(), "request", "Before you go: is the branch pushed?"); err != nil {
			return err
		}
		inform, err = p.send(peer, p.id(), "inform", "The build machine is idle.")
		return err
	}}, reply{text: "It is pushed.", before: func(*request) error {
		late, err := p.send(peer, p.id(), "request", "And is it tagged?")
		p.waiting = append(p.waiting, late)
		return err
	}})
	if err != nil {
		return err
	}
	if len(all) != 2 {
		return fmt.Errorf("the turn made %d requests, not 2", len(all))
	}
	if p.occasions.again {
		if err := p.arrived(inform, all, 1, p.occasions.prompt); err != nil {
			return err
		}
	} else {
		p.waiting = append(p.waiting, inform)
	}
	return p.arrived(held, all, 1, p.occasions.stop)
}

func (p *play) afterStop() error {
	if len(p.waiting) == 0 {
		return undriven("nothing was sent before a stop")
	}
	for _, q := range p.model.of("stop") {
		for _, message := range p.waiting {
			if q.frames()[message] > 0 {
				return fmt.Errorf("message %s was delivered at the stop", message)
			}
		}
	}
	all, err := p.turn("after-stop", reply{text: "Good."})
	if err != nil {
		return err
	}
	for _, message := range p.waiting {
		if err := p.arrived(message, all, 0, p.atPrompt()...); err != nil {
			return err
		}
	}
	return nil
}

// reports ends a subagent.
func (p *play) reports(text string) reply {
	if p.report != nil {
		return p.report(text)
	}
	return reply{text: text}
}

func (p *play) subagent() error {
	var message string
	child := []reply{p.shell("echo the subagent has run"), p.reports("The subagent has done its step.")}
	child[0].before = func(*request) (err error) {
		message, err = p.send(peer, p.id(), "inform", "This is for the main thread alone.")
		return err
	}
	p.model.script("child", child...)
	all, err := p.turn("subagent", append(p.delegate("[[step child]] Run the shell once."), reply{text: "The subagent has reported."})...)
	if err != nil {
		return err
	}
	own := p.model.of("child")
	if len(own) < 2 {
		return undriven(fmt.Sprintf("the subagent made %d requests", len(own)))
	}
	for _, q := range own {
		if q.frames()[message] > 0 {
			return fmt.Errorf("message %s is in what the subagent's model was sent", message)
		}
	}
	at := slices.IndexFunc(all, func(q *request) bool { return q.frames()[message] > 0 })
	if at < 1 {
		return fmt.Errorf("message %s did not come after the subagent's end", message)
	}
	return p.arrived(message, all, at, p.occasions.tool...)
}

// childSends has a subagent send, which does so in the name of its session: it is
// none itself, and gets no answer.
func (p *play) childSends(step string) error {
	body := "A subagent says so in step " + step
	p.model.script(step, p.shell("decklog send --to "+peer+` -- "`+body+`"`), p.reports("The subagent has sent."))
	if _, err := p.turn(step+"-parent", append(p.delegate("[[step "+step+"]] Send it."), reply{text: "The subagent has reported."})...); err != nil {
		return err
	}
	from, err := p.authorOf(body)
	switch own := p.model.of(step); {
	case err != nil:
		return err
	case len(own) == 0:
		return undriven("the subagent asked for nothing")
	case from == "":
		return fmt.Errorf("the ledger has no message of the subagent; its tool gave %q", given(own))
	case from != p.id():
		return fmt.Errorf("the subagent's message is %s's, not its session's %s", from, p.id())
	}
	return nil
}

// failedCall is a tool call that fails while a message comes.
func (p *play) failedCall() error {
	var message string
	fails := p.shell("echo the tool fails >&2; exit 3")
	fails.before = func(*request) (err error) {
		message, err = p.send(peer, p.id(), "inform", "Mind the failing test.")
		return err
	}
	all, err := p.turn("failed", fails, reply{text: "The tool has failed."})
	if err != nil {
		return err
	}
	return p.arrived(message, all, 1, p.occasions.tool...)
}

// compacted compacts the context, and with it what the session was told.
func (p *play) compacted() error {
	if err := p.conversation.compact(); err != nil {
		return err
	}
	all, err := p.turn("compacted", reply{text: "I go on."})
	if err != nil {
		return err
	}
	if p.occasions.untold {
		return unoffered("it tells no hook that it compacted")
	}
	if err := p.joined("compact"); err != nil {
		return err
	}
	if n := all[0].instructions(); n != 1 {
		return fmt.Errorf("the standing instruction is %d times in what the model was sent after the compaction", n)
	}
	leased, err := p.happened("instruction.leased", p.id())
	if err != nil {
		return err
	}
	if form := leased[len(leased)-1].Data.Form; form != "short" {
		return fmt.Errorf("the standing instruction came in the form %q", form)
	}
	return nil
}

func (p *play) clear() error {
	before := p.id()
	if err := p.conversation.clear(); err != nil {
		return err
	}
	all, err := p.turn("cleared", reply{text: "I begin anew."})
	if err != nil {
		return err
	}
	if err := p.joined("clear"); err != nil {
		return err
	}
	if n := all[0].instructions(); n != 1 {
		return fmt.Errorf("the standing instruction is %d times in what the model was sent after the clear", n)
	}
	if n := len(all[0].frames()); n > 0 {
		return fmt.Errorf("%d messages are still in what the model was sent", n)
	}
	left, err := p.await("session.left", before, 1)
	if err != nil {
		return err
	}
	if reason := left[len(left)-1].Data.Reason; reason != "cleared" {
		return fmt.Errorf("session %s left because %s", before, reason)
	}
	return nil
}

// beside begins a session in the same process as another, with mail for both.
func (p *play) beside() error {
	elder := p.id()
	if err := p.another(); err != nil {
		return err
	}
	p.elder = elder
	all, err := p.turn("beside", reply{text: "I begin beside it."})
	if err != nil {
		return err
	}
	if err := p.joined("startup"); err != nil {
		return err
	}
	if n := all[0].instructions(); n != 1 {
		return fmt.Errorf("the standing instruction is %d times in what the model was sent", n)
	}
	if left, err := p.happened("session.left", p.elder); err != nil || len(left) > 0 {
		return fmt.Errorf("session %s left when another began beside it: %v", p.elder, err)
	}
	return p.answers("reply-beside", "Who are you?", "the other one")
}

// childBeside has a subagent of the elder of two sessions of one process send.
func (p *play) childBeside() error {
	if p.elder == "" {
		return unoffered("one process has one session")
	}
	younger := p.id()
	if err := p.turnTo(p.elder); err != nil {
		return err
	}
	if err := p.childSends("child-sends-beside"); err != nil {
		_ = p.turnTo(younger)
		return err
	}
	return p.turnTo(younger)
}

// sandbox has a session answer from a shell that its harness locks in.
func (p *play) sandbox() error {
	if err := p.sandboxed(); err != nil {
		return err
	}
	if _, err := p.turn("sandboxed", reply{text: "I am locked in."}); err != nil {
		return err
	}
	if err := p.answers("reply-sandboxed", "Can you write from there?", "yes"); err != nil {
		return err
	}
	if left, err := p.happened("session.left", p.id()); err != nil || len(left) > 0 {
		return fmt.Errorf("session %s left when its own shell looked: %v", p.id(), err)
	}
	return nil
}

func (p *play) end() error {
	if err := p.conversation.end(); err != nil {
		return err
	}
	left, err := p.await("session.left", p.id(), 1)
	if err != nil {
		return err
	}
	if reason := left[len(left)-1].Data.Reason; reason != "left" {
		return fmt.Errorf("session %s left because %s", p.id(), reason)
	}
	return nil
}

func (p *play) resume() (err error) {
	session := p.id()
	message, err := p.send(peer, session, "request", "Did the night build pass?")
	if err != nil {
		return err
	}
	if p.conversation, err = p.open(p.stage, session); err != nil {
		return err
	}
	all, err := p.turn("resume", reply{text: "It passed."})
	if err != nil {
		return err
	}
	if p.id() != session {
		return fmt.Errorf("session %s was resumed as %s", session, p.id())
	}
	if err := p.joined("resume"); err != nil {
		return err
	}
	if err := p.arrived(message, all, 0, p.occasions.start, p.occasions.prompt); err != nil {
		return err
	}
	if n := all[0].instructions(); n != 1 {
		return fmt.Errorf("the standing instruction is %d times in what the model was sent", n)
	}
	if err := p.conversation.end(); err != nil {
		return err
	}
	_, err = p.await("session.left", session, 2)
	return err
}

// fork goes on from a copy of the session: what waits for the session is not the
// copy's.
func (p *play) fork() (err error) {
	switch {
	case p.unapproved:
		return undriven("tried with the app server")
	case p.forks == nil:
		return unoffered("it has no forks")
	}
	session := p.id()
	message, err := p.send(peer, session, "request", "This is for the session that was copied.")
	if err != nil {
		return err
	}
	if p.conversation, err = p.forks(p.stage, session); err != nil {
		return err
	}
	p.model.script("fork", reply{text: "I am a copy."})
	if err := p.say("[[step fork]] Go on with the test."); err != nil {
		return err
	}
	if p.id() == session {
		return fmt.Errorf("the copy is session %s itself", session)
	}
	all := p.model.of("fork")
	if len(all) != 1 || all[0].frames()[message] > 0 {
		return fmt.Errorf("message %s came to a copy of its session, or nothing did: %d requests", message, len(all))
	}
	joined, err := p.happened("session.joined", p.id())
	if err != nil || len(joined) == 0 {
		return fmt.Errorf("the copy is not registered (%v)", err)
	}
	if hooks, err := p.hooks(message); err != nil || len(hooks) > 0 {
		return fmt.Errorf("message %s was leased at %q (%v)", message, hooks, err)
	}
	return p.conversation.end()
}

// confirmedFor are the messages that the ledger has as delivered to a session,
// each as often as it was confirmed.
func (p *play) confirmedFor(session string) (map[string]int, error) {
	all, err := p.happened("mailbox.confirmed", session)
	found := map[string]int{}
	for _, e := range all {
		for _, it := range e.Data.Items {
			found[it.Message]++
		}
	}
	return found, err
}

// differences are the messages of which there are other numbers.
func differences(seen, recorded map[string]int) string {
	var all []string
	both := maps.Clone(seen)
	maps.Copy(both, recorded)
	for _, message := range slices.Sorted(maps.Keys(both)) {
		if seen[message] != recorded[message] {
			all = append(all, fmt.Sprintf("%s %d, not %d", message, seen[message], recorded[message]))
		}
	}
	return strings.Join(all, "; ")
}

// audit compares what was sent to the model with the ledger: every message that
// was delivered to a session is in what its model was sent, never twice in one
// request, and no other is.
func (p *play) audit() error {
	for session, steps := range p.told {
		recorded, err := p.confirmedFor(session)
		if err != nil {
			return err
		}
		sent := map[string]int{}
		for _, step := range steps {
			for _, q := range p.model.of(step) {
				for message, n := range q.frames() {
					sent[message] = max(sent[message], n)
				}
			}
		}
		if differs := differences(sent, recorded); differs != "" {
			return fmt.Errorf("session %s: the model was sent another number than the ledger has: %s", session, differs)
		}
	}
	if faults, err := os.ReadFile(filepath.Join(p.folder, "ledger", "hook-faults.jsonl")); err == nil {
		return fmt.Errorf("the hook noted faults: %s", strings.TrimSpace(string(faults)))
	}
	_, err := p.run("verify")
	return err
}

// transcript compares the real transcript of each session with the ledger.
func (p *play) transcript() error {
	for session := range p.told {
		recorded, err := p.confirmedFor(session)
		if err != nil {
			return err
		}
		seen, err := p.seen(p.stage, session)
		if err != nil {
			return err
		}
		if differs := differences(seen, recorded); differs != "" {
			return fmt.Errorf("session %s: its transcript has another number than the ledger: %s", session, differs)
		}
	}
	return nil
}
