package esdbdouble_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"decklog/internal/esdbdouble"
)

// start starts a server on a log of its own.
func start(t testing.TB, c esdbdouble.Config, options ...esdbdouble.LogOption) (*esdbdouble.Server, *esdbdouble.Log) {
	t.Helper()
	l := esdbdouble.NewLog(options...)
	s, err := esdbdouble.Start(l, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s, l
}

// dial is the real client at a URL.
func dial(t testing.TB, url string) client {
	t.Helper()
	config, err := esdb.ParseConnectionString(url)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = esdb.NoopLogging()
	config.GossipTimeout = 1
	c, err := esdb.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{c, t}
}

func open(t testing.TB) (client, *esdbdouble.Server, *esdbdouble.Log) {
	t.Helper()
	s, l := start(t, esdbdouble.Config{})
	return dial(t, s.URL()), s, l
}

// client is the real client with what most tests do.
type client struct {
	*esdb.Client
	t testing.TB
}

// event is one whose id follows from its name, so that it can be sent again.
func event(name string) esdb.EventData {
	return esdb.EventData{
		EventID:     uuid.NewSHA1(uuid.Nil, []byte(name)),
		EventType:   "said",
		ContentType: esdb.ContentTypeJson,
		Data:        []byte(`"` + name + `"`),
		Metadata:    []byte(`{"by":"@smith"}`),
	}
}

func (c client) try(stream string, expected esdb.ExpectedRevision, names ...string) (*esdb.WriteResult, error) {
	events := make([]esdb.EventData, len(names))
	for i, name := range names {
		events[i] = event(name)
	}
	return c.AppendToStream(c.t.Context(), stream, esdb.AppendToStreamOptions{ExpectedRevision: expected}, events...)
}

func (c client) append(stream string, expected esdb.ExpectedRevision, names ...string) *esdb.WriteResult {
	c.t.Helper()
	w, err := c.try(stream, expected, names...)
	if err != nil {
		c.t.Fatalf("append %v to %s: %v", names, stream, err)
	}
	return w
}

// code is what kind of error the client takes one for; -1 is none at all.
func code(err error) esdb.ErrorCode {
	if err == nil {
		return -1
	}
	if e, is := errors.AsType[*esdb.Error](err); is {
		return e.Code()
	}
	return esdb.ErrorCodeUnknown
}

func (c client) wants(err error, want esdb.ErrorCode) {
	c.t.Helper()
	if code(err) != want {
		c.t.Errorf("got %v (code %d), want code %d", err, code(err), want)
	}
}

func (c client) drain(r *esdb.ReadStream, err error) (names []string, events []*esdb.RecordedEvent, end error) {
	c.t.Helper()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		e, err := r.Recv()
		if errors.Is(err, io.EOF) {
			return names, events, nil
		}
		if err != nil {
			return names, events, err
		}
		o := e.OriginalEvent()
		events = append(events, o)
		names = append(names, fmt.Sprintf("%s %d %s", o.StreamID, o.EventNumber, strings.Trim(string(o.Data), `"`)))
	}
}

func (c client) stream(name string, o esdb.ReadStreamOptions) []string {
	c.t.Helper()
	names, _, err := c.drain(c.ReadStream(c.t.Context(), name, o, 1000))
	if err != nil {
		c.t.Fatalf("read %s: %v", name, err)
	}
	return names
}

func (c client) same(got, want any) {
	c.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		c.t.Errorf("unlike what was wanted (-), there is (+):\n%s", d)
	}
}

