package render_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"decklog/internal/render"
)

// A text that is read part by part is the text, each part keeps to its budget,
// and no part ends its frame before it ends.
func TestATextThatIsShownInPartsIsAllOfIt(t *testing.T) {
	back := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab<>&/\n\"é👩]|"))).Draw(t, "text")
		attributes := []render.Attribute{{Name: "id", Value: rapid.String().Draw(t, "id")}, {Name: "none"}}
		frame, _ := render.Tags.Shown("decklog-shown", attributes, "", 0, 0)
		budget := render.EncodedLen(frame) + rapid.IntRange(30, 400).Draw(t, "room for text")
		var read strings.Builder
		for from := 0; from >= 0; {
			frame, next := render.Tags.Shown("decklog-shown", attributes, text, from, budget)
			if render.EncodedLen(frame) > budget || strings.Count(frame, "<") != 2 || next >= 0 && next <= from {
				t.Fatalf("from %d to %d: %d bytes of %d: %s", from, next, render.EncodedLen(frame), budget, frame)
			}
			_, body, _ := strings.Cut(frame, ">\n")
			body, whole := strings.CutSuffix(body, "\n</decklog-shown>")
			if !whole {
				t.Fatalf("it does not end: %s", frame)
			}
			read.WriteString(back.Replace(body))
			from = next
		}
		if read.String() != text {
			t.Fatalf("read %q of %q", read.String(), text)
		}
	})
}
