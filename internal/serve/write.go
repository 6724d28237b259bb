package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"decklog/commands"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
)

// StallMax is how long a client may take nothing of a stream before it is dropped.
const StallMax = 10 * time.Second

// statuses are the HTTP statuses of failures, by their codes; others are 500.
var statuses = map[string]int{
	"bad_request": http.StatusBadRequest, "beyond_end": http.StatusBadRequest, "request_incomplete": http.StatusBadRequest,
	"no_token": http.StatusUnauthorized, "bad_token": http.StatusUnauthorized, "revoked_token": http.StatusUnauthorized, "expired_token": http.StatusUnauthorized,
	"read_only_token": http.StatusForbidden, "machine_only": http.StatusForbidden, "cross_site": http.StatusForbidden,
	"not_found": http.StatusNotFound, "conflict": http.StatusConflict, "request_too_large": http.StatusRequestEntityTooLarge,
	"not_json": http.StatusUnsupportedMediaType, "too_many": http.StatusTooManyRequests,
	"ledger_locked": http.StatusServiceUnavailable, "ledger_read_only": http.StatusServiceUnavailable, "busy": http.StatusServiceUnavailable, "shutdown": http.StatusServiceUnavailable,
	"no_space": http.StatusInsufficientStorage,
	// Of a ledger in a cluster: how it stands, /readyz and doctor say.
	"unreachable": http.StatusServiceUnavailable, "stale": http.StatusServiceUnavailable, "recorded_unseen": http.StatusServiceUnavailable,
	"other_ledger": http.StatusServiceUnavailable, "foreign_event": http.StatusServiceUnavailable, "access_denied": http.StatusServiceUnavailable,
	"cluster_refused": http.StatusServiceUnavailable, "views_damaged": http.StatusServiceUnavailable, "views_broken": http.StatusServiceUnavailable,
	"rebuilding": http.StatusConflict,
}

// failureOf says an error as the door tells it.
func failureOf(err error) failure.Failure {
	var bad api.BadRequest
	if errors.As(err, &bad) {
		return failure.Failure{Code: "bad_request", Message: bad.What, Fix: "see /v1/openapi.json for what each request takes; nothing was recorded"}
	}
	return failure.Of(err)
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, err error) {
	var fault *Fault
	if errors.As(err, &fault) {
		fault.answer(w, true)
		return
	}
	if errors.Is(err, errGone) {
		return // nobody reads it
	}
	if errors.Is(err, errEnds) {
		w.Header().Set("Retry-After", "1")
	}
	f := failureOf(err)
	status, known := statuses[f.Code]
	if !known {
		status = http.StatusInternalServerError
		if s.Log != nil {
			s.Log.Error("failed", "code", f.Code, "error", f.Message)
		}
	}
	document(w, status, map[string]any{"error": f})
}

// refuse answers with a refusal, under the status that it has.
func (s *Server) refuse(w http.ResponseWriter, req *http.Request, r *commands.Refusal, stale bool) {
	r = refusalFor(req, r)
	status := r.Status
	if status < 400 || status > 499 {
		status = http.StatusConflict
	}
	document(w, status, ops.Seen(map[string]any{"refusal": r}, stale))
}

// refusalFor says a refusal in the terms of who asks: those of requests, unless it is
// decklog's own client, which shows it to who typed a command.
func refusalFor(req *http.Request, r *commands.Refusal) *commands.Refusal {
	if ours(req) {
		return r
	}
	return api.Refused(r)
}

// ours says whether decklog's own client asks.
func ours(req *http.Request) bool { return req.Header.Get(api.CallerHeader) != "" }

// document writes one JSON document, its text as it is.
func document(w http.ResponseWriter, status int, v any) {
	data, err := encode(v)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(data) // who went away is not told
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

// lineWriter writes an answer line by line, each as soon as it is there.
type lineWriter struct {
	w     http.ResponseWriter
	begun bool
}

// begin sends the header, so that the client knows that it was heard.
func (l *lineWriter) begin() error {
	l.begun = true
	l.w.Header().Set("Content-Type", lines)
	l.w.WriteHeader(http.StatusOK)
	return l.flush()
}

func (l *lineWriter) write(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	if !l.begun {
		if err := l.begin(); err != nil {
			return err
		}
	}
	return send(l.w, data)
}

func (l *lineWriter) flush() error { return send(l.w, nil) }

// send writes and flushes, and gives up on who takes nothing for too long.
func send(w http.ResponseWriter, data []byte) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(StallMax)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return c.Flush()
}
