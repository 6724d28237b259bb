package projections

import (
	"decklog/events"
)

// Mailbox is one taker's post: what waits for it, the lease that runs, and
// whether it is owed the standing instruction.
type Mailbox struct {
	Waiting     int // messages; notices do not count
	Lease       events.LeaseID
	Instruction Instruction
	// Unread are the leases whose messages a hook printed and that were not found
	// in the transcript yet, oldest first, at most UnreadMax.
	Unread []events.LeaseID
	Lost   int         // messages that expired in it, or were given up
	LostAt events.Time // the last of them
}

// UnreadMax bounds for how many leases a transcript is looked through. An older
// one is looked for no more, and what it held stays delivered.
const UnreadMax = 16

// Instruction is where a session stands with the standing instruction.
type Instruction struct {
	Owed    events.InstructionForm // empty: it has it
	Version int
	Attempt int            // leases since it was owed
	Lease   events.LeaseID // the last of these
}

// Lease is one delivery attempt.
type Lease struct {
	ID          events.LeaseID
	Mailbox     events.Participant
	Leased      events.Time
	Until       events.Time
	Items       []events.Leased
	Instruction events.InstructionForm
	Version     int
	Attempt     int // of the instruction
	Confirmed   *events.Time
	Ended       *events.Time // seen to have ended without a confirm
}

func (m *Mailbox) pack(p *packer) {
	number(p, &m.Waiting)
	text(p, &m.Lease)
	text(p, &m.Instruction.Owed)
	number(p, &m.Instruction.Version)
	number(p, &m.Instruction.Attempt)
	text(p, &m.Instruction.Lease)
	list(p, &m.Unread, text)
	number(p, &m.Lost)
	p.moment(&m.LostAt)
}

func (l *Lease) pack(p *packer) {
	text(p, &l.ID)
	often(p, &l.Mailbox)
	p.moment(&l.Leased)
	p.moment(&l.Until)
	list(p, &l.Items, func(p *packer, it *events.Leased) {
		text(p, &it.Kind)
		text(p, &it.Message)
		text(p, &it.Call)
		text(p, &it.Thread)
		number(p, &it.Attempt)
		p.flags(&it.Pending, &it.Edited)
		text(p, &it.Reason)
		text(p, &it.To)
	})
	text(p, &l.Instruction)
	number(p, &l.Version)
	number(p, &l.Attempt)
	p.maybe(&l.Confirmed)
	p.maybe(&l.Ended)
}

// Runs says whether the lease holds its mailbox at this moment. One that ends
// further ahead than its own length is of a clock that went back since, and
// counts as ended: no clock may lock a mailbox.
func (l *Lease) Runs(now events.Time) bool {
	return l != nil && l.Confirmed == nil && l.Ended == nil && l.Leased <= now && now < l.Until
}

// Open says whether the lease was neither confirmed nor seen to have ended.
func (l *Lease) Open() bool { return l != nil && l.Confirmed == nil && l.Ended == nil }

// Mailbox gives the post of a participant; the zero value when it never had any.
func (s *State) Mailbox(p events.Participant) Mailbox {
	if m := s.mailboxes.find(s, string(p)); m != nil {
		return *m
	}
	return Mailbox{}
}

// Lease finds a lease; nil when there is none with this id.
func (s *State) Lease(id events.LeaseID) *Lease {
	s.asks(LeaseRows)
	return s.leases.find(s, string(id))
}

// Current is the mailbox's open lease, whether it still runs or not; nil when
// there is none.
func (s *State) Current(p events.Participant) *Lease {
	if l := s.Lease(s.Mailbox(p).Lease); l.Open() {
		return l
	}
	return nil
}

// Queued is an item that lies in a mailbox.
type Queued struct {
	Kind     events.ItemKind
	Position events.Position
	Message  *Message
	Delivery *Delivery
	Call     *Call // of a call, which has neither of those
}

// QueueScanMax bounds how many items of one mailbox one look at it passes over.
// Stubs that are waited for lie in the way of what came after them.
const QueueScanMax = 200

// Queue visits the items of a mailbox, oldest first, until visit returns false.
func (s *State) Queue(p events.Participant, visit func(Queued) bool) {
	s.queue(p, func(string) bool { return true }, visit)
}

// QueuedMessages visits the messages of a mailbox as Queue does, past any number
// of notices: these are told to nobody but the mailbox's own participant, who
// may never look.
func (s *State) QueuedMessages(p events.Participant, visit func(Queued) bool) {
	s.queue(p, func(mark string) bool { return mark == messageMark }, visit)
}

