package serve_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/serve"
	"decklog/internal/token"
)

// The faults that the door must bear. Each is played on a real connection.

const messages = "POST /v1/messages"

// ordinary is a door with a write, a read and a page.
func ordinary(t *testing.T) *door {
	return opened(t, served{
		limits: serve.Limits{IdleMax: 200 * time.Millisecond}, // so that tests can wait for its end
		routes: map[string]http.HandlerFunc{
			messages: echo, "GET /v1/names/{name}": echo, "/": echo, "POST /threads/{name}/reply": echo, "GET /healthz": echo, "POST /v1/hooks": echo, "/mcp": echo,
		},
		rules: map[string]serve.Rule{
			"/": {Gate: serve.Open, Cookie: true}, "POST /threads/{name}/reply": {Cookie: true, Form: true}, "GET /healthz": {Gate: serve.Near},
			"POST /v1/hooks": {Machine: true}, messages: {Gate: serve.Open, Cookie: true}, // which the path overrules
		},
	})
}

// Several machines may serve one ledger. A token is of one of them.
func TestATokenOfAnotherMachineIsSaidToBeNoneOfThisOne(t *testing.T) {
	mine, theirs := token.Open(t.TempDir()), token.Open(t.TempDir())
	_, secret, err := theirs.Create(token.New{Participant: "@ana", Scope: token.Write}, start)
	if err != nil {
		t.Fatal(err)
	}
	for machine, want := range map[string]string{"": "it is no token of this ledger", "deck-b": "it is no token of this machine, deck-b: each machine"} {
		guard := serve.NewGuard(serve.GuardConfig{Tokens: mine, Machine: machine, Now: func() events.Time { return start }})
		_, fault := guard.Check(httptest.NewRequest(http.MethodGet, "/v1/peers", nil), secret)
		if fault == nil || fault.Code != "bad_token" || !strings.HasPrefix(fault.Message, want) || strings.Contains(fault.Fix, "on this machine") != (machine != "") {
			t.Errorf("on %q it says %+v", machine, fault)
		}
	}
}

func TestABadTokenLetsNobodyInAndNothingIsRead(t *testing.T) {
	d := ordinary(t)
	good := d.token("@ana", token.Write)
	revoked := d.token("@ana", token.Write)
	if _, err := d.tokens.Revoke(token.IDIn(revoked), start); err != nil {
		t.Fatal(err)
	}
	soon := start.Add(-time.Hour)
	_, expired, err := d.tokens.Create(token.New{Participant: "@ana", Scope: token.Write, Expires: &soon}, start.Add(-2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, path, headers, code string }{
		{"none", "/v1/messages", "", "no_token"},
		{"an empty one", "/v1/messages", "Authorization: Bearer \r\n", "bad_token"},
		{"garbage", "/v1/messages", "Authorization: Bearer garbage\r\n", "bad_token"},
		{"truncated", "/v1/messages", "Authorization: Bearer " + good[:40] + "\r\n", "bad_token"},
		{"longer", "/v1/messages", "Authorization: Bearer " + good + "a\r\n", "bad_token"},
		{"another scheme", "/v1/messages", "Authorization: Basic " + good + "\r\n", "bad_token"},
		{"two", "/v1/messages", "Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good + "\r\n", "bad_token"},
		{"two in one", "/v1/messages", "Authorization: Bearer " + good + ", Bearer " + good + "\r\n", "bad_token"},
		{"that of the machine, guessed", "/v1/messages", "Authorization: Bearer dlk_machine_" + good[13:] + "\r\n", "bad_token"},
		{"revoked", "/v1/messages", "Authorization: Bearer " + revoked + "\r\n", "revoked_token"},
		{"expired", "/v1/messages", "Authorization: Bearer " + expired + "\r\n", "expired_token"},
		{"in the query", "/v1/messages?token=" + good + "&access_token=" + good, "", "no_token"},
		{"in the browser's cookie", "/v1/messages", "Cookie: decklog_token=" + good + "\r\n", "no_token"},
		{"in the cookie, for MCP", "/mcp", "Cookie: decklog_token=" + good + "\r\n", "no_token"},
		{"none, where nothing is", "/v1/nothing", "", "no_token"},
		{"none, for another method", "/v1/names/x", "", "no_token"},
	} {
		w := d.raw()
		// The body is announced and never sent: nobody may wait for it, or ask for it.
		w.say("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n%s\r\n", c.path, c.headers)
		got := w.hear()
		if got.status != 401 || got.code != c.code || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %d %s %v", c.what, got.status, got.body, got.header)
		}
		w.over()
	}
	for _, scheme := range []string{"Bearer", "bearer", "BEARER "} {
		if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}.with("Authorization", scheme+" "+good)); got.status != 200 || got.body != "true @ana  2" {
			t.Errorf("a good one as %s: %d %s", scheme, got.status, got.body)
		}
	}
}

