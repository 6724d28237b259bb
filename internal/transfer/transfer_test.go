package transfer_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/esdb"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/internal/transfer"
	"decklog/projections"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"))
}

// tester is a test, or a rapid one.
type tester interface {
	Helper()
	Fatalf(string, ...any)
	Fatal(...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file is a ledger in a file.
type file struct{ *sqlite.Ledger }

func (file) Fits(transfer.Event) error { return nil }
func (l file) Take(_ context.Context, all []transfer.Event) error {
	return l.Ledger.Take(arrived(all))
}
func (file) Tidy(context.Context) error { return nil }

// cluster is a ledger in a cluster.
type cluster struct{ *esdb.Ledger }

func (cluster) Fits(e transfer.Event) error { return esdb.Fits(sqlite.Arrived(e)) }
func (l cluster) Take(ctx context.Context, all []transfer.Event) error {
	return l.Ledger.Take(ctx, arrived(all))
}

func arrived(all []transfer.Event) (out []sqlite.Arrived) {
	for _, e := range all {
		out = append(out, sqlite.Arrived(e))
	}
	return out
}

func inFile(t tester, path string) file {
	t.Helper()
	l, err := sqlite.Open(path, projections.Project)
	must(t, err)
	return file{l}
}

func inCluster(t tester, s *esdbdouble.Server, prefix, folder string) cluster {
	t.Helper()
	a, err := esdb.Parse(s.URL() + "&prefix=" + prefix + "&views=" + filepath.Join(folder, "views.db"))
	must(t, err)
	l, err := esdb.Open(a, projections.Project, esdb.Prepare(ops.Refold))
	must(t, err)
	must(t, l.CaughtUp(context.Background(), func(events.Position) {}))
	return cluster{l}
}

func double(t *testing.T) *esdbdouble.Server {
	t.Helper()
	s, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	must(t, err)
	t.Cleanup(s.Stop)
	return s
}

// all is all that a ledger has.
type all struct {
	Events []events.Recorded
	Bodies map[events.EventID]events.Body
	Rows   map[string]string
}

func everything(t tester, l transfer.Source) (e all) {
	t.Helper()
	must(t, l.View(func(r events.Reader) (err error) {
		e = all{Bodies: map[events.EventID]events.Body{}, Rows: map[string]string{}}
		if e.Events, err = r.All(1, 100_000); err != nil {
			return err
		}
		for _, ev := range e.Events {
			body, there, err := r.Body(ev.ID)
			if err != nil {
				return err
			}
			if there {
				e.Bodies[ev.ID] = body
			}
		}
		return r.Rows().Scan("", "", false, func(key string, value []byte) bool {
			e.Rows[key] = string(value)
			return true
		})
	}))
	return e
}

// same finds that two ledgers are the same, byte for byte.
func same(t tester, a, b transfer.Source) all {
	t.Helper()
	one, other := everything(t, a), everything(t, b)
	if !reflect.DeepEqual(one, other) { // cmp takes its time with large texts
		t.Fatalf("they differ (-from +to):\n%s", cmp.Diff(one, other))
	}
	return one
}

func copied(t tester, from transfer.Source, to transfer.Target) transfer.Report {
	t.Helper()
	c := transfer.Copy{From: from, To: to, FromName: "FROM", ToName: "TO"}
	r, err := c.Run(context.Background())
	if err != nil {
		t.Fatalf("copy: %v", err)
	}
	if !r.OK || len(r.Checks) != 4 {
		t.Fatalf("copied, and found %+v", r)
	}
	return r
}

// refused finds that a copy ends with this code and leaves the target as it is.
func refused(t tester, code string, from transfer.Source, to transfer.Target) error {
	t.Helper()
	before := everything(t, to)
	c := transfer.Copy{From: from, To: to, FromName: "FROM", ToName: "TO"}
	_, err := c.Run(context.Background())
	if failure.Of(err).Code != code {
		t.Fatalf("copy gave %v, not %s", err, code)
	}
	if after := everything(t, to); !reflect.DeepEqual(before, after) {
		t.Fatalf("something was written:\n%s", cmp.Diff(before, after))
	}
	return err
}

// samples are the frozen events, of every type that there is.
func samples(t testing.TB) (all []events.Event) {
	t.Helper()
	files, err := filepath.Glob("../../events/testdata/samples/*.json")
	must(t, err)
	seen := map[events.Type]bool{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(t, err)
		kind, _, _ := strings.Cut(filepath.Base(name), ".v1")
		e, err := events.Decode(events.Type(kind), events.SchemaVersion, data[:len(data)-1])
		must(t, err)
		seen[e.EventType()] = true
		all = append(all, e)
	}
	for _, kind := range events.Types() {
		if !seen[kind] {
			t.Fatalf("there is no sample of %s", kind)
		}
	}
	return all
}

// holding is an event with a text beside it, as it is committed to.
func holding(e events.Event, text string, salt byte) (events.Event, *events.Body) {
	if _, holds := events.TextOf(e); !holds {
		return e, nil
	}
	body := events.Body{Salt: events.Salt{salt}, Text: []byte(text)}
	ref := body.Commit()
	switch of := e.(type) {
	case events.MessageSent:
		of.Body = ref
		body.Fingerprint = commands.Fingerprint(of, body.Text)
		e = of
	case events.MessageEdited:
		of.Body = ref
		e = of
	case events.PayloadAttached:
		of.Payload = ref
		e = of
	case events.HandoffOffered:
		of.Reason = ref
		e = of
	case events.HandoffDeclined:
		of.Reason = &ref
		e = of
	case events.OwedClosed:
		of.Reason = &ref
		e = of
	}
	return e, &body
}

// writer fills a ledger with whatever there can be.
type writer struct {
	events.Ledger
	samples []events.Event
	n       int
	held    []events.EventID // events with a body that is there
}

// write appends one batch that is drawn.
func (w *writer) write(t *rapid.T) {
	stream := events.Stream(rapid.SampledFrom([]string{"thread-1", "thread-2", "mailbox-@smith", "session-ä ö/\"", "policy", "device-x"}).Draw(t, "stream"))
	b := events.Batch{
		Stream: stream, Time: events.Time(rapid.Int64Range(-62_167_219_200_000_000, 253_402_300_799_999_999).Draw(t, "time")),
		Policy: events.Position(rapid.IntRange(0, 9).Draw(t, "policy")),
	}
	for range rapid.IntRange(1, 3).Draw(t, "events") {
		w.n++
		p := events.Proposed{
			Stream: stream, ID: events.KeyedCommand("w", fmt.Sprint(w.n)).Event(0), Actor: events.Participant(rapid.SampledFrom([]string{"@smith", "session-1", "bot:x", "ß\n\t\""}).Draw(t, "actor")),
			Cause: events.Cause{Command: events.CommandID(rapid.SampledFrom([]string{"", "c1", "01a22e58-34a8-753d-901f-757b6505aad7"}).Draw(t, "command"))},
		}
		if rapid.IntRange(0, 9).Draw(t, "odd id") == 0 {
			p.ID = events.EventID(fmt.Sprint("no UUID ", w.n))
		}
		if rapid.Bool().Draw(t, "answers") {
			p.Cause.Event = events.KeyedCommand("w", "1").Event(0)
		}
		switch k := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case k == 0:
			p.Event = events.Unknown{Type: "body.packed", Version: 7, Data: []byte(rapid.SampledFrom([]string{`{ "odd" :  1,"b":"<\u00e4>" }`, "\x00\xff no JSON", "{}"}).Draw(t, "data"))}
		case k == 1:
			p.Event = events.Unknown{Type: events.TypeThreadDone, Version: 99, Data: []byte(`[1 , 2]`)}
		case k == 2 && len(w.held) > 0:
			at := rapid.IntRange(0, len(w.held)-1).Draw(t, "drops")
			p.Drops = []events.EventID{w.held[at]}
			p.Event = events.MessageDeleted{Message: "m", Thread: "t", Bodies: p.Drops}
			w.held = append(w.held[:at:at], w.held[at+1:]...)
		default:
			p.Event = rapid.SampledFrom(w.samples).Draw(t, "sample")
			if deleted, is := p.Event.(events.MessageDeleted); is {
				deleted.Bodies = nil
				p.Event = deleted
			}
			p.Event, p.Body = holding(p.Event, rapid.SampledFrom([]string{"", "text", "\x00\xff", strings.Repeat("long ", 1000)}).Draw(t, "text"), byte(w.n))
			if p.Body != nil {
				w.held = append(w.held, p.ID)
			}
		}
		b.Events = append(b.Events, p)
	}
	must(t, w.Update(func(tx events.Tx) (err error) {
		if b.Expected, err = tx.Head(stream); err == nil {
			_, err = tx.Append(b)
		}
		return err
	}))
}

// Whatever is in a ledger comes back from a cluster as it went, byte for byte: each
// type of event, and those of no type that is known, with bodies that are there and
// bodies that went; in parts, and through another prefix.
func TestALedgerThereAndBackIsTheSameByteForByte(t *testing.T) {
	server, folder, all, n := double(t), t.TempDir(), samples(t), 0
	// Each round opens three ledgers or more: that is what takes time here.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		must(t, checks.Value.Set("30"))
		defer func() { must(t, checks.Value.Set(checks.DefValue)) }()
	}
	rapid.Check(t, func(t *rapid.T) {
		n++
		at := filepath.Join(folder, fmt.Sprint(n))
		defer os.RemoveAll(at)
		from := inFile(t, filepath.Join(at, "from.db"))
		defer from.Close()
		there := inCluster(t, server, fmt.Sprint("there", n, "."), filepath.Join(at, "there"))
		defer there.Close()
		route, prefix := []transfer.Target{there}, fmt.Sprint("there", n, ".")
		if rapid.IntRange(0, 3).Draw(t, "through another") == 0 {
			prefix = fmt.Sprint("other", n, ".")
			other := inCluster(t, server, prefix, filepath.Join(at, "other"))
			defer other.Close()
			route = append(route, other)
		}
		back := inFile(t, filepath.Join(at, "back.db"))
		defer back.Close()
		w := writer{Ledger: from, samples: all}
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			for range rapid.IntRange(1, 12).Draw(t, "batches") {
				w.write(t)
			}
			source := transfer.Source(from)
			for _, target := range append(route, back) {
				copied(t, source, target)
				source = target
			}
		}
		same(t, from, back)
		same(t, from, there)
		if rapid.IntRange(0, 3).Draw(t, "read anew") == 0 {
			// A machine that reads the cluster for the first time has the same.
			fresh := inCluster(t, server, prefix, filepath.Join(at, "fresh"))
			defer fresh.Close()
			same(t, from, fresh)
		}
	})
}

