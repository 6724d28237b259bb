package events

import "strings"

// Stream names the events of one thing, in order; it is the unit of consistency.
type Stream string

// Position is a place in the ledger. The first event has 1; 0 is before it. On
// an embedded ledger positions have no gaps, elsewhere they only grow.
type Position int64

// Revision is a place in a stream. The first event has 0.
type Revision int64

// NoStream is the revision to expect of a stream that has no event yet.
const NoStream Revision = -1

// Participant is whoever acts or is addressed: a session's id, "@name" for a
// seat or a person, or "bot:NAME".
type Participant string

// Session is the participant as a session's id; empty when it is a name or a bot.
func (p Participant) Session() SessionID {
	if strings.HasPrefix(string(p), "@") || strings.HasPrefix(string(p), "bot:") {
		return ""
	}
	return SessionID(p)
}

// Name is the name behind the "@"; empty when the participant is none.
func (p Participant) Name() string {
	name, found := strings.CutPrefix(string(p), "@")
	if !found {
		return ""
	}
	return name
}

// Named is the participant with this name: a seat or a person.
func Named(name string) Participant { return Participant("@" + name) }

// The streams. ADR 0001 says why each is one.
const PolicyStream Stream = "policy"

// ThreadStream holds what happens in one thread; every rule of a thread is decided on it.
func ThreadStream(t ThreadID) Stream { return Stream("thread-" + string(t)) }

// Thread is the thread whose stream this is; empty when it is another's.
func (s Stream) Thread() ThreadID {
	id, found := strings.CutPrefix(string(s), "thread-")
	if !found {
		return ""
	}
	return ThreadID(id)
}

// MailboxStream holds the leases of one mailbox, so that of two racing hook runs one wins.
func MailboxStream(p Participant) Stream { return Stream("mailbox-" + string(p)) }

// SessionStream holds a session's joining and leaving, and what it was refused.
func SessionStream(s SessionID) Stream { return Stream("session-" + string(s)) }

// SeatStream holds who occupied a seat; of two that claim it, one wins.
func SeatStream(name string) Stream { return Stream("seat-" + name) }

// PersonStream holds what a person was refused.
func PersonStream(name string) Stream { return Stream("person-" + name) }

// DeviceStream holds the refusals of those whom nobody knows, by the machine they came from.
func DeviceStream(host string) Stream { return Stream("device-" + host) }
