package esdb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// bodiesAtOnce is how many bodies are put at the same time: they lie in streams of
// their own, so that their order counts for nothing.
const bodiesAtOnce = 8

// CaughtUp waits until the mirror has all that the cluster had when it was asked,
// and tells how far it is. It waits as long as that takes.
func (l *Ledger) CaughtUp(ctx context.Context, tell func(events.Position)) error {
	if _, err := l.fence.reached(ctx, l.address.Server(), l.bounds.open); err != nil {
		return err
	}
	return l.until(ctx, func() (bool, error) {
		end, err := l.ends()
		if err != nil {
			return false, err
		}
		tell(end)
		select {
		case <-l.lived:
			return true, nil
		case <-l.life.Done():
			return false, errShut
		default:
			return false, nil
		}
	})
}

func (l *Ledger) ends() (end events.Position, err error) {
	err = l.View(func(r events.Reader) error {
		end, err = r.End()
		return err
	})
	return end, err
}

// Cluster is what tells the cluster from every other: the first event of its log.
func (l *Ledger) Cluster(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.bounds.apply)
	defer cancel()
	first, err := l.fence.one(ctx, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadAll(ctx, client.ReadAllOptions{Direction: client.Forwards, From: client.Start{}, RequiresLeader: true}, 1)
	})
	if err != nil || first == nil {
		return "", err
	}
	return first.EventID.String(), nil
}

// Fits says why the cluster could not take an event with what lies beside it; nil
// when it could.
func Fits(a sqlite.Arrived) error {
	_, err := whole(a)
	if err == nil && a.Body != nil {
		_, err = bodyData(a.ID, *a.Body)
	}
	return err
}

// whole is an append of one event as another ledger recorded it.
func whole(a sqlite.Arrived) (outgoing, error) {
	return encode(events.Batch{
		Stream: a.Stream, Expected: a.Revision - 1, Time: a.Time, Policy: a.Policy,
		Events: []events.Proposed{{Stream: a.Stream, ID: a.ID, Actor: a.Actor, Cause: a.Cause, Event: a.Event, Body: a.Body, Drops: a.Drops}},
	}, []events.Recorded{a.Recorded})
}

// Take appends events that another ledger recorded, as they are, in their order:
// each once the one before it is recorded, so that they have here the positions
// that they have there while nobody else appends. It returns when the mirror has
// them; whether they lie where they should is for the caller to see. An event that
// is there already, from a call that was broken off, is not appended again.
//
// The error is [events.ErrConflict] where a stream holds something else, and says
// with a code when the cluster is not reached: some may be recorded then.
func (l *Ledger) Take(ctx context.Context, all []sqlite.Arrived) error {
	if len(all) == 0 {
		return nil
	}
	if err := l.putBodies(ctx, all); err != nil {
		return err
	}
	for _, a := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o, err := whole(a)
		if err == nil {
			err = l.put(o)
		}
		if err != nil {
			return fmt.Errorf("take event %s at position %d: %w", a.ID, a.Position, err)
		}
	}
	return l.reaches(ctx, all[len(all)-1].Position)
}

// put appends one event at its revision, unless it is there.
func (l *Ledger) put(o outgoing) error {
	err := (&unit{l: l}).append(o)
	if !errors.Is(err, errMoved) {
		return unanswered(err)
	}
	if _, err := l.catchUp(o.stream); err != nil {
		return err
	}
	var there []events.Recorded
	err = l.View(func(r events.Reader) (err error) {
		there, err = r.Stream(o.stream, o.expected+1, 1)
		return err
	})
	if err == nil && (len(there) == 0 || there[0].ID != o.proposed[0].ID) {
		err = errMoved
	}
	return err
}

// unanswered says what to do where nobody knows what became of an append that can
// be made again.
func unanswered(err error) error {
	switch {
	case err == nil:
		return nil
	case refusedFor(err) != nil:
		return denied(err)
	}
	return failure.New("unreachable", "run the same again when the cluster answers: it goes on where it was", err)
}

// putBodies puts the bodies into their streams, before the events that name them.
// One that went after a broken-off call had put it there goes here too.
func (l *Ledger) putBodies(ctx context.Context, all []sqlite.Arrived) error {
	var (
		putting sync.WaitGroup
		mu      sync.Mutex
		failed  error
		orphans []string
	)
	slots := make(chan struct{}, bodiesAtOnce)
	for _, a := range all {
		ref, holds := events.TextOf(a.Event)
		if a.Body == nil && !holds {
			continue
		}
		slots <- struct{}{}
		putting.Go(func() {
			defer func() { <-slots }()
			var err error
			there := false
			if a.Body != nil {
				err = (&unit{l: l, bodies: map[string]bool{}}).sendBodies(outgoing{proposed: []events.Proposed{{ID: a.ID, Body: a.Body}}})
			} else {
				there, err = l.holdsBody(ctx, a.ID, ref)
			}
			mu.Lock()
			defer mu.Unlock()
			if there {
				orphans = append(orphans, bodyStream(a.ID, ref.Commitment[:shortBytes]))
			}
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	putting.Wait()
	l.drop(orphans)
	return failed
}

// holdsBody says whether the cluster has the body that an event committed to.
func (l *Ledger) holdsBody(ctx context.Context, id events.EventID, ref events.BodyRef) (bool, error) {
	if len(ref.Commitment) < shortBytes {
		return false, nil // such a one is nobody's
	}
	ctx, cancel := context.WithTimeout(ctx, l.bounds.send)
	defer cancel()
	found, err := l.fence.last(ctx, l.address.Prefix+bodyStream(id, ref.Commitment[:shortBytes]))
	if err != nil {
		return false, unanswered(fmt.Errorf("look for the body of %s: %w", id, err))
	}
	return found != nil, nil
}

// reaches waits until the mirror is as far, as long as it goes on.
func (l *Ledger) reaches(told context.Context, want events.Position) error {
	ctx, cancel := context.WithCancel(told)
	defer cancel()
	late := time.AfterFunc(l.bounds.apply, cancel)
	defer late.Stop()
	var had events.Position
	err := l.until(ctx, func() (bool, error) {
		end, err := l.ends()
		if end > had {
			had = end
			late.Reset(l.bounds.apply)
		}
		return end >= want, err
	})
	if told.Err() != nil {
		return told.Err()
	}
	if err != nil {
		return unanswered(fmt.Errorf("wait until the views have what was appended: they are at position %d of %d: %w", had, want, err))
	}
	return nil
}

// Tidy waits until no body is left in the cluster that an event which the mirror
// has took away.
func (l *Ledger) Tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.bounds.send)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		left, err := l.notes(dropKey)
		if err != nil || len(left) == 0 {
			return err
		}
		l.stir()
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return unanswered(fmt.Errorf("take away %d bodies: %w", len(left), ctx.Err()))
		}
	}
}