// Whoever guesses learns from no answer that an id is one's.
func TestOfATokenThatIsNoneNothingIsToldThatHelpsToFindOne(t *testing.T) {
	d := ordinary(t)
	good := d.token("@ana", token.Write)
	revoked := d.token("@ana", token.Write)
	if _, err := d.tokens.Revoke(token.IDIn(revoked), start); err != nil {
		t.Fatal(err)
	}
	tail := strings.Repeat("a", 51) + "q"
	var first told
	for i, bad := range []string{"dlk_aaaaaaaa_" + tail, good[:13] + tail, revoked[:13] + tail, "dlk_machine_" + tail} {
		got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(bad))
		got.header.Del("Date")
		if i == 0 {
			first = got
		} else if fmt.Sprint(got) != fmt.Sprint(first) {
			t.Errorf("%s: %v, and for another %v", bad, got, first)
		}
	}
}

func TestATokenIsGoodForItsScopeAndNoMore(t *testing.T) {
	d := ordinary(t)
	reads, writes := d.token("@ana", token.Read), d.token("@ana", token.Write)
	for _, c := range []struct {
		method, path, secret string
		status               int
		code                 string
	}{
		{"GET", "/v1/names/x", reads, 200, ""}, {"GET", "/v1/names/x", writes, 200, ""}, {"POST", "/v1/messages", writes, 200, ""},
		{"POST", "/v1/messages", reads, 403, "read_only_token"}, {"POST", "/mcp", reads, 403, "read_only_token"}, {"POST", "/v1/hooks", writes, 403, "machine_only"},
	} {
		if got := d.ask(ask{method: c.method, path: c.path}.bearing(c.secret)); got.status != c.status || got.code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
}

func TestARevokedTokenIsRefusedAtTheNextRequest(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Write)
	for range 20 {
		if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(secret)); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if _, err := d.tokens.Revoke(token.IDIn(secret), start); err != nil {
		t.Fatal(err)
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(secret)); got.status != 401 || got.code != "revoked_token" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWhoTriesTooManyBadTokensIsToldToStopAndKeepsNobodyOut(t *testing.T) {
	d := opened(t, served{
		limits: serve.Limits{FailuresMax: 5, FailureEvery: time.Hour},
		routes: map[string]http.HandlerFunc{"GET /v1/names/{name}": echo},
	})
	good := d.token("@ana", token.Read)
	for i := range 12 {
		got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing("garbage"))
		if i < 5 && got.status != 401 || i >= 5 && (got.status != 429 || got.code != "too_many_failures" || got.header.Get("Retry-After") == "") {
			t.Errorf("attempt %d: %d %s %v", i, got.status, got.body, got.header)
		}
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(good)); got.status != 200 {
		t.Errorf("a good one: %d %s", got.status, got.body)
	}
}

