package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"decklog/events"
)

const (
	sleeper = "sleeper-02"
	waker   = "sender-01"
)

// wakes is a machine on which an idle session of Claude Code and somebody who
// writes to it are.
func wakes(t *testing.T) *machine {
	m := aboard(t)
	m.join(waker)
	m.hook("claude-code", "SessionStart", sleeper)
	m.hook("claude-code", "Stop", sleeper)
	return m
}

// listener is a run of `decklog wake`.
type listener struct {
	*machine
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// listens starts a listener, as the harness does at the end of a turn, and waits
// until it has looked and found nothing.
func (m *machine) listens(harness string, args ...string) *listener {
	m.Helper()
	l := m.starts(harness, args...)
	blocked(m, l.cmd.Process.Pid)
	return l
}

func (m *machine) starts(harness string, args ...string) *listener {
	m.Helper()
	l := &listener{machine: m, cmd: m.command(append([]string{"wake", harness}, args...)...)}
	l.cmd.Stdin = strings.NewReader(stdinOf("Stop", sleeper, nil))
	l.cmd.Stderr = &l.stderr
	m.ok(l.cmd.Start())
	m.Cleanup(func() {
		if l.cmd.ProcessState == nil {
			_ = l.cmd.Process.Kill()
			_ = l.cmd.Wait()
		}
	})
	return l
}

// ends waits for its end, and gives its exit code and what it said.
func (l *listener) ends() (code int, said string) {
	l.Helper()
	_ = l.cmd.Wait()
	return l.cmd.ProcessState.ExitCode(), l.stderr.String()
}

// woke says that it started a turn with one line, which tells how many wait.
func (l *listener) woke(waits string) {
	l.Helper()
	code, said := l.ends()
	if code != 2 || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "[decklog] "+waits+" ") {
		l.Errorf("it exits with %d and says %q, and %q", code, said, waits)
	}
}

// quiet says that it ended without a word.
func (l *listener) quiet() {
	l.Helper()
	if code, said := l.ends(); code != 0 || said != "" {
		l.Errorf("it exits with %d and says %q", code, said)
	}
}

func (m *machine) asks(body string) string {
	m.Helper()
	return m.send(waker, sleeper, body, "--intent", "request")
}

// An idle session is woken by one line that says nothing of what was sent, and
// the hook of the turn that begins brings it.
func TestAnIdleSessionIsWokenByARequestAndTheHookBringsIt(t *testing.T) {
	m := wakes(t)
	l := m.listens("claude-code")
	m.send(waker, sleeper, "an inform waits for the next prompt")
	blocked(t, l.cmd.Process.Pid)
	id := m.asks("SECRET: which commit?")
	l.woke("2 messages wait")
	if strings.Contains(l.stderr.String(), "SECRET") || strings.Contains(l.stderr.String(), id) {
		t.Errorf("the line says what was sent: %s", l.stderr.String())
	}
	if shown := m.message(id); shown.State != events.StateQueued || shown.Attempt != 0 {
		t.Errorf("woken for, message %s is %s after attempt %d", id, shown.State, shown.Attempt)
	}
	if said := m.hook("claude-code", "UserPromptSubmit", sleeper); !bytes.Contains(said, []byte(id)) {
		t.Errorf("the turn's own hook says %s", said)
	}
	m.verified()
}

// Of any number of listeners of one session one listens; what it was woken for,
// no other wakes it for, and what comes later does.
func TestASessionIsWokenOnceForAMessageHoweverManyListen(t *testing.T) {
	m := wakes(t)
	var all []*listener
	for range 4 {
		all = append(all, m.starts("claude-code"))
	}
	ended := make(chan *listener, len(all))
	for _, l := range all {
		go func() {
			_ = l.cmd.Wait()
			ended <- l
		}()
	}
	for range len(all) - 1 {
		if l := <-ended; l.cmd.ProcessState.ExitCode() != 0 || l.stderr.Len() > 0 {
			t.Errorf("one of several exits with %d and says %s", l.cmd.ProcessState.ExitCode(), l.stderr.String())
		}
	}
	m.asks("Which commit?")
	if l := <-ended; l.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the one that listens exits with %d: %s", l.cmd.ProcessState.ExitCode(), l.stderr.String())
	}
	again := m.listens("claude-code") // its turn was broken off before any hook ran
	m.asks("And on which branch?")
	again.woke("2 messages wait")
	m.verified()
}

