package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/ops"
)

// patience is how long a test waits for what must come. It is never waited out
// when all is well.
const patience = 30 * time.Second

// follower is a process that follows the ledger.
type follower struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	seen []ops.EventShown
	err  error
	more chan struct{} // closed, and replaced, with each event
}

// follow starts a process that follows the ledger, and reads what it prints.
func (m *machine) follow(args ...string) *follower {
	m.Helper()
	f := &follower{cmd: m.command(append([]string{"events", "--follow"}, args...)...), more: make(chan struct{})}
	out, err := f.cmd.StdoutPipe()
	m.ok(err)
	f.cmd.Stderr = os.Stderr
	m.ok(f.cmd.Start())
	m.Cleanup(func() { _ = f.cmd.Process.Kill(); _ = f.cmd.Wait() })
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			var e ops.EventShown
			if err == nil {
				err = json.Unmarshal(line, &e)
			}
			f.mu.Lock()
			if err == nil {
				f.seen = append(f.seen, e)
			}
			f.err = err
			close(f.more)
			f.more = make(chan struct{})
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return f
}

// until waits for an event at or after a position.
func (f *follower) until(from events.Position, is func(ops.EventShown) bool) error {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		f.mu.Lock()
		for _, e := range f.seen {
			if e.Position >= from && is(e) {
				f.mu.Unlock()
				return nil
			}
		}
		more, err := f.more, f.err
		f.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-more:
		case <-over.C:
			return errors.New("the event did not come")
		}
	}
}

// end is the position of the last event that was seen.
func (f *follower) end() events.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) == 0 {
		return 0
	}
	return f.seen[len(f.seen)-1].Position
}

// strike runs a command and kills it after a while, unless it has ended.
func (m *machine) strike(after time.Duration, stdin string, args ...string) (r ran, err error) {
	cmd := m.command(args...)
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return ran{cmd.ProcessState.ExitCode(), []byte(stdout.String()), []byte(stderr.String())}, err
}

// mute runs a command whose output cannot be written, because the pipe is full
// and nobody reads it, and kills it once the event that it records is there: a
// receipt is then on its way for certain, and never read.
func (m *machine) mute(f *follower, is func(ops.EventShown) bool, stdin string, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		return err
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		return err
	}
	from := f.end() + 1
	cmd := m.command(args...)
	cmd.Stdin, cmd.Stdout = strings.NewReader(stdin), w
	if err := cmd.Start(); err != nil {
		return err
	}
	w.Close()
	err = f.until(from, is)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err == nil && cmd.ProcessState.ExitCode() != -1 {
		err = fmt.Errorf("decklog %s ended by itself, though nobody reads it", args)
	}
	if err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(r); err != nil || len(rest) != size {
		return fmt.Errorf("%d bytes came through a pipe that was full, %v", len(rest)-size, err)
	}
	return nil
}

// kills is the state of the test: what was asked, and what was answered.
type kills struct {
	*machine
	follower *follower
	random   *rand.Rand
	mu       sync.Mutex
	took     map[string][]time.Duration // by commands that ended by themselves
	struck   map[string]int             // processes that were killed, by what they ran
	unread   map[string]int             // commits of theirs whose receipt nobody read
	sent     map[string]string          // keys, and the acknowledged message; empty: not yet
	open     []string                   // keys whose receipt nobody has read yet
	round    int
	confirms map[string]bool // leases whose receipt was read
	unsure   string          // a lease whose confirm was not answered
	printed  map[string]bool // "message attempt" that a hook or a lease printed whole
	turn     int
}

// try runs a command that is killed at a random moment of its life.
func (k *kills) try(stdin string, args ...string) (ran, error) {
	kind := args[0]
	k.mu.Lock()
	most := 20 * time.Millisecond
	if took := k.took[kind]; len(took) > 0 {
		slices.Sort(took)
		most = took[len(took)/2] * 5 / 4
	}
	after := time.Duration(k.random.Int64N(int64(most)))
	k.mu.Unlock()
	began := time.Now()
	r, err := k.strike(after, stdin, args...)
	took := time.Since(began)
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.code == -1 {
		k.struck[kind]++
	} else {
		k.took[kind] = append(k.took[kind], took)
	}
	return r, err
}

// whole is a command that is left alone.
func (k *kills) whole(stdin string, args ...string) (ran, error) {
	began := time.Now()
	r, err := finish(k.command(args...), strings.NewReader(stdin))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took[args[0]] = append(k.took[args[0]], time.Since(began))
	if err == nil && r.code != 0 {
		err = fmt.Errorf("decklog %s: %s", args, r)
	}
	return r, err
}

