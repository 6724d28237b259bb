package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"decklog/events"
	"decklog/internal/ops"
)

// The bounds of a live stream.
const (
	LiveEventsMax   = 1000                   // looked at for the threads that one notice names
	LiveThreadsMax  = 100                    // named in one notice
	LiveGap         = 150 * time.Millisecond // between two notices
	LiveWriteMax    = 20 * time.Second       // for a browser to take one
	liveRetryMillis = 1000
)

// notice is what a live stream tells of a change: up to where the ledger goes, and
// the threads in which something happened since the notice before.
type notice struct {
	Position events.Position   `json:"position"`
	Threads  []events.ThreadID `json:"threads"`
	// More says that not every thread is named, or that what happened is of no thread.
	More bool `json:"more"`
}

// live tells a page that the ledger has changed, as server-sent events with the
// position as their id: from `after` on, or from Last-Event-ID, which a browser
// sends when it comes again. It is silent for the heartbeat at most. It ends when the
// browser goes, takes too long to read, or its token opens nothing any more.
func (d *dashboard) live(w http.ResponseWriter, r *http.Request) {
	secret := token(r)
	if secret == "" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	desk, _, err := d.Open(r, secret)
	switch {
	case errors.Is(err, ErrToken):
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	case err != nil:
		d.failed(r, err)
		http.Error(w, "failed", http.StatusServiceUnavailable)
		return
	}
	end, err := desk.End()
	if err != nil {
		d.failed(r, err)
		http.Error(w, "failed", http.StatusServiceUnavailable)
		return
	}
	after := end
	for _, from := range []string{r.URL.Query().Get("after"), r.Header.Get("Last-Event-ID")} {
		if n, err := strconv.ParseInt(from, 10, 64); err == nil && n >= 0 {
			after = min(events.Position(n), end)
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if d.Stop != nil {
		go func() {
			select {
			case <-d.Stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy must not keep it back
	out := http.NewResponseController(w)
	write := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(LiveWriteMax)) // where it cannot be set, the server's own holds
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !write("retry: %d\n\nid: %d\nevent: here\ndata: {\"position\":%d}\n\n", liveRetryMillis, after, after) {
		return
	}
	for {
		changed, err := d.changed(ctx, desk, after)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.failed(r, err)
			return
		}
		if _, _, err := d.Open(r, secret); err != nil {
			write("event: over\ndata: {}\n\n")
			return
		}
		if !changed {
			if !write(": beat\nevent: beat\ndata: {\"position\":%d}\n\n", after) {
				return
			}
			continue
		}
		n, err := since(desk, after)
		if err != nil {
			d.failed(r, err)
			return
		}
		data, err := json.Marshal(n)
		if err != nil || !write("id: %d\nevent: change\ndata: %s\n\n", n.Position, data) {
			return
		}
		after = n.Position
		select { // what happens meanwhile goes into one notice
		case <-time.After(LiveGap):
		case <-ctx.Done():
			return
		}
	}
}

// changed waits until the ledger has an event after a position; false when it had
// none for a heartbeat.
func (d *dashboard) changed(ctx context.Context, desk Desk, after events.Position) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, d.Heartbeat)
	defer cancel()
	err := desk.Past(wait, after)
	if err != nil && wait.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// since tells what changed after a position.
func since(desk Desk, after events.Position) (n notice, err error) {
	n = notice{Position: after, Threads: []events.ThreadID{}}
	named, seen := map[events.ThreadID]bool{}, 0
	_, refused, err := desk.Events(ops.EventsRequest{From: after + 1}, func(r events.Recorded) error {
		if seen++; seen > LiveEventsMax {
			return errEnough
		}
		n.Position = r.Position
		threads := events.ThreadsOf(r.Event)
		n.More = n.More || len(threads) == 0
		for _, id := range threads {
			if !named[id] && len(named) < LiveThreadsMax {
				named[id] = true
				n.Threads = append(n.Threads, id)
			} else if !named[id] {
				n.More = true
			}
		}
		return nil
	})
	if seen > LiveEventsMax {
		n.More = true
		n.Position, err = desk.End()
		return n, err
	}
	return n, failure(refused, err)
}