// What another hook run took wakes nobody, and neither does anything while the
// session is in a turn; the end of the turn is noticed.
func TestABusySessionIsNotWokenAndItsOwnHooksBringWhatComes(t *testing.T) {
	m := wakes(t)
	l := m.listens("claude-code")
	m.hook("claude-code", "UserPromptSubmit", sleeper) // it has a turn now
	taken := m.asks("Which commit?")
	blocked(t, l.cmd.Process.Pid)
	if said := m.hook("claude-code", "PostToolUse", sleeper); !bytes.Contains(said, []byte(taken)) {
		t.Errorf("in its turn it gets %s", said)
	}
	m.hook("claude-code", "Stop", sleeper)
	blocked(t, l.cmd.Process.Pid)
	m.hook("claude-code", "UserPromptSubmit", sleeper)
	m.asks("And on which branch?")
	blocked(t, l.cmd.Process.Pid)
	// Its stop was held already: it ends, and the request waits for an idle session.
	if r := m.run(strings.NewReader(stdinOf("Stop", sleeper, map[string]any{"stop_hook_active": true})), "hook", "claude-code"); r.code != 0 || len(r.stdout) > 0 {
		t.Errorf("its stop was held already, and then: %s", r)
	}
	l.woke("1 message waits")
	m.verified()
}

// A listener that was killed leaves nothing that keeps the next one from it.
func TestAListenerThatIsKilledIsFollowedByAnother(t *testing.T) {
	m := wakes(t)
	l := m.listens("claude-code")
	m.ok(l.cmd.Process.Signal(syscall.SIGKILL))
	_ = l.cmd.Wait()
	next := m.listens("claude-code")
	m.asks("Which commit?")
	next.woke("1 message waits")
}

// A listener ends with its session, or when its time is over, and then says nothing.
func TestAListenerEndsQuietlyWithItsSessionAndItsTime(t *testing.T) {
	m := wakes(t)
	m.starts("claude-code", "--for", "10ms").quiet()
	l := m.listens("claude-code")
	m.hook("claude-code", "SessionEnd", sleeper)
	l.quiet()
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(m.file()), "wakes")); err != nil || len(left) > 0 {
		t.Errorf("of a session that ended there is left: %v %v", left, err)
	}
	m.with("DECKLOG=off").starts("claude-code").quiet()
	m.with("CLAUDE_CODE_SESSION_ATTENDED=0").starts("claude-code").quiet()
}

// To the harness the exit code of a listener that cannot even begin would say
// that a turn is to be started.
func TestAListenerThatCannotListenStartsNoTurn(t *testing.T) {
	m := wakes(t)
	for _, args := range [][]string{
		{"wake"}, {"wake", "claude-code", "--for", "soon"}, {"wake", "claude-code", "more"}, {"wake", "claude-code", "--nonsense"},
		{"wake", "gemini", "--session", sleeper}, {"wake", "claude-code"}, {"wake", "claude-code", "--session", "@nobody"},
	} {
		cmd := m.command(args...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 0 || len(out) == 0 {
			t.Errorf("decklog %s exits with %d and says %q", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out)
		}
	}
	m.url = "sqlite:" + m.dir // which is a folder
	l := m.starts("claude-code")
	if code, said := l.ends(); code != 0 || said == "" {
		t.Errorf("without a ledger it exits with %d and says %q", code, said)
	}
}

// The program that Codex has for it gets one line, and Codex's own hook goes on
// at once; the listener stays, and is told of each message once.
func TestCodexsQueueGetsOneLineForEachMessage(t *testing.T) {
	m := aboard(t)
	m.join(waker)
	m.hook("codex", "SessionStart", sleeper)
	bin, queued := filepath.Join(m.dir, "bin"), filepath.Join(m.dir, "queued")
	m.ok(os.Mkdir(bin, 0o700))
	m.ok(syscall.Mkfifo(queued, 0o600))
	m.ok(os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\nprintf '%s|' \"$@\" > "+queued+"\n"), 0o700))
	m = m.with("PATH=" + bin + ":" + os.Getenv("PATH"))
	m.starts("codex").quiet()
	got := func() string {
		line, err := os.ReadFile(queued) // blocks until somebody writes
		m.ok(err)
		return string(line)
	}
	for _, waits := range []string{"1 message waits", "2 messages wait"} {
		m.asks("SECRET: " + waits)
		line := got()
		if !strings.HasPrefix(line, "queue|--thread|"+sleeper+"|--message|[decklog] "+waits+" ") || strings.Contains(line, "SECRET") {
			t.Errorf("the queue gets %q", line)
		}
	}
	folder := filepath.Join(filepath.Dir(m.file()), "wakes")
	held, err := os.Open(filepath.Join(folder, sleeper)) // which the listener locks as long as it listens
	m.ok(err)
	defer held.Close()
	m.hook("codex", "SessionEnd", sleeper)
	m.ok(syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("of a listener whose session has ended there is left: %v %v", left, err)
	}
}
