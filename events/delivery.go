package events

// ItemKind is what lies in a mailbox.
type ItemKind string

// The kinds of item.
const (
	ItemMessage ItemKind = "message"
	// ItemNotice tells a sender that its message was lost.
	ItemNotice ItemKind = "notice"
	// ItemCall tells a participant of something that is no message: a hand-off
	// that it was offered, an item that it owes, a call to an owner.
	ItemCall ItemKind = "call"
)

// LostReason is why a message was not delivered.
type LostReason string

// The reasons.
const (
	LostUnconfirmed  LostReason = "unconfirmed"   // three leases ended without a confirm
	LostSessionEnded LostReason = "session_ended" // the session ended and was not resumed in time
	LostExpired      LostReason = "expired"       // nobody took it within its time
)

// Leased is one item of a lease.
type Leased struct {
	Kind    ItemKind  `json:"kind"`
	Message MessageID `json:"message,omitempty"`
	Call    EventID   `json:"call,omitempty"` // of a call: the event that it tells of
	Thread  ThreadID  `json:"thread"`
	// Attempt counts the leases of this item, this one included. Over 1 the
	// recipient may have seen it before.
	Attempt int        `json:"attempt"`
	Pending bool       `json:"pending,omitempty"` // a stub past its time: the answer is still to come
	Edited  bool       `json:"edited,omitempty"`  // seen as a stub before, now final
	Reason  LostReason `json:"reason,omitempty"`  // of a notice: why it was lost
	// To is whose delivery a notice is about; of a call, the mailbox that it lies
	// in, where that is a seat's or a person's and not the lease's.
	To Participant `json:"to,omitempty"`
}

// MailboxLeased offers a mailbox's oldest messages to one hook run until a
// deadline. While it runs nobody else is offered them; when it ends unconfirmed
// they are offered again as the next attempt. A lease is not exclusivity: a run
// that was paused may still print what another has printed since. Its id is the
// fencing token that a confirm quotes.
type MailboxLeased struct {
	Lease   LeaseID     `json:"lease"`
	Mailbox Participant `json:"mailbox"`
	Harness string      `json:"harness,omitempty"`
	Hook    string      `json:"hook,omitempty"` // the harness's event that the run answers
	Until   Time        `json:"until"`
	Items   []Leased    `json:"items"`
}

// MailboxConfirmed says that a run printed what it had leased.
type MailboxConfirmed struct {
	Lease   LeaseID     `json:"lease"`
	Mailbox Participant `json:"mailbox"`
	Items   []Leased    `json:"items"`
	Late    bool        `json:"late,omitempty"` // after the deadline, while nobody else had been offered any of it
}

// LeaseExpired says that a lease ended without a confirm, as seen by whoever came next.
type LeaseExpired struct {
	Lease       LeaseID     `json:"lease"`
	Mailbox     Participant `json:"mailbox"`
	Items       []Leased    `json:"items"`
	Instruction bool        `json:"instruction,omitempty"`
}

// InstructionForm is how much of the standing instruction a session is owed.
type InstructionForm string

// The forms.
const (
	FormFull  InstructionForm = "full"
	FormShort InstructionForm = "short" // to a session that had it and lost its context
)

// InstructionLeased offers the standing instruction, before any message.
type InstructionLeased struct {
	Lease   LeaseID         `json:"lease"`
	Mailbox Participant     `json:"mailbox"`
	Version int             `json:"version"` // of the instruction's text
	Form    InstructionForm `json:"form"`
	Attempt int             `json:"attempt"`
	Until   Time            `json:"until"`
}

// InstructionConfirmed says that the instruction was printed.
type InstructionConfirmed struct {
	Lease   LeaseID         `json:"lease"`
	Mailbox Participant     `json:"mailbox"`
	Version int             `json:"version"`
	Form    InstructionForm `json:"form"`
}

// Moved names a message that changed its mailbox.
type Moved struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
}

// MailboxTaken says that a session took messages that were addressed to a seat
// or a person, and lay in its mailbox. One that it had printed already, by
// another copy, is delivered with that.
type MailboxTaken struct {
	Mailbox Participant `json:"mailbox"` // of the seat or person
	Session SessionID   `json:"session"`
	Items   []Moved     `json:"items"`
}

// MailboxReturned says that messages which an ended session had taken and not
// confirmed lie in the mailbox of the seat or person again.
type MailboxReturned struct {
	Mailbox Participant `json:"mailbox"`
	Session SessionID   `json:"session"`
	Items   []Moved     `json:"items"`
}

// MessageExpired says that nobody took a message within its time.
type MessageExpired struct {
	Message MessageID   `json:"message"`
	Thread  ThreadID    `json:"thread"`
	Mailbox Participant `json:"mailbox"`
}

// MessageUndelivered says that a message was given up.
type MessageUndelivered struct {
	Message MessageID   `json:"message,omitempty"`
	Call    EventID     `json:"call,omitempty"` // of a call: the event that it tells of
	Thread  ThreadID    `json:"thread"`
	Mailbox Participant `json:"mailbox"`
	Reason  LostReason  `json:"reason"`
	// Kind is `notice` when what was given up is the telling of a loss, and `call`
	// when it is a call: what it is about stays owed.
	Kind ItemKind `json:"kind"`
	// To is whose delivery a notice is about; empty: that to the addressee.
	To Participant `json:"to,omitempty"`
}

// MessageRead says that a delivered message stands in its recipient's own
// transcript, as context that a hook added: not only was it printed, its harness
// took it. It says nothing of whether a model heeded it.
type MessageRead struct {
	Message MessageID   `json:"message"`
	Thread  ThreadID    `json:"thread"`
	Mailbox Participant `json:"mailbox"` // the session's whose transcript it is
	Lease   LeaseID     `json:"lease"`   // by which it was printed
	Attempt int         `json:"attempt"`
	Harness string      `json:"harness"`
	// Where it stands: the file, the place of the record in it (in bytes; in a
	// database the number of its row), and the id that the harness gave the record.
	Transcript string `json:"transcript"`
	Offset     int64  `json:"offset"`
	Record     string `json:"record,omitempty"`
}
