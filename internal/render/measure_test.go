package render_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"decklog/internal/render"
)

func encoded(t rapid.TB, text string) int {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		t.Fatal(err)
	}
	return b.Len() - len("\"\"\n")
}

func TestEncodedLenIsWhatJSONTakes(t *testing.T) {
	for r := rune(0); r < 0x3000; r++ {
		if got, want := render.EncodedLen(string(r)), encoded(t, string(r)); got != want {
			t.Errorf("%U takes %d, EncodedLen says %d", r, want, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		n := render.EncodedLen(text)
		if want := encoded(t, text); n != want {
			t.Fatalf("%q takes %d, EncodedLen says %d", text, want, n)
		}
		if n < len(text) {
			t.Fatalf("less than the %d bytes of %q", len(text), text)
		}
		if units := len(utf16.Encode([]rune(text))); n < units {
			t.Fatalf("less than the %d units of %q", units, text)
		}
	})
}
