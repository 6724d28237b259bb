package events

import "encoding/json"

// Type names a kind of event on the wire. Names are frozen and never Go's names.
type Type string

// The types, each documented beside its Go type.
const (
	TypeSessionJoined        Type = "session.joined"
	TypeSessionLeft          Type = "session.left"
	TypeSeatTaken            Type = "seat.taken"
	TypeSeatLeft             Type = "seat.left"
	TypeMessageSent          Type = "message.sent"
	TypeMessageEdited        Type = "message.edited"
	TypeMessageDeleted       Type = "message.deleted"
	TypeMessageExpired       Type = "message.expired"
	TypeMessageUndelivered   Type = "message.undelivered"
	TypeMessageRead          Type = "message.read"
	TypeTurnFlipped          Type = "turn.flipped"
	TypeThreadDone           Type = "thread.done"
	TypeCommandRefused       Type = "command.refused"
	TypeMailboxLeased        Type = "mailbox.leased"
	TypeMailboxConfirmed     Type = "mailbox.confirmed"
	TypeMailboxTaken         Type = "mailbox.taken"
	TypeMailboxReturned      Type = "mailbox.returned"
	TypeLeaseExpired         Type = "lease.expired"
	TypeInstructionLeased    Type = "instruction.leased"
	TypeInstructionConfirmed Type = "instruction.confirmed"
	TypePolicyAdopted        Type = "policy.adopted"
	TypePayloadAttached      Type = "payload.attached"
	TypeAckPlaced            Type = "ack.placed"
	TypeStickerPlaced        Type = "sticker.placed"
	TypeStickerRemoved       Type = "sticker.removed"
	TypeHandoffOffered       Type = "handoff.offered"
	TypeHandoffAccepted      Type = "handoff.accepted"
	TypeHandoffDeclined      Type = "handoff.declined"
	TypeHandoffClosed        Type = "handoff.closed"
	TypeRoutingJudged        Type = "routing.judged"
	TypeRoutingUndone        Type = "routing.undone"
	TypeOwedPassed           Type = "owed.passed"
	TypeOwedClosed           Type = "owed.closed"
	TypeOwedNudged           Type = "owed.nudged"
	TypeOwedPaged            Type = "owed.paged"
	TypeReviewAsked          Type = "review.asked"
	TypeReviewLabelled       Type = "review.labelled"
	TypeCardPosted           Type = "card.posted"
	TypeCardUpdated          Type = "card.updated"
	TypeDriverMoved          Type = "driver.moved"
	TypeReviewTimedOut       Type = "review.timed_out"
	TypeSeatAbsent           Type = "seat.absent"
	TypeSeatReturned         Type = "seat.returned"
)

// Types lists every type that this program writes, in the order above.
func Types() []Type {
	return []Type{
		TypeSessionJoined, TypeSessionLeft, TypeSeatTaken, TypeSeatLeft,
		TypeMessageSent, TypeMessageEdited, TypeMessageDeleted, TypeMessageExpired, TypeMessageUndelivered, TypeMessageRead,
		TypeTurnFlipped, TypeThreadDone, TypeCommandRefused,
		TypeMailboxLeased, TypeMailboxConfirmed, TypeMailboxTaken, TypeMailboxReturned, TypeLeaseExpired,
		TypeInstructionLeased, TypeInstructionConfirmed, TypePolicyAdopted,
		TypePayloadAttached, TypeAckPlaced, TypeStickerPlaced, TypeStickerRemoved,
		TypeHandoffOffered, TypeHandoffAccepted, TypeHandoffDeclined, TypeHandoffClosed,
		TypeRoutingJudged, TypeRoutingUndone, TypeOwedPassed, TypeOwedClosed, TypeOwedNudged, TypeOwedPaged,
		TypeReviewAsked, TypeReviewLabelled, TypeReviewTimedOut, TypeCardPosted, TypeCardUpdated, TypeDriverMoved, TypeSeatAbsent, TypeSeatReturned,
	}
}

// Event is a fact that happened. The types in this package are all there are;
// what a newer program wrote decodes as Unknown.
type Event interface {
	EventType() Type
	event()
}

// Unknown is an event of a type or version that this program does not know. It
// is kept and shown as it is stored, and skipped by every fold.
type Unknown struct {
	Type    Type
	Version int
	Data    json.RawMessage
}

func (u Unknown) EventType() Type { return u.Type }
func (Unknown) event()            {}

