//go:build faults && linux

package faults_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/faults"
)

// begin makes a ledger in which two messages wait for the hub, and gives its files.
func (h *history) begin(t *testing.T) map[string][]byte {
	t.Helper()
	m := newMachine(t)
	m.policy(unbounded)
	m.join("worker-ada", hub)
	m.hook(hub) // has its instruction
	for _, body := range []string{"ada waits", "ada waits, and may take it back"} {
		id := commandID(crandom{})
		asked := h.try(id, body)
		asked.position = ran{stdout: m.done("--json", "send", "--as", "worker-ada", "--to", hub, "--command", string(id), "--", body)}.answer().Receipt.Position
	}
	return drain(t, filepath.Dir(m.ledger))
}

// ways are how a disk fails, at the nth time it is asked for something.
var ways = []struct {
	name string
	fail func(d *disk, nth int)
}{
	{"a sync fails once", func(d *disk, nth int) { d.failing = func(_ string, n int) bool { return n == nth } }},
	{"syncs fail for ever", func(d *disk, nth int) { d.failing = func(_ string, n int) bool { return n >= nth } }},
	{"a write fails once", func(d *disk, nth int) { d.unfit = func(n int) bool { return n == nth } }},
	{"writes fail for ever", func(d *disk, nth int) { d.unfit = func(n int) bool { return n >= nth } }},
	{"reads fail for ever", func(d *disk, nth int) { d.unread = func(n int) bool { return n >= nth } }},
	{"the disk is full", func(d *disk, nth int) { d.fullAt = nth }},
	{"the power is cut at a sync", func(d *disk, nth int) { d.cutAt = nth }},
}

// tasks are what is done on a disk that fails. Each says how it went.
var tasks = []struct {
	name string
	do   func(m *machine, h *history) (r ran, outcome string)
}{
	{"send", func(m *machine, h *history) (ran, string) { return h.sendOn(m) }},
	{"hook", func(m *machine, h *history) (ran, string) {
		r := m.hook(hub)
		frames := framesIn(r.stdout)
		h.printed = append(h.printed, frames...)
		code, _, _ := strings.Cut(strings.TrimPrefix(string(r.stderr), "decklog hook claude-code: "), ":")
		return r, fmt.Sprintf("exit %d, printed %d, %s", r.code, len(frames), code)
	}},
	{"delete", func(m *machine, h *history) (ran, string) {
		for id, a := range h.sends {
			if strings.Contains(a.body, "take it back") {
				r := m.run("", "--json", "delete", "--as", "worker-ada", string(id.Message()))
				h.deletes[id.Message()] = r.code == 0
				return r, fmt.Sprint("exit ", r.code, " ", r.answer().Error.Code)
			}
		}
		return ran{code: -1}, "nothing to delete"
	}},
	{"rebuild", func(m *machine, h *history) (ran, string) {
		r := m.run("", "--json", "rebuild")
		return r, fmt.Sprint("exit ", r.code, " ", r.answer().Error.Code)
	}},
	// The ledger was made with the other journal, and is changed to this one first.
	{"convert", func(m *machine, h *history) (ran, string) { return h.sendOn(m) }},
}

// sendOn sends, and notes what was answered.
func (h *history) sendOn(m *machine) (ran, string) {
	id := commandID(crandom{})
	asked := h.try(id, "ada asks "+string(id))
	r := m.run("", "--json", "send", "--as", "worker-ada", "--to", hub, "--command", string(id), "--", asked.body)
	a := r.answer()
	if r.code == 0 {
		asked.position = a.Receipt.Position
	} else {
		asked.refused = a.Error.Code != "unknown_outcome"
	}
	return r, fmt.Sprint("exit ", r.code, " ", a.Error.Code)
}

// Each task is let fail at each step of its disk in turn. What it then says must
// be true of the disk as the machine sees it, and of what a power cut leaves.
func TestADiskThatFailsAtAnyStepIsNeverReportedAsNo(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			other := journals[0]
			if other == journal {
				other = journals[1]
			}
			begins := map[string]*history{}
			images := map[string]map[string][]byte{}
			for _, j := range journals {
				t.Setenv(faults.JournalVar, j)
				begins[j] = newHistory()
				images[j] = begins[j].begin(t)
			}
			t.Setenv(faults.JournalVar, journal)
			for _, way := range ways {
				if only := os.Getenv("DECKLOG_FAULTS_WAY"); only != "" && only != way.name {
					continue
				}
				for _, task := range tasks {
					from := journal
					if task.name == "convert" {
						from = other
					}
					outcomes, failed := map[string]int{}, 0
					stride := often(1, 9) // in `make test` each ninth step
					for nth := 1 + rand.IntN(min(stride, 2)); ; nth += stride {
						d := newDisk(images[from])
						way.fail(d, nth)
						h := begins[from].clone()
						when := fmt.Sprintf("%s: %s, %s at %d", journal, task.name, way.name, nth)
						outcome := h.onDisk(t, d, task.do, when)
						if d.did.failed+d.did.refused == 0 {
							break
						}
						failed++
						outcomes[outcome]++
					}
					t.Logf("%-6s %-8s %-26s %3d times: %v", journal, task.name, way.name, failed, outcomes)
					if failed == 0 {
						t.Errorf("%s, %s: nothing failed, and nothing was tested", task.name, way.name)
					}
				}
			}
		})
	}
}

