package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/ops"
)

// turning is a process that waits for its turn.
type turning struct {
	*exec.Cmd
	out bytes.Buffer
}

func (m *machine) turning(args ...string) *turning {
	w := &turning{Cmd: m.command(append([]string{"turn", "--block"}, args...)...)}
	w.Stdout, w.Stderr = &w.out, os.Stderr
	m.ok(w.Start())
	blocked(m, w.Process.Pid)
	return w
}

// A turn that blocks has acked before it blocks, sleeps until another process
// makes the other answer final, and then prints the thread with that answer. One
// that was killed meanwhile is begun again, and goes on where it was: nothing but
// the ledger knew of it.
func TestATurnBlocksUntilAnotherProcessHasFinishedItsAnswer(t *testing.T) {
	m := aboard(t)
	m.join("asker-0001")
	m.join("other-0002")
	m.join("third-0003")
	question := m.send("asker-0001", "other-0002", "Which commit fixed the lease test?", "--intent", "request")
	stub := told[receipt](m, "send", "--as", "other-0002", "--reply-to", question, "--turn", "working", "--json", "--", "I am looking.").Receipt.ID
	again := told[receipt](m, "send", "--as", "asker-0001", "--reply-to", question, "--to", "third-0003", "--intent", "request", "--json", "--",
		"Do you know?").Receipt.ID

	killed := m.turning(question, "--as", "third-0003", "--json")
	acks := m.thread(question).Acks
	if len(acks) != 1 || string(acks[0].Message) != again || acks[0].By != "third-0003" || acks[0].Ack != events.AckAct {
		t.Fatalf("before it blocked it acked %+v", acks)
	}
	m.ok(killed.Process.Kill())
	_ = killed.Wait()

	interrupted := m.turning(question, "--as", "third-0003", "--json")
	m.ok(interrupted.Process.Signal(syscall.SIGTERM))
	_ = interrupted.Wait()
	if answer := read[ops.TurnAnswer](t, interrupted.out.Bytes()); interrupted.ProcessState.ExitCode() != cli.ExitPending ||
		answer.Verdict != commands.TurnWait || answer.Reread != nil {
		t.Errorf("interrupted it ended with %d and %s", interrupted.ProcessState.ExitCode(), interrupted.out.Bytes())
	}

	w := m.turning(question, "--as", "third-0003")
	m.send("asker-0001", "other-0002", "something else, in a thread of its own")
	m.done("edit", stub, "--as", "other-0002", "--", "I am nearly there.")
	blocked(t, w.Process.Pid)
	m.done("edit", stub, "--as", "other-0002", "--turn", "final", "--", "It was 4f2a9c1.")
	m.ok(w.Wait())
	if printed := w.out.String(); !strings.HasPrefix(printed, "answer: ") || !strings.Contains(printed, "It was 4f2a9c1.") {
		t.Errorf("it printed %s", printed)
	}
	if acks := m.thread(question).Acks; len(acks) != 1 {
		t.Errorf("in all it acked %d times", len(acks))
	}
	m.verified()
}
