package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/ops"
)

// blocked waits until a process has a watch on a file, and all its threads
// sleep: it has looked, found nothing, and is to be woken.
func blocked(t testing.TB, pid int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		if watches(pid) && sleeps(pid) {
			return
		}
	}
	t.Fatalf("process %d does not block", pid)
}

func watches(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	return slices.ContainsFunc(files, func(file string) bool {
		text, _ := os.ReadFile(file)
		return bytes.Contains(text, []byte("inotify wd:"))
	})
}

func sleeps(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return false
		}
		_, state, found := strings.Cut(string(text), ") ")
		if !found || !strings.HasPrefix(state, "S") {
			return false
		}
	}
	return len(threads) > 0
}

// median is how long it took as a rule.
func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// wakeMax is how long after the end of a send its waiter has printed, as a rule:
// far less than the second after which a waiter that nobody woke would look.
const wakeMax = 300 * time.Millisecond

// A wait blocks, and is woken by what another process sends: it does not look
// again and again.
func TestAWaitIsWokenByAnotherProcessesSend(t *testing.T) {
	const rounds = 7
	m := aboard(t)
	m.join("sender-01")
	m.hook("codex", "SessionStart", "waiter-02")
	var took []time.Duration
	for round := range rounds {
		cmd := m.command("wait", "--json", "--as", "waiter-02", "--timeout", "60s")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		m.ok(cmd.Start())
		blocked(t, cmd.Process.Pid)
		id := m.send("sender-01", "waiter-02", fmt.Sprint("message ", round))
		began := time.Now()
		m.ok(cmd.Wait())
		took = append(took, time.Since(began))
		waited := read[ops.Waited](t, out.Bytes())
		if len(waited.Messages) != 1 || string(waited.Messages[0].ID) != id {
			t.Errorf("it waited for %s and got %+v", id, waited)
		}
		if shown := m.message(id); shown.State != events.StateDelivered || shown.Attempt != 1 {
			t.Errorf("message %s is %s after attempt %d", id, shown.State, shown.Attempt)
		}
	}
	if m := median(took); m > wakeMax {
		t.Errorf("a wait is woken %s after the send: %v", m, took)
	}
	m.verified()
}

