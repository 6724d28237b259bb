package commands

import (
	"decklog/events"
	"decklog/projections"
)

// IsAbout says whether an event is about what an id, or a prefix of one, names: a
// hand-off, a review, an open item, a message, or the thread.
func IsAbout(s *projections.State, id string, r events.Recorded) bool {
	if h := projections.HandoffOf(r.Event); h != "" && whole(s.HandoffsWith, id) == string(h) {
		return true
	}
	thread := r.Stream.Thread()
	if s.ThreadOfReview(WholeReview(s, id)) == thread {
		return true
	}
	switch e := r.Event.(type) {
	case events.AckPlaced:
		m, refused := FindMessage(s, id)
		return refused == nil && m.ID == e.Message
	case events.OwedClosed:
		return wholeItem(s, id) == e.Item
	case events.HandoffAccepted, events.HandoffDeclined, events.HandoffClosed:
		return false
	}
	t, refused := FindThread(s, id)
	return refused == nil && t.ID == thread
}
