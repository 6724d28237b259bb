package mcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/callers"
	"decklog/internal/failure"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/internal/stamp"
	"decklog/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada = "aaaaaaaa-0000-4000-8000-000000000001"
	bob = "bbbbbbbb-0000-4000-8000-000000000002"
)

// house is a ledger behind a door, served over real HTTP. The token of a guest is
// the participant's own name, "read " before it for one that may only read, and
// "machine".
type house struct {
	*ops.Ops
	t       *testing.T
	door    *Door
	server  *httptest.Server
	client  *http.Client
	callers callers.Callers
	clock   atomic.Int64
	random  atomic.Uint64
	around  func(http.Handler) http.Handler // what stands before the door; nil: nothing
	watched *watched
	closed  bool // the ledger is
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, callers: callers.Beside(t.TempDir()), watched: &watched{Ledger: memory.New(projections.Project)}}
	h.clock.Store(int64(events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))))
	now := func() events.Time { return events.Time(h.clock.Load()) }
	h.Ops = &ops.Ops{Ledger: h.watched, World: ops.World{
		Now:    now,
		Random: func(b []byte) { binary.BigEndian.PutUint64(b[len(b)-8:], h.random.Add(1)) },
		Alive:  func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return true, now(), true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) {
			p := events.DefaultPolicy()
			p.Limits.SessionRate, p.Limits.DeviceRate, p.Limits.ThreadRate, p.Limits.RecipientFull, p.Limits.DuplicateWindow = 0, 0, 0, 0, 0
			p.Persons = []events.Person{{Name: "ana", OSUser: "ana"}}
			return p, nil
		},
	}}
	h.door = NewDoor(Config{
		Callers: h.callers, Version: "test", Now: func() time.Time { return now().Std() }, Stderr: io.Discard,
	}, h.guest)
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.around != nil {
			h.around(h.door).ServeHTTP(w, r)
			return
		}
		h.door.ServeHTTP(w, r)
	}))
	h.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		h.door.Close()
		h.server.Close()
		if h.closed {
			return
		}
		if a, err := h.Verify(); err != nil || !a.OK {
			t.Errorf("verify: %+v %v", a, err)
		}
	})
	for _, id := range []string{ada, bob} {
		if _, r, err := h.Join(ops.JoinRequest{Session: id, Harness: "codex"}); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	return h
}

func (h *house) after(d time.Duration) { h.clock.Add(d.Microseconds()) }

func (h *house) guest(r *http.Request) (Guest, error) {
	name, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return Guest{}, errors.New("who are you?")
	}
	desk := *h.Ops
	who, readOnly := strings.CutPrefix(name, "read ")
	if who != "machine" {
		desk.World.Claims = &ops.Claims{Token: events.Participant(who)}
	}
	return Guest{Ops: &desk, Token: name, ReadOnly: readOnly, Believed: who == "machine"}, nil
}

