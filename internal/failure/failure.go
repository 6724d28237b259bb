// Package failure says errors as decklog tells them at every door: with a code,
// and what to do about it. A failure is the machine's: somebody who is refused
// gets a refusal instead. The package knows no door, no operation and no store.
package failure

import (
	"errors"
	"io/fs"
	"syscall"

	"decklog/events"
)

// Failure is an error as it is told.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// coded is an error that knows its code and fix.
type coded struct {
	Failure
	cause error // nil: it is one of another process, and its code stands for none of ours
}

func (c coded) Error() string { return c.Message }
func (c coded) Unwrap() error { return c.cause }

// New makes an error with a code and a fix.
func New(code, fix string, cause error) error {
	return coded{Failure{Code: code, Message: cause.Error(), Fix: fix}, cause}
}

// known are the errors that have a code of their own, in the order in which they
// are looked for.
var known = []struct {
	is        error
	code, fix string
}{
	{events.ErrUnknown, "unknown_outcome", "nobody can tell whether it was recorded: run the same command again with the same --key or --command, and it happens once"},
	{events.ErrUnknown, "recorded_unseen", "it is recorded: run the same command again with the same --key or --command, and its receipt is given"},
	{events.ErrNewer, "ledger_newer", "a newer decklog wrote this ledger: install that one, or name another ledger with --ledger"},
	{events.ErrNoSpace, "no_space", "free space on the ledger's disk and run it again; nothing was recorded and nothing is lost"},
	{events.ErrLocked, "ledger_locked", "another process holds the ledger: end it, or wait, and run it again; nothing was recorded"},
	{events.ErrBusy, "busy", "too many wait to append to the ledger: run it again in a moment; nothing was recorded"},
	{events.ErrReadOnly, "ledger_read_only", "make the ledger's file and its folder writable for you, or name another ledger with --ledger; nothing was recorded"},
	{events.ErrDamaged, "ledger_damaged", "keep a copy of the file, and run `decklog verify` to see where"},
	{events.ErrConflict, "conflict", "others were quicker too often: run it again; nothing was recorded"},
	{syscall.EPIPE, "output_closed", "whoever read the output went away: run it again and read it to its end"},
	{syscall.ENOSPC, "output_full", "the output could not be written: free space where it goes, and run it again"},
	{fs.ErrNotExist, "file", "check the file's name and your right to read it"},
	{fs.ErrPermission, "file", "check the file's name and your right to read it"},
}

// Of says an error with its code, and what to do about it.
func Of(err error) Failure {
	var c coded
	if errors.As(err, &c) {
		return c.Failure
	}
	for _, k := range known {
		if errors.Is(err, k.is) {
			return Failure{Code: k.code, Message: err.Error(), Fix: k.fix}
		}
	}
	return Failure{Code: "failed", Message: err.Error(), Fix: "try again; if it stays, run `decklog verify`"}
}

// Error is the failure as an error, which is also the error that its code stands
// for: what happened to a ledger elsewhere is told apart as if it were here.
func (f Failure) Error() error {
	for _, k := range known {
		if k.code == f.Code {
			return coded{f, k.is}
		}
	}
	return coded{f, nil}
}