func TestTokensThatCannotBeReadLetNobodyIn(t *testing.T) {
	dir := t.TempDir()
	d := ordinary(t)
	d.tokens = token.Open(dir)
	guard := serve.NewGuard(serve.GuardConfig{Tokens: d.tokens, Now: func() events.Time { return start }})
	secret := d.token("@ana", token.Write)
	if err := os.WriteFile(filepath.Join(dir, token.FileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/names/{name}", func(http.ResponseWriter, *http.Request) { t.Error("somebody got in") })
	r := httptest.NewRequest("GET", "http://localhost/v1/names/x", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	guard.Around(mux, func(string) serve.Rule { return serve.Rule{} }).ServeHTTP(w, r)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "tokens_damaged") || strings.Contains(w.Body.String(), dir) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestABodyThatIsTooLargeIsNotRead(t *testing.T) {
	heard := make(chan error, 1)
	d := opened(t, served{
		limits: serve.Limits{BodyBytesMax: 1000},
		routes: map[string]http.HandlerFunc{messages: func(w http.ResponseWriter, r *http.Request) {
			_, fault := serve.ReadBody(r)
			if fault == nil {
				heard <- nil
				return
			}
			heard <- fault
			http.Error(w, fault.Code, fault.Status)
		}},
	})
	secret := d.token("@ana", token.Write)
	head := "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret + "\r\n"

	// Announced: no handler sees it, and it is not waited for.
	w := d.raw()
	w.say("%sContent-Length: 1001\r\n\r\n", head)
	if got := w.hear(); got.status != 413 || got.code != "request_too_large" {
		t.Errorf("announced: %d %s", got.status, got.body)
	}
	w.over()

	// In pieces, without end: it is cut off at the bound.
	w = d.raw()
	w.say("%sTransfer-Encoding: chunked\r\n\r\n", head)
	to := w.Conn
	go func() {
		for {
			if _, err := io.WriteString(to, "100\r\n"+strings.Repeat("x", 256)+"\r\n"); err != nil {
				return
			}
		}
	}()
	if got := w.hear(); got.status != 413 {
		t.Errorf("in pieces: %d %s", got.status, got.body)
	}
	var fault *serve.Fault
	if err := until(t, heard); !errors.As(err, &fault) || fault.Code != "request_too_large" {
		t.Errorf("in pieces: %v", err)
	}
	w.Close()

	// Just within it.
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: strings.Repeat("x", 1000)}.bearing(secret)); got.status != 200 {
		t.Errorf("within the bound: %d %s", got.status, got.body)
	}
	if err := until(t, heard); err != nil {
		t.Errorf("within the bound: %v", err)
	}
}

func TestWhatIsNoJSONIsNotTakenForIt(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Write)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json", "application/json, text/plain"} {
		if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(secret).with("Content-Type", kind)); got.status != 415 || got.code != "not_json" {
			t.Errorf("%q: %d %s", kind, got.status, got.body)
		}
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(secret).with("Content-Encoding", "gzip")); got.status != 415 {
		t.Errorf("packed: %d %s", got.status, got.body)
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(secret).with("Content-Type", "application/json; charset=utf-8")); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Who sends slowly holds a connection for so long, and no longer.
func TestASlowCallerIsHungUpOn(t *testing.T) {
	heard := make(chan *serve.Fault, 1)
	d := opened(t, served{
		limits: serve.Limits{HeaderMax: 100 * time.Millisecond, BodyMax: 100 * time.Millisecond, IdleMax: 100 * time.Millisecond},
		routes: map[string]http.HandlerFunc{messages: func(w http.ResponseWriter, r *http.Request) {
			_, fault := serve.ReadBody(r)
			heard <- fault
			if fault != nil {
				http.Error(w, fault.Code, fault.Status)
			}
		}},
	})
	secret := d.token("@ana", token.Write)
	head := "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 100\r\n"
	t.Run("it says nothing", func(t *testing.T) { d.raw().over() })
	t.Run("its header does not end", func(t *testing.T) {
		w := d.raw()
		w.say("%s", head)
		if said := w.over(); strings.Contains(said, " 200 ") {
			t.Error(said)
		}
	})
	t.Run("its header comes by drops", func(t *testing.T) {
		w := d.raw()
		w.say("GET / HTTP/1.1\r\n")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for { // each drop comes in time, and they do not add up
				if _, err := io.WriteString(w.Conn, "X-Drop: 1\r\n"); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		w.over()
		until(t, gone)
	})
	t.Run("its body does not end", func(t *testing.T) {
		w := d.raw()
		w.say("%s\r\nhalf", head)
		if got := w.hear(); got.status != 408 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if fault := until(t, heard); fault == nil || fault.Code != "request_slow" {
			t.Errorf("%v", fault)
		}
		w.over()
	})
	t.Run("it was refused, and goes on sending", func(t *testing.T) {
		w := d.raw()
		w.say("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nhalf")
		if got := w.hear(); got.status != 401 {
			t.Errorf("%d %s", got.status, got.body)
		}
		w.over()
	})
	t.Run("it asks no more", func(t *testing.T) {
		w := d.raw()
		w.say("GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
		w.hear()
		w.over()
	})
}

// A wait is no slow caller: what bounds the reading of its request ends with it.
func TestAnAnswerMayTakeLongerThanItsRequest(t *testing.T) {
	const short = 50 * time.Millisecond
	d := opened(t, served{
		limits: serve.Limits{HeaderMax: short, BodyMax: short, WriteMax: short, IdleMax: short},
		routes: map[string]http.HandlerFunc{"POST /v1/wait": func(w http.ResponseWriter, r *http.Request) {
			if _, fault := serve.ReadBody(r); fault != nil {
				t.Error(fault)
			}
			for range 3 {
				select {
				case <-r.Context().Done():
					t.Errorf("it was ended: %v", context.Cause(r.Context()))
					return
				case <-time.After(3 * short):
				}
				if _, err := io.WriteString(w, "still here\n"); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}},
	})
	secret := d.token("@ana", token.Write)
	for range 2 {
		if got := d.ask(ask{method: "POST", path: "/v1/wait", body: "{}"}.bearing(secret)); got.status != 200 || strings.Count(got.body, "still here") != 3 {
			t.Errorf("%d %q", got.status, got.body)
		}
	}
}

func TestWhoTakesNothingOfAnAnswerIsDropped(t *testing.T) {
	failed := make(chan error, 1)
	d := opened(t, served{
		limits: serve.Limits{WriteMax: 100 * time.Millisecond},
		routes: map[string]http.HandlerFunc{"GET /v1/events": func(w http.ResponseWriter, r *http.Request) {
			page := make([]byte, 64<<10)
			for {
				if _, err := w.Write(page); err != nil {
					failed <- err
					return
				}
			}
		}},
	})
	w := d.raw()
	w.say("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", d.token("@ana", token.Read))
	if err := until(t, failed); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestWhoGoesAwayIsNotAnswered(t *testing.T) {
	came, ended := make(chan struct{}), make(chan error)
	d := opened(t, served{routes: map[string]http.HandlerFunc{
		"POST /v1/wait": func(w http.ResponseWriter, r *http.Request) {
			if _, fault := serve.ReadBody(r); fault != nil {
				ended <- fault
				return
			}
			close(came)
			<-r.Context().Done()
			ended <- r.Context().Err()
		},
	}})
	head := "POST /v1/wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nAuthorization: Bearer " + d.token("@ana", token.Write) + "\r\n\r\n"
	w := d.raw()
	w.say("%s{}", head)
	until(t, came)
	w.Close()
	if err := until(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits: %v", err)
	}
	w = d.raw()
	w.say("%s{", head)
	w.Close()
	var fault *serve.Fault
	if err := until(t, ended); !errors.As(err, &fault) || fault.Code != "request_incomplete" {
		t.Errorf("within its body: %v", err)
	}
}

func TestAPageFromElsewhereChangesNothingAndReadsNothing(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Write)
	own := "http://" + d.addr
	write := ask{method: "POST", path: "/threads/x/reply", body: "a=b"}.with("Content-Type", "application/x-www-form-urlencoded").with("Cookie", "decklog_token="+secret)
	api := ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(secret)
	read := ask{method: "GET", path: "/v1/names/x"}.bearing(secret)
	page := ask{method: "GET", path: "/"}
	for _, c := range []struct {
		what   string
		ask    ask
		status int
	}{
		{"a form of its own page", write.with("Origin", own).with("Sec-Fetch-Site", "same-origin"), 200},
		{"a form of its own page, of an older browser", write.with("Origin", own), 200},
		{"a form of another page", write.with("Origin", "http://evil.example"), 403},
		{"a form of another page, that is told by the browser alone", write.with("Sec-Fetch-Site", "cross-site"), 403},
		{"a form of a page at another port", write.with("Origin", "http://127.0.0.1:1").with("Sec-Fetch-Site", "same-site"), 403},
		{"a form of a page by another scheme", write.with("Origin", "https://"+d.addr), 403},
		{"a form of a page without an origin", write.with("Origin", "null"), 403},
		{"a form of which nobody says whence it comes", write, 403},
		{"an origin that begins with the own one", write.with("Origin", own+".evil.example"), 403},
		{"an origin with the own one as its user", write.with("Origin", "http://"+d.addr+"@evil.example"), 403},
		{"a program", api, 200},
		{"a script of another page", api.with("Origin", "http://evil.example"), 403},
		{"a script of another page that reads", read.with("Origin", "http://evil.example"), 403},
		{"a picture of another page", read.with("Sec-Fetch-Site", "cross-site"), 403},
		{"a question whether it may", ask{method: "OPTIONS", path: "/v1/messages"}.with("Origin", "http://evil.example").with("Access-Control-Request-Method", "POST"), 403},
		{"a link of another page", page.with("Sec-Fetch-Site", "cross-site"), 200},
	} {
		got := d.ask(c.ask)
		if got.status != c.status || c.status == 403 && got.code != "cross_site" {
			t.Errorf("%s: %d %s", c.what, got.status, got.body)
		}
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", c.what, name)
			}
		}
	}
	// A form is no JSON and JSON no form.
	if got := d.ask(write.with("Origin", own).with("Content-Type", "application/json")); got.status != 415 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A page can have a name of its own point at 127.0.0.1, and is then of the same
// origin as what is answered there.
func TestARequestToAnotherNameIsRefused(t *testing.T) {
	d := opened(t, served{hosts: []string{"Deck.Example"}, routes: map[string]http.HandlerFunc{"GET /{$}": echo}, rules: map[string]serve.Rule{"GET /{$}": {Gate: serve.Open}}})
	_, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		t.Fatal(err)
	}
	for host, status := range map[string]int{
		d.addr: 200, "localhost": 200, "LOCALHOST:" + port: 200, "[::1]:" + port: 200, "deck.example": 200, "deck.example:" + port: 200,
		"evil.example": 421, "evil.example:" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "0.0.0.0": 421,
		"127.0.0.1@evil.example": 421, "deck.example.": 421, "notdeck.example": 421, "2130706433": 421,
	} {
		got := d.ask(ask{method: "GET", path: "/", host: host})
		if malformed := got.status == 400 && status == 421; got.status != status && !malformed || got.status == 421 && got.code != "bad_host" {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
	}
	for _, lines := range []string{"GET / HTTP/1.0\r\n\r\n", "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n"} {
		w := d.raw()
		w.say("%s", lines)
		if got := w.hear(); got.status != 421 && got.status != 400 {
			t.Errorf("%q: %d %s", lines, got.status, got.body)
		}
	}
}

func TestAPathIsWhatItSeems(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Write)
	for path, status := range map[string]int{
		"/v1/names/x": 200, "/v1/names/a%2Fb": 200, "/v1/names/%C3%A9": 200, "/": 200,
		"/../v1/names/x": 400, "/v1/names/../names/x": 400, "/v1/names/..": 400, "/v1/names/%2e%2e": 400, "/v1/names/%2e%2e%2fx": 400, "/v1/./names/x": 400,
		"//v1/names/x": 400, "/v1//names/x": 400, "//evil.example/": 400, "/v1/names/a%00b": 400, "/v1/names/a%0d%0aX-Injected:%20yes": 400, "/v1/names/%ff": 400,
		"/v1/names/%e2%80%ae": 400, `/v1/names/a\b`: 400, "/v1/names/a%5cb": 400, "/assets%2f..%2fsecret": 400, "/threads%2Fx": 400, "*": 400,
		"/v1/names/" + strings.Repeat("x", 3000): 414, "/V1/names/x": 200, "/v2": 200, "/v1": 401, "/v1/": 401, "/mcp/x": 401,
	} {
		w := d.raw()
		w.say("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, map[bool]string{true: "", false: "Authorization: Bearer " + secret + "\r\n"}[status == 401])
		got := w.hear()
		if got.status != status || status == 400 && path != "*" && got.code != "bad_path" || got.header.Get("X-Injected") != "" {
			t.Errorf("%.60s: %d %s", path, got.status, got.body)
		}
		w.Close()
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/a%2Fb"}.bearing(secret)); got.body != "true @ana a/b 0" {
		t.Errorf("a name with a slash is %q", got.body)
	}
	if got := d.ask(ask{method: "GET", path: "/v1/nothing"}.bearing(secret)); got.status != 404 || got.code != "no_such_path" {
		t.Errorf("nothing there: %d %s", got.status, got.body)
	}
	// A page that takes every path takes none of the API's.
	if got := d.ask(ask{method: "GET", path: "/anything"}); got.status != 200 {
		t.Errorf("a page: %d %s", got.status, got.body)
	}
	for _, method := range []string{"DELETE", "PUT", "OPTIONS", "TRACE", "BREW"} {
		if got := d.ask(ask{method: method, path: "/v1/messages"}.bearing(secret)); got.status != 405 || got.code != "method_not_allowed" || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %s %v", method, got.status, got.body, got.header)
		}
	}
}

// Two readers of one request must not see two requests, nor a header more.
func TestARequestIsOneRequest(t *testing.T) {
	d := ordinary(t)
	auth := "Authorization: Bearer " + d.token("@ana", token.Write) + "\r\nContent-Type: application/json\r\n"
	inner := "GET /v1/names/smuggled HTTP/1.1\r\nHost: localhost\r\n" + auth + "\r\n"
	for what, lines := range map[string]string{
		"two lengths":            "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}" + inner,
		"a length with a sign":   "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Length: +2\r\n\r\n{}" + inner,
		"an unknown encoding":    "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"two encodings":          "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"a blank before a colon": "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Length : 2\r\n\r\n{}" + inner,
		"two hosts":              "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n" + inner,
		"a NUL in a header":      "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n" + inner,
		"a return in a header":   "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: a\rX-B: b\r\n\r\n" + inner,
		"no such version":        "GET / HTTP/3.7\r\nHost: localhost\r\n\r\n" + inner,
		"a blank in the path":    "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n" + inner,
	} {
		w := d.raw()
		w.say("%s", lines)
		if said := w.over(); strings.Contains(said, "smuggled") || strings.Contains(said, " 200 OK") || !strings.HasPrefix(said, "HTTP/1.1 ") {
			t.Errorf("%s: %q", what, said)
		}
	}
	// A length beside an encoding: the encoding holds, and the connection ends.
	w := d.raw()
	w.say("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", auth, inner)
	if said := w.over(); strings.Contains(said, "smuggled") {
		t.Errorf("a length beside an encoding: %q", said)
	}
	// Headers without end.
	w = d.raw()
	go func() {
		_, _ = io.WriteString(w.Conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	if got := w.hear(); got.status != 431 {
		t.Errorf("headers without end: %d %s", got.status, got.body)
	}
}

func TestAnswersAreKeptToThemselves(t *testing.T) {
	d := ordinary(t)
	for _, path := range []string{"/", "/v1/names/x", "/v1/nothing"} {
		h := d.ask(ask{method: "GET", path: path}).header
		for name, value := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		} {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: %q", path, csp)
		}
		if h.Get("Strict-Transport-Security") != "" || h.Get("Server") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for host, has := range map[string]bool{"localhost": false, "127.0.0.1": false, "deck.example": true} {
		guard := serve.NewGuard(serve.GuardConfig{Tokens: d.tokens, Now: func() events.Time { return start }, Hosts: []string{"deck.example"}})
		r, w := httptest.NewRequest("GET", "https://"+host+"/", nil), httptest.NewRecorder()
		r.TLS = &tls.ConnectionState{}
		guard.Around(http.NewServeMux(), func(string) serve.Rule { return serve.Rule{} }).ServeHTTP(w, r)
		if got := w.Header().Get("Strict-Transport-Security"); (got != "") != has {
			t.Errorf("TLS on %s: %q", host, got)
		}
	}
}

func TestTheGatesStandOpenForWhomTheyAreMeant(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Read)
	cookie := func(path, value string) ask {
		return ask{method: "GET", path: path}.with("Cookie", "decklog_token="+value)
	}
	for _, c := range []struct {
		what string
		ask  ask
		says string
	}{
		{"a page without a token", ask{method: "GET", path: "/"}, "false   0"},
		{"a page with one in its cookie", cookie("/", secret), "true @ana  0"},
		{"a page with an old one in its cookie", cookie("/", "dlk_old"), "false   0"},
		{"a page with one in the header", ask{method: "GET", path: "/"}.bearing(secret), "true @ana  0"},
		{"health, from here", ask{method: "GET", path: "/healthz"}, "false   0"},
	} {
		if got := d.ask(c.ask); got.status != 200 || got.body != c.says {
			t.Errorf("%s: %d %q", c.what, got.status, got.body)
		}
	}
	if got := d.ask(cookie("/healthz", secret)); got.body != "false   0" {
		t.Errorf("the cookie counts where it should not: %q", got.body)
	}
	// From another machine.
	guard := serve.NewGuard(serve.GuardConfig{Tokens: d.tokens, Now: func() events.Time { return start }, Hosts: []string{"deck.example"}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", echo)
	r, w := httptest.NewRequest("GET", "https://deck.example/healthz", nil), httptest.NewRecorder()
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7717}))
	guard.Around(mux, func(string) serve.Rule { return serve.Rule{Gate: serve.Near} }).ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("health, from elsewhere: %d %s", w.Code, w.Body)
	}
}

