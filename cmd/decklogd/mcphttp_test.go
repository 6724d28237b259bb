package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// served runs `decklog serve`, gives it and where it listens, and ends it with the
// test. One that the test did not end itself has to end well.
func (m *machine) served() (server *exec.Cmd, http, socket string) {
	m.Helper()
	return m.logged(io.Discard)
}

// logged is served, with what the server logs.
func (m *machine) logged(log io.Writer) (server *exec.Cmd, http, socket string) {
	m.Helper()
	server = m.command("decklog", "serve", "--listen", "127.0.0.1:0", "--json", "--quiet")
	var stderr bytes.Buffer
	server.Stderr = io.MultiWriter(&stderr, log)
	stdout, err := server.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := server.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if server.ProcessState != nil {
			return
		}
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil || m.Failed() {
			m.Errorf("serve ended with %v\n%s", err, &stderr)
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var v struct{ Serving struct{ HTTP, Socket string } }
	if err != nil || json.Unmarshal(line, &v) != nil || v.Serving.HTTP == "" || v.Serving.Socket == "" {
		m.Fatalf("serve said %q, %v", line, err)
	}
	return server, v.Serving.HTTP, v.Serving.Socket
}

// authorized sends a token with each request.
type authorized string

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// reaches connects the SDK's own client to a server, with a token.
func (m *machine) reaches(url, token, version string) *client {
	m.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: authorized(token)}, MaxRetries: -1}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(m.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		m.Fatalf("connect by %s: %v", version, err)
	}
	m.Cleanup(func() { _ = session.Close() })
	return &client{machine: m, session: session, stderr: new(bytes.Buffer)}
}

func (m *machine) token(who, scope string) string {
	m.Helper()
	var v struct{ Receipt struct{ Token string } }
	m.read(m.done("", "decklog", "token", "create", "--json", "--for", who, "--scope", scope), &v)
	return v.Receipt.Token
}

func TestServeHasTheToolsInEveryVersionOfTheProtocol(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	m.instructed(bob)
	_, url, _ := m.served()
	writes, reads := m.token(ada, "write"), m.token(bob, "read")
	machines, err := os.ReadFile(filepath.Join(m.dir, "ledger", "serve.token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			m := *m
			m.TB = t
			as := m.reaches(url, writes, version)
			sent := as.call("decklog_send", map[string]any{"to": bob, "body": "by " + version})
			if sent.isError || at(sent.data, "receipt", "from") != ada {
				t.Fatalf("sent %+v", sent)
			}
			reader := m.reaches(url, reads, version)
			listed, err := reader.session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range listed.Tools {
				if !one.Annotations.ReadOnlyHint {
					t.Errorf("who may only read is shown %s", one.Name)
				}
			}
			if len(listed.Tools) != 5 {
				t.Errorf("who may only read is shown %d tools", len(listed.Tools))
			}
			if inbox := reader.call("decklog_inbox", map[string]any{}); inbox.isError || !strings.Contains(inbox.text, "by "+version) {
				t.Errorf("who may only read reads %+v", inbox)
			}
			refused := reader.call("decklog_send", map[string]any{"to": ada, "body": "no"})
			if !refused.isError || at(refused.data, "error", "code") != "read_only_token" {
				t.Errorf("who may read sends: %+v", refused)
			}
			// On this machine the stamp of the hook says who calls.
			here := m.reaches(url, strings.TrimSpace(string(machines)), version)
			came := here.call("decklog_wait", m.stamped(bob, "decklog_wait", "use_"+version, map[string]any{}))
			if came.isError || !strings.Contains(came.text, "by "+version) {
				t.Errorf("bob waits and gets %s", came.text)
			}
			if nobody := here.call("decklog_send", map[string]any{"to": bob, "body": "who?"}); at(nobody.data, "refusal", "code") != "no_caller" {
				t.Errorf("without a stamp it is %+v", nobody)
			}
		})
	}
	r, err := http.Post(url+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token it is %s", r.Status)
	}
}

func TestServeCountsWhatItDoesAndWhatOthersDo(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	_, url, _ := m.served()
	// A send of another process, one through the tools, and a hook run.
	m.sent(ada, bob, "--", "by the command line")
	as := m.reaches(url, m.token(ada, "write"), "2025-06-18")
	if sent := as.call("decklog_send", map[string]any{"to": bob, "body": "by the tools"}); sent.isError {
		t.Fatal(sent.text)
	}
	m.done(`{"hook_event_name":"PostToolUse","session_id":"`+bob+`","cwd":"/"}`, "decklog-hook", "claude-code")
	for _, path := range []string{"/", "/v1/openapi.json"} {
		r, err := (&http.Client{Transport: authorized(m.token(ada, "read"))}).Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	var text string
	for _, want := range []string{
		`decklog_sends_total{intent="inform"} 2`, `decklog_hook_runs_total{harness="claude-code",outcome="delivered"} 1`,
		`decklog_http_requests_total{code="2xx",method="POST",route="/mcp"}`, "decklog_commit_commands_count", "decklog_ledger_readable 1",
		"decklog_sessions_live 2", "decklog_ledger_size_bytes", "decklog_verify_ok 1",
		`decklog_http_requests_total{code="2xx",method="GET",route="/"} 1`, `decklog_http_requests_total{code="2xx",method="GET",route="GET /v1/openapi.json"} 1`,
	} {
		for n := 0; !strings.Contains(text, want); n++ { // what is told by the way arrives in its own time
			if n == 10_000 {
				t.Fatalf("it never says %s:\n%s", want, text)
			}
			text = scraped(t, url)
		}
	}
	if strings.Contains(text, `route="other"`) {
		t.Errorf("there is a route that nobody knows:\n%s", text)
	}
}

func scraped(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", r.Status, err, text)
	}
	return string(text)
}
