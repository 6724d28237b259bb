package metrics

import (
	"decklog/commands"
	"decklog/events"
	"decklog/internal/hook"
	"decklog/projections"
)

// other is the value of a label for whatever is in none of the lists.
const other = "other"

// words are the values that a label may have.
type words map[string]bool

func listed[T ~string](all []T) words {
	w := words{}
	for _, one := range all {
		w[string(one)] = true
	}
	return w
}

// of is the word itself where the list has it.
func (w words) of(word string) string {
	if w[word] {
		return word
	}
	return other
}

// each calls visit with every value that the label may have.
func (w words) each(visit func(string)) {
	for word := range w {
		visit(word)
	}
}

// The closed lists.
var (
	types     = listed(events.Types())
	intents   = listed([]events.Intent{events.Request, events.Inform, events.Done})
	codes     = listed(commands.Codes())
	kinds     = listed([]events.ItemKind{events.ItemMessage, events.ItemNotice, events.ItemCall})
	reasons   = listed([]events.LostReason{events.LostUnconfirmed, events.LostSessionEnded, events.LostExpired})
	sources   = listed([]projections.Source{projections.SourcePerson, projections.SourceHandoff, projections.SourceSolo, projections.SourceSticker, projections.SourceMirror, projections.SourceArea})
	owedKinds = []projections.OwedKind{projections.OwedReply, projections.OwedHandoff, projections.OwedReview}
	harnesses = listed(hook.Harnesses())
	methods   = listed([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
	classes   = listed([]string{"1xx", "2xx", "3xx", "4xx", "5xx"})
)
