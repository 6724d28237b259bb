package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turnstile is the test's hold on the turn to write: while it is closed, every
// process that wants to write stands in line.
type turnstile struct {
	m    *machine
	file *os.File
}

func (m *machine) closeTurnstile() turnstile {
	m.Helper()
	f, err := os.OpenFile(filepath.Join(filepath.Dir(m.file()), "ledger.lock"), os.O_RDWR, 0)
	m.ok(err)
	m.ok(unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return turnstile{m, f}
}

// racer is a process that the test started.
type racer struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

// race starts a process.
func (m *machine) race(cmd *exec.Cmd) *racer {
	m.Helper()
	r := &racer{Cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.stdout, &r.stderr
	m.ok(cmd.Start())
	go func() {
		defer close(r.ended)
		_ = cmd.Wait()
	}()
	return r
}

// standIn tells how many of the processes stand in line, as the kernel says,
// once all of them do, or have given it up: a hook does not wait for ever.
func (g turnstile) standIn(line []*racer) int {
	g.m.Helper()
	var stat unix.Stat_t
	m := g.m
	m.ok(unix.Fstat(int(g.file.Fd()), &stat))
	inode := fmt.Sprintf(":%d ", stat.Ino)
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		locks, err := os.ReadFile("/proc/locks")
		m.ok(err)
		waiting := map[string]bool{}
		for entry := range strings.Lines(string(locks)) {
			fields := strings.Fields(entry)
			if len(fields) > 5 && fields[1] == "->" && strings.Contains(entry, inode) {
				waiting[fields[5]] = true
			}
		}
		stand, gone := 0, 0
		for _, r := range line {
			select {
			case <-r.ended:
				gone++
			default:
				if waiting[fmt.Sprint(r.Process.Pid)] {
					stand++
				}
			}
		}
		if stand+gone == len(line) {
			return stand
		}
		select {
		case <-tick.C:
		case <-deadline:
			m.Fatalf("%d of %d processes stand in line:\n%s", stand, len(line), locks)
		}
	}
}

func (g turnstile) open() { g.m.ok(g.file.Close()) }

// F3: of hook runs that start at once for one session, one takes each message.
// In a round all the runs have seen that mail waits, and stand in line to take
// it, before the first is let through.
func TestF3OfHookRunsThatRaceOneTakesEachMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 400 hooks")
	}
	const runs, rounds, each = 8, 50, 2
	m := aboard(t)
	m.policy(unbounded)
	m.hook("claude-code", "SessionStart", "bob-0002")
	m.join("alice-0001")

	printedBy := map[string]int{} // by message, how many runs
	sent, raced := 0, 0
	for round := range rounds {
		for n := range each {
			printedBy[m.send("alice-0001", "bob-0002", fmt.Sprint("round ", round, ", message ", n))] = 0
			sent++
		}
		gate := m.closeTurnstile()
		var line []*racer
		for range runs {
			cmd := m.command("hook", "claude-code")
			cmd.Stdin = strings.NewReader(stdinOf("PostToolUse", "bob-0002", nil))
			line = append(line, m.race(cmd))
		}
		if gate.standIn(line) == runs {
			raced++
		}
		gate.open()
		printing := 0
		took := func(stdout []byte) {
			text := contextOf(t, "PostToolUse", stdout)
			if text == "" {
				return
			}
			printing++
			for id := range printedBy {
				if strings.Contains(text, id) {
					printedBy[id]++
				}
			}
			if strings.Contains(text, "repeat") {
				t.Errorf("round %d: a repeat, and no lease had ended:\n%s", round, text)
			}
		}
		for _, r := range line {
			<-r.ended
			if code := r.ProcessState.ExitCode(); code != 0 {
				t.Errorf("round %d: a run ended with %d: %s", round, code, r.stderr.String())
			}
			took(r.stdout.Bytes())
		}
		if printing > 1 {
			t.Errorf("round %d: %d of %d runs printed", round, printing, runs)
		}
		if printing == 0 { // on a machine so slow that all of them gave up, or were late
			took(m.hook("claude-code", "PostToolUse", "bob-0002"))
		}
	}
	if raced < rounds/2 {
		t.Errorf("all %d runs stood in line in %d of %d rounds only: that was no race", runs, raced, rounds)
	}
	for id, n := range printedBy {
		if n != 1 {
			t.Errorf("message %s was printed by %d runs", id, n)
		}
	}
	if len(printedBy) != sent {
		t.Errorf("%d messages, %d ids", sent, len(printedBy))
	}
	leases := m.events("--type", "mailbox.leased")
	if confirmed := m.events("--type", "mailbox.confirmed"); len(leases) != rounds || len(confirmed) != rounds {
		t.Errorf("%d leases and %d confirms in %d rounds", len(leases), len(confirmed), rounds)
	}
	m.verified()
}
