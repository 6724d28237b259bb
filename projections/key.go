package projections

import (
	"strconv"
	"strings"

	"decklog/events"
)

// The rows' keys: parts joined by a tab, which no id can hold. A commit writes
// whole pages of the store, so what one event changes has keys that lie together:
// what is of a thread under the thread, what is of a participant in its box, and
// there what changes at once side by side.
//
//	box     WHO  inbox    POSITION          the messages that went to somebody
//	box     WHO  mailbox                    what waits for him, and whose lease runs
//	box     WHO  owes     POSITION          the open items that he owes
//	box     WHO  owing    POSITION          those that he is owed
//	box     WHO  queue    POSITION  ITEM    what waits in his mailbox, oldest first
//	box     WHO  refusal  POSITION          what he was refused
//	box     WHO  sent     POSITION          the messages that he sent
//	box     WHO  underway MAILBOX POSITION  those of them that wait in a mailbox
//	call    EVENT MAILBOX                   what somebody has to be told of an event
//	charge  SEAT POSITION                   the open items by the debtor's seat
//	check   WHO  POSITION                   the sends that a person's or a machine's rate counts
//	checkpoint                              beside those of the machine, where each send writes
//	count   ledger                          how many there are of what the overview counts
//	count   refused CODE                    how often commands were refused with a code
//	current STATE BACKWARD                  the open and the done threads, the latest first
//	due     TIME POSITION                   the open items of which the owners were not told yet
//	handoff HANDOFF                         the thread of a hand-off
//	lease   LEASE
//	live    SESSION                         the sessions that joined and have not left
//	message MESSAGE
//	of      PERSON  SESSION                 those of them that are one person's
//	owed    POSITION                        the open items, oldest first
//	policy  in force
//	policy  POSITION                        each one that was adopted
//	process BOOT PID START                  the session that joined last from a process
//	refused POSITION                        every refusal, with its code
//	review  REVIEW                          the thread of a review
//	roster  POSITION                        the events that changed who could drive
//	seat    NAME
//	session SESSION
//	thread  THREAD                          the thread
//	thread  THREAD  POSITION                every event that names it
//	waits   WHO                             those with mail who are no live session
func key(parts ...string) string { return strings.Join(parts, "\t") }

// ofBox is the key of one of the rows in somebody's box.
func ofBox(who events.Participant, parts ...string) string {
	return "box\t" + string(who) + "\t" + strings.Join(parts, "\t")
}

// place writes a position so that positions sort as text: how many digits it has,
// and these.
func place(p events.Position) string {
	digits := strconv.FormatInt(int64(p), 36)
	return string('a'+byte(len(digits))) + digits
}

// placeOf reads what place wrote; 0 for anything else.
func placeOf(s string) events.Position {
	if s == "" {
		return 0
	}
	n, _ := strconv.ParseInt(s[1:], 36, 64)
	return events.Position(max(n, 0))
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
