package commands

import (
	"math"
	"time"

	"decklog/events"
	"decklog/projections"
)

// Quiet says whether a session's hook runs need not look at its mailboxes, and
// until when: nil is until something happens. It is not quiet while anything can
// be offered, is leased, or is due to be recorded. While something waits that
// cannot be offered yet, or the session has sends that are not settled, owes or
// is owed, or was printed what its transcript is to show yet, it is quiet for lookEvery at most, since what time brings about makes
// no event.
func Quiet(s *projections.State, c Call, who events.Participant, lookEvery time.Duration, now events.Time, p events.Policy) (quiet bool, until *events.Time) {
	if row := s.Session(who.Session()); row == nil || row.Left != nil {
		return false, nil // should it come back, it has to join
	}
	if s.Current(who) != nil || !(Taking{Call: c, Who: who}).Offer(s, now).Empty() || len(Due(s, c, who, now, p)) > 0 {
		return false, nil
	}
	look := now.Add(lookEvery)
	later := func(t events.Time) {
		if t > now && t < look {
			look = t
		}
		until = &look
	}
	boxes := s.Mailboxes(who)
	for _, at := range boxes {
		s.Queue(at, func(q projections.Queued) bool {
			later(look)
			if q.Message != nil && q.Message.FinalBy != nil {
				later(*q.Message.FinalBy)
			}
			if q.Kind == events.ItemMessage && q.Delivery.Hold != nil {
				later(*q.Delivery.Hold)
			}
			return true
		})
	}
	s.OpenSends(who, func(m *projections.Message, _ *projections.Delivery) bool {
		later(m.Expires)
		return false
	})
	mine := concerned(boxes, Owners(p))
	s.DueBy(look, mine, func(o projections.Owed) bool {
		if next, bounded := NextReminder(o, p.Limits, now); bounded {
			later(next.At)
		}
		return true
	})
	if len(SoughtFor(s, who, now)) > 0 {
		later(look) // what a hook printed is yet to be found in the transcript
	}
	if until == nil {
		s.DueBy(math.MaxInt64, mine, func(projections.Owed) bool {
			later(look)
			return false
		})
	}
	return true, until
}
