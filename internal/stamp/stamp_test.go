package stamp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decklog/internal/stamp"
)

var (
	now   = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	key   = bytes.Repeat([]byte{7}, stamp.KeyBytes)
	claim = stamp.Claim{Session: "5d0c33e1", Harness: "codex", Tool: "decklog_send", Use: "call_1"}
)

const input = `{"to":"@smith","refs":["a","b"],"over":true,"n":20}`

func sign(t testing.TB, input string) string {
	t.Helper()
	signed, err := stamp.Sign(key, claim, []byte(input), now)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestAStampNamesWhoCallsInWhateverWayTheHarnessWritesTheInputAnew(t *testing.T) {
	signed := sign(t, input)
	for _, again := range []string{
		input,
		`{"n":20.0, "over":true,"to":"\u0040smith", "refs":["a","b"]}`,
		`{"_decklog":"` + signed + `","to":"@smith","refs":["a","b"],"over":true,"n":2e1}`,
	} {
		got, err := stamp.Verify(key, signed, "decklog_send", "call_1", []byte(again), now.Add(30*time.Second))
		if err != nil || got.Session != claim.Session || got.Harness != claim.Harness {
			t.Errorf("of %s: %+v %v", again, got, err)
		}
	}
	if _, err := stamp.Verify(key, signed, "decklog_send", "", []byte(input), now); err != nil {
		t.Errorf("from a harness that gives a call no id: %v", err)
	}
}

func TestAStampOfAnotherCallTimeOrKeyIsNone(t *testing.T) {
	signed := sign(t, input)
	other := bytes.Repeat([]byte{8}, stamp.KeyBytes)
	forged, err := stamp.Sign(other, claim, []byte(input), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what             string
		stamp, tool, use string
		input            string
		now              time.Time
		says             string
	}{
		{"another tool", signed, "decklog_ack", "call_1", input, now, "decklog_send"},
		{"another call", signed, "decklog_send", "call_2", input, now, "another call"},
		{"another input", signed, "decklog_send", "call_1", `{"to":"@trinity","refs":["a","b"],"over":true,"n":20}`, now, "another input"},
		{"a field more", signed, "decklog_send", "call_1", `{"to":"@smith","refs":["a","b"],"over":true,"n":20,"body":""}`, now, "another input"},
		{"another order in a list", signed, "decklog_send", "call_1", `{"to":"@smith","refs":["b","a"],"over":true,"n":20}`, now, "another input"},
		{"a minute later", signed, "decklog_send", "call_1", input, now.Add(61 * time.Second), "good for"},
		{"long before", signed, "decklog_send", "call_1", input, now.Add(-6 * time.Second), "future"},
		{"another key", forged, "decklog_send", "call_1", input, now, "did not make it"},
		{"nothing", "", "decklog_send", "call_1", input, now, "did not make it"},
		{"a session's name", "5d0c33e1", "decklog_send", "call_1", input, now, "did not make it"},
	} {
		if got, err := stamp.Verify(key, c.stamp, c.tool, c.use, []byte(c.input), c.now); !errors.Is(err, stamp.ErrBad) || !strings.Contains(err.Error(), c.says) || got.Session != "" {
			t.Errorf("%s: %+v %v", c.what, got, err)
		}
	}
	for i := range signed {
		changed := []byte(signed)
		changed[i] ^= 1
		if got, err := stamp.Verify(key, string(changed), "decklog_send", "call_1", []byte(input), now); err == nil && got.Session != claim.Session {
			t.Errorf("with letter %d changed it names %q", i, got.Session)
		}
	}
	if _, err := stamp.Sign(key[:31], claim, []byte(input), now); err == nil {
		t.Error("signed with half a key")
	}
	if _, err := stamp.Verify(nil, signed, "decklog_send", "call_1", []byte(input), now); err == nil {
		t.Error("read without a key")
	}
}

// What goes into the input comes out of it, and nothing else of it is touched.
func TestAStampIsPutIntoAnInputAndTakenOutAgain(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "<b>&", "\u2028", "é", `"`, "12345678901234567890"})
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.MapOf(rapid.SampledFrom([]string{"to", "body", stamp.Field, "x<"}), text).Draw(t, "fields")
		before, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := stamp.Sign(key, claim, before, now)
		if err != nil {
			t.Fatal(err)
		}
		after, err := stamp.Into(before, signed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stamp.Verify(key, signed, claim.Tool, claim.Use, after, now); err != nil {
			t.Fatalf("%s: %v", after, err)
		}
		var given map[string]json.RawMessage
		if err := json.Unmarshal(after, &given); err != nil {
			t.Fatal(err)
		}
		out, there := stamp.Out(given)
		if out != signed || !there {
			t.Fatalf("came out as %q", out)
		}
		delete(fields, stamp.Field)
		for name, value := range fields {
			var got string
			if json.Unmarshal(given[name], &got); got != value {
				t.Fatalf("%s is %q, and was %q", name, got, value)
			}
		}
		if len(given) != len(fields) {
			t.Fatalf("%d fields, and there were %d", len(given), len(fields))
		}
	})
}

