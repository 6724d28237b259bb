package wording

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var shop = Door{
	Forms: map[string]Form{"buy": {Call: "buy", Words: []string{"what"}, Body: "note"}, "buy back": {Call: "take", Given: []Field{{"back", true}}, Words: []string{"what"}}},
	Flags: map[string]string{"as": ""},
	Value: func(field, text string) (any, bool) { return []string{text}, field == "ref" },
	Write: func(call string, fields []Field) (string, bool) {
		for _, f := range fields {
			call += fmt.Sprintf(" %s=%v", f.Name, f.Value)
		}
		return call, true
	},
	Elsewhere: "there: ",
}

func TestACommandIsACallWhereTheDoorHasOne(t *testing.T) {
	for said, want := range map[string]string{
		`decklog buy bread --for me -- "and butter"`: `buy what=bread for=me note=and butter`,
		`decklog buy back bread`:                     `take back=true what=bread`,
		`decklog buy --ref a --ref b`:                `buy ref=[a b]`,
		`decklog buy --as me bread`:                  `buy what=bread`,
		`decklog buy bread milk`:                     `there: decklog buy bread milk`, // one word too many
		`decklog buy "bread`:                         `there: decklog buy "bread`,
		`decklog sell --to me`:                       `there: decklog sell --to me`,
		"run `decklog buy bread`, or --to":           `run buy what=bread, or to`,
		"run `decklog sell --to me`; --as stays":     `run there: decklog sell --to me; --as stays`,
		"run it: decklog buy --to me; then --over":   `run it: buy to=me; then over`,
		"give it after --, or leave it":              `give it in body, or leave it`,
		"the decklog of a --together":                `the decklog of a --together`,
	} {
		if got := shop.Text(said); got != want {
			t.Errorf("%s\nis written %s\nwant       %s", said, got, want)
		}
	}
}

// A text may hold what somebody wrote: it never breaks, and what holds neither a
// command nor a flag stays as it is.
func TestATextWithoutACommandStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got := shop.Text(text); got != text && !strings.Contains(text, "--") && !strings.Contains(text, "decklog ") {
			t.Fatalf("%q became %q", text, got)
		}
		_ = shop.Text("`decklog buy " + text + "` decklog buy --to " + text)
	})
}
