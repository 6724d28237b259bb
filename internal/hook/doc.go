// Package hook answers the hooks of agent harnesses: it reads what a harness
// says of its session, registers it, delivers what waits, and answers in the
// form that this harness takes for this event.
//
// Whatever happens, the harness goes on: there is nothing on standard output
// but a whole answer, and the exit code is 0. What went wrong is told on
// standard error, and noted for `decklog doctor`.
//
// The package knows the harnesses' contracts and nothing of the rules: what is
// owed, offered and confirmed is decided behind the operations that it calls.
package hook
