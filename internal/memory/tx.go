package memory

import (
	"bytes"
	"fmt"

	"decklog/events"
	"decklog/internal/rows"
)

// tx changes a copy of the state.
type tx struct {
	reader
	project events.Projector
	// refusal is why it writes nothing more: an append that left half a batch,
	// which must not be kept, or its end.
	refusal error
}

func (t *tx) finish() { t.refusal = errEnded }

func (t *tx) Rows() events.Rows { return txRows{t.rows, t} }

// txRows is the rows of a transaction, for as long as it may write.
type txRows struct {
	*rows.Rows
	tx *tx
}

func (r txRows) Put(key string, value []byte) error {
	if r.tx.refusal != nil {
		return fmt.Errorf("put row: %w", r.tx.refusal)
	}
	return r.Rows.Put(key, value)
}

func (t *tx) Append(b events.Batch) ([]events.Recorded, error) {
	if t.refusal != nil {
		return nil, fmt.Errorf("append to %s: %w", b.Stream, t.refusal)
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
		err = t.project(t.Rows(), recorded)
	}
	if err != nil {
		t.refusal = fmt.Errorf("append to %s: %w", b.Stream, err)
		return nil, t.refusal
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
		r = t.add(r)
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
	if t.refusal != nil {
		return fmt.Errorf("clear rows: %w", t.refusal)
	}
	t.rows.Clear()
	return nil
}

func (t *tx) Tally(key string, n int, now events.Time) (int, events.Time, error) {
	c, there := t.tallies.Get(key)
	if n == 0 {
		return c.count, c.since, nil
	}
	if t.refusal != nil {
		return 0, 0, fmt.Errorf("add to tally: %w", t.refusal)
	}
	if !there {
		c.since = now
	}
	c.count += n
	t.tallies.Set(key, c)
	return c.count, c.since, nil
}

func (t *tx) EndTally(key string) error {
	if t.refusal != nil {
		return fmt.Errorf("end tally: %w", t.refusal)
	}
	t.tallies.Delete(key)
	return nil
}
