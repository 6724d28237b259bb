package esdbdouble

import (
	"errors"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
)

// await waits until there may be more to read.
func (r *reading) await(grown, drops <-chan struct{}) error {
	select {
	case <-grown:
		return nil
	case <-drops:
		return r.Server.dropReason()
	case <-r.Done():
		return r.Err()
	}
}

func (r *reading) confirm() error {
	return r.send(&streams.ReadResp{Content: &streams.ReadResp_Confirmation{
		Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: uuid.NewString()},
	}})
}

// live says that the subscription has caught up: with a stream at a revision, or
// with the log at a place.
func (r *reading) live(revision int64, at place) error {
	c := &streams.ReadResp_CaughtUp{}
	switch r.Server.quirksNow().CaughtUp {
	case CaughtUpNever:
		return nil
	case CaughtUpWithPlace:
		c = caughtUp(r.Server.log.now(), revision, at)
	}
	return r.send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: c}})
}

// follow subscribes to a stream, after a revision. A stream that is not there,
// or no more, is waited for; one that has ended ends the subscription.
func (r *reading) follow(from *streams.ReadReq_Options_StreamOptions) error {
	drops := r.Server.drops()
	until, _ := r.Server.sight()
	r.Server.log.mu.RLock()
	last := r.Server.log.last(r.Stream, until)
	r.Server.log.mu.RUnlock()
	if last == tombstone {
		return streamDeleted(r.Stream)
	}
	if err := r.confirm(); err != nil {
		return err
	}
	sent := int64(-1)
	switch at := from.GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		sent = int64(min(at.Revision, math.MaxInt64-1))
	case *streams.ReadReq_Options_StreamOptions_End:
		sent = last
	}
	live := false
	if sent >= last {
		if err := r.live(sent, beforeAll); err != nil {
			return err
		}
		live = true
	}
	for next := sent + 1; ; {
		until, grown := r.Server.sight()
		p, err := r.Server.log.stream(r.Stream, next, pageMax, false, until)
		switch {
		case errors.Is(err, deleted{}):
			if err := r.ended(until); err != nil {
				return err
			}
			return streamDeleted(r.Stream)
		case errors.Is(err, errNoStream):
			p.end = true
		default:
			next = p.number
		}
		for _, e := range p.events {
			if err := r.event(e); err != nil {
				return err
			}
			sent = e.number
		}
		if !p.end {
			continue
		}
		if !live {
			if err := r.live(sent, beforeAll); err != nil {
				return err
			}
			live = true
		}
		if err := r.await(grown, drops); err != nil {
			return err
		}
	}
}

// ended sends the event by which a stream was ended.
func (r *reading) ended(until int64) error {
	r.Server.log.mu.RLock()
	seen := r.Server.log.seen(r.Stream, until)
	r.Server.log.mu.RUnlock()
	if len(seen) == 0 {
		return nil
	}
	return r.event(seen[len(seen)-1])
}

// followAll subscribes to $all, after a place. A filtered one is told now and
// then how far the server has looked, so that one who waits for few events need
// not look at all others again.
func (r *reading) followAll(lets func(*record) bool, window int) error {
	drops := r.Server.drops()
	until, _ := r.Server.sight()
	newest := r.Server.log.newest(until)
	if err := r.confirm(); err != nil {
		return err
	}
	at, start, end := r.from()
	switch {
	case start:
		at = beforeAll
	case end:
		at = newest
	}
	t := &tally{reading: r, every: math.MaxInt, seen: at, said: beforeAll}
	if r.Server.quirksNow().Repeats {
		t.seen = beforeAll
	}
	if filter := r.options.GetFilter(); filter != nil {
		t.filtered, t.every = true, window*int(filter.GetCheckpointIntervalMultiplier())
	}

	if at.compare(newest) >= 0 {
		at = newest // what lies between is not there yet, and is not wanted
	} else {
		var err error
		if at, err = r.catchUp(at, lets, window, t); err != nil {
			return err
		}
	}
	if err := r.live(-1, t.seen); err != nil {
		return err
	}
	t.live, t.considered = true, 0
	for {
		until, grown := r.Server.sight()
		p, err := r.Server.log.all(at, 1, 1, everything, until)
		if err != nil {
			return err
		}
		at = p.next
		for _, e := range p.events {
			if e.place().compare(t.seen) <= 0 {
				continue // it was sent, or the subscription begins in what was the future
			}
			if lets(e) {
				if err := r.event(e); err != nil {
					return err
				}
			}
			t.seen = e.place()
			if err := t.consider(1, place{e.end, e.end}); err != nil {
				return err
			}
		}
		if !p.end {
			continue
		}
		if err := r.await(grown, drops); err != nil {
			return err
		}
	}
}

// catchUp sends what is in the log after a place, and gives that of the next
// event to come.
func (r *reading) catchUp(at place, lets func(*record) bool, window int, t *tally) (place, error) {
	for {
		until, _ := r.Server.sight()
		p, err := r.Server.log.all(at, pageMax, window, lets, until)
		if err != nil {
			return at, err
		}
		for _, e := range p.events {
			if e.place().compare(t.seen) <= 0 {
				continue // the first of the first page may be that after which to begin
			}
			if err := r.event(e); err != nil {
				return at, err
			}
			t.seen = e.place()
		}
		if t.seen.compare(at) < 0 && at.compare(p.next) < 0 {
			t.seen = at
		}
		at = p.next
		if p.end {
			if t.seen == beforeAll {
				t.seen = first
			}
			return at, t.say(at)
		}
		if err := t.consider(p.considered, at); err != nil {
			return at, err
		}
	}
}

// tally is how far a subscription to $all has looked, and when to say so.
type tally struct {
	*reading
	filtered   bool
	every      int
	considered int
	live       bool
	seen       place // whoever resumes here misses nothing
	said       place
}

func (t *tally) consider(events int, next place) error {
	if t.considered += events; t.considered < t.every {
		return nil
	}
	t.considered %= t.every
	return t.say(next)
}

// say sends a checkpoint, as servers of different versions do.
func (t *tally) say(next place) error {
	if !t.filtered {
		return nil
	}
	at := t.seen
	switch t.Server.quirksNow().Checkpoints {
	case CheckpointsNever:
		return nil
	case CheckpointsParked:
		if t.live && t.said != beforeAll {
			at = t.said
		}
	case CheckpointsAhead:
		at = place{next.commit, next.commit}
	case CheckpointsUnset:
		at = afterAll
	default:
		if at.compare(t.said) <= 0 {
			return nil
		}
	}
	t.said = at
	return t.send(checkpoint(at, t.Server.log.now()))
}
