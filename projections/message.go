package projections

import (
	"slices"
	"strconv"
	"time"

	"decklog/events"
)

// Message is one utterance as it stands: what was sent, what became of it, and
// each of its deliveries. Its text is not here.
type Message struct {
	ID       events.MessageID   `json:"-"` // its row's key has it
	Thread   events.ThreadID    `json:"thread"`
	Position events.Position    `json:"position"` // of its message.sent
	Event    events.EventID     `json:"-"`        // that holds the present body's commitment: the last of Bodies
	Kind     events.MessageKind `json:"kind"`
	Author   events.Author      `json:"author"`
	To       events.Recipient   `json:"to"`
	ReplyTo  events.MessageID   `json:"reply_to,omitempty"`
	IsReply  bool               `json:"is_reply,omitempty"` // it answers a message of the one it is addressed to
	Intent   events.Intent      `json:"intent"`
	Turn     events.Turn        `json:"turn,omitempty"`
	Bytes    int                `json:"bytes"`
	Refs     []string           `json:"refs,omitempty"`
	Sent     events.Time        `json:"sent"`
	Expires  events.Time        `json:"expires"`
	Due      *events.Time       `json:"due,omitempty"`
	FinalBy  *events.Time       `json:"final_by,omitempty"` // of a stub: until when it is waited for
	Edited   *events.Time       `json:"edited,omitempty"`
	Deleted  *events.Time       `json:"deleted,omitempty"`
	ResendOf events.MessageID   `json:"resend_of,omitempty"`
	Bodies   []events.EventID   `json:"bodies"` // every event that holds a body of it
	Mentions []string           `json:"mentions,omitempty"`
	Group    bool               `json:"group,omitempty"`     // it mentions all seats at once
	Address  bool               `json:"addressed,omitempty"` // its sender wrote to whom it goes
	Channel  string             `json:"channel,omitempty"`
	Over     []events.MessageID `json:"over,omitempty"`    // what was pending when this answer was sent
	Payload  events.EventID     `json:"payload,omitempty"` // the event that has it beside it
	Acks     []AckOf            `json:"acks,omitempty"`
	Verdict  events.Verdict     `json:"verdict,omitempty"` // on its mention; empty: nobody judged
	Unclear  bool               `json:"unclear,omitempty"` // the verdict is nobody's word: no classifier gave one
	// Deliveries are one for each mailbox that it went to.
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is one mailbox's copy of a message.
type Delivery struct {
	To          events.Participant   `json:"to"`           // as it was addressed
	At          events.Participant   `json:"at,omitempty"` // whose mailbox it lies in, or was taken from
	State       events.DeliveryState `json:"state"`
	Then        events.DeliveryState `json:"then,omitempty"` // of a held stub: its state once it is final
	Reason      events.LostReason    `json:"reason,omitempty"`
	Attempt     int                  `json:"attempt,omitempty"`     // leases so far
	Unconfirmed int                  `json:"unconfirmed,omitempty"` // of them, those that ended without a confirm
	AsStub      bool                 `json:"as_stub,omitempty"`     // what was shown last was a stub past its time
	Again       bool                 `json:"again,omitempty"`       // offered once more, because the stub turned final
	Leases      []DeliveryLease      `json:"leases,omitempty"`      // oldest first
	Notice      *Notice              `json:"notice,omitempty"`      // the telling of its loss
	Hold        *events.Time         `json:"hold,omitempty"`        // until when the copy waits for those who come first
}

// DeliveryLease is one time that a message was offered.
type DeliveryLease struct {
	Lease     events.LeaseID     `json:"lease"`
	By        events.Participant `json:"by,omitempty"` // whose hook run; not in the row when it is At's
	Attempt   int                `json:"attempt"`
	Leased    events.Time        `json:"leased"`
	Confirmed *events.Time       `json:"confirmed,omitempty"`
	Late      bool               `json:"late,omitempty"`
	Expired   *events.Time       `json:"expired,omitempty"`
	Read      *events.Time       `json:"read,omitempty"`
}

// brief is the message as its row has it: without what its key or another part
// of it says. Messages are the bulk of the views, and a longer row would take
// one more page of the store for each.
func (m *Message) brief() any {
	b := *m
	b.Deliveries = slices.Clone(m.Deliveries)
	for i := range b.Deliveries {
		d := &b.Deliveries[i]
		d.Leases = slices.Clone(d.Leases)
		for n := range d.Leases {
			if d.Leases[n].By == d.At {
				d.Leases[n].By = ""
			}
		}
		if d.At == d.To {
			d.At = ""
		}
	}
	return b
}

// complete gives a message that was read from its row what that leaves out. One
// that no event sent is not whole.
func (m *Message) complete(id string) (whole bool) {
	m.ID = events.MessageID(id)
	if len(m.Bodies) == 0 {
		return false
	}
	m.Event = m.Bodies[len(m.Bodies)-1]
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		if d.At == "" {
			d.At = d.To
		}
		for n := range d.Leases {
			if d.Leases[n].By == "" {
				d.Leases[n].By = d.At
			}
		}
	}
	return true
}

