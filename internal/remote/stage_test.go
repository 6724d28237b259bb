package remote_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/internal/remote"
	"decklog/internal/serve"
	"decklog/internal/token"
	"decklog/projections"
)

var start = events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))

const (
	alice = "alice-0001"
	bob   = "bob-00002"
	carol = "carol-0003"
)

// stage is a server of a ledger, which clients reach over a cable that can be cut.
type stage struct {
	*testing.T
	desk    *ops.Ops
	tokens  *token.Tokens
	machine string
	folder  string
	cable   *cable
}

// remake makes the machine's token anew.
func (s *stage) remake() {
	s.Helper()
	if err := os.Remove(filepath.Join(s.folder, token.MachineFileName)); err != nil {
		s.Fatal(err)
	}
	if _, err := token.MakeMachine(s.folder); err != nil {
		s.Fatal(err)
	}
}

func world(random func([]byte)) ops.World {
	return ops.World{
		Now: func() events.Time { return start }, Random: random, Alive: func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, start, true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) {
			policy := events.DefaultPolicy()
			policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}}
			return policy, nil
		},
	}
}

func random(b []byte) { _, _ = rand.Read(b) }

func served(t *testing.T) *stage {
	t.Helper()
	folder := t.TempDir()
	machine, err := token.MakeMachine(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, machine: machine, folder: folder, tokens: token.Open(folder), desk: &ops.Ops{Ledger: memory.New(projections.Project), World: world(random)}}
	for _, id := range []string{alice, bob, carol} {
		if _, r, err := s.desk.Join(ops.JoinRequest{Session: id, Harness: "codex", Cwd: "/"}); r != nil || err != nil {
			t.Fatal(r, err)
		}
		// The standing instruction is out of the way.
		offered, r, err := s.desk.Lease(ops.LeaseRequest{Asker: ops.Asker{As: id}})
		if r == nil && err == nil && offered.ID != "" {
			_, r, err = s.desk.Confirm(ops.Asker{As: id}, offered.ID)
		}
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	guard := serve.NewGuard(serve.GuardConfig{Tokens: s.tokens, Now: s.desk.World.Now})
	server := serve.New(serve.Config{Ops: s.desk, Who: serve.Who, Good: guard.Good, Log: slog.New(slog.DiscardHandler)})
	mux := http.NewServeMux()
	server.Register(mux)
	rules := serve.Rules()
	door := guard.Server(guard.Around(mux, func(pattern string) serve.Rule { return rules[pattern] }))
	l := listen(t)
	s.cable = laid(t, l.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- door.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		_ = door.Close()
		server.Wait()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// client reaches the server over the cable.
func (s *stage) client(secret string) *remote.Client {
	return reaching(s.T, remote.Config{Server: "http://" + s.cable.addr, Token: secret})
}

func reaching(t *testing.T, c remote.Config) *remote.Client {
	c.World = world(random)
	client := remote.New(c)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// send sends a message beside the server.
func (s *stage) send(from string, q ops.SendRequest) events.MessageID {
	s.Helper()
	q.As = from
	receipt, r, err := s.desk.Send(q)
	if r != nil || err != nil {
		s.Fatal(r, err)
	}
	return events.MessageID(receipt.ID)
}

// cable carries connections to a server.
type cable struct {
	*testing.T
	addr, to string

	mu    sync.Mutex
	asks  func(data []byte)
	says  func(data []byte) (cut bool)
	waits []net.Conn // that carry a wait
}

func laid(t *testing.T, to string) *cable {
	l := listen(t)
	c := &cable{T: t, addr: l.Addr().String(), to: to}
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	t.Cleanup(func() { _ = l.Close() })
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { c.carry(in) })
		}
	})
	return c
}

func (c *cable) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer in.Close()
		copied(in, out, func([]byte) {}, func(data []byte) bool {
			_, says := c.hears()
			return says != nil && says(data)
		})
	}()
	copied(out, in, func(data []byte) {
		if bytes.HasPrefix(data, []byte("POST /v1/wait ")) {
			c.mu.Lock()
			c.waits = append(c.waits, in)
			c.mu.Unlock()
		}
		if asks, _ := c.hears(); asks != nil {
			asks(data)
		}
	}, func([]byte) bool { return false })
	_ = out.Close()
	<-over
}

func copied(to io.Writer, from io.Reader, before func([]byte), cut func([]byte) bool) {
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		if n > 0 {
			before(data[:n])
			if _, err := to.Write(data[:n]); err != nil || cut(data[:n]) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cutWaits cuts the connections on which waits are.
func (c *cable) cutWaits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.waits {
		_ = conn.Close()
	}
	c.waits = nil
}

// hear has one told of what clients are about to send, and another of what the
// server has sent, who says whether the connection is to be cut then. Each may be
// nil.
func (c *cable) hear(asks func(data []byte), says func(data []byte) (cut bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks, c.says = asks, says
}

func (c *cable) hears() (asks func([]byte), says func([]byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asks, c.says
}

// within ends a little before the test has to.
func within(t *testing.T) context.Context {
	end, bounded := t.Deadline()
	if !bounded {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), end.Add(-10*time.Second))
	t.Cleanup(cancel)
	return ctx
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return failure.Of(err).Code
}
