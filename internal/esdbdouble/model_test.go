package esdbdouble_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decklog/internal/esdbdouble"
)

// model is what the documentation says of appends, put as a story about lists of
// names and written apart from the double. Each rule is one sentence of it.
type model struct {
	streams map[string]*modelStream
	memory  map[string]place // where the server remembers to have written an event
}

type modelStream struct {
	events []string
	ended  bool
	hidden bool // deleted, and not appended to since
	from   int  // events before it are hidden
	told   bool // there is metadata
}

type place struct {
	stream string
	number int
}

func (m *model) of(stream string) *modelStream {
	if m.streams[stream] == nil {
		m.streams[stream] = &modelStream{}
	}
	return m.streams[stream]
}

// append says what becomes of one: the number of its last event, or the code of
// the refusal.
func (m *model) append(stream string, expected esdb.ExpectedRevision, names []string) (last int, refused esdb.ErrorCode) {
	const fine, conflict = -1, esdb.ErrorCodeWrongExpectedVersion
	s := m.of(stream)
	if s.ended {
		return 0, esdb.ErrorCodeStreamDeleted
	}

	start := 0
	switch e := expected.(type) {
	case esdb.StreamExists:
		if s.hidden {
			return 0, esdb.ErrorCodeStreamDeleted
		}
		if len(s.events) == 0 && !s.told {
			return 0, conflict
		}
		start = -1
	case esdb.Any:
		start = -1
	case esdb.StreamRevision:
		start = int(e.Value) + 1
	}

	known := 0 // how many of the names, from the first on, are known to be there
	for known < len(names) {
		p, remembered := m.memory[names[known]]
		inPlace := start >= 0 && start+known < len(s.events) && s.events[start+known] == names[known]
		if !inPlace && (start >= 0 || !remembered || p.stream != stream) {
			break
		}
		known++
	}
	switch {
	case start < 0 && known == len(names):
		return m.memory[names[known-1]].number, fine
	case start < 0 && known > 0:
		return 0, conflict
	case start > len(s.events):
		return 0, conflict
	case start >= 0 && start < len(s.events) && known == len(names):
		return start + known - 1, fine
	case start >= 0 && start < len(s.events):
		if _, none := expected.(esdb.NoStream); known > 0 || !none || !s.hidden {
			return 0, conflict
		}
	}

	if s.hidden {
		s.hidden, s.from = false, len(s.events)
	}
	for _, name := range names {
		m.memory[name] = place{stream, len(s.events)}
		s.events = append(s.events, name)
	}
	return len(s.events) - 1, fine
}

func (m *model) seen(stream string) (seen []string) {
	s := m.of(stream)
	for n := s.from; n < len(s.events); n++ {
		seen = append(seen, fmt.Sprintf("%s %d %s", stream, n, s.events[n]))
	}
	return seen
}

func TestAppendsAreDecidedAsTheDocumentationSays(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		appendsAreDecided(t, esdbdouble.NewLog, func(l *esdbdouble.Log) *esdbdouble.Log { return l })
	})
	t.Run("in a file that is read anew", func(t *testing.T) {
		var path string
		n, folder := 0, t.TempDir()
		again := func() *esdbdouble.Log {
			l, err := esdbdouble.Durable(path)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := func(...esdbdouble.LogOption) *esdbdouble.Log {
			n++
			path = filepath.Join(folder, fmt.Sprint(n))
			return again()
		}
		appendsAreDecided(t, first, func(l *esdbdouble.Log) *esdbdouble.Log {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return again()
		})
	})
}

