package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"decklog/events"
	"decklog/internal/callers"
	"decklog/internal/ops"
	"decklog/internal/stamp"
)

// What the real harnesses say beside a call, the stamp taken out of it: see
// testdata/real.
func TestWhoCallsIsReadFromWhatTheRealHarnessesSay(t *testing.T) {
	const first, second = "11110000-0000-7000-8000-000000000001", "11110001-0000-7000-8000-000000000002"
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	for name, want := range map[string]struct {
		use   string // the id of the call, as the harness tells its hook and its server
		meta  []events.SessionID
		agent bool
	}{
		"claude-code":         {use: "toolu_live2"},
		"codex":               {use: "call_live2", meta: []events.SessionID{first}},
		"codex-exec":          {use: "call_live2", meta: []events.SessionID{first}},
		"codex-in-a-subagent": {use: "call_live5", meta: []events.SessionID{second, first}, agent: true},
		"gemini":              {},
		"opencode":            {},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "real", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var params mcp.CallToolParamsRaw
			if err := json.Unmarshal(text, &params); err != nil {
				t.Fatal(err)
			}
			c := caller{callers: callers.Beside(t.TempDir()), now: func() time.Time { return now }}
			key, err := c.callers.MakeKey()
			if err != nil {
				t.Fatal(err)
			}
			// The stamp that the hook made of this very call.
			claim := stamp.Claim{Session: "the-session", Tool: params.Name, Use: want.use}
			signed, err := stamp.Sign(key, claim, params.Arguments, now)
			if err != nil {
				t.Fatal(err)
			}
			arguments, err := stamp.Into(params.Arguments, signed)
			if err != nil {
				t.Fatal(err)
			}
			claims := func() ops.Claims {
				given, err := object(arguments)
				if err != nil {
					t.Fatal(err)
				}
				out, there := stamp.Out(given)
				return c.claims(params.Name, params.Meta, arguments, out, there)
			}
			got := claims()
			if wanted := (ops.Claims{Agents: true, Stamp: "the-session", Meta: want.meta, Subagent: want.agent}); !reflect.DeepEqual(got, wanted) {
				t.Errorf("it says %+v, want %+v", got, wanted)
			}
			// The same call again is good where the harness gives it an id, and else spent.
			if again := claims(); (again.StampFault == "") != (want.use != "") {
				t.Errorf("again it says %+v", again)
			}
			if want.use == "" {
				return
			}
			if err := c.callers.Note(want.use, callers.Use{Session: "noted", Agent: "a", Tool: params.Name, Made: now}); err != nil {
				t.Fatal(err)
			}
			if noted := claims(); noted.ToolUse != "noted" || !noted.Subagent {
				t.Errorf("noted, it says %+v", noted)
			}
			claim.Use = "another"
			if signed, err = stamp.Sign(key, claim, params.Arguments, now); err != nil {
				t.Fatal(err)
			}
			if arguments, err = stamp.Into(params.Arguments, signed); err != nil {
				t.Fatal(err)
			}
			if other := claims(); !strings.Contains(other.StampFault, "another call") || other.Stamp != "" {
				t.Errorf("with the stamp of another call it says %+v", other)
			}
		})
	}
}

// A turn's metadata may come as an object or as a text, and other clients keep
// what they like under such names.
func TestOnlyCodexIsTakenForCodex(t *testing.T) {
	for _, c := range []struct {
		meta mcp.Meta
		want int
	}{
		{mcp.Meta{"threadId": "a", "x-codex-turn-metadata": `{"thread_id":"a"}`}, 1},
		{mcp.Meta{"threadId": "a", "sessionId": "b", "x-codex-turn-metadata": `{"thread_source":"subagent"}`}, 2},
		{mcp.Meta{"threadId": "a", "sessionId": "b", "x-codex-turn-metadata": map[string]any{"thread_source": "user"}}, 1},
		{mcp.Meta{"threadId": "a", "x-codex-turn-metadata": "rubbish"}, 0},
		{mcp.Meta{"threadId": 3, "x-codex-turn-metadata": map[string]any{}}, 0},
		{mcp.Meta{"threadId": "a"}, 0},
		{nil, 0},
	} {
		if got := codexSessions(c.meta, turnMetadata(c.meta["x-codex-turn-metadata"])); len(got) != c.want {
			t.Errorf("%v names %v", c.meta, got)
		}
	}
}
