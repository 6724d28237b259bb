package projections

import (
	"strconv"
	"time"

	"decklog/events"
)

// Apply folds one event into the state. An event at or before the last one
// applied changes nothing, so that what was seen twice counts once.
func (s *State) Apply(r events.Recorded) {
	if r.Position <= s.position || s.err != nil {
		return
	}
	if s.held() > heldMax {
		s.makeRoom()
	}
	s.position, s.moved = r.Position, true
	if ofRoster(r.Event) {
		s.mark(key("roster", place(r.Position)), string(r.Type()))
	}
	if s.makes(ThreadRows) {
		for _, t := range r.Threads() {
			s.mark(key("thread", string(t), place(r.Position)), string(r.Type()))
		}
	}
	switch e := r.Event.(type) {
	case events.SessionJoined:
		s.sessionJoined(e, r)
	case events.SessionLeft:
		s.sessionLeft(e, r)
	case events.SeatTaken:
		s.seatTaken(e, r)
	case events.SeatLeft:
		s.seatLeft(e, r)
	case events.MessageSent:
		s.messageSent(e, r)
	case events.MessageEdited:
		s.messageEdited(e, r)
	case events.MessageDeleted:
		s.messageDeleted(e, r)
	case events.MessageExpired:
		s.messageExpired(e, r)
	case events.MessageUndelivered:
		s.messageUndelivered(e, r)
	case events.MessageRead:
		s.messageRead(e, r)
	case events.TurnFlipped:
		s.turnFlipped(e, r)
	case events.ThreadDone:
		s.threadDone(e, r)
	case events.CommandRefused:
		s.commandRefused(e, r)
	case events.MailboxLeased:
		s.mailboxLeased(e, r)
	case events.MailboxConfirmed:
		s.mailboxConfirmed(e, r)
	case events.MailboxTaken:
		s.mailboxTaken(e, r)
	case events.MailboxReturned:
		s.mailboxReturned(e, r)
	case events.LeaseExpired:
		s.leaseExpired(e, r)
	case events.InstructionLeased:
		s.instructionLeased(e, r)
	case events.InstructionConfirmed:
		s.instructionConfirmed(e, r)
	case events.PolicyAdopted:
		s.policyAdopted(e, r)
	case events.PayloadAttached:
		s.payloadAttached(e, r)
	case events.AckPlaced:
		s.ackPlaced(e, r)
	case events.StickerPlaced:
		s.stickerPlaced(e, r)
	case events.StickerRemoved:
		s.stickerRemoved(e, r)
	case events.HandoffOffered:
		s.handoffOffered(e, r)
	case events.HandoffAccepted:
		s.handoffAccepted(e, r)
	case events.HandoffDeclined:
		s.handoffDeclined(e, r)
	case events.HandoffClosed:
		s.handoffClosed(e, r)
	case events.RoutingJudged:
		s.routingJudged(e, r)
	case events.RoutingUndone:
		s.routingUndone(e, r)
	case events.OwedPassed:
		s.owedPassed(e, r)
	case events.OwedClosed:
		s.owedClosed(e, r)
	case events.OwedNudged:
		s.owedNudged(e, r)
	case events.OwedPaged:
		s.owedPaged(e, r)
	case events.ReviewAsked:
		s.reviewAsked(e, r)
	case events.ReviewLabelled:
		s.reviewLabelled(e, r)
	case events.ReviewTimedOut:
		s.reviewTimedOut(e, r)
	case events.CardPosted:
		s.cardPosted(e, r)
	case events.CardUpdated:
		s.cardUpdated(e, r)
	case events.SeatAbsent:
		s.seatAbsent(e, r)
	case events.SeatReturned:
		s.seatReturned(e, r)
	}
	s.drove(r)
}

// Adopted is a policy and the event that put it in force.
type Adopted struct {
	Position events.Position
	Time     events.Time
	Policy   events.Policy
}

func (a *Adopted) pack(p *packer) {
	number(p, &a.Position)
	p.moment(&a.Time)
	packPolicy(p, &a.Policy)
}

const inForce = "in force"

func (s *State) policyAdopted(e events.PolicyAdopted, r events.Recorded) {
	adopted := Adopted{Position: r.Position, Time: r.Time, Policy: e.Policy}
	s.policies.begin(inForce, &adopted)
	then := adopted
	s.policies.begin(place(r.Position), &then)
}

// Policy is the policy in force; nil before the first was adopted.
func (s *State) Policy() *Adopted { return s.policies.find(s, inForce) }

// policyAt is the policy that was adopted at a position; for what was decided
// before the first was, and where it is not known, the one in force.
func (s *State) policyAt(at events.Position) *Adopted {
	if at > 0 {
		if p := s.policies.find(s, place(at)); p != nil {
			return p
		}
	}
	return s.Policy()
}

func (s *State) commandRefused(e events.CommandRefused, r events.Recorded) {
	s.mark(ofBox(e.By, "refusal", place(r.Position)), strconv.FormatInt(int64(r.Time), 10))
	s.countRefusal(e, r)
}

// RefusedSince tells how often somebody was refused in the time before now, as
// far as limit; a refusal whose time lies ahead does not count.
func (s *State) RefusedSince(who events.Participant, now events.Time, within time.Duration, limit int) (count int) {
	s.scan(ofBox(who, "refusal", ""), "", true, func(_ string, value []byte) bool {
		age := now.Sub(timeIn(value))
		if age >= within {
			return false
		}
		if age >= 0 {
			count++
		}
		return count < limit
	})
	return count
}

// ofRoster says whether an event changes who could drive, in every thread.
func ofRoster(e events.Event) bool {
	switch e.(type) {
	case events.PolicyAdopted, events.SeatAbsent, events.SeatReturned:
		return true
	}
	return false
}

// RosterEvents lists the positions of the events that changed who could drive,
// up to a position: what a thread that is replayed from its own events needs besides.
func (s *State) RosterEvents(to events.Position) (at []events.Position) {
	s.scan(key("roster", ""), "", false, func(k string, _ []byte) bool {
		p := placeOf(last(k))
		if p <= to {
			at = append(at, p)
		}
		return p <= to
	})
	return at
}
