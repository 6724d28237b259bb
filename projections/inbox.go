package projections

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"decklog/events"
)

// Shown is a message as the inbox and the thread show it, its text joined.
type Shown struct {
	ID       events.MessageID     `json:"id"`
	Thread   events.ThreadID      `json:"thread"`
	Kind     events.MessageKind   `json:"kind"`
	From     events.Participant   `json:"from"`
	FromSeat string               `json:"from_seat"`
	Subagent bool                 `json:"subagent"` // of from, in its name
	Harness  string               `json:"harness"`
	To       events.Participant   `json:"to"`
	Intent   events.Intent        `json:"intent"`
	Turn     events.Turn          `json:"turn"`
	Preview  string               `json:"preview"` // the body's first line
	Body     string               `json:"body"`
	Redacted bool                 `json:"redacted"` // the body is gone
	Refs     []string             `json:"refs"`
	ReplyTo  events.MessageID     `json:"reply_to"`
	IsReply  bool                 `json:"is_reply"`
	Sent     events.Time          `json:"sent"`
	Expires  events.Time          `json:"expires"`
	Edited   *events.Time         `json:"edited"`
	Deleted  *events.Time         `json:"deleted"`
	State    events.DeliveryState `json:"state"`
	Reason   events.LostReason    `json:"reason"` // of an undelivered one
	Attempt  int                  `json:"attempt"`
	ResendOf events.MessageID     `json:"resend_of"`
	Mentions []string             `json:"mentions"` // seats
	Channel  string               `json:"channel"`  // of an alert
	Over     []events.MessageID   `json:"answered_over"`
	Verdict  events.Verdict       `json:"verdict"` // on its mention; empty: nobody judged
}

// Bodies is where the text of a message is found while it is there.
type Bodies interface {
	Body(events.EventID) (events.Body, bool, error)
}

// Show joins a message with its text, as it stands for one delivery; nil: for
// the one that it is addressed to.
func (s *State) Show(m *Message, d *Delivery, bodies Bodies) Shown {
	if d == nil {
		d = m.Main()
	}
	v := Shown{
		ID: m.ID, Thread: m.Thread, Kind: m.Kind, From: m.Author.ID, FromSeat: m.Author.Seat, Subagent: m.Author.Subagent, Harness: m.Author.Harness, To: m.To.ID,
		Intent: m.Intent, Turn: m.Turn, Refs: m.Refs, ReplyTo: m.ReplyTo, IsReply: m.IsReply, Sent: m.Sent, Expires: m.Expires,
		Edited: m.Edited, Deleted: m.Deleted, State: d.State, Reason: d.Reason, Attempt: d.Attempt, ResendOf: m.ResendOf,
	}
	if m.Deleted != nil {
		v.State = events.StateDeleted
	}
	v.Channel, v.Verdict = m.Channel, m.Verdict
	v.Refs, v.Mentions, v.Over = listed(v.Refs), listed(m.Mentions), listed(m.Over)
	body, there, err := bodies.Body(m.Event)
	s.fail(err)
	v.Redacted = !there
	v.Body = string(body.Text)
	v.Preview = Preview(v.Body)
	return v
}

