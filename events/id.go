package events

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
)

// The ids, a string type for each kind so that they cannot be mixed up. Each is
// the text of a UUID. A command's id is its caller's (a UUIDv7, or made from
// sender and key); every other id is derived from it, so that the same command
// decided again yields the same events.
type (
	CommandID string
	EventID   string
	ThreadID  string
	MessageID string
	LeaseID   string
	HandoffID string
	ReviewID  string
)

// SessionID is a harness's own full id of a session: 1 to SessionIDBytesMax
// bytes of printable text without blanks, not beginning with "@" or "bot:".
type SessionID string

// SessionIDBytesMax bounds a session's id.
const SessionIDBytesMax = 200

// namespace is the UUID under which decklog derives its own. It is part of
// the format: another value would give every event another id.
var namespace = [16]byte{0xde, 0xc1, 0x06, 0x00, 0x6c, 0x6f, 0x47, 0x62, 0x8f, 0x6f, 0x6b, 0x2e, 0x69, 0x6e, 0x6b, 0x21}

// KeyedCommand is the id of the command that a sender gave a key of its own:
// the same sender and key are always the same command.
func KeyedCommand(sender Participant, key string) CommandID {
	return CommandID(derive("key", string(sender), key))
}

// Event is the id of the command's n-th event, counted from 0.
func (c CommandID) Event(n int) EventID {
	return EventID(derive("event", string(c), strconv.Itoa(n)))
}

// Refusal is the id of the event that refused the command in this stream, at
// this revision. A refusal binds nothing, so the same command may be refused
// more than once, and in another stream once more is known of who asks; each is
// its own event.
func (c CommandID) Refusal(in Stream, at Revision) EventID {
	return EventID(derive("refusal", string(c), string(in), strconv.FormatInt(int64(at), 10)))
}

// Message is the id of the message that the command sends.
func (c CommandID) Message() MessageID { return MessageID(derive("message", string(c))) }

// Thread is the id of the thread that the command's message begins.
func (c CommandID) Thread() ThreadID { return ThreadID(derive("thread", string(c))) }

// Handoff is the id of the hand-off that the command offers.
func (c CommandID) Handoff() HandoffID { return HandoffID(derive("handoff", string(c))) }

// Review is the id of the review that the command asks for.
func (c CommandID) Review() ReviewID { return ReviewID(derive("review", string(c))) }

// Lease is the id of the lease that the command opens.
func (c CommandID) Lease() LeaseID { return LeaseID(derive("lease", string(c))) }

// FollowUp is the command that does once what several processes may notice:
// the same cause and step are the same command, so that twice is once.
func FollowUp(cause string, step string) CommandID {
	return CommandID(derive("follow-up", cause, step))
}

// derive makes a UUIDv5 (RFC 9562) of the parts. The parts are joined by a
// line feed, which none of them can hold.
//
// It is our own because the uuid package that decklog uses elsewhere imports
// net, which alone costs a short command as much as its work (ADR 0004); a test
// holds the two against each other.
func derive(parts ...string) string {
	h := sha1.New()
	h.Write(namespace[:])
	h.Write([]byte(strings.Join(parts, "\n")))
	var u [16]byte
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return UUID(u)
}

// CommandAt makes a UUIDv7 (RFC 9562) of the moment and ten random bytes.
func CommandAt(t Time, random [10]byte) CommandID {
	ms := uint64(t / 1000)
	var u [16]byte
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	copy(u[6:], random[:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return CommandID(UUID(u))
}

// ParseUUID gives the sixteen bytes whose text this is; false when it is not the
// usual form of any.
func ParseUUID(s string) (u [16]byte, is bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	for i, at := 0, 0; i < 16; i, at = i+1, at+2 {
		if s[at] == '-' {
			at++
		}
		high, low := hexDigits[s[at]], hexDigits[s[at+1]]
		if high|low > 15 {
			return u, false
		}
		u[i] = high<<4 | low
	}
	return u, true
}

// hexDigits is the value of each lower-case digit, and more than 15 for what is none.
var hexDigits = func() (values [256]byte) {
	for i := range values {
		values[i] = 16
	}
	for i, digit := range []byte("0123456789abcdef") {
		values[digit] = byte(i)
	}
	return values
}()

// UUID is the text of sixteen bytes, in its usual lower-case form.
func UUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	b[8] = '-'
	hex.Encode(b[9:13], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

// IsUUID says whether s is the text of a UUID in its usual lower-case form.
func IsUUID(s string) bool {
	_, is := ParseUUID(s)
	return is
}
