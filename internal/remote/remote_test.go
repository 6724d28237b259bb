package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/remote"
	"decklog/internal/token"
)

// A server that was stopped still takes connections, and nothing comes back.
func TestAServerThatTakesARequestAndSaysNothingIsNotWaitedForForEver(t *testing.T) {
	for what, config := range map[string]remote.Config{
		"ordinary":             {Within: 30 * time.Millisecond, Patience: time.Millisecond},
		"with little patience": {Patience: time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			config.Server = "http://" + listen(t).Addr().String()
			c := reaching(t, config)
			_, _, sending := c.Send(ops.SendRequest{To: alice, Body: []byte("Hello.")})
			if code(sending) != "unknown_outcome" {
				t.Errorf("a send ended with %v", sending)
			}
			if what != "ordinary" {
				return // the others would take as long
			}
			_, _, reading := c.Inbox(ops.InboxRequest{})
			_, standing := c.Status(ops.Asker{})
			_, ending := c.End()
			_, _, asking := c.Turn(within(t), ops.TurnRequest{Thread: "x"})
			_, _, waiting := c.Wait(within(t), ops.WaitRequest{}, func(ops.Waited) error { return nil })
			for what, got := range map[string]string{"inbox": code(reading), "status": code(standing), "position": code(ending)} {
				if got != "no_answer" {
					t.Errorf("%s ended with %s", what, got)
				}
			}
			if asking == nil || waiting == nil {
				t.Errorf("a turn ended with %v, a wait with %v", asking, waiting)
			}
		})
	}
}

// What took the request is gone when it is asked again: that nobody is there now
// says nothing of what was done.
func TestACommandThatAServerTookBeforeItDiedHasAnUnknownOutcome(t *testing.T) {
	l := listen(t)
	took := make(chan struct{})
	go func() {
		defer close(took)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 1))
		_ = l.Close()
		_ = conn.Close()
	}()
	c := reaching(t, remote.Config{Server: "http://" + l.Addr().String(), Patience: 100 * time.Millisecond})
	_, _, err := c.Send(ops.SendRequest{To: alice, Body: []byte("Hello.")})
	<-took
	if code(err) != "unknown_outcome" {
		t.Errorf("a send ended with %v", err)
	}
	if _, _, err := c.Send(ops.SendRequest{To: alice, Body: []byte("Hello.")}); code(err) != "no_server" {
		t.Errorf("one that no server can have taken ended with %v", err)
	}
}

// half answers with a header, and what it is told of the body.
func half(t *testing.T, says string) string {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(says))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	return s.URL
}

func TestAnAnswerThatStopsHalfwayIsNotWaitedForForEver(t *testing.T) {
	c := reaching(t, remote.Config{Server: half(t, `{"rec`), Within: 30 * time.Millisecond})
	if _, _, err := c.Send(ops.SendRequest{To: alice, Body: []byte("Hello.")}); code(err) != "unknown_outcome" {
		t.Errorf("a send ended with %v", err)
	}
	if _, _, err := c.Inbox(ops.InboxRequest{}); code(err) != "no_answer" {
		t.Errorf("an inbox ended with %v", err)
	}
}

