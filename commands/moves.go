package commands

import (
	"decklog/events"
	"decklog/projections"
)

// Moves says which threads have another driver since events were appended to
// them. It is told by who drove before; a thread that had no driver was not moved.
func Moves(s *projections.State, drove map[events.ThreadID]string, recorded []events.Recorded) (out []events.Proposed) {
	for i := len(recorded) - 1; i >= 0; i-- {
		last := recorded[i]
		t := s.Thread(last.Stream.Thread())
		if t == nil || drove[t.ID] == "" {
			continue
		}
		d := s.Driver(t)
		if d.Seat != drove[t.ID] {
			id := events.FollowUp(string(last.ID), string(events.TypeDriverMoved))
			out = append(out, events.Proposed{
				Stream: last.Stream, ID: id.Event(0), Actor: last.Actor, Cause: events.Cause{Command: id, Event: last.ID},
				Event: events.DriverMoved{Thread: t.ID, From: drove[t.ID], To: d.Seat, Source: string(d.Source), By: last.Actor},
			})
		}
		delete(drove, t.ID)
	}
	return out
}
