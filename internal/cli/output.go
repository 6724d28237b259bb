package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/render"
)

// finish prints what went wrong, if anything did, and gives the exit code.
func (r *run) finish(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return r.code
	case errors.As(err, &usage):
		r.misuse(usage)
		return ExitUsage
	}
	f := FailureOf(err)
	if r.json {
		_ = r.document(map[string]any{"error": f})
	} else {
		complain(r.Stderr, "decklog: %s: %s\nFix: %s\n", f.Code, f.Message, f.Fix)
	}
	return ExitFailed
}

// misuse says what was wrong with the command line.
func (r *run) misuse(err error) {
	if r.json {
		_ = r.document(map[string]any{"error": Failure{Code: "usage", Message: err.Error(), Fix: "see: decklog help " + r.command.Name}})
	}
	complain(r.Stderr, "decklog %s: %v\nUsage: decklog %s\nSee: decklog help %s\n",
		r.command.Name, err, strings.TrimSpace(r.command.Name+" "+r.command.Usage), r.command.Name)
}

// complain writes a text that may quote what somebody else wrote: a name, a
// path, an address. None of it acts on the terminal.
func complain(to io.Writer, format string, args ...any) {
	_, _ = io.WriteString(to, render.Terminal(fmt.Sprintf(format, args...)))
}

// Failure is an error as it is told: the machine failed, and nobody was refused.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// coded is an error that knows its code and fix.
type coded struct {
	Failure
	cause error
}

func (c coded) Error() string { return c.Message }
func (c coded) Unwrap() error { return c.cause }

// Failed makes an error with a code and a fix.
func Failed(code, fix string, cause error) error {
	return coded{Failure{Code: code, Message: cause.Error(), Fix: fix}, cause}
}

// FailureOf says an error with its code, and what to do about it.
func FailureOf(err error) Failure {
	f := Failure{Code: "failed", Message: err.Error(), Fix: "try again; if it stays, run `decklog verify`"}
	var c coded
	switch {
	case errors.As(err, &c):
		return c.Failure
	case errors.Is(err, events.ErrUnknown):
		f.Code, f.Fix = "unknown_outcome", "nobody can tell whether it was recorded: run the same command again with the same --key or --command, and it happens once"
	case errors.Is(err, events.ErrNewer):
		f.Code, f.Fix = "ledger_newer", "a newer decklog wrote this ledger: install that one, or name another ledger with --ledger"
	case errors.Is(err, events.ErrNoSpace):
		f.Code, f.Fix = "no_space", "free space on the ledger's disk and run it again; nothing was recorded and nothing is lost"
	case errors.Is(err, events.ErrLocked):
		f.Code, f.Fix = "ledger_locked", "another process holds the ledger: end it, or wait, and run it again; nothing was recorded"
	case errors.Is(err, events.ErrReadOnly):
		f.Code, f.Fix = "ledger_read_only", "make the ledger's file and its folder writable for you, or name another ledger with --ledger; nothing was recorded"
	case errors.Is(err, events.ErrDamaged):
		f.Code, f.Fix = "ledger_damaged", "keep a copy of the file, and run `decklog verify` to see where"
	case errors.Is(err, events.ErrConflict):
		f.Code, f.Fix = "conflict", "others were quicker too often: run it again; nothing was recorded"
	case errors.Is(err, syscall.EPIPE):
		f.Code, f.Fix = "output_closed", "whoever read the output went away: run it again and read it to its end"
	case errors.Is(err, syscall.ENOSPC):
		f.Code, f.Fix = "output_full", "the output could not be written: free space where it goes, and run it again"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		f.Code, f.Fix = "file", "check the file's name and your right to read it"
	}
	return f
}

// document prints one JSON document, its text as it is: nothing is escaped for HTML.
func (r *run) document(v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	return r.write(data)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

func (r *run) write(b []byte) error {
	if _, err := r.Stdout.Write(b); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func (r *run) printf(format string, args ...any) error {
	return r.write(fmt.Appendf(nil, format, args...))
}

// refused prints a refusal: exit code 3.
func (r *run) refused(refusal *commands.Refusal) error {
	r.code = ExitRefused
	if r.json {
		return r.document(map[string]any{"refusal": refusal})
	}
	complain(r.Stderr, "%s", refusal.Text())
	return nil
}

// answer prints a receipt as JSON, or as the text that says it to a person.
func (r *run) answer(receipt any, refusal *commands.Refusal, err error, say func() string) error {
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return r.refused(refusal)
	case r.json:
		return r.document(map[string]any{"receipt": receipt})
	}
	return r.printf("%s\n", say())
}

// show prints a view.
func (r *run) show(view any, refusal *commands.Refusal, err error, say func() error) error {
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return r.refused(refusal)
	case r.json:
		return r.document(view)
	}
	return say()
}

func (r *run) bodyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	defer f.Close()
	return readBody(f, name)
}
