// Package projections says what can be seen: the folds that turn events into
// the state of threads, messages, mailboxes, sessions and seats, and the views
// that are read from it: inbox, thread, presence, owed.
//
// There is one fold. It serves the live views (Project, in the ledger's own
// transaction), their rebuild, the replay to an earlier moment, and the state
// on which a decision is made; nothing else computes any of it. It is total:
// what is recorded has happened, and an event that it does not know, or that
// speaks of something it never saw, changes nothing.
//
// Apply reads and writes rows by key only. Queries scan. No row holds the text
// of a body; whoever shows a view joins it.
//
// The package imports events and nothing else of decklog. It knows no clock:
// where the present matters, it is an argument.
package projections