// bearer sends a token with each request.
type bearer struct {
	token string
	http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// connect is the SDK's own client, with a token and one version of the protocol.
func (h *house) connect(token, version string) *mcp.ClientSession {
	h.t.Helper()
	transport := &mcp.StreamableClientTransport{
		Endpoint: h.server.URL, HTTPClient: &http.Client{Transport: bearer{token, h.client.Transport}}, MaxRetries: -1,
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(h.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatalf("connect as %s by %s: %v", token, version, err)
	}
	h.t.Cleanup(func() { _ = session.Close() })
	return session
}

type result struct {
	text    string
	data    map[string]any
	isError bool
}

func (h *house) call(c *mcp.ClientSession, tool string, arguments any) result {
	h.t.Helper()
	r, err := c.CallTool(h.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		h.t.Fatalf("%s: %v", tool, err)
	}
	data, _ := r.StructuredContent.(map[string]any)
	return result{r.Content[0].(*mcp.TextContent).Text, data, r.IsError}
}

func (r result) receipt(field string) string {
	receipt, _ := r.data["receipt"].(map[string]any)
	value, _ := receipt[field].(string)
	return value
}

// recorded are the events of a type, those that are there when it is asked.
func (h *house) recorded(of events.Type) (found []events.Recorded) {
	h.t.Helper()
	err := h.Ledger.View(func(r events.Reader) error {
		all, err := r.All(1, 1_000_000)
		for _, one := range all {
			if one.Type() == of {
				found = append(found, one)
			}
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// await waits until there are n events of a type.
func (h *house) await(of events.Type, n int) []events.Recorded {
	h.t.Helper()
	for {
		at, err := h.End()
		if err != nil {
			h.t.Fatal(err)
		}
		if found := h.recorded(of); len(found) >= n {
			return found
		}
		if err := h.Past(h.t.Context(), at); err != nil {
			h.t.Fatalf("%d of %s never came: %v", n, of, err)
		}
	}
}

func (h *house) send(from, to, body string) string {
	h.t.Helper()
	receipt, r, err := h.Send(ops.SendRequest{Asker: ops.Asker{As: from}, To: to, Intent: "request", Body: []byte(body)})
	if r != nil || err != nil {
		h.t.Fatal(r, err)
	}
	return string(receipt.ID)
}

// instructed has bob take the instruction, so that what comes next is mail.
func (h *house) instructed(who string) {
	h.t.Helper()
	offered, r, err := h.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}})
	if r != nil || err != nil {
		h.t.Fatal(r, err)
	}
	if _, r, err = h.Confirm(ops.Asker{As: who}, offered.ID); r != nil || err != nil {
		h.t.Fatal(r, err)
	}
}

func TestEveryVersionOfTheProtocolIsServedOverHTTP(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t)
			as := map[string]*mcp.ClientSession{ada: h.connect(ada, version), bob: h.connect(bob, version)}
			if got := as[ada].InitializeResult(); got == nil || got.ProtocolVersion != version || got.Instructions != awayInstructions {
				t.Fatalf("initialized as %+v", got)
			}
			listed, err := as[ada].ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names, want []string
			for _, one := range listed.Tools {
				names = append(names, one.Name)
			}
			for _, one := range tools() {
				want = append(want, one.name)
			}
			slices.Sort(names)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("it has the tools %v", names)
			}
			sent := h.call(as[ada], "decklog_send", map[string]any{"to": bob, "intent": "request", "body": "Which <commit> & why?"})
			if sent.isError || sent.receipt("from") != ada {
				t.Fatalf("sent %+v", sent)
			}
			came := h.call(as[bob], "decklog_wait", map[string]any{})
			if came.isError || !strings.Contains(came.text, sent.receipt("id")) || !strings.Contains(came.text, "<decklog-instruction") {
				t.Fatalf("bob waited and got %s", came.text)
			}
			if got := h.await(events.TypeMailboxConfirmed, 1)[0].Event.(events.MailboxConfirmed); got.Mailbox != bob {
				t.Errorf("confirmed is %+v", got)
			}
			answered := h.call(as[bob], "decklog_send", map[string]any{"reply_to": sent.receipt("id"), "body": "4f2a9c1"})
			if answered.isError {
				t.Fatalf("answered %+v", answered)
			}
			thread := h.call(as[ada], "decklog_thread", map[string]any{"id": sent.receipt("id")})
			if thread.isError || !strings.Contains(thread.text, "4f2a9c1") || !strings.Contains(thread.text, `state="delivered"`) {
				t.Errorf("thread %s", thread.text)
			}
			if err := as[ada].Close(); err != nil {
				t.Error("close:", err)
			}
		})
	}
}

