package projections

import (
	"strconv"
	"strings"

	"decklog/events"
)

// The rows' keys: parts joined by a tab, which no id can hold. The first part
// is the kind. Besides the rows of entities there are the indexes:
//
//	talk    THREAD    POSITION  the thread's messages, in order
//	named   THREAD    POSITION  every event that names the thread
//	queue   MAILBOX   POSITION  ITEM    what waits in a mailbox, oldest first
//	inbox   WHO       POSITION  the messages that went to somebody
//	sent    WHO       POSITION  the messages that somebody, or a machine, sent
//	open    WHO       MAILBOX   POSITION  those of them that wait in a mailbox
//	refusal WHO       POSITION  what somebody was refused
//	live    SESSION             the sessions that joined and have not left
//	process BOOT PID START      the session that joined last from a process
//	of      PERSON    SESSION   those of them that are one person's
//	roster  POSITION            the events that changed who could drive
//	handoff HANDOFF             the thread of a hand-off
//	review  REVIEW              the thread of a review
//	owed    POSITION            the open items, oldest first
//	owes    WHO       POSITION  the same by debtor
//	owing   WHO       POSITION  the same by creditor
//	charge  SEAT      POSITION  the same by the debtor's seat
//	due     TIME      POSITION  those of which the owners were not told yet
func key(parts ...string) string { return strings.Join(parts, "\t") }

// place writes a position so that positions sort as text.
func place(p events.Position) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[p>>(4*i)&15]
	}
	return string(b[:])
}

func placeOf(s string) events.Position {
	n, _ := strconv.ParseUint(s, 16, 63)
	return events.Position(n)
}

// last is the part behind the key's last tab.
func last(key string) string { return key[strings.LastIndexByte(key, '\t')+1:] }

// part is the n-th part of a key, counted from 0; empty when there is none.
func part(key string, n int) string {
	for range n {
		_, rest, found := strings.Cut(key, "\t")
		if !found {
			return ""
		}
		key = rest
	}
	p, _, _ := strings.Cut(key, "\t")
	return p
}
