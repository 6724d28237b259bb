package commands

// Clean makes a body fit to be kept: CRLF and a lone CR become LF, and every
// control character but LF and TAB goes: the rest of C0, DEL, and C1 (U+0080 to
// U+009F). Whatever else the body holds stays byte for byte; nothing is
// normalised, trimmed or joined, so that a path, a family emoji and decomposed
// text arrive as they were written.
//
// The body must be valid UTF-8, and then so is what Clean returns; cleaning
// twice is cleaning once. A body with nothing to clean is returned as it is.
func Clean(body []byte) []byte {
	at, _ := nextControl(body, 0)
	if at == len(body) {
		return body
	}
	clean := make([]byte, 0, len(body))
	for from := 0; ; {
		at, width := nextControl(body, from)
		clean = append(clean, body[from:at]...)
		if at == len(body) {
			return clean
		}
		if body[at] == '\r' {
			clean = append(clean, '\n')
		}
		from = at + width
	}
}

// nextControl finds the first sequence at or after from that Clean takes out or
// replaces, and its width in bytes; len(body) when there is none.
//
// It looks at bytes, not runes: in valid UTF-8 the byte 0xC2 is always the first
// of a rune, and U+0080 to U+009F are exactly those that it begins with a second
// byte under 0xA0.
func nextControl(body []byte, from int) (at, width int) {
	for at := from; at < len(body); at++ {
		switch c := body[at]; {
		case c == '\n' || c == '\t':
		case c == '\r' && at+1 < len(body) && body[at+1] == '\n':
			return at, 2
		case c < 0x20 || c == 0x7f:
			return at, 1
		case c == 0xC2 && at+1 < len(body) && body[at+1] < 0xA0:
			return at, 2
		}
	}
	return len(body), 0
}