// A wait for an answer is not ended by anything else, and is by that.
func TestAWaitForAnAnswerIsEndedByTheAnswerAlone(t *testing.T) {
	m := aboard(t)
	m.join("asker-0001")
	m.join("other-0002")
	question := m.send("asker-0001", "other-0002", "Which commit?", "--intent", "request")
	cmd := m.command("wait", "--json", "--as", "asker-0001", question, "--timeout", "60s")
	file := filepath.Join(m.dir, "printed")
	out, err := os.Create(file)
	m.ok(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	m.ok(cmd.Start())
	blocked(t, cmd.Process.Pid)
	m.send("other-0002", "asker-0001", "something else, in a thread of its own")
	told[receipt](m, "send", "--as", "other-0002", "--reply-to", question, "--turn", "working", "--", "a stub")
	m.done("peers")
	blocked(t, cmd.Process.Pid)
	printed := func() string {
		text, err := os.ReadFile(file)
		m.ok(err)
		return string(text)
	}
	if printed() != "" {
		t.Errorf("it printed %s", printed())
	}
	answer := told[receipt](m, "send", "--as", "other-0002", "--reply-to", question, "--", "4f2a9c1").Receipt.ID
	m.ok(cmd.Wait())
	if !strings.Contains(printed(), answer) || !strings.Contains(printed(), "4f2a9c1") {
		t.Errorf("it printed %s", printed())
	}
}

// A wait that is interrupted ends as one whose time is over; one whose time is
// over says so. Neither leaves anything behind.
func TestAWaitThatIsInterruptedEndsAsPending(t *testing.T) {
	m := aboard(t)
	m.hook("codex", "SessionStart", "waiter-02")
	before := len(m.events())
	interrupted := func(more ...string) ran {
		cmd := m.command(append([]string{"wait", "--as", "waiter-02", "--timeout", "60s"}, more...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		m.ok(cmd.Start())
		blocked(t, cmd.Process.Pid)
		m.ok(cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		return ran{cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()}
	}
	if r := interrupted(); r.code != cli.ExitPending || len(r.stdout) > 0 || !bytes.Contains(r.stderr, []byte("interrupted")) {
		t.Errorf("interrupted: %s", r)
	}
	r := interrupted("--json")
	if waited := read[ops.Waited](t, r.stdout); r.code != cli.ExitPending || !waited.TimedOut || len(waited.Messages) > 0 {
		t.Errorf("interrupted: %s", r)
	}
	r = m.run(nil, "wait", "--as", "waiter-02", "--timeout", "10ms")
	if r.code != cli.ExitPending || len(r.stdout) > 0 || !bytes.Contains(r.stderr, []byte("still pending")) {
		t.Errorf("a wait of 10 ms: %s", r)
	}
	if after := len(m.events()); after != before {
		t.Errorf("%d events were recorded", after-before)
	}
}

// events --follow prints each event as soon as another process has recorded it,
// and ends well when it is told to.
func TestAFollowerIsWokenByEachEventAndEndsWhenItIsTold(t *testing.T) {
	const rounds = 7
	m := aboard(t)
	m.join("sender-01")
	m.join("taker-02")
	f := m.follow()
	m.ok(f.until(1, func(e ops.EventShown) bool { return e.Type == events.TypeSessionJoined && e.Actor == "taker-02" }))
	var took []time.Duration
	for round := range rounds {
		blocked(t, f.cmd.Process.Pid)
		id := m.send("sender-01", "taker-02", fmt.Sprint("message ", round))
		began := time.Now()
		m.ok(f.until(1, func(e ops.EventShown) bool {
			return e.Type == events.TypeMessageSent && strings.Contains(string(e.Data), id)
		}))
		took = append(took, time.Since(began))
	}
	if m := median(took); m > wakeMax {
		t.Errorf("the follower is woken %s after the send: %v", m, took)
	}

	// It prints the same as a list of them.
	blocked(t, f.cmd.Process.Pid)
	all := m.events()
	f.mu.Lock()
	same := slices.EqualFunc(f.seen, all, func(a, b ops.EventShown) bool {
		return a.Position == b.Position && a.ID == b.ID && bytes.Equal(a.Data, b.Data)
	})
	f.mu.Unlock()
	if !same {
		t.Errorf("the follower printed something else than the list of %d events", len(all))
	}

	blocked(t, f.cmd.Process.Pid)
	m.ok(f.cmd.Process.Signal(syscall.SIGTERM))
	if err := f.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}

	// One that follows a type is not troubled by the others, and ends by SIGINT.
	refusals := m.command("events", "--follow", "--type", "command.refused")
	var out bytes.Buffer
	refusals.Stdout, refusals.Stderr = &out, os.Stderr
	m.ok(refusals.Start())
	blocked(t, refusals.Process.Pid)
	m.send("sender-01", "taker-02", "of another type")
	m.refuses("unknown_recipient", "send", "--as", "sender-01", "--to", "nobody-99", "--", "text")
	blocked(t, refusals.Process.Pid)
	m.ok(refusals.Process.Signal(syscall.SIGINT))
	if err := refusals.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 1 || !bytes.Contains(out.Bytes(), []byte("nobody-99")) {
		t.Errorf("it printed %s", out.Bytes())
	}

	// One whose reader went away ends too, and says why.
	r, w, err := os.Pipe()
	m.ok(err)
	alone := m.command("events", "--follow")
	var errs bytes.Buffer
	alone.Stdout, alone.Stderr = w, &errs
	m.ok(alone.Start())
	w.Close()
	blocked(t, alone.Process.Pid)
	r.Close()
	m.send("sender-01", "taker-02", "nobody reads of this")
	over := time.AfterFunc(patience, func() { _ = alone.Process.Kill() })
	defer over.Stop()
	if err := alone.Wait(); err == nil {
		t.Error("it ended as if all had been read")
	} else if status, is := err.(*exec.ExitError); !is || status.ExitCode() == -1 && status.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		t.Errorf("it did not end: %v", err)
	}
}
