package commands

import (
	"strings"

	"decklog/events"
	"decklog/projections"
)

// PlaceAck asks to say something to a message without a word (R3).
type PlaceAck struct {
	Call
	Message string // its id, or a unique prefix of it
	Ack     string
}

// Decide places the ack. The same ack of the same seat, or of the same session
// or person without one, is placed once: again it changes nothing.
func (c PlaceAck) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	ack := c.ack()
	if ack != events.AckAct && ack != events.AckNoInput {
		return nil, refuse(BadRequest, "%q is no ack: there are act and no_input", c.Ack).
			fix("say act when you will act on the message, no_input when it needs nothing from you").
			example("decklog ack MESSAGE act")
	}
	if !c.Caller.Known() {
		return nil, c.nobody("who acks").example("decklog ack MESSAGE act --as SESSION")
	}
	from, live := c.author(s, now, p)
	if !live {
		return nil, NotLive(s, c.Call, now)
	}
	m, r := FindMessage(s, c.Message)
	if r != nil {
		return nil, r
	}
	t := s.Thread(m.Thread)
	if t == nil {
		return nil, damagedView("the thread %s of message %s", m.Thread, m.ID)
	}
	if r := partIn(s, t, m, from, p); r != nil {
		return nil, r
	}
	if m.Deleted != nil {
		return nil, refuse(NotFound, "message %s was deleted at %s", m.ID, *m.Deleted).naming(m.ID, m.Thread).
			fix("do nothing: it wants no answer any more").example("decklog thread %s", m.Thread)
	}
	if ackOf(m, from, ack) != nil {
		return nil, nil
	}
	return []events.Proposed{{
		Stream: events.ThreadStream(m.Thread), ID: c.ID.Event(0), Actor: from.ID,
		Cause: events.Cause{Command: c.ID, Event: m.Bodies[0]},
		Event: events.AckPlaced{Message: m.ID, Thread: m.Thread, By: from.ID, Seat: from.Seat, Ack: ack},
	}}, nil
}

func (c PlaceAck) ack() events.Ack { return events.Ack(strings.ToLower(strings.TrimSpace(c.Ack))) }

// Placed is the ack that the command placed, or found placed; nil when it did
// neither.
func (c PlaceAck) Placed(s *projections.State, m *projections.Message, now events.Time, p events.Policy) *projections.AckOf {
	return ackOf(m, c.answerer(s, now, p), c.ack())
}

// ackOf is the ack that somebody, or another session on the same seat, placed on
// a message; nil when there is none.
func ackOf(m *projections.Message, who events.Author, ack events.Ack) *projections.AckOf {
	for i := range m.Acks {
		if a := &m.Acks[i]; a.Ack == ack && projections.Same(events.Author{ID: a.By, Seat: a.Seat}, who) {
			return a
		}
	}
	return nil
}