func TestOverHTTPTheTokenSaysWhoCallsAndNothingElse(t *testing.T) {
	h := newHouse(t)
	key, err := h.callers.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	stamped := func(as, use string, input map[string]any) json.RawMessage {
		t.Helper()
		plain, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := stamp.Sign(key, stamp.Claim{Session: as, Tool: "decklog_send", Use: use}, plain, h.World.Now().Std())
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := stamp.Into(plain, signed)
		if err != nil {
			t.Fatal(err)
		}
		return arguments
	}
	if err := h.callers.Note("toolu_1", callers.Use{Session: bob, Tool: "decklog_send", Made: h.World.Now().Std()}); err != nil {
		t.Fatal(err)
	}
	said := mcp.Meta{"threadId": bob, "x-codex-turn-metadata": map[string]any{}, "claudecode/toolUseId": "toolu_1"}
	for name, c := range map[string]struct {
		token string
		meta  mcp.Meta
		stamp string
		from  string
		code  string
	}{
		"a session's":                                      {token: ada, from: ada},
		"a session's, with the stamp of another":           {token: ada, stamp: bob, from: ada},
		"a session's, with what a harness says of another": {token: ada, meta: said, from: ada},
		"a person's":                                       {token: "@ana", from: "@ana"},
		"a person's, with a stamp":                         {token: "@ana", stamp: bob, from: "@ana"},
		"a bot's":                                          {token: "bot:pager", code: "no_caller"},
		"that of a session that nobody knows":              {token: "cccccccc-0000-4000-8000-000000000003", code: "sender_not_live"},
		"one that may only read":                           {token: "read " + ada, code: "read_only_token"},
		"the machine's":                                    {token: "machine", code: "no_caller"},
		"the machine's, with a stamp":                      {token: "machine", stamp: ada, from: ada},
		"the machine's, with what Codex says":              {token: "machine", meta: mcp.Meta{"threadId": bob, "x-codex-turn-metadata": map[string]any{}}, from: bob},
		"the machine's, with two that differ":              {token: "machine", stamp: ada, meta: mcp.Meta{"threadId": bob, "x-codex-turn-metadata": map[string]any{}}, code: "no_caller"},
	} {
		t.Run(name, func(t *testing.T) {
			input := map[string]any{"to": bob, "body": "hello of " + name}
			if c.from == bob {
				input["to"] = ada
			}
			p := &mcp.CallToolParams{Name: "decklog_send", Arguments: input, Meta: c.meta}
			if c.stamp != "" {
				p.Arguments = stamped(c.stamp, "", input)
			}
			got, err := h.connect(c.token, "2025-11-25").CallTool(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(got)
			if c.code != "" && (!got.IsError || !strings.Contains(string(text), `"`+c.code+`"`)) {
				t.Errorf("it is answered %s", text)
			}
			if c.code == "" && (got.IsError || !strings.Contains(string(text), `"from":"`+c.from+`"`)) {
				t.Errorf("it is answered %s", text)
			}
		})
	}
	inbox := h.call(h.connect("read "+bob, "2025-06-18"), "decklog_inbox", map[string]any{})
	if inbox.isError || !strings.Contains(inbox.text, "hello of") {
		t.Errorf("who may read reads %s", inbox.text)
	}
}

// raw sends a body as it is. The answer is closed by the test.
func (h *house) raw(ctx context.Context, method, token, body string, headers ...string) (*http.Response, error) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.server.URL, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return h.client.Do(r)
}

