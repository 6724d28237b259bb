package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/faults"
)

// tx is the writing transaction. The first write that fails ends it: half a
// batch must not be committed, whatever the caller does with the error.
type tx struct {
	*reader
	project events.Projector
	failed  error

	placed
	appended int  // events
	dropped  bool // a body
	writes   int
	asked    asked
	held     held // of a mirror

	// In a group:
	ahead *ahead // what is put and not yet written
	ends  *ends  // where the streams end, of which it remembers
	moved []asked
	first bool // nobody has written to SQLite before it: it needs no savepoint
	saved bool // its savepoint is open, or would be: it has written to SQLite
}

// placed is where the ledger ends, as a transaction goes on with it by itself.
type placed struct {
	last  events.Position // of the ledger, and the running maximum of its times
	high  events.Time     //   there
	known bool            // from the first append on
}

// alive is why the transaction can do nothing more; nil while it can.
func (t *tx) alive() error {
	switch {
	case t.failed != nil:
		return t.failed
	case t.c == nil:
		return errEnded
	case t.c.db.GetAutocommit():
		// SQLite does this after an error that leaves it no choice. The next
		// statement would be committed by itself.
		return fmt.Errorf("the transaction was rolled back: %w", errEnded)
	}
	return nil
}

func (t *tx) write(what, sql string, args ...any) error {
	if err := t.alive(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	t.writes++
	err := t.save()
	if err == nil {
		err = t.c.exec(sql, args...)
	}
	if err != nil {
		t.failed = fmt.Errorf("%s: %w", what, err)
		return t.failed
	}
	return nil
}

// save opens the savepoint of a group's member, unless it has.
func (t *tx) save() error {
	if t.ahead == nil || t.saved {
		return nil
	}
	var err error
	if !t.first {
		err = t.c.exec("SAVEPOINT member")
	}
	t.saved = err == nil
	return err
}

// handOver writes the rows that the group holds, because they have become many.
func (t *tx) handOver() error {
	err := t.save()
	if err == nil {
		err = t.ahead.write(t.c.exec)
	}
	if err != nil {
		t.failed = fmt.Errorf("put row: %w", err)
		return t.failed
	}
	t.ahead.leave()
	return nil
}

// asked is the head of a stream that was asked for last: who appends asks first.
type asked struct {
	stream events.Stream
	head   events.Revision
	digest events.Digest
}

func (t *tx) Head(stream events.Stream) (events.Revision, error) {
	head, _, err := t.head(stream)
	return head, err
}

func (t *tx) head(stream events.Stream) (events.Revision, events.Digest, error) {
	if t.c != nil && stream != "" && stream == t.asked.stream {
		return t.asked.head, t.asked.digest, nil
	}
	for i := len(t.moved) - 1; i >= 0; i-- {
		if m := t.moved[i]; m.stream == stream && t.c != nil {
			return m.head, m.digest, nil
		}
	}
	if t.ends != nil && t.c != nil {
		if at, known := t.ends.heads[stream]; known {
			t.asked = asked{stream, at.head, at.digest}
			return at.head, at.digest, nil
		}
	}
	head, digest, err := t.reader.head(stream)
	if err == nil {
		t.asked = asked{stream, head, digest}
		if t.ends != nil {
			t.ends.learn(stream, head, digest)
		}
	}
	return head, digest, err
}

// headsMax bounds the streams whose ends are remembered.
const headsMax = 10_000

// ends is where the ledger and its streams end, as the groups know it of what is
// committed, or about to be by the members before. It stays from one group to the
// next, unless anybody else wrote to the file, or a group is not committed.
type ends struct {
	placed
	heads map[events.Stream]ending
}

// ending is a stream's head and its digest.
type ending struct {
	head   events.Revision
	digest events.Digest
}

func newEnds() ends { return ends{heads: map[events.Stream]ending{}} }

func (e *ends) learn(stream events.Stream, head events.Revision, digest events.Digest) {
	if len(e.heads) >= headsMax {
		clear(e.heads)
	}
	e.heads[stream] = ending{head, digest}
}

// keep makes what a member appended part of the group.
func (e *ends) keep(t *tx) {
	e.placed = t.placed
	for _, m := range t.moved {
		e.learn(m.stream, m.head, m.digest)
	}
}

func (t *tx) Rows() events.Rows { return table{reader: t.reader, tx: t} }

func (t *tx) Append(b events.Batch) ([]events.Recorded, error) {
	if err := t.alive(); err != nil {
		return nil, fmt.Errorf("append to %s: %w", b.Stream, err)
	}
	head, digest, err := t.head(b.Stream)
	t.asked = asked{}
	if err == nil && head != b.Expected {
		return nil, fmt.Errorf("append to %s at revision %d, expected %d: %w", b.Stream, head, b.Expected, events.ErrConflict)
	}
	var recorded []events.Recorded
	if err == nil {
		recorded, err = t.record(b, head, digest)
	}
	if err == nil && len(recorded) > 0 {
		err = t.project(t.Rows(), recorded)
	}
	if err != nil {
		t.failed = fmt.Errorf("append to %s: %w", b.Stream, err)
		return nil, t.failed
	}
	faults.Point("projected")
	return recorded, nil
}

// record puts the batch's events into their places, after the revision and
// digest of the stream's head.
func (t *tx) record(b events.Batch, head events.Revision, digest events.Digest) ([]events.Recorded, error) {
	if err := t.findLast(); err != nil {
		return nil, err
	}
	// Also half a batch is read as it lies there, until it goes with the transaction.
	defer func() { t.went(b.Stream, head, digest) }()
	out := make([]events.Recorded, 0, len(b.Events))
	for _, p := range b.Events {
		if p.Stream != b.Stream {
			return nil, fmt.Errorf("event %s is of stream %s", p.ID, p.Stream)
		}
		if p.ID == "" {
			return nil, fmt.Errorf("event id %q is not new", p.ID)
		}
		data, version, err := events.Encode(p.Event)
		if err != nil {
			return nil, err
		}
		r := events.Recorded{
			Position: t.last + 1,
			Stream:   b.Stream,
			Revision: head + 1,
			ID:       p.ID,
			Time:     b.Time,
			High:     b.Time,
			Actor:    p.Actor,
			Cause:    p.Cause,
			Policy:   b.Policy,
			Version:  version,
			Data:     data,
		}
		if t.last > 0 {
			r.High = max(b.Time, t.high)
		}
		// What is folded now is what a replay will read.
		r.Event, _ = events.Decode(p.Event.EventType(), version, data)
		r.Digest = r.Chain(digest)
		store := t.store
		if t.c.mirror {
			store = t.hold
		}
		if err := store(r, p); err != nil {
			return nil, err
		}
		head, digest = r.Revision, r.Digest
		out = append(out, r)
	}
	return out, nil
}

// went notes where a stream has got to.
func (t *tx) went(stream events.Stream, head events.Revision, digest events.Digest) {
	if t.ends != nil {
		t.moved = append(t.moved, asked{stream, head, digest})
	}
}

// findLast reads what the transaction then carries on by itself.
func (t *tx) findLast() error {
	if t.known {
		return nil
	}
	err := t.query("last event", func(s *sqlite3.Stmt) {
		t.last, t.high = events.Position(s.ColumnInt64(0)), events.Time(s.ColumnInt64(1))
	}, `SELECT position, high FROM events ORDER BY position DESC LIMIT 1`)
	t.known = err == nil
	if t.known && t.ends != nil {
		t.ends.placed = t.placed
	}
	return err
}

// store writes an event with what lies beside it.
func (t *tx) store(r events.Recorded, p events.Proposed) error {
	if err := t.storeEvent(r); err != nil {
		return err
	}
	return t.storeBeside(r, p)
}

func (t *tx) storeEvent(r events.Recorded) error {
	err := t.insert(insertEvent, r)
	if err == nil {
		t.stored(r)
	}
	return err
}

const insertEvent = `INSERT INTO events (` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (t *tx) insert(how string, r events.Recorded) error {
	return t.write("store event "+string(r.ID), how,
		int64(r.Position), string(r.Stream), int64(r.Revision), string(r.ID), string(r.Type()), int64(r.Version),
		int64(r.Time), string(r.Actor), string(r.Cause.Command), string(r.Cause.Event), int64(r.Policy),
		r.Data, r.Digest[:], int64(r.High))
}

// stored goes on behind an event that was stored.
func (t *tx) stored(r events.Recorded) {
	t.last, t.high = r.Position, r.High
	t.appended++
	faults.Point("event-stored")
}

// storeBeside writes an event's body, and what it makes of earlier bodies.
func (t *tx) storeBeside(r events.Recorded, p events.Proposed) error {
	if b := p.Body; b != nil {
		if err := t.write("store body of "+string(r.ID),
			`INSERT INTO bodies (position, salt, body, fingerprint) VALUES (?, ?, ?, ?)`,
			int64(r.Position), b.Salt[:], b.Text, b.Fingerprint[:]); err != nil {
			return err
		}
	}
	for _, id := range p.Drops {
		faults.Point("before-drop")
		t.dropped = true
		if err := t.write("drop body of "+string(id),
			`DELETE FROM bodies WHERE position = (SELECT position FROM events WHERE id = ?)`, string(id)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) ClearRows() error {
	t.kept = nil
	err := t.write("clear rows", `DELETE FROM rows`)
	if err == nil && t.ahead != nil {
		t.ahead.leave()
	}
	faults.Point("rows-cleared")
	return err
}

func (t *tx) Tally(key string, n int, now events.Time) (count int, since events.Time, err error) {
	if n != 0 {
		if err := t.write("add to tally", `INSERT INTO tallies (key, count, since) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET count = count + excluded.count`, key, int64(n), int64(now)); err != nil {
			return 0, 0, err
		}
	}
	err = t.query("tally", func(s *sqlite3.Stmt) {
		count, since = s.ColumnInt(0), events.Time(s.ColumnInt64(1))
	}, `SELECT count, since FROM tallies WHERE key = ?`, key)
	return count, since, err
}

func (t *tx) EndTally(key string) error {
	return t.write("end tally", `DELETE FROM tallies WHERE key = ?`, key)
}
