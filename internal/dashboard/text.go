package dashboard

import (
	"fmt"
	"strings"
	"unicode"

	"decklog/events"
)

// BodyShownMax is how many bytes of a body stand open on a page; the rest of a
// longer one unfolds on demand.
const BodyShownMax = 6000

// span is a stretch of somebody's text: as it stands, or the name of one character
// that would not be seen, or would make the text read otherwise than it is.
type span struct {
	Text string
	Mark string // such as U+202E; empty: an ordinary stretch
}

// joiners are format characters that ordinary writing is made of: emoji, Persian
// and Indic text hold the first two, and the others are seen.
var joiners = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0600, 0x0605, 1}, {0x06dd, 0x06dd, 1}, {0x070f, 0x070f, 1}, {0x0890, 0x0891, 1}, {0x08e2, 0x08e2, 1}, {0x200c, 0x200d, 1},
	},
	R32: []unicode.Range32{{0x110bd, 0x110bd, 1}, {0x110cd, 0x110cd, 1}},
}

// fillers are letters and blanks that show as nothing.
var fillers = &unicode.RangeTable{
	R16:         []unicode.Range16{{0x00ad, 0x00ad, 1}, {0x034f, 0x034f, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x2800, 0x2800, 1}, {0x3164, 0x3164, 1}, {0xffa0, 0xffa0, 1}},
	LatinOffset: 1,
}

// unseen says whether a rune is an instruction to whatever shows it, or is not seen
// at all, so that a reader is told its name instead.
func unseen(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, fillers) || r >= 0xe0000 && r <= 0xe007f ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(joiners, r)
}

// spans takes a text apart so that nothing in it is hidden. A byte that is no
// UTF-8 becomes U+FFFD.
func spans(text string) (found []span) {
	from := 0
	text = strings.ToValidUTF8(text, "\ufffd")
	for i, r := range text {
		if !unseen(r) {
			continue
		}
		if from < i {
			found = append(found, span{Text: text[from:i]})
		}
		found = append(found, span{Mark: fmt.Sprintf("U+%04X", r)})
		from = i + len(string(r))
	}
	if from < len(text) {
		found = append(found, span{Text: text[from:]})
	}
	return found
}

// plain is a text for where only text can stand, such as a title: what is unseen
// stands by its name.
func plain(text string) string {
	var b strings.Builder
	for _, s := range spans(text) {
		if s.Mark != "" {
			b.WriteString("[" + s.Mark + "]")
			continue
		}
		b.WriteString(s.Text)
	}
	return b.String()
}

// folded cuts a long body in two, at a line's end where one is near, else between
// two characters.
func folded(body string) (shown, rest string) {
	if len(body) <= BodyShownMax+BodyShownMax/4 {
		return body, ""
	}
	at := BodyShownMax
	if line := strings.LastIndexByte(body[:at], '\n'); line > at*3/4 {
		at = line + 1
	}
	for at > 0 && body[at]&0xc0 == 0x80 {
		at--
	}
	return body[:at], body[at:]
}

// short is an id as it fits a line: a UUID by its first eight characters, which
// every command takes for it.
func short[ID ~string](id ID) string {
	if _, is := events.ParseUUID(string(id)); is {
		return string(id[:8])
	}
	return string(id)
}