func (h *house) ask(method, token, body string, headers ...string) (status int, text string, header http.Header) {
	h.t.Helper()
	answer, err := h.raw(h.t.Context(), method, token, body, headers...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.StatusCode, string(read), answer.Header
}

// calling is a call of a tool as JSON.
func calling(id any, tool string, arguments any) string {
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestAnAnswerIsOneDocumentWithItsLength(t *testing.T) {
	h := newHouse(t)
	status, text, header := h.ask("POST", ada, calling(1, "decklog_peers", map[string]any{}), "Mcp-Protocol-Version", "2025-06-18")
	if status != 200 || !json.Valid([]byte(text)) || header.Get("Content-Type") != "application/json" || header.Get("Content-Length") != fmt.Sprint(len(text)) {
		t.Errorf("it is %d with %v: %s", status, header, text)
	}
	if strings.Contains(text, `\u003c`) || !strings.Contains(text, "<") {
		t.Errorf("its brackets are escaped: %s", text)
	}
}

func TestSeveralCallsInOneRequestAreAnsweredAndConfirmed(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	id := h.send(ada, bob, "one of them waits")
	body := "[" + calling(1, "decklog_wait", map[string]any{}) + "," + calling("two", "decklog_inbox", map[string]any{}) + "]"
	status, text, _ := h.ask("POST", bob, body, "Mcp-Protocol-Version", "2025-03-26")
	var all []map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil || status != 200 || len(all) != 2 || !strings.Contains(text, id) {
		t.Fatalf("%d %v: %s", status, err, text)
	}
	h.await(events.TypeMailboxConfirmed, 1)
	if status, _, _ := h.ask("POST", bob, body, "Mcp-Protocol-Version", "2025-06-18"); status != 400 {
		t.Errorf("a later version has batches: %d", status)
	}
}

func TestWhoHasNoTokenIsTurnedAwayBeforeItsBodyIsRead(t *testing.T) {
	h := newHouse(t)
	conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: deck\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
	answer := make([]byte, 4096)
	n, err := conn.Read(answer) // nothing of the body was sent
	if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 401 ")) {
		t.Errorf("it is answered %q, %v", answer[:n], err)
	}
}

func TestHostileRequestsAreAnsweredAndTheDoorGoesOn(t *testing.T) {
	h := newHouse(t)
	deep := strings.Repeat(`{"a":`, 20_000)
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		status       int
	}{
		"GET":                               {"GET", "", nil, 405},
		"DELETE":                            {"DELETE", "", []string{"Mcp-Session-Id", "x"}, 405},
		"PUT":                               {"PUT", "{}", nil, 405},
		"no body":                           {"POST", "", nil, 400},
		"no JSON":                           {"POST", "{", nil, 400},
		"no message":                        {"POST", `{"id":1}`, nil, 400},
		"an empty batch":                    {"POST", `[]`, nil, 400},
		"a batch of rubbish":                {"POST", `[1,"x",null,{}]`, nil, 400},
		"deep":                              {"POST", deep, nil, 400},
		"deep arguments":                    {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + deep, nil, 400},
		"binary":                            {"POST", "\x00\xff\xfe", nil, 400},
		"too large":                         {"POST", `"` + strings.Repeat("x", BodyBytesMax) + `"`, nil, 413},
		"another type":                      {"POST", "{}", []string{"Content-Type", "text/plain"}, 415},
		"a form":                            {"POST", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"no accept":                         {"POST", "{}", []string{"Accept", "text/html"}, 400},
		"an unknown version":                {"POST", calling(1, "decklog_peers", nil), []string{"Mcp-Protocol-Version", "1999-01-01"}, 400},
		"a place in a stream":               {"POST", calling(1, "decklog_peers", nil), []string{"Last-Event-Id", "x_1"}, 400},
		"an unknown method":                 {"POST", `{"jsonrpc":"2.0","id":1,"method":"sampling/steal"}`, nil, 400},
		"an id that is an object":           {"POST", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400},
		"an answer to nothing":              {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 202},
		"a call off of nothing":             {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, nil, 202},
		"a call off of an object":           {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":[]}}}`, nil, 202},
		"a new version that says no name":   {"POST", calling(1, "decklog_peers", nil), []string{"Mcp-Protocol-Version", "2026-07-28"}, 400},
		"an unknown tool":                   {"POST", calling(1, "rm", nil), nil, 200},
		"arguments that are a list":         {"POST", calling(1, "decklog_peers", []int{1}), nil, 200},
		"arguments that are not known":      {"POST", calling(1, "decklog_peers", map[string]any{"shell": "rm"}), nil, 200},
		"a wait of a million years":         {"POST", calling(1, "decklog_wait", map[string]any{"timeout_seconds": 1e12}), nil, 200},
		"a body with another's frame in it": {"POST", calling(1, "decklog_send", map[string]any{"to": bob, "body": "</decklog-message><script>"}), nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, _ := h.ask(c.method, ada, c.body, c.headers...)
			if status != c.status {
				t.Errorf("the answer is %d: %.300s", status, text)
			}
			if status, text, _ := h.ask("POST", ada, `{"jsonrpc":"2.0","id":"p","method":"ping"}`); status != 200 || !strings.Contains(text, `"result":{}`) {
				t.Errorf("then a ping is answered %d: %.300s", status, text)
			}
		})
	}
}

// waiting is a wait that has begun: who makes it sees it wait.
func (h *house) waiting(ctx context.Context, token string, id any, headers ...string) <-chan string {
	h.t.Helper()
	began := h.waits(1)
	answered := make(chan string, 1)
	go func() {
		answer, err := h.raw(ctx, "POST", token, calling(id, "decklog_wait", map[string]any{}), append([]string{"Mcp-Protocol-Version", "2025-06-18"}, headers...)...)
		if err != nil {
			answered <- "error: " + err.Error()
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			text = []byte("error: " + err.Error())
		}
		answered <- string(text)
	}()
	<-began
	return answered
}

// waits is closed once n calls wait for the ledger.
func (h *house) waits(n int) <-chan struct{} {
	h.watched.mu.Lock()
	defer h.watched.mu.Unlock()
	h.watched.left, h.watched.began = n, make(chan struct{})
	return h.watched.began
}

// watched tells when somebody waits for what comes after all that is there.
type watched struct {
	ops.Ledger
	mu    sync.Mutex
	left  int
	began chan struct{}
	after func() // each update; nil: nothing
}

func (w *watched) then(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = do
}

func (w *watched) Update(fn func(events.Tx) error) error {
	err := w.Ledger.Update(fn)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after != nil {
		w.after()
	}
	return err
}

func (w *watched) Wait(ctx context.Context, after events.Position) error {
	w.mu.Lock()
	if w.left--; w.left == 0 {
		close(w.began)
	}
	w.mu.Unlock()
	return w.Ledger.Wait(ctx, after)
}

func TestAClientThatGoesAwayTakesNothing(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	ctx, cancel := context.WithCancel(t.Context())
	answered := h.waiting(ctx, bob, 1)
	cancel()
	if text := <-answered; !strings.HasPrefix(text, "error: ") {
		t.Fatalf("it got %s", text)
	}
	h.door.idle()
	id := h.send(ada, bob, "Are you there?")
	came := h.call(h.connect(bob, "2025-06-18"), "decklog_wait", map[string]any{})
	if !strings.Contains(came.text, id) || !strings.Contains(came.text, `attempt="1"`) {
		t.Errorf("the next wait brings %s", came.text)
	}
	h.await(events.TypeMailboxConfirmed, 1)
}

// A connection that breaks under the answer: what was in it comes again.
func TestAnAnswerThatCannotBeWrittenIsNotConfirmedAndComesAgain(t *testing.T) {
	for name, breaks := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"the write fails": func(w http.ResponseWriter) http.ResponseWriter {
			return broken{ResponseWriter: w, write: errors.New("broken pipe")}
		},
		"the flush fails": func(w http.ResponseWriter) http.ResponseWriter {
			return broken{ResponseWriter: w, flush: errors.New("connection reset")}
		},
		"the client goes once it is leased": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.instructed(bob)
			id := h.send(ada, bob, "Are you there?")
			h.around = func(door http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, cancel := context.WithCancel(r.Context())
					defer cancel()
					if breaks == nil {
						h.watched.then(cancel)
						defer h.watched.then(nil)
					} else {
						w = breaks(w)
					}
					door.ServeHTTP(w, r.WithContext(ctx))
				})
			}
			answer, err := h.raw(t.Context(), "POST", bob, calling(1, "decklog_wait", map[string]any{}))
			if err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			h.door.idle()
			h.around = nil
			h.door.deliveries.pending.Wait()
			if leased, confirmed := h.recorded(events.TypeMailboxLeased), h.recorded(events.TypeMailboxConfirmed); len(leased) != 1 || len(confirmed) != 0 {
				t.Fatalf("it was leased %d times, and confirmed %d times", len(leased), len(confirmed))
			}
			h.after(11 * time.Second)
			came := h.call(h.connect(bob, "2025-06-18"), "decklog_wait", map[string]any{})
			if !strings.Contains(came.text, id) || !strings.Contains(came.text, `attempt="2"`) {
				t.Errorf("the next wait brings %s", came.text)
			}
			h.await(events.TypeMailboxConfirmed, 1)
		})
	}
}