// listed is a list that is empty rather than absent.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Preview is the first line of a body that is not blank.
func Preview(body string) string {
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// InboxView is what went to a participant, or what it sent, newest first.
type InboxView struct {
	Participant events.Participant `json:"participant"`
	At          events.Position    `json:"at"`
	Messages    []Shown            `json:"messages"`
	NextCursor  string             `json:"next_cursor"` // empty: this is the last page
}

// InboxQuery says which messages.
type InboxQuery struct {
	Who    events.Participant
	Sent   bool                 // what it sent, instead of what went to it
	State  events.DeliveryState // empty: all
	Before events.Position      // 0: from the newest
	Limit  int
}

// Cursor names the place behind a page. It carries a sum of the query that it
// belongs to, so that a damaged one, or one of another query, is known as such.
func (q InboxQuery) Cursor(at events.Position) string {
	return cursor(q.asked(), at)
}

// Resume reads a cursor; false when it is none of this query.
func (q InboxQuery) Resume(cursor string) (events.Position, bool) {
	return resume(q.asked(), cursor)
}

func (q InboxQuery) asked() string {
	return fmt.Sprintf("decklog inbox cursor v1\n%s\n%t\n%s", q.Who, q.Sent, q.State)
}

// cursor names a place in what was asked for, with a sum of both.
func cursor(asked string, at events.Position) string {
	where := strconv.FormatInt(int64(at), 36)
	h := sha256.Sum256([]byte(asked + "\n" + where))
	return where + "-" + hex.EncodeToString(h[:6])
}

func resume(asked, text string) (events.Position, bool) {
	where, _, _ := strings.Cut(text, "-")
	at, err := strconv.ParseInt(where, 36, 64)
	if err != nil || at <= 0 || cursor(asked, events.Position(at)) != text {
		return 0, false
	}
	return events.Position(at), true
}

// Inbox gives a page. For a session it holds what was addressed to it, what it
// took for its seat and its person, and what waits for these.
func (s *State) Inbox(q InboxQuery, bodies Bodies) InboxView {
	s.asks(InboxRows | SentRows)
	v := InboxView{Participant: q.Who, At: s.position, Messages: []Shown{}}
	var sources []string
	if q.Sent {
		sources = []string{ofBox(q.Who, "sent", "")}
	} else {
		for _, p := range s.Mailboxes(q.Who) {
			sources = append(sources, ofBox(p, "inbox", ""))
		}
	}
	// Each source gives its newest, one more than the page holds; the newest of
	// them all are the page.
	type entry struct {
		at events.Position
		m  *Message
		d  *Delivery
	}
	var found []entry
	for _, prefix := range sources {
		after := ""
		if q.Before > 0 {
			after = prefix + place(q.Before)
		}
		box := events.Participant(part(prefix, 1))
		n := 0
		s.scan(prefix, after, true, func(k string, value []byte) bool {
			id := string(value)
			if q.Sent {
				id = word(value, 1)
			}
			m := s.Message(events.MessageID(id))
			if m == nil {
				return true
			}
			e := entry{at: placeOf(last(k)), m: m, d: m.Main()}
			switch {
			case q.Sent:
			case box == q.Who:
				if e.d = m.deliveryFor(q.Who); e.d == nil {
					return true // it took it, and it went back
				}
			default:
				if e.d = m.Delivery(box); e.d == nil || !e.d.Waits() || m.Author.ID == q.Who {
					return true
				}
			}
			state := e.d.State
			if m.Deleted != nil {
				state = events.StateDeleted
			}
			if q.State == "" || q.State == state {
				found = append(found, e)
				n++
			}
			return n <= q.Limit
		})
	}
	slices.SortFunc(found, func(a, b entry) int { return int(b.at - a.at) })
	found = slices.CompactFunc(found, func(a, b entry) bool { return a.at == b.at })
	if len(found) > q.Limit {
		found = found[:q.Limit]
		v.NextCursor = q.Cursor(found[q.Limit-1].at)
	}
	for _, e := range found {
		v.Messages = append(v.Messages, s.Show(e.m, e.d, bodies))
	}
	return v
}

// deliveryFor is the copy that somebody was addressed with, or took.
func (m *Message) deliveryFor(p events.Participant) *Delivery {
	if d := m.Delivery(p); d != nil {
		return d
	}
	for i := range m.Deliveries {
		if m.Deliveries[i].To == p {
			return &m.Deliveries[i]
		}
	}
	return nil
}

// Mailboxes lists those that a participant takes from: its own, and for a
// session that of the seat that it occupies and that of its person.
func (s *State) Mailboxes(who events.Participant) []events.Participant {
	boxes := []events.Participant{who}
	row := s.Session(who.Session())
	if row == nil {
		return boxes
	}
	if seat := s.SeatOf(row); seat != "" {
		boxes = append(boxes, events.Named(seat))
	}
	if row.Person != "" {
		boxes = append(boxes, events.Named(row.Person))
	}
	return boxes
}
