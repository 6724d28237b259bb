package events

// ParticipantKind is what somebody is.
type ParticipantKind string

// The kinds of participant.
const (
	KindSession ParticipantKind = "session"
	KindSeat    ParticipantKind = "seat"
	KindPerson  ParticipantKind = "person"
	KindBot     ParticipantKind = "bot"
)

// MessageKind is what a message is.
type MessageKind string

// The kinds of message. Mirrors and hand-off lines are only made by a surface
// that shows the thread elsewhere.
const (
	KindMessage     MessageKind = "message"
	KindAlert       MessageKind = "alert"
	KindCard        MessageKind = "card"
	KindMirror      MessageKind = "mirror"
	KindHandoffLine MessageKind = "handoff_line"
	KindReview      MessageKind = "review"
)

// Intent is what a sender expects.
type Intent string

// The intents.
const (
	Request Intent = "request" // an answer
	Inform  Intent = "inform"  // nothing
	Done    Intent = "done"    // nothing more: it closes the thread
)

// Turn is whether a message is finished. An empty one was written by something
// older, and is never waited for.
type Turn string

// The turn states.
const (
	Working Turn = "working"
	Final   Turn = "final"
)

// Author is who wrote a message, with what was known when it was sent.
type Author struct {
	ID      Participant     `json:"id"`
	Kind    ParticipantKind `json:"kind"`
	Harness string          `json:"harness,omitempty"`
	Seat    string          `json:"seat,omitempty"`   // that the session occupied
	Person  string          `json:"person,omitempty"` // whose process the session is
	Repo    string          `json:"repo,omitempty"`
	Branch  string          `json:"branch,omitempty"`
	Device  string          `json:"device,omitempty"`
	// Subagent says that a subagent of the session wrote it, in the session's name.
	Subagent bool `json:"subagent,omitempty"`
}

// Recipient is what an address resolved to.
type Recipient struct {
	ID   Participant     `json:"id"`
	Kind ParticipantKind `json:"kind"`
	Seat string          `json:"seat,omitempty"` // of a session: that it occupied
}

// Evidence is what was known of a recipient's presence when a receipt relied on it.
type Evidence struct {
	Live    bool      `json:"live"`
	Busy    bool      `json:"busy"`
	Session SessionID `json:"session,omitempty"` // whom it is about, when the recipient is a seat or a person
	Says    string    `json:"says"`
	AgeMS   *int64    `json:"age_ms,omitempty"` // milliseconds; absent when nothing was ever seen
}

// Arrival is when a message can reach its recipient's context.
type Arrival string

// The arrivals.
const (
	ArrivesNextToolCall  Arrival = "next_tool_call"
	ArrivesNextPrompt    Arrival = "next_prompt"
	ArrivesNextSession   Arrival = "next_session"
	ArrivesOnlyIfResumed Arrival = "only_if_resumed"
	ArrivesWhenFinal     Arrival = "when_final"
)

// DeliveryState is where one delivery of a message stands. `deleted` goes for
// the whole message.
type DeliveryState string

// The states.
const (
	StateQueued      DeliveryState = "queued"
	StateHeld        DeliveryState = "held"
	StateLeased      DeliveryState = "leased"
	StateDelivered   DeliveryState = "delivered"
	StateRead        DeliveryState = "read"
	StateExpired     DeliveryState = "expired"
	StateUndelivered DeliveryState = "undelivered"
	StateDeleted     DeliveryState = "deleted"
	// StateDropped is of a copy alone: it was held for who might answer, and
	// somebody before that one took the message.
	StateDropped DeliveryState = "dropped"
)

// Delivery is one mailbox that a message goes to.
type Delivery struct {
	To    Participant   `json:"to"`
	State DeliveryState `json:"state"` // queued or held
	// Hold is until when the copy is held for those who come first to answer; it
	// is dropped when one of them takes the message. Absent: it is not.
	Hold *Time `json:"hold,omitempty"`
}

// Masked counts the secrets of one kind that were masked in a body.
type Masked struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// MessageSent says that a message was admitted. Its receipt is a function of
// this event alone, so that the same command always gets the same answer.
type MessageSent struct {
	Message MessageID   `json:"message"`
	Thread  ThreadID    `json:"thread"`
	Kind    MessageKind `json:"kind"`
	Author  Author      `json:"author"`
	To      Recipient   `json:"to"`
	// Addressed is the address as its sender wrote it; empty when a reply left
	// it out.
	Addressed  string     `json:"addressed,omitempty"`
	ReplyTo    MessageID  `json:"reply_to,omitempty"`
	Intent     Intent     `json:"intent"`
	Turn       Turn       `json:"turn"`
	Body       BodyRef    `json:"body"`
	Refs       []string   `json:"refs,omitempty"`
	Expires    Time       `json:"expires"`
	Due        *Time      `json:"due,omitempty"` // of a request: when its answer is owed; absent: never
	FinalBy    *Time      `json:"final_by,omitempty"`
	Deliveries []Delivery `json:"deliveries"`
	Evidence   Evidence   `json:"evidence"`
	Arrives    Arrival    `json:"arrives"`
	Masked     []Masked   `json:"masked,omitempty"`
	ResendOf   MessageID  `json:"resend_of,omitempty"` // an earlier copy that was lost
	Key        string     `json:"key,omitempty"`
	// What a rule read from the body is here, because no fold reads bodies.
	Mentions []string `json:"mentions,omitempty"` // the seats that the body mentions, in its order
	Group    bool     `json:"group,omitempty"`    // it mentions all seats at once
	Hop      int      `json:"hop,omitempty"`      // of a seat's message that mentions seats: the count with these
	Area     *AreaOf  `json:"area,omitempty"`     // of a root, where the policy has seats
	Channel  string   `json:"channel,omitempty"`  // of an alert
	// AnsweredOver are the messages that were pending when this answer was sent
	// all the same.
	AnsweredOver []MessageID `json:"answered_over,omitempty"`
}

// PayloadAttached says what came with an alert; the payload is the event's body.
type PayloadAttached struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Payload BodyRef   `json:"payload"`
}

// MessageEdited says that its author gave a message another body.
type MessageEdited struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Body    BodyRef   `json:"body"`
	Masked  []Masked  `json:"masked,omitempty"`
}

// TurnFlipped says that a message that was working is final.
type TurnFlipped struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Turn    Turn      `json:"turn"`
}

// MessageDeleted says that its author took a message back: its bodies went, its
// events stay.
type MessageDeleted struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Bodies  []EventID `json:"bodies"` // the events whose bodies went
}

// ThreadDone says that a `done` closed its thread and the requests open in it.
type ThreadDone struct {
	Thread  ThreadID    `json:"thread"`
	Message MessageID   `json:"message"`
	By      Participant `json:"by"`
}
