package commands

import (
	"bytes"

	"decklog/events"
	"decklog/projections"
)

// AdoptPolicy asks for another policy to be in force from now on.
type AdoptPolicy struct {
	Call
	Policy events.Policy
}

// Decide admits the policy of a person; agents do not set their own bounds. One
// that is in force already changes nothing.
func (c AdoptPolicy) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	if r := c.onlyAPerson(s, now, p, "adopts a policy", "decklog policy adopt --as @NAME"); r != nil {
		return nil, r
	}
	if samePolicy(c.Policy, p) {
		return nil, nil
	}
	return []events.Proposed{{
		Stream: events.PolicyStream, ID: c.ID.Event(0), Actor: c.Caller.ID, Cause: events.Cause{Command: c.ID},
		Event: events.PolicyAdopted{Policy: c.Policy},
	}}, nil
}

// onlyAPerson refuses everybody but a known person who does what agents may not
// do for themselves.
func (c Call) onlyAPerson(s *projections.State, now events.Time, p events.Policy, does, example string) *Refusal {
	if !c.Caller.Known() {
		return c.nobody("who "+does).example("%s", example)
	}
	if c.Caller.Kind != events.KindPerson {
		return refuse(PersonOnly, "%s is no person, and only a person %s", c.Caller.ID, does).example("%s", example)
	}
	if c.Caller.Left != "" {
		return refuse(NoCaller, "this runs in a harness whose session %s has ended; an agent is not taken for its user here", c.Caller.Left).
			fix("have the person run it outside of the harness, or name the person with --as").example("%s", example)
	}
	if _, known := c.author(s, now, p); !known {
		return NotLive(s, c, now)
	}
	return nil
}

// samePolicy compares two policies as they are recorded: a list that is empty
// and one that is absent are the same.
func samePolicy(a, b events.Policy) bool {
	x, _, errX := events.Encode(events.PolicyAdopted{Policy: a})
	y, _, errY := events.Encode(events.PolicyAdopted{Policy: b})
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