func (k *kills) takers() []string { return []string{"taker-claude-code", "taker-codex", "taker-lease"} }

func (k *kills) sending(key string) []string {
	to := k.takers()[len(key)%len(k.takers())]
	return []string{"send", "--json", "--as", "sender-01", "--to", to, "--key", key, "--", "the message of " + key}
}

// answered takes in what a send printed; it says whether that is a receipt.
func (k *kills) answered(key string, r ran) (receipt, bool) {
	var v receipt
	if json.Unmarshal(r.stdout, &v) != nil || v.Receipt.ID == "" {
		return v, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent[key] = v.Receipt.ID
	return v, true
}

// sends is the hand that sends. What was not acknowledged in one round is sent
// again, with its key, in the next: the time that its receipt then names tells
// in which it was recorded.
func (k *kills) sends() error {
	retry := k.open
	k.open = nil
	for _, key := range retry {
		r, err := k.whole("", k.sending(key)...)
		if err != nil {
			return err
		}
		v, is := k.answered(key, r)
		if !is {
			return fmt.Errorf("send %s again: %s", key, r)
		}
		if v.Receipt.Sent < events.At(k.now()) {
			k.unread["send"]++
		}
	}
	for n := range 4 {
		key := fmt.Sprintf("round-%d-%d%s", k.round, n, strings.Repeat("x", n))
		k.mu.Lock()
		k.sent[key] = ""
		k.mu.Unlock()
		r, err := k.try("", k.sending(key)...)
		if err != nil {
			return err
		}
		if _, is := k.answered(key, r); is {
			continue
		}
		if r.code != -1 {
			return fmt.Errorf("send %s: %s", key, r)
		}
		k.open = append(k.open, key)
	}
	return nil
}

// leased is what a lease prints.
type leased struct {
	Receipt struct {
		ID       string
		Position events.Position
		Messages []struct {
			ID      string
			Attempt int
		}
	}
}

// leases is the hand that leases and confirms by itself.
func (k *kills) leases() error {
	confirm := func(lease string, run func(string, ...string) (ran, error)) error {
		r, err := run("", "confirm", lease, "--json")
		var v receipt
		switch {
		case err != nil:
			return err
		case json.Unmarshal(r.stdout, &v) == nil && v.Receipt.ID == lease:
			k.confirms[lease] = true
			k.unsure = ""
		case r.code == -1:
			k.unsure = lease
		default:
			return fmt.Errorf("confirm %s: %s", lease, r)
		}
		return nil
	}
	if lease := k.unsure; lease != "" {
		if err := confirm(lease, k.whole); err != nil {
			return err
		}
	}
	for range 3 {
		r, err := k.try("", "lease", "--json", "--as", "taker-lease")
		if err != nil {
			return err
		}
		var v leased
		if json.Unmarshal(r.stdout, &v) != nil {
			if r.code != -1 {
				return fmt.Errorf("lease: %s", r)
			}
			continue
		}
		if v.Receipt.ID == "" {
			continue
		}
		for _, message := range v.Receipt.Messages {
			k.print(message.ID, fmt.Sprint(message.Attempt))
		}
		if err := confirm(v.Receipt.ID, k.try); err != nil {
			return err
		}
		if k.unsure != "" {
			return nil // it is settled in the next round, before anything else is leased
		}
	}
	return nil
}

func (k *kills) print(message, attempt string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.printed[message+" "+attempt] = true
}

// hooks is the hand of the harnesses.
func (k *kills) hooks() error {
	for range 2 {
		for _, harness := range hooked {
			r, err := k.try(stdinOf("UserPromptSubmit", "taker-"+harness, nil), "hook", harness)
			if err != nil {
				return err
			}
			if r.code > 0 || len(r.stderr) > 0 {
				return fmt.Errorf("hook %s: %s", harness, r)
			}
			if err := k.read(r.stdout); err != nil {
				return err
			}
		}
	}
	return nil
}

// read takes in what a hook printed: all of it, or nothing.
func (k *kills) read(stdout []byte) error {
	if len(stdout) == 0 {
		return nil
	}
	var answer struct {
		HookSpecificOutput struct{ AdditionalContext string }
	}
	if err := json.Unmarshal(stdout, &answer); err != nil {
		return fmt.Errorf("half an answer was printed: %q", stdout)
	}
	for _, block := range strings.Split(answer.HookSpecificOutput.AdditionalContext, "\n\n") {
		if !strings.HasPrefix(block, "<decklog-message ") {
			continue
		}
		f, err := onlyFrame(block)
		if err != nil {
			return err
		}
		k.print(f.attributes["id"], f.attributes["attempt"])
	}
	return nil
}

// silences kills one command whose commit is done and whose receipt nobody reads.
func (k *kills) silences() error {
	k.turn++
	switch k.turn % 4 {
	case 0:
		key := fmt.Sprintf("mute-%d", k.round)
		k.sent[key] = ""
		k.open = append(k.open, key)
		k.struck["send"]++
		return k.mute(k.follower, func(e ops.EventShown) bool {
			return e.Type == events.TypeMessageSent && strings.Contains(string(e.Data), key)
		}, "", k.sending(key)...)
	case 1:
		if k.unsure != "" {
			return nil
		}
		if err := k.fresh("taker-lease"); err != nil {
			return err
		}
		k.struck["lease"]++
		k.unread["lease"]++
		return k.mute(k.follower, of(events.TypeMailboxLeased, "taker-lease"), "", "lease", "--json", "--as", "taker-lease")
	case 2:
		if k.unsure != "" {
			return nil
		}
		if err := k.fresh("taker-lease"); err != nil {
			return err
		}
		r, err := k.whole("", "lease", "--json", "--as", "taker-lease")
		if err != nil {
			return err
		}
		v := read[leased](k, r.stdout)
		if v.Receipt.ID == "" {
			return nil // an unread lease runs
		}
		for _, message := range v.Receipt.Messages {
			k.print(message.ID, fmt.Sprint(message.Attempt))
		}
		k.unsure = v.Receipt.ID
		k.struck["confirm"]++
		k.unread["confirm"]++
		return k.mute(k.follower, of(events.TypeMailboxConfirmed, "taker-lease"), "", "confirm", v.Receipt.ID, "--json")
	}
	harness := hooked[k.turn/4%2]
	if err := k.fresh("taker-" + harness); err != nil {
		return err
	}
	k.struck["hook"]++
	k.unread["hook"]++
	return k.mute(k.follower, of(events.TypeMailboxLeased, "taker-"+harness), stdinOf("UserPromptSubmit", "taker-"+harness, nil), "hook", harness)
}

// fresh makes sure that something waits, and that no lease runs.
func (k *kills) fresh(taker string) error {
	k.round++
	k.at(k.now())
	_, err := k.whole("", "send", "--as", "sender-01", "--to", taker, "--", fmt.Sprint("something to take, ", k.round))
	return err
}

func (k *kills) now() time.Time { return scenarioStart.Add(time.Duration(k.round) * 11 * time.Second) }

func of(t events.Type, mailbox string) func(ops.EventShown) bool {
	return func(e ops.EventShown) bool { return e.Type == t && e.Stream == events.Stream("mailbox-"+mailbox) }
}

// What was acknowledged is recorded, once, whatever dies when: of real processes
// that send, lease, confirm and answer hooks, each is killed at some moment of
// its life, and some are killed for certain between their commit and the reading
// of their receipt.
func TestWhatWasAcknowledgedSurvivesKillsAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some hundred processes and kills most of them")
	}
	const rounds = 30
	m := aboard(t)
	m.policy(unbounded + "lease_attempts = 0\n")
	m.join("sender-01")
	m.join("taker-lease")
	for _, harness := range hooked {
		m.hook(harness, "SessionStart", "taker-"+harness)
	}
	k := &kills{
		machine: m, follower: m.follow(), random: rand.New(rand.NewPCG(9, 2026)), took: map[string][]time.Duration{},
		struck: map[string]int{}, unread: map[string]int{}, sent: map[string]string{}, confirms: map[string]bool{}, printed: map[string]bool{},
	}
	for range rounds {
		k.round++
		m.at(k.now())
		failures := make(chan error, 4)
		var hands sync.WaitGroup
		for _, hand := range []func() error{k.sends, k.leases, k.hooks, k.rebuilds} {
			hands.Go(func() { failures <- hand() })
		}
		hands.Wait()
		for range 4 {
			if err := <-failures; err != nil {
				t.Fatal(err)
			}
		}
		if err := k.silences(); err != nil {
			t.Fatal(err)
		}
		m.verified()
	}
	k.drain()
	t.Logf("killed: %v; of their commits, the receipt was not read: %v", k.struck, k.unread)
	for _, kind := range []string{"send", "lease", "confirm", "hook"} {
		if k.struck[kind] == 0 || k.unread[kind] == 0 {
			t.Errorf("no %s was killed, or none of them before its receipt was read", kind)
		}
	}
	k.settled()
}