func TestAnAppendGoesInAtTheRevisionThatItExpects(t *testing.T) {
	c, _, _ := open(t)
	if w := c.append("s", esdb.NoStream{}, "a", "b"); w.NextExpectedVersion != 1 {
		t.Errorf("the last of two events has revision %d", w.NextExpectedVersion)
	}
	c.append("s", esdb.Revision(1), "c")
	c.append("s", esdb.StreamExists{}, "d")
	c.append("s", esdb.Any{}, "e")

	for _, wrong := range []struct {
		stream   string
		expected esdb.ExpectedRevision
	}{{"s", esdb.NoStream{}}, {"s", esdb.Revision(3)}, {"s", esdb.Revision(5)}, {"t", esdb.Revision(0)}, {"t", esdb.StreamExists{}}} {
		_, err := c.try(wrong.stream, wrong.expected, "x")
		c.wants(err, esdb.ErrorCodeWrongExpectedVersion)
	}
	_, err := c.try("s", esdb.Revision(3), "x")
	if err == nil || !strings.Contains(err.Error(), "expecting '3' but got '4'") {
		t.Errorf("the conflict does not say where the stream is: %v", err)
	}
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 b", "s 2 c", "s 3 d", "s 4 e"})
}

func TestAnAppendThatIsRepeatedIsAnsweredAsBefore(t *testing.T) {
	c, s, _ := open(t)
	one := c.append("s", esdb.NoStream{}, "a", "b")
	two := c.append("s", esdb.Revision(1), "c", "d")
	c.append("s", esdb.Revision(3), "e")

	c.same(c.append("s", esdb.NoStream{}, "a", "b"), one)
	c.same(c.append("s", esdb.Revision(1), "c", "d"), two)
	c.same(c.append("s", esdb.Any{}, "c", "d"), two)
	if w := c.append("s", esdb.Revision(1), "c"); w.NextExpectedVersion != 2 {
		t.Errorf("the first part of an append is repeated up to revision %d", w.NextExpectedVersion)
	}

	s.Stop()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, s.URL())
	c.same(c.append("s", esdb.NoStream{}, "a", "b"), one)
	c.same(c.append("s", esdb.Revision(1), "c", "d"), two)

	for _, other := range [][]string{{"c", "x"}, {"x", "d"}, {"c", "d", "x"}} {
		_, err := c.try("s", esdb.Revision(1), other...)
		c.wants(err, esdb.ErrorCodeWrongExpectedVersion)
	}
}