// onDisk does one task on a disk, and judges both of the worlds that follow.
func (h *history) onDisk(t *testing.T, d *disk, task func(*machine, *history) (ran, string), when string) (outcome string) {
	t.Helper()
	folder, eject := d.mount(t)
	m := newMachineAt(t, filepath.Join(folder, "ledger.db"))
	m.at(begun.Add(time.Minute))
	r, outcome := task(m, h)
	if r.code != 0 && (r.code != 1 || r.answer().Error.Code == "") {
		t.Fatalf("%s: %s", when, r)
	}
	seen := d.asSeen()
	left := d.cut(rand.IntN(2) == 0)
	eject()
	for what, files := range map[string]map[string][]byte{"as the machine sees it": seen, "after a power cut": left} {
		what = fmt.Sprintf("%s, %s, %s", when, outcome, what)
		mine := h.clone()
		ledger := filepath.Join(pour(t, files), "ledger.db")
		mine.holds(t, ledger, what)
		mine.settle(t, ledger, begun.Add(2*time.Minute))
		// And what waited arrives, if it is not confirmed.
		next := newMachineAt(t, ledger)
		next.at(begun.Add(3 * time.Minute))
		mine.printed = append(mine.printed, framesIn(next.hook(hub).stdout)...)
		mine.holds(t, ledger, what+", and at the next hook run")
		if len(mine.printed) == 0 {
			t.Fatalf("%s: nothing came", what)
		}
	}
	return outcome
}

// The kernel's own disk, and system calls that fail on the way to it.
func TestASystemCallThatFailsIsNeverReportedAsNo(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			t.Setenv(faults.JournalVar, journal)
			start := newHistory()
			image := start.begin(t)
			injected, outcomes := 0, map[string]int{}
			for _, when := range []string{"1", "2", "3", "4", "1+", "2+", "3+", "4+"}[:often(8, 3)] {
				for _, call := range []string{"fdatasync:error=EIO", "fsync:error=EIO", "pwrite64:error=EIO"} {
					h := start.clone()
					ledger := filepath.Join(pour(t, image), "ledger.db")
					m := newMachineAt(t, ledger)
					m.at(begun.Add(time.Minute))
					log := filepath.Join(m.dir, "strace")
					traced := *m
					traced.program = strace
					traced.before = []string{"-f", "-o", log, "-e", "trace=fsync,fdatasync,pwrite64", "-e", "inject=" + call + ":when=" + when, m.program}
					r, outcome := h.sendOn(&traced)
					if r.code != 0 && (r.code != 1 || r.answer().Error.Code == "") {
						t.Fatalf("%s when %s: %s", call, when, r)
					}
					text, err := os.ReadFile(log)
					if err != nil || len(text) == 0 {
						t.Skipf("needs strace, and it cannot trace here: %v %s", err, r)
					}
					if n := bytes.Count(text, []byte("(INJECTED)")); n > 0 {
						injected += n
						outcomes[outcome]++
					}
					what := fmt.Sprintf("%s when %s, %s", call, when, outcome)
					h.holds(t, ledger, what)
					h.settle(t, ledger, begun.Add(2*time.Minute))
				}
			}
			t.Logf("%s: %d system calls failed: %v", journal, injected, outcomes)
			if injected == 0 {
				t.Error("no call failed: nothing was tested")
			}
		})
	}
}

// clone is the same history, for one of two worlds.
func (h *history) clone() *history {
	c := history{map[events.CommandID]*asked{}, maps.Clone(h.leases), maps.Clone(h.confirms), maps.Clone(h.deletes), slices.Clone(h.printed)}
	for id, a := range h.sends {
		its := *a
		c.sends[id] = &its
	}
	return &c
}

