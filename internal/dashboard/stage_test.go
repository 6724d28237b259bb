package dashboard_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/dashboard"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/projections"
)

// The tokens of the stage: of a person who may write, of one who may only read, and
// of the session on a seat.
const (
	writes = "dlk_writes_0123456789"
	reads  = "dlk_reads_0123456789"
	seated = "dlk_seated_0123456789"
	loosed = "dlk_loosed_0123456789" // a session without a seat
	onSeat = "dlk_onseat_0123456789" // a seat
	vacant = "dlk_vacant_0123456789" // a seat that nobody occupies
	robot  = "dlk_robot_0123456789"
	brief  = "dlk_brief_0123456789" // a person's, for an hour
)

const (
	smith   = "5a17b000-0000-4000-8000-000000000001"
	trinity = "7a101700-0000-4000-8000-000000000002"
	loose   = "10050000-0000-4000-8000-000000000003"
)

// stage is a ledger in memory with a clock that a test sets, and the dashboard on it
// behind a real server.
type stage struct {
	t *testing.T
	*ops.Ops
	server *httptest.Server
	stop   chan struct{}

	mu      sync.Mutex
	now     events.Time
	revoked map[string]bool
	failed  []error
	verdict events.Verdict
	n       atomic.Uint64
}

func (s *stage) clock() events.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stage) after(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *stage) revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked[token] = true
}

func newStage(t *testing.T, change ...func(*dashboard.Config)) *stage {
	s := &stage{
		t: t, now: events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)), revoked: map[string]bool{}, stop: make(chan struct{}), verdict: events.VerdictStay,
	}
	policy := events.DefaultPolicy()
	policy.Seats = []events.Seat{{Name: "smith", Stickers: []string{"driver-smith"}}, {Name: "trinity", Stickers: []string{"driver-trinity"}}, {Name: "tank"}}
	policy.Persons = []events.Person{{Name: "ana", OSUser: "ana", Home: "smith", Roles: []string{"owner"}}, {Name: "neo", OSUser: "neo"}}
	policy.Areas = []events.Area{{Seat: "trinity", Priority: 10, Match: []string{"guest-card"}, Reason: "guest-card delivery"}}
	policy.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	policy.Routing = &events.Routing{Classifier: []string{"ask"}, Timeout: events.Span(time.Second)}
	s.Ops = &ops.Ops{
		Ledger: memory.New(projections.Project),
		World: ops.World{
			Now:    s.clock,
			Random: func(b []byte) { binary.BigEndian.PutUint64(b[len(b)-8:], s.n.Add(1)) },
			Alive:  func(events.Process) bool { return true },
			Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
			Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
			PolicyFile: func() (events.Policy, error) { return policy, nil },
			Classify:   s.classify,
		},
	}
	c := dashboard.Config{
		Open: s.open, Now: s.clock, Stop: s.stop,
		Failed: func(r *http.Request, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = append(s.failed, fmt.Errorf("%s %s: %w", r.Method, r.URL, err))
		},
	}
	for _, f := range change {
		f(&c)
	}
	s.server = httptest.NewServer(dashboard.New(c))
	t.Cleanup(func() {
		close(s.stop)
		s.server.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, err := range s.failed {
			t.Errorf("the dashboard failed: %v", err)
		}
	})
	return s
}

// ---- What happens in the ledger.

func (s *stage) ok(r *commands.Refusal, err error) {
	s.t.Helper()
	if r != nil || err != nil {
		s.t.Fatalf("refused %+v, error %v", r, err)
	}
}

func (s *stage) join(session, seat, harness string) {
	s.t.Helper()
	_, r, err := s.Join(ops.JoinRequest{Session: session, Seat: seat, Harness: harness, Cwd: "/w/main", Repo: "/w/main", Branch: "main", Title: "the lease work"})
	s.ok(r, err)
	s.take(session)
}

func (s *stage) say(as string, q ops.SendRequest) commands.SendReceipt {
	s.t.Helper()
	q.As = as
	receipt, r, err := s.Send(q)
	s.ok(r, err)
	return receipt
}

func (s *stage) take(who string) {
	s.t.Helper()
	o, r, err := s.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}, Harness: "claude-code", Hook: "PostToolUse"})
	s.ok(r, err)
	if o.ID != "" {
		_, r, err = s.Confirm(ops.Asker{}, o.ID)
		s.ok(r, err)
	}
}

