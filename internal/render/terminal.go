package render

import (
	"fmt"
	"strings"
)

// Terminal shows a text so that printing it does nothing to a terminal: each
// control save LF and TAB, each bidi control, line separator and tag character
// stands as an escape that can be seen (\x1b, \u202e, \U000e0041), and each
// byte that is no UTF-8 as U+FFFD. A backslash stays as it is, so the text is
// for eyes and cannot be read back.
//
// Lines stay lines: whoever prints a body under headings of its own indents it.
func Terminal(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