func TestAnInputThatIsNoObjectIsNeitherStampedNorRead(t *testing.T) {
	for _, bad := range []string{`[]`, `"text"`, `{`, `1`} {
		if _, err := stamp.Sign(key, claim, []byte(bad), now); err == nil {
			t.Errorf("%s is signed", bad)
		}
		if _, err := stamp.Into([]byte(bad), "x"); err == nil {
			t.Errorf("%s is stamped", bad)
		}
	}
	for _, none := range []string{``, `null`, `{}`} {
		if into, err := stamp.Into([]byte(none), "x"); err != nil || string(into) != `{"_decklog":"x"}` {
			t.Errorf("%q becomes %s, %v", none, into, err)
		}
	}
	for _, absent := range []string{`{}`, `{"_decklog":null}`} {
		var given map[string]json.RawMessage
		_ = json.Unmarshal([]byte(absent), &given)
		if out, there := stamp.Out(given); there || out != "" || len(given) != 0 {
			t.Errorf("%s has the stamp %q", absent, out)
		}
	}
	given := map[string]json.RawMessage{stamp.Field: json.RawMessage(`{"session":"x"}`)}
	if out, there := stamp.Out(given); !there || out != "" {
		t.Errorf("an object is the stamp %q, %t", out, there)
	}
}

func TestOnlyDecklogsOwnToolsAreStamped(t *testing.T) {
	for called, tool := range map[string]string{
		"mcp__decklog__decklog_send":                "decklog_send",
		"mcp__plugin_decklog_decklog__decklog_wait": "decklog_wait",
		"mcp_decklog_decklog_ack":                   "decklog_ack",
		"decklog_decklog_thread":                    "decklog_thread",
		"mcp__plugin_mine_decklog__decklog_owed":    "decklog_owed",
		"decklog_send":                              "",
		"Bash":                                      "",
		"":                                          "",
		"mcp__other__decklog_send":                  "",
		"mcp__notdecklog__decklog_send":             "",
		"mcp__decklog__other":                       "",
		"mcp__decklog__decklog_sendx":               "",
		"mcp__evil_decklog__decklog_send":           "",
		"other_decklog_send":                        "",
		"mcp__decklog__decklog_":                    "",
		"x_decklog_decklog_send":                    "",
	} {
		if got := stamp.Tool(called); got != tool {
			t.Errorf("%s is %q, want %q", called, got, tool)
		}
	}
}

func FuzzNoStampBreaksItsReader(f *testing.F) {
	signed, _ := stamp.Sign(key, claim, []byte(input), now)
	f.Add(signed, input)
	f.Add("v1.e30.x", `{"_decklog":1}`)
	f.Fuzz(func(t *testing.T, given, rest string) {
		got, err := stamp.Verify(key, given, "decklog_send", "call_1", []byte(rest), now)
		if err == nil && (given != signed || got.Session != claim.Session) {
			t.Errorf("%q is a stamp of %q", given, got.Session)
		}
	})
}
