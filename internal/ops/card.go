package ops

import (
	"decklog/commands"
	"decklog/events"
)

// CardRequest says where the driven work of a thread stands.
type CardRequest struct {
	Asker
	Thread  string `json:"thread,omitempty"`
	Subject Text   `json:"subject"`        // blank: as the card says
	Work    string `json:"work,omitempty"` // blank: as the card says
	Status  string `json:"status,omitempty"`
}

// CardReceipt says what the card says now. Its id is that of the card's message.
type CardReceipt struct {
	Receipt
	Thread events.ThreadID   `json:"thread"`
	Driver string            `json:"driver"`
	Work   string            `json:"work"`
	Status events.CardStatus `json:"status"`
	Posted bool              `json:"posted"` // it is new; else it was edited
}

// Card posts the driver card of a thread, or edits it.
func (o *Ops) Card(q CardRequest) (receipt CardReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("card", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if err := u.sweep(u.call.Caller.ID); err != nil {
			return nil, err
		}
		var failed error
		text := func(id events.EventID) []byte {
			body, err := u.body(id)
			if failed = err; body == nil {
				return nil
			}
			return body.Text
		}
		recorded, r, err := u.runAbout(q.Thread, commands.Card{
			Call: u.call, Thread: q.Thread, Subject: q.Subject, Work: q.Work, Status: q.Status, Text: text,
		}, events.TypeMessageSent, events.TypeMessageEdited)
		if failed != nil {
			return nil, failed
		}
		if r != nil || err != nil {
			return r, err
		}
		id, card, posted := cardOf(recorded)
		if card == nil {
			return usedBefore(), nil
		}
		receipt = CardReceipt{
			Thread: recorded[0].Stream.Thread(), Driver: card.Driver, Work: card.Work, Status: card.Status, Posted: posted,
		}
		receipt.Receipt, err = u.receipt(string(id), recorded)
		return nil, err
	})
	return receipt, refused, err
}

// cardOf is the card that was posted or updated; nil: none was.
func cardOf(recorded []events.Recorded) (id events.MessageID, card *events.Card, posted bool) {
	for _, r := range recorded {
		switch e := r.Event.(type) {
		case events.CardPosted:
			return e.Message, &e.Card, true
		case events.CardUpdated:
			return e.Message, &e.Card, false
		}
	}
	return "", nil, false
}