// QueuedForTaker visits what another than the mailbox's own participant takes:
// messages and calls, and no notices.
func (s *State) QueuedForTaker(p events.Participant, visit func(Queued) bool) {
	s.queue(p, func(mark string) bool { return mark != noticeMark }, visit)
}

func (s *State) queue(p events.Participant, wanted func(mark string) bool, visit func(Queued) bool) {
	s.asks(QueueRows)
	seen := 0
	s.scan(ofBox(p, "queue", ""), "", false, func(k string, value []byte) bool {
		if !wanted(part(k, 4)) {
			return true
		}
		seen++
		if part(k, 4) == callMark {
			c := s.Call(events.EventID(part(k, 5)), p)
			return (c == nil || visit(Queued{Kind: events.ItemCall, Position: placeOf(part(k, 3)), Call: c})) && seen < QueueScanMax
		}
		q := Queued{Position: placeOf(part(k, 3)), Message: s.Message(events.MessageID(part(k, 5)))}
		if q.Message == nil {
			return seen < QueueScanMax
		}
		switch part(k, 4) {
		case noticeMark:
			q.Kind = events.ItemNotice
			q.Delivery = q.Message.lost(p, events.Participant(value))
		default:
			q.Kind = events.ItemMessage
			q.Delivery = q.Message.Delivery(p)
		}
		if q.Delivery == nil {
			return seen < QueueScanMax
		}
		return visit(q) && seen < QueueScanMax
	})
}

const (
	messageMark = "m"
	noticeMark  = "n"
	callMark    = "c"
)

func queueKey(p events.Participant, at events.Position, mark string, id events.MessageID) string {
	return ofBox(p, "queue", place(at), mark, string(id))
}

// lost finds the delivery to to whose loss is told in the mailbox at.
func (m *Message) lost(at, to events.Participant) *Delivery {
	for i := range m.Deliveries {
		if d := &m.Deliveries[i]; d.Notice != nil && d.Notice.At == at && d.To == to {
			return d
		}
	}
	return nil
}

func (s *State) enqueue(p events.Participant, m *Message) {
	if s.makes(QueueRows) {
		mark := s.mark
		if m.Position == s.position { // it was sent by this event
			mark = s.markNew
		}
		mark(queueKey(p, m.Position, messageMark, m.ID), "-")
		if m.Author.Kind != events.KindBot {
			mark(openKey(m, p), string(m.ID))
		}
	}
	s.laid(p, m, 1)
}

func (s *State) dequeue(p events.Participant, m *Message) {
	if s.makes(QueueRows) {
		s.unmark(queueKey(p, m.Position, messageMark, m.ID))
		s.unmark(openKey(m, p))
	}
	s.laid(p, m, -1)
}

// openKey is of a message that its sender has to hear of yet, because it waits.
func openKey(m *Message, at events.Participant) string {
	return ofBox(m.Author.ID, "underway", string(at), place(m.Position))
}

// offerAgain offers what was delivered as a stub once more, now that it is
// final; it can be lost again, and its sender is told of that as of any loss.
func (s *State) offerAgain(m *Message, d *Delivery) {
	d.State, d.Again, d.AsStub, d.Unconfirmed = events.StateQueued, true, false, 0
	s.enqueue(d.At, m)
}

// tell puts the telling of a loss into the sender's mailbox.
func (s *State) tell(m *Message, d *Delivery, reason events.LostReason, at events.Position) {
	if m.Author.Kind == events.KindBot || m.Deleted != nil {
		return
	}
	d.Notice = &Notice{At: m.Author.ID, Position: at, Reason: reason, State: events.StateQueued}
	if s.makes(QueueRows) {
		s.mark(queueKey(m.Author.ID, at, noticeMark, m.ID), string(d.To))
	}
}

func (s *State) dropNotice(m *Message, d *Delivery) {
	if d.Notice != nil && s.makes(QueueRows) {
		s.unmark(queueKey(d.Notice.At, d.Notice.Position, noticeMark, m.ID))
	}
}

func (s *State) instructionOwed(e events.SessionJoined) {
	box := s.mailboxes.change(s, string(e.Session))
	i := &box.Instruction
	switch {
	case i.Version == 0 && i.Owed == "":
		i.Owed = events.FormFull
	case i.Version > 0 && (e.Source == events.SourceCompact || e.Source == events.SourceClear):
		i.Owed, i.Attempt, i.Lease = events.FormShort, 0, "" // no lease from before counts
	}
}

