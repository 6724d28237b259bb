package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"decklog/commands"
)

func TestACommandIsWrittenAsTheRequestThatItIs(t *testing.T) {
	for said, want := range map[string]string{
		`decklog send --reply-to abc -- "your <answer>"`:                `POST /v1/messages {"body":"your <answer>","reply_to":"abc"}`,
		`decklog send --to bob --ref file:a --ref commit:4f2a9c1 -- hi`: `POST /v1/messages {"body":"hi","refs":["file:a","commit:4f2a9c1"],"to":"bob"}`,
		`decklog ack abc act`:                                                   `POST /v1/messages/abc/ack {"ack":"act"}`,
		`decklog wait abc --timeout 120s`:                                       `POST /v1/wait {"id":"abc","within_us":120000000}`,
		`decklog inbox --sent`:                                                  `GET /v1/inbox?sent=true`,
		`decklog inbox --limit 50`:                                              `GET /v1/inbox?limit=50`,
		`decklog driver t1 --why`:                                               `GET /v1/threads/t1/driver`,
		`decklog handoff offer t1 --to trinity --reason "r"`:                    `POST /v1/threads/t1/handoffs {"reason":"r","to":"trinity"}`,
		`decklog handoff accept h1`:                                             `POST /v1/handoffs/h1/accept`,
		`decklog review check t1 --commit 4f2a9c1`:                              `GET /v1/threads/t1/reviews/4f2a9c1`,
		`decklog review label r1 root low`:                                      `POST /v1/reviews/r1/label {"label":"root","risk":"low"}`,
		`decklog alert "#alerts" --payload alert.json -- "it fails"`:            `POST /v1/alerts {"body":"it fails","channel":"#alerts"}`,
		`decklog owed close i1 --reason "r"`:                                    `POST /v1/owed/i1/close {"reason":"r"}`,
		`decklog policy adopt --policy decklog.toml`:                            `on the command line: decklog policy adopt --policy decklog.toml`,
		"keep working, or wait with `decklog wait abc --timeout 5s`.":           `keep working, or wait with POST /v1/wait {"id":"abc","within_us":5000000}.`,
		"ask for fewer, and for the rest with --cursor":                         `ask for fewer, and for the rest with cursor`,
		"leave out --as, or use a token of b-1: decklog token create --for b-1": `leave out as, or use a token of b-1: on the command line: decklog token create --for b-1`,
		"name who is acting with --as or DECKLOG_AS":                            `name who is acting with as`,
		"attach the passage with --ref":                                         `attach the passage with refs`,
		"write it after --, or give it on standard input with -":                `write it in body`,
		"go on. The answer comes into your context by itself.":                  `go on. Fetch the answer with POST /v1/wait.`,
		"take another key for another message; the first one stands":            `take another key for another message; the first one stands`,
	} {
		if got := InRequests(said); got != want {
			t.Errorf("%s\nis written %s\nwant       %s", said, got, want)
		}
	}
}

// What a refusal shows as a request is one that its route takes.
func TestTheExampleOfEveryRefusalIsARequestThatItsRouteTakes(t *testing.T) {
	elsewhere := 0
	for _, code := range commands.Codes() {
		r := Refused(commands.Refuse(code, "for the test"))
		if strings.Contains(r.Fix, "--") || strings.Contains(r.Fix, "`decklog") {
			t.Errorf("the fix of %s is for a command line: %s", code, r.Fix)
		}
		if strings.HasPrefix(r.Example, door.Elsewhere+"decklog ") {
			elsewhere++
			continue
		}
		method, rest, _ := strings.Cut(r.Example, " ")
		target, body, _ := strings.Cut(rest, " ")
		at, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		taken := false
		mux := http.NewServeMux()
		for _, route := range Routes() {
			mux.HandleFunc(route.Pattern(), func(_ http.ResponseWriter, req *http.Request) {
				in, err := route.Gather(req.PathValue, req.URL.Query(), []byte(body))
				if err != nil {
					t.Errorf("%s: %v", r.Example, err)
				}
				for name := range asObject(t, in) {
					if _, known := Fields(route.In)[name]; !known {
						t.Errorf("%s: %s takes no %s", r.Example, route.Name, name)
					}
				}
				taken = true
			})
		}
		req := httptest.NewRequest(method, "/", nil)
		req.URL = at
		if mux.ServeHTTP(httptest.NewRecorder(), req); !taken {
			t.Errorf("the example of %s, %s, is no request", code, r.Example)
		}
	}
	if elsewhere > 1 {
		t.Errorf("%d examples are for a command line", elsewhere)
	}
}

func asObject(t *testing.T, data []byte) (fields map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