func TestTheSocketIsNear(t *testing.T) {
	on, err := net.Listen("unix", filepath.Join(t.TempDir(), "decklog.sock"))
	if err != nil {
		t.Fatal(err)
	}
	d := opened(t, served{routes: map[string]http.HandlerFunc{"GET /healthz": echo, messages: echo}, rules: map[string]serve.Rule{"GET /healthz": {Gate: serve.Near}}, on: on})
	d.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", on.Addr().String())
	}}
	d.addr = "any-name"
	if got := d.ask(ask{method: "GET", path: "/healthz"}); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}); got.code != "no_token" {
		t.Errorf("without a token: %d %s", got.status, got.body)
	}
	if !strings.Contains(d.log.String(), "remote=unix") {
		t.Error(d.log)
	}
}

func TestOverTLSTheOriginIsThatOfTLS(t *testing.T) {
	lent := httptest.NewUnstartedServer(nil) // for its certificate, and a client that trusts it
	lent.StartTLS()
	defer lent.Close()
	d := opened(t, served{
		routes: map[string]http.HandlerFunc{"POST /v1/messages": echo}, hosts: []string{"example.com"},
		secure: &tls.Config{Certificates: lent.TLS.Certificates},
	})
	client := lent.Client()
	defer client.CloseIdleConnections()
	for origin, status := range map[string]int{"": 200, "https://" + d.addr: 200, "http://" + d.addr: 403} {
		r, err := http.NewRequest("POST", "https://"+d.addr+"/v1/messages", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+d.token("@ana", token.Write))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.read(response); got.status != status {
			t.Errorf("from %q: %d %s", origin, got.status, got.body)
		}
	}
}

