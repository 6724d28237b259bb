package commands

import (
	"fmt"
	"slices"

	"decklog/events"
	"decklog/projections"
)

// DueMax bounds how many messages, of a mailbox or of what somebody sent, one
// look finds to be over; what is left is noticed by the next.
const DueMax = 50

// Due is what has fallen due around a participant, and was not recorded yet, as
// seen at this moment, in its own mailboxes and for what it sent. It is one kind
// at a time: leases that ended; else sessions that are live no more; else
// messages that expired or cannot arrive any more; else items that are owed for
// too long, and seats that are absent. Each kind is judged on what
// the one before it made of the state, so who records it asks again until
// nothing is due. Each event's id is made from its cause, so that two who notice
// it at once record it once.
func Due(s *projections.State, c Call, who events.Participant, now events.Time, p events.Policy) []events.Proposed {
	d := due{Call: c, s: s, who: who, now: now, policy: p, limits: p.Limits, seen: map[string]bool{}}
	boxes := s.Mailboxes(who)
	for _, at := range boxes {
		d.leaseEnded(at)
	}
	var takers []events.Participant
	s.OpenSends(who, func(_ *projections.Message, dl *projections.Delivery) bool {
		takers = append(takers, dl.At)
		return false // all of that mailbox
	})
	for _, at := range takers {
		d.leaseEnded(at)
	}
	if len(d.out) == 0 {
		for _, at := range takers {
			d.ended(s.Session(at.Session()))
		}
	}
	if len(d.out) == 0 {
		for _, at := range boxes {
			d.expired(at)
		}
		d.lost()
	}
	if len(d.out) == 0 {
		d.owing(boxes)
		d.absent()
	}
	return d.out
}

type due struct {
	Call
	s      *projections.State
	who    events.Participant
	now    events.Time
	policy events.Policy
	limits events.Limits
	seen   map[string]bool
	out    []events.Proposed
}

// once says whether a thing is looked at for the first time in this run.
func (d *due) once(what string) bool {
	if d.seen[what] {
		return false
	}
	d.seen[what] = true
	return true
}

func (d *due) add(stream events.Stream, cause, step string, e events.Event) {
	id := events.FollowUp(cause, step)
	d.out = append(d.out, events.Proposed{Stream: stream, ID: id.Event(0), Actor: d.who, Cause: events.Cause{Command: id}, Event: e})
}

// leaseEnded records that a mailbox's lease ended without a confirm, and gives
// up what was offered as often as it may be.
func (d *due) leaseEnded(at events.Participant) {
	l := d.s.Current(at)
	if l == nil || l.Runs(d.now) || !d.once("lease "+string(l.ID)) {
		return
	}
	stream := events.MailboxStream(at)
	d.add(stream, string(l.ID), "expired", events.LeaseExpired{Lease: l.ID, Mailbox: at, Items: l.Items, Instruction: l.Instruction != ""})
	if d.limits.LeaseAttempts == 0 {
		return
	}
	for _, it := range l.Items {
		if it.Kind == events.ItemCall {
			d.uncalled(l, it)
			continue
		}
		m := d.s.Message(it.Message)
		if m == nil || m.Deleted != nil {
			continue
		}
		unconfirmed, to := 0, events.Participant("")
		if it.Kind == events.ItemNotice {
			if it.To != m.To.ID {
				to = it.To
			}
			for i := range m.Deliveries {
				if dl := &m.Deliveries[i]; dl.Notice != nil && dl.Notice.At == at && dl.To == it.To {
					unconfirmed = dl.Notice.Unconfirmed + 1
				}
			}
		} else if dl := m.Delivery(at); dl != nil && dl.State == events.StateLeased {
			unconfirmed = dl.Unconfirmed + 1
		}
		if unconfirmed >= d.limits.LeaseAttempts && d.once(lossKey(it.Kind, m.ID, at)+string(to)) {
			d.undelivered(m, at, it.Kind, events.LostUnconfirmed, to)
		}
	}
}

// uncalled gives up a call that was offered as often as it may be. What it is
// about stays owed.
func (d *due) uncalled(l *projections.Lease, it events.Leased) {
	box := projections.Mailboxed(it, l.Mailbox)
	c := d.s.Call(it.Call, box)
	if c == nil || c.State != events.StateLeased || c.Lease != l.ID || c.Unconfirmed+1 < d.limits.LeaseAttempts {
		return
	}
	d.add(events.MailboxStream(box), string(c.Event), fmt.Sprintf("undelivered %s", box),
		events.MessageUndelivered{Call: c.Event, Thread: c.Thread, Mailbox: box, Reason: events.LostUnconfirmed, Kind: events.ItemCall})
}

