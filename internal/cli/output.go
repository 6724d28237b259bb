package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"decklog/commands"
	"decklog/internal/failure"
	"decklog/internal/ops"
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
	f := failure.Of(err)
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
		_ = r.document(map[string]any{"error": failure.Failure{Code: "usage", Message: err.Error(), Fix: "see: decklog help " + r.command.Name}})
	}
	complain(r.Stderr, "decklog %s: %v\nUsage: decklog %s\nSee: decklog help %s\n",
		r.command.Name, err, strings.TrimSpace(r.command.Name+" "+r.command.Usage), r.command.Name)
}

// complain writes a text that may quote what somebody else wrote: a name, a
// path, an address. None of it acts on the terminal.
func complain(to io.Writer, format string, args ...any) {
	_, _ = io.WriteString(to, render.Terminal(fmt.Sprintf(format, args...)))
}

// Failed makes an error with a code and a fix.
func Failed(code, fix string, cause error) error { return failure.New(code, fix, cause) }

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
		return r.document(ops.Seen(map[string]any{"refusal": refusal}, r.stale))
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

// sees says so where what was just looked at is stale, unless that was said already.
func (r *run) sees() {
	if l, tells := r.ops.(interface{ Stale() bool }); tells && !r.stale && l.Stale() {
		r.stale = true
		complain(r.Stderr, "stale: what is shown may lack what was recorded elsewhere; decklog doctor says why\n")
	}
}

// show prints a view.
func (r *run) show(view any, refusal *commands.Refusal, err error, say func() error) error {
	if err == nil {
		r.sees()
	}
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return r.refused(refusal)
	case r.json:
		return r.document(ops.Seen(view, r.stale))
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
