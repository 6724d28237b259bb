package serve_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/internal/serve"
	"decklog/internal/token"
	"decklog/projections"
)

// exampled is a server on which the story of the document's examples can happen.
func exampled(t *testing.T) (d *door, machine string) {
	t.Helper()
	desk := exampleDesk(t)
	folder := t.TempDir()
	machine, err := token.MakeMachine(folder)
	if err != nil {
		t.Fatal(err)
	}
	d = &door{T: t, tokens: token.Open(folder), log: &lines{}}
	d.guard = serve.NewGuard(serve.GuardConfig{Tokens: d.tokens, Now: desk.World.Now, Log: slog.New(slog.NewTextHandler(d.log, nil))})
	server := serve.New(serve.Config{Ops: desk, Who: serve.Who, Good: d.guard.Good})
	t.Cleanup(server.Close)
	mux := http.NewServeMux()
	server.Register(mux)
	rules := serve.Rules()
	d.serve(nil, nil, d.guard.Around(mux, func(pattern string) serve.Rule { return rules[pattern] }))
	return d, machine
}

// exampleDesk are the operations on a ledger on which the story begins.
func exampleDesk(t *testing.T) *ops.Ops {
	t.Helper()
	desk := &ops.Ops{Ledger: memory.New(projections.Project), World: ops.World{
		Now: func() events.Time { return start }, Random: func(b []byte) { _, _ = rand.Read(b) }, Alive: func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, start, true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return api.ExamplePolicy(), nil },
	}}
	if _, r, err := desk.Join(ops.JoinRequest{Session: api.ExampleOther, Harness: "codex", Cwd: "/", Seat: "trinity"}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	return desk
}

// Each example is sent as the document has it, and is answered as the document
// says: it works, or it is refused for the reason that stands beside it.
func TestTheExamplesOfTheDocumentWork(t *testing.T) {
	d, machine := exampled(t)
	text, err := api.OpenAPI("test")
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	check, faults := validator.NewValidator(document)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	secrets, of := map[events.Participant]string{token.Machine: machine}, map[*api.Route]int{}
	for _, e := range api.Examples() {
		of[e.Route]++
		if secrets[e.As] == "" {
			secrets[e.As] = d.token(e.As, token.Write)
		}
		target, body, err := e.Route.Write(e.In)
		if err != nil {
			t.Fatal(err)
		}
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(within(t), e.Route.Method, "http://"+d.addr+target, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+secrets[e.As])
			if body != nil {
				r.Header.Set("Content-Type", "application/json")
			}
			return r
		}
		if valid, faults := check.ValidateHttpRequestSync(request()); !valid {
			t.Errorf("%s %s %s is not as described: %v", e.Route.Name, target, body, faults[0])
		}
		response, err := d.client.Do(request())
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		response.Body = io.NopCloser(bytes.NewReader(said))
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			if valid, faults := check.ValidateHttpResponse(request(), response); !valid {
				t.Errorf("the answer to %s, %s, is not as described: %v", e.Route.Name, said, faults[0])
			}
		}
		var got struct {
			Refusal *commands.Refusal
			Error   *struct{ Code string }
		}
		if e.Refused != "" {
			if json.Unmarshal(said, &got) != nil || got.Refusal == nil || got.Refusal.Code != e.Refused || response.StatusCode != e.Refused.Status() {
				t.Errorf("%s %s %s is to be refused as %s: %s %s", e.Route.Name, target, body, e.Refused, response.Status, said)
			}
			continue
		}
		if response.StatusCode != http.StatusOK || bytes.Contains(said, []byte(`"error":`)) || bytes.Contains(said, []byte(`"refusal":`)) {
			t.Errorf("%s %s %s: %s %s", e.Route.Name, target, body, response.Status, said)
		}
	}
	for _, r := range api.Routes() {
		if of[r] != 1 {
			t.Errorf("%s has %d examples", r.Name, of[r])
		}
	}
}

// Who asks over HTTP reads fields and requests; decklog's own client, which shows
// what it is told to who typed a command, reads flags and commands.
func TestARefusalSpeaksAsItsReaderDoes(t *testing.T) {
	d, _ := real(t)
	writes := d.token("@ana", token.Write)
	refusal := func(a ask) commands.Refusal {
		t.Helper()
		got := d.ask(a.bearing(writes))
		var v struct{ Refusal *commands.Refusal }
		body := got.body
		for line := range strings.Lines(got.body) { // the last one
			body = line
		}
		if json.Unmarshal([]byte(body), &v) != nil || v.Refusal == nil {
			t.Fatalf("%s %s: %d %s", a.method, a.path, got.status, got.body)
		}
		return *v.Refusal
	}
	client := caller(t, api.Caller{})
	for _, a := range []ask{
		{method: "PATCH", path: "/v1/messages/x-0001", body: `{}`},
		{method: "POST", path: "/v1/messages", body: `{"as":"alice-0001","body":"hello"}`},
		{method: "GET", path: "/v1/inbox?limit=1000"},
		{method: "POST", path: "/v1/wait", body: `{"id":"x-0001","for":"nothing"}`},
		{method: "POST", path: "/v1/messages/x-0001/ack", body: `{"ack":"perhaps"}`},
	} {
		over, typed := refusal(a), refusal(a.with(api.CallerHeader, client))
		if says := over.Fix + over.Message; strings.Contains(says, "--") || strings.HasPrefix(over.Example, "decklog ") || !strings.Contains(over.Example, " /v1/") {
			t.Errorf("%s %s: to a program it is said %q, as %s", a.method, a.path, says, over.Example)
		}
		if !strings.HasPrefix(typed.Example, "decklog ") {
			t.Errorf("%s %s: to decklog's own client it is said %s", a.method, a.path, typed.Example)
		}
	}
	got := d.ask(ask{method: "POST", path: "/v1/messages", body: `{"to":"` + bob + `","intent":"request","body":"Which commit?"}`}.bearing(writes))
	if got.status != 200 || strings.Contains(got.body, "`decklog ") || !strings.Contains(got.body, "/v1/") {
		t.Errorf("the receipt says %s", got.body)
	}
}

// Every document of JSON says so alike, also one that says why there is none.
func TestEveryDocumentIsOfOneKind(t *testing.T) {
	d, _ := real(t)
	reads := d.token("@ana", token.Read)
	for _, a := range []ask{
		{method: "GET", path: "/v1/peers"},
		ask{method: "GET", path: "/v1/peers"}.bearing("dlk_none"),
		ask{method: "GET", path: "/v1/peers"}.bearing(reads),
		ask{method: "GET", path: "/v1/nothing"}.bearing(reads),
		ask{method: "GET", path: "/v1/inbox?limit=x"}.bearing(reads),
		ask{method: "GET", path: "/v1/threads/x-0001"}.bearing(reads),
		ask{method: "DELETE", path: "/v1/peers"}.bearing(reads),
		ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(reads),
		ask{method: "GET", path: "/v1/openapi.json"}.bearing(reads),
		ask{method: "GET", path: "/healthz"}.bearing(reads),
		ask{method: "GET", path: "/readyz"}.bearing(reads),
		ask{method: "POST", path: "/healthz"}.bearing(reads),
	} {
		if got := d.ask(a); got.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s %s: %d %s", a.method, a.path, got.status, got.header.Get("Content-Type"))
		}
	}
}
