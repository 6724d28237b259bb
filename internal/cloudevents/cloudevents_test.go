package cloudevents_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/cloudevents"
)

// What a ledger that was tampered with holds is exported as far as it can be, and
// what comes out is always an event of the standard, with the data that went in.
func TestWhateverIsRecordedTheStandardsOwnProgramReadsIt(t *testing.T) {
	source := cloudevents.Source(events.Recorded{ID: "first"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"thread-1", "a\x00b", "\xff", "\u0085\ufffe\U0001ffff", "\"}{\\"}))
		data := rapid.OneOf(
			rapid.SampledFrom([]string{`{}`, `{ }`, `{"message":"m"}`, ` {"a":{"b":[1,2,{}]}} `, `[]`, `null`, `7`, `"text"`, `{"a":`, "", "\xff"}),
			rapid.Map(rapid.MapOf(rapid.String(), rapid.String()), func(m map[string]string) string {
				b, _ := json.Marshal(m) // a map of texts can be encoded
				return string(b)
			}),
		).Draw(t, "data")
		r := events.Recorded{
			ID: "e", Position: events.Position(rapid.Int64Range(0, 1<<62).Draw(t, "position")), Stream: events.Stream("s" + text.Draw(t, "stream")),
			Actor: events.Participant(text.Draw(t, "actor")), Cause: events.Cause{Command: events.CommandID(text.Draw(t, "command"))},
			Time: 1_800_000_000_000_000, Version: 1, Data: []byte(data),
			Event: events.Unknown{Type: events.Type("t" + text.Draw(t, "type")), Version: 1, Data: []byte(data)},
		}
		var beside *cloudevents.Text
		if rapid.Bool().Draw(t, "text beside") {
			beside = &cloudevents.Text{Body: text.Draw(t, "text"), Gone: rapid.Bool().Draw(t, "gone")}
		}
		written, err := json.Marshal(cloudevents.Of(r, source, beside))
		if err != nil {
			t.Fatal(err)
		}
		var e event.Event
		if err := json.Unmarshal(written, &e); err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		var got, want any
		if err := json.Unmarshal(e.Data(), &got); err != nil {
			t.Fatalf("%v\n%s", err, e.Data())
		}
		if json.Unmarshal([]byte(data), &want) != nil {
			want = strings.ToValidUTF8(data, "\ufffd")
		}
		if object, is := want.(map[string]any); is && beside != nil {
			if beside.Gone {
				object["body_redacted"] = true
			} else {
				object["body_text"] = string([]rune(beside.Body)) // what is no UTF-8 is replaced
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the data is %v, and was %v:\n%s", got, want, written)
		}
	})
}

func TestTwoLedgersAreTwoSources(t *testing.T) {
	first := events.Recorded{ID: "e", Time: 1, Actor: "device:a", Data: []byte(`{}`)}
	seen := map[string]bool{cloudevents.Source(first): true}
	for _, change := range []func(*events.Recorded){
		func(r *events.Recorded) { r.Time = 2 },
		func(r *events.Recorded) { r.Actor = "device:b" },
		func(r *events.Recorded) { r.Data = []byte(`{"policy":{}}`) },
	} {
		other := first
		change(&other)
		s := cloudevents.Source(other)
		if seen[s] || !strings.HasPrefix(s, "urn:uuid:") || s != cloudevents.Source(other) {
			t.Errorf("the source is %q", s)
		}
		seen[s] = true
	}
}