func (s *State) mailboxLeased(e events.MailboxLeased, r events.Recorded) {
	l := s.lease(e.Lease, e.Mailbox, r.Time, e.Until)
	l.Items = e.Items
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			s.callLeased(it, e)
			continue
		}
		m := s.changed(it.Message)
		if m == nil {
			continue
		}
		if it.Kind == events.ItemNotice {
			if d := m.lost(e.Mailbox, it.To); d != nil {
				d.Notice.State, d.Notice.Attempt = events.StateLeased, it.Attempt
			}
			continue
		}
		if d := m.Delivery(e.Mailbox); d != nil && d.Waits() {
			d.State, d.Attempt, d.AsStub, d.Again = events.StateLeased, it.Attempt, it.Pending, it.Edited
			d.Leases = append(d.Leases, DeliveryLease{
				Lease: e.Lease, By: e.Mailbox, Attempt: it.Attempt, Hook: hookOf(e), Leased: r.Time,
			})
		}
	}
}

// lease begins a lease, or goes on with the one that the same command began:
// the instruction and the messages of one hook run are two events of one lease.
func (s *State) lease(id events.LeaseID, p events.Participant, at, until events.Time) *Lease {
	l := s.leases.change(s, string(id))
	l.ID, l.Mailbox, l.Leased, l.Until = id, p, at, until
	s.mailboxes.change(s, string(p)).Lease = id
	return l
}

func (s *State) instructionLeased(e events.InstructionLeased, r events.Recorded) {
	l := s.lease(e.Lease, e.Mailbox, r.Time, e.Until)
	l.Instruction, l.Version, l.Attempt = e.Form, e.Version, e.Attempt
	i := &s.mailboxes.change(s, string(e.Mailbox)).Instruction
	i.Attempt, i.Lease = e.Attempt, e.Lease
}

func (s *State) instructionConfirmed(e events.InstructionConfirmed, r events.Recorded) {
	s.confirm(e.Lease, e.Mailbox, r.Time)
	box := s.mailboxes.change(s, string(e.Mailbox))
	box.Instruction = Instruction{Version: e.Version}
}

func (s *State) confirm(id events.LeaseID, p events.Participant, at events.Time) {
	if l := s.leases.find(s, string(id)); l != nil {
		l = s.leases.change(s, string(id))
		l.Confirmed = &at
	}
	if box := s.mailboxes.change(s, string(p)); box.Lease == id {
		box.Lease = ""
	}
}

func (s *State) mailboxConfirmed(e events.MailboxConfirmed, r events.Recorded) {
	s.confirm(e.Lease, e.Mailbox, r.Time)
	at := r.Time
	printed := false
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			s.callConfirmed(it, e.Mailbox)
			continue
		}
		m := s.changed(it.Message)
		if m == nil {
			continue
		}
		if it.Kind == events.ItemNotice {
			if d := m.lost(e.Mailbox, it.To); d != nil {
				d.Notice.State = events.StateDelivered
				s.dropNotice(m, d)
			}
			continue
		}
		d := m.Delivery(e.Mailbox)
		if d == nil {
			continue
		}
		for i := range d.Leases {
			if d.Leases[i].Lease == e.Lease {
				d.Leases[i].Confirmed, d.Leases[i].Late = &at, e.Late
				printed = printed || d.Leases[i].Hook != ""
			}
		}
		if !d.Waits() {
			continue
		}
		s.dequeue(d.At, m)
		d.State, d.Again = events.StateDelivered, false
		if it.Pending && m.Turn != events.Working && m.Deleted == nil {
			s.offerAgain(m, d) // it turned final between the lease and its confirm
		}
	}
	if printed {
		s.unread(e.Mailbox, e.Lease)
	}
}

func (s *State) leaseExpired(e events.LeaseExpired, r events.Recorded) {
	at := r.Time
	if l := s.leases.find(s, string(e.Lease)); l != nil {
		l = s.leases.change(s, string(e.Lease))
		l.Ended = &at
	}
	if box := s.mailboxes.change(s, string(e.Mailbox)); box.Lease == e.Lease {
		box.Lease = ""
	}
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			s.callReturned(it, e.Mailbox)
			continue
		}
		m := s.changed(it.Message)
		if m == nil {
			continue
		}
		if it.Kind == events.ItemNotice {
			if d := m.lost(e.Mailbox, it.To); d != nil && d.Notice.State == events.StateLeased {
				d.Notice.State = events.StateQueued
				d.Notice.Unconfirmed++
			}
			continue
		}
		d := m.Delivery(e.Mailbox)
		if d == nil {
			continue
		}
		for i := range d.Leases {
			if d.Leases[i].Lease == e.Lease {
				d.Leases[i].Expired = &at
			}
		}
		if d.State == events.StateLeased {
			d.State = events.StateQueued
			d.Unconfirmed++
		}
	}
}

