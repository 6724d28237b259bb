//go:build faults && linux

package faults_test

import (
	"bufio"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// hub is the session that all workers send to, and whose mailbox all lease.
const hub = "hub-session"

// work PATH NAME SEED BEGIN: opens the ledger, and sends, leases, prints,
// confirms, deletes and rebuilds until it is killed or its disk is. It says on
// standard output what it is about to ask, and what it was answered once it was:
//
//	try send COMMAND BODY        ack send COMMAND POSITION MESSAGE
//	try lease                    ack lease LEASE
//	print MESSAGE ATTEMPT
//	try confirm LEASE            ack confirm LEASE
//	try delete MESSAGE           ack delete MESSAGE
//	no WHAT CODE                 it was refused, which is an answer too
//	failed WHAT CODE TEXT        nobody was refused: the machine failed
//
// After a failure it says how the same ledger answers from then on, `again CODE`
// and `look CODE`. Where there was no space it waits for a line on standard
// input, and goes on; after any other failure it ends.
func work(args []string) error {
	path, name := args[0], args[1]
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	begin, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	w := &worker{name: name, random: rand.New(rand.NewPCG(seed, 1)), stdin: bufio.NewReader(os.Stdin)}
	started := time.Now()
	l, err := sqlite.Open(path, projections.Project)
	if err != nil {
		w.say("failed open %s %v", failure.Of(err).Code, err)
		return nil
	}
	w.ops = opsOn(l, filepath.Dir(path), func() events.Time { return events.Time(begin).Add(time.Since(started)) })
	for _, session := range []string{hub, w.me()} {
		if _, r, err := w.ops.Join(ops.JoinRequest{Session: session, Harness: "by-hand", Cwd: "/"}); r != nil || err != nil {
			if w.failed("join", r, err) {
				return nil
			}
		}
	}
	for w.step() {
	}
	return l.Close()
}

// opsOn are the operations on a ledger in a world without a harness, under a
// policy that holds nobody up.
func opsOn(l *sqlite.Ledger, folder string, now func() events.Time) *ops.Ops {
	policy := events.DefaultPolicy()
	policy.Limits.SessionRate, policy.Limits.DeviceRate, policy.Limits.PersonRate = 0, 0, 0
	policy.Limits.ThreadRate, policy.Limits.RecipientFull = 0, 0
	return &ops.Ops{Ledger: l, World: ops.World{
		Now: now, Bells: bell.Beside(folder),
		Random: func(b []byte) { _, _ = crand.Read(b) },
		Alive:  func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
		Device: "deck", OSUser: "ana",
		Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return policy, nil },
	}}
}

type worker struct {
	name   string
	random *rand.Rand
	ops    *ops.Ops
	stdin  *bufio.Reader
	mine   []events.MessageID // that may still be deleted
}

func (w *worker) me() string { return "worker-" + w.name }

// say writes a line at once, so that a kill right after loses none of it.
func (w *worker) say(format string, args ...any) {
	os.Stdout.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n")
}

// failed tells of a command that was refused or failed, and whether it is time to end.
func (w *worker) failed(what string, r *commands.Refusal, err error) (end bool) {
	if err == nil {
		w.say("no %s %s", what, r.Code)
		return false
	}
	f := failure.Of(err)
	w.say("failed %s %s %s", what, f.Code, f.Message)
	code := func(err error) string {
		if err == nil {
			return "ok"
		}
		return failure.Of(err).Code
	}
	_, _, again := w.ops.Join(ops.JoinRequest{Session: w.me(), Harness: "by-hand", Cwd: "/"})
	w.say("again %s", code(again))
	_, _, look := w.ops.Peers(ops.PeersRequest{})
	w.say("look %s", code(look))
	if !errors.Is(err, events.ErrNoSpace) {
		return true
	}
	_, err = w.stdin.ReadString('\n')
	return err != nil
}

// step does one thing; false when it is time to end.
func (w *worker) step() bool {
	switch n := w.random.IntN(20); {
	case n < 13:
		return w.send()
	case n < 18:
		return w.deliver()
	case n < 19:
		return w.delete()
	default:
		w.say("try rebuild")
		if _, err := w.ops.Rebuild(); err != nil {
			return !w.failed("rebuild", nil, err)
		}
		w.say("ack rebuild")
		return true
	}
}