// These are the holes. A client that relies on ids elsewhere than with a
// revision that is past finds here what it would find there.
func TestDuplicatesThatTheServerLetsIn(t *testing.T) {
	t.Run("at the current revision no id is looked at", func(t *testing.T) {
		c, _, _ := open(t)
		c.append("s", esdb.NoStream{}, "a")
		c.append("s", esdb.Revision(0), "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
	})
	t.Run("the later of two streams with one id is remembered", func(t *testing.T) {
		c, _, _ := open(t)
		c.append("s", esdb.Any{}, "a")
		c.append("t", esdb.Any{}, "a")
		c.append("s", esdb.Any{}, "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
	})
	t.Run("a server that was started anew remembers nothing", func(t *testing.T) {
		c, s, _ := open(t)
		c.append("s", esdb.Any{}, "a")
		c.append("s", esdb.Any{}, "a")
		s.Stop()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		c = dial(t, s.URL())
		c.append("s", esdb.Any{}, "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
	})
	t.Run("a server that wrote much since remembers nothing", func(t *testing.T) {
		s, _ := start(t, esdbdouble.Config{IDsBytesMax: 100})
		c := dial(t, s.URL())
		c.append("s", esdb.Any{}, "a")
		c.append("t", esdb.Any{}, "b", "c", "d", "e")
		c.append("s", esdb.StreamExists{}, "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
	})
	t.Run("a server forgets when it is told to", func(t *testing.T) {
		c, s, _ := open(t)
		c.append("s", esdb.Any{}, "a")
		s.ForgetIDs()
		c.append("s", esdb.Any{}, "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 a"})
	})
	t.Run("half of an append without a revision is a conflict, and none of it goes in", func(t *testing.T) {
		c, _, _ := open(t)
		c.append("s", esdb.Any{}, "a")
		_, err := c.try("s", esdb.Any{}, "a", "b")
		c.wants(err, esdb.ErrorCodeWrongExpectedVersion)
		c.append("s", esdb.Any{}, "b", "a")
		c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 b", "s 2 a"})
	})
}

func TestAStreamIsReadBothWays(t *testing.T) {
	c, _, _ := open(t)
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	c.append("s", esdb.NoStream{}, names...)
	want := make([]string, 100)
	for i := range want {
		want[i] = fmt.Sprintf("s %d %d", i, i)
	}
	c.same(c.stream("s", esdb.ReadStreamOptions{}), want)
	c.same(c.stream("s", esdb.ReadStreamOptions{From: esdb.Revision(90)}), want[90:])
	for i := range 50 {
		want[i], want[99-i] = want[99-i], want[i]
	}
	c.same(c.stream("s", esdb.ReadStreamOptions{Direction: esdb.Backwards, From: esdb.End{}}), want)
	c.same(c.stream("s", esdb.ReadStreamOptions{Direction: esdb.Backwards, From: esdb.Revision(2)}), want[97:])
	some, _, err := c.drain(c.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{Direction: esdb.Backwards, From: esdb.End{}}, 40))
	c.wants(err, -1)
	c.same(some, want[:40])

	_, _, err = c.drain(c.ReadStream(t.Context(), "t", esdb.ReadStreamOptions{}, 1))
	c.wants(err, esdb.ErrorCodeResourceNotFound)
}

func TestAnEventReadsBackAsItWasAppended(t *testing.T) {
	now := time.Date(2026, 11, 3, 4, 5, 6, 700, time.UTC)
	s, _ := start(t, esdbdouble.Config{}, esdbdouble.Clock(func() time.Time { return now }))
	c := dial(t, s.URL())
	w := c.append("s", esdb.NoStream{}, "a")
	_, events, err := c.drain(c.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{}, 1))
	c.wants(err, -1)
	want := event("a")
	c.same(events, []*esdb.RecordedEvent{{
		EventID: want.EventID, EventType: want.EventType, ContentType: "application/json", StreamID: "s", EventNumber: 0,
		Position: esdb.Position{Commit: w.CommitPosition, Prepare: w.PreparePosition}, CreatedDate: now, Data: want.Data, UserMetadata: want.Metadata,
		SystemMetadata: map[string]string{"type": "said", "content-type": "application/json", "created": "17936787060000007"},
	}})
}

func TestPositionsGrowWithHolesAndMayOnlyBeCompared(t *testing.T) {
	c, _, _ := open(t)
	one := c.append("s", esdb.NoStream{}, "a", "b")
	two := c.append("t", esdb.NoStream{}, "c")
	switch {
	case one.CommitPosition != one.PreparePosition:
		t.Errorf("an event lies at %d and %d", one.CommitPosition, one.PreparePosition)
	case two.CommitPosition < one.CommitPosition+2:
		t.Errorf("%d and %d leave no hole", one.CommitPosition, two.CommitPosition)
	}
	at := func(commit uint64) esdb.ReadAllOptions {
		return esdb.ReadAllOptions{From: esdb.Position{Commit: commit, Prepare: commit}}
	}
	got, _, err := c.drain(c.ReadAll(t.Context(), at(one.CommitPosition), 10))
	c.wants(err, -1)
	c.same(got, []string{"s 1 b", "t 0 c"})
	_, _, err = c.drain(c.ReadAll(t.Context(), at(one.CommitPosition+1), 10))
	if err == nil {
		t.Error("a position that was reckoned is taken for one")
	}
}

func TestAllIsReadBothWaysFromAPosition(t *testing.T) {
	c, _, _ := open(t)
	c.append("s", esdb.NoStream{}, "a")
	b := c.append("t", esdb.NoStream{}, "b")
	c.append("s", esdb.Revision(0), "c")
	at := esdb.Position{Commit: b.CommitPosition, Prepare: b.PreparePosition}

	for _, of := range []struct {
		options esdb.ReadAllOptions
		want    []string
	}{
		{esdb.ReadAllOptions{From: at}, []string{"t 0 b", "s 1 c"}},
		{esdb.ReadAllOptions{From: at, Direction: esdb.Backwards}, []string{"s 0 a"}},
		{esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, []string{"s 1 c", "t 0 b", "s 0 a"}},
		{esdb.ReadAllOptions{From: esdb.Start{}, Direction: esdb.Backwards}, nil},
		{esdb.ReadAllOptions{From: esdb.End{}}, nil},
	} {
		got, _, err := c.drain(c.ReadAll(t.Context(), of.options, 100))
		c.wants(err, -1)
		c.same(ours(got), of.want)
	}
	got, _, err := c.drain(c.ReadAll(t.Context(), esdb.ReadAllOptions{}, 100))
	c.wants(err, -1)
	if len(got) < 4 || !strings.HasPrefix(got[0], "$") {
		t.Errorf("the server has no events of its own before ours: %v", got)
	}
}

// ours are the events that the server did not write itself.
func ours(names []string) (left []string) {
	for _, n := range names {
		if !strings.HasPrefix(n, "$") {
			left = append(left, n)
		}
	}
	return left
}

func TestMetadataHidesEventsAndMovesNoNumbers(t *testing.T) {
	now := time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC)
	s, l := start(t, esdbdouble.Config{}, esdbdouble.Clock(func() time.Time { return now }))
	c := dial(t, s.URL())
	set := func(change func(*esdb.StreamMetadata)) {
		t.Helper()
		var m esdb.StreamMetadata
		change(&m)
		if _, err := c.SetStreamMetadata(t.Context(), "s", esdb.AppendToStreamOptions{}, m); err != nil {
			t.Fatal(err)
		}
		got, err := c.GetStreamMetadata(t.Context(), "s", esdb.ReadStreamOptions{From: esdb.End{}, Direction: esdb.Backwards})
		c.wants(err, -1)
		c.same(got.MaxCount(), m.MaxCount())
	}
	_, err := c.GetStreamMetadata(t.Context(), "s", esdb.ReadStreamOptions{})
	c.wants(err, esdb.ErrorCodeResourceNotFound)

	c.append("s", esdb.NoStream{}, "a", "b", "c", "d")
	set(func(m *esdb.StreamMetadata) { m.SetMaxCount(2) })
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 2 c", "s 3 d"})
	set(func(m *esdb.StreamMetadata) { m.SetTruncateBefore(3) })
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 3 d"})
	c.append("s", esdb.Revision(3), "e")
	set(func(m *esdb.StreamMetadata) { m.SetMaxAge(time.Minute) })
	now = now.Add(2 * time.Minute)
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string(nil))
	c.append("s", esdb.Revision(4), "f")
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 5 f"})

	if got := len(l.Events("s")); got != 6 {
		t.Errorf("%d events of 6 are in the log", got)
	}
	got, _, err := c.drain(c.ReadAll(t.Context(), esdb.ReadAllOptions{}, 100))
	c.wants(err, -1)
	if len(ours(got)) != 6 {
		t.Errorf("$all hides what the stream hides: %v", got)
	}
}

