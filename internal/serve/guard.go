package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/token"
)

// Guard stands before every handler of the server. What it lets through has a
// path, a host and an origin that are what they seem, a token where one is
// needed, and bounds on everything that it may still send. No handler is reached
// around it: what a route needs is said in its [Rule], and a route without one
// needs a token.
type Guard struct {
	config  GuardConfig
	log     *slog.Logger
	fails   failures
	running running
	large   chan struct{} // one for each large body that is read
	room    chan struct{} // one for each open connection
}

// GuardConfig is what a guard needs to know. Tokens and Now have to be there.
type GuardConfig struct {
	Tokens interface {
		Check(secret string, now events.Time) (token.Token, error)
	}
	Now    func() events.Time
	Limits Limits
	// Hosts are the names under which the server is reached besides those of this
	// machine's loopback and the address itself.
	Hosts []string
	// Machine is this one's name, where others serve the same ledger: each has tokens of
	// its own. Empty: there is no other.
	Machine string
	Log     *slog.Logger // nil: nothing is logged
	// Served is told of every request that was answered; nil: nobody is. The route
	// is a pattern of the table or empty, never what the caller wrote.
	Served func(method, route string, status int, took time.Duration)
}

// Gate says who gets to a route without a token.
type Gate int

// The gates.
const (
	Closed Gate = iota // nobody
	Near               // whoever is on this machine: by its loopback or the socket
	Open               // everybody
)

// Rule is what a route asks of its callers. The zero value asks for a token that
// may read, or write where the method is not GET or HEAD.
type Rule struct {
	Gate Gate // for a route under /v1/ or of /mcp it is always closed
	// Needs is what the token must be good for; empty: what the method says.
	Needs token.Scope
	// Machine says that only the machine's own token will do.
	Machine bool
	// Cookie says that the token may come in the browser's cookie instead of the
	// header. It never may under /v1/ and at /mcp.
	Cookie bool
	// Form says that the body is a form, and not JSON.
	Form bool
	// BodyBytesMax bounds the body; 0: Limits.BodyBytesMax.
	BodyBytesMax int64
}

// Rules are what the routes of the table ask for, by their patterns.
func Rules() map[string]Rule {
	rules := map[string]Rule{}
	for _, r := range api.Routes() {
		rule := Rule{Needs: token.Write, Machine: r.Access == api.Machine}
		if r.Access == api.Read {
			rule.Needs = token.Read
		}
		rules[r.Pattern()] = rule
	}
	return rules
}

// NewGuard makes a guard.
func NewGuard(c GuardConfig) *Guard {
	c.Limits = c.Limits.orDefaults()
	g := &Guard{config: c, log: c.Log, large: make(chan struct{}, c.Limits.LargeBodies), room: make(chan struct{}, min(c.Limits.ConnectionsMax, filesFree()))}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return g
}

type whoKey struct{}

// admitted is what a request came with.
type admitted struct {
	who    token.Token
	secret string
}

// Who is the token that a request came with; false when it came without one,
// through a gate that stood open.
func Who(ctx context.Context) (token.Token, bool) {
	a, is := ctx.Value(whoKey{}).(admitted)
	return a.who, is
}

// Good says whether the token that a request came with is still good: for
// answers that take long. One that came without any is as good as it was.
func (g *Guard) Good(ctx context.Context) bool {
	a, is := ctx.Value(whoKey{}).(admitted)
	if !is {
		return true
	}
	_, err := g.config.Tokens.Check(a.secret, g.config.Now())
	return err == nil
}

// CookieName is the cookie in which the dashboard keeps its token.
const CookieName = "decklog_token"

// Around guards what a mux serves. rule says what the route with a pattern of
// this mux asks for.
func (g *Guard) Around(mux *http.ServeMux, rule func(pattern string) Rule) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := &answer{ResponseWriter: w, limits: &g.config.Limits}
		a := &asked{began: began, out: answer}
		defer g.closing(a, r)
		g.serve(answer, r, mux, rule, a)
	})
}

