package projections

import (
	"slices"
	"strconv"
	"time"

	"decklog/events"
)

// Thread is a root message and its replies, without the messages themselves.
type Thread struct {
	ID           events.ThreadID
	Root         events.MessageID
	Asker        events.Author // who wrote the root
	Participants []events.Participant
	Seats        []string // that take part
	Done         bool
	ClosedBy     *Closing
	Stubs        []Stub          // its agents' working messages, oldest first
	Last         events.Time     // of its stream's last event
	Owed         []Owed          // its open items, oldest first
	At           events.Position // of its stream's last event
	Messages     int             // that were sent
	Waiting      int             // copies of them that lie in a mailbox
	Lost         int             // copies that expired, or were given up

	// What driving has to know of it (see driving.go).
	Began    Act // the root
	Kind     events.MessageKind
	Group    bool // all seats were mentioned at once
	Area     *events.AreaOf
	Policy   events.Position // that its last event was decided under
	Posts    []Post
	Mirrors  []Post
	Stickers []Sticker // that lie, in the order in which they were placed
	Handoffs []Handoff
	Move     *Move // the latest, unless it was replaced or cancelled
	Reviews  []Review
	Cards    []CardOf
	Hops     int // since a person last spoke
	Drove    *Drove
	Held     []events.MessageID // persons' messages of which copies are held
}

// Closing is the `done` that closed a thread.
type Closing struct {
	Message events.MessageID   `json:"message"`
	By      events.Participant `json:"by"`
	Time    events.Time        `json:"time"`
}

// Stub is an agent's message that is not final yet.
type Stub struct {
	Message events.MessageID `json:"message"`
	Before  events.Time      `json:"before"` // of the event before it in the thread
}

// Pending is a message of an agent that is not final yet.
type Pending struct {
	From    events.Participant `json:"from"`
	Seat    string             `json:"seat,omitempty"` // that its author occupied
	Message events.MessageID   `json:"message"`
	Until   events.Time        `json:"until"` // how long it is waited for
}

// Who is the name of who is writing: of the seat, where there is one.
func (p Pending) Who() string {
	if p.Seat != "" {
		return p.Seat
	}
	return string(p.From)
}

// Pending lists what the thread's agents have not finished (R2), oldest first:
// what is waited for at this moment, and what is so no more. A stub whose own
// time lies ahead counts from the event before it; when that lies ahead too, or
// there is none, it is waited for no more: no clock pins another participant.
func (s *State) Pending(t *Thread, now events.Time) (awaited, overdue []Pending) {
	for _, stub := range t.Stubs {
		m := s.Message(stub.Message)
		if m == nil || m.Turn != events.Working || m.FinalBy == nil {
			continue
		}
		p := Pending{From: m.Author.ID, Seat: m.Author.Seat, Message: m.ID, Until: *m.FinalBy}
		since := m.Sent
		if since > now {
			since, p.Until = stub.Before, stub.Before.Add(m.FinalBy.Sub(m.Sent))
		}
		if since <= now && now < p.Until {
			awaited = append(awaited, p)
		} else {
			overdue = append(overdue, p)
		}
	}
	return awaited, overdue
}

func (t *Thread) pack(p *packer) {
	text(p, &t.ID)
	text(p, &t.Root)
	packAuthor(p, &t.Asker)
	list(p, &t.Participants, often)
	list(p, &t.Seats, often)
	p.flags(&t.Done)
	some(p, &t.ClosedBy, func(p *packer, c *Closing) {
		text(p, &c.Message)
		often(p, &c.By)
		p.moment(&c.Time)
	})
	list(p, &t.Stubs, func(p *packer, s *Stub) {
		text(p, &s.Message)
		p.moment(&s.Before)
	})
	p.moment(&t.Last)
	list(p, &t.Owed, packOwed)
	number(p, &t.At)
	number(p, &t.Messages)
	number(p, &t.Waiting)
	number(p, &t.Lost)
	t.packDriving(p)
}

// Thread finds a thread; nil when there is none with this id.
func (s *State) Thread(id events.ThreadID) *Thread { return s.threads.find(s, string(id)) }

// is says whether p is the author: the session, or its seat, or the person.
func is(p events.Participant, a events.Author) bool {
	return p == a.ID || a.Seat != "" && p == events.Named(a.Seat)
}

// Same says whether two authors are one participant: the same session or
// person, or two sessions that occupied the same seat.
func Same(a, b events.Author) bool {
	return a.ID == b.ID || a.Seat != "" && a.Seat == b.Seat
}

// TakesPart says whether somebody wrote in the thread, or was written to in it,
// as a session, through a seat, or as a person.
func (t *Thread) TakesPart(a events.Author) bool {
	if slices.Contains(t.Participants, a.ID) {
		return true
	}
	return a.Seat != "" && slices.Contains(t.Participants, events.Named(a.Seat))
}