func request(to, body string) ops.SendRequest {
	return ops.SendRequest{To: to, Intent: "request", Body: ops.Text(body)}
}

func reply(to events.MessageID, body string) ops.SendRequest {
	return ops.SendRequest{ReplyTo: string(to), Body: ops.Text(body)}
}

// drama plays a ledger in which everything has happened once. It gives the thread of
// the alert, and that of the person's request.
func (s *stage) drama() (alert, asked events.ThreadID) {
	s.t.Helper()
	s.join(smith, "smith", "claude-code")
	s.join(trinity, "trinity", "codex")
	s.join(loose, "", "gemini")
	s.after(3 * time.Minute)
	root, r, err := s.Alert(ops.AlertRequest{Asker: ops.Asker{As: "bot:pager"}, Channel: "#alerts", Body: ops.Text("guest-card delivery: 14 of 20 failed in the last hour"), Payload: ops.Text("{\"failed\": 14,\n \"of\": 20}")})
	s.ok(r, err)
	s.after(8 * time.Second)
	s.take(trinity)
	s.take(smith)
	s.after(20 * time.Second)
	stub := s.say(trinity, ops.SendRequest{ReplyTo: string(root.ID), Turn: "working", Body: ops.Text("Looking at the sync.")})
	s.after(40 * time.Second)
	_, r, err = s.Edit(ops.EditRequest{Asker: ops.Asker{As: trinity}, Message: string(stub.ID), Turn: "final", Body: ops.Text("The sync token has run out.\n\nIt is minted in the build and lives 30 days; the last build with a new one is 31 days old. Every delivery since 08:41 fails with 401.")})
	s.ok(r, err)
	_, r, err = s.Card(ops.CardRequest{Asker: ops.Asker{As: trinity}, Thread: string(root.Thread), Subject: ops.Text("guest-card delivery fails"), Work: "@ana", Status: "investigating"})
	s.ok(r, err)
	s.after(70 * time.Second)
	offer, r, err := s.OfferHandoff(ops.OfferRequest{Asker: ops.Asker{As: trinity}, Thread: string(root.Thread), To: "smith", Reason: ops.Text("The token is minted in your build."), Link: "https://alerts.example/17"})
	s.ok(r, err)
	s.after(12 * time.Second)
	s.take(smith)
	_, r, err = s.AcceptHandoff(ops.HandoffRequest{Asker: ops.Asker{As: smith}, Handoff: offer.ID})
	s.ok(r, err)
	s.after(4 * time.Minute)
	fixed := s.say(smith, ops.SendRequest{ReplyTo: string(stub.ID), Body: ops.Text("Fixed in 4f2a9c1: the build mints a token at every run, and says so when it cannot."), Refs: []string{"commit:4f2a9c1d00aa", "file:build/mint.go:42"}})
	review, r, err := s.AskReview(ops.ReviewRequest{Asker: ops.Asker{As: smith}, Thread: string(root.Thread), Commit: "4f2a9c1d00aa", Author: "@smith"})
	s.ok(r, err)
	_, refused, err := s.Send(ops.SendRequest{Asker: ops.Asker{As: loose}, ReplyTo: string(fixed.ID), Body: ops.Text("Me too")})
	if err != nil || refused == nil {
		s.t.Fatalf("nobody refused the stranger: %v", err)
	}
	s.after(time.Minute)
	s.take(trinity)
	_, r, err = s.LabelReview(ops.LabelRequest{Asker: ops.Asker{As: trinity}, Review: review.ID, Label: "root", Risk: "low"})
	s.ok(r, err)

	s.after(5 * time.Minute)
	question := s.say("@ana", request("", "The nightly report is empty since Friday."))
	s.after(30 * time.Second)
	_, r, err = s.Ack(ops.AckRequest{Asker: ops.Asker{As: smith}, Message: string(question.ID), Ack: "act"})
	s.ok(r, err)
	s.take(smith)
	s.say(smith, ops.SendRequest{ReplyTo: string(question.ID), Turn: "working", Body: ops.Text("Reading the job's log.")})

	s.say(loose, request(smith[:8], "Does the lease fix cover a clock that jumps back?"))
	s.say("@neo", ops.SendRequest{To: "@tank", Body: ops.Text("When you are there: the disk of the second machine is at 91 %.")})
	closed := s.say(loose, request(trinity[:8], "Which commit fixed the lease test?"))
	s.take(trinity)
	answer := s.say(trinity, reply(closed.ID, "4f2a9c1"))
	s.take(loose)
	s.say(loose, ops.SendRequest{ReplyTo: string(answer.ID), Intent: "done", Body: ops.Text("Thank you.")})
	s.after(20 * time.Second)
	return root.Thread, question.Thread
}

