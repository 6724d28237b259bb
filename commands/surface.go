package commands

import (
	"decklog/events"
	"decklog/projections"
)

// Step is one thing that a surface which shows a thread elsewhere, such as a
// chat, does to follow the ledger. It decides nothing: what was decided is
// recorded, and the steps are what the surface does not show yet.
type Step string

// The steps, in the order in which they are taken.
const (
	StepAwaitStamp Step = "wait for own stamp" // one that is on its way would come on again
	StepRemoveOwn  Step = "remove own"
	StepStamp      Step = "stamp the other's"
	StepLine       Step = "one line with the link, without a mention"
)

// OnSurface is what a surface shows of a thread, as it was read from there.
type OnSurface struct {
	StampInFlight bool // the old driver's own stamp was sent and is not seen yet
	Own           bool // the old driver's sticker lies there
	Other         bool // the new driver's does
	Line          bool // the line of this hand-off stands in the thread
}

// StepsOfHandoff lists what a surface has still to do after a hand-off: nothing
// unless it was accepted. It is asked again after a crash, and then gives what
// is left, so that the line stands once. While a person's sticker lies no
// sticker is touched.
func StepsOfHandoff(t *projections.Thread, h *projections.Handoff, roster projections.Roster, shown OnSurface) (steps []Step) {
	if h.Accepted == nil {
		return nil
	}
	if t.PersonsSticker(roster) == nil {
		steps = restamping(shown)
	}
	if !shown.Line {
		steps = append(steps, StepLine)
	}
	return steps
}

// StepsOfMove lists what a surface has still to do after a routing move: the
// stickers change, and nothing is posted.
func StepsOfMove(t *projections.Thread, roster projections.Roster, shown OnSurface) []Step {
	if t.Move == nil || t.PersonsSticker(roster) != nil {
		return nil
	}
	return restamping(shown)
}

func restamping(shown OnSurface) (steps []Step) {
	if shown.StampInFlight {
		steps = append(steps, StepAwaitStamp)
	}
	if shown.Own || shown.StampInFlight {
		steps = append(steps, StepRemoveOwn)
	}
	if !shown.Other {
		steps = append(steps, StepStamp)
	}
	return steps
}

// FromSurface is the command that brings a surface's event into the ledger. A
// surface delivers an event again when it was not answered in time, perhaps
// under another id of its own: what was said where, when and as what makes it the same.
func FromSurface(channel, timestamp, kind string) events.CommandID {
	return events.FollowUp("surface "+channel+" "+timestamp, kind)
}
