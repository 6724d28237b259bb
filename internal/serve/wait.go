package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/token"
)

// wait is a wait as lines: each thing that came as it comes, and how it ended. What
// came with a lease counts as printed once the client has confirmed it.
//
// Every session of a machine may wait, all of the time. With the machine's token
// the wait takes the connection from the HTTP server, which would keep some forty
// kilobytes for it, and waits on the bare connection; not so with HTTP/1.0, which
// knows no chunks.
func (s *Server) wait(w http.ResponseWriter, req *http.Request, who token.Token, desk *ops.Ops, in json.RawMessage) {
	q, err := api.Decode[api.WaitRequest](in)
	if err != nil {
		s.fail(w, err)
		return
	}
	own := ours(req) // the request itself is let go of
	if who.OfMachine() && req.ProtoAtLeast(1, 1) {
		if conn, buffered, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = buffered.Flush() // nothing was written
			header := w.Header().Clone()
			asked := context.WithoutCancel(req.Context()) // which ends with this handler
			// A goroutine of its own has a small stack, and lets go of the request.
			s.waits.Go(func() { s.waitOn(asked, conn, header, who, desk, q, own) })
			return
		}
	}
	out := &lineWriter{w: w}
	if err := out.begin(); err != nil {
		return
	}
	s.waitInLines(req.Context(), out.write, who, desk, q, own)
}

// behindMax is how many bytes behind a wait's request are let pass: some clients
// end a body with a line of their own.
const behindMax = 4096

// waitOn waits on a connection that is this wait's alone, and closes it.
func (s *Server) waitOn(ctx context.Context, conn net.Conn, header http.Header, who token.Token, desk *ops.Ops, q api.WaitRequest, own bool) {
	defer conn.Close()
	defer func() {
		// No other than this wait may end with it.
		if p := recover(); p != nil {
			s.panicked(p)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	desk.Still = s.Still(ctx)
	var head strings.Builder
	header.Set("Content-Type", lines)
	header.Set("Connection", "close")
	header.Set("Transfer-Encoding", "chunked")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // to memory
	head.WriteString("\r\n")
	to := stalls{conn}
	if _, err := io.WriteString(to, head.String()); err != nil {
		return
	}
	head.Reset()
	_ = conn.SetReadDeadline(time.Time{})
	go func() {
		// The client has said all that it says; what comes next is that it went.
		defer cancel()
		var some [64]byte
		for behind := 0; behind < behindMax; {
			n, err := conn.Read(some[:])
			if err != nil {
				return
			}
			behind += n
		}
	}()
	s.waitInLines(ctx, func(v any) error {
		data, err := encode(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "%x\r\n%s\r\n", len(data), data)
		return err
	}, who, desk, q, own)
	_, _ = io.WriteString(to, "0\r\n\r\n")
}

// stalls is a connection that gives up on who takes nothing for too long.
type stalls struct{ net.Conn }

func (s stalls) Write(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(StallMax)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// panicked logs what went wrong where no handler is, and nothing of a request.
func (s *Server) panicked(p any) {
	if s.Log != nil {
		s.Log.Error("panic", "panic", saysOf(p), "stack", string(debug.Stack()))
	}
}

// waitInLines waits for as long as the client is there and its token good, up to
// the bound.
func (s *Server) waitInLines(ctx context.Context, write func(any) error, who token.Token, desk *ops.Ops, q api.WaitRequest, own bool) {
	reason := reasonFailed // where it panics
	s.opened("wait")
	defer func() { s.closed("wait", reason) }()
	ctx, stop := s.watch(ctx, who)
	defer stop()
	wait, cancel := s.bounded(ctx)
	defer cancel()
	wait, end := api.Bounded(wait, q.Within)
	defer end()
	q.Confirms = true
	say := func(l api.WaitLine) error { return wrote(write(l)) }
	q.Began = func(at events.Position) error { return say(api.WaitLine{Began: &at}) }
	ended, refused, err := desk.Wait(wait, q.WaitRequest, func(came ops.Waited) error {
		if came.Lease == "" {
			return say(api.WaitLine{Came: &came})
		}
		confirmed, end := s.confirmed.expect(came.Lease)
		defer end()
		if err := say(api.WaitLine{Came: &came}); err != nil {
			return err
		}
		late := time.NewTimer(ConfirmWithin)
		defer late.Stop()
		select {
		case <-confirmed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.life.Done():
			return errEnds
		case <-late.C:
			return failure.New("not_confirmed", "confirm each lease as soon as it is printed: POST /v1/leases/LEASE/confirm; it comes again",
				fmt.Errorf("lease %s was shown and not confirmed", came.Lease))
		}
	})
	if errors.Is(context.Cause(ctx), errToken) {
		err = errToken
	}
	switch {
	case err != nil:
		_ = write(map[string]any{"error": failureOf(err)})
		reason = s.reasonOf(ctx, err)
	case refused != nil:
		if !own {
			refused = api.Refused(refused)
		}
		_ = say(api.WaitLine{Refusal: refused})
		reason = reasonRefused
	default:
		_ = say(api.WaitLine{Ended: &ended})
		reason = reasonEnded
	}
}
