package commands

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// Mentions lists the seats that a text mentions with an @, each once and in the
// order of the text, and says whether it mentions all seats at once. What stands
// in code, in a quote or in a link mentions nobody.
func Mentions(text string, p events.Policy) (seats []string, group bool) {
	names := mentionable(p)
	for line := range strings.Lines(spoken(text)) {
		for i := 0; i < len(line); i++ {
			if line[i] != '@' || partOfWord(lastRune(strings.TrimRight(line[:i], "_"))) {
				continue
			}
			rest := line[i+1:]
			for _, n := range names {
				if !begins(rest, n.text) {
					continue
				}
				if n.seat == "" {
					group = true
				} else if !slices.Contains(seats, n.seat) {
					seats = append(seats, n.seat)
				}
				i += len(n.text)
				break
			}
		}
	}
	return seats, group
}

// mentioned is a name behind an @; without a seat it is that of them all.
type mentioned struct{ text, seat string }

// mentionable lists the names that can be mentioned, the longest first, so that
// none hides behind another that it begins with.
func mentionable(p events.Policy) (names []mentioned) {
	for _, seat := range p.Seats {
		names = append(names, mentioned{seat.Name, seat.Name})
	}
	if len(p.Seats) > 0 {
		names = append(names, mentioned{text: events.GroupName})
	}
	if p.Routing != nil {
		for _, g := range p.Routing.Group {
			names = append(names, mentioned{text: g})
		}
	}
	slices.SortStableFunc(names, func(a, b mentioned) int { return cmp.Compare(len(b.text), len(a.text)) })
	return names
}

// begins says whether a text begins with a name, whatever the case, and the name
// ends there: a dot, hyphen or underscore that more letters follow belongs to
// another name.
func begins(text, name string) bool {
	if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		return false
	}
	rest := text[len(name):]
	switch r := firstRune(rest); r {
	case '.', '-', '_':
		return !partOfWord(firstRune(rest[1:]))
	default:
		return !partOfWord(r)
	}
}

// partOfWord says whether a rune goes on with a word that stands beside it. Of
// what is written without blanks between its words, nothing does.
func partOfWord(r rune) bool {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return false
	case unicode.In(r, unicode.Mn, unicode.Mc): // an accent, but not what only picks a glyph
		return !unicode.Is(unicode.Variation_Selector, r)
	}
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// spoken is a text without what its author did not say: fenced and indented
// code, code in backticks, quoted lines, and links.
func spoken(text string) string {
	var b strings.Builder
	fence, blank := "", true // blank: indented code may begin
	for line := range strings.Lines(text) {
		bare := inList(line)
		switch {
		case fence != "":
			if closes(strings.TrimLeft(line, " "), fence) {
				fence = ""
			}
		case fenceOf(bare) != "":
			fence = fenceOf(bare)
		case strings.HasPrefix(bare, ">"):
		case blank && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
		case strings.TrimSpace(line) != "":
			blank = false
			b.WriteString(line)
			continue
		}
		blank = true
		b.WriteString("\n")
	}
	return withoutLinks(withoutCode(b.String()))
}

// inList is a line without its indent and the marks of the lists that it begins.
func inList(line string) string {
	for {
		line = strings.TrimLeft(line, " ")
		item := strings.TrimLeft(line, "0123456789")
		switch {
		case len(line) > 1 && strings.IndexByte("-*+", line[0]) >= 0 && line[1] == ' ':
			line = line[2:]
		case len(item) < len(line) && (strings.HasPrefix(item, ". ") || strings.HasPrefix(item, ") ")):
			line = item[2:]
		default:
			return line
		}
	}
}

// fenceOf is the run of backticks or tildes with which a line opens fenced code;
// empty when it opens none.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, mark)
		run := line[:len(line)-len(rest)]
		if len(run) >= 3 && (mark == "~" || !strings.Contains(rest, mark)) { // else it is code in the line
			return run
		}
	}
	return ""
}

// closes says whether a line closes fenced code: by a run as long at least, and
// nothing else.
func closes(line, fence string) bool {
	return strings.HasPrefix(line, fence) && strings.Trim(strings.TrimSpace(line), fence[:1]) == ""
}

// withoutCode blanks what stands between equally long runs of backticks.
func withoutCode(text string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '`')
		if open < 0 {
			b.WriteString(text)
			return b.String()
		}
		n := 0
		for open+n < len(text) && text[open+n] == '`' {
			n++
		}
		run := text[open : open+n]
		shut := closing(text[open+n:], run)
		if shut < 0 { // a lone backtick opens nothing
			b.WriteString(text[:open+n])
			text = text[open+n:]
			continue
		}
		b.WriteString(text[:open])
		b.WriteString(" ")
		text = text[open+n+shut+n:]
	}
}

// closing finds a run of exactly so many backticks, in the same paragraph.
func closing(text, run string) int {
	for i := 0; i < len(text); {
		if strings.HasPrefix(text[i:], "\n\n") {
			return -1
		}
		if text[i] != '`' {
			i++
			continue
		}
		n := 0
		for i+n < len(text) && text[i+n] == '`' {
			n++
		}
		if n == len(run) {
			return i
		}
		i += n
	}
	return -1
}

// withoutLinks blanks addresses, and links in brackets with their text.
func withoutLinks(text string) string {
	var out []byte
	open := -1 // the last bracket that was opened in this line
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '[':
			open = len(out)
		case rest[0] == '\n':
			open = -1
		case open >= 0 && (strings.HasPrefix(rest, "](") || strings.HasPrefix(rest, "][")):
			if end := strings.IndexAny(rest[1:], ")]\n"); end > 0 && rest[1+end] != '\n' {
				out = append(out[:open], ' ')
				i, open = i+1+end, -1
				continue
			}
		case strings.HasPrefix(rest, "://"), rest[0] == '/' && likeHost(out):
			end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '>' || r == ')' })
			if end < 0 {
				return string(out)
			}
			i += end - 1
			out = append(out, ' ')
			continue
		}
		out = append(out, text[i])
	}
	return string(out)
}

// likeHost says whether a text ends in the name of a host, as an address without
// its scheme begins.
func likeHost(text []byte) bool {
	host := text[len(bytes.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")):]
	return bytes.IndexByte(bytes.Trim(host, "."), '.') > 0
}

// Answers says who answers a message (R9): the one seat that it calls, or of
// several, or of the group, the driver if it is among them, else the first in
// order. Empty: nobody is called, and the owner window decides (R5).
func Answers(s *projections.State, t *projections.Thread, m *projections.Message) string {
	called := m.Called()
	order := s.RosterNow().Order
	if m.Group {
		called = order
	}
	switch driver := s.DriverNow(t).Seat; {
	case len(called) == 0:
		return ""
	case len(called) == 1:
		return called[0]
	case slices.Contains(called, driver):
		return driver
	}
	for _, seat := range order {
		if slices.Contains(called, seat) {
			return seat
		}
	}
	return called[0]
}
