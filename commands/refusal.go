package commands

import (
	"fmt"
	"strings"

	"decklog/events"
)

// Code names why a command was refused. Codes are API; the words around them are not.
type Code string

// The closed set of codes.
const (
	BadRequest         Code = "bad_request"
	NoCaller           Code = "no_caller"
	SenderNotLive      Code = "sender_not_live"
	UnknownRecipient   Code = "unknown_recipient"
	AmbiguousRecipient Code = "ambiguous_recipient"
	NotFound           Code = "not_found"
	NotParticipant     Code = "not_participant"
	ReplyToDone        Code = "reply_to_done"
	KeyReused          Code = "key_reused"
	Duplicate          Code = "duplicate"
	SessionRate        Code = "session_rate"
	DeviceRate         Code = "device_rate"
	PersonRate         Code = "person_rate"
	ThreadRate         Code = "thread_rate"
	RecipientFull      Code = "recipient_full"
	StaleLease         Code = "stale_lease"
	TurnFinal          Code = "turn_final"
	NotYours           Code = "not_yours"
	SeatIsTaken        Code = "seat_taken"
	NoSuchSeat         Code = "no_such_seat"
	PersonOnly         Code = "person_only"
	NotDriver          Code = "not_driver"
	AlreadyDecided     Code = "already_decided"
	HopLimit           Code = "hop_limit"
	IsPending          Code = "pending"
)

// meaning is what every refusal of a code says besides its own message.
type meaning struct {
	code    Code
	status  int
	fix     string
	example string
}

// The meanings, in the order of the codes. A refusal that knows better values
// for its fix or its example says those instead.
func meanings() []meaning {
	return []meaning{
		{BadRequest, 400, "correct the value that is named and send again",
			`decklog send --to SESSION --intent request -- "Which commit fixed the lease test?"`},
		{NoCaller, 401, "name who is acting with --as or DECKLOG_AS",
			`decklog send --as SESSION --to OTHER -- "text"`},
		{SenderNotLive, 403, "register the session first, or act as a person who is known here",
			`decklog join --session SESSION --harness claude-code`},
		{UnknownRecipient, 404, "look up who takes part, and send to a full session id or to @name",
			`decklog peers`},
		{AmbiguousRecipient, 409, "use one of the candidates' full session ids",
			`decklog send --to SESSION -- "text"`},
		{NotFound, 404, "take the id from the inbox or from the thread",
			`decklog inbox`},
		{NotParticipant, 403, "start a thread of your own with the one you want to reach",
			`decklog send --to SESSION --intent request -- "text"`},
		{ReplyToDone, 409, "do not answer; for new work start a new thread, without --reply-to",
			`decklog send --to SESSION --intent request -- "text"`},
		{KeyReused, 409, "take another key for another message; the first one stands",
			`decklog send --key another-key --to SESSION -- "text"`},
		{Duplicate, 409, "do not send it again: the first copy is on its way or has arrived",
			`decklog inbox --sent`},
		{SessionRate, 429, "put what you have to say into one message and wait",
			`decklog wait --timeout 60s`},
		{DeviceRate, 429, "wait; many sessions of this machine are sending",
			`decklog wait --timeout 60s`},
		{PersonRate, 429, "wait; many sessions of this person are sending",
			`decklog wait --timeout 60s`},
		{ThreadRate, 429, "stop here: ask the person you work for to settle it, or wait; a person's message in the thread lifts the bound",
			`decklog thread THREAD`},
		{RecipientFull, 409, "wait until the recipient has taken some of its mail; do not send it again before",
			`decklog peers --session SESSION`},
		{StaleLease, 409, "drop this confirm: the messages were offered again, and the newer lease stands",
			`decklog lease --as SESSION`},
		{TurnFinal, 409, "send new work as a new message",
			`decklog send --reply-to MESSAGE --turn working -- "I am on it."`},
		{NotYours, 403, "only its author changes a message; answer it instead",
			`decklog send --reply-to MESSAGE -- "text"`},
		{SeatIsTaken, 409, "ask the session that occupies the seat to leave it, or take another seat",
			`decklog send --to @SEAT --intent request -- "May I take your seat?"`},
		{NoSuchSeat, 404, "take a seat of the roster, or have a person adopt a policy that has this one",
			`decklog policy show`},
		{PersonOnly, 403, "ask the person who owns this ledger to do it",
			`decklog policy adopt --policy decklog.toml`},
		{NotDriver, 403, "ask the seat that drives; a person may move the thread with a sticker",
			`decklog driver THREAD --why`},
		{AlreadyDecided, 409, "look what was decided, and act on that",
			`decklog thread THREAD`},
		{HopLimit, 409, "say it in plain text without an @, or ask a person: their word in the thread begins the count anew",
			`decklog send --reply-to MESSAGE -- "text that mentions nobody"`},
		{IsPending, 409, "wait for that answer and read it first; --over sends all the same, and is recorded",
			`decklog turn THREAD --block`},
	}
}

