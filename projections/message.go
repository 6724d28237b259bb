package projections

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"decklog/events"
)

// Message is one utterance as it stands: what was sent, what became of it, and
// each of its deliveries. Its text is not here.
type Message struct {
	ID       events.MessageID // its row's key has it
	Thread   events.ThreadID
	Position events.Position // of its message.sent
	Event    events.EventID  // that holds the present body's commitment: the last of Bodies
	Kind     events.MessageKind
	Author   events.Author
	To       events.Recipient
	ReplyTo  events.MessageID
	IsReply  bool // it answers a message of the one it is addressed to
	Intent   events.Intent
	Turn     events.Turn
	Bytes    int
	Refs     []string
	Sent     events.Time
	Expires  events.Time
	Due      *events.Time
	FinalBy  *events.Time // of a stub: until when it is waited for
	Edited   *events.Time
	Deleted  *events.Time
	ResendOf events.MessageID
	Bodies   []events.EventID // every event that holds a body of it
	Mentions []string
	Group    bool // it mentions all seats at once
	Address  bool // its sender wrote to whom it goes
	Channel  string
	Over     []events.MessageID // what was pending when this answer was sent
	Payload  events.EventID     // the event that has it beside it
	Acks     []AckOf
	Verdict  events.Verdict // on its mention; empty: nobody judged
	Unclear  bool           // the verdict is nobody's word: no classifier gave one
	// Deliveries are one for each mailbox that it went to.
	Deliveries []Delivery
}

// Delivery is one mailbox's copy of a message.
type Delivery struct {
	To          events.Participant // as it was addressed
	At          events.Participant // whose mailbox it lies in, or was taken from
	State       events.DeliveryState
	Then        events.DeliveryState // of a held stub: its state once it is final
	Reason      events.LostReason
	Attempt     int                // leases so far
	Unconfirmed int                // of them, those that ended without a confirm
	AsStub      bool               // what was shown last was a stub past its time
	Again       bool               // offered once more, because the stub turned final
	Leases      []DeliveryLease    // oldest first
	Notice      *Notice            // the telling of its loss
	Hold        *events.Time       // until when the copy waits for those who come first
	By          events.Participant // who has it by another copy; empty: nobody
}

// DeliveryLease is one time that a message was offered.
type DeliveryLease struct {
	Lease     events.LeaseID
	By        events.Participant // whose hook run
	Attempt   int
	Hook      string // the harness's event that printed it; empty: no hook did
	Leased    events.Time
	Confirmed *events.Time
	Late      bool
	Expired   *events.Time
	Read      *events.Time
}

// Notice tells a sender, through its own mailbox, that a message was lost.
type Notice struct {
	At          events.Participant // whose mailbox
	Position    events.Position
	Reason      events.LostReason
	State       events.DeliveryState
	Attempt     int
	Unconfirmed int
}

func (m *Message) pack(p *packer) {
	text(p, &m.ID)
	text(p, &m.Thread)
	number(p, &m.Position)
	list(p, &m.Bodies, text)
	if len(m.Bodies) == 0 {
		p.fail() // one that no event sent is not whole
	}
	text(p, &m.Event)
	text(p, &m.Kind)
	packAuthor(p, &m.Author)
	often(p, &m.To.ID)
	text(p, &m.To.Kind)
	often(p, &m.To.Seat)
	text(p, &m.ReplyTo)
	p.flags(&m.IsReply)
	text(p, &m.Intent)
	text(p, &m.Turn)
	number(p, &m.Bytes)
	list(p, &m.Refs, text)
	p.moment(&m.Sent)
	p.moment(&m.Expires)
	p.maybe(&m.Due)
	p.maybe(&m.FinalBy)
	p.maybe(&m.Edited)
	p.maybe(&m.Deleted)
	text(p, &m.ResendOf)
	list(p, &m.Deliveries, func(p *packer, d *Delivery) {
		often(p, &d.To)
		often(p, &d.At)
		text(p, &d.State)
		text(p, &d.Then)
		text(p, &d.Reason)
		number(p, &d.Attempt)
		number(p, &d.Unconfirmed)
		p.flags(&d.AsStub, &d.Again)
		list(p, &d.Leases, func(p *packer, l *DeliveryLease) {
			text(p, &l.Lease)
			often(p, &l.By)
			number(p, &l.Attempt)
			often(p, &l.Hook)
			p.moment(&l.Leased)
			p.flags(&l.Late)
			p.maybe(&l.Confirmed)
			p.maybe(&l.Expired)
			p.maybe(&l.Read)
		})
		some(p, &d.Notice, func(p *packer, n *Notice) {
			often(p, &n.At)
			number(p, &n.Position)
			text(p, &n.Reason)
			text(p, &n.State)
			number(p, &n.Attempt)
			number(p, &n.Unconfirmed)
		})
		p.maybe(&d.Hold)
		often(p, &d.By)
	})
	m.packDriving(p)
}

