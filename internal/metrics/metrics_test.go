package metrics_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/memory"
	"decklog/internal/metrics"
	"decklog/internal/ops"
	"decklog/internal/runs"
	"decklog/internal/sqlite"
	"decklog/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	alice = "aaaaaaaa-0000-4000-8000-000000000001"
	bob   = "bbbbbbbb-0000-4000-8000-000000000002"
	carol = "cccccccc-0000-4000-8000-000000000003"
)

// stage is a ledger, the operations on it, and its metrics.
type stage struct {
	*ops.Ops
	*metrics.Metrics
	t       *testing.T
	now     events.Time
	fails   error        // that reading the ledger fails with, for the metrics
	lag     *events.Lag  // of the cluster that the ledger lies in; nil: in none
	counted atomic.Int64 // rows that the metrics read
	sent    []string
	n       atomic.Uint64
}

func newStage(t *testing.T, ledger ops.Ledger) *stage {
	t.Helper()
	s := &stage{t: t, now: events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))}
	policy := events.DefaultPolicy()
	policy.Limits.SessionRate, policy.Limits.DeviceRate, policy.Limits.PersonRate, policy.Limits.ThreadRate = 0, 0, 0, 0
	policy.Limits.RecipientFull, policy.Limits.DuplicateWindow = 0, 0
	policy.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}}
	policy.Persons = []events.Person{{Name: "ana", OSUser: "ana", Home: "smith", Roles: []string{"owner"}}}
	s.Ops = &ops.Ops{Ledger: ledger, World: ops.World{
		Now:    func() events.Time { return s.now },
		Random: func(b []byte) { binary.BigEndian.PutUint64(b[len(b)-8:], s.n.Add(1)) },
		Alive:  func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, s.now, true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return policy, nil },
	}}
	s.Metrics = metrics.New(metrics.Config{
		View: func(read func(events.Reader) error) error {
			if s.fails != nil {
				return s.fails
			}
			return ledger.View(func(r events.Reader) error { return read(counting{r, &s.counted}) })
		},
		Lag: func() (events.Lag, bool) {
			if s.lag == nil {
				return events.Lag{}, false
			}
			return *s.lag, true
		},
		Now: s.World.Now, Size: func() (int64, error) { return 4096, nil },
		Routes: []string{"POST /v1/messages", "GET /v1/events"}, Version: "1.2.3", Commit: "4f2a9c1", Go: "go1.26",
	})
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// counting counts the rows that are read.
type counting struct {
	events.Reader
	rows *atomic.Int64
}

func (c counting) Rows() events.Rows { return countingRows{c.Reader.Rows(), c.rows} }
func (c counting) All(from events.Position, limit int) ([]events.Recorded, error) {
	c.rows.Add(int64(limit))
	return c.Reader.All(from, limit)
}

type countingRows struct {
	events.Rows
	rows *atomic.Int64
}

func (c countingRows) Get(key string) ([]byte, error) {
	c.rows.Add(1)
	return c.Rows.Get(key)
}

func (c countingRows) Scan(prefix, after string, backward bool, visit func(string, []byte) bool) error {
	return c.Rows.Scan(prefix, after, backward, func(k string, v []byte) bool {
		c.rows.Add(1)
		return visit(k, v)
	})
}

func (s *stage) after(d time.Duration) { s.now = s.now.Add(d) }

func (s *stage) ok(r *commands.Refusal, err error) {
	s.t.Helper()
	if r != nil || err != nil {
		s.t.Fatal(r, err)
	}
}

func (s *stage) join(id, seat string) {
	s.t.Helper()
	_, r, err := s.Join(ops.JoinRequest{Session: id, Harness: "codex", Seat: seat})
	s.ok(r, err)
}

