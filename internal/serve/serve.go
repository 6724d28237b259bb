package serve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/token"
)

// ConfirmWithin is how long a wait holds for the confirm of what it showed.
const ConfirmWithin = time.Minute

// Config is what a server is given.
type Config struct {
	// Ops are the operations on the ledger. Their world is the server's own; who
	// calls is put into it for each request.
	Ops *ops.Ops
	// Who is whose token a request came with.
	Who func(context.Context) (token.Token, bool)
	// Good says whether the request's token is still good; nil: it is.
	Good func(context.Context) bool
	// Log is told of what goes wrong; never of a body.
	Log     *slog.Logger
	Version string // of the program
	// Streams is told of each subscriber: when it came, and why it went.
	Streams Streams
}

// Streams is told who listens.
type Streams interface {
	Opened(kind string)
	Closed(kind, reason string)
}

// Server answers /v1/.
type Server struct {
	Config
	confirmed confirms
	life      context.Context // ends when the server does
	end       context.CancelFunc
	audit     atomic.Pointer[Audit]
	waits     sync.WaitGroup // that have taken their connections
	watched   watched
	verifying verifying
}

// New makes a server.
func New(c Config) *Server {
	life, end := context.WithCancel(context.Background())
	return &Server{
		Config: c, confirmed: confirms{waiting: map[events.LeaseID]chan struct{}{}}, life: life, end: end,
		watched: watched{of: map[string]*watch{}}, verifying: verifying{turn: make(chan struct{}, 1)},
	}
}

// Close tells those who wait that the server ends: they are answered at once.
func (s *Server) Close() { s.end() }

// Wait waits until those were answered who wait on connections of their own, after
// Close.
func (s *Server) Wait() { s.waits.Wait() }

// Register puts the table's routes on a mux.
func (s *Server) Register(mux *http.ServeMux) {
	for _, r := range api.Routes() {
		mux.Handle(r.Pattern(), s.Handler(r))
	}
	s.open(mux)
}

// Handler answers one route, for whom the [Guard] let through: that says what the
// token of a request is good for.
func (s *Server) Handler(r *api.Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, known := s.Who(req.Context())
		if !known {
			s.fail(w, failure.New("no_token", "send a token: Authorization: Bearer TOKEN", errors.New("the request names nobody")))
			return
		}
		desk, err := s.desk(who, req)
		if err != nil {
			s.fail(w, err)
			return
		}
		desk.Still = s.Still(req.Context())
		in, err := gather(r, req)
		if err != nil {
			s.fail(w, err)
			return
		}
		ctx, cancel := s.bounded(req.Context())
		defer cancel()
		in, stale, err := s.reach(ctx, w, desk, r, in)
		if err != nil {
			s.fail(w, err)
			return
		}
		switch r {
		case &api.Wait.Route:
			s.wait(w, req, who, desk, in)
		case &api.Events.Route:
			s.events(w, req, desk, in, stale)
		default:
			if r.Patient() {
				var stop context.CancelFunc
				ctx, stop = s.watch(ctx, who)
				defer stop()
			}
			s.answer(ctx, w, req, desk, r, in, stale)
		}
	})
}

// reach waits for what the answer must see, and says in the header where it has not
// come, or where the ledger itself says that it is stale. The rest of the request is
// the operation's.
func (s *Server) reach(ctx context.Context, w http.ResponseWriter, desk *ops.Ops, r *api.Route, in json.RawMessage) (rest json.RawMessage, stale bool, err error) {
	rest, least, err := r.Least(in)
	if least > 0 && err == nil {
		var end events.Position
		end, err = ops.Reach(ctx, desk, least)
		if gone := desk.Still(); gone != nil { // it may have waited
			err = gone
		}
		stale = end < least
	}
	return rest, isStale(w, desk, r, stale), err
}

// isStale says whether an answer that shows something is stale, and says so in its header.
func isStale(w http.ResponseWriter, desk *ops.Ops, r *api.Route, already bool) bool {
	stale := already || r.Shows() && desk.Stale()
	if stale {
		w.Header().Set(api.StaleHeader, "true")
	}
	return stale
}

