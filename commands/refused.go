package commands

import (
	"time"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// RefusalsMax is how many refusals of one sender within a minute are recorded
// one by one; those beyond are answered, and counted into one event.
const RefusalsMax = 60

// refusalWindow is the time in which they are counted.
const refusalWindow = time.Minute

// RefusedIn is the stream in which a caller's refusals lie: that of the session,
// seat or person that was refused; of somebody unknown, and of a bot, that of the machine.
func RefusedIn(s *projections.State, c Call, p events.Policy) (events.Stream, events.Participant) {
	switch c.Caller.Kind {
	case events.KindSession:
		if s.Session(c.Caller.ID.Session()) != nil {
			return events.SessionStream(c.Caller.ID.Session()), c.Caller.ID
		}
	case events.KindSeat:
		if KnownSeat(s, p, c.Caller.ID.Name()) {
			return events.SeatStream(c.Caller.ID.Name()), c.Caller.ID
		}
	case events.KindPerson:
		if KnownPerson(p, c.OSUser, c.Caller.ID.Name()) {
			return events.PersonStream(c.Caller.ID.Name()), c.Caller.ID
		}
	case events.KindBot:
		return events.DeviceStream(c.Device), c.Caller.ID // it has no stream of its own
	}
	return events.DeviceStream(c.Device), projections.Device(c.Device)
}

// SaysBytesMax bounds what a refusal's event keeps of the words told: these may
// quote what the caller wrote, which has no bound.
const SaysBytesMax = 1024

// cut leaves a text's first max bytes, up to a whole rune.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// Refused is the event of a refusal. next is the revision that it will have: the
// same command may be refused again, and each time is its own event.
func (r *Refusal) Refused(name string, c Call, stream events.Stream, by events.Participant, next events.Revision) events.Proposed {
	return events.Proposed{
		Stream: stream, ID: c.ID.Refusal(stream, next), Actor: by, Cause: events.Cause{Command: c.ID},
		Event: events.CommandRefused{
			Command: name, Code: string(r.Code), Status: r.Status, Says: cut(r.Message, SaysBytesMax), Thread: r.Thread, Message: r.MessageID,
			Lease: r.Lease, To: cut(r.To, ToBytesMax), By: by, Limit: r.Limit, Free: r.Free,
		},
	}
}

// Flood says whether a sender was refused so often that this refusal is only counted.
func Flood(s *projections.State, by events.Participant, now events.Time) bool {
	return s.RefusedSince(by, now, refusalWindow, RefusalsMax) >= RefusalsMax
}

// Counted is the one event of the refusals that were only counted, once their
// minute is over; nil while it is not.
func Counted(c Call, stream events.Stream, by events.Participant, count int, since, now events.Time, next events.Revision) *events.Proposed {
	if count == 0 || since <= now && now.Sub(since) < refusalWindow {
		return nil
	}
	return &events.Proposed{
		Stream: stream, ID: c.ID.Refusal(stream, next), Actor: by, Cause: events.Cause{Command: c.ID},
		Event: events.CommandRefused{
			Command: "any", Code: "counted", Status: 429,
			Says: "refusals within a minute beyond those recorded one by one", By: by, Counted: count,
		},
	}
}