func (s *stage) send(from, to, intent, body string, more ...func(*ops.SendRequest)) commands.SendReceipt {
	s.t.Helper()
	q := ops.SendRequest{Asker: ops.Asker{As: from}, To: to, Intent: intent, Body: []byte(body)}
	for _, change := range more {
		change(&q)
	}
	receipt, r, err := s.Send(q)
	s.ok(r, err)
	s.sent = append(s.sent, body, string(receipt.ID))
	return receipt
}

func (s *stage) lease(who string) ops.Offered {
	s.t.Helper()
	offered, r, err := s.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}, Harness: "codex"})
	s.ok(r, err)
	return offered
}

func (s *stage) confirm(who string, id events.LeaseID) {
	s.t.Helper()
	_, r, err := s.Confirm(ops.Asker{As: who}, id)
	s.ok(r, err)
}

// all are the events of the ledger.
func (s *stage) all() (all []events.Recorded) {
	s.t.Helper()
	err := s.Ledger.View(func(r events.Reader) (err error) { all, err = r.All(1, 1_000_000); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// observe feeds the metrics with all that was recorded.
func (s *stage) observe() {
	for _, r := range s.all() {
		s.Observe(r)
	}
}

// scrape asks as Prometheus does, and gives the samples by their series.
func (s *stage) scrape() map[string]string {
	s.t.Helper()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		s.t.Fatalf("the answer is %d: %s", answer.Code, answer.Body)
	}
	samples := map[string]string{}
	for line := range strings.Lines(answer.Body.String()) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			samples[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return samples
}

// says demands samples; an empty value that there is none.
func (s *stage) says(want map[string]string) {
	s.t.Helper()
	got := s.scrape()
	for series, value := range want {
		if got[series] != value {
			s.t.Errorf("%s is %q, and should be %q", series, got[series], value)
		}
	}
}

// played is a ledger in which everything that is counted happened.
func played(t *testing.T) *stage {
	s := newStage(t, memory.New(projections.Project))
	s.join(alice, "smith")
	s.join(bob, "trinity")
	s.join(carol, "")
	// An answered request, an inform that is leased three times in vain, and one
	// that expires with nobody to take it.
	request := s.send(alice, bob, "request", "which commit fixed the lease test?")
	s.after(5 * time.Second)
	leased := s.lease(bob)
	s.after(20 * time.Millisecond)
	s.confirm(bob, leased.ID)
	s.send(bob, "", "inform", "it was the clock", func(q *ops.SendRequest) { q.ReplyTo = string(request.ID) })
	s.send(alice, carol, "inform", "lost")
	for range 3 {
		s.lease(carol)
		s.after(11 * time.Second)
	}
	s.lease(carol)
	s.send(carol, "@ana", "request", "expires")
	s.after(25 * time.Hour)
	s.lease(carol)
	// Refused, a thread that moves, and what is owed.
	if _, r, err := s.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, To: "dddddddd", Body: []byte("?")}); err != nil || r == nil {
		t.Fatal(r, err)
	}
	root := s.send("@ana", "", "request", "the sync is failing")
	_, r, err := s.PlaceSticker(ops.StickerRequest{Asker: ops.Asker{As: "@ana"}, Thread: string(root.Thread), Seat: "trinity"})
	s.ok(r, err)
	_, r, err = s.OfferHandoff(ops.OfferRequest{Asker: ops.Asker{As: bob}, Thread: string(root.Thread), To: "smith", Reason: ops.Text("it is yours")})
	s.ok(r, err)
	return s
}

func TestWhatHappenedIsCounted(t *testing.T) {
	s := played(t)
	s.observe()
	s.observe() // nothing is counted twice
	want := map[string]int{}
	for _, r := range s.all() {
		want[fmt.Sprintf("decklog_events_total{type=%q}", r.Type())]++
		switch e := r.Event.(type) {
		case events.MessageSent:
			want[fmt.Sprintf("decklog_sends_total{intent=%q}", e.Intent)]++
		case events.CommandRefused:
			want[fmt.Sprintf("decklog_refusals_total{code=%q}", e.Code)]++
		case events.MailboxConfirmed:
			for _, it := range e.Items {
				want[fmt.Sprintf("decklog_deliveries_total{kind=%q}", it.Kind)]++
			}
		case events.MailboxLeased:
			for _, it := range e.Items {
				if it.Attempt > 1 {
					want[fmt.Sprintf("decklog_redeliveries_total{kind=%q}", it.Kind)]++
				}
			}
		case events.MessageUndelivered:
			want[fmt.Sprintf("decklog_undelivered_total{kind=%q,reason=%q}", e.Kind, e.Reason)]++
		case events.MessageExpired:
			want[`decklog_undelivered_total{kind="message",reason="expired"}`]++
		case events.DriverMoved:
			want[fmt.Sprintf("decklog_driver_moves_total{source=%q}", e.Source)]++
		}
	}
	for _, must := range []string{
		`decklog_sends_total{intent="request"}`, `decklog_refusals_total{code="unknown_recipient"}`, `decklog_deliveries_total{kind="message"}`,
		`decklog_redeliveries_total{kind="message"}`, `decklog_undelivered_total{kind="message",reason="unconfirmed"}`,
		`decklog_undelivered_total{kind="message",reason="expired"}`, `decklog_driver_moves_total{source="person"}`,
	} {
		if want[must] == 0 {
			t.Errorf("nothing was played that counts as %s", must)
		}
	}
	samples := map[string]string{}
	for series, n := range want {
		samples[series] = fmt.Sprint(n)
	}
	samples[`decklog_refusals_total{code="duplicate"}`] = "0" // there from the start
	samples[`decklog_lease_confirm_delay_seconds_count`] = "1"
	samples[`decklog_lease_confirm_delay_seconds_bucket{le="0.01"}`] = "0"
	samples[`decklog_lease_confirm_delay_seconds_bucket{le="0.025"}`] = "1"
	s.says(samples)
}

func TestOnlyWhatCameSinceTheStartIsCounted(t *testing.T) {
	s := played(t)
	all := s.all()
	s.From(all[len(all)-1].Position)
	s.observe()
	s.says(map[string]string{`decklog_sends_total{intent="request"}`: "0", "decklog_follow_lag_events": "0"})
	s.send(alice, bob, "request", "and since when?")
	s.says(map[string]string{`decklog_sends_total{intent="request"}`: "0", "decklog_follow_lag_events": fmt.Sprint(len(s.all()) - len(all))})
	s.observe()
	s.says(map[string]string{`decklog_sends_total{intent="request"}`: "1", "decklog_follow_lag_events": "0"})
}

func TestARefusalThatStandsForManyCountsAsMany(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	s.Observe(events.Recorded{Position: 1, Event: events.CommandRefused{Code: "duplicate", Counted: 40}})
	s.Observe(events.Recorded{Position: 2, Event: events.CommandRefused{Code: "duplicate"}})
	s.says(map[string]string{`decklog_refusals_total{code="duplicate"}`: "41"})
}

func TestHowTheLedgerStandsTowardsItsClusterIsTold(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	absent := map[string]string{}
	for _, name := range []string{"live", "ended", "behind_seconds", "behind_events", "heard_timestamp_seconds", "place_bytes", "log_bytes", "unsent_commands", "undropped_bodies", "rebuilding", "connections_total"} {
		absent["decklog_cluster_"+name] = ""
	}
	s.says(absent)
	s.lag = &events.Lag{
		Live: true, Heard: 1500 * time.Millisecond, Waiting: 3, Place: 100, LogEnd: 250, Unsent: 1, Undropped: 2, Rebuilding: true,
		Connected: 4, Dropped: 5, Retried: 6, Conflicts: 7,
	}
	s.says(map[string]string{
		"decklog_cluster_live": "1", "decklog_cluster_ended": "0", "decklog_cluster_behind_seconds": "0", "decklog_cluster_behind_events": "3",
		"decklog_cluster_heard_timestamp_seconds": "1.7960291985e+09", "decklog_cluster_place_bytes": "100", "decklog_cluster_log_bytes": "250",
		"decklog_cluster_unsent_commands": "1", "decklog_cluster_undropped_bodies": "2", "decklog_cluster_rebuilding": "1",
		"decklog_cluster_connections_total": "4", "decklog_cluster_subscriptions_dropped_total": "5", "decklog_cluster_append_retries_total": "6", "decklog_cluster_append_conflicts_total": "7",
	})
	// What nobody knows is not told as if it were known.
	s.lag = &events.Lag{Behind: -1, Heard: -1, Place: 100, LogEnd: 100, Unsent: -1, Undropped: -1, Ended: true}
	s.says(map[string]string{
		"decklog_cluster_live": "0", "decklog_cluster_ended": "1", "decklog_cluster_behind_seconds": "", "decklog_cluster_behind_events": "",
		"decklog_cluster_heard_timestamp_seconds": "", "decklog_cluster_log_bytes": "", "decklog_cluster_unsent_commands": "", "decklog_cluster_undropped_bodies": "",
	})
	s.lag = &events.Lag{Behind: 90 * time.Second}
	s.says(map[string]string{"decklog_cluster_behind_seconds": "90"})
}

func TestWhatIsSoAtPresentIsReadFromTheViews(t *testing.T) {
	s := played(t)
	s.after(2 * time.Hour)
	owed, r, err := s.Owed(ops.OwedRequest{})
	s.ok(r, err)
	all := s.all()
	want := map[string]string{
		"decklog_ledger_readable": "1", "decklog_ledger_position": fmt.Sprint(len(all)), "decklog_view_lag_events": "0",
		"decklog_ledger_size_bytes": "4096", "decklog_sessions_live": "3", "decklog_follow_lag_events": "",
		`decklog_build_info{commit="4f2a9c1",goversion="go1.26",version="1.2.3"}`: "1",
	}
	for _, kind := range []projections.OwedKind{"reply", "handoff", "review"} {
		open, due, age := 0, 0, 0.0
		for _, o := range owed.Items {
			if o.Kind != kind {
				continue
			}
			open++
			age = max(age, s.now.Sub(o.Since).Seconds())
			if o.Due != nil && *o.Due <= s.now {
				due++
			}
		}
		of := fmt.Sprintf("{kind=%q}", kind)
		want["decklog_owed_items"+of], want["decklog_owed_overdue_items"+of] = fmt.Sprint(open), fmt.Sprint(due)
		want["decklog_owed_oldest_age_seconds"+of] = fmt.Sprint(age)
		if age > 1e6 {
			t.Fatal("the age is written otherwise")
		}
	}
	if want[`decklog_owed_items{kind="handoff"}`] != "1" || want[`decklog_owed_overdue_items{kind="reply"}`] == "0" {
		t.Errorf("too little is owed for a test: %v", want)
	}
	waiting, boxes := 0, 0
	err = s.Ledger.View(func(r events.Reader) error {
		state := projections.On(r.Rows())
		for _, who := range []events.Participant{alice, bob, carol, "@ana", "@ben", "@smith", "@trinity"} {
			n := 0
			state.QueuedMessages(who, func(projections.Queued) bool { n++; return true })
			waiting += n
			if n > 0 {
				boxes++
			}
		}
		return state.Err()
	})
	if err != nil || waiting == 0 {
		t.Fatal(waiting, err)
	}
	want["decklog_messages_waiting"], want["decklog_mailboxes_waiting"] = fmt.Sprint(waiting), fmt.Sprint(boxes)
	s.says(want)
}

func TestALeaseIsOpenUntilItIsConfirmedOrEnds(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	s.join(alice, "")
	s.join(bob, "")
	s.confirm(bob, s.lease(bob).ID) // the instruction
	s.send(alice, bob, "inform", "one")
	offered := s.lease(bob)
	s.observe()
	s.says(map[string]string{"decklog_leases_open": "1", "decklog_lease_oldest_age_seconds": "0"})
	s.after(4 * time.Second)
	s.says(map[string]string{"decklog_leases_open": "1", "decklog_lease_oldest_age_seconds": "4"})
	s.confirm(bob, offered.ID)
	s.observe()
	s.says(map[string]string{"decklog_leases_open": "0", "decklog_lease_oldest_age_seconds": "0"})

	s.send(alice, bob, "inform", "two")
	s.lease(bob)
	s.after(time.Minute)
	s.observe()
	s.says(map[string]string{"decklog_leases_open": "1", "decklog_lease_oldest_age_seconds": "60"})
	s.lease(bob) // sees that it ended, and takes the next
	s.observe()
	s.says(map[string]string{"decklog_leases_open": "1", "decklog_lease_oldest_age_seconds": "0"})
	_, r, err := s.Leave(ops.LeaveRequest{Asker: ops.Asker{As: bob}, Session: bob, Reason: events.EndLeft})
	s.ok(r, err)
	s.observe()
	s.says(map[string]string{"decklog_leases_open": "0"})
}

func TestNoMoreLeasesAreKeptThanTheBound(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	for n := range 12_000 {
		s.Observe(events.Recorded{Position: events.Position(n + 1), Time: s.now.Add(time.Duration(n) * time.Second), Event: events.MailboxLeased{Lease: events.LeaseID(fmt.Sprint(n)), Mailbox: bob}})
	}
	s.after(12_000 * time.Second)
	s.says(map[string]string{"decklog_leases_open": "10000", "decklog_lease_oldest_age_seconds": "10000"}) // the oldest were forgotten
}

func TestAClockThatWentBackMakesNoNegativeTime(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	s.Observe(events.Recorded{Position: 1, Time: s.now, Event: events.MailboxLeased{Lease: "l", Mailbox: bob}})
	s.now = s.now.Add(-time.Hour)
	s.says(map[string]string{"decklog_lease_oldest_age_seconds": "0"})
	s.Observe(events.Recorded{Position: 2, Time: s.now, Event: events.MailboxConfirmed{Lease: "l", Mailbox: bob}})
	s.says(map[string]string{"decklog_lease_confirm_delay_seconds_sum": "0", "decklog_lease_confirm_delay_seconds_count": "1"})
}

func TestALedgerThatCannotBeReadIsSaidAndTheRestIsThere(t *testing.T) {
	s := played(t)
	s.observe()
	s.fails = errors.New("the disk is gone")
	s.says(map[string]string{
		"decklog_ledger_readable": "0", "decklog_sessions_live": "", "decklog_ledger_position": "", `decklog_owed_items{kind="reply"}`: "",
		`decklog_refusals_total{code="unknown_recipient"}`: "1", "decklog_leases_open": "1",
	})
	s.fails = nil
	s.says(map[string]string{"decklog_ledger_readable": "1", "decklog_sessions_live": "3"})
}

// However much lies in the ledger, a look reads the counts and a bounded number
// of open items.
func TestALookReadsNoMoreRowsInALargeLedger(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	s.join(alice, "")
	s.join(bob, "")
	look := func() int64 {
		s.counted.Store(0)
		s.scrape()
		return s.counted.Load()
	}
	for n := range 100 {
		s.send(alice, bob, "inform", fmt.Sprint(n))
	}
	few := look()
	for n := range 1000 {
		s.send(alice, bob, "inform", fmt.Sprint("more ", n))
	}
	if many := look(); many > few {
		t.Errorf("with 100 messages it reads %d rows, with 1100 %d", few, many)
	}
	for n := range metrics.OwedScanMax + 500 {
		s.send(alice, bob, "request", fmt.Sprint("owed ", n))
	}
	if many, most := look(), 2*metrics.OwedScanMax+few+10; many > most {
		t.Errorf("with %d open items it reads %d rows, and should read at most %d", metrics.OwedScanMax+500, many, most)
	}
	s.says(map[string]string{`decklog_owed_items{kind="reply"}`: fmt.Sprint(metrics.OwedScanMax + 500)})
}

func TestWhatServeDoesIsTold(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	s.says(map[string]string{"decklog_verify_ok": "", "decklog_verify_faults": "", "decklog_verify_timestamp_seconds": ""})
	s.Commit(16, 40, 3*time.Millisecond)
	s.Commit(1, 1, 2*time.Second)
	s.Verified(0, s.now)
	s.Request("POST /v1/messages", "POST", 200, 4*time.Millisecond)
	s.Request("POST /v1/messages", "POST", 204, time.Millisecond)
	s.Request("POST /v1/messages", "POST", 500, time.Millisecond)
	s.Opened("events")
	s.Opened("wait")
	s.Closed("wait", "ended")
	want := map[string]string{
		"decklog_commit_duration_seconds_count": "2", `decklog_commit_duration_seconds_bucket{le="0.004"}`: "1",
		"decklog_commit_commands_sum": "17", "decklog_commit_events_sum": "41",
		"decklog_verify_ok": "1", "decklog_verify_faults": "0", "decklog_verify_timestamp_seconds": "1.7960292e+09",
		`decklog_http_requests_total{code="2xx",method="POST",route="POST /v1/messages"}`: "2",
		`decklog_http_requests_total{code="5xx",method="POST",route="POST /v1/messages"}`: "1",
		`decklog_http_request_duration_seconds_count{route="POST /v1/messages"}`:          "3",
		`decklog_subscribers{kind="events"}`:                                              "1", `decklog_subscribers{kind="wait"}`: "0",
		`decklog_subscribers_dropped_total{kind="wait",reason="failed"}`: "0", `decklog_subscribers_dropped_total{kind="events",reason="stalled"}`: "0",
	}
	s.says(want)
	s.Closed("events", "stalled")
	s.Verified(2, s.now)
	s.says(map[string]string{
		`decklog_subscribers{kind="events"}`: "0", `decklog_subscribers_dropped_total{kind="events",reason="stalled"}`: "1",
		`decklog_subscribers_dropped_total{kind="events",reason="ended"}`: "", "decklog_verify_ok": "0", "decklog_verify_faults": "2",
	})
}

func TestHookRunsAreCountedAsTheyTell(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	folder := t.TempDir()
	l, err := runs.Listen(folder)
	if err != nil {
		t.Skip("there is no socket for it: ", err)
	}
	heard, end := make(chan bool), make(chan error, 1)
	go func() {
		end <- l.Hear(func(told runs.Told) { s.HookRun(told); heard <- true }, func() { s.HookStrange(); heard <- false })
	}()
	for _, told := range []runs.Told{
		{Harness: "codex", Outcome: runs.Nothing, Took: 800 * time.Microsecond}, {Harness: "codex", Outcome: runs.Nothing, Took: 900 * time.Microsecond},
		{Harness: "claude-code", Outcome: runs.Delivered, Took: 7 * time.Millisecond}, {Harness: "somebody-elses", Outcome: runs.Failed, Took: time.Second},
	} {
		runs.Tell(folder, told)
		if !<-heard {
			t.Fatal("a run was not understood")
		}
	}
	if err := errors.Join(l.Close(), <-end); err != nil {
		t.Fatal(err)
	}
	s.HookStrange()
	s.says(map[string]string{
		`decklog_hook_runs_total{harness="codex",outcome="nothing"}`: "2", `decklog_hook_runs_total{harness="claude-code",outcome="delivered"}`: "1",
		`decklog_hook_runs_total{harness="other",outcome="failed"}`: "1", `decklog_hook_run_duration_seconds_bucket{outcome="nothing",le="0.001"}`: "2",
		`decklog_hook_run_duration_seconds_count{outcome="delivered"}`: "1", "decklog_hook_reports_malformed_total": "1",
		`decklog_hook_runs_total{harness="gemini",outcome="late"}`: "0",
	})
}

// Whoever can send anything can make no series.
func TestNoLabelHasAValueThatIsInNoList(t *testing.T) {
	s := newStage(t, memory.New(projections.Project))
	play := func(n int) {
		word := fmt.Sprintf("%d\n\xff\"}", n)
		at := events.Position(n * 10)
		for i, e := range []events.Event{
			events.Unknown{Type: events.Type(word)}, events.MessageSent{Intent: events.Intent(word)}, events.CommandRefused{Code: word},
			events.MailboxLeased{Lease: events.LeaseID(word), Items: []events.Leased{{Kind: events.ItemKind(word), Attempt: 2}}},
			events.MailboxConfirmed{Lease: events.LeaseID(word), Items: []events.Leased{{Kind: events.ItemKind(word)}}},
			events.MessageUndelivered{Kind: events.ItemKind(word), Reason: events.LostReason(word)},
			events.DriverMoved{To: word, Source: word}, events.DriverMoved{Source: word},
		} {
			s.Observe(events.Recorded{Position: at + events.Position(i) + 1, Event: e})
		}
		s.Request(word, word, n, 0)
		s.Request("/../"+word, "BREW", -n, 0)
		s.Opened(word)
		s.Closed(word, word)
		s.HookRun(runs.Told{Harness: word, Outcome: runs.Outcome(word)})
	}
	for n := range 10 { // the classes of the status
		play(n * 100)
	}
	before := len(s.scrape())
	for n := range 100 {
		play(10_000 + n)
	}
	if after := len(s.scrape()); after != before {
		t.Errorf("there were %d series, and are %d", before, after)
	}
}

func TestNothingThatAnybodyWroteOrIsCalledIsInTheMetrics(t *testing.T) {
	s := played(t)
	s.observe()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, word := range append(s.sent, alice, bob, carol, "smith", "trinity", "ana") {
		if strings.Contains(answer.Body.String(), `"`+word) || len(word) > 6 && strings.Contains(answer.Body.String(), word) {
			t.Errorf("they say %q", word)
		}
	}
}

func TestAllThatAnotherProcessAppendsIsFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	open := func() ops.Ledger {
		l, err := sqlite.Open(file, projections.Project)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	writer := newStage(t, open())
	writer.join(alice, "")
	writer.join(bob, "")
	s := newStage(t, open())
	l := following{s.Ledger, make(chan events.Position)}
	ctx, cancel := context.WithCancel(t.Context())
	began, end := make(chan struct{}), make(chan error, 1)
	go func() { end <- s.Follow(ctx, l, func() { close(began) }) }()
	<-began
	go func() {
		for n := range 400 { // more than a page of events
			writer.send(alice, bob, "inform", fmt.Sprint(n))
		}
	}()
	joined := len(writer.all())
	for at := range l.after {
		if int(at) == joined+400 {
			break
		}
	}
	s.says(map[string]string{`decklog_sends_total{intent="inform"}`: "400", "decklog_follow_lag_events": "0", `decklog_events_total{type="session.joined"}`: "0"})
	cancel()
	if err := <-end; err != nil {
		t.Error("it ended with", err)
	}
}

// following tells from where on its ledger is waited for: all before is counted.
type following struct {
	ops.Ledger
	after chan events.Position
}

func (f following) Wait(ctx context.Context, after events.Position) error {
	select {
	case f.after <- after:
	case <-ctx.Done():
	}
	return f.Ledger.Wait(ctx, after)
}

func TestManyMayAskAtOnce(t *testing.T) {
	s := played(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			s.Observe(events.Recorded{Position: events.Position(1000 + n), Event: events.MessageSent{Intent: events.Inform}})
			s.Commit(1, 1, time.Millisecond)
			s.Opened("wait")
			s.Closed("wait", "gone")
			r, err := http.Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s %v: %.200s", r.Status, err, text)
			}
		})
	}
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
}
