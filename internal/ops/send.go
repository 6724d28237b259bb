package ops

import (
	"fmt"
	"slices"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// SendRequest is a message to be sent, as its sender wrote it.
type SendRequest struct {
	Asker
	To      string   `json:"to,omitempty"`
	ReplyTo string   `json:"reply_to,omitempty"`
	Intent  string   `json:"intent,omitempty"`
	Turn    string   `json:"turn,omitempty"`
	Key     string   `json:"key,omitempty"`
	Body    Text     `json:"body"`
	Refs    []string `json:"refs,omitempty"`
	Over    bool     `json:"over,omitempty"` // answer although another's answer is pending
}

// Send sends a message. The same command id, or the same key of the same
// sender, gets the first receipt again.
func (o *Ops) Send(q SendRequest) (receipt commands.SendReceipt, refused *commands.Refusal, err error) {
	q.checksFirst = true
	refused, err = o.update("send", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if q.Key != "" && u.call.Caller.Known() {
			u.call.ID = events.KeyedCommand(u.call.Caller.ID, q.Key)
		}
		return u.send(&receipt, commands.Send{
			Call: u.call, To: q.To, ReplyTo: q.ReplyTo, Intent: q.Intent, Turn: q.Turn, Body: q.Body, Refs: q.Refs, Key: q.Key, Over: q.Over,
		})
	})
	return receipt, refused, err
}

// send sends a message, or gives the receipt of the one that this command sent before.
func (u *unit) send(receipt *commands.SendReceipt, c commands.Send) (*commands.Refusal, error) {
	if err := u.sweep(c.Caller.ID); err != nil {
		return nil, err
	}
	recorded, err := u.again()
	if err != nil {
		return nil, err
	}
	if len(recorded) > 0 {
		first, is := recorded[0].Event.(events.MessageSent)
		if !is {
			return usedBefore(), nil
		}
		c.Earlier = &first
		if c.EarlierBody, err = u.body(recorded[0].ID); err != nil {
			return nil, err
		}
		if c.EarlierPayload, err = u.payload(recorded); err != nil {
			return nil, err
		}
	}
	var failed error
	c.Alike = func(f events.Fingerprint) (events.MessageID, bool) {
		var id events.MessageID
		id, failed = u.alike(f)
		return id, id != ""
	}
	c.PayloadOf = func(id events.MessageID) (payload []byte) {
		payload, failed = u.payloadOf(id)
		return payload
	}
	proposed, r := c.Decide(u.s, u.now, u.policy.Policy)
	if failed != nil || r != nil {
		return r, failed
	}
	if len(recorded) == 0 {
		if recorded, err = u.append(proposed); err != nil {
			return nil, err
		}
	}
	closes := len(recorded) > 1 && recorded[1].Type() == events.TypeThreadDone
	*receipt = commands.ReceiptOf(recorded[0].Event.(events.MessageSent), recorded[0], closes)
	u.places(&receipt.Position)
	return nil, nil
}

// body is what lies beside an event; nil when it is gone.
func (u *unit) body(id events.EventID) (*events.Body, error) {
	body, there, err := u.tx.Body(id)
	if err != nil || !there {
		return nil, err
	}
	return &body, nil
}

// alike finds the latest message whose body has a fingerprint; empty when there is none.
func (u *unit) alike(f events.Fingerprint) (events.MessageID, error) {
	event, found, err := u.tx.Alike(f)
	if err != nil || !found {
		return "", err
	}
	r, found, err := u.tx.Event(event)
	if err != nil || !found {
		return "", err
	}
	if sent, is := r.Event.(events.MessageSent); is {
		return sent.Message, nil
	}
	return "", nil
}

func usedBefore() *commands.Refusal {
	return commands.Refuse(commands.KeyReused, "this command's id was used before, for another command")
}

// decider is what edit, delete, join, leave and the rest have in common.
type decider interface {
	Decide(*projections.State, events.Time, events.Policy) ([]events.Proposed, *commands.Refusal)
}

// run records what a decider decides, unless its command was admitted before,
// and gives what it recorded, then or now; nothing when nothing changed. begins
// are the types that its first event may have: a command's id that recorded
// another was used for another command.
func (u *unit) run(d decider, begins ...events.Type) ([]events.Recorded, *commands.Refusal, error) {
	recorded, err := u.again()
	if err != nil {
		return nil, nil, err
	}
	if len(recorded) > 0 {
		if !slices.Contains(begins, recorded[0].Type()) {
			return nil, usedBefore(), nil
		}
		return recorded, nil, nil
	}
	proposed, r := d.Decide(u.s, u.now, u.policy.Policy)
	if r != nil || len(proposed) == 0 {
		return nil, r, u.s.Err()
	}
	recorded, err = u.append(proposed)
	return recorded, nil, err
}

func (u *unit) receipt(id string, recorded []events.Recorded) (Receipt, error) {
	if len(recorded) > 0 {
		return Receipt{ID: id, Position: recorded[len(recorded)-1].Position}, nil
	}
	end, err := u.tx.End()
	return Receipt{ID: id, Position: end}, err
}

// EditRequest is another text for an own message, or its turn.
type EditRequest struct {
	Asker
	Message string `json:"message,omitempty"`
	Body    Text   `json:"body"` // nil: as it is
	Turn    string `json:"turn,omitempty"`
}

// EditReceipt says what an edit did.
type EditReceipt struct {
	Receipt
	Thread events.ThreadID `json:"thread"`
	Turn   events.Turn     `json:"turn"`
	Masked []events.Masked `json:"masked"`
}

// Edit changes an own message.
func (o *Ops) Edit(q EditRequest) (receipt EditReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("edit", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if err := u.sweep(u.call.Caller.ID); err != nil {
			return nil, err
		}
		recorded, r, err := u.run(commands.Edit{Call: u.call, Message: q.Message, Body: q.Body, Turn: q.Turn}, events.TypeMessageEdited, events.TypeTurnFlipped)
		if r != nil || err != nil {
			return r, err
		}
		m, r := commands.FindMessage(u.s, q.Message)
		if r != nil {
			return r, nil
		}
		receipt = EditReceipt{Thread: m.Thread, Turn: m.Turn, Masked: []events.Masked{}}
		for _, e := range recorded {
			if edited, is := e.Event.(events.MessageEdited); is && edited.Masked != nil {
				receipt.Masked = edited.Masked
			}
		}
		receipt.Receipt, err = u.receipt(string(m.ID), recorded)
		return nil, err
	})
	return receipt, refused, err
}

// DeleteRequest takes an own message back.
type DeleteRequest struct {
	Asker
	Message string `json:"message,omitempty"`
}

// Delete takes an own message back: its text goes, its events stay.
func (o *Ops) Delete(q DeleteRequest) (receipt Receipt, refused *commands.Refusal, err error) {
	refused, err = o.update("delete", q.Asker, func(u *unit) (*commands.Refusal, error) {
		recorded, r, err := u.run(commands.Delete{Call: u.call, Message: q.Message}, events.TypeMessageDeleted)
		if r != nil || err != nil {
			return r, err
		}
		if len(recorded) == 0 {
			return nil, fmt.Errorf("delete message %s: nothing was recorded", q.Message)
		}
		deleted, is := recorded[0].Event.(events.MessageDeleted)
		if !is {
			return nil, fmt.Errorf("delete message %s: recorded as %T", q.Message, recorded[0].Event)
		}
		receipt, err = u.receipt(string(deleted.Message), recorded)
		return nil, err
	})
	return receipt, refused, err
}
