// Package remote is the operations on a ledger that a `decklog serve` has: asked
// for over a unix socket or HTTP, as the table in package api has them. Who calls
// cannot tell it from the ledger itself. It holds no rule, knows neither flags
// nor views, and opens no ledger.
//
// A command whose answer is lost is sent again under the same id, for as long as
// the client is patient: it happens once. So a server that is started again goes
// unnoticed.
package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/socket"
)

// PatienceDefault is how long a client goes on asking a server that it has reached
// before: it may be about to start again.
const PatienceDefault = 10 * time.Second

// FirstPatience is how long it goes on asking one that it never reached.
const FirstPatience = time.Second

// AnswerWithin is how long nothing may be heard of an answer before its server
// counts as one that does not answer: it was stopped, say, or the network is down.
// An answer that may be long in coming, as [api.Route.Patient] says, has
// [api.Bound] besides.
const AnswerWithin = 15 * time.Second

// AnswerLeast is the same for a client that has less [Config.Patience] than that:
// it is then a bound on the whole of an ordinary answer.
const AnswerLeast = 2 * time.Second

// Config says where the server is, and who calls.
type Config struct {
	Server   string // http://HOST:PORT, https://HOST:PORT, or unix:PATH
	Token    string
	World    ops.World     // of the caller: its environment, processes, user and machine
	Patience time.Duration // with a server that was reached before; 0: PatienceDefault
	// Within is how long nothing may be heard of an answer; 0: AnswerWithin, or
	// Patience where that is given and less.
	Within time.Duration
}

// Client are the operations on a ledger elsewhere.
type Client struct {
	Config
	base   string
	http   *http.Client
	hasty  bool        // the bound holds for the whole of an answer
	known  atomic.Bool // the server answered once
	stale  atomic.Bool // the last answer was, by its own word
	caller atomic.Pointer[string]
}

var _ ops.Operations = (*Client)(nil)

