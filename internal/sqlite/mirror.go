package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
)

// mirrorID marks a file that mirrors a ledger which lies elsewhere: "decm". To
// append to it as to a ledger would part it from what it mirrors, so it is no
// ledger for anybody who does not ask for a mirror.
const mirrorID = 0x6465636d

// mirrorNotes is what a mirror has besides a ledger's tables.
const mirrorNotes = `
CREATE TABLE notes (
	key   TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;`

// Mirrors makes the file a mirror of a ledger that lies elsewhere, for who brings
// what was recorded there by [Ledger.Bring]. What is appended to it is only tried:
// the transaction sees what would come of it, and cannot be kept. Its commits wait
// for no disk: they are whole after a crash, but the last of them may be gone after
// a power cut, and are then brought again.
//
// It is [Grouped], and one process at a time may write to it.
func Mirrors() Option {
	return func(o *options) { o.mirror = true }
}

// Noted reads what lies beside the events: it is what the reader of a mirror can do
// besides.
type Noted interface {
	// Noted reads a note; nil when there is none.
	Noted(key string) ([]byte, error)
	// Notes calls visit with each whose key begins with prefix, in their order.
	Notes(prefix string, visit func(key string, value []byte)) error
	// Tallies calls visit with each tally.
	Tallies(visit func(key string, count int, since events.Time)) error
}

// Mirror is what the transaction of an Update can do besides when the file
// [Mirrors] another ledger.
type Mirror interface {
	events.Tx
	// Record puts events that another ledger recorded behind the last. Of each the
	// position, the running maximum of times and the digest are reckoned here, and
	// the rest is kept as it is given; but one whose id is here already is kept as
	// what twice makes of it, without body and drops; without twice that is an error.
	// All are of one stream, and go to the projector as one append.
	Record(arrived []Arrived, twice func(events.Recorded) events.Recorded) ([]events.Recorded, error)
	// Alive is why the transaction can write nothing more; nil while it can.
	Alive() error
	// Note keeps a value beside the events, that is neither event nor view; nil
	// takes it away.
	Note(key string, value []byte) error
	Noted
}

// Arrived is an event that another ledger recorded.
type Arrived struct {
	events.Recorded
	Body  *events.Body     // nil when it has none, or it went
	Drops []events.EventID // whose bodies go with it
}

var (
	_ Mirror = (*tx)(nil)
	_ Noted  = (*reader)(nil)
)

// Bring is an Update for what was recorded elsewhere: others wait for it, so it waits
// for nobody behind it to have its turn before the commit.
func (l *Ledger) Bring(fn func(Mirror) error) error {
	return l.join(&member{told: make(chan told, 1), final: true}, func(t events.Tx) error { return fn(t.(Mirror)) })
}

func (t *tx) Record(arrived []Arrived, twice func(events.Recorded) events.Recorded) ([]events.Recorded, error) {
	if err := t.alive(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if len(arrived) == 0 {
		return nil, nil
	}
	stream := arrived[0].Stream
	recorded, err := t.mirror(stream, arrived, twice)
	if err == nil {
		err = t.project(t.Rows(), recorded)
	}
	if err != nil {
		t.failed = fmt.Errorf("record in %s: %w", stream, err)
		return nil, t.failed
	}
	return recorded, nil
}

func (t *tx) mirror(stream events.Stream, arrived []Arrived, twice func(events.Recorded) events.Recorded) ([]events.Recorded, error) {
	head, before, err := t.head(stream)
	t.asked = asked{}
	if err == nil {
		err = t.findLast()
	}
	if err != nil {
		return nil, err
	}
	out := make([]events.Recorded, 0, len(arrived))
	for _, a := range arrived {
		if head++; a.Stream != stream || a.Revision != head {
			return nil, fmt.Errorf("event %s is revision %d of %s, not %d of %s: %w", a.ID, a.Revision, a.Stream, head, stream, events.ErrDamaged)
		}
		r := a.Recorded
		r.Position, r.High = t.last+1, r.Time
		if t.last > 0 {
			r.High = max(r.Time, t.high)
		}
		p := events.Proposed{Body: a.Body, Drops: a.Drops}
		r.Digest = r.Chain(before)
		is, err := true, error(nil)
		if twice == nil {
			err = t.storeEvent(r)
		} else {
			is, err = t.storeNew(r)
		}
		if !is && err == nil {
			r, p = twice(r), events.Proposed{}
			r.Digest = r.Chain(before)
			err = t.storeEvent(r)
		}
		if err == nil {
			err = t.storeBeside(r, p)
		}
		if err != nil {
			return nil, err
		}
		before = r.Digest
		out = append(out, r)
	}
	t.went(stream, head, before)
	return out, nil
}

// storeNew writes an event, unless there is one of its id.
func (t *tx) storeNew(r events.Recorded) (is bool, err error) {
	if err := t.insert(insertEvent+` ON CONFLICT (id) DO NOTHING`, r); err != nil || t.c.db.Changes() == 0 {
		return false, err
	}
	t.stored(r)
	return true, nil
}

func (t *tx) Alive() error { return t.alive() }

func (t *tx) Note(key string, value []byte) error {
	if value == nil {
		return t.write("take note away", `DELETE FROM notes WHERE key = ?`, key)
	}
	return t.write("note", `REPLACE INTO notes (key, value) VALUES (?, ?)`, key, value)
}

func (r *reader) Noted(key string) (value []byte, err error) {
	err = r.query("note", func(s *sqlite3.Stmt) { value = s.ColumnBlob(0, []byte{}) }, `SELECT value FROM notes WHERE key = ?`, key)
	return value, err
}

func (r *reader) Notes(prefix string, visit func(key string, value []byte)) error {
	return r.query("notes", func(s *sqlite3.Stmt) { visit(s.ColumnText(0), s.ColumnBlob(1, []byte{})) },
		`SELECT key, value FROM notes WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key`, prefix)
}

func (r *reader) Tallies(visit func(key string, count int, since events.Time)) error {
	return r.query("tallies", func(s *sqlite3.Stmt) { visit(s.ColumnText(0), s.ColumnInt(1), events.Time(s.ColumnInt64(2))) },
		`SELECT key, count, since FROM tallies ORDER BY key`)
}
