package commands

import (
	"decklog/events"
	"decklog/projections"
)

// Post is what waits for an idle session, as far as one who may start its turn
// has to know it.
type Post struct {
	Waits  int             // items that its next prompt would bring, at most ItemsMax
	Newest events.Position // of those that are worth a turn; 0: none is
}

// WorthATurn looks at what waits for an idle session. Worth a turn is what would
// have held its stop: a request, an answer to its own request, the offer of a
// hand-off. An inform waits for the next prompt, which its user gives. What is
// leased comes by another run, and what came to wait up to told was told of.
func WorthATurn(s *projections.State, c Call, who events.Participant, told events.Position, now events.Time) (p Post) {
	p.Waits = len(Taking{Call: c, Who: who}.Offer(s, now).Items)
	for _, it := range (Taking{Call: c, Who: who, Stopping: true}).Offer(s, now).Items {
		if it.position > told {
			p.Newest = max(p.Newest, it.position)
		}
	}
	return p
}