// asked is what is told of a request when it is over.
type asked struct {
	began time.Time
	out   *answer
	route string // its pattern; empty: there is none
	who   string // the token's id
}

func (g *Guard) serve(w *answer, r *http.Request, mux *http.ServeMux, rule func(string) Rule, a *asked) {
	protect(w.Header(), r)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// There may have been a length beside the encoding, which is not shown here: what
		// follows is then the next request to one reader and part of this one to another.
		w.Header().Set("Connection", "close")
	}
	for _, check := range []func(*http.Request) *Fault{checkPath, g.checkHost, checkOrigin} {
		if fault := check(r); fault != nil {
			g.refuse(w, r, fault)
			return
		}
	}
	_, pattern := mux.Handler(r)
	if !leads(pattern, r) {
		pattern = ""
	}
	a.route = pattern
	asks := rule(pattern)
	if isAPI(r.URL.Path) {
		asks.Gate, asks.Cookie = Closed, false
	}
	came, fault := g.admit(r, asks)
	who := came.who
	if who.ID != "" {
		a.who = who.ID
		r = r.WithContext(context.WithValue(r.Context(), whoKey{}, came))
	}
	if fault == nil && pattern == "" {
		fault = nowhere(mux, w, r)
	}
	if fault == nil {
		fault = asks.enough(r, who)
	}
	if fault == nil {
		var done func()
		if done, fault = g.running.begin(who, g.config.Limits.RequestsPerToken); fault == nil {
			defer done()
			fault = g.bound(w, r, asks)
		}
	}
	if fault != nil {
		g.refuse(w, r, fault)
		return
	}
	mux.ServeHTTP(w, r)
}

// leads says whether a pattern that fits a request is one for it: a page that
// takes every path does not take those of the API.
func leads(pattern string, r *http.Request) bool {
	_, path, _ := strings.Cut(pattern, "/")
	return pattern != "" && (!isAPI(r.URL.Path) || isAPI("/"+path))
}

// isAPI says whether a path is one that always needs a token, and never the
// browser's.
func isAPI(path string) bool {
	return path == "/mcp" || strings.HasPrefix(path, "/mcp/") || path == "/v1" || strings.HasPrefix(path, "/v1/")
}

// admit finds out whose token a request came with, before anything of its body
// is read.
func (g *Guard) admit(r *http.Request, asks Rule) (admitted, *Fault) {
	open := asks.Gate == Open || asks.Gate == Near && isNear(r)
	secret, there, fault := bearer(r)
	if !there && fault == nil && asks.Cookie {
		if cookie, err := r.Cookie(CookieName); err == nil {
			secret, there = cookie.Value, true
		}
	}
	switch {
	case fault != nil:
		return admitted{}, fault
	case !there && open:
		return admitted{}, nil
	case !there:
		return admitted{}, noToken(r)
	}
	who, fault := g.Check(r, secret)
	switch {
	case fault == nil:
		return admitted{who, secret}, nil
	case open:
		return admitted{}, nil // what needs no token is not kept from who has an old one
	}
	return admitted{}, fault
}

// bearer is the token in a request's header. A second header is a fault: two
// readers could each believe another one.
func bearer(r *http.Request) (secret string, there bool, _ *Fault) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return "", false, nil
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true, badToken("the header Authorization is not one of the form \"Bearer TOKEN\"")
	}
	return strings.TrimLeft(secret, " "), true, nil
}

// Check says whose token a secret is, and counts those that are none: for a form
// that takes one as well. A good one is good however many bad ones came before
// from the same address, since who shares it (everybody on this machine shares
// one) could else lock all others out; a secret of 32 random bytes is not found
// by trying.
func (g *Guard) Check(r *http.Request, secret string) (token.Token, *Fault) {
	who, err := g.config.Tokens.Check(secret, g.config.Now())
	if err == nil {
		return who, nil
	}
	if errors.Is(err, token.ErrDamaged) {
		g.log.Error("tokens", "error", err)
		return token.Token{}, tokensDamaged()
	}
	if wait := g.fails.count(remote(r), time.Now(), &g.config.Limits); wait > 0 {
		return token.Token{}, tooManyFailures(wait)
	}
	switch {
	case errors.Is(err, token.ErrRevoked):
		return token.Token{}, revokedToken()
	case errors.Is(err, token.ErrExpired):
		return token.Token{}, expiredToken()
	}
	if machine := g.config.Machine; machine != "" {
		return token.Token{}, badTokenHere(machine)
	}
	return token.Token{}, badToken("it is no token of this ledger")
}

