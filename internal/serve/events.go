package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
)

// HeartbeatEvery is how often a stream of events says that it lives while
// nothing happens.
const HeartbeatEvery = 15 * time.Second

// TokenEvery is how often a stream looks whether its token is still good.
const TokenEvery = 2 * time.Second

// Why a subscriber is no more, as the last event of a stream says and the metrics do.
const (
	reasonShutdown = "shutdown" // the server ends; come back, with the last id
	reasonToken    = "token"    // the token is good no more
	reasonStalled  = "stalled"  // the client took nothing for too long; it is not told
	reasonGone     = "gone"     // the client went
	reasonFailed   = "failed"   // the ledger could not be read
	reasonRefused  = "refused"  // what was asked for was none
	reasonEnded    = "ended"    // it came to its end
)

// reasonOf says why a subscriber is no more, of whom an error was the last.
func (s *Server) reasonOf(ctx context.Context, err error) string {
	switch {
	case s.life.Err() != nil, errors.Is(err, errEnds):
		return reasonShutdown
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reasonStalled
	case errors.Is(err, errToken):
		return reasonToken
	case ctx.Err() != nil, errors.Is(err, errGone), errors.As(err, new(writeError)):
		return reasonGone
	}
	return reasonFailed
}

// events streams the ledger from a position on. Nothing is kept for a client: it
// is at a position, and reads on from there as fast as it takes. So a slow one
// costs nobody else, and one that takes nothing for [StallMax] is dropped.
func (s *Server) events(w http.ResponseWriter, req *http.Request, desk *ops.Ops, in json.RawMessage, stale bool) {
	q, err := api.Decode[api.EventsQuery](in)
	if err != nil {
		s.fail(w, err)
		return
	}
	if last := req.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			s.fail(w, api.BadRequest{What: "the header Last-Event-ID is no position: " + strconv.Quote(last)})
			return
		}
		q.From = events.Position(n + 1)
	}
	if q.From < 0 {
		s.fail(w, api.BadRequest{What: fmt.Sprintf("from is %d, and positions begin at 1", q.From)})
		return
	}
	inLines := accepts(req, lines) && !accepts(req, stream)
	if !inLines {
		if end, err := desk.End(); err != nil || q.From > end+1 {
			if err == nil {
				err = failure.New("beyond_end", "see whether this is the ledger that you read before, and begin with from=1 or with one of its positions",
					fmt.Errorf("the ledger has no event %d to go on behind: its last is %d", q.From-1, end))
			}
			s.fail(w, err)
			return
		}
	}
	if req.Method == http.MethodHead { // whose answer has no body that could come to an end
		w.Header().Set("Content-Type", stream)
		if inLines {
			w.Header().Set("Content-Type", lines)
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	if inLines {
		s.listEvents(w, req, desk, q.EventsRequest, stale)
		return
	}
	s.opened("events")
	f := &follower{Server: s, w: w, desk: desk, q: q, stale: stale}
	s.closed("events", f.follow(req))
}

// listEvents writes what is there now, one event a line, and last the position
// after which more may come.
func (s *Server) listEvents(w http.ResponseWriter, req *http.Request, desk *ops.Ops, q ops.EventsRequest, stale bool) {
	out := &lineWriter{w: w}
	var page bytes.Buffer
	last, refused, err := desk.Events(q, func(e events.Recorded) error {
		line, err := encode(ops.ShowEvent(e))
		if err != nil {
			return err
		}
		page.Write(line)
		if page.Len() < pageBytes {
			return nil
		}
		defer page.Reset()
		return out.raw(page.Bytes())
	})
	if err == nil && page.Len() > 0 {
		err = out.raw(page.Bytes())
	}
	switch {
	case err != nil && !out.begun:
		s.fail(w, err)
	case err != nil:
		_ = out.write(map[string]any{"error": failureOf(err)})
	case refused != nil && !out.begun:
		s.refuse(w, req, refused, stale)
	case refused != nil:
		_ = out.write(map[string]any{"refusal": refusalFor(req, refused)})
	default:
		_ = out.write(ops.Seen(map[string]any{"last": last}, stale))
	}
}

func (l *lineWriter) raw(data []byte) error {
	if !l.begun {
		if err := l.begin(); err != nil {
			return err
		}
	}
	return send(l.w, data)
}

// follower is one subscriber.
type follower struct {
	*Server
	w    http.ResponseWriter
	desk *ops.Ops
	q    api.EventsQuery
	told bool // the header went out
	// stale says that what there was at first did not reach what was to be seen.
	stale bool
	page  bytes.Buffer
}

// pageBytes is how much of a long answer goes out at once.
const pageBytes = 64 << 10

// follow goes on until somebody ends it, and says why it ended.
func (f *follower) follow(req *http.Request) (reason string) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(f.life, cancel)()
	for {
		// Before it is read: what comes meanwhile must not be slept through.
		end, err := f.desk.End()
		if err != nil {
			return f.over(ctx, err)
		}
		last, refused, err := f.desk.Events(f.q.EventsRequest, f.show)
		switch {
		case refused != nil && !f.told:
			f.refuse(f.w, req, refused, f.stale)
			return reasonRefused
		case err != nil && !f.told:
			f.fail(f.w, err)
			return reasonFailed
		case err != nil:
			return f.over(ctx, err)
		}
		if err := f.begin(); err != nil {
			return f.over(ctx, err)
		}
		if err := f.flush(); err != nil {
			return f.over(ctx, err)
		}
		if f.q.Wait != nil && !*f.q.Wait {
			return reasonEnded
		}
		f.q.From = last + 1
		if err := f.rest(ctx, max(end, last)); err != nil {
			return f.over(ctx, err)
		}
	}
}

