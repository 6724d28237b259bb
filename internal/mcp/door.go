package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"decklog/internal/failure"
	"decklog/internal/ops"
)

// BodyBytesMax bounds the body of one request to a [Door].
const BodyBytesMax = 4 << 20

// Guest is who a request to a [Door] comes from, as its token says.
type Guest struct {
	// Ops are the operations as the guest has them: what its token names is known
	// to them. They stay good for longer than the request, and the door does not
	// close them.
	Ops ops.Operations
	// Token tells the guest's token from others. It is no secret and in no answer.
	Token string
	// ReadOnly says that the token may change nothing.
	ReadOnly bool
	// Believed says that what comes with a call of who makes it counts: a stamp, or
	// what the harness says beside it. Only this machine's own token is believed so;
	// with any other the token alone says who calls.
	Believed bool
}

// Door serves the tools over HTTP, in the protocol's streamable form: each request
// is a POST of its own with its token, and is answered with one JSON document.
// There is no session on the server, so nothing is lost when it begins anew, and
// all versions of the protocol are served alike.
//
// What a wait leased is confirmed when the client's connection stood as the answer
// was ready, and it was written and flushed. A client that went away before, or
// called the wait off, is offered the same again. One that closes its connection
// right behind the answer has it, as far as anybody can tell: many do.
//
// The door checks no host, no origin and no token: who serves it does, before any
// of the body is read.
type Door struct {
	*Server
	inner   http.Handler
	servers map[audience]*mcp.Server // each with its texts
	who     func(*http.Request) (Guest, error)
	life    context.Context
	end     context.CancelFunc

	mu     sync.Mutex
	ended  bool
	inside int                            // requests that are served
	left   *sync.Cond                     // told when one ends
	nowOn  map[callKey]map[*exchange]bool // by the calls that run
}

// exchange is a request and its answer.
type exchange struct {
	end context.CancelFunc // of the calls in it
	off bool               // one of them was called off
}

// callKey is a call that runs, as a client names it to call it off.
type callKey struct{ token, session, id string }

// NewDoor makes a door. who gives the guest that a request comes from.
func NewDoor(c Config, who func(*http.Request) (Guest, error)) *Door {
	life, end := context.WithCancel(context.Background())
	d := &Door{Server: newServer(c), who: who, life: life, end: end, nowOn: map[callKey]map[*exchange]bool{}, servers: map[audience]*mcp.Server{}}
	d.left = sync.NewCond(&d.mu)
	for _, to := range []audience{{}, {away: true}, {readOnly: true}, {away: true, readOnly: true}} {
		d.servers[to] = d.tools(to)
	}
	d.inner = mcp.NewStreamableHTTPHandler(d.serverOf, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: BodyBytesMax, Logger: slog.New(slog.DiscardHandler),
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true, // who serves the door knows by which names it may be called
	})
	return d
}

// serverOf gives the tools as they are described to the guest of a request.
func (d *Door) serverOf(r *http.Request) *mcp.Server {
	v, _ := r.Context().Value(visitKey{}).(*visit) // who is none is answered by no tool
	if v == nil {
		return d.servers[audience{away: true, readOnly: true}]
	}
	return d.servers[audience{away: !v.believed, readOnly: v.readOnly}]
}

// Close ends what runs: waits are answered with what they have, what nobody got is
// offered again, and what was written is confirmed. Requests that come later are
// turned away.
func (d *Door) Close() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.end()
	d.idle()
	d.deliveries.end()
}

// idle waits until no request is served.
func (d *Door) idle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.inside > 0 {
		d.left.Wait()
	}
}

// enter says whether one more request may be served.
func (d *Door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.inside++
	}
	return !d.ended
}

func (d *Door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	d.left.Broadcast()
}

