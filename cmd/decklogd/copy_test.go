package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/enginecheck"
	"decklog/internal/esdbdouble"
	"decklog/internal/sqlite"
	"decklog/internal/transfer"
	"decklog/projections"
)

// cluster is a double for the programs.
func cluster(t testing.TB) *esdbdouble.Server {
	t.Helper()
	s, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// fill puts events with and without a text into the machine's ledger.
func (m *machine) fill(n int) {
	m.Helper()
	m.join(ada)
	l := m.opened(m.file())
	defer l.Close()
	if err := l.Update(func(tx events.Tx) error {
		for i := range n {
			stream := events.Stream(fmt.Sprint("thread-", i%9))
			head, err := tx.Head(stream)
			if err != nil {
				return err
			}
			p := events.Proposed{
				Stream: stream, ID: events.KeyedCommand("fill", fmt.Sprint(i)).Event(0), Actor: ada, Cause: events.Cause{Command: "c"},
				Event: events.ThreadDone{Thread: "t", Message: "m", By: ada},
			}
			if i%3 == 0 {
				p.Body = &events.Body{Salt: events.Salt{byte(i)}, Text: fmt.Append(nil, "text ", i)}
				p.Event = events.MessageEdited{Thread: "t", Message: "m", Body: p.Body.Commit()}
			}
			if _, err := tx.Append(events.Batch{Stream: stream, Expected: head, Time: events.Time(i), Policy: 1, Events: []events.Proposed{p}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) file() string { return strings.TrimPrefix(m.url, "sqlite:") }

func (m *machine) opened(file string) *sqlite.Ledger {
	m.Helper()
	l, err := sqlite.Open(file, projections.Project)
	if err != nil {
		m.Fatal(err)
	}
	return l
}

// recorded is all that a ledger in a file has recorded.
func (m *machine) recorded(file string) (all []events.Recorded, bodies []string) {
	m.Helper()
	l := m.opened(file)
	defer l.Close()
	if err := l.View(func(r events.Reader) (err error) {
		if all, err = r.All(1, 1_000_000); err != nil {
			return err
		}
		for _, e := range all {
			body, there, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			bodies = append(bodies, fmt.Sprintf("%v %x %q", there, body.Salt, body.Text))
		}
		return nil
	}); err != nil {
		m.Fatal(err)
	}
	return all, bodies
}

// alike finds that two ledgers in files have recorded the same.
func (m *machine) alike(one, two string) {
	m.Helper()
	e, b := m.recorded(one)
	f, c := m.recorded(two)
	if !reflect.DeepEqual(e, f) || !reflect.DeepEqual(b, c) {
		m.Fatalf("%s has %d events, %s has %d, and they are not the same", one, len(e), two, len(f))
	}
}

// copies runs a copy that must end well.
func (m *machine) copies(from, to string) (r transfer.Report) {
	m.Helper()
	m.read(m.done("", "decklog", "copy", "--json", from, to), &r)
	if !r.OK {
		m.Fatalf("copied %+v", r)
	}
	return r
}

// kills starts a copy, and does what ends it; it says whether it came to its end.
func (m *machine) kills(from, to string, when func(*os.Process)) (done bool) {
	m.Helper()
	cmd := m.command("decklog", "copy", from, to)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	when(cmd.Process)
	err := cmd.Wait()
	if err == nil {
		return true
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		m.Fatalf("copy ended with %v\n%s", err, &said)
	}
	return false
}

// killRounds is how often a process is killed in a test that all run.
func killRounds() int {
	if testing.Short() {
		return 2
	}
	return 12
}

func TestACopyIntoAClusterThatIsKilledAtAnyMomentGoesOn(t *testing.T) {
	m, server := aboard(t), cluster(t)
	m.fill(600)
	killed := 0
	for round := range killRounds() {
		point := []esdbdouble.Point{esdbdouble.Begin, esdbdouble.Message, esdbdouble.Commit, esdbdouble.Answer}[rand.N(4)]
		strike := make(chan *os.Process, 1)
		fault := server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: point, Skip: rand.N(120), Effect: esdbdouble.Do(func() {
			_ = (<-strike).Kill()
		})})
		if !m.kills(m.url, server.URL(), func(p *os.Process) { strike <- p }) {
			killed++
		}
		fault.Lift()
		if round == 0 {
			// Whatever was had of the cluster, the copy does not depend on it.
			if err := os.RemoveAll(filepath.Join(m.dir, ".local")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed == 0 {
		t.Error("no copy was killed")
	}
	m.copies(m.url, server.URL())
	back := filepath.Join(m.dir, "back.db")
	m.copies(server.URL(), "sqlite:"+back)
	m.alike(m.file(), back)
	m.done("", "decklog", "verify", "--ledger", "sqlite:"+back)
}

func TestACopyIntoAFileThatIsKilledAtAnyMomentGoesOn(t *testing.T) {
	m := aboard(t)
	const all = 3000 // at least
	m.fill(all)
	file := filepath.Join(m.dir, "to.db")
	to := m.opened(file)
	defer to.Close()
	killed := 0
	for range killRounds() {
		var end events.Position
		if err := to.View(func(r events.Reader) (err error) { end, err = r.End(); return err }); err != nil {
			t.Fatal(err)
		}
		if end >= all {
			break
		}
		if !m.kills(m.url, "sqlite:"+file, func(p *os.Process) {
			if err := to.Wait(t.Context(), min(end+events.Position(rand.N(300)), all-1)); err != nil {
				t.Error(err)
			}
			_ = p.Kill()
		}) {
			killed++
		}
	}
	if killed == 0 {
		t.Error("no copy was killed")
	}
	m.copies(m.url, "sqlite:"+file)
	m.alike(m.file(), file)
	m.done("", "decklog", "verify", "--ledger", "sqlite:"+file)
}

// Ctrl-C says how far it came, and what is left behind is what the next goes on with.
func TestACopyThatIsInterruptedSaysSo(t *testing.T) {
	m, server := aboard(t), cluster(t)
	m.fill(600)
	strike := make(chan *os.Process, 1)
	server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Skip: 300, Effect: esdbdouble.Do(func() {
		_ = (<-strike).Signal(os.Interrupt)
	})})
	cmd := m.command("decklog", "copy", "--json", m.url, server.URL())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	strike <- cmd.Process
	_ = cmd.Wait()
	var v struct {
		Error struct{ Code, Message, Fix string }
	}
	m.read(out.String(), &v)
	if cmd.ProcessState.ExitCode() != 1 || v.Error.Code != "interrupted" || !strings.Contains(v.Error.Fix, "run the same copy again") {
		t.Errorf("it ended with %v: %s%s", cmd.ProcessState, &out, &said)
	}
	if r := m.copies(m.url, server.URL()); r.Before == 0 || r.Copied == 0 {
		t.Errorf("then it copied %+v", r)
	}
}

// A bell beside the file may be of another ledger that lay there, and silent: nobody's
// mail waits behind it.
func TestACopyLeavesNoBellSilent(t *testing.T) {
	m := aboard(t)
	m.join(ada)
	bells := bell.Beside(m.dir)
	if err := os.Mkdir(filepath.Join(m.dir, "bells"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := bells.Silence(ada, nil); err != nil || bells.Rings(ada, time.Now()) {
		t.Fatalf("it rings: %v", err)
	}
	m.copies(m.url, "sqlite:"+filepath.Join(m.dir, "to.db"))
	if !bells.Rings(ada, time.Now()) {
		t.Error("the bell is silent")
	}
}

// Both ends of a copy may be served meanwhile: the file that is read, and on this
// machine the cluster that is filled, whose views serve keeps.
func TestBothEndsOfACopyMayBeServed(t *testing.T) {
	m, server := aboard(t), cluster(t)
	m.fill(50)
	m.served()
	there := m.with()
	there.url = server.URL()
	_, _, socket := there.served()
	m.copies(m.url, server.URL())
	there.url = socket
	there.done("", "decklog", "verify")
	var peers struct{ Peers []struct{ Session string } }
	m.read(there.done("", "decklog", "peers", "--json"), &peers)
	if len(peers.Peers) != 1 || peers.Peers[0].Session != ada {
		t.Errorf("in the copy take part %+v", peers)
	}
}

// What is made to check a server is taken away, also when it is broken off.
func TestACheckThatIsInterruptedTakesAwayWhatItMade(t *testing.T) {
	m, server := aboard(t), cluster(t)
	temporary := t.TempDir()
	m = m.with("TMPDIR=" + temporary)
	strike := make(chan *os.Process, 1)
	// Among the ledgers' appends: the server's own promises are some 400.
	struck := server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Skip: 500, Effect: esdbdouble.Do(func() {
		_ = (<-strike).Signal(os.Interrupt)
	})})
	cmd := m.command("decklog", "engine-check", "--json", server.URL())
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	strike <- cmd.Process
	_ = cmd.Wait()
	var r enginecheck.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("it said %q: %v", &out, err)
	}
	if struck.Times() != 1 || cmd.ProcessState.ExitCode() != 1 || r.OK || r.Count(enginecheck.NotRun) == 0 || r.Left.Streams == 0 || r.Left.Fault != "" {
		t.Errorf("%v: %+v", cmd.ProcessState, r)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A server that does not keep a promise is told of, and the exit code is 1.
func TestACheckOfAServerThatBreaksAPromiseFails(t *testing.T) {
	m := aboard(t)
	server, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{AppendBytesMax: 700_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	cmd := m.command("decklog", "engine-check", server.URL())
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "\n  failed   an append of 1 MiB is taken, as decklog counts it\n           append one event of 1048576 bytes: ") ||
		!strings.Contains(string(out), "\nengine-check: of ") {
		t.Errorf("%v:\n%s", err, out)
	}
}