func appendsAreDecided(t *testing.T, newLog func(...esdbdouble.LogOption) *esdbdouble.Log, anew func(*esdbdouble.Log) *esdbdouble.Log) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLog()
		s, err := esdbdouble.Start(l, esdbdouble.Config{})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.Stop(); _ = l.Close() }()
		connect := func() client {
			config, err := esdb.ParseConnectionString(s.URL())
			if err != nil {
				rt.Fatal(err)
			}
			config.Logger = esdb.NoopLogging()
			c, err := esdb.NewClient(config)
			if err != nil {
				rt.Fatal(err)
			}
			return client{c, t}
		}
		c := connect()
		defer func() { _ = c.Close() }()

		m := &model{streams: map[string]*modelStream{}, memory: map[string]place{}}
		stream := rapid.SampledFrom([]string{"s", "t"})
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 3)
		expectation := func(rt *rapid.T, stream string) esdb.ExpectedRevision {
			n := len(m.of(stream).events)
			all := []esdb.ExpectedRevision{esdb.Any{}, esdb.NoStream{}, esdb.StreamExists{}, esdb.Revision(uint64(n))}
			for r := range n {
				all = append(all, esdb.Revision(uint64(r)))
			}
			return rapid.SampledFrom(all).Draw(rt, "expected")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				to, of := stream.Draw(rt, "stream"), names.Draw(rt, "names")
				expected := expectation(rt, to)
				last, refused := m.append(to, expected, of)
				w, err := c.try(to, expected, of...)
				if code(err) != refused || err == nil && int(w.NextExpectedVersion) != last {
					rt.Fatalf("append of %v to %s at %T %v: got %+v, %v; want %d, code %d", of, to, expected, expected, w, err, last, refused)
				}
				if err == nil {
					checkPosition(rt, l, to, w)
				}
			},
			"delete": func(rt *rapid.T) {
				of := stream.Draw(rt, "stream")
				_, err := c.DeleteStream(t.Context(), of, esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})
				s := m.of(of)
				if may := !s.ended && (len(s.events) > 0 || s.told); may != (err == nil) {
					rt.Fatalf("delete %s: %v", of, err)
				}
				if err == nil {
					s.hidden, s.told, s.from = true, true, len(s.events)
				}
			},
			"tell": func(rt *rapid.T) {
				of := stream.Draw(rt, "stream")
				var told esdb.StreamMetadata
				told.SetMaxCount(1000)
				_, err := c.SetStreamMetadata(t.Context(), of, esdb.AppendToStreamOptions{}, told)
				s := m.of(of)
				if s.ended != (err != nil) {
					rt.Fatalf("tell %s: %v", of, err)
				}
				if err == nil {
					s.told, s.from = true, 0
					if s.hidden {
						s.hidden, s.from = false, len(s.events)
					}
				}
			},
			"end": func(rt *rapid.T) {
				of := stream.Draw(rt, "stream")
				if !rapid.Bool().Draw(rt, "really") {
					rt.Skip("not for ever")
				}
				s := m.of(of)
				_, err := c.TombstoneStream(t.Context(), of, esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}})
				if s.ended != (err != nil) {
					rt.Fatalf("end %s: %v", of, err)
				}
				s.ended = true
			},
			"start anew": func(rt *rapid.T) {
				_ = c.Close()
				s.Stop()
				l = anew(l)
				if s, err = esdbdouble.Start(l, esdbdouble.Config{Address: s.Address()}); err != nil {
					rt.Fatal(err)
				}
				c = connect()
				m.memory = map[string]place{}
			},
			"": func(rt *rapid.T) {
				for of, s := range m.streams {
					got, _, err := c.drain(c.ReadStream(t.Context(), of, esdb.ReadStreamOptions{}, 1000))
					want := esdb.ErrorCode(-1)
					switch {
					case s.ended:
						want = esdb.ErrorCodeStreamDeleted
					case s.hidden, len(s.events) == 0:
						want = esdb.ErrorCodeResourceNotFound
					}
					if code(err) != want {
						rt.Fatalf("read %s: %v, want code %d", of, err, want)
					}
					if d := cmp.Diff(m.seen(of), got); want == -1 && d != "" {
						rt.Fatalf("%s is unlike the model (-):\n%s", of, d)
					}
				}
			},
		})
	})
}

// checkPosition sees that an answer names the place of its last event.
func checkPosition(rt *rapid.T, l *esdbdouble.Log, stream string, w *esdb.WriteResult) {
	last := uint64(0)
	for _, e := range l.Events("") {
		if e.Position < last {
			rt.Fatalf("positions go back at %+v", e)
		}
		last = e.Position
		if e.Stream == stream && e.Revision == w.NextExpectedVersion && !strings.HasPrefix(e.Type, "$") {
			if e.Position != w.CommitPosition || w.CommitPosition != w.PreparePosition {
				rt.Fatalf("the answer says %+v of %+v", w, e)
			}
		}
	}
}