func lossKey(kind events.ItemKind, m events.MessageID, at events.Participant) string {
	return fmt.Sprintf("loss %s %s %s", kind, m, at)
}

// undelivered gives a message up, or a notice; to is whose delivery that is
// about, where it is not the addressee's.
func (d *due) undelivered(m *projections.Message, at events.Participant, kind events.ItemKind, reason events.LostReason, to events.Participant) {
	step := fmt.Sprintf("undelivered %s %s %s %d", kind, reason, at, d.attempts(m, at))
	if to != "" {
		step += " " + string(to)
	}
	d.add(events.MailboxStream(at), string(m.ID), step,
		events.MessageUndelivered{Message: m.ID, Thread: m.Thread, Mailbox: at, Reason: reason, Kind: kind, To: to})
}

// attempts tells the offers of one message apart, so that what is given up after
// it was edited and offered again is another event than the first giving up.
func (d *due) attempts(m *projections.Message, at events.Participant) int {
	if dl := m.Delivery(at); dl != nil {
		return dl.Attempt
	}
	return 0
}

// expired records the messages at the front of a mailbox whose time is over.
func (d *due) expired(at events.Participant) {
	n := 0
	d.s.QueuedMessages(at, func(q projections.Queued) bool {
		n++
		if d.now < q.Message.Expires {
			return false
		}
		d.expire(q.Message, at, q.Delivery)
		return n < DueMax
	})
}

// expire records that a message's time is over; while a lease on it runs, it may
// still be confirmed.
func (d *due) expire(m *projections.Message, at events.Participant, dl *projections.Delivery) {
	if dl.State == events.StateLeased && d.s.Current(at).Runs(d.now) || !d.once(lossKey(events.ItemMessage, m.ID, at)) {
		return
	}
	d.add(events.MailboxStream(at), string(m.ID), fmt.Sprintf("expired %s", at),
		events.MessageExpired{Message: m.ID, Thread: m.Thread, Mailbox: at})
}

// lost records what the participant sent and what cannot arrive any more, the
// oldest first: a recipient may never run again to notice it. In each mailbox it
// goes as far as the first that is not lost; those behind it were sent later.
func (d *due) lost() {
	type delivery struct {
		*projections.Message
		of *projections.Delivery
	}
	var lost []delivery
	d.s.OpenSends(d.who, func(m *projections.Message, dl *projections.Delivery) bool {
		if d.now < m.Expires && !d.sessionEnded(m, dl) {
			return false
		}
		lost = append(lost, delivery{m, dl})
		return len(lost) < DueMax
	})
	slices.SortFunc(lost, func(a, b delivery) int { return int(a.Position - b.Position) })
	for _, l := range lost {
		if d.now >= l.Expires {
			d.expire(l.Message, l.of.At, l.of)
		} else if d.once(lossKey(events.ItemMessage, l.ID, l.of.At)) {
			d.undelivered(l.Message, l.of.At, events.ItemMessage, events.LostSessionEnded, "")
		}
	}
}

// sessionEnded says whether a message was for a session that ended, and was not
// resumed in time.
func (d *due) sessionEnded(m *projections.Message, dl *projections.Delivery) bool {
	row := d.s.Session(dl.At.Session())
	if row == nil || row.Left == nil || dl.To.Session() == "" || d.limits.ResumeWithin == 0 {
		return false
	}
	return d.now.Sub(max(*row.Left, m.Sent)) >= d.limits.ResumeWithin.Std()
}

// ended records that a session is live no more, once that is known of its
// process or by its silence.
func (d *due) ended(row *projections.Session) {
	if row == nil || row.Left != nil || d.live(row, d.now) || !d.once("session "+string(row.ID)) {
		return
	}
	cause := fmt.Sprintf("%s %d", row.ID, row.Joins)
	for _, e := range leaving(d.s, row, gone(d.look(row))) {
		d.add(e.stream, cause, string(e.event.EventType())+" "+string(e.stream), e.event)
	}
}

// gone is why a session is live no more that did not say so.
func gone(o Observation) events.EndReason {
	if o.Gone {
		return events.EndProcessGone
	}
	return events.EndUnseen
}