func TestAHandlerThatPanicsHurtsNobodyElse(t *testing.T) {
	d := opened(t, served{routes: map[string]http.HandlerFunc{
		messages: func(w http.ResponseWriter, r *http.Request) {
			b, _ := serve.ReadBody(r)
			if string(b) == "late" {
				fmt.Fprint(w, strings.Repeat("x", 10_000))
				http.NewResponseController(w).Flush()
			}
			panic(errors.New("at the body " + string(b)))
		},
		"GET /v1/names/{name}": echo,
	}})
	secret := d.token("@ana", token.Write)
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "hush-hush"}.bearing(secret)); got.status != 500 || got.code != "failed" || strings.Contains(got.body, "hush") {
		t.Errorf("%d %s", got.status, got.body)
	}
	w := d.raw()
	w.say("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 4\r\n\r\nlate", secret)
	response, err := http.ReadResponse(w.from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("half an answer looks whole")
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(secret)); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if log := d.log.String(); strings.Contains(log, "hush") || !strings.Contains(log, "msg=panic") || !strings.Contains(log, "faults_test.go") {
		t.Error(log)
	}
}

func TestNoLineOfTheLogHoldsWhatACallerWrote(t *testing.T) {
	d := ordinary(t)
	secret := d.token("@ana", token.Write)
	d.ask(ask{method: "POST", path: "/v1/messages?q=words-of-the-query", body: `"words of the body"`}.bearing(secret))
	d.ask(ask{method: "GET", path: "/v1/names/words-of-the-path"}.bearing(secret))
	d.ask(ask{method: "GET", path: "/v1/names/x?token=" + secret})
	d.ask(ask{method: "GET", path: "/v1/words-of-the-path"}.bearing(secret + "x"))
	d.ask(ask{method: "WORDS-OF-THE-METHOD", path: "/"}.with("User-Agent", "words of the agent\tlevel=ERROR"))
	w := d.raw()
	w.say("GET /%%0a%%1b[31mwords HTTP/1.1\r\nHost: words-of-the-host\r\n\r\n")
	w.hear()
	w = d.raw()
	w.say("words of nothing\r\n\r\n")
	w.over()
	d.server.Close()
	log := d.log.String()
	line := regexp.MustCompile(`^time=\S+ level=INFO msg=request method=(GET|POST|other) route=("[A-Z]+ /[^"]*"|/|"") status=\d+ bytes=\d+ ms=\d+ token=([a-z2-7]{8}|"") remote=127\.0\.0\.1$`)
	requests := 0
	for l := range strings.Lines(log) {
		if l = strings.TrimSuffix(l, "\n"); strings.Contains(l, "msg=request") {
			requests++
			if !line.MatchString(l) {
				t.Errorf("the line %q", l)
			}
		}
	}
	if requests != 6 || strings.Contains(log, "words") || strings.Contains(log, secret[13:]) {
		t.Errorf("%d requests:\n%s", requests, log)
	}
}