// Many a client asks once, reads the answer, and closes.
func TestAClientThatClosesBehindTheAnswerHasIt(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	for n := range 30 {
		h.send(ada, bob, fmt.Sprint("one ", n))
		status, text, _ := h.ask("POST", bob, calling(n, "decklog_wait", map[string]any{}), "Connection", "close")
		if status != 200 || !strings.Contains(text, fmt.Sprint("one ", n)) {
			t.Fatalf("%d: %s", status, text)
		}
		h.await(events.TypeMailboxConfirmed, n+1)
	}
}

// broken is a connection that breaks.
type broken struct {
	http.ResponseWriter
	write, flush error
}

func (b broken) Write(p []byte) (int, error) {
	if b.write != nil {
		return 0, b.write
	}
	return b.ResponseWriter.Write(p)
}

func (b broken) FlushError() error { return b.flush }

func TestAWaitThatIsCalledOffOverHTTPTakesNothing(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	answered := h.waiting(t.Context(), bob, 7, "Mcp-Session-Id", "mine")
	off := func(token, session, id string) {
		t.Helper()
		status, text, _ := h.ask("POST", token, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, "Mcp-Session-Id", session)
		if status != 202 {
			t.Fatalf("%d: %s", status, text)
		}
	}
	// Nobody calls off another's.
	off(bob, "yours", "7")
	off(bob, "mine", "8")
	off(bob, "mine", `"7"`)
	off(ada, "mine", "7")
	if running := h.door.running(); running != 1 {
		t.Fatalf("%d calls run", running)
	}
	select {
	case text := <-answered:
		t.Fatalf("it ended with %s", text)
	default:
	}
	off(bob, "mine", "7")
	<-answered
	h.door.idle()
	id := h.send(ada, bob, "Are you there?")
	came := h.call(h.connect(bob, "2025-06-18"), "decklog_wait", map[string]any{})
	if !strings.Contains(came.text, id) || !strings.Contains(came.text, `attempt="1"`) {
		t.Errorf("the next wait brings %s", came.text)
	}
	h.await(events.TypeMailboxConfirmed, 1)
	h.door.idle()
	if running := h.door.running(); running != 0 {
		t.Errorf("%d calls are remembered", running)
	}
}

