package sqlite

import (
	"fmt"
	"slices"
	"sort"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
)

// columns are what [stored] reads.
const columns = `position, stream, revision, id, type, version, time, actor, command, caused_by, policy, data, digest, high`

// reader reads one snapshot, until its transaction ends.
type reader struct {
	c    *connection // nil from then on
	kept any         // what the fold knows of the rows
}

// end ends the transaction, without a trace if it was not committed.
func (r *reader) end() {
	r.c.rollback()
	r.c = nil
}

// query is the connection's, with what was being read in its error.
func (r *reader) query(what string, row func(*sqlite3.Stmt), sql string, args ...any) error {
	err := errEnded
	if r.c != nil {
		err = r.c.query(row, sql, args...)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

func (r *reader) End() (end events.Position, err error) {
	err = r.query("end", func(s *sqlite3.Stmt) { end = events.Position(s.ColumnInt64(0)) },
		`SELECT max(position) FROM events`)
	return end, err
}

func (r *reader) Head(stream events.Stream) (events.Revision, error) {
	head, _, err := r.head(stream)
	return head, err
}

// head is the revision and the digest of the stream's last event.
func (r *reader) head(stream events.Stream) (head events.Revision, digest events.Digest, err error) {
	head = events.NoStream
	err = r.query("head of "+string(stream), func(s *sqlite3.Stmt) {
		head = events.Revision(s.ColumnInt64(0))
		copy(digest[:], s.ColumnRawBlob(1))
	}, `SELECT revision, digest FROM events WHERE stream = ? ORDER BY revision DESC LIMIT 1`, string(stream))
	return head, digest, err
}

func (r *reader) All(from events.Position, limit int) ([]events.Recorded, error) {
	page, err := r.page("events", `SELECT `+columns+` FROM events WHERE position >= ? ORDER BY position LIMIT ?`,
		int64(from), int64(max(limit, 0)))
	for _, e := range page {
		// A wrong bit in a tree's node leads astray. Who reads page by page would
		// then read for ever.
		if e.Position < from {
			return nil, fmt.Errorf("read events: at position %d where %d or a later one was asked for: %w", e.Position, from, events.ErrDamaged)
		}
		from = e.Position + 1
	}
	return page, err
}

func (r *reader) Stream(stream events.Stream, from events.Revision, limit int) ([]events.Recorded, error) {
	page, err := r.page("stream "+string(stream),
		`SELECT `+columns+` FROM events WHERE stream = ? AND revision >= ? ORDER BY revision LIMIT ?`,
		string(stream), int64(from), int64(max(limit, 0)))
	for _, e := range page {
		if e.Revision < from {
			return nil, fmt.Errorf("read stream %s: at revision %d where %d or a later one was asked for: %w", stream, e.Revision, from, events.ErrDamaged)
		}
		from = e.Revision + 1
	}
	return page, err
}

func (r *reader) Event(id events.EventID) (events.Recorded, bool, error) {
	found, err := r.page("event "+string(id), `SELECT `+columns+` FROM events WHERE id = ?`, string(id))
	if len(found) == 0 {
		return events.Recorded{}, false, err
	}
	return found[0], true, err
}

func (r *reader) page(what, sql string, args ...any) (page []events.Recorded, err error) {
	err = r.query(what, func(s *sqlite3.Stmt) {
		if len(page) == cap(page) {
			page = slices.Grow(page, max(1, 3*len(page))) // an event is large: few steps to a long page
		}
		page = append(page, stored(s))
	}, sql, args...)
	return page, err
}

// stored reads an event. One that does not decode is given as it is: to find
// damage is what the digests are for.
func stored(s *sqlite3.Stmt) events.Recorded {
	r := events.Recorded{
		Position: events.Position(s.ColumnInt64(0)),
		Stream:   events.Stream(s.ColumnText(1)),
		Revision: events.Revision(s.ColumnInt64(2)),
		ID:       events.EventID(s.ColumnText(3)),
		Version:  s.ColumnInt(5),
		Time:     events.Time(s.ColumnInt64(6)),
		Actor:    events.Participant(s.ColumnText(7)),
		Cause: events.Cause{
			Command: events.CommandID(s.ColumnText(8)),
			Event:   events.EventID(s.ColumnText(9)),
		},
		Policy: events.Position(s.ColumnInt64(10)),
		Data:   s.ColumnBlob(11, []byte{}),
		High:   events.Time(s.ColumnInt64(13)),
	}
	copy(r.Digest[:], s.ColumnRawBlob(12))
	r.Event, _ = events.Decode(events.Type(s.ColumnText(4)), r.Version, r.Data)
	return r
}

func (r *reader) AsOf(t events.Time) (events.Position, error) {
	end, err := r.End()
	if err != nil {
		return 0, err
	}
	return r.asOf(t, end)
}

// asOf is AsOf among the events up to a position.
func (r *reader) asOf(t events.Time, end events.Position) (_ events.Position, err error) {
	later := sort.Search(int(end), func(i int) bool {
		var high events.Time
		if e := r.query("time", func(s *sqlite3.Stmt) { high = events.Time(s.ColumnInt64(0)) },
			`SELECT high FROM events WHERE position = ?`, int64(i)+1); e != nil {
			err = e
		}
		return high > t
	})
	if err != nil {
		return 0, err
	}
	return events.Position(later), nil
}

func (r *reader) Body(id events.EventID) (b events.Body, found bool, err error) {
	err = r.query("body of "+string(id), func(s *sqlite3.Stmt) {
		found = true
		copy(b.Salt[:], s.ColumnRawBlob(0))
		b.Text = s.ColumnBlob(1, []byte{})
		copy(b.Fingerprint[:], s.ColumnRawBlob(2))
	}, `SELECT salt, body, fingerprint FROM bodies WHERE position = (SELECT position FROM events WHERE id = ?)`, string(id))
	return b, found, err
}

func (r *reader) Alike(f events.Fingerprint) (id events.EventID, found bool, err error) {
	err = r.query("bodies alike", func(s *sqlite3.Stmt) { id, found = events.EventID(s.ColumnText(0)), true },
		`SELECT id FROM bodies JOIN events USING (position) WHERE fingerprint = ? ORDER BY position DESC LIMIT 1`, f[:])
	return id, found, err
}

// Check lets SQLite compare every index with its table, and say where they
// differ. It reads the whole file.
func (r *reader) Check() (wrong []string, err error) {
	err = r.query("the file to check it", func(s *sqlite3.Stmt) {
		if what := s.ColumnText(0); what != "ok" {
			wrong = append(wrong, what)
		}
	}, `PRAGMA integrity_check`)
	return wrong, err
}

func (r *reader) Rows() events.Rows { return table{reader: r} }