func (s *State) mailboxTaken(e events.MailboxTaken, r events.Recorded) {
	taker := events.Participant(e.Session)
	for _, it := range e.Items {
		if s.along(it.Message, e.Mailbox, taker) {
			continue
		}
		if m := s.move(it.Message, e.Mailbox, taker); m != nil {
			if s.makes(InboxRows) {
				s.mark(ofBox(taker, "inbox", place(m.Position)), string(m.ID))
			}
		}
	}
}

// along notes that a copy of a message reached a taker who has it by another
// copy; false when the taker has none.
func (s *State) along(id events.MessageID, at, taker events.Participant) bool {
	m := s.Message(id)
	if m == nil || m.Delivery(taker) == nil {
		return false
	}
	if d := m.Delivery(at); d != nil && d.Waits() {
		m = s.messages.change(s, string(id))
		s.dequeue(at, m)
		d.State, d.By = events.StateDelivered, taker
	}
	return true
}

func (s *State) mailboxReturned(e events.MailboxReturned, r events.Recorded) {
	for _, it := range e.Items {
		if m := s.move(it.Message, events.Participant(e.Session), e.Mailbox); m != nil {
			if d := m.Delivery(e.Mailbox); d.State == events.StateQueued || d.State == events.StateLeased {
				d.State = events.StateHeld
			}
		}
	}
}

// move carries a waiting message from one mailbox to another; nil when it does
// not wait there.
func (s *State) move(id events.MessageID, from, to events.Participant) *Message {
	m := s.messages.find(s, string(id))
	if m == nil {
		return nil
	}
	d := m.Delivery(from)
	if d == nil || !d.Waits() {
		return nil
	}
	s.messages.change(s, string(id))
	s.dequeue(from, m)
	d.At = to
	s.enqueue(to, m)
	return m
}

func (s *State) messageExpired(e events.MessageExpired, r events.Recorded) {
	s.loseMessage(e.Message, e.Mailbox, events.StateExpired, events.LostExpired, r)
}

func (s *State) messageUndelivered(e events.MessageUndelivered, r events.Recorded) {
	if e.Kind == events.ItemCall {
		s.endCall(CallRef{Event: e.Call, Mailbox: e.Mailbox}, events.StateUndelivered)
		return
	}
	if e.Kind == events.ItemNotice {
		if m := s.messages.find(s, string(e.Message)); m != nil {
			s.messages.change(s, string(e.Message))
			to := e.To
			if to == "" {
				to = m.To.ID
			}
			if d := m.lost(e.Mailbox, to); d != nil && d.Notice.State != events.StateDelivered {
				d.Notice.State = events.StateUndelivered
				s.dropNotice(m, d)
			}
		}
		return
	}
	s.loseMessage(e.Message, e.Mailbox, events.StateUndelivered, e.Reason, r)
}

func (s *State) loseMessage(id events.MessageID, at events.Participant, state events.DeliveryState, reason events.LostReason, r events.Recorded) {
	m := s.messages.find(s, string(id))
	if m == nil {
		return
	}
	d := m.Delivery(at)
	if d == nil || !d.Waits() {
		return
	}
	s.messages.change(s, string(id))
	s.dequeue(d.At, m)
	d.State, d.Reason = state, reason
	s.lostFrom(d.At, m, r.Time)
	s.tell(m, d, reason, r.Position)
}

// OpenBoxesMax bounds in how many mailboxes a sender's open messages are looked
// for.
const OpenBoxesMax = 1000

// OpenSends visits what somebody sent and what is neither delivered nor lost
// yet, mailbox by mailbox, in each the oldest first. When visit returns false it
// goes on with the next mailbox: what a sender has in the mailbox of one who
// takes his time hides no loss in another's.
func (s *State) OpenSends(who events.Participant, visit func(*Message, *Delivery) bool) {
	s.asks(QueueRows)
	prefix := ofBox(who, "underway", "")
	after := ""
	for range OpenBoxesMax {
		box := ""
		s.scan(prefix, after, false, func(k string, value []byte) bool {
			at := part(k, 3)
			if box != "" && at != box {
				return false
			}
			box = at
			m := s.Message(events.MessageID(value))
			if m == nil {
				return true
			}
			d := m.Delivery(events.Participant(box))
			return d == nil || visit(m, d)
		})
		if box == "" {
			return
		}
		after = prefix + box + "\t\xff" // behind every position
	}
}
