// Package transfer copies a ledger into another, of whatever kind each is: every
// event as it is recorded, in its place, with the text beside it and its salt. So the
// copy has the positions and the digests of the original, and nothing that names one
// of them is to be changed.
//
// How far a copy has come is not noted anywhere: what the other ledger holds is
// compared with the original, event by event. It is a copy that was begun when all
// of it stands in the original in the same places, and is refused when anything does
// not. So a copy can be broken off at any moment, and the next one goes on.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/ops"
)

// pageMax is how many events are read, and taken, at once.
const pageMax = 128

// Event is a recorded event with what lies beside it.
type Event struct {
	events.Recorded
	Body  *events.Body     // nil when it has none, or it went
	Drops []events.EventID // whose bodies go with it
}

// Source is a ledger that is copied. It may go on meanwhile.
type Source interface {
	View(func(events.Reader) error) error
}

// Target is a ledger that is copied into. Nobody else may append to it meanwhile;
// where somebody does, the copy ends.
type Target interface {
	ops.Ledger
	// Fits says why this ledger could not take an event; nil when it could.
	Fits(Event) error
	// Take puts events behind the last, as they are. The error is [events.ErrConflict]
	// where something else is in their place.
	Take(context.Context, []Event) error
	// Tidy returns once nothing is left of the bodies that went.
	Tidy(context.Context) error
}

// Copy is one ledger that is to be copied into another.
type Copy struct {
	From     Source
	To       Target
	FromName string // as they are shown
	ToName   string
	// Progress is told how far the work is.
	Progress func(what string, done, end events.Position)

	end   events.Position // up to which is copied
	heads map[events.Stream]head
	gone  []events.EventID // whose bodies went from From, and are in To
}

// head is a stream's last event.
type head struct {
	revision events.Revision
	digest   events.Digest
}

// Run copies what To lacks, up to the end that From has when it begins, and then
// finds that the two are the same. An error has a code; some of the events may be
// copied then. That they are not the same is no error, and is said in the report.
func (c *Copy) Run(ctx context.Context) (Report, error) {
	r := Report{From: c.FromName, To: c.ToName, Checks: []Check{}}
	c.heads = map[events.Stream]head{}
	var err error
	if c.end, err = endOf(c.From); err != nil {
		return r, fmt.Errorf("read %s: %w", c.FromName, err)
	}
	if r.Before, err = endOf(c.To); err != nil {
		return r, fmt.Errorf("read %s: %w", c.ToName, err)
	}
	if err := c.compare(ctx, r.Before); err != nil {
		return r, c.brokenOff(ctx, r.Before, err)
	}
	done := r.Before
	for done < c.end {
		end := c.end
		if err := c.look(ctx, done, end); err != nil {
			return r, c.brokenOff(ctx, done, err)
		}
		if done, err = c.copy(ctx, done, end); err != nil {
			return r, c.brokenOff(ctx, done, err)
		}
	}
	if err := c.To.Tidy(ctx); err != nil {
		return r, c.brokenOff(ctx, done, err)
	}
	r.Copied, r.Position = done-r.Before, done
	if err := c.verify(ctx, &r); err != nil {
		return r, c.brokenOff(ctx, done, err)
	}
	return r, nil
}

// brokenOff says of an error that is nobody's fault what to do.
func (c *Copy) brokenOff(ctx context.Context, done events.Position, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if end, err := endOf(c.To); err == nil {
		done = max(done, end) // with what it took of the last page
	}
	return failure.New("interrupted", "run the same copy again: it goes on where it was",
		fmt.Errorf("copy %s: broken off when %s had %d of %d events", c.FromName, c.ToName, done, c.end))
}

func (c *Copy) progress(what string, done, end events.Position) {
	if c.Progress != nil {
		c.Progress(what, done, end)
	}
}

func endOf(l Source) (end events.Position, err error) {
	err = l.View(func(r events.Reader) error {
		end, err = r.End()
		return err
	})
	return end, err
}

// page reads events from a position on, up to another, with what lies beside them,
// and the end that the ledger had then.
func page(l Source, from, to events.Position) (all []Event, end events.Position, err error) {
	err = l.View(func(r events.Reader) error {
		all = nil
		var found []events.Recorded
		if end, err = r.End(); err == nil {
			found, err = r.All(from, int(min(pageMax, to-from+1)))
		}
		for _, e := range found {
			body, there, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			all = append(all, Event{Recorded: e})
			if there {
				all[len(all)-1].Body = &body
			}
		}
		return err
	})
	if err == nil && (len(all) == 0 || all[0].Position != from) {
		err = damaged(from, errors.New("it is missing"))
	}
	return all, end, err
}

// damaged is the error of an event that is not as it was recorded.
func damaged(at events.Position, why error) error {
	return failure.New("ledger_damaged", "keep the ledger as it is, and see what is wrong with it: decklog verify",
		fmt.Errorf("read position %d: %w: %w", at, events.ErrDamaged, why))
}

// notACopy is the error of a target that holds something else.
func (c *Copy) notACopy(format string, args ...any) error {
	return failure.New("not_empty", "copy into an empty ledger: a file that is not there yet, such as sqlite:new.db, or a prefix that nothing was sent to, such as esdb://HOST:2113?prefix=new.; nothing was written",
		fmt.Errorf("copy into %s: it holds something that is no copy of %s: %s", c.ToName, c.FromName, fmt.Sprintf(format, args...)))
}

