package sqlite

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/tidwall/btree"

	"decklog/internal/faults"
	"decklog/internal/rows"
)

const (
	// aheadBytesMax bounds the rows that a group holds before it writes them.
	aheadBytesMax = 4 << 20
	// knownBytesMax bounds the rows that are remembered from one group to the next.
	knownBytesMax = 8 << 20
)

// ahead is the rows as the groups know them, in front of those in the file. It
// holds what the members have put and SQLite has not been given yet, so that a
// row that each of them changes is written once, at the end, in the order of the
// keys. And it remembers rows that the file has: those that a group wrote, and
// those under the short prefixes that were scanned, which is what each command
// asks about its caller and nearly always finds empty. Whoever reads rows in a
// group looks here first.
//
// What the member that runs has put can be taken back until keep. What is
// remembered stays from one group to the next, unless anybody else wrote to the
// file; a group that is not committed takes it along.
type ahead struct {
	rows  btree.Map[string, []byte] // that were put; a nil value: the row is removed
	bytes int                       // of these, about
	was   []was                     // before the member that runs, in the order of its puts
	// base is rows as it was before the member that runs, when that member has
	// handed them to SQLite, or cleared all; they come back with its savepoint.
	base *ahead

	file      btree.Map[string, []byte] // rows that the file has
	known     map[string]bool           // the prefixes of which all these are held
	fileBytes int                       // of both, about
	version   int64                     // of the file, as PRAGMA data_version tells it
}

// was is a row before it was put.
type was struct {
	key   string
	value []byte
	there bool
}

func newAhead() *ahead { return &ahead{known: map[string]bool{}} }

// begin forgets what another has made old, or has become too much, and says whether
// the file is as it was left.
func (a *ahead) begin(c *connection) (same bool, err error) {
	var version int64
	if err := c.query(func(s *sqlite3.Stmt) { version = s.ColumnInt64(0) }, `PRAGMA data_version`); err != nil {
		return false, err
	}
	same = version == a.version
	if !same || a.fileBytes > knownBytesMax {
		*a = *newAhead()
		a.version = version
	}
	return same, nil
}

// get gives a row that it holds; nil and true for one that is removed.
func (a *ahead) get(key string) (value []byte, there bool) {
	if value, there = a.rows.Get(key); !there {
		value, there = a.file.Get(key)
	}
	return value, there
}

// put holds a copy of value; nil removes the row.
func (a *ahead) put(key string, value []byte) {
	var held []byte
	if value != nil {
		held = append(make([]byte, 0, len(value)), value...)
	}
	old, there := a.rows.Set(key, held)
	a.bytes += len(held) - len(old)
	if !there {
		a.bytes += len(key)
	}
	if a.base == nil {
		a.was = append(a.was, was{key, old, there})
	}
}

// keep makes what the member did part of the group.
func (a *ahead) keep() {
	clear(a.was)
	a.was, a.base = a.was[:0], nil
}

// undo takes back what the member did.
func (a *ahead) undo() {
	if base := a.base; base != nil {
		*a = *base
	}
	for i := len(a.was) - 1; i >= 0; i-- {
		w := a.was[i]
		if w.there {
			now, _ := a.rows.Set(w.key, w.value)
			a.bytes += len(w.value) - len(now)
		} else {
			now, _ := a.rows.Delete(w.key)
			a.bytes -= len(w.key) + len(now)
		}
	}
	a.keep()
}

// leave forgets all rows, because SQLite was given them, or all are cleared, in
// the savepoint of the member that runs.
func (a *ahead) leave() {
	base, version := a.base, a.version
	if base == nil {
		before := *a
		base = &before
	}
	*a = *newAhead()
	a.base, a.version = base, version
}

// write gives SQLite the rows that were put.
func (a *ahead) write(run func(sql string, args ...any) error) (err error) {
	a.rows.Scan(func(key string, value []byte) bool {
		faults.Point("before-row")
		err = writeRow(run, key, value)
		return err == nil
	})
	return err
}

// written notes that the file has them, durably.
func (a *ahead) written() {
	a.rows.Scan(func(key string, value []byte) bool {
		a.hold(key, value)
		return true
	})
	a.rows.Clear()
	a.bytes = 0
}

// hold notes a row of the file.
func (a *ahead) hold(key string, value []byte) {
	if value == nil {
		old, there := a.file.Delete(key)
		if there {
			a.fileBytes -= len(key) + len(old)
		}
		return
	}
	old, there := a.file.Set(key, value)
	a.fileBytes += len(value) - len(old)
	if !there {
		a.fileBytes += len(key)
	}
}

// learn holds all that the file has under a prefix.
func (a *ahead) learn(prefix string, stored []row) {
	if a.base != nil {
		return // the member has written to the file, and that may be undone
	}
	for _, r := range stored {
		a.hold(r.key, r.value)
	}
	a.known[prefix] = true
	a.fileBytes += len(prefix)
}

// within gives the first rows of a tree in a range of keys, in the order of a
// scan, at most limit of them.
func within(tree *btree.Map[string, []byte], from, to string, backward bool, limit int) (found []row) {
	if !backward {
		tree.Ascend(from, func(key string, value []byte) bool {
			if to != "" && key >= to {
				return false
			}
			found = append(found, row{key, value})
			return len(found) < limit
		})
		return found
	}
	step := func(key string, value []byte) bool {
		if key < from {
			return false
		}
		if key != to {
			found = append(found, row{key, value})
		}
		return len(found) < limit
	}
	if to == "" {
		tree.Reverse(step)
	} else {
		tree.Descend(to, step)
	}
	return found
}

// over lays what is held over what is stored. Each is a page of at most limit rows,
// and says nothing of what lies behind its last when it has as many; so the page
// that comes of both ends where the first of them does. last is the last key that
// was looked at; more says that there may be others behind it.
func over(stored, held []row, backward bool, limit int) (page []row, last string, more bool) {
	before := func(a, b string) bool { return a < b != backward && a != b }
	for _, full := range [][]row{stored, held} {
		if len(full) < limit {
			continue
		}
		if end := full[len(full)-1].key; !more || before(end, last) {
			last, more = end, true
		}
	}
	if more {
		stored, held = upTo(stored, last, before), upTo(held, last, before)
	} else if len(stored) > 0 {
		last = stored[len(stored)-1].key
	}
	if len(held) == 0 {
		return stored, last, more
	}
	page = make([]row, 0, len(stored)+len(held))
	for _, h := range held {
		for len(stored) > 0 && before(stored[0].key, h.key) {
			page, stored = append(page, stored[0]), stored[1:]
		}
		if len(stored) > 0 && stored[0].key == h.key {
			stored = stored[1:]
		}
		if h.value != nil {
			page = append(page, h)
		}
	}
	return append(page, stored...), last, more
}

// upTo is what of a page does not lie behind a key.
func upTo(page []row, last string, before func(a, b string) bool) []row {
	for len(page) > 0 && before(last, page[len(page)-1].key) {
		page = page[:len(page)-1]
	}
	return page
}

// writeRow puts a row; a nil value removes it.
func writeRow(run func(sql string, args ...any) error, key string, value []byte) error {
	switch {
	case key == "":
		return rows.ErrEmptyKey
	case value == nil:
		return run(`DELETE FROM rows WHERE key = ?`, []byte(key))
	}
	return run(`REPLACE INTO rows (key, value) VALUES (?, ?)`, []byte(key), value)
}
