package enginecheck

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/esdb"
	"decklog/internal/esdbdouble"
	"decklog/internal/memory"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func silently(int, int, Check) {}

// double is a server with the probe that asks it.
func double(t *testing.T, c esdbdouble.Config) (*esdbdouble.Server, Engine) {
	t.Helper()
	server, err := esdbdouble.Start(esdbdouble.NewLog(), c)
	must(t, err)
	t.Cleanup(server.Stop)
	address, err := esdb.Parse(server.URL())
	must(t, err)
	probe, err := esdb.NewProbe(t.Context(), address)
	must(t, err)
	t.Cleanup(probe.Close)
	e := Engine{
		Server: probe.Server, Prefix: probe.Prefix, Clean: probe.Clean,
		Open: func(name string, project events.Projector) (events.Ledger, error) {
			return esdb.Open(probe.Ledger(name, filepath.Join(t.TempDir(), "views.db")), project)
		},
	}
	for _, p := range probe.Promises() {
		e.Promises = append(e.Promises, Promise(p))
	}
	return server, e
}

func TestAServerThatKeepsEverythingPasses(t *testing.T) {
	_, e := double(t, esdbdouble.Config{})
	var told []Check
	r := Run(t.Context(), e, func(done, all int, c Check) {
		if told = append(told, c); done != len(told) || all < 40 {
			t.Errorf("told of %d of %d", done, all)
		}
	})
	if !r.OK || r.Left.Streams < 50 || r.Left.Fault != "" || len(told) != len(r.Checks) {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checks {
		if c.Result != OK {
			t.Errorf("%+v", c)
		}
	}
	if text := r.Text(); !strings.Contains(text, "\nengine-check: ok, ") || !strings.Contains(text, "  ok       positions have no gaps, whatever failed between them\n") {
		t.Errorf("it says\n%s", text)
	}
}

// inMemory asks a ledger in memory, changed as a test wants it.
func inMemory(change func(events.Ledger) events.Ledger) Engine {
	return Engine{
		Open:  func(_ string, p events.Projector) (events.Ledger, error) { return change(memory.New(p)), nil },
		Clean: func(context.Context) (int, error) { return 0, nil },
	}
}

// forgetful says of a conflict that all went well.
type forgetful struct{ events.Ledger }

func (f forgetful) Update(fn func(events.Tx) error) error {
	if err := f.Ledger.Update(fn); err != nil && !errors.Is(err, events.ErrConflict) {
		return err
	}
	return nil
}

// breaking panics when it is closed.
type breaking struct{ events.Ledger }

func (breaking) Close() error { panic("broken") }

func TestALedgerThatBreaksAPromiseFailsThatOne(t *testing.T) {
	r := Run(t.Context(), inMemory(func(l events.Ledger) events.Ledger { return forgetful{l} }), silently)
	found := map[string]Check{}
	for _, c := range r.Checks {
		found[c.Promise] = c
	}
	if c := found["an append at another revision than the head is a conflict and appends nothing"]; c.Result != Failed || !strings.Contains(c.Why, "append to a at -1 gave <nil>") {
		t.Errorf("%+v", c)
	}
	if c := found["rows hold any bytes"]; c.Result != OK {
		t.Errorf("%+v", c)
	}
	if r.OK || !strings.Contains(r.Text(), "engine-check: of ") {
		t.Errorf("it passed:\n%s", r.Text())
	}
}

func TestWhatPanicsOrNeverEndsFailsAndTheRestIsTried(t *testing.T) {
	r := run(t.Context(), inMemory(func(l events.Ledger) events.Ledger { return breaking{l} }), silently, time.Minute)
	if n := r.Count(Failed); n != len(r.Checks) || !strings.Contains(r.Checks[0].Why, "panicked: broken") {
		t.Errorf("%d of %d failed: %+v", n, len(r.Checks), r.Checks[0])
	}

	// A promise that waits for what never comes is left behind.
	e := inMemory(func(l events.Ledger) events.Ledger { return l })
	hung := make(chan struct{})
	e.Promises = []Promise{{"it ends", func(context.Context) (string, error) { <-hung; return "", nil }}, {"it holds", func(context.Context) (string, error) { return "by the way", nil }}}
	patience, end := closeMax, 10*time.Millisecond
	closeMax = end
	defer func() { closeMax = patience; close(hung) }()
	r = run(t.Context(), e, silently, 100*time.Millisecond)
	if r.Checks[0].Result != Failed || !strings.Contains(r.Checks[0].Why, "not done within") || r.Checks[1].Result != OK || r.Checks[1].Why != "by the way" {
		t.Errorf("%+v", r.Checks[:2])
	}
}

// Whoever breaks it off is told what was not tried, and nothing of it is left.
func TestACheckThatIsBrokenOffIsCleanedUp(t *testing.T) {
	server, e := double(t, esdbdouble.Config{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// In the midst of a promise of the ledger.
	server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: e.Prefix + "ledger-10.", Point: esdbdouble.Commit, Effect: esdbdouble.Do(stop)})
	r := Run(ctx, e, silently)
	if r.OK || r.Count(NotRun) < 10 || r.Count(Failed) > 0 || r.Left.Fault != "" || r.Left.Streams == 0 {
		t.Errorf("%+v", r)
	}
	left, err := e.Clean(t.Context())
	must(t, err)
	if left != r.Left.Streams {
		t.Errorf("%d streams are there, and %d were taken away", left, r.Left.Streams)
	}
	if !strings.Contains(r.Text(), "  not run  closing wakes the waiters") {
		t.Errorf("it says\n%s", r.Text())
	}
}

func TestWhatCannotBeTakenAwayIsSaid(t *testing.T) {
	server, e := double(t, esdbdouble.Config{})
	server.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Stream: e.Prefix + "server.whole", Point: esdbdouble.Begin, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.AccessDenied())})
	e.Open = inMemory(func(l events.Ledger) events.Ledger { return l }).Open
	r := Run(t.Context(), e, silently)
	if r.OK || r.Count(Failed) > 0 || !strings.Contains(r.Left.Fault, "server.whole") {
		t.Errorf("%+v", r.Left)
	}
	if !strings.Contains(r.Text(), "Fix: delete the streams whose names begin with "+e.Prefix) {
		t.Errorf("it says\n%s", r.Text())
	}
}
