// Package commands says what can be asked: the commands, and the deciders that
// admit or refuse them.
//
// A decider is a pure function of the folded state, the command, the time and
// the policy. It answers with the events that happened or with a refusal, never
// with both; an admitted command that changes nothing answers with neither. It
// opens no file, reads no clock and asks nobody: what was observed of the world
// (who lives, who is busy) comes with the command.
//
// The package imports events and projections and nothing else of decklog.
package commands
