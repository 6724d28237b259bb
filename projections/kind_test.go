package projections

import (
	"testing"

	"decklog/internal/rows"
)

// A view that asks for rows which its replay does not make would be empty, and
// nobody would know that it is wrong.
func TestAReplayThatIsAskedForWhatItDoesNotMakeSaysSo(t *testing.T) {
	asks := map[string]func(*State){
		"thread rows":     func(s *State) { s.Named("t", 0, 0) },
		"talk":            func(s *State) { s.Talk("t", 1, 1, 1) },
		"messages":        func(s *State) { s.MessagesOf("t") },
		"search":          func(s *State) { s.Find("abcdef", 1) },
		"inbox":           func(s *State) { s.Inbox(InboxQuery{Who: "s1"}, nil) },
		"sent":            func(s *State) { s.SentSince("s1", 1, 1, 1) },
		"queue":           func(s *State) { s.Queue("s1", func(Queued) bool { return true }) },
		"queued messages": func(s *State) { s.QueuedMessages("s1", func(Queued) bool { return true }) },
		"open sends":      func(s *State) { s.OpenSends("s1", func(*Message, *Delivery) bool { return true }) },
		"threads":         func(s *State) { s.Threads(ThreadsQuery{Limit: 1}, nil, 1) },
		"refusals":        func(s *State) { s.Refusals(RefusalsQuery{Limit: 1}, nil) },
		"counts":          func(s *State) { s.Health(1) },
		"who has mail":    func(s *State) { s.WithMail() },
		"lease":           func(s *State) { s.Lease("l") },
	}
	for what, ask := range asks {
		bare, whole := Replay(rows.New(), 0), On(rows.New())
		if ask(bare); bare.Err() == nil {
			t.Errorf("%s: it answers", what)
		}
		if ask(whole); whole.Err() != nil {
			t.Errorf("%s: %v", what, whole.Err())
		}
	}
}