// bounded is the context of a request that may wait: it ends with the request,
// with the server, or at the bound.
func (s *Server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, api.Bound)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// desk gives the operations as the caller has them. With the machine's token what
// the client says of its caller is believed, as it is on a file. With any other the
// token says who that may be, and the client only which of these it is.
func (s *Server) desk(who token.Token, req *http.Request) (*ops.Ops, error) {
	desk := s.DeskOf(who)
	header := req.Header.Get(api.CallerHeader)
	if header == "" {
		return desk, nil
	}
	var caller api.Caller
	data, err := base64.RawURLEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(data, &caller)
	}
	if err != nil {
		return nil, api.BadRequest{What: "the header " + api.CallerHeader + " cannot be read"}
	}
	desk.World.Environ = func(name string) string { return caller.Environ[name] }
	if !who.OfMachine() {
		// Of another machine nothing is known but the token: its processes cannot be
		// looked at from here, and its name is not believed, which bounds what it sends.
		desk.World.Device = "token " + who.ID
		desk.World.Alive = func(events.Process) bool { return true }
		caller.Claims.Token = who.Participant
	} else {
		caller.Claims.Token = ""
		if caller.Device != "" {
			desk.World.Device = caller.Device
		}
		desk.World.Ancestors = func() []events.Process { return caller.Ancestors }
		if caller.OSUser != "" {
			desk.World.OSUser = caller.OSUser
		}
	}
	desk.World.Claims = &caller.Claims
	return desk, nil
}

// gather reads the request. Its body was bounded before.
func gather(r *api.Route, req *http.Request) (json.RawMessage, error) {
	var body []byte
	if !r.InQuery() {
		if kind := req.Header.Get("Content-Type"); kind != "" {
			if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
				return nil, failure.New("not_json", "send the request as JSON, with Content-Type: application/json", fmt.Errorf("the body is %q", kind))
			}
		}
		var fault *Fault
		if body, fault = ReadBody(req); fault != nil {
			return nil, fault
		}
	}
	return r.Gather(req.PathValue, req.URL.Query(), body)
}

const (
	lines  = "application/x-ndjson"
	stream = "text/event-stream"
)

// accepts says whether the client asks for this kind of answer by name.
func accepts(req *http.Request, kind string) bool {
	for _, accept := range req.Header.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			if media, _, err := mime.ParseMediaType(strings.TrimSpace(one)); err == nil && media == kind {
				return true
			}
		}
	}
	return false
}

// answer asks for the operation and writes its answer. A client that takes lines
// is told how far long work has come, and the last line is the answer.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, req *http.Request, desk *ops.Ops, r *api.Route, in json.RawMessage, stale bool) {
	var out *lineWriter
	if accepts(req, lines) {
		out = &lineWriter{w: w}
		desk.World.Progress = func(what string, done, end events.Position) {
			_ = out.write(api.Line{Progress: &api.Progress{What: what, Done: done, End: end}})
		}
	}
	do := r.Do
	if r == &api.Verify.Route {
		do = s.verify
	}
	answer, refused, err := do(ctx, desk, in)
	if r.Patient() && !r.Receipt && err == nil {
		// What came while it waited is not for who may ask no longer. And while it waited
		// the cluster may have gone away.
		err = desk.Still()
		stale = isStale(w, desk, r, stale)
	}
	if r == &api.Confirm.Route && err == nil && refused == nil {
		if q, err := api.Decode[api.ConfirmRequest](in); err == nil {
			s.confirmed.tell(q.Lease) // and the wait goes on that showed it
		}
	}
	if !ours(req) {
		answer, refused = api.Said(answer), api.Refused(refused)
	}
	if out != nil && out.begun {
		_ = out.write(lineOf(r, ops.Seen(answer, stale), refused, err)) // who went away is not told
		return
	}
	switch {
	case err != nil:
		s.fail(w, err)
	case refused != nil:
		s.refuse(w, req, refused, stale)
	case r.Receipt:
		document(w, http.StatusOK, map[string]any{"receipt": answer})
	default:
		document(w, http.StatusOK, ops.Seen(answer, stale))
	}
}

func lineOf(r *api.Route, answer any, refused *commands.Refusal, err error) any {
	switch {
	case err != nil:
		return map[string]any{"error": failureOf(err)}
	case refused != nil:
		return map[string]any{"refusal": refused}
	case r.Receipt:
		return map[string]any{"receipt": answer}
	}
	return map[string]any{"view": answer}
}

// confirms are the leases that waits have shown, and whose confirm they wait for.
type confirms struct {
	mu      sync.Mutex
	waiting map[events.LeaseID]chan struct{}
}

func (c *confirms) expect(id events.LeaseID) (confirmed <-chan struct{}, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := make(chan struct{})
	c.waiting[id] = told
	return told, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting[id] == told {
			delete(c.waiting, id)
		}
	}
}

func (c *confirms) tell(id events.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told, is := c.waiting[id]; is {
		delete(c.waiting, id)
		close(told)
	}
}

func (s *Server) opened(kind string) {
	if s.Streams != nil {
		s.Streams.Opened(kind)
	}
}

func (s *Server) closed(kind, reason string) {
	if s.Streams != nil {
		s.Streams.Closed(kind, reason)
	}
}
