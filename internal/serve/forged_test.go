package serve_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/internal/serve"
	"decklog/internal/token"
	"decklog/projections"
)

// The faults as the operations' own door must bear them, on a ledger with a
// session of each of two persons.
const (
	alice = "alice-0001" // ana's, on the seat smith
	bob   = "bob-0002"   // ben's
)

func real(t *testing.T) (*door, *ops.Ops) {
	t.Helper()
	policy := events.DefaultPolicy()
	policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "ben", OSUser: "ben"}}
	policy.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}}
	desk := &ops.Ops{Ledger: memory.New(projections.Project), World: ops.World{
		Now: func() events.Time { return start }, Random: func(b []byte) { _, _ = rand.Read(b) }, Alive: func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return false, 0, false },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return policy, nil },
	}}
	for person, q := range map[string]ops.JoinRequest{"ana": {Session: alice, Seat: "smith"}, "ben": {Session: bob}} {
		theirs := *desk
		theirs.World.OSUser = person
		q.Harness, q.Cwd = "claude-code", "/"
		if _, refusal, err := theirs.Join(q); refusal != nil || err != nil {
			t.Fatal(refusal, err)
		}
	}
	d := &door{T: t, tokens: token.Open(t.TempDir()), log: &lines{}}
	d.guard = serve.NewGuard(serve.GuardConfig{Tokens: d.tokens, Now: desk.World.Now, Limits: serve.Limits{FailuresMax: 1000}, Log: slog.New(slog.NewTextHandler(d.log, nil))})
	server := serve.New(serve.Config{Ops: desk, Who: serve.Who, Good: d.guard.Good})
	t.Cleanup(server.Close)
	mux := http.NewServeMux()
	server.Register(mux)
	rules := serve.Rules()
	d.serve(nil, nil, d.guard.Around(mux, func(pattern string) serve.Rule { return rules[pattern] }))
	return d, desk
}

var named = regexp.MustCompile(`\{[a-z_]+\}`)

func TestEveryRouteOfTheTableAsksForItsToken(t *testing.T) {
	d, _ := real(t)
	reads, writes := d.token("@ana", token.Read), d.token("@ana", token.Write)
	for _, route := range api.Routes() {
		a := ask{method: route.Method, path: named.ReplaceAllString(route.Path, "x-0001")}
		if !route.InQuery() {
			a.body = "{}"
		}
		wants := func(what string, a ask, status int, code string) {
			t.Helper()
			if got := d.ask(a); got.status != status || got.code != code {
				t.Errorf("%s %s %s: %d %s", what, a.method, a.path, got.status, got.body)
			}
		}
		wants("no token:", a, 401, "no_token")
		wants("a bad token:", a.bearing(reads+"x"), 401, "bad_token")
		wants("of another page:", a.bearing(writes).with("Origin", "http://evil.example"), 403, "cross_site")
		switch route.Access {
		case api.Write:
			wants("a token that reads:", a.bearing(reads), 403, "read_only_token")
		case api.Machine:
			wants("a person's token:", a.bearing(writes), 403, "machine_only")
			continue
		}
		if route.InQuery() {
			continue
		}
		wants("a form:", a.bearing(writes).with("Content-Type", "application/x-www-form-urlencoded"), 415, "not_json")
		if !route.Stream {
			a.body = `{"no_such_field":1}`
			wants("an unknown field:", a.bearing(writes), 400, "bad_request")
			a.body = `{"as":`
			wants("half a body:", a.bearing(writes), 400, "bad_request")
			a.body = `[]`
			wants("a list:", a.bearing(writes), 400, "bad_request")
		}
	}
}

