package classifier_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/classifier"
)

const question = `{"question":"Does it?","message":{"body":"@trinity; rm -rf / $(id)"}}`

func routing(words ...string) *events.Routing {
	return &events.Routing{Classifier: words, Timeout: events.Span(20 * time.Second)}
}

func TestOnlyACleanWordIsAnAnswer(t *testing.T) {
	for said, want := range map[string]events.Verdict{
		"route": "route", "Route\n": "route", " STAY \r\n": "stay", "": "", "unavailable": "", "route it": "", "\"route\"": "",
		"I would say: route": "", "route\nstay": "", "no": "", "routes": "",
	} {
		got, err := classifier.Word([]byte(said))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", said, got, err, want)
		}
	}
}

func TestAClassifierIsAProgramThatGetsTheQuestionOnItsInput(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	script := filepath.Join(t.TempDir(), "classify")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ncat > \"$1\"\necho route\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	verdict, err := classifier.Ask(context.Background(), routing(script, heard), []byte(question))
	if verdict != events.VerdictRoute || err != nil {
		t.Fatalf("%q, %v", verdict, err)
	}
	if text, _ := os.ReadFile(heard); string(text) != question {
		t.Errorf("it heard %q", text)
	}
}

func TestWhateverGoesWrongIsNoAnswer(t *testing.T) {
	ask := func(r *events.Routing) error {
		t.Helper()
		verdict, err := classifier.Ask(context.Background(), r, []byte(question))
		if verdict != "" || err == nil {
			t.Errorf("%v: %q, %v", r, verdict, err)
		}
		return err
	}
	ask(nil)
	ask(routing())
	ask(routing("/no/such/program"))
	ask(routing("false"))
	ask(routing("true"))
	ask(routing("sh", "-c", "yes route"))                        // it never ends its answer
	ask(routing("sh", "-c", "echo route; exit 3"))               // it says so and fails
	ask(routing("sh", "-c", "echo route; sleep 60 & echo stay")) // what it left behind holds the pipe
	slow := routing("sleep", "600")
	slow.Timeout = events.Span(50 * time.Millisecond)
	if err := ask(slow); !strings.Contains(err.Error(), "took longer than 50ms") {
		t.Error(err)
	}
}

func TestAClassifierMayLieBehindAnAddress(t *testing.T) {
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, classifier.Daemon), "decklog/cmd/decklogd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	var heard, answer string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()

	answer = "stay\n"
	verdict, err := classifier.Ask(context.Background(), routing(server.URL), []byte(question))
	if verdict != events.VerdictStay || err != nil || heard != "POST application/json "+question {
		t.Errorf("%q, %v; it heard %q", verdict, err, heard)
	}
	for _, bad := range []struct {
		status int
		answer string
	}{{500, "route"}, {302, "route"}, {204, ""}, {200, "it should be routed, I think"}, {200, strings.Repeat("route ", 1000)}} {
		status, answer = bad.status, bad.answer
		if verdict, err := classifier.Ask(context.Background(), routing(server.URL), []byte(question)); verdict != "" || err == nil {
			t.Errorf("%d %.20q: %q, %v", bad.status, bad.answer, verdict, err)
		}
	}
	server.Close()
	if verdict, err := classifier.Ask(context.Background(), routing(server.URL), []byte(question)); verdict != "" || err == nil {
		t.Errorf("nobody there: %q, %v", verdict, err)
	}
}
