package serve_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/internal/serve"
	"decklog/internal/token"
	"decklog/projections"
)

// streams fails when it is told of a wait, if it is to, and passes on why each went.
type streams struct {
	fails atomic.Bool
	why   chan string
}

func (s *streams) Opened(string) {
	if s.fails.Load() {
		panic("told of a stream")
	}
}

func (s *streams) Closed(_, reason string) {
	select {
	case s.why <- reason:
	default: // nobody asks
	}
}

// manned is a server with the machine's token, and alice's standing instruction out
// of the way.
type manned struct {
	*door
	desk    *ops.Ops
	machine string
	core    *serve.Server
	streams streams
}

func man(t *testing.T, ledger ops.Ledger) *manned {
	t.Helper()
	m := &manned{desk: &ops.Ops{Ledger: ledger, World: ops.World{
		Now: func() events.Time { return start }, Random: func(b []byte) { _, _ = rand.Read(b) }, Alive: func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return events.DefaultPolicy(), nil },
	}}}
	for _, id := range []string{alice, bob} {
		_, r, err := m.desk.Join(ops.JoinRequest{Session: id, Harness: "codex", Cwd: "/"})
		var offered ops.Offered
		if r == nil && err == nil {
			offered, r, err = m.desk.Lease(ops.LeaseRequest{Asker: ops.Asker{As: id}})
		}
		if r == nil && err == nil {
			_, r, err = m.desk.Confirm(ops.Asker{As: id}, offered.ID)
		}
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	folder := t.TempDir()
	var err error
	if m.machine, err = token.MakeMachine(folder); err != nil {
		t.Fatal(err)
	}
	m.door = &door{T: t, tokens: token.Open(folder), log: &lines{}}
	log := slog.New(slog.NewTextHandler(m.log, nil))
	m.guard = serve.NewGuard(serve.GuardConfig{Tokens: m.tokens, Now: m.desk.World.Now, Log: log})
	m.streams.why = make(chan string, 1)
	m.core = serve.New(serve.Config{Ops: m.desk, Who: serve.Who, Good: m.guard.Good, Log: log, Streams: &m.streams})
	t.Cleanup(m.core.Wait)
	t.Cleanup(m.core.Close)
	mux := http.NewServeMux()
	m.core.Register(mux)
	rules := serve.Rules()
	m.door.serve(nil, nil, m.guard.Around(mux, func(pattern string) serve.Rule { return rules[pattern] }))
	return m
}

func (m *manned) send(q ops.SendRequest) events.MessageID {
	m.Helper()
	q.As = bob
	receipt, r, err := m.desk.Send(q)
	if r != nil || err != nil {
		m.Fatal(r, err)
	}
	return events.MessageID(receipt.ID)
}

// waits begins to wait as alice, and gives the answer once it has begun.
func (m *manned) waits(w *wire, proto, body, behind string) (*http.Response, func() api.WaitLine) {
	m.Helper()
	w.say("POST /v1/wait %s\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s", proto, m.machine, len(body), body, behind)
	response, err := http.ReadResponse(w.from, nil)
	if err != nil {
		m.Fatal(err)
	}
	w.say("%s", behind) // once more, where nobody has read ahead
	if response.StatusCode != 200 {
		m.Fatalf("%+v", w.door.read(response))
	}
	from := bufio.NewReader(response.Body)
	return response, func() (l api.WaitLine) {
		m.Helper()
		line, err := from.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(line), &l)
		}
		if err != nil || l == (api.WaitLine{}) {
			m.Fatalf("the wait said %q: %v", line, err)
		}
		return l
	}
}

func (m *manned) confirms(lease events.LeaseID, body string) {
	m.Helper()
	if got := m.ask(ask{method: "POST", path: "/v1/leases/" + string(lease) + "/confirm", body: body}.bearing(m.machine)); got.status != 200 {
		m.Errorf("the confirm: %d %s", got.status, got.body)
	}
}

