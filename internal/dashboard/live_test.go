package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/dashboard"
	"decklog/internal/ops"
)

// news is one event of a live stream.
type news struct {
	ID, Event string
	Data      struct {
		Position events.Position   `json:"position"`
		Threads  []events.ThreadID `json:"threads"`
		More     bool              `json:"more"`
	}
	Comments []string
}

// stream reads a live stream, event by event; ok is false at its end.
type stream struct {
	t    *testing.T
	w    *http.Response
	scan *bufio.Scanner
}

func (b *browser) stream(path string, change ...func(*http.Request)) *stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.s.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	w, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = w.Body.Close() })
	if w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s gave %d, %v", path, w.StatusCode, w.Header)
	}
	return &stream{b.t, w, bufio.NewScanner(w.Body)}
}

func (s *stream) next() (n news, ok bool) {
	s.t.Helper()
	for s.scan.Scan() {
		name, value, _ := strings.Cut(s.scan.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			n.ID = value
		case "event":
			n.Event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &n.Data); err != nil {
				s.t.Fatal(err)
			}
		case "":
			if s.scan.Text() != "" {
				n.Comments = append(n.Comments, value)
			} else if n.Event != "" {
				return n, true
			}
		}
	}
	return n, false
}

// want reads on until an event of this name, past heartbeats.
func (s *stream) want(event string) news {
	s.t.Helper()
	for {
		n, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended before %s", event)
		}
		if n.Event == event {
			return n
		}
		if n.Event != "beat" {
			s.t.Fatalf("the stream told %s, not %s", n.Event, event)
		}
	}
}

func TestALiveStreamTellsWhatChangedAndResumes(t *testing.T) {
	s := newStage(t)
	alert, asked := s.drama()
	b := s.visitor(reads)
	end := s.end()
	live := b.stream("/live?after=" + strconv.FormatInt(int64(end), 10))
	if n := live.want("here"); n.Data.Position != end {
		t.Fatalf("it begins at %d, not %d", n.Data.Position, end)
	}
	s.say(smith, ops.SendRequest{ReplyTo: string(s.thread(alert).Root), To: "@trinity", Body: ops.Text("Live.")})
	n := live.want("change")
	if n.Data.Position <= end || len(n.Data.Threads) != 1 || n.Data.Threads[0] != alert || n.ID != strconv.FormatInt(int64(n.Data.Position), 10) {
		t.Fatalf("told %+v", n)
	}
	_ = live.w.Body.Close()

	// What happened while nobody listened is told to who comes again.
	s.say("@ana", ops.SendRequest{ReplyTo: string(s.thread(asked).Root), To: "@smith", Body: ops.Text("Still there?")})
	again := b.stream("/live?after=0", func(r *http.Request) { r.Header.Set("Last-Event-ID", n.ID) })
	again.want("here")
	if m := again.want("change"); m.Data.Position != s.end() || len(m.Data.Threads) != 1 || m.Data.Threads[0] != asked {
		t.Errorf("told %+v", m)
	}
	// A position ahead of the ledger is not waited for: the ledger may be another.
	if n := b.stream("/live?after=99999999").want("here"); n.Data.Position != s.end() {
		t.Errorf("it begins at %d", n.Data.Position)
	}
}

func TestALiveStreamIsNeverSilentForLong(t *testing.T) {
	s := newStage(t, func(c *dashboard.Config) { c.Heartbeat = 5 * time.Millisecond })
	s.join(smith, "smith", "codex")
	live := s.visitor(reads).stream("/live")
	live.want("here")
	for range 3 {
		n, ok := live.next()
		if !ok || n.Event != "beat" || len(n.Comments) != 1 || n.Data.Position != s.end() {
			t.Fatalf("told %+v, %v", n, ok)
		}
	}
}

func TestALiveStreamEndsWithItsToken(t *testing.T) {
	s := newStage(t, func(c *dashboard.Config) { c.Heartbeat = 5 * time.Millisecond })
	s.join(smith, "smith", "codex")
	b := s.visitor(reads)
	live := b.stream("/live")
	live.want("here")
	s.revoke(reads)
	live.want("over")
	if n, ok := live.next(); ok {
		t.Errorf("after the end it told %+v", n)
	}
	if a := b.get("/live"); a.status != http.StatusUnauthorized {
		t.Errorf("again gave %d", a.status)
	}
}

func TestALiveStreamEndsWhenTheServerStops(t *testing.T) {
	stop := make(chan struct{})
	s := newStage(t, func(c *dashboard.Config) { c.Stop = stop })
	s.join(smith, "smith", "codex")
	live := s.visitor(reads).stream("/live")
	live.want("here")
	close(stop)
	if n, ok := live.next(); ok {
		t.Errorf("it told %+v", n)
	}
}

func TestManyChangesAreOneNotice(t *testing.T) {
	s := newStage(t)
	s.join(smith, "smith", "codex")
	for i := range dashboard.LiveEventsMax/3 + 1 { // more events than are looked at
		s.join("many-"+strconv.Itoa(i), "", "codex")
	}
	live := s.visitor(reads).stream("/live?after=1")
	live.want("here")
	if n := live.want("change"); n.Data.Position != s.end() || !n.Data.More {
		t.Errorf("told %+v; the end is %d", n, s.end())
	}
}