// running is how many calls the door knows to run.
func (d *Door) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.nowOn)
}

func TestTheSDKsClientCallsOffInEveryVersion(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t)
			h.instructed(bob)
			c := h.connect(bob, version)
			began := h.waits(1)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "decklog_wait", Arguments: map[string]any{}})
				ended <- err
			}()
			<-began
			cancel()
			if err := <-ended; err == nil {
				t.Fatal("it got an answer")
			}
			h.door.idle()
			id := h.send(ada, bob, "Are you there?")
			if came := h.call(c, "decklog_wait", map[string]any{}); !strings.Contains(came.text, id) || !strings.Contains(came.text, `attempt="1"`) {
				t.Errorf("the next wait brings %s", came.text)
			}
			h.await(events.TypeMailboxConfirmed, 1)
		})
	}
}

func TestAClientIsGivenASessionThatNobodyKeeps(t *testing.T) {
	h := newHouse(t)
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	_, _, one := h.ask("POST", ada, begin)
	_, _, two := h.ask("POST", ada, begin)
	first, second := one.Get("Mcp-Session-Id"), two.Get("Mcp-Session-Id")
	if len(first) < 20 || first == second {
		t.Fatalf("it is given %q, then %q", first, second)
	}
	// One that a server before this one gave is as good.
	if status, text, header := h.ask("POST", ada, calling(1, "decklog_peers", nil), "Mcp-Session-Id", "of-long-ago"); status != 200 || strings.Contains(text, `"isError":true`) || header.Get("Mcp-Session-Id") != "" {
		t.Errorf("with another it is answered %d, %v: %s", status, header, text)
	}
}

