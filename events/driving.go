package events

// AreaReason is how the area rule came to its seat.
type AreaReason string

// The reasons.
const (
	AreaAuthor  AreaReason = "author"  // the home seat of the person who wrote the root
	AreaMap     AreaReason = "map"     // an entry of the content map
	AreaDefault AreaReason = "default" // the first seat of the roster
)

// AreaOf is the seat that the area rule gave a root when it was sent.
type AreaOf struct {
	Seat   string     `json:"seat"`
	Reason AreaReason `json:"reason"`
	Says   string     `json:"says,omitempty"` // the entry's own reason, of the content map
}

// Ack is what a seat says to a message without a word.
type Ack string

// The acks: that the seat will act, and that no input is needed.
const (
	AckAct     Ack = "act"
	AckNoInput Ack = "no_input"
)

// AckPlaced says that somebody acked a message. Its id is the event's.
type AckPlaced struct {
	Message MessageID   `json:"message"`
	Thread  ThreadID    `json:"thread"`
	By      Participant `json:"by"`
	Seat    string      `json:"seat,omitempty"` // that the session occupied
	Ack     Ack         `json:"ack"`
}

// Hand is whose hand placed a sticker.
type Hand string

// The hands. A sticker by somebody who cannot be told to be a person is
// nobody's: it names no driver.
const (
	HandPerson  Hand = "person"
	HandSeat    Hand = "seat"
	HandUnknown Hand = "unknown"
)

// StickerPlaced says that a mark on the thread's root names a seat from now on.
type StickerPlaced struct {
	Thread  ThreadID    `json:"thread"`
	Seat    string      `json:"seat"`    // that the mark names
	Sticker string      `json:"sticker"` // the name of the mark
	By      Participant `json:"by"`
	Hand    Hand        `json:"hand"`
	BySeat  string      `json:"by_seat,omitempty"` // of a seat's hand: which
	// Unordered says that a surface could not tell in which order the marks of
	// several persons were placed.
	Unordered bool `json:"unordered,omitempty"`
}

// StickerRemoved says that a mark came off: that of one placer, for one seat.
type StickerRemoved struct {
	Thread ThreadID    `json:"thread"`
	Seat   string      `json:"seat"`
	Of     Participant `json:"of"` // who had placed it
	By     Participant `json:"by"`
}

// HandoffOffered says that the driver offers the work of a thread to another
// seat. The reason is the event's body.
type HandoffOffered struct {
	Handoff HandoffID   `json:"handoff"`
	Thread  ThreadID    `json:"thread"`
	From    string      `json:"from"` // the seat that drives
	To      string      `json:"to"`   // the seat that is asked
	By      Participant `json:"by"`
	Reason  BodyRef     `json:"reason"`
	Link    string      `json:"link,omitempty"`
	Due     *Time       `json:"due,omitempty"`
}

// HandoffAccepted says that the other seat drives from now on.
type HandoffAccepted struct {
	Handoff HandoffID   `json:"handoff"`
	Thread  ThreadID    `json:"thread"`
	By      Participant `json:"by"`
	Due     *Time       `json:"due,omitempty"` // when the work, and so the closing, is owed
}

// HandoffDeclined says that the other seat did not take the work. The reason, if
// one was given, is the event's body.
type HandoffDeclined struct {
	Handoff HandoffID   `json:"handoff"`
	Thread  ThreadID    `json:"thread"`
	By      Participant `json:"by"`
	Reason  *BodyRef    `json:"reason,omitempty"`
}

// HandoffEnd is why a hand-off is closed.
type HandoffEnd string

// The ends.
const (
	HandoffDone     HandoffEnd = "closed"   // a party or a person said so
	HandoffLapsed   HandoffEnd = "lapsed"   // an offer: the driver was moved by another act
	HandoffCreditor HandoffEnd = "creditor" // its work passed to the one it was owed to
)

// HandoffClosed says that a hand-off is over. It changes no driver.
type HandoffClosed struct {
	Handoff HandoffID   `json:"handoff"`
	Thread  ThreadID    `json:"thread"`
	By      Participant `json:"by"`
	Reason  HandoffEnd  `json:"reason"`
}

// Verdict is what became of the question whether a person's mention moves a thread.
type Verdict string

// The verdicts. VerdictNoMove is one to route whose conditions no longer held
// when it came to be recorded.
const (
	VerdictRoute       Verdict = "route"
	VerdictStay        Verdict = "stay"
	VerdictUnavailable Verdict = "unavailable"
	VerdictNoMove      Verdict = "no_move"
)

// RoutingJudged says what a person's mention of a seat does to the thread. One
// message gets one verdict.
type RoutingJudged struct {
	Message MessageID   `json:"message"`
	Thread  ThreadID    `json:"thread"`
	Verdict Verdict     `json:"verdict"`
	Says    string      `json:"says,omitempty"` // why it is no move, or unavailable
	From    string      `json:"from"`           // the seat that drove
	To      string      `json:"to"`             // the seat that was mentioned
	By      Participant `json:"by"`
	ByHand  bool        `json:"by_hand,omitempty"` // somebody's own word, and not a classifier's
}

// RoutingUndone says that a move that was not in force yet counts as never made.
type RoutingUndone struct {
	Message MessageID   `json:"message"` // that the move was judged on
	Thread  ThreadID    `json:"thread"`
	Because MessageID   `json:"because,omitempty"` // the person's message that undid it; empty: a person's sticker
	By      Participant `json:"by"`
}

