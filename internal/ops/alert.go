package ops

import (
	"decklog/commands"
	"decklog/events"
)

// AlertRequest is an alert of a bot or a person.
type AlertRequest struct {
	Asker
	Channel string `json:"channel,omitempty"`
	Body    Text   `json:"body"`
	Payload Text   `json:"payload"` // what came with it; may be left out
}

// Alert begins a thread with an alert: it goes to the channel's triager, and to
// the seat that will drive.
func (o *Ops) Alert(q AlertRequest) (receipt commands.SendReceipt, refused *commands.Refusal, err error) {
	q.checksFirst, q.bots = true, true
	refused, err = o.update("alert", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.send(&receipt, commands.Send{
			Call: u.call, Kind: events.KindAlert, Channel: q.Channel, Body: q.Body, Payload: q.Payload,
		})
	})
	return receipt, refused, err
}

// payload is what the command attached that recorded these events: nil when it
// is gone, and without text when there was none.
func (u *unit) payload(recorded []events.Recorded) (*events.Body, error) {
	for _, r := range recorded {
		if _, is := r.Event.(events.PayloadAttached); is {
			return u.body(r.ID)
		}
	}
	return &events.Body{}, nil
}

// payloadOf is what came with an alert.
func (u *unit) payloadOf(id events.MessageID) ([]byte, error) {
	m := u.s.Message(id)
	if m == nil || m.Payload == "" {
		return nil, nil
	}
	body, err := u.body(m.Payload)
	if err != nil || body == nil {
		return nil, err
	}
	return body.Text, nil
}
