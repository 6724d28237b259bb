package transfer

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/projections"
)

// Report is what a copy came to.
type Report struct {
	OK       bool            `json:"ok"` // the two are the same up to Position
	From     string          `json:"from"`
	To       string          `json:"to"`
	Before   events.Position `json:"before"` // how many events To had already
	Copied   events.Position `json:"copied"`
	Position events.Position `json:"position"` // of the last event that To has
	More     events.Position `json:"more"`     // that From has got meanwhile
	Checks   []Check         `json:"checks"`
}

// Check is one thing in which the two have to be the same.
type Check struct {
	Check string `json:"check"` // digests, bodies, views, verify
	OK    bool   `json:"ok"`
	Says  string `json:"says"`
}

// verify finds that the two are the same, and that the target is sound by itself.
func (c *Copy) verify(ctx context.Context, r *Report) error {
	same, err := c.same(ctx, r.Position)
	if err != nil {
		return err
	}
	desk := &ops.Ops{Ledger: c.To, World: ops.World{Progress: c.Progress}, Still: ctx.Err}
	audited, err := desk.Verify()
	if err != nil {
		return fmt.Errorf("verify %s: %w", c.ToName, err)
	}
	sound := Check{Check: "verify", OK: audited.OK, Says: fmt.Sprintf("%s is sound by itself", c.ToName)}
	if !audited.OK {
		sound.Says = fmt.Sprintf("position %d: %s", audited.Faults[0].Position, audited.Faults[0].What)
	}
	r.Checks = append(same, sound)
	r.OK = true
	for _, check := range r.Checks {
		r.OK = r.OK && check.OK
	}
	end, err := endOf(c.From)
	r.More = end - r.Position
	return err
}

// same compares the events, the bodies and the views, position by position.
func (c *Copy) same(ctx context.Context, until events.Position) ([]Check, error) {
	memory := rows.New()
	folded := projections.On(memory)
	var otherDigest, otherBody, otherPosition events.Position
	bodies, gone, since := 0, 0, 0
	for at := events.Position(1); at <= until; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to, _, err := page(c.To, at, until)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ToName, err)
		}
		from, end, err := page(c.From, at, until)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.FromName, err)
		}
		n := min(len(from), len(to))
		for i := range n {
			f, t := from[i], to[i]
			if otherDigest == 0 && (f.Digest != t.Digest || !bytes.Equal(f.Data, t.Data)) {
				otherDigest = f.Position
			}
			_, holds := events.TextOf(f.Event)
			switch {
			case f.Body == nil && t.Body != nil && end > until:
				since++ // the next copy takes it away
			case (f.Body == nil) != (t.Body == nil), f.Body != nil && !equal(*f.Body, *t.Body):
				if otherBody == 0 {
					otherBody = f.Position
				}
			case f.Body != nil:
				bodies++
			case holds:
				gone++
			}
			folded.Apply(f.Recorded)
		}
		at += events.Position(n)
		c.progress("compare", at-1, until)
	}
	if err := folded.Flush(); err != nil {
		return nil, err
	}
	here, err := endOf(c.To)
	if err != nil {
		return nil, err
	}
	if here != until {
		otherPosition = until + 1
	}
	checks := []Check{
		{"digests", otherDigest == 0 && otherPosition == 0, fmt.Sprintf("%d events have the same digests, position by position", until)},
		{"bodies", otherBody == 0, fmt.Sprintf("%d bodies are the same, and %d that went are gone", bodies, gone)},
	}
	switch {
	case otherDigest > 0:
		checks[0].Says = fmt.Sprintf("position %d is not the same", otherDigest)
	case otherPosition > 0:
		checks[0].Says = fmt.Sprintf("%s has an event at position %d that was not copied", c.ToName, otherPosition)
	}
	if since > 0 {
		checks[1].Says += fmt.Sprintf("; %d went since", since)
	}
	if otherBody > 0 {
		checks[1].Says = fmt.Sprintf("the body at position %d is not the same", otherBody)
	}
	views, err := c.sameViews(ctx, memory)
	return append(checks, views), err
}

func equal(a, b events.Body) bool {
	return a.Salt == b.Salt && a.Fingerprint == b.Fingerprint && bytes.Equal(a.Text, b.Text)
}

// sameViews compares the target's rows with those that the source's events make.
func (c *Copy) sameViews(ctx context.Context, want *rows.Rows) (Check, error) {
	check := Check{Check: "views", OK: true}
	n := 0
	err := c.To.View(func(r events.Reader) error {
		n = 0
		return r.Rows().Scan("", "", false, func(key string, value []byte) bool {
			n++
			if w, err := want.Get(key); err != nil || !bytes.Equal(w, value) {
				check.OK, check.Says = false, fmt.Sprintf("the row %q is not what the events of %s make", key, c.FromName)
			}
			return check.OK && (n%1000 > 0 || ctx.Err() == nil)
		})
	})
	switch {
	case err != nil:
		return check, err
	case ctx.Err() != nil:
		return check, ctx.Err()
	case check.OK && n != want.Len():
		check.OK, check.Says = false, fmt.Sprintf("there are %d rows, and the events of %s make %d", n, c.FromName, want.Len())
	case check.OK:
		check.Says = fmt.Sprintf("%d rows are what the events of %s make", n, c.FromName)
	}
	return check, nil
}

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from     %s\nto       %s\n", r.From, r.To)
	switch {
	case r.Before == 0:
		fmt.Fprintf(&b, "copied   %d events\n", r.Copied)
	default:
		fmt.Fprintf(&b, "copied   %d events, behind %d that were there\n", r.Copied, r.Before)
	}
	for _, c := range r.Checks {
		how := "ok"
		if !c.OK {
			how = "failed"
		}
		fmt.Fprintf(&b, "%-8s %-6s %s\n", c.Check, how, c.Says)
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "Meanwhile %d more came to %s: run the same copy again to take them too.\n", r.More, r.From)
	}
	if r.OK {
		fmt.Fprintf(&b, "copy: ok, up to position %d\n", r.Position)
	} else {
		b.WriteString("copy: the two are not the same\n")
	}
	return b.String()
}