func TestWhatMayTakeLongIsNotCutOff(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") == "" {
			<-answer
			return
		}
		close(asked)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"at":8}`))
	}))
	t.Cleanup(s.Close)
	c := reaching(t, remote.Config{Server: s.URL, Within: 30 * time.Millisecond, Patience: time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- c.Past(within(t), 7) }()
	<-asked
	for range 3 { // after which more than the bound is over
		if _, err := c.End(); code(err) != "no_answer" {
			t.Errorf("it ended with %v", err)
		}
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Errorf("what waits was cut off: %v", err)
	}
}

func TestALateLeaseTakesNothing(t *testing.T) {
	s := served(t)
	s.send(bob, ops.SendRequest{To: alice, Intent: "inform", Body: []byte("Hello.")})
	c := s.client(s.machine)
	for _, left := range []int64{-1, 0} {
		offered, r, err := c.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Within: &left})
		if r != nil || err != nil || offered.ID != "" || len(offered.Messages) > 0 {
			t.Errorf("with %d left it got %+v %v %v", left, offered, r, err)
		}
	}
	for _, left := range []*int64{nil, new(int64)} {
		if left != nil {
			*left = time.Minute.Microseconds()
		}
		offered, r, err := c.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Within: left})
		if r != nil || err != nil || offered.ID == "" && offered.Busy == nil {
			t.Errorf("in time it got %+v %v %v", offered, r, err)
		}
	}
}

// The time that a lease has goes on while the server is asked again.
func TestALeaseIsAskedForAgainWithTheTimeThatIsLeftAndNoLonger(t *testing.T) {
	var mu sync.Mutex
	var left []int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q ops.LeaseRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Within == nil {
			t.Errorf("asked %+v: %v", q, err)
		} else {
			mu.Lock()
			left = append(left, *q.Within)
			mu.Unlock()
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"code":"busy","message":"busy","fix":"again"}}`))
	}))
	t.Cleanup(s.Close)
	c := reaching(t, remote.Config{Server: s.URL, Patience: time.Hour})
	given := (200 * time.Millisecond).Microseconds()
	if _, _, err := c.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Within: &given}); code(err) != "busy" {
		t.Errorf("it ended with %v", err)
	}
	if len(left) < 2 {
		t.Fatalf("it asked %d times", len(left))
	}
	for i := range left[1:] {
		if left[i+1] >= left[i] || left[i+1] <= 0 {
			t.Errorf("the times left are %d", left)
		}
	}
	if given != (200 * time.Millisecond).Microseconds() {
		t.Error("it changed what its caller gave")
	}
}

// waits waits, and counts what it prints.
func (s *stage) waits(ctx context.Context, c *remote.Client, q ops.WaitRequest) (ops.Waited, int) {
	s.Helper()
	printed := 0
	w, r, err := c.Wait(ctx, q, func(ops.Waited) error { printed++; return nil })
	if r != nil || err != nil {
		s.Errorf("the wait ended with %v %v", r, err)
	}
	return w, printed
}

func TestAWaitWhoseAnswerBreaksOffBehindTheConfirmIsOver(t *testing.T) {
	for _, what := range []string{"anything", "once", "a reply"} {
		t.Run(what, func(t *testing.T) {
			s := served(t)
			asked := s.send(alice, ops.SendRequest{To: bob, Intent: "request", Body: []byte("What?")})
			answer := s.send(bob, ops.SendRequest{ReplyTo: string(asked), Body: []byte("That.")})
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			var waits atomic.Int64
			s.cable.hear(func(data []byte) {
				switch {
				case bytes.HasPrefix(data, []byte("POST /v1/wait ")):
					if n := waits.Add(1); n > 1 && what != "a reply" || n > 2 {
						t.Errorf("it waits once more: %d", n)
						cancel()
					}
				case bytes.Contains(data, []byte("/confirm")):
					s.cable.cutWaits()
				}
			}, nil)
			q := ops.WaitRequest{Asker: ops.Asker{As: alice}, Once: what == "once"}
			if what != "anything" {
				q.ID = string(asked)
			}
			w, printed := s.waits(ctx, s.client(s.machine), q)
			if printed != 1 || w.TimedOut || len(w.Messages) != 1 || w.Messages[0].ID != answer {
				t.Errorf("it printed %d times, and gave %+v", printed, w)
			}
		})
	}
}

func TestAWaitOnAThreadThatIsAskedAgainKnowsWhereItBegan(t *testing.T) {
	s := served(t)
	asked := s.send(alice, ops.SendRequest{To: bob, Intent: "request", Body: []byte("What?")})
	answered := make(chan events.MessageID, 1)
	var cut atomic.Bool
	s.cable.hear(nil, func(data []byte) bool {
		if !bytes.Contains(data, []byte(`"began":`)) || !cut.CompareAndSwap(false, true) {
			return false
		}
		// It comes while nobody waits, and not to the one who does.
		answered <- s.send(bob, ops.SendRequest{ReplyTo: string(asked), Body: []byte("That.")})
		return true
	})
	w, printed := s.waits(within(t), s.client(s.machine), ops.WaitRequest{Asker: ops.Asker{As: carol}, ID: string(asked), For: ops.WaitAny})
	answer := <-answered
	if printed != 1 || w.TimedOut || len(w.Messages) != 1 || w.Messages[0].ID != answer {
		t.Errorf("it printed %d times, and gave %+v", printed, w)
	}
}

