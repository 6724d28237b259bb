package render

import "unicode/utf8"

// EncodedLen is how many bytes a text takes inside a JSON string, its quotes
// not counted, as encoding/json writes it with SetEscapeHTML(false).
//
// It is never less than the text's bytes of UTF-8, nor than its units of
// UTF-16. So one budget holds for a harness that counts bytes and for one that
// counts characters. The lengths of two valid texts add up to that of both.
func EncodedLen(text string) int {
	n := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == '"', r == '\\', r == '\n', r == '\t', r == '\r', r == '\b', r == '\f':
			n += len(`\n`)
		case r < ' ', r == '\u2028', r == '\u2029':
			n += len(`\u0000`)
		case r == utf8.RuneError && size == 1: // no UTF-8
			n += len(`\ufffd`)
		default:
			n += size
		}
	}
	return n
}
