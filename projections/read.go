package projections

import (
	"slices"

	"decklog/events"
)

// hookOf is the harness's event at which a lease's text is printed; empty where
// it goes to no transcript: a wait, or an adapter of its own.
func hookOf(e events.MailboxLeased) string {
	if e.Harness == "" || e.Hook == "lease" {
		return ""
	}
	return e.Hook
}

// unread notes that a lease was printed by a hook, and is to be found in the
// transcript.
func (s *State) unread(mailbox events.Participant, lease events.LeaseID) {
	box := s.mailboxes.change(s, string(mailbox))
	if slices.Contains(box.Unread, lease) {
		return
	}
	box.Unread = append(slices.Clone(box.Unread), lease)
	if over := len(box.Unread) - UnreadMax; over > 0 {
		box.Unread = box.Unread[over:]
	}
}

// messageRead notes that a delivery was found in the transcript. What one lease
// held was printed as one text, so with the first of its messages the lease is
// found, and is looked for no more.
func (s *State) messageRead(e events.MessageRead, r events.Recorded) {
	if i := slices.Index(s.Mailbox(e.Mailbox).Unread, e.Lease); i >= 0 {
		box := s.mailboxes.change(s, string(e.Mailbox))
		box.Unread = slices.Delete(slices.Clone(box.Unread), i, i+1)
	}
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		if d.State == events.StateDelivered && (d.At == e.Mailbox || d.By == e.Mailbox) {
			d.State = events.StateRead
		}
		for j := range d.Leases {
			if l := &d.Leases[j]; l.Lease == e.Lease && l.By == e.Mailbox && l.Read == nil {
				at := r.Time
				l.Read = &at
			}
		}
	}
}
