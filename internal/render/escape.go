package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what stands in a tag, in bytes before it is escaped. What is longer
// is cut on a rune and ends with an ellipsis, within the bound.
const (
	AttributeBytesMax = 256
	RefBytesMax       = 512 // the most that a send admits
)

const ellipsis = "…"

// angles are the characters that a reader could take for an angle bracket, or
// that a normalisation turns into one. They are those that Unicode's
// confusables (UTS 39) lead to an angle, those that NFKC leads there, and by
// their shape any angle that stands alone, in a row, dotted, ringed or on its
// side.
//
// Left out on purpose: signs with a bar or an equals sign (≤ and its kin, which
// prose needs), filled triangles and arrows, angles in a box, combining marks,
// and the hiragana ku (U+304F), without which no Japanese would stay readable.
var angles = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00ab, 0x00bb, 0x10}, // guillemets
		{0x02c2, 0x02c3, 1},    // modifier letter arrowheads
		{0x02f1, 0x02f2, 1},    // the same, low
		{0x1433, 0x1439, 1},    // Canadian syllabics po, hi, pa
		{0x1440, 0x1447, 1},    // pwo, pwa
		{0x150c, 0x150c, 1},    // spwa
		{0x169b, 0x169c, 1},    // ogham feather marks
		{0x16b2, 0x16b2, 1},    // runic kauna
		{0x2039, 0x203a, 1},    // single guillemets
		{0x226a, 0x226b, 1},    // much less, much greater
		{0x226e, 0x226f, 1},    // not less, not greater: NFD is the bare sign and a stroke
		{0x227a, 0x227b, 1},    // precedes, succeeds
		{0x22b0, 0x22b1, 1},    // the same, under relation
		{0x22d6, 0x22d9, 1},    // less and greater with dot, very much less and greater
		{0x2329, 0x232a, 1},    // technical angle brackets: NFC is the CJK ones
		{0x276c, 0x2771, 1},    // dingbats: medium and heavy angles
		{0x27e8, 0x27eb, 1},    // mathematical angle brackets
		{0x2991, 0x2996, 1},    // angle bracket with dot, arc brackets
		{0x29c0, 0x29c1, 1},    // circled less, greater
		{0x29fc, 0x29fd, 1},    // curved angle brackets
		{0x2a20, 0x2a20, 1},    // Z notation schema piping
		{0x2a79, 0x2a7c, 1},    // less and greater with circle, with question mark
		{0x2aa1, 0x2aa2, 1},    // double nested less, greater
		{0x2aa4, 0x2aa7, 1},    // less and greater overlapping, beside, closed by a curve
		{0x2abb, 0x2abc, 1},    // double precedes, succeeds
		{0x2af7, 0x2af8, 1},    // triple nested less, greater
		{0x2cb4, 0x2cb5, 1},    // old Coptic ain
		{0x2e16, 0x2e16, 1},    // dotted right-pointing angle
		{0x3008, 0x300b, 1},    // CJK angle brackets
		{0x31db, 0x31db, 1},    // CJK stroke pd
		{0xfe3d, 0xfe40, 1},    // CJK angle brackets for vertical text
		{0xfe64, 0xfe65, 1},    // small forms
		{0xff1c, 0xff1e, 2},    // full-width
	},
	R32: []unicode.Range32{
		{0x16f3f, 0x16f3f, 1}, // Miao archaic zza
		{0x1d236, 0x1d237, 1}, // Greek instrumental notation 40 and 42
		{0x21fe8, 0x21fe8, 1}, // an ideograph of one bent stroke
	},
	LatinOffset: 1,
}

// tags are the Unicode tag characters with their unassigned neighbours: text
// that a model reads and a person does not see.
var tags = &unicode.RangeTable{R32: []unicode.Range32{{0xe0000, 0xe007f, 1}}}

// hidden says whether a rune is an instruction to whatever shows it, or reads
// otherwise than it looks: controls, line and paragraph separators, bidi
// controls and tag characters. Joiners, variation selectors and combining marks
// are not: emoji, Indic and Persian text are made of them.
func hidden(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, tags)
}

// appendRune adds a rune of a text as it stands in a frame: as itself, or as a
// reference when it could be taken for markup or is hidden.
func (s style) appendRune(b []byte, r rune) []byte {
	switch {
	case r == '&': // a reference that a text brings along is text, not a reference
		return append(b, "&amp;"...)
	case r == '<':
		return append(b, "&lt;"...)
	case r == '>':
		return append(b, "&gt;"...)
	case r == '\n':
		return append(append(b, '\n'), s.margin...)
	case hidden(r), unicode.Is(angles, r):
		return fmt.Appendf(b, "&#x%X;", r)
	}
	return utf8.AppendRune(b, r)
}

// escape writes a body so that it cannot forge the frame. Of each byte that is
// no UTF-8 it makes one U+FFFD.
func (s style) escape(body string) string {
	b := make([]byte, 0, len(body)+len(body)/8)
	for _, r := range body {
		b = s.appendRune(b, r)
	}
	return string(b)
}

// value writes the value of an attribute of at most AttributeBytesMax bytes,
// counted before it is escaped; in a tight frame after: a name that is made of
// nothing but escapes must not make a frame that no harness takes whole.
func (s style) value(value string) string {
	written := s.escapeAttribute(value, AttributeBytesMax)
	for most := AttributeBytesMax; s.tight && len(written) > AttributeBytesMax; {
		most -= max(1, (len(written)-AttributeBytesMax)/len("&quot;"))
		written = s.escapeAttribute(value, max(most, len(ellipsis)))
	}
	return written
}

// escapeAttribute writes the value of an attribute, of at most bytesMax bytes
// before it is escaped. Controls and format characters are dropped, not shown:
// a value is a name or an address, and none of them belongs in one.
func (s style) escapeAttribute(value string, bytesMax int) string {
	value = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, tags) {
			return -1
		}
		return r
	}, value)
	b := make([]byte, 0, len(value))
	for _, r := range cut(value, bytesMax) {
		if r == '"' {
			b = append(b, "&quot;"...)
			continue
		}
		b = s.appendRune(b, r)
	}
	return string(b)
}

// cut shortens valid UTF-8 to bytesMax bytes, the ellipsis included.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	end := bytesMax - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// plain keeps of an id what means nothing to a shell or to JSON, at most
// AttributeBytesMax bytes. It is for ids in a call that a model will copy.
func plain[ID ~string](id ID) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune("._:@-", r):
			return r
		}
		return -1
	}, string(id))
	return kept[:min(len(kept), AttributeBytesMax)]
}
