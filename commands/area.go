package commands

import (
	"encoding/json"
	"strings"

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
	text, payload = folded(text), folded(spelledOut(payload))
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

// spelledOut is what the strings and numbers of a payload in JSON say, without
// JSON's escapes, which would run into the words behind them; any other payload
// is what it is.
func spelledOut(payload string) string {
	if !json.Valid([]byte(payload)) {
		return payload
	}
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil { // its end
			return b.String()
		}
		switch token := token.(type) {
		case string:
			b.WriteString(token + "\n")
		case json.Number:
			b.WriteString(token.String() + "\n")
		}
	}
}

// folded is a text in lower case, with one blank between its words.
func folded(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }

// Within says whether a phrase of the content map stands in a text as whole
// words, whatever the case and the blanks.
func Within(phrase, text string) bool { return hasWords(folded(text), folded(phrase)) }

// matches says whether any of an area's phrases stands as whole words in a text
// that is folded.
func matches(a events.Area, text string) bool {
	for _, phrase := range a.Match {
		if hasWords(text, folded(phrase)) {
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
