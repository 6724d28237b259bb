package mcp

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// What is written says the same as what the SDK wrote, and has no escape that a
// page of HTML would need.
func TestAMessageIsWrittenBareAndSaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune(`<>&\u003c"n/é`+"\n\u2028\x01"))).Draw(t, "text")
		escaped, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := newWire(nil, &out)
		if n, err := w.Write(escaped); n != len(escaped) || err != nil {
			t.Fatal(n, err)
		}
		var want, got map[string]string
		if json.Unmarshal(escaped, &want) != nil || json.Unmarshal(out.Bytes(), &got) != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%s became %s", escaped, &out)
		}
		var bare bytes.Buffer
		e := json.NewEncoder(&bare)
		e.SetEscapeHTML(false)
		if err := e.Encode(want); err != nil || out.String()+"\n" != bare.String() {
			t.Fatalf("%s is written as %s", escaped, &out)
		}
	})
}
