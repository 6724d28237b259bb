package commands

import (
	"slices"
	"strings"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// Edit asks for an own message to say something else, or to become final.
type Edit struct {
	Call
	Message string // its id, or a unique prefix
	Body    []byte // nil: as it is
	Turn    string // empty: as it is
}

// Decide admits the edit or refuses it. Only the author edits; a message that
// is final never becomes working again: new work is a new message.
func (c Edit) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	turn := events.Turn(strings.ToLower(strings.TrimSpace(c.Turn)))
	switch turn {
	case "", events.Working, events.Final:
	default:
		return nil, refuse(BadRequest, "the turn %q is none of working, final", c.Turn).example(`decklog edit MESSAGE --turn final -- "text"`)
	}
	var text []byte
	var masked []events.Masked
	if c.Body != nil {
		if !utf8.Valid(c.Body) {
			return nil, refuse(BadRequest, "the body has bytes that are not UTF-8, the first at byte %d", firstInvalid(c.Body)).example(`decklog edit MESSAGE -- "text"`)
		}
		if text = Clean(c.Body); !hopeless(text, p.Limits.BodyBytes) {
			text, masked = Mask(text)
		}
		if strings.TrimSpace(string(text)) == "" {
			return nil, refuse(BadRequest, "the body is blank").fix("write the new text, or take the message back with `decklog delete`").example("decklog delete MESSAGE")
		}
		if max := p.Limits.BodyBytes; max > 0 && len(text) > max {
			return nil, refuse(BadRequest, "the body takes %d bytes; at most %d", len(text), max).
				fix("keep what must be acted on; the message stays as it was").example(`decklog edit MESSAGE -- "the point in one line"`)
		}
	} else if turn == "" {
		return nil, refuse(BadRequest, "the edit changes neither the body nor the turn").
			fix("give the new text after --, or --turn final").example(`decklog edit MESSAGE --turn final -- "the answer"`)
	}
	m, author, r := c.Call.own(s, c.Message, now, p)
	if r != nil {
		return nil, r
	}
	if turn == events.Working && m.Turn == events.Final {
		return nil, refuse(TurnFinal, "message %s is final", m.ID).naming(m.ID, m.Thread).
			example(`decklog send --reply-to %s --turn working -- "I am on it."`, m.ID)
	}
	var out []events.Proposed
	add := func(e events.Event, b *events.Body) {
		out = append(out, events.Proposed{
			Stream: events.ThreadStream(m.Thread), ID: c.ID.Event(len(out)), Actor: author.ID,
			Cause: events.Cause{Command: c.ID, Event: m.Bodies[0]}, Event: e, Body: b,
		})
	}
	if text != nil {
		body := events.Body{Salt: c.Salt, Text: text}
		add(events.MessageEdited{Message: m.ID, Thread: m.Thread, Body: body.Commit(), Masked: masked}, &body)
	}
	if turn == events.Final && m.Turn == events.Working {
		add(events.TurnFlipped{Message: m.ID, Thread: m.Thread, Turn: events.Final}, nil)
		for _, back := range c.returned(s, m, now) {
			out = append(out, events.Proposed{
				Stream: events.MailboxStream(back.Mailbox), ID: c.ID.Event(len(out)), Actor: author.ID,
				Cause: events.Cause{Command: c.ID, Event: c.ID.Event(len(out) - 1)}, Event: back,
			})
		}
	}
	return out, nil
}

// returned is what goes back to a seat or a person when a stub turns final that
// a session took and was shown, and that session is live no more: the next one
// is offered the answer.
func (c Edit) returned(s *projections.State, m *projections.Message, now events.Time) (back []events.MailboxReturned) {
	for _, d := range m.Deliveries {
		if !d.Arrived() || !d.AsStub || d.At == d.To || c.live(s.Session(d.At.Session()), now) {
			continue
		}
		back = append(back, events.MailboxReturned{
			Mailbox: d.To, Session: d.At.Session(), Items: []events.Moved{{Message: m.ID, Thread: m.Thread}},
		})
	}
	return back
}

// Delete asks for an own message to be taken back: its text goes, what happened
// stays.
type Delete struct {
	Call
	Message string
}

// Decide admits the deletion or refuses it.
func (c Delete) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	m, author, r := c.Call.own(s, c.Message, now, p)
	if r != nil {
		return nil, r
	}
	bodies := m.Bodies
	if m.Payload != "" {
		bodies = append(slices.Clip(bodies), m.Payload)
	}
	return []events.Proposed{{
		Stream: events.ThreadStream(m.Thread), ID: c.ID.Event(0), Actor: author.ID,
		Cause: events.Cause{Command: c.ID, Event: m.Bodies[0]},
		Event: events.MessageDeleted{Message: m.ID, Thread: m.Thread, Bodies: bodies}, Drops: bodies,
	}}, nil
}

// own finds a message that the caller wrote and did not delete.
func (c Call) own(s *projections.State, id string, now events.Time, p events.Policy) (*projections.Message, events.Author, *Refusal) {
	if !c.Caller.Known() {
		return nil, events.Author{}, c.nobody("who is asking")
	}
	author, live := c.author(s, now, p)
	if !live {
		return nil, author, NotLive(s, c, now)
	}
	m, r := FindMessage(s, id)
	if r != nil {
		return nil, author, r
	}
	if !projections.Same(m.Author, author) {
		return nil, author, refuse(NotYours, "message %s was written by %s", m.ID, m.Author.ID).naming(m.ID, m.Thread).
			example(`decklog send --reply-to %s -- "text"`, m.ID)
	}
	if m.Deleted != nil {
		return nil, author, refuse(NotFound, "message %s was deleted at %s", m.ID, *m.Deleted).naming(m.ID, m.Thread).
			fix("send a new message").example(`decklog send --to SESSION -- "text"`)
	}
	return m, author, nil
}