// ---- What a browser does, without a script.

// browser is somebody at the dashboard, without a script.
type browser struct {
	t      *testing.T
	s      *stage
	client *http.Client
}

// visitor is a browser that holds a token; none when it is empty.
func (s *stage) visitor(token string) *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	b := &browser{t: s.t, s: s, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if token != "" {
		if a := b.post("/login", url.Values{"token": {token}}); a.status != http.StatusSeeOther {
			s.t.Fatalf("the login gave %d: %s", a.status, a.body)
		}
	}
	return b
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   string
	to     string // where it sent the browser
}

func (b *browser) do(method, path string, form url.Values, change ...func(*http.Request)) answer {
	b.t.Helper()
	r, err := http.NewRequest(method, b.s.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.s.server.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, c := range change {
		c(r)
	}
	w, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{w.StatusCode, w.Header, string(body), w.Header.Get("Location")}
}

func (b *browser) get(path string, change ...func(*http.Request)) answer {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil, change...)
}

func (b *browser) post(path string, form url.Values, change ...func(*http.Request)) answer {
	b.t.Helper()
	return b.do(http.MethodPost, path, form, change...)
}

// page is a page that must be there.
func (b *browser) page(path string) string {
	b.t.Helper()
	a := b.get(path)
	if a.status != http.StatusOK {
		b.t.Fatalf("%s gave %d: %s", path, a.status, a.body)
	}
	return a.body
}

var (
	formPattern  = regexp.MustCompile(`(?s)<form[^>]*\baction="([^"]*)"[^>]*>(.*?)</form>`)
	inputPattern = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// form is the form of a page that goes to an address and holds a text; what it
// carries is filled in.
func (b *browser) form(page, action, holds string) url.Values {
	b.t.Helper()
	for _, f := range formPattern.FindAllStringSubmatch(page, -1) {
		if f[1] != action || !strings.Contains(f[2], holds) {
			continue
		}
		values := url.Values{}
		for _, in := range inputPattern.FindAllStringSubmatch(f[2], -1) {
			values.Set(in[1], in[2])
		}
		return values
	}
	b.t.Fatalf("the page has no form to %s that holds %q", action, holds)
	return nil
}

// with is a form with some more of its fields filled in.
func with(form url.Values, pairs ...string) url.Values {
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func holds(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}

func lacks(t *testing.T, page string, unwanted ...string) {
	t.Helper()
	for _, u := range unwanted {
		if strings.Contains(page, u) {
			t.Errorf("the page holds %q", u)
		}
	}
}

func (s *stage) open(_ *http.Request, token string) (dashboard.Desk, dashboard.Viewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked[token] {
		return nil, dashboard.Viewer{}, dashboard.ErrToken
	}
	switch token {
	case writes:
		return s.Ops, dashboard.Viewer{Name: "@ana", MayWrite: true}, nil
	case reads:
		return s.Ops, dashboard.Viewer{Name: "@neo"}, nil
	case seated:
		return s.Ops, dashboard.Viewer{Name: trinity, MayWrite: true}, nil
	case loosed:
		return s.Ops, dashboard.Viewer{Name: loose, MayWrite: true}, nil
	case onSeat:
		return s.Ops, dashboard.Viewer{Name: "@smith", MayWrite: true}, nil
	case vacant:
		return s.Ops, dashboard.Viewer{Name: "@tank", MayWrite: true}, nil
	case robot:
		return s.Ops, dashboard.Viewer{Name: "bot:pager", MayWrite: true}, nil
	case brief:
		end := s.now.Add(time.Hour)
		return s.Ops, dashboard.Viewer{Name: "@ana", MayWrite: true, Expires: &end}, nil
	}
	return nil, dashboard.Viewer{}, dashboard.ErrToken
}

func (s *stage) classify(context.Context, *events.Routing, []byte) (events.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict, nil
}