// New makes a client. It asks for nothing yet.
func New(c Config) *Client {
	hasty := c.Within == 0 && c.Patience > 0 && c.Patience < AnswerWithin
	switch {
	case hasty:
		c.Within = max(c.Patience, AnswerLeast)
	case c.Within == 0:
		c.Within = AnswerWithin
	}
	if c.Patience == 0 {
		c.Patience = PatienceDefault
	}
	transport := &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: 0}
	base := c.Server
	if path, is := strings.CutPrefix(c.Server, "unix:"); is {
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, path)
		}
	}
	return &Client{Config: c, base: strings.TrimSuffix(base, "/"), hasty: hasty, http: &http.Client{
		Transport: transport,
		// A token goes to nobody but the server that was named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets the connections go.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// NewCommand makes a command's id.
func (c *Client) NewCommand() events.CommandID {
	var random [10]byte
	c.World.Random(random[:])
	return events.CommandAt(c.World.Now(), random)
}

// request makes a request of a route.
func (c *Client) request(ctx context.Context, r *api.Route, q any, claims ops.Claims, accept string) (*http.Request, error) {
	target, body, err := r.Write(q)
	if err != nil {
		return nil, err
	}
	var read io.Reader
	if body != nil {
		read = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.base+target, read)
	if err != nil {
		return nil, failure.New("bad_ledger", "write --ledger http://HOST:PORT or unix:PATH", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accept)
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	header, err := c.called(claims)
	if err != nil {
		return nil, err
	}
	req.Header.Set(api.CallerHeader, header)
	return req, nil
}

// called is what was found out of the caller, as the header has it.
func (c *Client) called(claims ops.Claims) (string, error) {
	plain := reflect.ValueOf(claims).IsZero()
	if known := c.caller.Load(); known != nil && plain {
		return *known, nil
	}
	caller := api.Caller{Device: c.World.Device, OSUser: c.World.OSUser, Environ: map[string]string{}, Ancestors: c.World.Ancestors(), Claims: claims}
	for _, name := range api.Variables {
		if value := c.World.Environ(name); value != "" {
			caller.Environ[name] = value
		}
	}
	data, err := json.Marshal(caller)
	if err != nil {
		return "", fmt.Errorf("say who calls: %w", err)
	}
	header := base64.RawURLEncoding.EncodeToString(data)
	if plain {
		c.caller.Store(&header)
	}
	return header, nil
}

// open asks, and gives the answer's body when there is one of the kind that was
// asked for. What did not reach the server, or whose answer was lost, is asked
// again while the client is patient: every command has its id by now. No attempt
// outlasts its bound.
func (c *Client) open(ctx context.Context, r *api.Route, q any, claims ops.Claims, accept string) (*http.Response, error) {
	return c.openEach(ctx, r, func() (any, bool) { return q, true }, claims, accept)
}

// openEach is open for a request that each attempt makes anew; none is made when
// the second result is false, except the first.
func (c *Client) openEach(ctx context.Context, r *api.Route, each func() (q any, again bool), claims ops.Claims, accept string) (*http.Response, error) {
	began, patience := time.Now(), min(c.Patience, FirstPatience)
	if c.known.Load() {
		patience = c.Patience
	}
	q, _ := each()
	lost := false // an attempt may have reached the server, and its answer did not come
	for wait := pauseFirst; ; wait = min(2*wait, pauseMost) {
		res, err := c.attempt(ctx, r, q, claims, accept, began)
		if errors.As(err, new(unasked)) {
			return nil, err
		}
		lost = lost || err != nil && !undelivered(err)
		if err == nil && c.known.CompareAndSwap(false, true) {
			patience = c.Patience
		}
		switch {
		case err == nil && !passing(res):
			return res, nil
		case ctx.Err() != nil:
			drop(res)
			return nil, ctx.Err()
		case time.Since(began)+wait > patience && err == nil:
			return res, nil
		case time.Since(began)+wait > patience, err != nil && never(err):
			return nil, c.unreached(r, err, lost)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			drop(res)
			return nil, ctx.Err()
		}
		var again bool
		switch q, again = each(); {
		case !again && err == nil:
			return res, nil
		case !again:
			return nil, c.unreached(r, err, lost)
		}
		drop(res)
	}
}

// drop lets an answer go; nil: there was none.
func drop(res *http.Response) {
	if res != nil {
		_ = res.Body.Close()
	}
}

// unasked is a request that could not be made.
type unasked struct{ error }

func (u unasked) Unwrap() error { return u.error }

// errSilent says that the server did not answer in time.
var errSilent = errors.New("nothing is heard of it")

// attempt asks once. The answer's body is under the same bound: what is not heard
// of for so long ends with [errSilent].
func (c *Client) attempt(ctx context.Context, r *api.Route, q any, claims ops.Claims, accept string, began time.Time) (*http.Response, error) {
	ctx, cut := context.WithCancelCause(ctx)
	first, next := c.within(r, q)
	h := &heard{ctx: ctx, cut: cut, within: next}
	if c.hasty && next == c.Within {
		h.within = 0 // what was heard does not put it off
		first = max(first-time.Since(began), 0)
	}
	h.timer = time.AfterFunc(first, func() { cut(errSilent) })
	req, err := c.request(ctx, r, q, claims, accept)
	if err != nil {
		_ = h.Close()
		return nil, unasked{err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		err = h.silent(err)
		_ = h.Close()
		return nil, err
	}
	h.heard()
	h.ReadCloser, res.Body = res.Body, h
	return res, nil
}

// within is how long nothing may be heard before an answer begins, and then.
func (c *Client) within(r *api.Route, q any) (first, next time.Duration) {
	long := r.Patient()
	switch q := q.(type) {
	case api.PositionRequest:
		long = q.After != nil
	case api.TurnRequest:
		long = q.Block
	case api.WaitRequest: // whose answer begins at once
		return c.Within, api.Bound + c.Within
	}
	if long {
		return api.Bound + c.Within, api.Bound + c.Within
	}
	return c.Within, c.Within
}

// heard is an answer's body that ends when nothing is heard of it for too long.
type heard struct {
	io.ReadCloser
	ctx    context.Context
	cut    context.CancelCauseFunc
	timer  *time.Timer
	within time.Duration // 0: what is heard changes nothing
}

func (h *heard) heard() {
	if h.within > 0 {
		h.timer.Reset(h.within)
	}
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 {
		h.heard()
	}
	return n, h.silent(err)
}

// silent is the error as it is told: a deadline of ours is none of the caller's.
func (h *heard) silent(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(h.ctx), errSilent) {
		return errSilent
	}
	return err
}

func (h *heard) Close() error {
	h.timer.Stop()
	var err error
	if h.ReadCloser != nil {
		err = h.ReadCloser.Close()
	}
	h.cut(nil)
	return err
}

// passing says whether a server is only busy, or about to end.
func passing(res *http.Response) bool {
	return res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != ""
}

// never says whether asking again cannot help: there is no such socket, and the
// server never was there.
func never(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.As(err, new(*net.DNSError)) || strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: ")
}

// undelivered says whether a request certainly did not reach the server.
func undelivered(err error) bool {
	var refused *net.OpError
	return errors.As(err, &refused) && refused.Op == "dial" || never(err)
}

// unreached is the error of a server that does not answer. Whether a command
// reached it nobody knows, unless no attempt can have.
func (c *Client) unreached(r *api.Route, err error, lost bool) error {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.HostnameError)):
		return failure.New("untrusted_server", "name the file of the authority that signed its certificate in SSL_CERT_FILE, and reach it by a name that stands in the certificate",
			fmt.Errorf("trust the server at %s: %w", c.Server, err))
	case errors.As(err, new(tls.RecordHeaderError)), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return failure.New("no_tls", "write --ledger http://HOST:PORT", fmt.Errorf("the server at %s speaks no TLS: %w", c.Server, err))
	}
	if undelivered(err) && (!lost || r.Access == api.Read) {
		return failure.New("no_server", "start it: decklog serve; or name another ledger with --ledger", fmt.Errorf("reach the ledger at %s: %w", c.Server, err))
	}
	if r.Access == api.Read {
		return failure.New("no_answer", "see whether decklog serve runs there, and ask again", fmt.Errorf("ask the ledger at %s: %w", c.Server, err))
	}
	return fmt.Errorf("ask the ledger at %s: %w: %w", c.Server, events.ErrUnknown, err)
}