// rest waits for what comes behind a position, and says meanwhile that it lives.
func (f *follower) rest(ctx context.Context, after events.Position) error {
	silent := time.Duration(0)
	for {
		beat, cancel := context.WithTimeout(ctx, TokenEvery)
		err := f.desk.Past(beat, after)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.Good != nil && !f.Good(ctx):
			return errToken
		case err == nil:
			return nil
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		if silent += TokenEvery; silent < HeartbeatEvery {
			continue
		}
		silent = 0
		if err := send(f.w, []byte(": still here\n\n")); err != nil {
			return err
		}
	}
}

// over says why a stream ends, also to the client if it still listens.
func (f *follower) over(ctx context.Context, err error) (reason string) {
	if reason = f.reasonOf(ctx, err); reason == reasonStalled || reason == reasonGone {
		return reason
	}
	said, err := encode(map[string]any{"reason": reason, "error": f.why(reason, err)})
	if err == nil {
		_ = send(f.w, append([]byte("event: end\ndata: "), append(said, '\n')...))
	}
	return reason
}

func (f *follower) why(reason string, err error) failure.Failure {
	switch reason {
	case reasonShutdown:
		return failure.Failure{Code: "shutdown", Message: "the server ends", Fix: "connect again, with Last-Event-ID"}
	case reasonToken:
		return failure.Failure{Code: "bad_token", Message: "the token is good no more", Fix: "connect again with another one, and with Last-Event-ID"}
	}
	return failureOf(err)
}

// begin sends the header before anything happened.
func (f *follower) begin() error {
	if f.told {
		return nil
	}
	f.told = true
	f.w.Header().Set("Content-Type", stream)
	f.w.Header().Set("Cache-Control", "no-store")
	f.w.WriteHeader(http.StatusOK)
	return wrote(send(f.w, []byte("retry: 1000\n\n")))
}

// show sends one event: its id is its position, from which the client can resume.
func (f *follower) show(e events.Recorded) error {
	if err := f.begin(); err != nil {
		return err
	}
	data, err := encode(ops.ShowEvent(e))
	if err != nil {
		return err
	}
	fmt.Fprintf(&f.page, "id: %d\nevent: %s\ndata: %s\n", e.Position, oneLine(string(e.Type())), data)
	if f.page.Len() < pageBytes {
		return nil
	}
	return f.flush()
}

func (f *follower) flush() error {
	defer f.page.Reset()
	if f.page.Len() == 0 {
		return nil
	}
	return wrote(send(f.w, f.page.Bytes()))
}

// oneLine keeps a name of a newer program's event from being more than a name.
func oneLine(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name)
}

// writeError is a failure to write to the client.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

func wrote(err error) error {
	if err == nil {
		return nil
	}
	return writeError{err}
}