// Some clients end a body with a line of their own; an older one knows no chunks.
func TestAWaitGoesOnWhateverItsClientIsLike(t *testing.T) {
	for _, c := range []struct{ proto, behind, says, coding string }{
		{"HTTP/1.1", "", "HTTP/1.1", "chunked"}, {"HTTP/1.1", "\r\n", "HTTP/1.1", "chunked"},
		{"HTTP/1.1", "\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1", "chunked"}, {"HTTP/1.0", "", "HTTP/1.1", ""},
	} {
		t.Run(fmt.Sprintf("%q", c), func(t *testing.T) {
			m := man(t, memory.New(projections.Project))
			response, line := m.waits(m.raw(), c.proto, `{"as":"`+alice+`"}`, c.behind)
			if coding := strings.Join(response.TransferEncoding, ","); coding != c.coding {
				t.Errorf("it is answered in %s, %q", response.Proto, coding)
			}
			sent := m.send(ops.SendRequest{To: alice, Intent: "inform", Body: []byte("Hello.")})
			came := line().Came
			if came == nil || len(came.Messages) != 1 || came.Messages[0].ID != sent {
				t.Fatalf("what came is %+v", came)
			}
			m.confirms(came.Lease, `{"as":"`+alice+`"}`)
			if ended := line().Ended; ended == nil || ended.TimedOut {
				t.Errorf("it ended with %+v", ended)
			}
			if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
				t.Errorf("and then it said %q: %v", rest, err)
			}
		})
	}
}

func TestAClientMayConfirmWithACommandOfItsOwn(t *testing.T) {
	m := man(t, memory.New(projections.Project))
	_, line := m.waits(m.raw(), "HTTP/1.1", `{"as":"`+alice+`"}`, "")
	m.send(ops.SendRequest{To: alice, Intent: "inform", Body: []byte("Hello.")})
	came := line().Came
	if came == nil || came.Lease == "" {
		t.Fatalf("what came is %+v", came)
	}
	m.confirms(came.Lease, `{"as":"`+alice+`","command":"01a22e58-34a8-753d-901f-757b6505aad7"}`)
	if l := line(); l.Ended == nil || l.Ended.TimedOut || len(l.Ended.Messages) != 1 {
		t.Errorf("it ended with %+v", l)
	}
}

// A ledger that cannot be read is one reason, and raises an alert: who only went, or
// was there when the server ended, is none of it.
func TestWhyAWaitIsNoMoreIsTold(t *testing.T) {
	for why, ends := range map[string]func(*manned, *wire, events.LeaseID){
		"gone":     func(_ *manned, w *wire, _ events.LeaseID) { w.Close() },
		"shutdown": func(m *manned, _ *wire, _ events.LeaseID) { m.core.Close() },
		"ended":    func(m *manned, _ *wire, lease events.LeaseID) { m.confirms(lease, `{"as":"`+alice+`"}`) },
	} {
		t.Run(why, func(t *testing.T) {
			m := man(t, memory.New(projections.Project))
			w := m.raw()
			_, line := m.waits(w, "HTTP/1.1", `{"as":"`+alice+`"}`, "")
			m.send(ops.SendRequest{To: alice, Intent: "inform", Body: []byte("Hello.")})
			came := line().Came
			if came == nil || came.Lease == "" {
				t.Fatalf("what came is %+v", came)
			}
			ends(m, w, came.Lease)
			if told := until(t, m.streams.why); told != why {
				t.Errorf("it is told of as %q", told)
			}
		})
	}
	m := man(t, memory.New(projections.Project))
	m.waits(m.raw(), "HTTP/1.1", `{"as":"`+alice+`"}`, "")
	if err := m.desk.Close(); err != nil {
		t.Fatal(err)
	}
	if told := until(t, m.streams.why); told != "failed" {
		t.Errorf("of a ledger that was closed it is told as %q", told)
	}
}

func TestAPanicInAWaitEndsThatWaitAlone(t *testing.T) {
	m := man(t, memory.New(projections.Project))
	m.streams.fails.Store(true)
	w := m.raw()
	m.waits(w, "HTTP/1.1", `{"as":"`+alice+`"}`, "")
	if said := w.over(); strings.Contains(said, "ended") {
		t.Errorf("it said %q", said)
	}
	m.streams.fails.Store(false)
	_, line := m.waits(m.raw(), "HTTP/1.1", `{"as":"`+alice+`","within_us":1000}`, "")
	if l := line(); l.Ended == nil || !l.Ended.TimedOut {
		t.Errorf("the next one said %+v", l)
	}
	if said := m.log.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "panic") {
		t.Errorf("the log says %s", said)
	}
}

