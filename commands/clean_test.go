package commands

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCleanTakesOutControlCharactersAndNothingElse(t *testing.T) {
	for _, c := range []struct{ what, body, want string }{
		{"an empty body", "", ""},
		{"plain text", "one\n\ttwo\n", "one\n\ttwo\n"},
		{"CRLF", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"a lone CR", "one\rtwo\r", "one\ntwo\n"},
		{"CR CR LF, which is a lone CR and a CRLF", "one\r\r\ntwo", "one\n\ntwo"},
		{"NUL", "a\x00b", "ab"},
		{"an ANSI colour loses its ESC", "\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"BEL, BS, VT, FF", "a\a\b\v\fb", "ab"},
		{"DEL", "a\x7fb", "ab"},
		{"C1: U+0080, CSI, U+009F", "a\u0080b\u009bc\u009fd", "abcd"},
		{"U+00A0 is no control", "a\u00a0b", "a\u00a0b"},
		{"a rune whose second byte is in the range of C1", "\u0411\u0101", "\u0411\u0101"},
		{"a family emoji with joiners", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F468\u200D\U0001F469\u200D\U0001F467"},
		{"decomposed text", "e\u0301 A\u030a", "e\u0301 A\u030a"},
		{"bidi controls and tag characters, which rendering shows", "\u202e\U000E0041", "\u202e\U000E0041"},
		{"shell text", "C:\\temp\\new \\$HOME `x` $(y) it's", "C:\\temp\\new \\$HOME `x` $(y) it's"},
		{"only controls", "\x00\x01\x1b", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := string(Clean([]byte(c.body))); got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.body, got, c.want)
			}
		})
	}
}

func TestCleanDoesNotTouchTheBodyThatItWasGiven(t *testing.T) {
	body := []byte("a\r\nb\x00c")
	before := bytes.Clone(body)
	Clean(body)
	if !bytes.Equal(body, before) {
		t.Errorf("body is now %q, was %q", body, before)
	}
}

func TestCleaningAnOrdinaryBodyAllocatesNothing(t *testing.T) {
	body := []byte(strings.Repeat("an ordinary line, with an \u00e9 in it\n", 100))
	if n := testing.AllocsPerRun(10, func() { Clean(body) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if got := Clean(body); &got[0] != &body[0] {
		t.Error("a body with nothing to clean was copied")
	}
}

func TestCleanedTextIsValidHasNoControlsAndCleansToItself(t *testing.T) {
	// Controls are drawn often, beside whatever else a string can hold.
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.SampledFrom([]string{"\r", "\n", "\r\n", "\t", "\x00", "\x1b", "\x7f", "\u0080", "\u009f", "\u00a0"}),
		)).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		body := text.Draw(t, "body")
		got := Clean([]byte(body))
		if !utf8.Valid(got) {
			t.Fatalf("Clean(%q) = %q, which is not UTF-8", body, got)
		}
		if again := Clean(got); !bytes.Equal(again, got) {
			t.Fatalf("Clean(%q) = %q, and that cleans to %q", body, got, again)
		}
		// The same, said another way.
		want := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				return -1
			}
			return r
		}, strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n"))
		if string(got) != want {
			t.Fatalf("Clean(%q) = %q, want %q", body, got, want)
		}
	})
}
