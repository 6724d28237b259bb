package commands

import (
	"time"

	"decklog/events"
	"decklog/projections"
)

// ReadWithin is how long after it was printed a message is looked for in its
// recipient's transcript. A harness writes down what a hook brought by the end of
// the turn, but a turn may begin long after the session did.
const ReadWithin = 24 * time.Hour

// Sought is a lease whose messages a hook printed and that nobody found in the
// transcript yet.
type Sought struct {
	Lease events.LeaseID
	Hook  string // the harness's event that printed it
	Items []events.Leased
}

// SoughtFor lists what is to be looked for in a session's transcript, oldest first.
func SoughtFor(s *projections.State, who events.Participant, now events.Time) (sought []Sought) {
	for _, id := range s.Mailbox(who).Unread {
		l := s.Lease(id)
		if l == nil || l.Confirmed == nil || now.Sub(*l.Confirmed) >= ReadWithin {
			continue
		}
		look := Sought{Lease: id}
		for _, it := range l.Items {
			if d := deliveryOf(s, l, it); d != nil {
				look.Hook = d.Hook
				look.Items = append(look.Items, it)
			}
		}
		if look.Items != nil {
			sought = append(sought, look)
		}
	}
	return sought
}

// deliveryOf is the time that a lease offered an item; nil when that is no message.
func deliveryOf(s *projections.State, l *projections.Lease, it events.Leased) *projections.DeliveryLease {
	m := s.Message(it.Message)
	if it.Kind != events.ItemMessage || m == nil {
		return nil
	}
	d := m.Delivery(l.Mailbox)
	if d == nil {
		return nil
	}
	for i := range d.Leases {
		if d.Leases[i].Lease == l.ID {
			return &d.Leases[i]
		}
	}
	return nil
}

// Seen is a message's frame as it stands in a transcript.
type Seen struct {
	Message events.MessageID
	Attempt int
	Offset  int64  // of the record that holds it
	Record  string // the harness's id of that; empty: it has none
}

// Read says that frames of one lease were found in the transcript of the session
// whose hook printed them.
type Read struct {
	Call
	Lease      events.LeaseID
	Harness    string
	Transcript string
	Seen       []Seen
}

// ReadOf is the command that notes once what was found of a lease.
func ReadOf(lease events.LeaseID) events.CommandID { return events.FollowUp(string(lease), "read") }

// Decide admits what the lease held and a run confirmed: what was never delivered
// was never read, whatever a transcript says. What was read before changes nothing.
func (c Read) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	l := s.Lease(c.Lease)
	if l == nil {
		return nil, refuse(NotFound, "no lease has the id %q", c.Lease).
			fix("nothing is to be done: a hook run looks for what it delivered").example("decklog inbox --state delivered")
	}
	if r := (Confirm{Call: c.Call, Lease: c.Lease}).NotYours(s); r != nil {
		return nil, r
	}
	if l.Confirmed == nil {
		return nil, c.undelivered(l, "lease %s was never confirmed, so nothing of it was delivered", l.ID)
	}
	var out []events.Proposed
	for _, seen := range c.Seen {
		n, d := c.find(s, l, seen)
		if d == nil {
			return nil, c.undelivered(l, "lease %s holds no attempt %d of message %q", l.ID, seen.Attempt, seen.Message)
		}
		id := c.ID.Event(n)
		if d.Read != nil || proposes(out, id) {
			continue
		}
		out = append(out, events.Proposed{
			Stream: events.MailboxStream(l.Mailbox), ID: id, Actor: l.Mailbox, Cause: events.Cause{Command: c.ID},
			Event: events.MessageRead{
				Message: seen.Message, Thread: l.Items[n].Thread, Mailbox: l.Mailbox, Lease: l.ID, Attempt: seen.Attempt,
				Harness: c.Harness, Transcript: c.Transcript, Offset: seen.Offset, Record: seen.Record,
			},
		})
	}
	return out, nil
}

// find gives the place among the lease's items of what was seen, and the time
// that it was offered; nil when the lease held nothing of the kind.
func (c Read) find(s *projections.State, l *projections.Lease, seen Seen) (int, *projections.DeliveryLease) {
	for n, it := range l.Items {
		if it.Kind == events.ItemMessage && it.Message == seen.Message && it.Attempt == seen.Attempt {
			return n, deliveryOf(s, l, it)
		}
	}
	return 0, nil
}

func (c Read) undelivered(l *projections.Lease, format string, args ...any) *Refusal {
	r := refuse(NotFound, format, args...)
	r.Lease = l.ID
	return r.fix("look in the thread what became of its deliveries").example("decklog inbox --as %s", or(safeWord(string(l.Mailbox)), "SESSION"))
}

func proposes(out []events.Proposed, id events.EventID) bool {
	for _, p := range out {
		if p.ID == id {
			return true
		}
	}
	return false
}
