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
	}
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
	s.policies.begin(inForce, &Adopted{Position: r.Position, Time: r.Time, Policy: e.Policy})
}

// Policy is the policy in force; nil before the first was adopted.
func (s *State) Policy() *Adopted { return s.policies.find(s, inForce) }

func (s *State) commandRefused(e events.CommandRefused, r events.Recorded) {
	s.mark(ofBox(e.By, "refusal", place(r.Position)), strconv.FormatInt(int64(r.Time), 10))
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