func TestATokenHasSoManyRequestsAtOnce(t *testing.T) {
	came, leave := make(chan struct{}), make(chan struct{})
	d := opened(t, served{
		limits: serve.Limits{RequestsPerToken: 2},
		routes: map[string]http.HandlerFunc{"GET /v1/wait": func(http.ResponseWriter, *http.Request) { came <- struct{}{}; <-leave }, "GET /v1/names/{name}": echo},
	})
	ana, ben := d.token("@ana", token.Read), d.token("@ben", token.Read)
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { d.ask(ask{method: "GET", path: "/v1/wait"}.bearing(ana)) })
		until(t, came)
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(ana)); got.status != 429 || got.code != "too_many" || got.header.Get("Retry-After") == "" {
		t.Errorf("a third: %d %s", got.status, got.body)
	}
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(ben)); got.status != 200 {
		t.Errorf("of somebody else: %d %s", got.status, got.body)
	}
	close(leave)
	waiting.Wait()
	if got := d.ask(ask{method: "GET", path: "/v1/names/x"}.bearing(ana)); got.status != 200 {
		t.Errorf("once they are over: %d %s", got.status, got.body)
	}
}

// Bodies at the bound must not add up to more memory than there is.
func TestOnlyAFewLargeBodiesAreReadAtOnce(t *testing.T) {
	first, leave := make(chan struct{}, 1), make(chan struct{})
	large := bytes.Repeat([]byte("x"), serve.LargeBytes+1)
	d := opened(t, served{limits: serve.Limits{LargeBodies: 1}, routes: map[string]http.HandlerFunc{messages: echo}})
	secret := d.token("@ana", token.Write)
	r, err := http.NewRequest("POST", "http://"+d.addr+"/v1/messages", io.MultiReader(bytes.NewReader(large), signal{first, leave}))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+secret)
	answered := make(chan told, 1)
	go func() {
		response, err := d.client.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		answered <- d.read(response)
	}()
	until(t, first)
	// The first one's last bytes are on their way: once they were read, its room is taken.
	for {
		got := d.ask(ask{method: "POST", path: "/v1/messages", body: string(large)}.bearing(secret))
		if got.status == 503 && strings.Contains(got.body, "busy") {
			break
		}
		if got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: string(large[:serve.LargeBytes-1])}.bearing(secret)); got.status != 200 {
		t.Errorf("a smaller one: %d %s", got.status, got.body)
	}
	close(leave)
	if got := until(t, answered); got.status != 200 {
		t.Errorf("the first one: %d %s", got.status, got.body)
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: string(large)}.bearing(secret)); got.status != 200 {
		t.Errorf("the next one: %d %s", got.status, got.body)
	}
}

