package commands

import (
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
			if line[i] != '@' || i > 0 && partOfWord(lastRune(line[:i])) {
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
// ends there: a dot or hyphen that more letters follow belongs to another name.
func begins(text, name string) bool {
	if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		return false
	}
	next, n := utf8.DecodeRuneInString(text[len(name):])
	if n == 0 {
		return true
	}
	if next == '.' || next == '-' {
		after, m := utf8.DecodeRuneInString(text[len(name)+n:])
		return m == 0 || !partOfWord(after)
	}
	return !partOfWord(next)
}

func partOfWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// spoken is a text without what its author did not say: fenced and indented
// code, code in backticks, quoted lines, and links.
func spoken(text string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimLeft(line, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(bare, fence) {
				fence = ""
			}
		case strings.HasPrefix(bare, "```"), strings.HasPrefix(bare, "~~~"):
			fence = bare[:3]
		case strings.HasPrefix(bare, ">"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
		default:
			b.WriteString(line)
			continue
		}
		b.WriteString("\n")
	}
	return withoutLinks(withoutCode(b.String()))
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

// withoutLinks blanks addresses, and where a link in brackets leads.
func withoutLinks(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "]("):
			if end := strings.IndexAny(text[i:], ")\n"); end > 0 {
				i += end
				continue
			}
		case strings.HasPrefix(text[i:], "://"):
			for i < len(text) && !unicode.IsSpace(rune(text[i])) && text[i] != '>' && text[i] != ')' {
				i++
			}
			b.WriteByte(' ')
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// Answers says who answers a message (R9): the one seat that it calls, or of
// several, or of the group, the driver if it is among them, else the first in
// order. Empty: nobody is called, and the owner window decides (R5).
func Answers(s *projections.State, t *projections.Thread, m *projections.Message) string {
	called := m.Called()
	order := s.Roster(t).Order
	if m.Group {
		called = order
	}
	switch driver := s.Driver(t).Seat; {
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
