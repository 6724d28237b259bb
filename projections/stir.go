package projections

import "decklog/events"

// Stirs lists the sessions whose hook runs have to look at their mailboxes
// after an event, because it made something wait there, or fall due later. It is
// read from the state after the event. A session may be listed in vain, and more
// than once; none is left out.
//
// What only time brings about is not here: a session around which anything can
// fall due looks again by itself (see the bells).
func (s *State) Stirs(e events.Event) []events.SessionID {
	switch e := e.(type) {
	case events.SessionJoined:
		return []events.SessionID{e.Session} // it is owed the instruction, and perhaps mail
	case events.SessionLeft:
		// Should a hook run for it all the same, it has to join again. And what
		// waits for its person may now be another session's to take.
		stirred := []events.SessionID{e.Session}
		if row := s.Session(e.Session); row != nil && row.Person != "" {
			stirred = append(stirred, s.takers(events.Named(row.Person))...)
		}
		return stirred
	case events.SeatTaken:
		return []events.SessionID{e.Session}
	case events.MessageSent:
		stirred := s.takers(e.Author.ID) // what it sent may be lost
		for _, d := range e.Deliveries {
			stirred = append(stirred, s.takers(d.To)...)
		}
		return stirred
	case events.TurnFlipped:
		var stirred []events.SessionID
		if m := s.Message(e.Message); m != nil {
			for _, d := range m.Deliveries {
				stirred = append(stirred, s.takers(d.At)...)
			}
		}
		return stirred
	case events.MessageExpired:
		return s.author(e.Message)
	case events.MessageUndelivered:
		return s.author(e.Message)
	case events.MailboxReturned:
		return s.takers(e.Mailbox)
	case events.MailboxConfirmed:
		return s.takers(e.Mailbox) // a stub that it printed may have turned final since
	}
	var stirred []events.SessionID
	for _, box := range s.called(e) {
		stirred = append(stirred, s.takers(box)...)
	}
	return stirred
}

// author is who is told of a message's loss.
func (s *State) author(id events.MessageID) []events.SessionID {
	if m := s.Message(id); m != nil {
		return s.takers(m.Author.ID)
	}
	return nil
}

// takers lists the sessions that take from a mailbox: its own, the seat's
// occupant, the person's.
func (s *State) takers(box events.Participant) (found []events.SessionID) {
	if id := box.Session(); id != "" {
		return []events.SessionID{id}
	}
	if seat := s.Seat(box.Name()); seat != nil && seat.Occupant != "" {
		found = append(found, seat.Occupant)
	}
	for _, row := range s.SessionsOf(box.Name()) {
		found = append(found, row.ID)
	}
	return found
}