// compare finds that the target's events are those of the source, in their places,
// and gathers the bodies that have gone since they were copied.
func (c *Copy) compare(ctx context.Context, until events.Position) error {
	if until > c.end {
		return c.notACopy("%d events, and there are %d", until, c.end)
	}
	for at := events.Position(1); at <= until; {
		if err := ctx.Err(); err != nil {
			return err
		}
		to, _, err := page(c.To, at, until)
		if err != nil {
			return fmt.Errorf("%s: %w", c.ToName, err)
		}
		from, _, err := page(c.From, at, to[len(to)-1].Position)
		if err != nil {
			return fmt.Errorf("%s: %w", c.FromName, err)
		}
		for i, e := range from {
			if i >= len(to) || to[i].Digest != e.Digest {
				return c.notACopy("at position %d", e.Position)
			}
			if to[i].Body != nil && e.Body == nil {
				c.gone = append(c.gone, e.ID)
			}
			c.heads[e.Stream] = head{e.Revision, e.Digest}
		}
		at += events.Position(len(from))
		c.progress("compare", at-1, until)
	}
	return nil
}

// look finds, before anything is written, that every event that is to be copied is
// as it was recorded, and that the target can take it.
func (c *Copy) look(ctx context.Context, after, until events.Position) error {
	for at := after + 1; at <= until; {
		if err := ctx.Err(); err != nil {
			return err
		}
		all, _, err := page(c.From, at, until)
		if err != nil {
			return fmt.Errorf("%s: %w", c.FromName, err)
		}
		for i, e := range all {
			if e.Position != at+events.Position(i) {
				return damaged(at+events.Position(i), errors.New("it is missing"))
			}
			if err := c.sound(e); err != nil {
				return fmt.Errorf("%s: %w", c.FromName, damaged(e.Position, err))
			}
			if err := c.To.Fits(drops(e)); err != nil {
				return failure.New("cannot_go", "copy it into a file, which takes everything, for instance sqlite:new.db; or let the one who wrote it take it back with decklog delete, and copy then: of a body that went only the commitment goes; nothing was written",
					fmt.Errorf("copy position %d into %s: %w", e.Position, c.ToName, err))
			}
		}
		at += events.Position(len(all))
		c.progress("look", at-1, until)
	}
	return nil
}

// sound says what is not as it was recorded about an event that follows those that
// it was asked of before; nil when all is.
func (c *Copy) sound(e Event) error {
	before, known := c.heads[e.Stream]
	if !known {
		before.revision = events.NoStream
	}
	c.heads[e.Stream] = head{e.Revision, e.Digest}
	if e.Revision != before.revision+1 {
		return fmt.Errorf("revision %d of stream %s follows revision %d", e.Revision, e.Stream, before.revision)
	}
	if e.Chain(before.digest) != e.Digest {
		return fmt.Errorf("the digest is not that of the event and of the one before it in stream %s", e.Stream)
	}
	if ref, holds := events.TextOf(e.Event); holds && e.Body != nil && !e.Body.Opens(ref) {
		return errors.New("its body is not the one that was committed to")
	}
	return nil
}

// drops names the bodies that went with an event.
func drops(e Event) Event {
	if deleted, is := e.Event.(events.MessageDeleted); is {
		e.Drops = deleted.Bodies
	}
	return e
}

// copy copies events, and says up to which.
func (c *Copy) copy(ctx context.Context, after, until events.Position) (done events.Position, err error) {
	for done = after; done < until; {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		all, end, err := page(c.From, done+1, until)
		if err != nil {
			return done, fmt.Errorf("%s: %w", c.FromName, err)
		}
		for i := range all {
			all[i] = drops(all[i])
			// Where a body went since, why it went has to be copied too, or the copy would
			// lack a body that nothing explains.
			if _, holds := events.TextOf(all[i].Event); holds && all[i].Body == nil && end > c.end {
				c.end = end
			}
		}
		// Those of them that an event of this copy names go once more, which is nothing.
		all[0].Drops = append(slices.Clone(all[0].Drops), c.gone...)
		c.gone = nil
		err = c.To.Take(ctx, all)
		if err == nil {
			err = c.taken(all)
		}
		switch {
		case errors.Is(err, events.ErrConflict):
			return done, failure.New("diverged", "end whoever appends there, and copy into an empty ledger: another file, or another prefix",
				fmt.Errorf("copy into %s: somebody else appended to it behind position %d: %w", c.ToName, done, err))
		case err != nil:
			return done, fmt.Errorf("copy into %s: %w", c.ToName, err)
		}
		done = all[len(all)-1].Position
		c.progress("copy", done, until)
	}
	return done, nil
}

// taken finds the events in their places.
func (c *Copy) taken(all []Event) error {
	return c.To.View(func(r events.Reader) error {
		for at := 0; at < len(all); {
			found, err := r.All(all[at].Position, len(all)-at)
			if err != nil {
				return err
			}
			for i, e := range found {
				if e.Digest != all[at+i].Digest {
					return fmt.Errorf("event %s is at position %d: %w", e.ID, e.Position, events.ErrConflict)
				}
			}
			if at += len(found); len(found) == 0 {
				return fmt.Errorf("nothing is at position %d: %w", all[at].Position, events.ErrConflict)
			}
		}
		return nil
	})
}