// filled is a ledger in a file with every type of event, and more than a page of them.
func filled(t *testing.T, path string) (file, *writer) {
	t.Helper()
	l := inFile(t, path)
	t.Cleanup(func() { l.Close() })
	w := &writer{Ledger: l, samples: samples(t)}
	for i, e := range w.samples {
		if deleted, is := e.(events.MessageDeleted); is {
			deleted.Bodies = nil
			e = deleted
		}
		for round := range 3 {
			event, body := holding(e, fmt.Sprint("text ", i, round), byte(i))
			w.append(t, events.Stream(fmt.Sprint("thread-", i%7)), event, body)
		}
	}
	return l, w
}

func (w *writer) append(t *testing.T, stream events.Stream, e events.Event, body *events.Body, drops ...events.EventID) events.EventID {
	t.Helper()
	w.n++
	id := events.KeyedCommand("w", fmt.Sprint(w.n)).Event(0)
	must(t, w.Update(func(tx events.Tx) error {
		head, err := tx.Head(stream)
		if err == nil {
			_, err = tx.Append(events.Batch{Stream: stream, Expected: head, Time: events.Time(w.n), Policy: 1, Events: []events.Proposed{{
				Stream: stream, ID: id, Actor: "@smith", Cause: events.Cause{Command: "c"}, Event: e, Body: body, Drops: drops,
			}}})
		}
		return err
	}))
	return id
}

