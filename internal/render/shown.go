package render

import (
	"strings"
	"unicode/utf8"
)

// Attribute is one attribute of a tag that shows something which was asked for.
// One without a value is not written.
type Attribute struct{ Name, Value string }

// Shown is a text that somebody wrote, in a frame of its own name: what a reader
// asked to see, and no delivery. It stands from a byte of the text on, and as much
// of it as takes at most budget encoded bytes with its frame; next is the byte at
// which the rest begins, -1 when there is none. A frame alone is never cut.
func (m Markup) Shown(name string, attributes []Attribute, text string, from, budget int) (frame string, next int) {
	s := m.style()
	s.tight = true
	if from < 0 || from > len(text) {
		from = len(text)
	}
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	around := s.beginTag(name, s.own(attributes)...) + "\n" + s.margin
	end := "\n" + s.endTag(name)
	room := budget - EncodedLen(around) - EncodedLen(end)
	var kept, shown []byte
	for i, r := range text[from:] {
		shown = s.appendRune(shown[:0], r)
		if room -= EncodedLen(string(shown)); room < 0 {
			return around + string(kept) + end, from + i
		}
		kept = append(kept, shown...)
	}
	return around + string(kept) + end, -1
}

// Tag is a tag that holds nothing but its attributes.
func (m Markup) Tag(name string, attributes []Attribute) string {
	s := m.style()
	s.tight = true
	return s.emptyTag(name, s.own(attributes)...)
}

func (s style) own(attributes []Attribute) (own []attribute) {
	for _, a := range attributes {
		own = append(own, attribute{a.Name, strings.ToValidUTF8(a.Value, "\ufffd")})
	}
	return own
}
