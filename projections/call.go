package projections

import (
	"slices"

	"decklog/events"
)

// Call is something that a participant has to be told of and that is no message:
// a hand-off, an item that it owes now, a nudge, a page. It waits in a mailbox
// and is leased and confirmed as a message is. What it says is in its event.
type Call struct {
	Event       events.EventID
	Mailbox     events.Participant
	Type        events.Type
	Thread      events.ThreadID
	Item        string // the open item with which it is dropped
	Position    events.Position
	State       events.DeliveryState
	Attempt     int            // leases so far
	Lease       events.LeaseID // the last of them
	Unconfirmed int            // of them, those that ended without a confirm
}

func (c *Call) pack(p *packer) {
	text(p, &c.Event)
	often(p, &c.Mailbox)
	text(p, &c.Type)
	text(p, &c.Thread)
	text(p, &c.Item)
	number(p, &c.Position)
	text(p, &c.State)
	number(p, &c.Attempt)
	text(p, &c.Lease)
	number(p, &c.Unconfirmed)
}

// CallRef names a call.
type CallRef struct {
	Event   events.EventID
	Mailbox events.Participant
}

func callID(e events.EventID, at events.Participant) string { return string(e) + " " + string(at) }

// Call finds a call; nil when there is none.
func (s *State) Call(e events.EventID, at events.Participant) *Call {
	return s.calls.find(s, callID(e, at))
}

// call puts the telling of an event into a mailbox, unless it is of the one who
// acted. One that is about an open item is dropped when that closes.
func (s *State) call(t *Thread, item string, at events.Participant, r events.Recorded) {
	if at != r.Actor {
		s.remind(t, item, at, r)
	}
}

// remind is as call, for what may be told to the very one who noticed that it is due.
func (s *State) remind(t *Thread, item string, at events.Participant, r events.Recorded) {
	if at == "" {
		return
	}
	s.calls.begin(callID(r.ID, at), &Call{
		Event: r.ID, Mailbox: at, Type: r.Type(), Thread: t.ID, Item: item, Position: r.Position, State: events.StateQueued,
	})
	s.mark(queueKey(at, r.Position, callMark, events.MessageID(r.ID)), "-")
	for i := range t.Owed {
		if item != "" && t.Owed[i].ID == item {
			t.Owed[i].Calls = append(slices.Clip(t.Owed[i].Calls), CallRef{Event: r.ID, Mailbox: at})
		}
	}
}

// waits says whether the call still lies in its mailbox.
func (c *Call) waits() bool { return c.State == events.StateQueued || c.State == events.StateLeased }

func (s *State) endCall(ref CallRef, state events.DeliveryState) {
	c := s.Call(ref.Event, ref.Mailbox)
	if c == nil || !c.waits() {
		return
	}
	c = s.calls.change(s, callID(ref.Event, ref.Mailbox))
	c.State = state
	s.unmark(queueKey(c.Mailbox, c.Position, callMark, events.MessageID(c.Event)))
}

// dropCalls takes back what was to be told of an item, save what tells of another
// open item of the thread as well.
func (s *State) dropCalls(t *Thread, o *Owed) {
	for _, ref := range o.Calls {
		if !slices.ContainsFunc(t.Owed, func(other Owed) bool { return other.ID != o.ID && slices.Contains(other.Calls, ref) }) {
			s.endCall(ref, events.StateDropped)
		}
	}
	o.Calls = nil
}

// Mailboxed is the mailbox that a leased call lies in.
func Mailboxed(it events.Leased, lease events.Participant) events.Participant {
	if it.To != "" {
		return it.To
	}
	return lease
}

// callLeased, callConfirmed and callReturned follow a call through a lease.
func (s *State) callLeased(it events.Leased, e events.MailboxLeased) {
	at := Mailboxed(it, e.Mailbox)
	if c := s.Call(it.Call, at); c != nil && c.waits() {
		c = s.calls.change(s, callID(it.Call, at))
		c.State, c.Attempt, c.Lease = events.StateLeased, it.Attempt, e.Lease
	}
}

func (s *State) callConfirmed(it events.Leased, at events.Participant) {
	s.endCall(CallRef{Event: it.Call, Mailbox: Mailboxed(it, at)}, events.StateDelivered)
}

func (s *State) callReturned(it events.Leased, at events.Participant) {
	at = Mailboxed(it, at)
	if c := s.Call(it.Call, at); c != nil && c.State == events.StateLeased && c.Attempt == it.Attempt {
		c = s.calls.change(s, callID(it.Call, at))
		c.State = events.StateQueued
		c.Unconfirmed++
	}
}

// called lists the mailboxes in which an event is told.
func (s *State) called(r events.Event) []events.Participant {
	name := func(seats ...string) (boxes []events.Participant) {
		for _, seat := range seats {
			if seat != "" {
				boxes = append(boxes, events.Named(seat))
			}
		}
		return boxes
	}
	switch e := r.(type) {
	case events.HandoffOffered:
		return name(e.From, e.To)
	case events.HandoffAccepted, events.HandoffDeclined, events.HandoffClosed:
		if t := s.Thread(events.ThreadOf(e)); t != nil {
			for _, h := range t.Handoffs {
				if h.ID == HandoffOf(e) {
					return name(h.From, h.To)
				}
			}
		}
	case events.RoutingJudged:
		return name(e.From, e.To)
	case events.OwedPassed:
		return name(e.From, e.To)
	case events.OwedNudged:
		return []events.Participant{e.Debtor}
	case events.OwedPaged:
		return e.Owners
	case events.ReviewAsked:
		return name(e.From, e.Reviewer)
	case events.ReviewLabelled:
		if t := s.Thread(e.Thread); t != nil {
			boxes := name(t.driver(s.Roster(t)).Seat)
			if v := t.Review(e.Review); v != nil {
				boxes = append(boxes, name(v.From)...)
			}
			return boxes
		}
	case events.AckPlaced, events.StickerPlaced, events.StickerRemoved:
		// What a session may answer, and when, can change for every seat of the thread.
		if t := s.Thread(events.ThreadOf(e)); t != nil {
			return name(t.Seats...)
		}
	}
	return nil
}

// HandoffOf is the hand-off that an event is about; empty when it is about none.
func HandoffOf(e events.Event) events.HandoffID {
	switch e := e.(type) {
	case events.HandoffOffered:
		return e.Handoff
	case events.HandoffAccepted:
		return e.Handoff
	case events.HandoffDeclined:
		return e.Handoff
	case events.HandoffClosed:
		return e.Handoff
	}
	return ""
}