func packAuthor(p *packer, a *events.Author) {
	often(p, &a.ID)
	text(p, &a.Kind)
	often(p, &a.Harness)
	often(p, &a.Seat)
	often(p, &a.Person)
	often(p, &a.Repo)
	often(p, &a.Branch)
	often(p, &a.Device)
	p.flags(&a.Subagent)
}

// changed gives a message that an event changes; nil when the fold never saw it,
// and then the event changes nothing.
func (s *State) changed(id events.MessageID) *Message {
	return s.messages.changeFound(s, string(id))
}

// Message finds a message; nil when there is none with this id.
func (s *State) Message(id events.MessageID) *Message { return s.messages.find(s, string(id)) }

// Delivery finds the copy that lies in a mailbox, or was taken out of it; nil when none did.
func (m *Message) Delivery(at events.Participant) *Delivery {
	for i := range m.Deliveries {
		if m.Deliveries[i].At == at {
			return &m.Deliveries[i]
		}
	}
	return nil
}

// Called lists the seats that the message calls: those that it mentions and, for
// a person, the seat that it was addressed to by name.
func (m *Message) Called() []string {
	called := m.Mentions
	if m.Author.Kind == events.KindPerson && m.Address && m.To.Kind == events.KindSeat && !slices.Contains(called, m.To.ID.Name()) {
		called = append([]string{m.To.ID.Name()}, called...)
	}
	return called
}

// Main is the delivery to the one that the message is addressed to.
func (m *Message) Main() *Delivery {
	for i := range m.Deliveries {
		if m.Deliveries[i].To == m.To.ID {
			return &m.Deliveries[i]
		}
	}
	d := &Delivery{To: m.To.ID, At: m.To.ID, State: events.StateQueued}
	if m.To.Kind == events.KindBot {
		d.State = events.StateDelivered // what lies in the thread is all that a bot gets
	}
	return d
}

// State is where the message stands for the one that it is addressed to.
func (m *Message) State() events.DeliveryState {
	if m.Deleted != nil {
		return events.StateDeleted
	}
	return m.Main().State
}

// Lost says whether the message can no longer reach the one it is addressed to.
func (m *Message) Lost() bool {
	state := m.State()
	return state == events.StateExpired || state == events.StateUndelivered
}

// Waits says whether the delivery still lies in its mailbox.
func (d *Delivery) Waits() bool {
	return d.State == events.StateQueued || d.State == events.StateHeld || d.State == events.StateLeased
}

// Arrived says whether the delivery was printed for its recipient.
func (d *Delivery) Arrived() bool {
	return d.State == events.StateDelivered || d.State == events.StateRead
}

// Awaited says whether a message is a stub whose answer is still waited for at
// this moment; under a policy without a bound, until it is final. A stub whose
// time cannot be told from the present clock, because it lies ahead, is not: no
// clock may hold a message back for ever.
func (m *Message) Awaited(now events.Time) bool {
	return m.Turn == events.Working && (m.FinalBy == nil || m.Sent <= now && now < *m.FinalBy)
}

// Held says whether a copy waits at this moment for those who come first to
// answer. As with a stub, one whose time lies ahead is not.
func (m *Message) Held(d *Delivery, now events.Time) bool {
	return d.Hold != nil && m.Sent <= now && now < *d.Hold
}

// Counts says whether the message is one of those that a thread's rate bounds.
func counts(e events.MessageSent) bool {
	return e.Author.Kind != events.KindPerson && e.Author.Kind != events.KindBot &&
		e.Kind == events.KindMessage && e.Intent != events.Done
}