// caller is the header in which a client on the machine says what it found out.
func caller(t *testing.T, c api.Caller) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Whatever a caller says of itself: with a token it is the one whom that names, or
// it is refused, and the ledger shows it doing nothing.
func TestNobodyActsAsSomebodyElse(t *testing.T) {
	d, desk := real(t)
	secret := map[string]string{}
	for _, who := range []events.Participant{"@ana", "@ben", "@trinity", alice, bob, "bot:pager"} {
		secret[string(who)] = d.token(who, token.Write)
	}
	n := 0
	send := func(as, to string) string {
		n++
		return fmt.Sprintf(`{"as":%q,"to":%q,"body":"hello %d"}`, as, to, n)
	}
	for _, c := range []struct{ holder, what, method, path, body, code string }{
		{"@ana", "sends as another person", "POST", "/v1/messages", send("@ben", alice), "no_caller"},
		{"@ana", "sends as another person's session", "POST", "/v1/messages", send(bob, alice), "no_caller"},
		{"@ana", "sends as another person's session, by a prefix", "POST", "/v1/messages", send("bob-00", alice), "no_caller"},
		{"@ana", "sends as a seat that is not hers", "POST", "/v1/messages", send("@trinity", alice), "no_caller"},
		{"@ana", "sends as a bot", "POST", "/v1/messages", send("bot:pager", alice), "no_caller"},
		{"@ana", "sends as the machine", "POST", "/v1/messages", send("machine", alice), "no_caller"},
		{alice, "sends as another session", "POST", "/v1/messages", send(bob, "@ana"), "no_caller"},
		{alice, "sends as its own person", "POST", "/v1/messages", send("@ana", bob), "no_caller"},
		{bob, "sends as a seat that another session has", "POST", "/v1/messages", send("@smith", "@ana"), "no_caller"},
		{"bot:pager", "sends", "POST", "/v1/messages", send("", alice), "no_caller"},
		{"bot:pager", "sends as a person", "POST", "/v1/messages", send("@ana", alice), "no_caller"},
		{"bot:pager", "raises an alert as another bot", "POST", "/v1/alerts", `{"as":"bot:other","channel":"#alerts","body":"x"}`, "no_caller"},
		{"@ana", "raises an alert as a bot", "POST", "/v1/alerts", `{"as":"bot:pager","channel":"#alerts","body":"x"}`, "no_caller"},
		{alice, "registers another session", "POST", "/v1/sessions", `{"session":"` + bob + `","harness":"codex"}`, "no_caller"},
		{"@ana", "registers another person's session", "POST", "/v1/sessions", `{"session":"` + bob + `","harness":"codex"}`, "no_caller"},
		{"bot:pager", "registers a session", "POST", "/v1/sessions", `{"session":"mallory-0003","harness":"codex"}`, "no_caller"},
		{alice, "ends another session", "POST", "/v1/sessions/leave", `{"session":"` + bob + `","reason":"left"}`, "no_caller"},
		{alice, "takes another's mail", "POST", "/v1/leases", `{"as":"` + bob + `"}`, "no_caller"},
		{"@ana", "takes another person's mail", "POST", "/v1/leases", `{"as":"` + bob + `"}`, "no_caller"},
		{alice, "adopts a policy", "POST", "/v1/policy", `{"policy":{}}`, "machine_only"},
		{alice, "adopts a policy as a person", "POST", "/v1/policy", `{"as":"@ana","policy":{}}`, "machine_only"},
		{"@ana", "adopts a policy, which names a program that the server runs", "POST", "/v1/policy", `{"policy":{}}`, "machine_only"},
		{bob, "places a seat's sticker as a person", "PUT", "/v1/threads/x-0001/stickers/smith", `{"as":"@ana"}`, "no_caller"},
		{"@ana", "says in the body what its door should know", "POST", "/v1/messages", `{"claims":{"Token":"@ben"},"to":"` + alice + `","body":"x"}`, "bad_request"},
	} {
		got := d.ask(ask{method: c.method, path: c.path, body: c.body}.bearing(secret[c.holder]))
		var said struct {
			Refusal struct{ Code, Message, Fix, Example string }
		}
		if err := json.Unmarshal([]byte(got.body), &said); err != nil || got.status < 400 || said.Refusal.Code != c.code && got.code != c.code {
			t.Errorf("%s %s: %d %s", c.holder, c.what, got.status, got.body)
		}
	}
	// What only a client of the machine may say is nothing from anybody else.
	for what, c := range map[string]api.Caller{
		"a claim":              {Claims: ops.Claims{Token: "@ben"}},
		"a stamp":              {Claims: ops.Claims{Stamp: bob}},
		"a session's variable": {Environ: map[string]string{"CLAUDE_CODE_SESSION_ID": bob}},
		"DECKLOG_AS":           {Environ: map[string]string{"DECKLOG_AS": "@ben"}},
		"a user":               {OSUser: "ben"},
		"a process":            {Ancestors: []events.Process{{PID: 1}}},
	} {
		for _, holder := range []string{"@ana", alice} {
			got := d.ask(ask{method: "POST", path: "/v1/messages", body: send("", "@trinity")}.bearing(secret[holder]).with(api.CallerHeader, caller(t, c)))
			if got.status >= 500 {
				t.Errorf("%s says %s: %d %s", holder, what, got.status, got.body)
			}
		}
	}
	// Each may act as itself, and ana for her own session.
	for holder, as := range map[string]string{"@ana": alice, "@ben": "@ben", alice: alice, bob: ""} {
		if got := d.ask(ask{method: "POST", path: "/v1/messages", body: send(as, "@trinity")}.bearing(secret[holder])); got.status != 200 {
			t.Errorf("%s as %q: %d %s", holder, as, got.status, got.body)
		}
	}
	// Of all that the ledger recorded nothing is by anybody whose token did not do it.
	said := map[string]int{}
	_, _, err := desk.Events(ops.EventsRequest{}, func(e events.Recorded) error {
		if sent, is := e.Event.(events.MessageSent); is {
			said[string(sent.Author.ID)+" "+sent.Author.Person]++
		}
		if left, is := e.Event.(events.SessionLeft); is {
			t.Errorf("%s ended", left.Session)
		}
		if joined, is := e.Event.(events.SessionJoined); is && joined.Session != alice && joined.Session != bob {
			t.Errorf("%s joined", joined.Session)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for who := range said {
		if who != "@ana ana" && who != alice+" ana" && who != "@ben ben" && who != bob+" ben" {
			t.Errorf("%s sent something", who)
		}
	}
	if log := d.log.String(); strings.Contains(log, "hello") {
		t.Error(log)
	}
}

func TestTheRealDoorBearsWhatIsTooLargeAndWhoGoesAway(t *testing.T) {
	d, desk := real(t)
	secret := d.token("@ana", token.Write)
	head := "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret + "\r\n"
	w := d.raw()
	w.say("%sContent-Length: 100000000\r\n\r\n", head)
	if got := w.hear(); got.status != 413 || got.code != "request_too_large" {
		t.Errorf("announced: %d %s", got.status, got.body)
	}
	w.Close()
	w = d.raw()
	w.say("%sTransfer-Encoding: chunked\r\n\r\n", head)
	to := w.Conn
	go func() {
		piece := "100000\r\n" + strings.Repeat(" ", 1<<20) + "\r\n"
		for range 30 {
			if _, err := io.WriteString(to, piece); err != nil {
				return
			}
		}
	}()
	if got := w.hear(); got.status != 413 || got.code != "request_too_large" {
		t.Errorf("in pieces: %d %s", got.status, got.body)
	}
	w.Close()
	// A message cut off within is none.
	w = d.raw()
	w.say("%sContent-Length: 60\r\n\r\n%s", head, `{"to":"`+bob+`","body":"half"}`)
	if err := w.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := w.hear(); got.status != 400 || got.code != "request_incomplete" {
		t.Errorf("cut off: %d %s", got.status, got.body)
	}
	// And one whose answer nobody takes is sent all the same, once.
	w = d.raw()
	body := `{"to":"` + bob + `","key":"k1","body":"whole"}`
	w.say("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	w.Close()
	if err := desk.Past(within(t), 4); err != nil { // the policy, a seat and two sessions come before
		t.Fatal(err)
	}
	if got := d.ask(ask{method: "POST", path: "/v1/messages", body: body}.bearing(secret)); got.status != 200 {
		t.Errorf("again: %d %s", got.status, got.body)
	}
	sent := 0
	if _, _, err := desk.Events(ops.EventsRequest{}, func(e events.Recorded) error {
		if e.Type() == events.TypeMessageSent {
			sent++
		}
		return nil
	}); err != nil || sent != 1 {
		t.Errorf("%d messages: %v", sent, err)
	}
}

func TestAStreamEndsWithItsToken(t *testing.T) {
	d, desk := real(t)
	secret := d.token("@ana", token.Read)
	r, err := http.NewRequestWithContext(within(t), "GET", "http://"+d.addr+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	response, err := d.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 {
		t.Fatalf("%d", response.StatusCode)
	}
	if _, err := d.tokens.Revoke(token.IDIn(secret), start); err != nil {
		t.Fatal(err)
	}
	theirs := *desk
	theirs.World.OSUser = "ben"
	if _, refusal, err := theirs.Join(ops.JoinRequest{Session: "carol-0003", Harness: "codex"}); refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	b, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || strings.Contains(string(b), "carol-0003") {
		t.Errorf("it goes on: %s %v", b, err)
	}
}
