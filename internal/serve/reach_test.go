package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/ops"
	"decklog/internal/serve"
	"decklog/internal/token"
)

// exampleServer answers the holder of the machine's token, within this process.
func exampleServer(t *testing.T, desk *ops.Ops) http.Handler {
	t.Helper()
	server := serve.New(serve.Config{Ops: desk, Who: func(context.Context) (token.Token, bool) {
		return token.Token{ID: "machine", Participant: token.Machine, Scope: token.Write}, true
	}})
	t.Cleanup(server.Close)
	mux := http.NewServeMux()
	server.Register(mux)
	return mux
}

// least is the request of an example that must see a position; 0: that says nothing of it.
func least(t *testing.T, e api.Example, at events.Position) *http.Request {
	t.Helper()
	target, body, err := e.Route.Write(e.In)
	if err != nil {
		t.Fatal(err)
	}
	var r *http.Request
	switch {
	case at == 0:
		r = httptest.NewRequest(e.Route.Method, target, bytes.NewReader(body))
	case e.Route.InQuery():
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set(api.AtLeast, fmt.Sprint(at))
		u.RawQuery = q.Encode()
		r = httptest.NewRequest(e.Route.Method, u.String(), nil)
	default:
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		fields[api.AtLeast] = fmt.Append(nil, at)
		if body, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		r = httptest.NewRequest(e.Route.Method, target, bytes.NewReader(body))
	}
	r.Header.Set("Accept", "application/json")
	if e.Route == &api.Events.Route {
		r.Header.Set("Accept", "application/x-ndjson")
	}
	return r
}

// said is the last document of an answer.
func said(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	return v
}

// The whole story is told, and beside each reading the same is asked for at least as
// far as the ledger goes, which changes nothing, and for more, which it waits for in
// vain: then it is the same answer, and says that it is stale.
func TestEveryReadingSeesWhatItMustOrSaysThatItDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := exampleDesk(t)
		server := exampleServer(t, desk)
		ask := func(e api.Example, at events.Position) (*httptest.ResponseRecorder, time.Duration) {
			began := time.Now()
			w := httptest.NewRecorder()
			r := least(t, e, at)
			if e.As != token.Machine { // who asks is said by the request, with the token that may say so
				r.Header.Set(api.CallerHeader, caller(t, api.Caller{Environ: map[string]string{"DECKLOG_AS": string(e.As)}}))
			}
			server.ServeHTTP(w, r)
			return w, time.Since(began)
		}
		readings := 0
		for _, e := range api.Examples() {
			plain, _ := ask(e, 0)
			if stale := plain.Header().Get(api.StaleHeader); stale != "" || bytes.HasSuffix(bytes.TrimSpace(plain.Body.Bytes()), []byte(`"stale":true}`)) {
				t.Errorf("%s is stale, and was asked for as things stand: %s", e.Route.Name, plain.Body)
			}
			if !e.Route.Reads() {
				refused, _ := ask(e, 1)
				if refused.Code != http.StatusBadRequest || !strings.Contains(refused.Body.String(), "at_least") {
					t.Errorf("%s changes something, and takes at_least: %d %s", e.Route.Name, refused.Code, refused.Body)
				}
				continue
			}
			readings++
			end, err := desk.End()
			if err != nil {
				t.Fatal(err)
			}
			there, took := ask(e, end)
			if there.Body.String() != plain.Body.String() || there.Code != plain.Code || there.Header().Get(api.StaleHeader) != "" || took != 0 {
				t.Errorf("%s is %d %s after %s, and must see no more than is there: %d %s", e.Route.Name, there.Code, there.Body, took, plain.Code, plain.Body)
			}
			missing, took := ask(e, end+1)
			if missing.Code != plain.Code || missing.Header().Get(api.StaleHeader) != "true" || took != ops.ReachMax {
				t.Errorf("%s that must see more than is there answers %d, stale %q, after %s", e.Route.Name, missing.Code, missing.Header().Get(api.StaleHeader), took)
			}
			got, want := said(t, missing), said(t, plain)
			if got["stale"] != true {
				t.Errorf("%s is not stale: %s", e.Route.Name, missing.Body)
			}
			delete(got, "stale")
			if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
				t.Errorf("%s is stale, and %s, not %s", e.Route.Name, g, w)
			}
		}
		if readings < 20 {
			t.Errorf("only %d readings", readings)
		}
	})
}

// What comes while a reading waits ends the wait, and is in the answer.
func TestAReadingThatWaitsIsWokenByWhatItMustSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := exampleDesk(t)
		server := exampleServer(t, desk)
		end, err := desk.End()
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan *httptest.ResponseRecorder)
		go func() {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/inbox?as=@trinity&sent=false&at_least=%d", end+2), nil))
			answered <- w
		}()
		began := time.Now()
		for i := range 2 {
			synctest.Wait()
			select {
			case w := <-answered:
				t.Fatalf("it was answered before it was there: %s", w.Body)
			default:
			}
			if _, r, err := desk.Send(ops.SendRequest{Asker: ops.Asker{As: "@ana"}, To: "@trinity", Body: fmt.Appendf(nil, "Number %d.", i)}); r != nil || err != nil {
				t.Fatal(r, err)
			}
		}
		w := <-answered
		var view struct{ Messages []struct{ Preview string } }
		if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if len(view.Messages) != 2 || w.Header().Get(api.StaleHeader) != "" || time.Since(began) != 0 {
			t.Errorf("after %s it saw %+v, stale %q", time.Since(began), view, w.Header().Get(api.StaleHeader))
		}
	})
}

func TestAPositionThatIsNoneIsNotWaitedFor(t *testing.T) {
	server := exampleServer(t, exampleDesk(t))
	for _, query := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/peers?at_least="+query, nil))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at_least") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