// The headers by which a client is told apart from others with the same token. The
// server keeps nothing under a session's id: a client that was given one says it
// with each request, so that it can call off its own calls and no others'.
const sessionHeader = "Mcp-Session-Id"

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guest, err := d.who(r)
	if err != nil {
		sayFailure(w, http.StatusUnauthorized, failure.Of(err))
		return
	}
	if !d.enter() {
		sayFailure(w, http.StatusServiceUnavailable, failure.Failure{Code: "shutdown", Message: "the server is about to end", Fix: "make the request again"})
		return
	}
	defer d.leave()
	body, status := readBody(w, r)
	switch status {
	case http.StatusRequestEntityTooLarge:
		sayFailure(w, status, failure.Failure{Code: "request_too_large", Message: fmt.Sprintf("the body has more than %d bytes", BodyBytesMax), Fix: "say less in one request; nothing was recorded"})
		return
	case http.StatusBadRequest:
		sayFailure(w, status, failure.Failure{Code: "request_incomplete", Message: "the body could not be read to its end; nothing was recorded", Fix: "send it again, whole"})
		return
	}
	said := listen(body)
	session := r.Header.Get(sessionHeader)
	for _, id := range said.off {
		d.callOff(callKey{guest.Token, session, id})
	}
	gone, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	over := make(chan struct{})
	defer close(over)
	v := &visit{
		take:     func() (ops.Operations, func(error), error) { return guest.Ops, func(error) {}, nil },
		expected: &expected{}, believed: guest.Believed, readOnly: guest.ReadOnly, gone: gone, over: over,
	}
	x := &exchange{end: cancel}
	for _, id := range said.calls {
		defer d.begin(callKey{guest.Token, session, id}, x)()
	}
	out := &answerWriter{to: w, header: http.Header{}}
	if said.begins && session == "" {
		out.header.Set(sessionHeader, rand.Text())
	}
	ctx := r.Context()
	if said.listens {
		ctx = gone // a stream that nothing else would end
	}
	inner := r.WithContext(context.WithValue(ctx, visitKey{}, v))
	inner.Body = io.NopCloser(bytes.NewReader(body))
	d.inner.ServeHTTP(out, inner)
	stood := r.Context().Err() == nil
	text, err := out.finish()
	if stood && err == nil && !d.calledOff(x) {
		v.tell(text)
	}
}

// sayFailure answers a request that reached no tool.
func sayFailure(w http.ResponseWriter, status int, f failure.Failure) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": f}) // who went away is not told
}

// readBody reads the body, or says with which status it is not taken.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, int) {
	if r.Body == nil {
		return nil, 0
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyBytesMax))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return body, 0
}

// spoken is what of a body the door itself has to know.
type spoken struct {
	calls   []string // the ids of the calls
	off     []string // those of calls that are called off
	begins  bool     // a client begins
	listens bool     // it wants a stream of what changes, which is nothing
}

// listen finds it. What is no message it passes over: the SDK says what is wrong.
func listen(body []byte) (s spoken) {
	type message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	var all []message
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		_ = json.Unmarshal(body, &all)
	} else {
		var one message
		if json.Unmarshal(body, &one) == nil {
			all = append(all, one)
		}
	}
	for _, m := range all {
		switch {
		case m.Method == "notifications/cancelled" && len(m.Params.RequestID) > 0:
			s.off = append(s.off, string(m.Params.RequestID))
		case m.Method != "" && len(m.ID) > 0:
			s.calls = append(s.calls, string(m.ID))
			s.begins = s.begins || m.Method == "initialize"
			s.listens = s.listens || m.Method == "subscriptions/listen"
		}
	}
	return s
}

// begin notes a call that runs. What it gives ends that.
func (d *Door) begin(k callKey, x *exchange) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nowOn[k] == nil {
		d.nowOn[k] = map[*exchange]bool{}
	}
	d.nowOn[k][x] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.nowOn[k], x); len(d.nowOn[k]) == 0 {
			delete(d.nowOn, k)
		}
	}
}

// callOff ends a call that runs: what it has leased is not confirmed, also when it
// is being written just now.
func (d *Door) callOff(k callKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.nowOn[k] {
		x.off = true
		x.end()
	}
}

func (d *Door) calledOff(x *exchange) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return x.off
}

// answerWriter holds an answer back until it is whole, so that it goes out at once,
// with its length, and it is known whether it did. A stream of events it lets
// through.
type answerWriter struct {
	to      http.ResponseWriter
	header  http.Header
	status  int
	text    []byte
	streams bool
}

func (w *answerWriter) Header() http.Header {
	if w.streams {
		return w.to.Header()
	}
	return w.header
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream") {
		w.streams = true
		w.send()
	}
}

func (w *answerWriter) send() {
	for name, values := range w.header {
		w.to.Header()[name] = values
	}
	w.to.WriteHeader(w.status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.streams {
		return w.to.Write(p)
	}
	w.text = append(w.text, p...)
	return len(p), nil
}

// Flush sends what a stream has.
func (w *answerWriter) Flush() {
	if w.streams {
		_ = http.NewResponseController(w.to).Flush()
	}
}

// finish writes the answer out, and gives it as it was written. An error says that
// nobody can have the whole of it.
func (w *answerWriter) finish() ([]byte, error) {
	if w.streams {
		return nil, nil
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if strings.HasPrefix(w.header.Get("Content-Type"), "application/json") {
		w.text = bare(w.text)
	}
	if w.status != http.StatusNoContent && w.status != http.StatusNotModified {
		w.header.Set("Content-Length", strconv.Itoa(len(w.text)))
	}
	w.send()
	if _, err := w.to.Write(w.text); err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	if err := http.NewResponseController(w.to).Flush(); err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return w.text, nil
}