// answered are the forms of an answer.
type answered struct {
	Receipt  json.RawMessage   `json:"receipt"`
	View     json.RawMessage   `json:"view"`
	Refusal  *commands.Refusal `json:"refusal"`
	Error    *failure.Failure  `json:"error"`
	Progress *api.Progress     `json:"progress"`
}

// ask asks for an operation, and reads its answer.
func ask[Q, A any](c *Client, ctx context.Context, call *api.Call[Q, A], q Q, claims ops.Claims) (a A, refused *commands.Refusal, err error) {
	a, refused, err = askEach(c, ctx, call, func() (Q, bool) { return q, true }, claims)
	if command, is := any(q).(interface{ CommandID() events.CommandID }); is && err != nil {
		err = ops.Again(err, command.CommandID())
	}
	return a, refused, err
}

// askEach is ask for a request that each attempt makes anew.
func askEach[Q, A any](c *Client, ctx context.Context, call *api.Call[Q, A], each func() (Q, bool), claims ops.Claims) (a A, refused *commands.Refusal, err error) {
	res, err := c.openEach(ctx, &call.Route, func() (any, bool) { return each() }, claims, "application/json, application/x-ndjson")
	if err != nil {
		return a, nil, err
	}
	defer drain(res)
	if call.Shows() {
		c.stale.Store(res.Header.Get(api.StaleHeader) != "")
	}
	body := bufio.NewReader(res.Body)
	inLines := strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-ndjson")
	for {
		var data []byte
		if inLines {
			data, err = body.ReadBytes('\n')
		} else {
			data, err = io.ReadAll(body)
		}
		if err != nil && !(errors.Is(err, io.EOF) && len(data) > 0) {
			return a, nil, c.cut(&call.Route, err)
		}
		var got answered
		if err := json.Unmarshal(data, &got); err != nil {
			return a, nil, c.notOurs(res, err)
		}
		switch {
		case got.Progress != nil:
			if c.World.Progress != nil {
				c.World.Progress(got.Progress.What, got.Progress.Done, got.Progress.End)
			}
			continue
		case got.Error != nil:
			return a, nil, got.Error.Error()
		case got.Refusal != nil:
			return a, got.Refusal, nil
		}
		view := json.RawMessage(data)
		switch {
		case call.Receipt:
			view = got.Receipt
		case inLines:
			view = got.View
		}
		if res.StatusCode != http.StatusOK || json.Unmarshal(view, &a) != nil {
			return a, nil, c.notOurs(res, fmt.Errorf("%.200q", data))
		}
		return a, nil, nil
	}
}

// Stale says that the server's last answer said so of itself.
func (c *Client) Stale() bool { return c.stale.Load() }

// drain reads the rest, so that the connection can be used again.
func drain(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4096)
	_ = res.Body.Close()
}

// cut is the error of an answer that broke off.
func (c *Client) cut(r *api.Route, err error) error {
	if r.Access == api.Read {
		return failure.New("no_answer", "ask again", fmt.Errorf("the answer of %s broke off: %w", c.Server, err))
	}
	return fmt.Errorf("the answer of %s broke off: %w: %w", c.Server, events.ErrUnknown, err)
}

func (c *Client) notOurs(res *http.Response, err error) error {
	return failure.New("no_decklog", "name the address of a decklog serve with --ledger", fmt.Errorf("%s answers %s and not as decklog does: %w", c.Server, res.Status, err))
}
