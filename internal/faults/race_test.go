//go:build faults && linux

package faults_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/faults"
)

// Each hook process has seen that messages wait, and stands before its lease;
// then all are let go at once.
func TestOf64HookProcessesOneBringsTheMessages(t *testing.T) {
	const crowd, messages = 64, 5
	m := newMachine(t)
	m.policy(unbounded)
	m.join("ada-session", "bob-session")
	m.hook("bob-session")
	h := newHistory()
	lost := 0
	rounds := often(10, 1)
	for round := range rounds {
		m.at(begun.Add(time.Duration(round) * time.Minute))
		sent := map[events.MessageID]int{}
		for range messages {
			id := commandID(crandom{})
			asked := h.try(id, "message "+string(id))
			r := ran{stdout: m.done("--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(id), "--", asked.body)}.answer().Receipt
			asked.position = r.Position
			sent[events.MessageID(r.ID)] = 0
		}
		readyIn, readyOut, err := os.Pipe()
		must(t, err)
		turnIn, turnOut, err := os.Pipe()
		must(t, err)
		racing := m.with(faults.HoldVar + "=before-lease")
		results := make([]ran, crowd)
		var running sync.WaitGroup
		for n := range crowd {
			cmd := racing.command("hook", "claude-code")
			cmd.ExtraFiles = []*os.File{readyOut, turnIn}
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(hookInput("bob-session")), &stdout, &stderr
			must(t, cmd.Start())
			running.Go(func() {
				_ = cmd.Wait()
				results[n] = ran{cmd.ProcessState.ExitCode(), stdout.Bytes(), stderr.Bytes()}
			})
		}
		readyOut.Close()
		turnIn.Close()
		// All of them: each writes one byte once it has seen that something waits.
		if _, err := io.ReadFull(readyIn, make([]byte, crowd)); err != nil {
			t.Fatalf("round %d: not all %d came so far: %v", round, crowd, err)
		}
		turnOut.Close()
		running.Wait()
		readyIn.Close()

		winners := 0
		for n, r := range results {
			if r.code != 0 || len(r.stderr) > 0 {
				t.Fatalf("round %d, process %d: %s", round, n, r)
			}
			frames := framesIn(r.stdout)
			if len(r.stdout) > 0 {
				winners++
			} else {
				lost++
			}
			for _, f := range frames {
				if f.attempt != 1 {
					t.Errorf("round %d: attempt %d of message %s", round, f.attempt, f.message)
				}
				sent[f.message]++
				h.printed = append(h.printed, f)
			}
		}
		for id, times := range sent {
			if times != 1 {
				t.Errorf("round %d: message %s was printed by %d processes", round, id, times)
			}
		}
		if winners != 1 {
			t.Errorf("round %d: %d processes printed something", round, winners)
		}
		v := h.holds(t, m.ledger, fmt.Sprint("round ", round))
		for id := range sent {
			if !v.confirmed[string(id)] {
				t.Errorf("round %d: message %s was not confirmed", round, id)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(m.ledger), "hook-faults.jsonl")); err == nil {
		t.Errorf("faults were noted:\n%s", text)
	}
	t.Logf("%d rounds of %d processes: %d saw that messages wait, came after the first, and got nothing", rounds, crowd, lost)
	if lost != rounds*(crowd-1) {
		t.Errorf("%d came in vain, want %d", lost, rounds*(crowd-1))
	}
}

// A hook run is paused after it leased, or after it printed, until its lease is
// over, and then goes on. Its confirm counts as long as nobody else was offered
// the message meanwhile; else it is refused, and changes nothing.
func TestAHookThatWasPausedConfirmsOnlyWhatNobodyElseWasOffered(t *testing.T) {
	for _, point := range []string{"leased", "printed"} {
		for _, overtaken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, overtaken %v", point, overtaken), func(t *testing.T) {
				m := newMachine(t)
				m.policy(unbounded)
				m.join("ada-session", "bob-session")
				m.hook("bob-session")
				h := newHistory()
				id := commandID(crandom{})
				asked := h.try(id, "waits")
				asked.position = ran{stdout: m.done("--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(id), "--", "waits")}.answer().Receipt.Position

				readyIn, readyOut, err := os.Pipe()
				must(t, err)
				turnIn, turnOut, err := os.Pipe()
				must(t, err)
				cmd := m.with(faults.HoldVar+"="+point).command("hook", "claude-code")
				cmd.ExtraFiles = []*os.File{readyOut, turnIn}
				var stdout, stderr bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(hookInput("bob-session")), &stdout, &stderr
				must(t, cmd.Start())
				readyOut.Close()
				turnIn.Close()
				if _, err := io.ReadFull(readyIn, make([]byte, 1)); err != nil {
					t.Fatalf("it did not come to %s: %v", point, err)
				}
				m.at(begun.Add(11 * time.Second))
				if overtaken {
					frames := framesIn(m.hook("bob-session").stdout)
					if len(frames) != 1 || frames[0].attempt != 2 {
						t.Fatalf("the other run printed %v", frames)
					}
					h.printed = append(h.printed, frames...)
				}
				turnOut.Close()
				if err := cmd.Wait(); err != nil {
					t.Fatalf("the paused run: %v: %s", err, stderr.Bytes())
				}
				h.printed = append(h.printed, framesIn(stdout.Bytes())...)
				if stale := strings.Contains(stderr.String(), "stale_lease"); stale != overtaken {
					t.Errorf("the paused run said %q", stderr.String())
				}
				if v := h.holds(t, m.ledger, "in the end"); !v.confirmed[string(id.Message())] || len(h.printed) == 0 {
					t.Errorf("printed %v, confirmed %v", h.printed, v.confirmed)
				}
			})
		}
	}
}