// signal is the end of a body, that comes when somebody says so.
type signal struct{ came, leave chan struct{} }

func (s signal) Read([]byte) (int, error) {
	s.came <- struct{}{}
	<-s.leave
	return 0, io.EOF
}

func TestWhoComesWhileAllConnectionsAreTakenIsToldSo(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("full", func(t *testing.T) {
		d := opened(t, served{limits: serve.Limits{ConnectionsMax: 3}, routes: map[string]http.HandlerFunc{"GET /{$}": echo}, rules: map[string]serve.Rule{"GET /{$}": {Gate: serve.Open}}})
		const asks = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
		var held []*wire
		for range 3 {
			w := d.raw()
			w.say(asks)
			if got := w.hear(); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			held = append(held, w)
		}
		for range 200 {
			w := d.raw()
			_, _ = io.WriteString(w.Conn, asks)
			if said := w.over(); said != "" && (!strings.HasPrefix(said, "HTTP/1.1 503 ") || !strings.Contains(said, `"busy"`)) {
				t.Fatalf("%q", said)
			}
		}
		w := d.raw()
		if got := w.hear(); got.status != 503 || got.code != "busy" {
			t.Errorf("%d %s", got.status, got.body)
		}
		held[0].Close()
		// The server sees it end in its own time.
		for {
			w := d.raw()
			_, _ = io.WriteString(w.Conn, asks)
			if said, _ := w.from.ReadString('\n'); strings.Contains(said, " 200 ") {
				break
			}
			w.Close()
		}
	})
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestFiveThousandConnectionsAtOnceTakeNothingDown(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 10,000 files")
	}
	const many = 5000
	if room := openFiles(t); room < 2*many+500 {
		t.Skipf("the process may open only %d files", room)
	}
	before := goleak.IgnoreCurrent()
	goroutines := runtime.NumGoroutine()
	t.Run("many", func(t *testing.T) {
		d := ordinary(t)
		secret := d.token("@ana", token.Write)
		conns := make([]net.Conn, many)
		var dialing sync.WaitGroup
		slots := make(chan struct{}, 100)
		for i := range many {
			dialing.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				c, err := net.Dial("tcp", d.addr)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = c
				if i%2 == 0 { // half of them say half of something
					_, err = io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		dialing.Wait()
		for range 100 {
			if got := d.ask(ask{method: "POST", path: "/v1/messages", body: "{}"}.bearing(secret)); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	if err := goleak.Find(before); err != nil {
		t.Errorf("of %d goroutines before, now %d: %v", goroutines, runtime.NumGoroutine(), err)
	}
}