// rebuilds is the hand that throws the views away.
func (k *kills) rebuilds() error {
	_, err := k.try("", "rebuild")
	return err
}

// drain lets everything that is left be done, by processes that nobody kills.
func (k *kills) drain() {
	k.Helper()
	for {
		k.round++
		k.at(k.now())
		left := len(k.open) > 0 || k.unsure != ""
		for _, key := range k.open {
			r, err := k.whole("", k.sending(key)...)
			k.ok(err)
			v, is := k.answered(key, r)
			if !is {
				k.Fatalf("send %s again: %s", key, r)
			}
			if v.Receipt.Sent < events.At(k.now()) {
				k.unread["send"]++
			}
		}
		k.open = nil
		if lease := k.unsure; lease != "" {
			k.done("confirm", lease)
			k.confirms[lease], k.unsure = true, ""
		}
		v := told[leased](k.machine, "lease", "--as", "taker-lease")
		if v.Receipt.ID != "" {
			left = true
			for _, message := range v.Receipt.Messages {
				k.print(message.ID, fmt.Sprint(message.Attempt))
			}
			k.done("confirm", v.Receipt.ID)
			k.confirms[v.Receipt.ID] = true
		}
		for _, harness := range hooked {
			out := k.hook(harness, "UserPromptSubmit", "taker-"+harness)
			left = left || len(out) > 0
			k.ok(k.read(out))
		}
		if !left {
			return
		}
	}
}

