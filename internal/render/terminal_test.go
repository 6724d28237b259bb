package render_test

import (
	"testing"

	"decklog/internal/render"
)

func TestTerminalShowsWhatWouldActOnIt(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b]0;title\x07": `\x1b[31mred\x1b]0;title\x07`,
		"a\rb\x00\x7f":                `a\x0db\x00\x7f`,
		"\u009b31m":                   `\u009b31m`,
		"\u202eevil\u2069\u2028":      `\u202eevil\u2069\u2028`,
		"\U000e0041":                  `\U000e0041`,
		"\xff\x9b":                    "\ufffd\ufffd",
		"tab\tline\n<b> & ⟨x⟩ \\x1b":  "tab\tline\n<b> & ⟨x⟩ \\x1b",
		"👩‍👩‍👧 e\u0301":               "👩‍👩‍👧 e\u0301",
	} {
		if got := render.Terminal(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func FuzzTerminalPrintsNoControl(f *testing.F) {
	f.Add("\x1b[2J\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range render.Terminal(s) {
			if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e) {
				t.Errorf("%U of %q is printed", r, s)
			}
		}
	})
}