// enough says whether a token is good for a route.
func (asks Rule) enough(r *http.Request, who token.Token) *Fault {
	if who.ID == "" {
		return nil // the gate was open
	}
	needs := asks.Needs
	if needs == "" {
		needs = token.Read
		if !looks(r.Method) {
			needs = token.Write
		}
	}
	switch {
	case asks.Machine && !who.OfMachine():
		return machineOnly()
	case !who.Scope.May(needs):
		return readOnlyToken(who)
	}
	return nil
}

// looks says whether a method only looks.
func looks(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// running counts what each token is doing.
type running struct {
	mu sync.Mutex
	of map[string]int
}

// begin counts a request of a token, unless it has too many. Those of the machine
// are bounded by the connections alone: its token is that of every session here.
func (n *running) begin(who token.Token, most int) (done func(), _ *Fault) {
	if who.ID == "" || who.OfMachine() {
		return func() {}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]int{}
	}
	if n.of[who.ID] >= most {
		return nil, tooManyRequests(most)
	}
	n.of[who.ID]++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.of[who.ID]--; n.of[who.ID] == 0 {
			delete(n.of, who.ID)
		}
	}, nil
}

// closing ends a request: a handler that panicked is answered for, and what
// happened is logged. No line holds a body, a token, a query, or the path as the
// caller wrote it.
func (g *Guard) closing(a *asked, r *http.Request) {
	panicked := recover()
	if panicked != nil && panicked != http.ErrAbortHandler {
		g.log.Error("panic", "method", knownMethod(r.Method), "route", a.route, "token", a.who, "panic", saysOf(panicked), "stack", string(debug.Stack()))
		if a.out.status == 0 {
			a.out.Header().Set("Connection", "close")
			internalError().write(a.out, r)
			panicked = nil
		}
	}
	status := a.out.status
	switch {
	case panicked != nil:
		status = 0 // it was cut off
	case status == 0:
		status = http.StatusOK // a handler that writes nothing
	}
	took := time.Since(a.began)
	level := slog.LevelInfo
	if status >= 500 || status == 0 {
		level = slog.LevelWarn
	}
	g.log.LogAttrs(r.Context(), level, "request",
		slog.String("method", knownMethod(r.Method)), slog.String("route", a.route), slog.Int("status", status),
		slog.Int64("bytes", a.out.bytes), slog.Int64("ms", took.Milliseconds()), slog.String("token", a.who), slog.String("remote", remote(r)))
	if g.config.Served != nil {
		g.config.Served(knownMethod(r.Method), a.route, status, took)
	}
	if panicked != nil {
		// The client has to see that the answer is not whole.
		panic(http.ErrAbortHandler)
	}
}

// saysOf is what a panic says, where it can hold nothing of a request.
func saysOf(panicked any) string {
	if fault, is := panicked.(runtime.Error); is {
		return fault.Error()
	}
	return fmt.Sprintf("a %T", panicked)
}

// methods are those that anything here is asked with.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// knownMethod is a method that is known, so that no caller makes up names for
// what is counted and logged.
func knownMethod(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// remote is the address that a request came from, without its port; "unix" for
// the socket.
func remote(r *http.Request) string {
	if isSocket(r) {
		return "unix"
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	return host
}

func isSocket(r *http.Request) bool {
	local, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return is && local.Network() == "unix"
}

// isNear says whether a request came from this machine.
func isNear(r *http.Request) bool {
	if isSocket(r) {
		return true
	}
	local, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	from := net.ParseIP(remote(r))
	return is && local.IP.IsLoopback() && from != nil && from.IsLoopback()
}
