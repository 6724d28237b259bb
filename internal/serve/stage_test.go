package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/serve"
	"decklog/internal/token"
)

var start = events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))

// door is a guarded server on a real socket.
type door struct {
	*testing.T
	addr   string
	tokens *token.Tokens
	guard  *serve.Guard
	server *http.Server
	log    *lines
	client http.Client
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// served is what a door serves, and what it asks for.
type served struct {
	limits serve.Limits
	hosts  []string
	rules  map[string]serve.Rule
	routes map[string]http.HandlerFunc
	on     net.Listener
	secure *tls.Config
}

func opened(t *testing.T, s served) *door {
	t.Helper()
	d := &door{T: t, tokens: token.Open(t.TempDir()), log: &lines{}}
	d.guard = serve.NewGuard(serve.GuardConfig{
		Tokens: d.tokens, Now: func() events.Time { return start }, Limits: s.limits, Hosts: s.hosts,
		Log: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	mux := http.NewServeMux()
	for pattern, handler := range s.routes {
		mux.HandleFunc(pattern, handler)
	}
	handler := d.guard.Around(mux, func(pattern string) serve.Rule { return s.rules[pattern] })
	d.serve(s.on, s.secure, handler)
	return d
}

func (d *door) serve(on net.Listener, secure *tls.Config, handler http.Handler) {
	d.Helper()
	if on == nil {
		var err error
		if on, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			d.Fatal(err)
		}
	}
	d.addr = on.Addr().String()
	d.server = d.guard.Server(handler)
	ended := make(chan error, 1)
	go func() { ended <- d.server.Serve(d.guard.Listen(on, secure)) }()
	// A transport of its own: no connection of another test is in it.
	d.client.Transport = &http.Transport{}
	d.Cleanup(func() {
		d.client.CloseIdleConnections()
		if err := d.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			d.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			d.Error(err)
		}
	})
}

// token makes a token.
func (d *door) token(who events.Participant, scope token.Scope) string {
	d.Helper()
	_, secret, err := d.tokens.Create(token.New{Participant: who, Scope: scope}, start)
	if err != nil {
		d.Fatal(err)
	}
	return secret
}

// ask is one request.
type ask struct {
	method, path, body string
	header             map[string]string
	host               string
}

// bearing is a request with a token.
func (a ask) bearing(secret string) ask { return a.with("Authorization", "Bearer "+secret) }

func (a ask) with(name, value string) ask {
	header := map[string]string{name: value}
	for n, v := range a.header {
		if n != name {
			header[n] = v
		}
	}
	a.header = header
	return a
}

// told is what was answered.
type told struct {
	status int
	header http.Header
	body   string
	code   string // of the error
}

func (d *door) ask(a ask) told {
	d.Helper()
	r, err := http.NewRequest(a.method, "http://"+d.addr+a.path, strings.NewReader(a.body))
	if err != nil {
		d.Fatal(err)
	}
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.host != "" {
		r.Host = a.host
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	response, err := d.client.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	return d.read(response)
}

func (d *door) read(response *http.Response) told {
	d.Helper()
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		d.Fatal(err)
	}
	got := told{status: response.StatusCode, header: response.Header, body: string(b)}
	var says struct {
		Error struct{ Code, Message, Fix string }
	}
	if json.Unmarshal(b, &says) == nil {
		got.code = says.Error.Code
		if got.code != "" && (says.Error.Message == "" || says.Error.Fix == "") {
			d.Errorf("an error without a message or a fix: %s", b)
		}
	}
	return got
}

// raw opens a connection of its own.
func (d *door) raw() *wire {
	d.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { c.Close() })
	return &wire{door: d, Conn: c, from: bufio.NewReader(c)}
}

type wire struct {
	*door
	net.Conn
	from *bufio.Reader
}

func (w *wire) say(format string, args ...any) {
	w.Helper()
	if _, err := fmt.Fprintf(w.Conn, format, args...); err != nil {
		w.Fatal(err)
	}
}

// hear reads one answer.
func (w *wire) hear() told {
	w.Helper()
	response, err := http.ReadResponse(w.from, nil)
	if err != nil {
		w.Fatal(err)
	}
	return w.door.read(response)
}

// over waits for the server to hang up, and gives what it said before.
func (w *wire) over() string {
	w.Helper()
	rest, err := io.ReadAll(w.from)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		w.Fatal(err)
	}
	return string(rest)
}

// echo answers with who asked, and what came.
func echo(w http.ResponseWriter, r *http.Request) {
	b, fault := serve.ReadBody(r)
	if fault != nil {
		http.Error(w, fault.Code, fault.Status)
		return
	}
	who, known := serve.Who(r.Context())
	fmt.Fprintf(w, "%t %s %s %d", known, who.Participant, r.PathValue("name"), len(b))
}

// until waits for something to happen, for as long as the test may run.
func until[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-within(t).Done():
		t.Fatal("it never happened")
	}
	return v
}

// within ends a little before the test has to.
func within(t *testing.T) context.Context {
	end, bounded := t.Deadline()
	if !bounded {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), end.Add(-5*time.Second))
	t.Cleanup(cancel)
	return ctx
}
