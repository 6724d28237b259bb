package memory

import (
	"bytes"
	"fmt"

	"decklog/events"
)

// tx changes a copy of the state.
type tx struct {
	reader
	project events.Projector
	failed  error // of the first append that left half a batch; nothing may be kept then
}

func (t *tx) Rows() events.Rows { return t.rows }

func (t *tx) Append(b events.Batch) ([]events.Recorded, error) {
	if t.failed != nil {
		return nil, t.failed
	}
	head, there := t.head(b.Stream)
	at := events.NoStream
	if there {
		at = head.Revision
	}
	if at != b.Expected {
		return nil, fmt.Errorf("append to %s at revision %d, expected %d: %w", b.Stream, at, b.Expected, events.ErrConflict)
	}
	recorded, err := t.record(b, at, head.Digest)
	if err == nil && len(recorded) > 0 {
		err = t.project(t.rows, recorded)
	}
	if err != nil {
		t.failed = fmt.Errorf("append to %s: %w", b.Stream, err)
		return nil, t.failed
	}
	return recorded, nil
}

// record gives the batch's events their places, after the revision and digest
// of the stream's head.
func (t *tx) record(b events.Batch, head events.Revision, digest events.Digest) ([]events.Recorded, error) {
	var recorded []events.Recorded
	for _, p := range b.Events {
		if p.Stream != b.Stream {
			return nil, fmt.Errorf("event %s is of stream %s", p.ID, p.Stream)
		}
		if _, there := t.ids.Get(p.ID); there || p.ID == "" {
			return nil, fmt.Errorf("event id %q is not new", p.ID)
		}
		data, version, err := events.Encode(p.Event)
		if err != nil {
			return nil, err
		}
		head++
		r := events.Recorded{
			Position: t.end() + 1,
			Stream:   b.Stream,
			Revision: head,
			ID:       p.ID,
			Time:     b.Time,
			Actor:    p.Actor,
			Cause:    p.Cause,
			Policy:   b.Policy,
			Version:  version,
			Data:     bytes.Clone(data),
		}
		// What is folded now is what a replay will read.
		r.Event, _ = events.Decode(p.Event.EventType(), version, r.Data)
		digest = r.Chain(digest)
		r.Digest = digest
		t.add(r)
		if p.Body != nil {
			t.keep(r.Position, *p.Body)
		}
		for _, id := range p.Drops {
			t.drop(id)
		}
		recorded = append(recorded, r)
	}
	return recorded, nil
}

func (t *tx) ClearRows() error {
	t.rows.Clear()
	return nil
}

func (t *tx) Tally(key string, n int, now events.Time) (int, events.Time, error) {
	c, there := t.tallies.Get(key)
	if n == 0 {
		return c.count, c.since, nil
	}
	if !there {
		c.since = now
	}
	c.count += n
	t.tallies.Set(key, c)
	return c.count, c.since, nil
}

func (t *tx) EndTally(key string) error {
	t.tallies.Delete(key)
	return nil
}