func TestADoorThatClosesAnswersThoseWhoWait(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	answered := h.waiting(t.Context(), bob, 1)
	listening, err := h.raw(t.Context(), "POST", ada,
		`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Body.Close()
	h.door.Close()
	var answer struct{ Result struct{ IsError bool } }
	if text := <-answered; json.Unmarshal([]byte(text), &answer) != nil || strings.Contains(text, `"error":`) {
		t.Errorf("who waited is answered %s", text)
	}
	if text, err := io.ReadAll(listening.Body); err != nil {
		t.Errorf("who listened is answered %d, %q, %v", listening.StatusCode, text, err)
	}
	if status, _, _ := h.ask("POST", ada, calling(1, "decklog_peers", nil)); status != http.StatusServiceUnavailable {
		t.Errorf("who comes later is answered %d", status)
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	h := newHouse(t)
	h.instructed(bob)
	const clients, each = 8, 5
	var all sync.WaitGroup
	got := map[string]int{}
	var mu sync.Mutex
	for range clients {
		c := h.connect(ada, "")
		all.Go(func() {
			for n := range each {
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "decklog_send", Arguments: map[string]any{"to": bob, "body": fmt.Sprint("of one ", n, time.Now().UnixNano())}})
				if err != nil || r.IsError {
					t.Error(r, err)
				}
			}
		})
	}
	stop, cancel := context.WithCancel(t.Context())
	for range 3 {
		c := h.connect(bob, "")
		all.Go(func() {
			for stop.Err() == nil {
				r, err := c.CallTool(stop, &mcp.CallToolParams{Name: "decklog_wait", Arguments: map[string]any{}})
				if err != nil {
					return
				}
				mu.Lock()
				for _, part := range strings.Split(r.Content[0].(*mcp.TextContent).Text, `<decklog-message id="`)[1:] {
					got[part[:strings.IndexByte(part, '"')]]++
				}
				if len(got) == clients*each {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	cancel()
	if len(got) != clients*each {
		t.Errorf("%d of %d came", len(got), clients*each)
	}
}

func TestTheDoorTellsNoBodyToTheLog(t *testing.T) {
	h := newHouse(t)
	var log bytes.Buffer
	h.door.Stderr = &log
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h.closed = true
	c := h.connect(ada, "2025-06-18")
	if r := h.call(c, "decklog_send", map[string]any{"to": bob, "body": "the-secret-word"}); !r.isError {
		t.Errorf("a closed ledger answers %s", r.text)
	}
	if log.Len() == 0 || strings.Contains(log.String(), "the-secret-word") {
		t.Errorf("the log says %q", log.String())
	}
}

// A client of which nothing is known has no hook, as far as anybody can tell: it is
// told to fetch its mail, and no hook is spoken of.
func TestWhatIsSaidIsTrueOfTheClient(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t)
			h.World.Seen = func(events.SessionID) (bool, events.Time, bool) { return false, h.World.Now(), true } // all are idle
			said := func(as string) (instructions, descriptions, schemas string) {
				t.Helper()
				c := h.connect(as, version)
				listed, err := c.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range listed.Tools {
					schema, err := json.Marshal(one.InputSchema)
					if err != nil {
						t.Fatal(err)
					}
					descriptions += one.Description + "\n"
					schemas += string(schema)
				}
				return c.InitializeResult().Instructions, descriptions, schemas
			}
			here, tools, schemas := said("machine")
			if !strings.Contains(here, "by themselves") || !strings.Contains(tools, "by itself") || !strings.Contains(schemas, stamp.Field) {
				t.Errorf("on this machine it is said: %s\n%s\n%s", here, tools, schemas)
			}
			there, tools, schemas := said(ada)
			for _, untrue := range []string{"by itself", "by themselves", "hook", stamp.Field, "o not poll"} {
				if strings.Contains(there+tools+schemas, untrue) {
					t.Errorf("elsewhere %q is said: %s\n%s\n%s", untrue, there, tools, schemas)
				}
			}
			if !strings.Contains(there, "decklog_wait") {
				t.Errorf("elsewhere it is not said how mail is fetched: %s", there)
			}
			as := h.connect(ada, version)
			sent := h.call(as, "decklog_send", map[string]any{"to": "@ana", "intent": "request", "body": "May I?"})
			if sent.isError || strings.Contains(sent.text, "by itself") || !strings.Contains(sent.receipt("next"), "Fetch the answer with decklog_wait") {
				t.Errorf("sent %+v", sent)
			}
			nothing := h.call(as, "decklog_wait", map[string]any{"id": sent.receipt("id"), "timeout_seconds": 1})
			if nothing.isError || strings.Contains(nothing.text, "by itself") {
				t.Errorf("waited %+v", nothing)
			}
			h.send(bob, ada, "Which commit?")
			came := h.call(as, "decklog_wait", map[string]any{})
			if !strings.Contains(came.text, "<decklog-instruction") || !strings.HasPrefix(came.text, "[What the instruction says is brought to you, you fetch with decklog_wait.]") {
				t.Errorf("came %+v", came)
			}
		})
	}
}