// Codes lists every code.
func Codes() (all []Code) {
	for _, m := range meanings() {
		all = append(all, m.code)
	}
	return all
}

func (c Code) meaning() meaning {
	for _, m := range meanings() {
		if m.code == c {
			return m
		}
	}
	return meaning{code: c, status: 500}
}

// Status is the code's status as HTTP would give it.
func (c Code) Status() int { return c.meaning().status }

// Refusal is the answer to a command that was not admitted: why, what to do
// about it, and a line that can be run. It is a value, not an error: nothing
// failed. A refusal binds nothing; the same command may be sent again.
type Refusal struct {
	Code       Code             `json:"code"`
	Status     int              `json:"status"`
	Message    string           `json:"message"`
	Fix        string           `json:"fix"`
	Example    string           `json:"example"`
	MessageID  events.MessageID `json:"message_id,omitempty"`
	Thread     events.ThreadID  `json:"thread,omitempty"`
	Lease      events.LeaseID   `json:"lease,omitempty"`
	Candidates []Candidate      `json:"candidates,omitempty"`
	Count      int              `json:"count,omitempty"`
	Limit      int              `json:"limit,omitempty"`
	Free       *events.Time     `json:"free,omitempty"`
	To         string           `json:"-"`
}

// CandidatesMax bounds how many candidates a refusal names.
const CandidatesMax = 10

// Candidate is one of those whom an address may have meant.
type Candidate struct {
	Session   string `json:"session"` // or @name
	Harness   string `json:"harness"`
	Directory string `json:"directory"`
	Branch    string `json:"branch"`
	Live      bool   `json:"live"`
}

// refuse makes a refusal with its code's fix and example.
func refuse(c Code, format string, args ...any) *Refusal {
	m := c.meaning()
	return &Refusal{Code: c, Status: m.status, Message: fmt.Sprintf(format, args...), Fix: m.fix, Example: m.example}
}

// Refuse makes a refusal of a code; for the edges, whose facts a decider does not have.
func Refuse(c Code, format string, args ...any) *Refusal { return refuse(c, format, args...) }

// Word is a value as it may stand in an example that somebody types: itself where it
// is one plain word, else what stands for it.
func Word(value, otherwise string) string { return or(safeWord(value), otherwise) }

func (r *Refusal) fix(format string, args ...any) *Refusal {
	r.Fix = fmt.Sprintf(format, args...)
	return r
}

func (r *Refusal) example(format string, args ...any) *Refusal {
	r.Example = fmt.Sprintf(format, args...)
	return r
}

func (r *Refusal) naming(m events.MessageID, t events.ThreadID) *Refusal {
	r.MessageID, r.Thread = m, t
	return r
}

// Text is the refusal for a person: the code and the message, then what to do.
func (r *Refusal) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "refused: %s: %s\n", r.Code, r.Message)
	for _, c := range r.Candidates {
		line := fmt.Sprintf("  %s  %s  %s  %s  %s", c.Session, or(c.Harness, "-"), or(c.Directory, "-"), or(c.Branch, "-"), liveWord(c.Live))
		b.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n") // a branch may be called anything
	}
	fmt.Fprintf(&b, "Fix: %s\n", r.Fix)
	fmt.Fprintf(&b, "Example: %s\n", r.Example)
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func liveWord(live bool) string {
	if live {
		return "live"
	}
	return "not running"
}

// Better gives the refusal a fix and an example that know more than its code's.
func (r *Refusal) Better(fix, example string) *Refusal {
	r.Fix, r.Example = fix, example
	return r
}