func TestADeletedStreamIsNotFoundUntilItIsAppendedTo(t *testing.T) {
	c, _, _ := open(t)
	c.append("s", esdb.NoStream{}, "a", "b")
	remove := func(expected esdb.ExpectedRevision) error {
		_, err := c.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{ExpectedRevision: expected})
		return err
	}
	c.wants(remove(esdb.Revision(0)), esdb.ErrorCodeUnknown) // the client does not know it for a conflict
	c.wants(remove(esdb.Revision(1)), -1)
	_, _, err := c.drain(c.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{}, 1))
	c.wants(err, esdb.ErrorCodeResourceNotFound)
	_, err = c.try("s", esdb.StreamExists{}, "x")
	c.wants(err, esdb.ErrorCodeStreamDeleted)

	_, err = c.try("s", esdb.NoStream{}, "a", "x")
	c.wants(err, esdb.ErrorCodeWrongExpectedVersion)
	if w := c.append("s", esdb.NoStream{}, "a", "b"); w.NextExpectedVersion != 1 {
		t.Errorf("what was deleted is not recognised: %+v", w)
	}

	if w := c.append("s", esdb.NoStream{}, "c"); w.NextExpectedVersion != 2 {
		t.Errorf("the stream goes on at revision %d", w.NextExpectedVersion)
	}
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 2 c"})
	c.wants(remove(esdb.Any{}), -1)
	c.append("s", esdb.Revision(2), "d")
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 3 d"})

	c.wants(remove(esdb.Any{}), -1)
	var m esdb.StreamMetadata
	m.SetMaxCount(10)
	if _, err := c.SetStreamMetadata(t.Context(), "s", esdb.AppendToStreamOptions{}, m); err != nil {
		t.Fatal(err)
	}
	c.append("s", esdb.Revision(3), "e")
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 4 e"})

	_, err = c.DeleteStream(t.Context(), "never", esdb.DeleteStreamOptions{})
	c.wants(err, esdb.ErrorCodeUnknown)
}

