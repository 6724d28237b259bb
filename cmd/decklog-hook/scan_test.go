package main

import (
	"encoding/json"
	"testing"
)

func FuzzScanReadsWhatAFullReaderReads(f *testing.F) {
	for _, seed := range []string{
		`{"session_id":"a","hook_event_name":"Stop"}`,
		` { "session_id" : "a" , "x" : {"session_id":"b","y":[1,{"z":"]}"}]} , "hook_event_name":"PostToolUse", "n": 1.5e3, "cwd":"/w" } `,
		`{"tool_response":"\"session_id\":\"b\"","session_id":"a"}`,
		`{"session_id":"a\u0062"}`, `{"session_id":1}`, `{"agent_id":null,"session_id":"a"}`, `{"session_id":"a","session_id":"b"}`,
		`{}`, `[]`, ``, `{"a"`, `{"a":}`, `{"session_id":"a"} x`, `{"session_id":"a",}`, `{"a":[}`, `{"x":"\\","session_id":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, whole := scan(b)
		if !whole {
			return // the full program reads it
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil {
			return // it has the outline of an object, and no more is promised
		}
		for name, value := range map[string]string{"hook_event_name": got.event, "session_id": got.session, "conversation_id": got.conversation, "agent_id": got.agent, "transcript_path": got.transcript, "cwd": got.cwd} {
			var s string
			_ = json.Unmarshal(want[name], &s)
			if s != value && !(value == "" && (name == "cwd" || name == "conversation_id")) {
				t.Fatalf("%s is %q, and was read as %q, in %q", name, s, value, b)
			}
		}
	})
}

func TestScanPassesOverWhatDoesNotMatter(t *testing.T) {
	got, whole := scan([]byte(`{"tool_response":{"a":"}\"","b":[{},[]]},"session_id":"s-1","cwd":"/w","hook_event_name":"Stop","stop_hook_active":true}` + "\n"))
	if want := (said{event: "Stop", session: "s-1", cwd: "/w"}); !whole || got != want {
		t.Errorf("read %+v, %t; want %+v", got, whole, want)
	}
	for _, half := range []string{`{"session_id":"s-1"`, `{"session_id":"s-1`, `{"a":{`, `"session_id"`, `{"session_id":"s\u0031"}`, `{"session_id":7}`, `{"session_id":"a"}{}`} {
		if got, whole := scan([]byte(half)); whole {
			t.Errorf("%s was taken as whole: %+v", half, got)
		}
	}
}

func TestTheBellsLieBesideTheLedgerOrItsSocket(t *testing.T) {
	for url, folder := range map[string]string{
		"sqlite:/d/ledger.db": "/d", "unix:/d/decklog.sock": "/d", "sqlite:": "", "unix:": "", "http://127.0.0.1:7717": "", "memory:": "",
	} {
		t.Setenv("DECKLOG_LEDGER", url)
		if got := ledgerFolder([]string{"codex"}); got != folder {
			t.Errorf("of %q they lie in %q", url, got)
		}
	}
}
