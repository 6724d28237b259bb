package esdb

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
)

// FuzzMetadataIsReadAsJSON holds what reads and writes metadata against encoding/json.
func FuzzMetadataIsReadAsJSON(f *testing.F) {
	for _, text := range []string{
		`{"actor":"@smith","schema":"1"}`, `{}`, `{"a":""}`, `{"a":"b","a":"c"}`, `{"a":"b","a":1}`, `{"a":"\u0062"}`, `{"a": "b"}`, ` {"a":"b"}`,
		`{"a":"b",}`, `{"a":"b"`, `{"a":"b"}x`, `{"":"b"}`, `{"a":null}`, `null`, `{"a":{"b":"c"}}`, `["a"]`, "", "{\"a\":\"\xff\"}", "{\"a\":\"ä<&>\u2028\"}",
		"{\"a\":\"b\x01\"}", `{"a"b":"c"}`, `{"a":"b" ,"c":"d"}`, `{"a":"b","c":"d"}`, `x"}`, `{"a":"b":"c"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]string
		valid := json.Unmarshal(data, &want) == nil
		got := map[string]string{}
		if is := eachOf(data, func(key, value string) { got[key] = value }); is != valid {
			t.Fatalf("%q is metadata: %t, not %t", data, is, valid)
		}
		if valid && len(got)+len(want) > 0 {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q is read otherwise (-json +ours):\n%s", data, diff)
			}
		}
		var m flat
		value := strings.ToValidUTF8(string(data), "?")
		m.put("first", value)
		m.put("second", "s")
		want = nil
		if err := json.Unmarshal(m.bytes(), &want); err != nil || want["first"] != value || want["second"] != "s" || len(want) != 2 {
			t.Fatalf("%q is written as %s", value, m.bytes())
		}
	})
}

// What would not read back is refused before it is sent, and nothing else is.
func TestAnEventThatIsSentReadsBack(t *testing.T) {
	plain := events.Recorded{
		Stream: "thread-1", Revision: 7, ID: "5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90", Time: 1_764_500_000_000_000, Actor: "@smith", Version: 1,
		Cause: events.Cause{Command: "c"}, Policy: 3, Event: events.ThreadDone{Thread: "t", Message: "m", By: "@smith"},
	}
	for name, c := range map[string]struct {
		change func(*events.Recorded)
		sent   bool
	}{
		"a plain one":                 {func(*events.Recorded) {}, true},
		"an id that is no UUID":       {func(r *events.Recorded) { r.ID = "refusal 7" }, true},
		"an id in another form":       {func(r *events.Recorded) { r.ID = "5D0C33E1-8F6F-4B0E-9A47-2F7C1D2B3A90" }, true},
		"a cause":                     {func(r *events.Recorded) { r.Cause.Event = "e" }, true},
		"text that JSON escapes":      {func(r *events.Recorded) { r.Actor = "a \"b\" \\ <c> & \u2028 ä \x01 \ufffd" }, true},
		"an actor that is not UTF-8":  {func(r *events.Recorded) { r.Actor = "a\xff" }, false},
		"a cause that is not UTF-8":   {func(r *events.Recorded) { r.Cause.Event = "\xff" }, false},
		"a command that is not UTF-8": {func(r *events.Recorded) { r.Cause.Command = "\xff" }, false},
		"an id that is not UTF-8":     {func(r *events.Recorded) { r.ID = "\xff" }, false},
		"a time that has no year":     {func(r *events.Recorded) { r.Time = math.MaxInt64 }, false},
		"a time before all years":     {func(r *events.Recorded) { r.Time = math.MinInt64 }, false},
		"the first moment":            {func(r *events.Recorded) { r.Time = -62_167_219_200_000_000 }, true},
		"a type that nobody knows": {func(r *events.Recorded) {
			r.Event = events.Unknown{Type: "x.y", Version: 9, Data: []byte("?")}
			r.Version = 9
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := plain
			c.change(&r)
			r.Data, r.Version, _ = events.Encode(r.Event)
			r.Event, _ = events.Decode(r.Type(), r.Version, r.Data)
			o, err := encode(events.Batch{Stream: r.Stream, Expected: 6, Events: []events.Proposed{{Stream: r.Stream, ID: r.ID, Event: r.Event}}}, []events.Recorded{r})
			if (err == nil) != c.sent {
				t.Fatalf("encode gave %v", err)
			}
			if err != nil {
				return
			}
			a, err := decode(r.Stream, r.Revision, o.data[0].EventID, o.data[0].EventType, o.data[0].Data, o.data[0].Metadata)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, a.Recorded); diff != "" {
				t.Errorf("it reads back otherwise (-sent +read):\n%s", diff)
			}
			var m map[string]string
			if err := json.Unmarshal(o.data[0].Metadata, &m); err != nil {
				t.Fatal(err)
			}
			for key, value := range r.Metadata() {
				if m[key] != value {
					t.Errorf("its metadata has %s %q, not %q", key, m[key], value)
				}
			}
		})
	}
}