func TestAWaitForAThreadTellsWhereItBeganAndGoesOnFromThere(t *testing.T) {
	m := man(t, memory.New(projections.Project))
	first := m.send(ops.SendRequest{To: alice, Intent: "inform", Body: []byte("First.")})
	wait := `{"as":"` + bob + `","id":"` + string(first) + `","for":"any","within_us":1000`
	_, line := m.waits(m.raw(), "HTTP/1.1", wait+"}", "")
	began := line().Began
	if end, err := m.desk.End(); err != nil || began == nil || *began != end {
		t.Fatalf("it began at %v, and the end is %d: %v", began, end, err)
	}
	if l := line(); l.Ended == nil || !l.Ended.TimedOut {
		t.Fatalf("it said %+v", l)
	}
	_, r, err := m.desk.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, ReplyTo: string(first), To: "@ana", Body: []byte("Meanwhile.")})
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	_, line = m.waits(m.raw(), "HTTP/1.1", fmt.Sprintf("%s,\"since\":%d}", wait, *began), "")
	if again := line().Began; again == nil || *again != *began {
		t.Errorf("asked again it began at %v", again)
	}
	if l := line(); l.Came == nil || len(l.Came.Messages) != 1 || string(l.Came.Messages[0].Body) != "Meanwhile." {
		t.Errorf("asked again it said %+v", l)
	}
	for _, since := range []int{-1, 1000} {
		_, line = m.waits(m.raw(), "HTTP/1.1", fmt.Sprintf("%s,\"since\":%d}", wait, since), "")
		if l := line(); l.Refusal == nil || l.Refusal.Code != "bad_request" {
			t.Errorf("since %d: %+v", since, l)
		}
	}
}

func TestAskingForTheHeaderOfTheEventsEnds(t *testing.T) {
	m := man(t, memory.New(projections.Project))
	for accept, kind := range map[string]string{"": "text/event-stream", "application/x-ndjson": "application/x-ndjson"} {
		got := m.ask(ask{method: "HEAD", path: "/v1/events"}.bearing(m.machine).with("Accept", accept))
		if got.status != 200 || got.header.Get("Content-Type") != kind || got.body != "" {
			t.Errorf("%+v", got)
		}
	}
}

func TestAStreamFromBehindTheEndIsRefused(t *testing.T) {
	m := man(t, memory.New(projections.Project))
	end, err := m.desk.End()
	if err != nil {
		t.Fatal(err)
	}
	one := ask{method: "GET", path: "/v1/events?wait=false"}.bearing(m.machine)
	for last, code := range map[events.Position]string{end - 1: "", end: "", end + 1: "beyond_end", 1 << 40: "beyond_end"} {
		if got := m.ask(one.with("Last-Event-ID", fmt.Sprint(last))); got.code != code || (got.status == 200) != (code == "") {
			t.Errorf("Last-Event-ID %d of %d: %d %s", last, end, got.status, got.body)
		}
		from := one
		from.path += fmt.Sprint("&from=", last+1)
		if got := m.ask(from); got.code != code {
			t.Errorf("from %d of %d: %d %s", last+1, end, got.status, got.body)
		}
	}
}

func TestAServerOfWhichNobodyIsWokenIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memory.New(projections.Project)
		broken := memory.New(projections.Project)
		if err := broken.Close(); err != nil {
			t.Fatal(err)
		}
		hub := ops.NewHub(broken)
		server := serve.New(serve.Config{Ops: &ops.Ops{Ledger: ledger, Hub: hub}})
		server.Audited(serve.Audit{OK: true})
		mux := http.NewServeMux()
		server.Register(mux)
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); hub.Run(ctx, nil) }()
		synctest.Wait()
		ready := ready(mux)
		if ready.Ready || !strings.Contains(ready.Says, "woken") {
			t.Errorf("it says %+v", ready)
		}
		end()
		<-ended
	})
}