// OwedPassed says that open items follow the driver.
type OwedPassed struct {
	Thread ThreadID    `json:"thread"`
	Items  []string    `json:"items"`
	From   string      `json:"from"` // seats
	To     string      `json:"to"`
	By     Participant `json:"by"`
}

// OwedEnd is why an item is owed no more, where neither an answer nor a `done` says it.
type OwedEnd string

// The ends.
const (
	OwedByPerson   OwedEnd = "person"   // a person closed it
	OwedToOneself  OwedEnd = "creditor" // it passed to the one it was owed to
	OwedSuperseded OwedEnd = "superseded"
)

// OwedClosed says that an item is owed no more. What a person says of it is the
// event's body.
type OwedClosed struct {
	Thread ThreadID    `json:"thread"`
	Item   string      `json:"item"`
	By     Participant `json:"by"`
	Why    OwedEnd     `json:"why"`
	Reason *BodyRef    `json:"reason,omitempty"`
}

// OwedNudged says that a debtor is reminded of an item that is past due.
type OwedNudged struct {
	Thread ThreadID    `json:"thread"`
	Item   string      `json:"item"`
	Debtor Participant `json:"debtor"`
	Nudge  int         `json:"nudge"` // counted from 1
}

// PageReason is why the owners are called.
type PageReason string

// The reasons.
const (
	PageReminded PageReason = "reminded"      // reminders did not help
	PageLate     PageReason = "no_label"      // no label came in time
	PageVerdict  PageReason = "not_cleared"   // a label that does not clear
	PageNobody   PageReason = "no_reviewer"   // there is no seat that could review
	PageUnread   PageReason = "no_such_label" // a label that cannot be read
)

// OwedPaged says that the owners are called, because nobody else can decide.
type OwedPaged struct {
	Thread ThreadID      `json:"thread"`
	Item   string        `json:"item"`
	Owners []Participant `json:"owners"`
	Debtor Participant   `json:"debtor"` // who holds it now
	Reason PageReason    `json:"reason"`
}

// Label is a reviewer's word on a commit.
type Label string

// The labels.
const (
	LabelRoot    Label = "root"    // it goes to the root
	LabelBandage Label = "bandage" // it does not
)

// Risk is how much may go wrong with a commit.
type Risk string

// The risks.
const (
	RiskLow  Risk = "low"
	RiskMed  Risk = "med"
	RiskHigh Risk = "high"
)

// ReviewAsked says that the driver wants a critique of one commit. The message
// that carries the questions is of the same command; without a reviewer there is
// no such message, and the owners are called.
type ReviewAsked struct {
	Review   ReviewID    `json:"review"`
	Thread   ThreadID    `json:"thread"`
	Commit   string      `json:"commit"`
	Author   string      `json:"author,omitempty"`   // of the commit, as it was named
	Reviewer string      `json:"reviewer,omitempty"` // the seat that is asked; empty: none is left
	From     string      `json:"from"`               // the seat that drives
	By       Participant `json:"by"`
	Due      *Time       `json:"due,omitempty"`
}

// ReviewTimedOut says that no label came in time. One that comes later counts.
type ReviewTimedOut struct {
	Review ReviewID `json:"review"`
	Thread ThreadID `json:"thread"`
}

// ReviewLabelled says what the reviewer thinks of the commit.
type ReviewLabelled struct {
	Review ReviewID    `json:"review"`
	Thread ThreadID    `json:"thread"`
	Label  Label       `json:"label"`
	Risk   Risk        `json:"risk"`
	Late   bool        `json:"late,omitempty"` // it came after its time
	Clears bool        `json:"clears"`         // it clears the merge of that commit
	By     Participant `json:"by"`
}

// CardStatus is where driven work stands.
type CardStatus string

// The statuses.
const (
	CardInvestigating CardStatus = "investigating"
	CardPlanning      CardStatus = "planning"
	CardDriving       CardStatus = "driving"
	CardReviewing     CardStatus = "reviewing"
	CardBlocked       CardStatus = "blocked"
	CardDone          CardStatus = "done"
)

// Card is what a driver card says beside its subject, which is its message's body.
type Card struct {
	Driver string     `json:"driver"` // a seat
	Work   string     `json:"work"`   // whose
	Status CardStatus `json:"status"`
}

// CardPosted says that a message is the driver card of its seat in a thread.
type CardPosted struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Card    Card      `json:"card"`
}

// CardUpdated says what a driver card says from now on.
type CardUpdated struct {
	Message MessageID `json:"message"`
	Thread  ThreadID  `json:"thread"`
	Card    Card      `json:"card"`
}

// DriverMoved says that another seat drives the thread since the append before
// it, which is why; it changes nothing by itself. An empty seat is none.
type DriverMoved struct {
	Thread ThreadID    `json:"thread"`
	From   string      `json:"from"`
	To     string      `json:"to"`
	Source string      `json:"source"` // by which rule: person, handoff, solo, sticker, mirror, area
	By     Participant `json:"by"`
}

// SeatAbsent says that a seat has had no live session for long while something
// waited for it. Until it returns the driver rules pass over it.
type SeatAbsent struct {
	Seat  string `json:"seat"`
	Since Time   `json:"since"`
}

// SeatReturned says that an absent seat has a session again.
type SeatReturned struct {
	Seat    string    `json:"seat"`
	Session SessionID `json:"session"`
}