func (SessionJoined) EventType() Type        { return TypeSessionJoined }
func (SessionLeft) EventType() Type          { return TypeSessionLeft }
func (SeatTaken) EventType() Type            { return TypeSeatTaken }
func (SeatLeft) EventType() Type             { return TypeSeatLeft }
func (MessageSent) EventType() Type          { return TypeMessageSent }
func (MessageEdited) EventType() Type        { return TypeMessageEdited }
func (MessageDeleted) EventType() Type       { return TypeMessageDeleted }
func (MessageExpired) EventType() Type       { return TypeMessageExpired }
func (MessageUndelivered) EventType() Type   { return TypeMessageUndelivered }
func (MessageRead) EventType() Type          { return TypeMessageRead }
func (TurnFlipped) EventType() Type          { return TypeTurnFlipped }
func (ThreadDone) EventType() Type           { return TypeThreadDone }
func (CommandRefused) EventType() Type       { return TypeCommandRefused }
func (MailboxLeased) EventType() Type        { return TypeMailboxLeased }
func (MailboxConfirmed) EventType() Type     { return TypeMailboxConfirmed }
func (MailboxTaken) EventType() Type         { return TypeMailboxTaken }
func (MailboxReturned) EventType() Type      { return TypeMailboxReturned }
func (LeaseExpired) EventType() Type         { return TypeLeaseExpired }
func (InstructionLeased) EventType() Type    { return TypeInstructionLeased }
func (InstructionConfirmed) EventType() Type { return TypeInstructionConfirmed }
func (PolicyAdopted) EventType() Type        { return TypePolicyAdopted }
func (PayloadAttached) EventType() Type      { return TypePayloadAttached }
func (AckPlaced) EventType() Type            { return TypeAckPlaced }
func (StickerPlaced) EventType() Type        { return TypeStickerPlaced }
func (StickerRemoved) EventType() Type       { return TypeStickerRemoved }
func (HandoffOffered) EventType() Type       { return TypeHandoffOffered }
func (HandoffAccepted) EventType() Type      { return TypeHandoffAccepted }
func (HandoffDeclined) EventType() Type      { return TypeHandoffDeclined }
func (HandoffClosed) EventType() Type        { return TypeHandoffClosed }
func (RoutingJudged) EventType() Type        { return TypeRoutingJudged }
func (RoutingUndone) EventType() Type        { return TypeRoutingUndone }
func (OwedPassed) EventType() Type           { return TypeOwedPassed }
func (OwedClosed) EventType() Type           { return TypeOwedClosed }
func (OwedNudged) EventType() Type           { return TypeOwedNudged }
func (OwedPaged) EventType() Type            { return TypeOwedPaged }
func (ReviewAsked) EventType() Type          { return TypeReviewAsked }
func (ReviewLabelled) EventType() Type       { return TypeReviewLabelled }
func (SeatAbsent) EventType() Type           { return TypeSeatAbsent }
func (SeatReturned) EventType() Type         { return TypeSeatReturned }
func (CardPosted) EventType() Type           { return TypeCardPosted }
func (CardUpdated) EventType() Type          { return TypeCardUpdated }
func (DriverMoved) EventType() Type          { return TypeDriverMoved }
func (ReviewTimedOut) EventType() Type       { return TypeReviewTimedOut }

func (SessionJoined) event()        {}
func (SessionLeft) event()          {}
func (SeatTaken) event()            {}
func (SeatLeft) event()             {}
func (MessageSent) event()          {}
func (MessageEdited) event()        {}
func (MessageDeleted) event()       {}
func (MessageExpired) event()       {}
func (MessageUndelivered) event()   {}
func (MessageRead) event()          {}
func (TurnFlipped) event()          {}
func (ThreadDone) event()           {}
func (CommandRefused) event()       {}
func (MailboxLeased) event()        {}
func (MailboxConfirmed) event()     {}
func (MailboxTaken) event()         {}
func (MailboxReturned) event()      {}
func (LeaseExpired) event()         {}
func (InstructionLeased) event()    {}
func (InstructionConfirmed) event() {}
func (PolicyAdopted) event()        {}
func (PayloadAttached) event()      {}
func (AckPlaced) event()            {}
func (StickerPlaced) event()        {}
func (StickerRemoved) event()       {}
func (HandoffOffered) event()       {}
func (HandoffAccepted) event()      {}
func (HandoffDeclined) event()      {}
func (HandoffClosed) event()        {}
func (RoutingJudged) event()        {}
func (RoutingUndone) event()        {}
func (OwedPassed) event()           {}
func (OwedClosed) event()           {}
func (OwedNudged) event()           {}
func (OwedPaged) event()            {}
func (ReviewAsked) event()          {}
func (ReviewLabelled) event()       {}
func (SeatAbsent) event()           {}
func (SeatReturned) event()         {}
func (CardPosted) event()           {}
func (CardUpdated) event()          {}
func (DriverMoved) event()          {}
func (ReviewTimedOut) event()       {}
