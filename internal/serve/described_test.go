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
	desk := &ops.Ops{Ledger: memory.New(projections.Project), World: ops.World{
		Now: func() events.Time { return start }, Random: func(b []byte) { _, _ = rand.Read(b) }, Alive: func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, start, true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return api.ExamplePolicy(), nil },
	}}
	if _, r, err := desk.Join(ops.JoinRequest{Session: api.ExampleOther, Harness: "codex", Cwd: "/", Seat: "trinity"}); r != nil || err != nil {
		t.Fatal(r, err)
	}
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
