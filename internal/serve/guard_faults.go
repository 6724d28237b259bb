package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"decklog/internal/api"
	"decklog/internal/failure"
	"decklog/internal/token"
)

// Fault is why a request is not served. It says nothing that its caller wrote,
// and not whether an id or a path exists that the caller may not see.
type Fault struct {
	Status int
	api.Failure
	retry  time.Duration // after which it may be tried again
	bearer bool          // a token would help
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

// write answers with the fault.
func (f *Fault) write(w http.ResponseWriter, r *http.Request) {
	f.answer(w, r.Method != http.MethodHead)
}

func (f *Fault) answer(w http.ResponseWriter, body bool) {
	h := w.Header()
	if f.bearer {
		h.Set("WWW-Authenticate", `Bearer realm="decklog"`)
	}
	if f.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((f.retry+time.Second-1)/time.Second)))
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	b, err := json.Marshal(map[string]any{"error": f.Failure})
	if err != nil {
		panic(err) // strings can be written
	}
	b = append(b, '\n')
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(f.Status)
	if body {
		_, _ = w.Write(b)
	}
}

func fault(status int, code, message, fix string) *Fault {
	return &Fault{Status: status, Failure: api.Failure{Failure: failure.Failure{Code: code, Message: message, Fix: fix}}}
}

const tokenFix = "give a token of `decklog token create` in the header Authorization: Bearer TOKEN; decklog's own commands take it from DECKLOG_TOKEN"

func needsToken(code, message, fix string) *Fault {
	f := fault(http.StatusUnauthorized, code, message, fix)
	f.bearer, f.Example = true, "decklog token create --for @NAME"
	return f
}

func noToken(r *http.Request) *Fault {
	message := "this needs a token"
	if strings.Contains(r.URL.RawQuery, "dlk_") {
		message = "a token in an address is not taken: addresses are logged and passed on; revoke that one"
	}
	return needsToken("no_token", message, tokenFix)
}

func badToken(message string) *Fault { return needsToken("bad_token", message, tokenFix) }

// badTokenHere is badToken where a token of another machine is good for the same ledger.
func badTokenHere(machine string) *Fault {
	return needsToken("bad_token", "it is no token of this machine, "+machine+": each machine that serves this ledger has tokens of its own",
		"use the token on the machine that gave it out, or have one made on this machine; "+tokenFix)
}

func revokedToken() *Fault {
	return needsToken("revoked_token", "the token was revoked", "ask the person who owns this ledger for another one")
}

func expiredToken() *Fault {
	return needsToken("expired_token", "the token has expired", "ask the person who owns this ledger for another one")
}

func tokensDamaged() *Fault {
	return fault(http.StatusServiceUnavailable, "tokens_damaged", "the tokens cannot be read, so nobody gets in", "have the person who owns this ledger run `decklog token list`, which says what is wrong")
}

func tooManyFailures(wait time.Duration) *Fault {
	f := fault(http.StatusTooManyRequests, "too_many_failures", "too many bad tokens came from this address", "stop trying, and look where the token comes from; a good one is taken at any time")
	f.retry = wait
	return f
}

func tooManyRequests(most int) *Fault {
	f := fault(http.StatusTooManyRequests, "too_many", fmt.Sprintf("the token has %d requests running, which is the bound", most), "end some of them, or wait for their answers; give each program a token of its own")
	f.retry = time.Second
	return f
}

func machineOnly() *Fault {
	return fault(http.StatusForbidden, "machine_only", "this is for the hooks and adapters of the ledger's own machine", "run it there, as a user who can read the ledger's folder")
}

func readOnlyToken(who token.Token) *Fault {
	f := fault(http.StatusForbidden, "read_only_token", fmt.Sprintf("the token %s may only read", who.ID), "use a token with the scope write")
	f.Example = "decklog token create --for " + string(who.Participant) + " --scope write"
	return f
}

func badPath(why string) *Fault {
	return fault(http.StatusBadRequest, "bad_path", "the path is refused: "+why, "ask for a path of the OpenAPI document as it is written there")
}

func pathTooLong() *Fault {
	return fault(http.StatusRequestURITooLong, "path_too_long", fmt.Sprintf("the path has more than %d bytes", PathBytesMax), "ask for a path of the OpenAPI document")
}

func badHost() *Fault {
	f := fault(http.StatusMisdirectedRequest, "bad_host", "the request was sent to a name that is not this server's", "use the address that `decklog serve` printed, or have it serve under this name with --host NAME")
	f.Example = "http://127.0.0.1:7717/"
	return f
}

func crossSite() *Fault {
	return fault(http.StatusForbidden, "cross_site", "a page from elsewhere had a browser send this", "open the dashboard itself and do it there; a program sends no header Origin")
}

func internalError() *Fault {
	return fault(http.StatusInternalServerError, "failed", "decklog failed at this request; its log has more", "try again; if it stays, run `decklog verify`")
}

func notJSON(form bool) *Fault {
	want := "application/json"
	if form {
		want = "application/x-www-form-urlencoded"
	}
	return fault(http.StatusUnsupportedMediaType, "not_json", "the body is not "+want, "send it with the header Content-Type: "+want)
}

func bodyTooLarge(most int64) *Fault {
	return fault(http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the body has more than %d bytes", most), "keep what must be acted on, and attach the rest as refs; nothing was recorded")
}

func slowBody() *Fault {
	return fault(http.StatusRequestTimeout, "request_slow", "the body did not come in time; nothing was recorded", "send it again, in one go")
}

func cutBody() *Fault {
	return fault(http.StatusBadRequest, "request_incomplete", "the body could not be read to its end; nothing was recorded", "send it again, whole")
}

func tooManyLarge() *Fault {
	f := fault(http.StatusServiceUnavailable, "busy", "too many large bodies are being sent at once; nothing was recorded", "send it again in a while")
	f.retry = time.Second
	return f
}

// nowhere is the fault of a path that leads nowhere, or not with this method: then
// the header Allow says with which.
func nowhere(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) *Fault {
	var allow []string
	for _, method := range methods {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); leads(pattern, r) {
			allow = append(allow, method)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return fault(http.StatusMethodNotAllowed, "method_not_allowed", "this path is not asked with this method", "use one of the methods that the header Allow names: "+strings.Join(allow, ", "))
	}
	return fault(http.StatusNotFound, "no_such_path", "there is nothing at this path", "take the path from the OpenAPI document, at /v1/openapi.json")
}