func TestATombstoneEndsAStreamForEver(t *testing.T) {
	c, _, l := open(t)
	c.append("s", esdb.NoStream{}, "a")
	if _, err := c.TombstoneStream(t.Context(), "s", esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Revision(0)}); err != nil {
		t.Fatal(err)
	}
	for _, expected := range []esdb.ExpectedRevision{esdb.Any{}, esdb.NoStream{}, esdb.Revision(0), esdb.StreamExists{}} {
		_, err := c.try("s", expected, "b")
		c.wants(err, esdb.ErrorCodeStreamDeleted)
	}
	_, _, err := c.drain(c.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{}, 1))
	c.wants(err, esdb.ErrorCodeStreamDeleted)
	_, err = c.GetStreamMetadata(t.Context(), "s", esdb.ReadStreamOptions{})
	c.wants(err, esdb.ErrorCodeStreamDeleted)
	events := l.Events("s")
	if last := events[len(events)-1]; last.Type != "$streamDeleted" || last.Revision != 1<<63-1 {
		t.Errorf("the stream ends with %+v", last)
	}
}

func TestAnAppendThatIsTooLargeIsRefused(t *testing.T) {
	s, l := start(t, esdbdouble.Config{AppendBytesMax: 1000})
	c := dial(t, s.URL())
	sized := func(n int) esdb.EventData {
		e := event("a")
		e.Data, e.Metadata = make([]byte, n-2*len(e.EventType)), nil
		return e
	}
	try := func(events ...esdb.EventData) error {
		_, err := c.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, events...)
		return err
	}
	if err := try(sized(1001)); err == nil || !strings.Contains(err.Error(), "Maximum Append Size of 1000 Exceeded") {
		t.Errorf("one event that is too large: %v", err)
	}
	if err := try(sized(600), sized(600)); err == nil {
		t.Error("two events that are too large together are taken")
	}
	if n := len(l.Events("s")); n != 0 {
		t.Errorf("%d events of an append that is too large are there", n)
	}
	c.wants(try(sized(500), sized(500)), -1)
}

func TestUsersAreKnownByNameAndPassword(t *testing.T) {
	s, _ := start(t, esdbdouble.Config{TLS: certificate(t), Users: []esdbdouble.User{
		{Name: "admin", Password: "secret", Admin: true}, {Name: "smith", Password: "secret"},
	}})
	as := func(who string) client { return dial(t, "esdb://"+who+s.Address()+"?tlsVerifyCert=false") }
	all := func(c client) error {
		_, _, err := c.drain(c.ReadAll(t.Context(), esdb.ReadAllOptions{}, 1))
		return err
	}
	smith := as("smith:secret@")
	smith.append("s", esdb.NoStream{}, "a")
	smith.wants(all(smith), esdb.ErrorCodeAccessDenied)
	admin := as("admin:secret@")
	admin.wants(all(admin), -1)
	guess, nobody := as("smith:guess@"), as("")
	guess.wants(all(guess), esdb.ErrorCodeUnauthenticated)
	nobody.wants(all(nobody), esdb.ErrorCodeAccessDenied)
	if _, err := nobody.try("s", esdb.Any{}, "b"); err == nil {
		t.Error("nobody appends")
	}
}

func TestNobodyAppendsToWhatIsNoStream(t *testing.T) {
	c, _, _ := open(t)
	if _, err := c.try("$all", esdb.Any{}, "a"); err == nil {
		t.Error("$all is appended to")
	}
	nameless := event("a")
	nameless.EventType = ""
	if _, err := c.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{}, nameless); err == nil {
		t.Error("an event of no type is appended")
	}
}