func (w *worker) send() bool {
	id := w.ops.NewCommand()
	body := fmt.Sprintf("%s says %s%s", w.name, id, strings.Repeat(".", w.random.IntN(2000)))
	w.say("try send %s %s", id, body)
	receipt, r, err := w.ops.Send(ops.SendRequest{Asker: ops.Asker{As: w.me(), Command: id}, To: hub, Body: []byte(body)})
	if r != nil || err != nil {
		return !w.failed("send/"+string(id), r, err)
	}
	w.say("ack send %s %d %s", id, receipt.Position, receipt.ID)
	w.mine = append(w.mine, receipt.ID)
	return true
}

func (w *worker) deliver() bool {
	w.say("try lease")
	offered, r, err := w.ops.Lease(ops.LeaseRequest{Asker: ops.Asker{As: hub}})
	if r != nil || err != nil {
		return !w.failed("lease", r, err)
	}
	if offered.ID == "" {
		w.say("no lease nothing")
		if err := w.ops.Silence(hub); err != nil {
			return !w.failed("silence", nil, err)
		}
		return true
	}
	if len(offered.Messages) > 0 {
		w.say("ack lease %s", offered.ID)
	}
	for _, m := range offered.Messages {
		w.say("print %s %d", m.ID, m.Attempt)
	}
	w.say("try confirm %s", offered.ID)
	if _, r, err := w.ops.Confirm(ops.Asker{As: hub}, offered.ID); r != nil || err != nil {
		return !w.failed("confirm", r, err)
	}
	if len(offered.Messages) > 0 {
		w.say("ack confirm %s", offered.ID)
	}
	return true
}

func (w *worker) delete() bool {
	if len(w.mine) == 0 {
		return true
	}
	m := w.mine[0]
	w.mine = w.mine[1:]
	w.say("try delete %s", m)
	if _, r, err := w.ops.Delete(ops.DeleteRequest{Asker: ops.Asker{As: w.me()}, Message: string(m)}); r != nil || err != nil {
		return !w.failed("delete", r, err)
	}
	w.say("ack delete %s", m)
	return true
}

// hired is a worker as its test sees it.
type hired struct {
	testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	fails [][]string // what it said of failures, in words
}

func hire(t testing.TB, ledger, name string, begin time.Time) *hired {
	t.Helper()
	w := &hired{TB: t, cmd: exec.Command(os.Args[0], ledger, name, strconv.Itoa(rand.Int()), strconv.FormatInt(int64(events.At(begin)), 10))}
	w.cmd.Env = append(os.Environ(), roleVar+"=work", "GORACE=atexit_sleep_ms=0")
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	w.stdin, err = w.cmd.StdinPipe()
	must(t, err)
	must(t, w.cmd.Start())
	w.lines = bufio.NewScanner(out)
	w.lines.Buffer(nil, 1<<20)
	return w
}

// hear takes in one line; false when the worker has ended.
func (w *hired) hear(h *history) (line string, more bool) {
	if !w.lines.Scan() {
		return "", false
	}
	line = w.lines.Text()
	words := strings.SplitN(line, " ", 4)
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "try send":
		h.try(events.CommandID(words[2]), words[3])
	case "ack send":
		position, _, _ := strings.Cut(words[3], " ")
		n, err := strconv.Atoi(position)
		must(w, err)
		h.sends[events.CommandID(words[2])].position = events.Position(n)
	case "ack lease":
		h.leases[events.LeaseID(words[2])] = true
	case "ack confirm":
		h.confirms[events.LeaseID(words[2])] = true
	case "try delete":
		h.deletes[events.MessageID(words[2])] = false
	case "ack delete":
		h.deletes[events.MessageID(words[2])] = true
	default:
		switch words[0] {
		case "print":
			n, err := strconv.Atoi(words[2])
			must(w, err)
			h.printed = append(h.printed, shown{events.MessageID(words[1]), n})
		case "failed", "again", "look":
			w.fails = append(w.fails, words)
			if id, is := strings.CutPrefix(words[1], "send/"); is && words[0] == "failed" && words[2] != "unknown_outcome" {
				h.sends[events.CommandID(id)].refused = words[2] == "no_space" || words[2] == "ledger_locked" || words[2] == "ledger_read_only"
			}
		}
	}
	return line, true
}

// rest takes in what is left until the worker has ended.
func (w *hired) rest(h *history) {
	for more := true; more; {
		_, more = w.hear(h)
	}
	_ = w.cmd.Wait()
}

// kill ends the worker as kill -9 does, and takes in what it had said.
func (w *hired) kill(h *history) {
	_ = w.cmd.Process.Kill()
	w.rest(h)
}