var errBroken = errors.New("broken off")

// breaking breaks a copy off after so many events, before or after they are taken.
type breaking struct {
	transfer.Target
	left  int
	after bool
}

func (b *breaking) Take(ctx context.Context, all []transfer.Event) error {
	for i := range all {
		if b.left--; b.left < 0 && !b.after {
			return errBroken
		}
		if err := b.Target.Take(ctx, all[i:i+1]); err != nil {
			return err
		}
		if b.left < 0 {
			return errBroken
		}
	}
	return nil
}

func TestACopyThatIsBrokenOffGoesOnAndTakesNothingTwice(t *testing.T) {
	server := double(t)
	from, _ := filled(t, filepath.Join(t.TempDir(), "from.db"))
	for kind, open := range map[string]func(round int) transfer.Target{
		"file":    func(int) transfer.Target { return inFile(t, filepath.Join(t.TempDir(), "to.db")) },
		"cluster": func(int) transfer.Target { return inCluster(t, server, "to.", t.TempDir()) },
	} {
		to := open(0)
		c := transfer.Copy{From: from, To: to, FromName: "FROM", ToName: "TO"}
		for round := 0; ; round++ {
			c.To = &breaking{Target: to, left: 17 * round, after: round%2 > 0}
			r, err := c.Run(t.Context())
			if err == nil {
				if !r.OK || round < 3 || r.Before == 0 {
					t.Errorf("%s: after %d rounds %+v", kind, round, r)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		same(t, from, to)
		if r := copied(t, from, to); r.Copied != 0 {
			t.Errorf("%s: %d events were copied once more", kind, r.Copied)
		}
		must(t, to.Close())
	}
}

func TestACopyIsRefusedWhereSomethingElseIs(t *testing.T) {
	server := double(t)
	from, _ := filled(t, filepath.Join(t.TempDir(), "from.db"))
	for kind, open := range map[string]func() transfer.Target{
		"file":    func() transfer.Target { return inFile(t, filepath.Join(t.TempDir(), "to.db")) },
		"cluster": func() transfer.Target { return inCluster(t, server, "to.", t.TempDir()) },
	} {
		to := open()
		w := &writer{Ledger: to}
		w.append(t, "thread-x", events.ThreadDone{Thread: "x", Message: "m", By: "@smith"}, nil)
		if err := refused(t, "not_empty", from, to); !strings.Contains(err.Error(), "at position 1") {
			t.Errorf("%s: %v", kind, err)
		}
		must(t, to.Close())
	}

	// A copy that somebody has begun to use is one no longer.
	used := inFile(t, filepath.Join(t.TempDir(), "used.db"))
	defer used.Close()
	end := copied(t, from, used).Position
	w := &writer{Ledger: used, n: 10_000}
	w.append(t, "thread-x", events.ThreadDone{Thread: "x", Message: "m", By: "@smith"}, nil)
	if err := refused(t, "not_empty", from, used); !strings.Contains(err.Error(), fmt.Sprintf("%d events, and there are %d", end+1, end)) {
		t.Error(err)
	}
	// The original goes on into it, if it goes on from there.
	if r := copied(t, used, from); r.Copied != 1 {
		t.Errorf("%+v", r)
	}
}

// What the cluster could not take is found before anything is written, and said with
// its place.
func TestWhatDoesNotFitIsSaidBeforeAnythingIsWritten(t *testing.T) {
	server := double(t)
	n := 0
	for name, c := range map[string]struct {
		event  events.Event
		text   string
		stream events.Stream
		fits   bool
	}{
		"a large event": {event: events.Unknown{Type: "large.thing", Version: 1, Data: []byte(`"` + strings.Repeat("x", esdb.AppendBytesMax) + `"`)}, stream: "thread-1"},
		"a large body":  {event: events.MessageEdited{Message: "m", Thread: "t"}, text: strings.Repeat("x", esdb.AppendBytesMax), stream: "thread-1"},
		"a stream of a name that the cluster's ledger keeps for itself": {event: events.ThreadDone{Thread: "t"}, stream: "body-1"},
		"one that just fits": {event: events.MessageEdited{Message: "m", Thread: "t"}, text: strings.Repeat("x", esdb.AppendBytesMax-1000), stream: "thread-1", fits: true},
	} {
		from, w := filled(t, filepath.Join(t.TempDir(), "from.db"))
		event, body := holding(c.event, c.text, 1)
		w.append(t, c.stream, event, body)
		w.append(t, "thread-1", events.ThreadDone{Thread: "t"}, nil)
		n++
		to := inCluster(t, server, fmt.Sprint("to", n, "."), t.TempDir())
		before := server.Calls(esdbdouble.Append)
		if c.fits {
			copied(t, from, to)
			same(t, from, to)
		} else {
			position := len(everything(t, from).Events) - 1
			if err := refused(t, "cannot_go", from, to); !strings.Contains(err.Error(), fmt.Sprintf("position %d ", position)) {
				t.Errorf("%s: %v", name, err)
			}
			if now := server.Calls(esdbdouble.Append); now != before {
				t.Errorf("%s: %d appends were made", name, now-before)
			}
		}
		must(t, to.Close())
		// Into a file everything goes.
		other := inFile(t, filepath.Join(t.TempDir(), "to.db"))
		copied(t, from, other)
		must(t, other.Close())
	}
}

// An append that a file took at once, and that is more than the cluster takes at
// once, goes event by event.
func TestABatchThatIsTooLargeForTheClusterGoesInParts(t *testing.T) {
	from := inFile(t, filepath.Join(t.TempDir(), "from.db"))
	defer from.Close()
	b := events.Batch{Stream: "thread-1", Expected: events.NoStream, Time: 1}
	for i := range 4 {
		b.Events = append(b.Events, events.Proposed{Stream: "thread-1", ID: events.KeyedCommand("w", fmt.Sprint(i)).Event(0), Actor: "@smith",
			Event: events.Unknown{Type: "large.thing", Version: 1, Data: []byte(`"` + strings.Repeat("x", esdb.AppendBytesMax/2) + `"`)}})
	}
	must(t, from.Update(func(tx events.Tx) error { _, err := tx.Append(b); return err }))
	to := inCluster(t, double(t), "to.", t.TempDir())
	defer to.Close()
	copied(t, from, to)
	same(t, from, to)
}

// during does something once while events are taken.
type during struct {
	transfer.Target
	do func()
}

func (d *during) Take(ctx context.Context, all []transfer.Event) error {
	if do := d.do; do != nil {
		d.do = nil
		do()
	}
	return d.Target.Take(ctx, all)
}

func TestWhatComesMeanwhileIsLeftForTheNextCopy(t *testing.T) {
	from, w := filled(t, filepath.Join(t.TempDir(), "from.db"))
	to := inCluster(t, double(t), "to.", t.TempDir())
	defer to.Close()
	end := len(everything(t, from).Events)
	c := transfer.Copy{From: from, FromName: "FROM", ToName: "TO", To: &during{to, func() {
		for range 3 {
			w.append(t, "thread-1", events.ThreadDone{Thread: "t"}, nil)
		}
	}}}
	r, err := c.Run(t.Context())
	must(t, err)
	if !r.OK || int(r.Position) != end || r.More != 3 || !strings.Contains(r.Text(), "3 more came to FROM") {
		t.Errorf("%+v\n%s", r, r.Text())
	}
	if r := copied(t, from, to); r.Copied != 3 || r.More != 0 || int(r.Before) != end {
		t.Errorf("%+v", r)
	}
	same(t, from, to)
}

// firstBody is the first event with a body, and the stream that this lies in.
func firstBody(t *testing.T, l transfer.Source) (events.EventID, string) {
	t.Helper()
	all := everything(t, l)
	for _, e := range all.Events {
		if body, there := all.Bodies[e.ID]; there {
			return e.ID, "body-" + string(e.ID) + "-" + body.Commit().Commitment[:16]
		}
	}
	t.Fatal("there is none")
	return "", ""
}

func eventOf(l transfer.Source, id events.EventID) (e events.Recorded, there bool, err error) {
	err = l.View(func(r events.Reader) (err error) {
		e, there, err = r.Event(id)
		return err
	})
	return e, there, err
}

// holds says whether a server has an event in a stream, as its own client reads it.
func holds(t *testing.T, s *esdbdouble.Server, stream string) bool {
	t.Helper()
	config, err := client.ParseConnectionString(s.URL())
	must(t, err)
	config.Logger = client.NoopLogging()
	c, err := client.NewClient(config)
	must(t, err)
	defer c.Close()
	read, err := c.ReadStream(t.Context(), stream, client.ReadStreamOptions{}, 1)
	must(t, err)
	defer read.Close()
	_, err = read.Recv()
	return err == nil
}

// What somebody takes back while it is copied, or between two copies, is nowhere
// afterwards: not in the target, not in the cluster, and not for who reads it anew.
func TestABodyThatGoesMeanwhileIsNowhereAfterwards(t *testing.T) {
	edited := events.MessageEdited{Message: "m", Thread: "t"}
	for name, moment := range map[string]string{"while it is copied": "during", "between two copies": "between", "when a copy had put it there and was broken off": "broken"} {
		server := double(t)
		from, w := filled(t, filepath.Join(t.TempDir(), "from.db"))
		event, body := holding(edited, "not for you", 200)
		// Among the last, so that a page of others comes before it.
		for range 200 {
			w.append(t, "thread-2", events.ThreadDone{Thread: "t"}, nil)
		}
		id := w.append(t, "thread-1", event, body)
		early, lies := firstBody(t, from)
		take := func() {
			for _, id := range []events.EventID{early, id} {
				w.append(t, "thread-1", events.MessageDeleted{Message: "m", Thread: "t", Bodies: []events.EventID{id}}, nil, id)
			}
		}
		to := inCluster(t, server, "to.", t.TempDir())
		stream := "to.body-" + string(id) + "-" + body.Commit().Commitment[:16]
		switch moment {
		case "during":
			c := transfer.Copy{From: from, FromName: "FROM", ToName: "TO", To: &during{to, take}}
			r, err := c.Run(t.Context())
			must(t, err)
			if !r.OK || r.More != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		case "between":
			copied(t, from, to)
			take()
			copied(t, from, to)
		case "broken":
			// The body is there, and its event is not.
			mine, _, err := eventOf(from, id)
			must(t, err)
			broken := server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "to.thread-1", Point: esdbdouble.Commit, Times: esdbdouble.Always, Skip: int(mine.Revision), Effect: esdbdouble.Say(esdbdouble.AccessDenied())})
			c := transfer.Copy{From: from, FromName: "FROM", ToName: "TO", To: to}
			if _, err := c.Run(t.Context()); failure.Of(err).Code != "access_denied" {
				t.Fatalf("%s: %v", name, err)
			}
			broken.Lift()
			if !holds(t, server, stream) {
				t.Errorf("%s: the body had not been put there", name)
			}
			take()
			copied(t, from, to)
		}
		same(t, from, to)
		if n := server.Calls(esdbdouble.Tombstone); moment != "during" && n == 0 {
			t.Errorf("%s: nothing was ended", name)
		}
		fresh := inCluster(t, server, "to.", t.TempDir())
		if _, there := same(t, from, fresh).Bodies[id]; there {
			t.Errorf("%s: the body is there", name)
		}
		for _, stream := range []string{stream, "to." + lies} {
			if holds(t, server, stream) {
				t.Errorf("%s: the cluster has %s", name, stream)
			}
		}
		must(t, fresh.Close())
		must(t, to.Close())
	}
}

// A copy is not done while the cluster still has what was taken back.
func TestACopyWaitsUntilTheBodiesAreGone(t *testing.T) {
	server := double(t)
	from, w := filled(t, filepath.Join(t.TempDir(), "from.db"))
	event, body := holding(events.MessageEdited{Message: "m", Thread: "t"}, "not for you", 200)
	id := w.append(t, "thread-1", event, body)
	to := inCluster(t, server, "to.", t.TempDir())
	defer to.Close()
	copied(t, from, to)
	w.append(t, "thread-1", events.MessageDeleted{Message: "m", Thread: "t", Bodies: []events.EventID{id}}, nil, id)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	struck := server.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Commit, Effect: esdbdouble.Hold(held)})
	go func() {
		<-struck.Struck()
		time.AfterFunc(200*time.Millisecond, release) // for whoever waits; who does not is there sooner
	}()
	c := transfer.Copy{From: from, To: to, FromName: "FROM", ToName: "TO", Progress: func(what string, _, _ events.Position) {
		if what == "verify" && holds(t, server, "to.body-"+string(id)+"-"+body.Commit().Commitment[:16]) {
			t.Error("it goes on before the body is gone")
		}
	}}
	r, err := c.Run(t.Context())
	must(t, err)
	if !r.OK {
		t.Errorf("%+v", r)
	}
}

