package commands

import (
	"strings"
	"unicode/utf8"

	"decklog/events"
)

// AreaOf names the seat of a root from its author, its text and, of an alert,
// its payload (R8). It looks at nothing else: no clock, no state, no history.
// Nil while the policy has no seats.
func AreaOf(author events.Author, kind events.MessageKind, text, payload string, p events.Policy) *events.AreaOf {
	if len(p.Seats) == 0 {
		return nil
	}
	if author.Kind == events.KindPerson && kind != events.KindAlert {
		for _, person := range p.Persons {
			if person.Name == author.ID.Name() && person.Home != "" {
				return &events.AreaOf{Seat: person.Home, Reason: events.AreaAuthor}
			}
		}
	}
	var found *events.Area
	for i := range p.Areas {
		a := &p.Areas[i]
		if (found == nil || a.Priority < found.Priority) && (matches(*a, text) || matches(*a, payload)) {
			found = a
		}
	}
	if found == nil {
		return &events.AreaOf{Seat: p.Seats[0].Name, Reason: events.AreaDefault}
	}
	return &events.AreaOf{Seat: found.Seat, Reason: events.AreaMap, Says: found.Reason}
}

// matches says whether any of an area's phrases stands in a text as whole words,
// whatever the case.
func matches(a events.Area, text string) bool {
	text = strings.ToLower(text)
	for _, phrase := range a.Match {
		if hasWords(text, strings.ToLower(strings.TrimSpace(phrase))) {
			return true
		}
	}
	return false
}

func hasWords(text, phrase string) bool {
	if phrase == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], phrase)
		if i < 0 {
			return false
		}
		i += from
		before := i == 0 || !partOfWord(lastRune(text[:i])) || !partOfWord(firstRune(phrase))
		end := i + len(phrase)
		after := end == len(text) || !partOfWord(firstRune(text[end:])) || !partOfWord(lastRune(phrase))
		if before && after {
			return true
		}
		from = i + 1
	}
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