// Notice tells a sender, through its own mailbox, that a message was lost.
type Notice struct {
	At          events.Participant   `json:"at"` // whose mailbox
	Position    events.Position      `json:"position"`
	Reason      events.LostReason    `json:"reason"`
	State       events.DeliveryState `json:"state"`
	Attempt     int                  `json:"attempt"`
	Unconfirmed int                  `json:"unconfirmed"`
}

// changed gives a message that an event changes; nil when the fold never saw it,
// and then the event changes nothing.
func (s *State) changed(id events.MessageID) *Message {
	if s.Message(id) == nil {
		return nil
	}
	return s.messages.change(s, string(id))
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
	m := s.messages.begin(string(e.Message), Message{
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
		s.mark(key("inbox", string(d.To), at), string(m.ID))
	}
	sent := strconv.FormatInt(int64(r.Time), 10) + " " + string(m.ID)
	s.mark(key("sent", string(m.Author.ID), at), sent)
	if m.Author.Device != "" {
		s.mark(key("sent", deviceKey(m.Author.Device), at), sent)
	}
	if m.Author.Person != "" && m.Author.Kind != events.KindPerson {
		s.mark(key("sent", string(events.Named(m.Author.Person)), at), sent)
	}
	class := "-"
	switch {
	case m.Author.Kind == events.KindPerson:
		class = "person"
	case counts(e):
		class = "agent"
	}
	s.mark(key("talk", string(m.Thread), at), class+" "+sent)
	s.threadSpoken(e, r, m, parent)
}

func deviceKey(host string) string { return "device:" + host }

func (s *State) messageEdited(e events.MessageEdited, r events.Recorded) {
	m := s.changed(e.Message)
	if m == nil {
		return
	}
	at := r.Time
	m.Edited, m.Event, m.Bytes = &at, r.ID, e.Body.Bytes
	m.Bodies = append(m.Bodies, r.ID)
	if t := s.changedThread(m.Thread); t != nil && e.Card != nil {
		for i := range t.Cards {
			if t.Cards[i].Message == m.ID {
				t.Cards[i].Card = *e.Card
			}
		}
	}
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
		case d.State == events.StateDelivered && d.AsStub:
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

// SentSince tells how many messages the sender (or, with Device, everybody on a
// machine) sent in the time before now, as far as limit, and when the earliest
// of these was sent. A send whose time lies ahead, because the clock went back
// since, does not count: no clock may lock a sender out.
func (s *State) SentSince(who events.Participant, now events.Time, within time.Duration, limit int) (count int, earliest events.Time) {
	s.scan(key("sent", string(who), ""), "", true, func(_ string, value []byte) bool {
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
func Device(host string) events.Participant { return events.Participant(deviceKey(host)) }

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
