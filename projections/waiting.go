package projections

import "decklog/events"

// Waiting is how many messages wait in a mailbox.
type Waiting struct {
	Mailbox  events.Participant `json:"mailbox"`
	Messages int                `json:"messages"`
}

// Waiting counts what waits for a participant, in each mailbox that it takes
// from: exactly the messages that its inbox lists as queued, found without
// reading what was delivered long ago. One that lies in several counts once, in
// the first.
func (s *State) Waiting(who events.Participant) (counts []Waiting) {
	s.asks(QueueRows)
	seen := map[events.MessageID]bool{}
	for _, box := range s.Mailboxes(who) {
		w := Waiting{Mailbox: box}
		s.scan(ofBox(box, "queue", ""), "", false, func(k string, _ []byte) bool {
			if part(k, 4) != messageMark {
				return true
			}
			m := s.Message(events.MessageID(part(k, 5)))
			if m == nil || seen[m.ID] || m.Deleted != nil {
				return true
			}
			d := m.Delivery(box)
			if d == nil || d.State != events.StateQueued || box != who && m.Author.ID == who {
				return true
			}
			seen[m.ID] = true
			w.Messages++
			return true
		})
		counts = append(counts, w)
	}
	return counts
}