func TestWhoMayOnlyReadSeesTheToolsThatOnlyRead(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t)
			c := h.connect("read "+ada, version)
			listed, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, one := range listed.Tools {
				names = append(names, one.Name)
			}
			slices.Sort(names)
			want := readers()
			slices.Sort(want)
			if len(want) != 5 || !slices.Equal(names, want) {
				t.Errorf("it has the tools %v", names)
			}
			if says := c.InitializeResult().Instructions; !strings.Contains(says, "may only read") || strings.Contains(says, "decklog_send") {
				t.Errorf("it is told %s", says)
			}
			for _, one := range tools() {
				got := h.call(c, one.name, map[string]any{})
				code, _ := got.data["error"].(map[string]any)
				if refused := got.isError && code["code"] == "read_only_token"; refused == one.readOnly {
					t.Errorf("%s: %+v", one.name, got)
				} else if refused && !strings.Contains(got.text, "decklog_inbox") {
					t.Errorf("%s does not say what works: %s", one.name, got.text)
				}
			}
		})
	}
}

func TestARequestThatReachesNoToolIsToldInJSON(t *testing.T) {
	h := newHouse(t)
	for what, c := range map[string]struct {
		token, body string
		status      int
	}{
		"without a token": {"", "{}", http.StatusUnauthorized},
		"too large":       {"Bearer " + ada, strings.Repeat(" ", BodyBytesMax+1), http.StatusRequestEntityTooLarge},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", c.token)
		}
		res, err := h.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var said struct{ Error failure.Failure }
		err = json.NewDecoder(res.Body).Decode(&said)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != c.status || said.Error.Code == "" || said.Error.Fix == "" || res.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %s %s %+v, %v", what, res.Status, res.Header.Get("Content-Type"), said, err)
		}
	}
}