func (s *State) messageSent(e events.MessageSent, r events.Recorded) {
	m := s.messages.begin(string(e.Message), &Message{
		ID: e.Message, Thread: e.Thread, Position: r.Position, Event: r.ID, Kind: e.Kind, Author: e.Author, To: e.To,
		ReplyTo: e.ReplyTo, Intent: e.Intent, Turn: e.Turn, Bytes: e.Body.Bytes, Refs: e.Refs,
		Sent: r.Time, Expires: e.Expires, Due: e.Due, FinalBy: e.FinalBy, ResendOf: e.ResendOf,
		Bodies: []events.EventID{r.ID}, Mentions: e.Mentions, Group: e.Group, Address: e.Addressed != "", Channel: e.Channel, Over: e.AnsweredOver,
	})
	parent := s.Message(e.ReplyTo)
	m.IsReply = parent != nil && e.Kind == events.KindMessage && is(e.To.ID, parent.Author)
	at := place(r.Position)
	for _, d := range e.Deliveries {
		row := Delivery{To: d.To, At: d.To, State: d.State, Hold: d.Hold}
		if m.Turn == events.Working && (d.To.Session() != "" || e.Evidence.Live) {
			row.Then = events.StateQueued
		}
		m.Deliveries = append(m.Deliveries, row)
		s.enqueue(d.To, m)
		if s.makes(InboxRows) {
			s.mark(ofBox(d.To, "inbox", at), string(m.ID))
		}
	}
	when := strconv.FormatInt(int64(r.Time), 10)
	if s.makes(SentRows) {
		s.mark(ofBox(m.Author.ID, "sent", at), when+" "+string(m.ID))
		if m.Author.Device != "" {
			s.mark(key("check", string(Device(m.Author.Device)), at), when)
		}
		if m.Author.Person != "" {
			s.mark(key("check", string(events.Named(m.Author.Person)), at), when)
		}
	}
	if s.makes(ThreadRows) {
		class := "-"
		switch {
		case m.Author.Kind == events.KindPerson:
			class = "person"
		case counts(e):
			class = "agent"
		}
		s.mark(key("thread", string(m.Thread), at), string(r.Type())+" "+class+" "+when+" "+string(m.ID))
	}
	s.threadSpoken(e, r, m, parent)
}

const devicePrefix = "device:"

func (s *State) messageEdited(e events.MessageEdited, r events.Recorded) {
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	at := r.Time
	m.Edited, m.Event, m.Bytes = &at, r.ID, e.Body.Bytes
	m.Bodies = append(m.Bodies, r.ID)
}

// payloadAttached notes what came with an alert; with the message it goes.
func (s *State) payloadAttached(e events.PayloadAttached, r events.Recorded) {
	if m := s.changed(e.Message); m != nil {
		m.Payload = r.ID
	}
}

func (s *State) turnFlipped(e events.TurnFlipped, r events.Recorded) {
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	m.Turn = e.Turn
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		switch {
		case d.State == events.StateHeld && d.Then != "":
			d.State, d.Then = d.Then, ""
		case d.Arrived() && d.AsStub:
			s.offerAgain(m, d)
		}
	}
	s.threadTurned(m)
}

func (s *State) messageDeleted(e events.MessageDeleted, r events.Recorded) {
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	at := r.Time
	m.Deleted = &at
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		if d.Waits() {
			s.dequeue(d.At, m)
			d.State = events.StateDeleted
		}
		s.dropNotice(m, d)
	}
	s.threadDeleted(m)
}

// SentSince tells how many messages a session sent (or a person with all its
// sessions, or everybody on a machine, with Device) in the time before now, as far as limit, and when the earliest
// of these was sent. A send whose time lies ahead, because the clock went back
// since, does not count: no clock may lock a sender out.
func (s *State) SentSince(who events.Participant, now events.Time, within time.Duration, limit int) (count int, earliest events.Time) {
	s.asks(SentRows)
	sends := key("check", string(who), "")
	if who.Session() != "" && !strings.HasPrefix(string(who), devicePrefix) {
		sends = ofBox(who, "sent", "")
	}
	s.scan(sends, "", true, func(_ string, value []byte) bool {
		at := timeIn(value)
		age := now.Sub(at)
		if age >= within {
			return false
		}
		if age >= 0 {
			count++
			earliest = at
		}
		return count < limit
	})
	return count, earliest
}

// Device is the participant under which a machine's sends are counted.
func Device(host string) events.Participant { return events.Participant(devicePrefix + host) }

func timeIn(value []byte) events.Time {
	n, _ := strconv.ParseInt(word(value, 0), 10, 64)
	return events.Time(n)
}

// word is the n-th of the words in a small row's value.
func word(value []byte, n int) string {
	from := 0
	for i, c := range value {
		if c != ' ' {
			continue
		}
		if n == 0 {
			return string(value[from:i])
		}
		n--
		from = i + 1
	}
	if n == 0 {
		return string(value[from:])
	}
	return ""
}
