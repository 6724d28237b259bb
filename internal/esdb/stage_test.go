package esdb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/ledgertest"
)

// A call that took the client just before it was found to be without a server has
// it look anew, and forget a connection. It is the client's, and cannot be reached.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"),
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*addrConn).resetTransportAndUnlock"))
}

// roleVar makes the test binary one of the processes of a test, that are in roles.
const roleVar = "DECKLOG_TEST_ROLE"

func process(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector waits a second at the end of each process, unless told not to.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// cluster is a double with the ledgers of the machines on it.
type cluster struct {
	*esdbdouble.Server
	log *esdbdouble.Log
	t   testing.TB
}

func start(t testing.TB, c esdbdouble.Config) cluster {
	t.Helper()
	log := esdbdouble.NewLog()
	s, err := esdbdouble.Start(log, c)
	must(t, err)
	t.Cleanup(s.Stop)
	return cluster{s, log, t}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// address is that of the cluster, for a machine whose views lie in a folder.
func (c cluster) address(folder string) Address {
	c.t.Helper()
	a, err := Parse(c.URL() + "&views=" + filepath.Join(folder, "views.db"))
	must(c.t, err)
	return a
}

// open opens the ledger of a machine.
func (c cluster) open(folder string, project events.Projector, more ...Option) *Ledger {
	c.t.Helper()
	l, err := Open(c.address(folder), project, more...)
	must(c.t, err)
	c.t.Cleanup(func() { l.Close() })
	return l
}

func TestTheLedgerKeepsTheContract(t *testing.T) {
	ledgertest.Contract(t, func(t *testing.T, p events.Projector) events.Ledger {
		return start(t, esdbdouble.Config{}).open(t.TempDir(), p)
	})
}

// count is a fold that sees whether each event came once and in its order.
func count(rows events.Rows, recorded []events.Recorded) error {
	for _, r := range recorded {
		key := "count/" + string(r.Stream)
		old, err := rows.Get(key)
		if err != nil {
			return err
		}
		if want := fmt.Sprint(int64(r.Revision)); string(old) != want && !(old == nil && r.Revision == 0) {
			return fmt.Errorf("revision %d of %s is folded after %q", r.Revision, r.Stream, old)
		}
		if err := rows.Put(key, fmt.Append(nil, int64(r.Revision)+1)); err != nil {
			return err
		}
		if err := rows.Put(fmt.Sprintf("event/%08d", r.Position), []byte(r.ID)); err != nil {
			return err
		}
	}
	return nil
}

// note is an event without a body.
func note(stream events.Stream, id string) events.Proposed {
	return events.Proposed{
		Stream: stream, ID: events.EventID(id), Actor: events.Participant("@of " + id), Cause: events.Cause{Command: events.CommandID("command of " + id)},
		Event: events.ThreadDone{Thread: "t", Message: events.MessageID(id), By: "@smith"},
	}
}

// once appends at the stream's end, unless the id is recorded: as a command does.
func once(l events.Ledger, all ...events.Proposed) error {
	return l.Update(func(tx events.Tx) error { return onceIn(tx, all...) })
}

func onceIn(tx events.Tx, all ...events.Proposed) error {
	for _, p := range all {
		_, there, err := tx.Event(p.ID)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		head, err := tx.Head(p.Stream)
		if err != nil {
			return err
		}
		if _, err := tx.Append(events.Batch{Stream: p.Stream, Expected: head, Time: 1_000, Events: []events.Proposed{p}}); err != nil {
			return err
		}
	}
	return nil
}

// all is what a machine has.
type all struct {
	Events []events.Recorded
	Bodies []string
	Rows   []string
}

func everything(t testing.TB, l events.Ledger) (e all) {
	t.Helper()
	must(t, l.View(func(r events.Reader) (err error) {
		if e.Events, err = r.All(1, 100_000); err != nil {
			return err
		}
		for _, ev := range e.Events {
			if b, there, err := r.Body(ev.ID); err != nil {
				return err
			} else if there {
				e.Bodies = append(e.Bodies, fmt.Sprintf("%s %q %x", ev.ID, b.Text, b.Salt))
			}
		}
		return r.Rows().Scan("", "", false, func(key string, value []byte) bool {
			e.Rows = append(e.Rows, key+"="+string(value))
			return true
		})
	}))
	return e
}

// reaches waits until a machine has as many events.
func reaches(t testing.TB, l *Ledger, end events.Position) {
	t.Helper()
	for {
		err := l.Wait(t.Context(), end-1)
		if errors.Is(err, t.Context().Err()) || err == nil {
			must(t, err)
			return
		}
		must(t, err)
	}
}
