package commands

import (
	"decklog/events"
)

// SendReceipt is what a sender is answered: that the message is recorded, whom
// it goes to and what that is known by. It is a function of the event alone, so
// that the same command always gets the same answer. It is no reply.
type SendReceipt struct {
	ID       events.MessageID     `json:"id"`
	Thread   events.ThreadID      `json:"thread"`
	Position events.Position      `json:"position"`
	From     events.Participant   `json:"from"` // whom it was sent as
	To       ReceiptTo            `json:"to"`
	State    events.DeliveryState `json:"state"`
	Sent     events.Time          `json:"sent"`
	Expires  events.Time          `json:"expires"`
	Masked   []events.Masked      `json:"masked"`
	Arrives  events.Arrival       `json:"arrives"`
	Next     string               `json:"next"` // of a request; else empty
	Says     string               `json:"says"`
	ResendOf events.MessageID     `json:"resend_of,omitempty"`
	Closes   bool                 `json:"closes,omitempty"`
}

// ReceiptTo is the recipient, with the evidence of its presence and how old that is.
type ReceiptTo struct {
	ID            events.Participant     `json:"id"`
	Kind          events.ParticipantKind `json:"kind"`
	Session       events.SessionID       `json:"session,omitempty"`
	Live          bool                   `json:"live"`
	Busy          bool                   `json:"busy"`
	Evidence      string                 `json:"evidence"`
	EvidenceAgeMS *int64                 `json:"evidence_age_ms"`
}

// ReceiptOf makes the receipt of a recorded message.
func ReceiptOf(e events.MessageSent, r events.Recorded, closes bool) SendReceipt {
	state := events.StateQueued
	if len(e.Deliveries) > 0 {
		state = e.Deliveries[0].State
	}
	if e.To.Kind == events.KindBot {
		state = events.StateDelivered
	}
	masked := e.Masked
	if masked == nil {
		masked = []events.Masked{}
	}
	return SendReceipt{
		ID: e.Message, Thread: e.Thread, Position: r.Position, From: e.Author.ID,
		To: ReceiptTo{
			ID: e.To.ID, Kind: e.To.Kind, Session: e.Evidence.Session, Live: e.Evidence.Live, Busy: e.Evidence.Busy,
			Evidence: e.Evidence.Says, EvidenceAgeMS: e.Evidence.AgeMS,
		},
		State: state, Sent: r.Time, Expires: e.Expires, Masked: masked, Arrives: e.Arrives,
		Next: next(e), Says: says(e, closes), ResendOf: e.ResendOf, Closes: closes,
	}
}

// next says what to do now: keep working, wait for so long, or tell the user
// that the question is asked; a person is told where the answer will lie. Only a
// request has something to wait for.
func next(e events.MessageSent) string {
	if e.Intent != events.Request {
		return ""
	}
	switch e.Arrives {
	case events.ArrivesNextToolCall:
		return "The recipient is at work and sees it at its next tool call: keep working, or wait at most two minutes with `decklog wait " + string(e.Message) + " --timeout 120s`."
	case events.ArrivesWhenFinal:
		return "It is held until you make it final with `decklog edit " + string(e.Message) + " --turn final -- TEXT`."
	case events.ArrivesOnlyIfResumed:
		return "The recipient is not running, and sees it only if somebody resumes it: ask another session, unless that is expected."
	}
	if e.Author.Kind == events.KindPerson {
		return "The answer lies in your inbox: `decklog inbox`, or wait for it with `decklog wait " + string(e.Message) + "`."
	}
	return "Do not wait for the answer: tell your user that the question is asked, and go on. The answer comes into your context by itself."
}

// says tells what the receipt is worth.
func says(e events.MessageSent, closes bool) string {
	switch {
	case e.Intent == events.Done && closes:
		return "Recorded, and the thread is closed. A receipt is no reply, and done is a declaration: it verifies nothing."
	case e.Intent == events.Done:
		return "Recorded; what it answers is closed. A receipt is no reply, and done is a declaration: it verifies nothing."
	}
	return "Recorded. A receipt is no reply."
}