// settled holds the ledger against what was asked and answered.
func (k *kills) settled() {
	k.Helper()
	k.verified()
	keys, messages := map[string]int{}, map[string]bool{}
	confirmed, leases, instructed := map[string]int{}, map[string]int{}, map[string]int{}
	attempts := map[string]int{}
	for _, e := range k.events() {
		switch e.Type {
		case events.TypeMessageSent:
			v := read[events.MessageSent](k, e.Data)
			if messages[string(v.Message)] {
				k.Errorf("message %s is there twice", v.Message)
			}
			messages[string(v.Message)] = true
			if v.Key != "" {
				keys[v.Key]++
				if id := k.sent[v.Key]; id != string(v.Message) {
					k.Errorf("the key %s has the message %s, and was answered with %q", v.Key, v.Message, id)
				}
			}
		case events.TypeMailboxLeased:
			for _, it := range read[events.MailboxLeased](k, e.Data).Items {
				if it.Attempt != attempts[string(it.Message)]+1 {
					k.Errorf("message %s is offered as attempt %d after %d", it.Message, it.Attempt, attempts[string(it.Message)])
				}
				attempts[string(it.Message)] = it.Attempt
			}
		case events.TypeInstructionConfirmed:
			instructed[string(read[events.InstructionConfirmed](k, e.Data).Lease)]++
		case events.TypeMailboxConfirmed:
			v := read[events.MailboxConfirmed](k, e.Data)
			leases[string(v.Lease)]++
			for _, it := range v.Items {
				confirmed[string(it.Message)]++
				if !k.printed[fmt.Sprint(it.Message, " ", it.Attempt)] {
					k.Errorf("message %s is confirmed as attempt %d, which nobody read", it.Message, it.Attempt)
				}
			}
		}
	}
	for key, id := range k.sent {
		if keys[key] != 1 || id == "" {
			k.Errorf("the key %s was answered with %q, and has %d messages", key, id, keys[key])
		}
	}
	for lease := range k.confirms {
		if leases[lease]+instructed[lease] == 0 {
			k.Errorf("the confirm of lease %s was acknowledged, and is lost", lease)
		}
	}
	for _, times := range []map[string]int{leases, instructed} {
		for lease, n := range times {
			if n != 1 {
				k.Errorf("lease %s is confirmed %d times", lease, n)
			}
		}
	}
	for id := range messages {
		if confirmed[id] != 1 {
			k.Errorf("message %s is confirmed %d times", id, confirmed[id])
		}
	}
	for what := range k.printed {
		if id, _, _ := strings.Cut(what, " "); !messages[id] {
			k.Errorf("message %s was delivered, and never sent", id)
		}
	}
	k.Logf("%d messages, each sent once and confirmed once", len(messages))
}