// gated is a ledger whose readers wait at a gate.
type gated struct {
	ops.Ledger
	gate    chan struct{}
	waiting atomic.Int64
	reads   atomic.Int64
}

func (g *gated) View(read func(events.Reader) error) error {
	g.waiting.Add(1)
	<-g.gate
	g.waiting.Add(-1)
	g.reads.Add(1)
	return g.Ledger.View(read)
}

func TestTheWholeLedgerIsReadForOneAtATimeAndForNobodyWhoIsGone(t *testing.T) {
	filled := man(t, memory.New(projections.Project)).desk.Ledger
	synctest.Test(t, func(t *testing.T) {
		ledger := &gated{Ledger: filled, gate: make(chan struct{})}
		server := serve.New(serve.Config{Ops: &ops.Ops{Ledger: ledger}})
		defer server.Close()
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 20)
		ask := func(n int) {
			for range n {
				go func() {
					a, err := server.Verify(ctx, nil)
					if err == nil && !a.OK {
						err = fmt.Errorf("found %+v", a)
					}
					ended <- err
				}()
				synctest.Wait()
			}
		}
		ask(10)
		if n := ledger.waiting.Load(); n != 1 {
			t.Errorf("%d read at the same time", n)
		}
		close(ledger.gate)
		for range 10 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		both := ledger.reads.Load()
		ask(1)
		<-ended
		one := ledger.reads.Load() - both
		if both != 2*one {
			t.Errorf("ten askers cost %d reads, and one costs %d", both, one)
		}
		// Those who go take the reading with them.
		ledger.gate = make(chan struct{})
		before := ledger.reads.Load()
		ask(2)
		leave()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		close(ledger.gate)
		synctest.Wait()
		if n := ledger.reads.Load() - before; n >= one {
			t.Errorf("for nobody it read %d times, and for one %d", n, one)
		}
	})
}

// ready is what a server says of itself to who asks on this machine.
func ready(mux http.Handler) (r serve.Ready) {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	_ = json.Unmarshal(w.Body.Bytes(), &r)
	return r
}

// meddled is a ledger in which something happens right after a reading of it.
type meddled struct {
	ops.Ledger
	views  atomic.Int32 // that are yet to be read before it happens
	happen func()
	waits  chan struct{} // somebody has looked, and waits
}

func (l *meddled) Wait(ctx context.Context, after events.Position) error {
	select {
	case l.waits <- struct{}{}:
	default:
	}
	return l.Ledger.Wait(ctx, after)
}

func (l *meddled) View(fn func(events.Reader) error) error {
	err := l.Ledger.View(fn)
	if l.views.Add(-1) == 0 {
		l.happen()
	}
	return err
}

// Whoever follows looks, and then waits: what comes between the two is told all the same.
func TestWhatComesBetweenALookAndAWaitIsTold(t *testing.T) {
	for _, query := range []string{"", "&type=message.sent", "&thread="} {
		for after, more := int32(1), true; more; after++ {
			ledger := &meddled{Ledger: memory.New(projections.Project), waits: make(chan struct{}, 1)}
			m := man(t, ledger)
			root := m.send(ops.SendRequest{To: alice, Body: ops.Text("The first.")})
			of := query
			if strings.HasSuffix(of, "=") {
				of += string(root)
			}
			end, err := m.desk.End()
			if err != nil {
				t.Fatal(err)
			}
			happened := make(chan struct{})
			ledger.happen = func() {
				m.send(ops.SendRequest{ReplyTo: string(root), Body: ops.Text("Between.")})
				close(happened)
			}
			ledger.views.Store(after)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/v1/events?from=%d%s", m.addr, end+1, of), nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+m.machine)
			response, err := m.client.Do(request)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatal(err, response)
			}
			<-ledger.waits
			select {
			case <-happened:
			default: // all readings have been tried
				if more = false; after < 3 {
					t.Errorf("there were only %d readings", after-1)
				}
			}
			told := bufio.NewScanner(response.Body)
			for more && told.Text() != "event: message.sent" {
				if !told.Scan() {
					t.Fatalf("%q: what came after reading %d is not told: %v", of, after, told.Err())
				}
			}
			_ = response.Body.Close()
		}
	}
}
