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
)

// Types lists every type that this program writes, in the order above.
func Types() []Type {
	return []Type{
		TypeSessionJoined, TypeSessionLeft, TypeSeatTaken, TypeSeatLeft,
		TypeMessageSent, TypeMessageEdited, TypeMessageDeleted, TypeMessageExpired, TypeMessageUndelivered,
		TypeTurnFlipped, TypeThreadDone, TypeCommandRefused,
		TypeMailboxLeased, TypeMailboxConfirmed, TypeMailboxTaken, TypeMailboxReturned, TypeLeaseExpired,
		TypeInstructionLeased, TypeInstructionConfirmed, TypePolicyAdopted,
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

func (SessionJoined) event()        {}
func (SessionLeft) event()          {}
func (SeatTaken) event()            {}
func (SeatLeft) event()             {}
func (MessageSent) event()          {}
func (MessageEdited) event()        {}
func (MessageDeleted) event()       {}
func (MessageExpired) event()       {}
func (MessageUndelivered) event()   {}
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
