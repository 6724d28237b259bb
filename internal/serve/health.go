package serve

import (
	"net/http"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/token"
)

// Audit is what the latest audit of the whole ledger said.
type Audit struct {
	OK       bool            `json:"ok"`
	Position events.Position `json:"position"` // up to which it looked
	Time     events.Time     `json:"time"`
	Fault    string          `json:"fault"` // the first thing that was wrong; empty: nothing
}

// Audited tells the server what the latest audit said.
func (s *Server) Audited(a Audit) { s.audit.Store(&a) }

// LastAudit is what the latest audit said; nil while there was none.
func (s *Server) LastAudit() *Audit { return s.audit.Load() }

// DeskOf gives the operations as the holder of a token has them.
func (s *Server) DeskOf(who token.Token) *ops.Ops {
	desk := *s.Ops
	desk.World.Environ = func(string) string { return "" }
	desk.World.Ancestors = func() []events.Process { return nil }
	desk.World.Progress = nil
	if !who.OfMachine() {
		desk.World.Claims = &ops.Claims{Token: who.Participant}
	}
	return &desk
}

// Ready is whether the ledger can be relied on.
type Ready struct {
	Ready    bool            `json:"ready"`
	Says     string          `json:"says"`
	Position events.Position `json:"position"` // of the last event
	Verify   *Audit          `json:"verify"`   // the latest audit; null while the first one runs
}

// open puts what says how the server is on a mux.
func (s *Server) open(mux *http.ServeMux) {
	// Without a method they would be the dashboard's for any but GET.
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "GET, HEAD")
			s.fail(w, fault(http.StatusMethodNotAllowed, "method_not_allowed", "this path is only read", "ask with GET"))
		})
	}
	// To start it again would help nothing while the ledger's cluster is away: that is
	// said, and is for /readyz.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		healthy := map[string]any{"ok": true}
		if says := s.behind(); says != "" {
			healthy["stale"], healthy["says"] = true, says
		}
		document(w, http.StatusOK, healthy)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready := s.ready()
		status := http.StatusOK
		if !ready.Ready {
			status = http.StatusServiceUnavailable
		}
		document(w, status, ready)
	})
	described, err := api.OpenAPI(s.Version)
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			s.fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(described)
	})
}

// behind is why what is shown may lack what was recorded long ago; empty: it does not.
func (s *Server) behind() string {
	lag, _ := s.Ops.Lag()
	if lag.Why == nil {
		return ""
	}
	f := failure.Of(lag.Why)
	return "what is shown is stale: " + f.Message + ": " + f.Fix
}

// ready reads the ledger's end, and what the latest audit said: a ledger that is
// not as it was written is not ready, and neither is one that nobody has read yet.
func (s *Server) ready() (r Ready) {
	end, err := s.Ops.End()
	r.Position, r.Verify = end, s.LastAudit()
	switch {
	case s.life.Err() != nil:
		r.Says = "the server is about to end"
	case err != nil:
		r.Says = failure.Of(err).Message
	case s.behind() != "":
		r.Says = s.behind()
	case s.Ops.Hub != nil && s.Ops.Hub.Down() != nil:
		r.Says = "who waits is not woken: " + failure.Of(s.Ops.Hub.Down()).Message
	case r.Verify == nil:
		r.Says = "the ledger is being read for the first time"
	case !r.Verify.OK:
		r.Says = "the ledger is not as it was written: " + r.Verify.Fault
	default:
		r.Ready, r.Says = true, "ready"
	}
	return r
}