func (s *State) threadSpoken(e events.MessageSent, r events.Recorded, m *Message, parent *Message) {
	t := s.threads.change(s, string(m.Thread))
	if t.Root == "" {
		t.ID, t.Root, t.Asker = m.Thread, m.ID, m.Author
		s.count().Threads++
	}
	t.Messages++
	s.count().Messages++
	t.joins(m.Author.ID)
	if m.Author.Seat != "" {
		t.joins(events.Named(m.Author.Seat))
		t.seated(m.Author.Seat)
	}
	t.joins(m.To.ID)
	if m.To.Kind == events.KindSeat {
		t.seated(m.To.ID.Name())
	}
	t.spoken(e, actOf(r))
	if seat := m.Author.Seat; seat != "" && m.Kind == events.KindMessage {
		s.takenBy(t, seat, r.Time)
	}
	if slices.ContainsFunc(m.Deliveries, func(d Delivery) bool { return d.Hold != nil }) {
		t.Held = append(t.Held, m.ID)
	}
	if m.Turn == events.Working && m.FinalBy != nil && m.Kind == events.KindMessage && ofAgent(m.Author) {
		t.Stubs = append(t.Stubs, Stub{Message: m.ID, Before: t.Last})
	}
	if m.Kind != events.KindMessage {
		return // what a review owes is its own item, and a card answers nothing
	}
	if m.Intent == events.Request {
		s.owe(t, m)
	}
	if parent != nil && m.Turn != events.Working {
		s.settle(t, m, parent)
	}
}

// ofAgent says whether an author is a seat, or a session without one.
func ofAgent(a events.Author) bool { return a.Kind == events.KindSession || a.Kind == events.KindSeat }

func (t *Thread) joins(p events.Participant) {
	if !slices.Contains(t.Participants, p) {
		t.Participants = append(t.Participants, p)
	}
}

func (t *Thread) seated(name string) {
	if !slices.Contains(t.Seats, name) {
		t.Seats = append(t.Seats, name)
	}
}

func (s *State) threadTurned(m *Message) {
	t := s.threads.change(s, string(m.Thread))
	t.Stubs = slices.DeleteFunc(t.Stubs, func(stub Stub) bool { return stub.Message == m.ID })
	if parent := s.Message(m.ReplyTo); parent != nil && m.Turn != events.Working {
		s.settle(t, m, parent)
	}
}

func (s *State) threadDeleted(m *Message) {
	t := s.threads.change(s, string(m.Thread))
	t.Stubs = slices.DeleteFunc(t.Stubs, func(stub Stub) bool { return stub.Message == m.ID })
	t.Cards = slices.DeleteFunc(t.Cards, func(c CardOf) bool { return c.Message == m.ID })
	s.closeOwed(t, func(o Owed) bool { return o.ID == string(m.ID) })
}

func (s *State) threadDone(e events.ThreadDone, r events.Recorded) {
	if s.Thread(e.Thread) == nil {
		return
	}
	t := s.threads.change(s, string(e.Thread))
	s.closed(t)
	t.ClosedBy = &Closing{Message: e.Message, By: e.By, Time: r.Time}
	s.closeOwed(t, func(o Owed) bool { return o.Kind == OwedReply })
}

// Talk tells how many messages of agents the thread's rate counts in the time
// before now, as far as limit, whether a person spoke in that time, and when
// the earliest of those counted was sent. It looks past the limit for the
// person, whose word lifts the bound however much was said since.
func (s *State) Talk(id events.ThreadID, now events.Time, within time.Duration, limit int) (count int, person bool, earliest events.Time) {
	s.asks(ThreadRows)
	s.scan(key("thread", string(id), ""), "", true, func(_ string, value []byte) bool {
		if word(value, 0) != string(events.TypeMessageSent) {
			return true
		}
		n, _ := strconv.ParseInt(word(value, 2), 10, 64)
		at := events.Time(n)
		age := now.Sub(at)
		if age >= within {
			return false
		}
		if age < 0 {
			return true
		}
		switch word(value, 1) {
		case "person":
			person = true
			return false
		case "agent":
			if count < limit {
				count++
				earliest = at
			}
		}
		return true
	})
	return count, person, earliest
}

// MessagesOf lists a thread's messages in order.
func (s *State) MessagesOf(id events.ThreadID) (found []*Message) {
	s.asks(ThreadRows)
	s.scan(key("thread", string(id), ""), "", false, func(_ string, value []byte) bool {
		if m := s.Message(events.MessageID(word(value, 3))); m != nil {
			found = append(found, m)
		}
		return true
	})
	return found
}

// Named lists the positions of the events that name a thread, at and after
// from, in order, with their types; with a limit of 0, all of them.
func (s *State) Named(id events.ThreadID, from events.Position, limit int) (found []NamedEvent) {
	s.asks(ThreadRows)
	after := ""
	if from > 0 {
		after = key("thread", string(id), place(from-1))
	}
	s.scan(key("thread", string(id), ""), after, false, func(k string, value []byte) bool {
		found = append(found, NamedEvent{Position: placeOf(last(k)), Type: events.Type(word(value, 0))})
		return limit == 0 || len(found) < limit
	})
	return found
}

// NamedEvent is where an event that names a thread lies.
type NamedEvent struct {
	Position events.Position
	Type     events.Type
}

// Find gives what a full id, or a prefix of one, names: at most limit threads
// and limit messages, by id.
func (s *State) Find(prefix string, limit int) (threads []events.ThreadID, messages []events.MessageID) {
	s.asks(allKinds) // a replay has no rows of threads and messages to search
	for after := ""; len(threads) < limit; {
		first := ""
		s.scan(key("thread", prefix), after, false, func(k string, _ []byte) bool {
			first = k
			return false
		})
		if first == "" {
			break
		}
		id := part(first, 1)
		if first == key("thread", id) { // else events name one that nobody began
			threads = append(threads, events.ThreadID(id))
		}
		after = key("thread", id, "\xff") // behind its events
	}
	s.scan(key("message", prefix), "", false, func(k string, _ []byte) bool {
		messages = append(messages, events.MessageID(last(k)))
		return len(messages) < limit
	})
	return threads, messages
}
