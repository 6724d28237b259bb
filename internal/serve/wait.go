package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

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
// kilobytes for it, and waits on the bare connection.
func (s *Server) wait(ctx context.Context, w http.ResponseWriter, req *http.Request, who token.Token, desk *ops.Ops, in json.RawMessage) {
	q, err := api.Decode[api.WaitRequest](in)
	if err != nil {
		s.fail(w, err)
		return
	}
	own := ours(req) // the request itself is let go of
	if who.OfMachine() {
		if conn, buffered, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = buffered.Flush() // nothing was written
			header := w.Header().Clone()
			// A goroutine of its own has a small stack, and lets go of the request.
			s.waits.Go(func() { s.waitOn(conn, header, desk, q, own) })
			return
		}
	}
	out := &lineWriter{w: w}
	if err := out.begin(); err != nil {
		return
	}
	s.waitInLines(ctx, out.write, desk, q, own)
}

// waitOn waits on a connection that is this wait's alone, and closes it.
func (s *Server) waitOn(conn net.Conn, header http.Header, desk *ops.Ops, q api.WaitRequest, own bool) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(s.life, Bound)
	defer cancel()
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
		var one [1]byte
		_, _ = conn.Read(one[:])
		cancel()
	}()
	s.waitInLines(ctx, func(v any) error {
		data, err := encode(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "%x\r\n%s\r\n", len(data), data)
		return err
	}, desk, q, own)
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

func (s *Server) waitInLines(ctx context.Context, write func(any) error, desk *ops.Ops, q api.WaitRequest, own bool) {
	s.opened("wait")
	wait, cancel := api.Bounded(ctx, q.Within)
	defer cancel()
	ended, refused, err := desk.Wait(wait, q.WaitRequest, func(came ops.Waited) error {
		if came.Lease == "" {
			return write(api.WaitLine{Came: &came})
		}
		confirmed, end := s.confirmed.expect(came.Lease)
		defer end()
		if err := write(api.WaitLine{Came: &came}); err != nil {
			return err
		}
		late := time.NewTimer(ConfirmWithin)
		defer late.Stop()
		select {
		case <-confirmed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return failure.New("not_confirmed", "confirm each lease as soon as it is printed: POST /v1/leases/LEASE/confirm; it comes again",
				fmt.Errorf("lease %s was shown and not confirmed", came.Lease))
		}
	})
	switch {
	case err != nil:
		_ = write(map[string]any{"error": failureOf(err)})
		s.closed("wait", "failed")
	case refused != nil:
		if !own {
			refused = api.Refused(refused)
		}
		_ = write(api.WaitLine{Refusal: refused})
		s.closed("wait", "refused")
	default:
		_ = write(api.WaitLine{Ended: &ended})
		s.closed("wait", "ended")
	}
}
