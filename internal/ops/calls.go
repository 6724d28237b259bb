package ops

import (
	"fmt"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/render"
	"decklog/projections"
)

// LeasedCall is a call as the lease offers it: something that its recipient is
// told of and that is no message.
type LeasedCall struct {
	Event    events.EventID     `json:"event"`
	What     events.Type        `json:"what"` // the event's type
	Thread   events.ThreadID    `json:"thread"`
	Item     string             `json:"item"` // that is owed, where it is about one
	Kind     string             `json:"kind"` // of the item
	To       events.Participant `json:"to"`   // the mailbox that it lay in
	Who      events.Participant `json:"who"`  // the other side: who offers, answered, or holds the item
	By       *events.Time       `json:"by"`   // when the item is due
	Says     string             `json:"says"`
	Text     string             `json:"text"` // what somebody wrote of it
	Commands []string           `json:"commands"`
	Attempt  int                `json:"attempt"`
}

func leasedCall(c render.Call) LeasedCall {
	v := LeasedCall{
		Event: c.Event, What: c.What, Thread: c.Thread, To: c.To, Who: c.From, Says: c.Says(), Text: c.Text,
		Commands: c.Commands(), Attempt: c.Attempt,
	}
	if len(c.Items) == 1 {
		v.Item, v.Kind, v.By = c.Items[0].ID, string(c.Items[0].Kind), c.Items[0].Due
	}
	return v
}

// callOf joins a call with its event, with the items that it is about as they
// stand, and with what somebody wrote of it.
func (u *unit) callOf(it commands.OfferItem) (c render.Call, err error) {
	r, found, err := u.tx.Event(it.Call.Event)
	if err != nil {
		return c, err
	}
	t := u.s.Thread(it.Call.Thread)
	if !found || t == nil {
		return c, fmt.Errorf("read event %s of a call: %w", it.Call.Event, events.ErrDamaged)
	}
	c = render.Call{What: r.Type(), Event: r.ID, Thread: t.ID, To: it.Call.Mailbox, By: r.Actor, Attempt: it.Attempt}
	var written *events.EventID // beside which it lies what somebody wrote
	switch e := r.Event.(type) {
	case events.HandoffOffered:
		c.From, written = events.Named(e.From), &r.ID
		c.Items = u.owedItems(t, string(e.Handoff))
	case events.HandoffDeclined:
		if e.Reason != nil {
			written = &r.ID
		}
	case events.HandoffClosed:
		c.Reason = string(e.Reason)
	case events.RoutingJudged:
		c.From = events.Named(e.To)
	case events.OwedPassed:
		c.From = events.Named(e.From)
		c.Items = u.owedItems(t, e.Items...)
	case events.OwedNudged:
		c.Nudge, c.By = e.Nudge, "" // whoever noticed
		c.Items = u.owedItems(t, e.Item)
		if len(c.Items) > 0 {
			c.From = c.Items[0].Creditor
		}
		if h := t.Handoff(events.HandoffID(e.Item)); h != nil && h.State == projections.HandoffIsOffered {
			c.Link, written = h.Link, &h.Event // the reminder stands for the offer, which may not have been seen
		}
	case events.OwedPaged:
		c.From, c.Reason, c.By = e.Debtor, string(e.Reason), ""
		c.Items = u.owedItems(t, e.Item)
		if len(c.Items) > 0 {
			c.From = u.debtor(t, e.Item) // who holds it now
		}
	case events.OwedClosed:
		if e.Reason != nil {
			written = &r.ID
		}
	case events.ReviewLabelled:
		c.Review, c.Label, c.Risk, c.Clears = e.Review, e.Label, e.Risk, e.Clears
		if v := t.Review(e.Review); v != nil {
			c.From, c.Commit = events.Named(v.Reviewer), v.Commit
		}
	}
	if h := t.Handoff(projections.HandoffOf(r.Event)); h != nil {
		c.Handoff, c.Link = h.ID, h.Link
		if c.From == "" {
			c.From = other(h, c.To)
		}
	}
	if written != nil {
		body, there, err := u.tx.Body(*written)
		if err != nil {
			return c, err
		}
		c.Text, c.Redacted = string(body.Text), !there
	}
	return c, nil
}

// other is the seat of a hand-off that the one told is not.
func other(h *projections.Handoff, told events.Participant) events.Participant {
	if told == events.Named(h.From) {
		return events.Named(h.To)
	}
	return events.Named(h.From)
}

// owedItems are those of the items that are still open.
func (u *unit) owedItems(t *projections.Thread, ids ...string) (items []render.CallItem) {
	for _, id := range ids {
		for _, o := range t.Owed {
			if o.ID != id {
				continue
			}
			h := t.Handoff(events.HandoffID(id))
			items = append(items, render.CallItem{
				ID: o.ID, Kind: o.Kind, Offered: h != nil && h.State == projections.HandoffIsOffered,
				Creditor: o.Creditor, Since: o.Since, Due: o.Due,
			})
		}
	}
	return items
}

func (u *unit) debtor(t *projections.Thread, id string) events.Participant {
	for _, o := range t.Owed {
		if o.ID == id {
			return o.Debtor
		}
	}
	return ""
}