func TestARevokedTokenReceivesNothingMore(t *testing.T) {
	for _, what := range []string{"what comes", "nothing comes"} {
		for name, waits := range map[string]func(context.Context, *remote.Client) error{
			"wait": func(ctx context.Context, c *remote.Client) error {
				_, _, err := c.Wait(ctx, ops.WaitRequest{}, func(w ops.Waited) error { t.Errorf("it got %+v", w); return nil })
				return err
			},
			"wait for a thread": func(ctx context.Context, c *remote.Client) error {
				threads, r, err := c.Threads(ops.ThreadsRequest{})
				if r != nil || err != nil || len(threads.Threads) == 0 {
					t.Error(r, err)
				}
				_, _, err = c.Wait(ctx, ops.WaitRequest{ID: string(threads.Threads[0].Thread), For: ops.WaitAny}, func(w ops.Waited) error { t.Errorf("it got %+v", w); return nil })
				return err
			},
			"wake": func(ctx context.Context, c *remote.Client) error {
				post, err := c.Wake(ctx, ops.WakeRequest{Session: alice})
				if post.Newest > 0 {
					t.Errorf("it was told of %+v", post)
				}
				return err
			},
			"position": func(ctx context.Context, c *remote.Client) error {
				end, err := c.End()
				if err != nil {
					t.Error(err)
				}
				return c.Past(ctx, end)
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				s := served(t)
				s.send(carol, ops.SendRequest{To: bob, Intent: "inform", Body: []byte("First.")})
				_, secret, err := s.tokens.Create(token.New{Participant: alice, Scope: token.Write}, start)
				if err != nil {
					t.Fatal(err)
				}
				begun := make(chan struct{}, 100)
				s.cable.hear(func(data []byte) {
					if strings.Contains(string(data), "/wake ") || strings.Contains(string(data), "POST /v1/wait ") || strings.Contains(string(data), "after=") {
						begun <- struct{}{}
					}
				}, nil)
				ended := make(chan error, 1)
				go func() { ended <- waits(within(t), s.client(secret)) }()
				<-begun
				if _, err := s.tokens.Revoke(token.IDIn(secret), start); err != nil {
					t.Fatal(err)
				}
				var sent events.MessageID
				if what == "what comes" {
					sent = s.send(bob, ops.SendRequest{To: alice, Intent: "request", Body: []byte("Secret.")})
				}
				if err := <-ended; code(err) != "bad_token" && code(err) != "revoked_token" {
					t.Errorf("it ended with %v", err)
				}
				if sent == "" {
					return
				}
				inbox, r, err := s.desk.Inbox(ops.InboxRequest{As: alice})
				if r != nil || err != nil || len(inbox.Messages) != 1 || inbox.Messages[0].ID != sent || inbox.Messages[0].State != events.StateQueued {
					t.Errorf("the message stands as %+v %v %v", inbox.Messages, r, err)
				}
			})
		}
	}
}

// The machine's own waits have connections of their own.
func TestAMachinesTokenThatIsMadeAnewEndsTheWaitsOfTheOldOne(t *testing.T) {
	s := served(t)
	begun := make(chan struct{}, 1)
	s.cable.hear(nil, func(data []byte) bool {
		if bytes.Contains(data, []byte("x-ndjson")) {
			begun <- struct{}{}
		}
		return false
	})
	ended := make(chan error, 1)
	go func() {
		_, _, err := s.client(s.machine).Wait(within(t), ops.WaitRequest{Asker: ops.Asker{As: alice}}, func(ops.Waited) error { return nil })
		ended <- err
	}()
	<-begun
	s.remake()
	if err := <-ended; code(err) != "bad_token" {
		t.Errorf("it ended with %v", err)
	}
}