// One process goes on after a sync failed. From then on its ledger answers
// nothing but that the outcome is unknown, whatever the disk says.
func TestAfterASyncThatFailedTheLedgerAnswersNothingMore(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			t.Setenv(faults.JournalVar, journal)
			rounds, failed := often(20, 2), 0
			settled, passedOver := 0, 0
			for round := range rounds {
				d := newDisk(nil)
				once, at := round%2 == 0, 20+rand.IntN(60)
				d.failing = func(_ string, nth int) bool { return nth == at || !once && nth > at }
				folder, eject := d.mount(t)
				h := newHistory()
				w := hire(t, filepath.Join(folder, "ledger.db"), "ada", begun)
				for more, lines := true, 0; more && lines < 1000; lines++ {
					_, more = w.hear(h)
				}
				w.kill(h)
				seen, left := d.asSeen(), d.cut(true)
				eject()
				failed += d.did.failed
				var said []string
				for _, f := range w.fails {
					said = append(said, strings.Join(f[:min(3, len(f))], " "))
				}
				want := []string{"again unknown_outcome", "look unknown_outcome"}
				if len(said) == 0 && once {
					passedOver++ // it was the sync of a checkpoint, which is done again
				} else if len(said) != 3 || !strings.HasSuffix(said[0], " unknown_outcome") || !slices.Equal(said[1:], want) {
					t.Fatalf("round %d, sync %d failed (once: %v): it said %q", round, at, once, said)
				}
				for what, files := range map[string]map[string][]byte{"as the machine sees it": seen, "after a power cut": left} {
					mine := h.clone()
					ledger := filepath.Join(pour(t, files), "ledger.db")
					mine.holds(t, ledger, fmt.Sprintf("round %d, %s", round, what))
					settled += mine.settle(t, ledger, begun.Add(time.Minute))
				}
			}
			t.Logf("%s: %d rounds, %d syncs failed, of which %d were of checkpoints and done again; %d sends settled by asking again",
				journal, rounds, failed, passedOver, settled)
			if failed == passedOver {
				t.Error("no sync failed: nothing was tested")
			}
		})
	}
}

// room is a disk that fills up, and is given space again.
type room struct {
	ledger string
	fill   func()
	free   func()
	done   func() (refused int)
}

// rooms are a disk of ours and one of the kernel's.
var rooms = map[string]func(t *testing.T) room{
	"FUSE": func(t *testing.T) room {
		d := newDisk(nil)
		folder, eject := d.mount(t)
		bound := func(room int64) {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, f := range d.seen {
				room += int64(len(f.now))
			}
			d.room = room
		}
		return room{
			ledger: filepath.Join(folder, "ledger.db"),
			fill:   func() { bound(int64(rand.IntN(100_000))) },
			free:   func() { bound(64 << 20) },
			done: func() int {
				files := d.asSeen()
				eject()
				must(t, os.CopyFS(folder, os.DirFS(pour(t, files))))
				return d.did.refused
			},
		}
	},
	"tmpfs": func(t *testing.T) room {
		folder := t.TempDir()
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=32m"); err != nil {
			t.Skipf("needs tmpfs: mount: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
		filler := filepath.Join(folder, "filler")
		return room{
			ledger: filepath.Join(folder, "ledger.db"),
			fill: func() {
				f, err := os.Create(filler)
				must(t, err)
				defer f.Close()
				for chunk := make([]byte, 64<<10); ; {
					if _, err := f.Write(chunk); err != nil {
						break
					}
				}
				info, err := f.Stat()
				must(t, err)
				must(t, f.Truncate(max(0, info.Size()-int64(rand.IntN(100_000)))))
			},
			free: func() { must(t, os.Remove(filler)) },
			done: func() int { return -1 },
		}
	},
}

func TestAFullDiskRefusesAndTheLedgerGoesOnOnceThereIsRoom(t *testing.T) {
	for _, journal := range journals {
		for name, open := range rooms {
			t.Run(journal+"/"+name, func(t *testing.T) {
				t.Setenv(faults.JournalVar, journal)
				r := open(t)
				h := newHistory()
				w := hire(t, r.ledger, "ada", begun)
				outcomes := map[string]int{}
				for round := range often(20, 2) {
					for range 20 + rand.IntN(20) {
						if line, more := w.hear(h); !more || strings.HasPrefix(line, "failed") {
							t.Fatalf("with room: %q %v", line, w.fails)
						}
					}
					r.fill()
					for more, line := true, ""; !strings.HasPrefix(line, "look "); {
						if line, more = w.hear(h); !more {
							t.Fatalf("it ended by itself: %v", w.fails)
						}
					}
					unknown := false
					for _, f := range w.fails {
						code := f[1]
						if f[0] == "failed" {
							code = f[2]
							unknown = code == "unknown_outcome"
						}
						outcomes[f[0]+" "+code]++
						if unknown && journal == "delete" {
							continue // see README.md, what is left
						}
						if f[0] == "failed" && code != "no_space" || f[0] == "look" && code != "ok" {
							t.Fatalf("with a full disk: %v", w.fails)
						}
					}
					w.fails = nil
					r.free()
					if unknown {
						w.kill(h)
						w = hire(t, r.ledger, fmt.Sprint("ada-", round), begun.Add(time.Duration(round)*time.Minute))
						continue
					}
					before := h.acknowledged()
					_, err := w.stdin.Write([]byte("go on\n"))
					must(t, err)
					for h.acknowledged() == before {
						if line, more := w.hear(h); !more || strings.HasPrefix(line, "failed") {
							t.Fatalf("with room again: %q %v", line, w.fails)
						}
					}
				}
				w.kill(h)
				refused := r.done()
				v := h.holds(t, r.ledger, "in the end")
				t.Logf("%s on %s: %d answers acknowledged, %d events, what was said with a full disk: %v", journal, name, h.acknowledged(), v.events, outcomes)
				if refused == 0 || len(outcomes) == 0 {
					t.Error("the disk was never full: nothing was tested")
				}
			})
		}
	}
}