// A body is taken away with an event of a type that nobody knows here.
func TestABodyThatAnUnknownEventTookAwayGoesToo(t *testing.T) {
	from, w := filled(t, filepath.Join(t.TempDir(), "from.db"))
	// One of a type that holds a text by itself: nobody here knows that either.
	body := &events.Body{Text: []byte("newer"), Salt: events.Salt{9}}
	id := w.append(t, "thread-1", events.Unknown{Type: "newer.said", Version: 1, Data: []byte(`{}`)}, body)
	to := inCluster(t, double(t), "to.", t.TempDir())
	defer to.Close()
	copied(t, from, to)
	if e := same(t, from, to); !reflect.DeepEqual(e.Bodies[id], *body) {
		t.Errorf("%+v", e.Bodies[id])
	}
	w.append(t, "thread-1", events.Unknown{Type: "body.redacted", Version: 1, Data: []byte(`{}`)}, nil, id)
	copied(t, from, to)
	if _, there := same(t, from, to).Bodies[id]; there {
		t.Error("the body is there")
	}
}

// Somebody else who appends to the target is found out, and the copy ends.
func TestACopyEndsWhereSomebodyElseAppends(t *testing.T) {
	server := double(t)
	from, _ := filled(t, filepath.Join(t.TempDir(), "from.db"))
	theirs := func(l events.Ledger) func() {
		return func() {
			(&writer{Ledger: l, n: 10_000}).append(t, "thread-theirs", events.ThreadDone{Thread: "t"}, nil)
		}
	}
	path := filepath.Join(t.TempDir(), "to.db")
	to := inFile(t, path)
	defer to.Close()
	other := inFile(t, path)
	defer other.Close()
	there := inCluster(t, server, "to.", t.TempDir())
	defer there.Close()
	elsewhere := inCluster(t, server, "to.", t.TempDir())
	defer elsewhere.Close()
	for kind, target := range map[string]transfer.Target{"file": &during{to, theirs(other)}, "cluster": &during{there, theirs(elsewhere)}} {
		c := transfer.Copy{From: from, To: target, FromName: "FROM", ToName: "TO"}
		if _, err := c.Run(t.Context()); failure.Of(err).Code != "diverged" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A ledger that is not as it was recorded is not copied as if it were.
func TestADamagedLedgerIsNotCopied(t *testing.T) {
	from, _ := filled(t, filepath.Join(t.TempDir(), "from.db"))
	to := inFile(t, filepath.Join(t.TempDir(), "to.db"))
	defer to.Close()
	there := inCluster(t, double(t), "to.", t.TempDir())
	defer there.Close()
	for name, change := range map[string]func(*events.Recorded){
		"other data":  func(r *events.Recorded) { r.Data = []byte(`{"thread":"other"}`) },
		"other actor": func(r *events.Recorded) { r.Actor = "@somebody" },
		"a gap":       func(r *events.Recorded) { r.Revision++ },
	} {
		for kind, target := range map[string]transfer.Target{"file": to, "cluster": there} {
			if err := refused(t, "ledger_damaged", damaged{from, change}, target); !strings.Contains(err.Error(), "position 20:") {
				t.Errorf("%s into a %s: %v", name, kind, err)
			}
		}
	}
}

// damaged gives a ledger's event at position 20 otherwise than it was recorded.
type damaged struct {
	file
	change func(*events.Recorded)
}

func (d damaged) View(fn func(events.Reader) error) error {
	return d.file.View(func(r events.Reader) error { return fn(damagedReader{r, d.change}) })
}

type damagedReader struct {
	events.Reader
	change func(*events.Recorded)
}

func (d damagedReader) All(from events.Position, limit int) ([]events.Recorded, error) {
	all, err := d.Reader.All(from, limit)
	for i := range all {
		if all[i].Position == 20 {
			d.change(&all[i])
		}
	}
	return all, err
}

func TestACopyThatIsBrokenOffSaysHowFarItCame(t *testing.T) {
	from, _ := filled(t, filepath.Join(t.TempDir(), "from.db"))
	to := inFile(t, filepath.Join(t.TempDir(), "to.db"))
	defer to.Close()
	ctx, stop := context.WithCancel(t.Context())
	c := transfer.Copy{From: from, To: &during{to, stop}, FromName: "FROM", ToName: "TO"}
	_, err := c.Run(ctx)
	if failure.Of(err).Code != "interrupted" || !strings.Contains(err.Error(), "had 128 of ") {
		t.Errorf("it says %v", err)
	}
	if r := copied(t, from, to); r.Before != 128 {
		t.Errorf("%+v", r)
	}
}
