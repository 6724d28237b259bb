package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/faults"
	"decklog/internal/rows"
)

// A scan reads its rows in pages that grow, since most scans want only a few.
const (
	scanPage    = 8
	scanPageMax = 512
	// scanPageKnown is that of a group: a prefix with fewer rows is remembered.
	scanPageKnown = 32
)

// table is the rows of the views in one transaction.
type table struct {
	*reader
	tx *tx // nil in a view
}

var (
	_ events.Rows   = table{}
	_ events.Keeper = table{}
)

func (t table) Kept() any     { return t.kept }
func (t table) Keep(fold any) { t.kept = fold }

func (t table) Get(key string) (value []byte, err error) {
	if a := t.ahead(); a != nil {
		if value, there := a.get(key); there {
			return value, nil
		}
	}
	err = t.query("row", func(s *sqlite3.Stmt) { value = s.ColumnBlob(0, []byte{}) },
		`SELECT value FROM rows WHERE key = ?`, []byte(key))
	return value, err
}

func (t table) Put(key string, value []byte) error {
	if t.tx == nil {
		return fmt.Errorf("put row: %w", errView)
	}
	if err := t.tx.alive(); err != nil {
		return fmt.Errorf("put row: %w", err)
	}
	if a := t.ahead(); a != nil && key != "" {
		t.tx.writes++
		a.put(key, value)
		if a.bytes > aheadBytesMax {
			return t.tx.handOver()
		}
		return nil
	}
	faults.Point("before-row")
	return writeRow(func(sql string, args ...any) error { return t.tx.write("put row", sql, args...) }, key, value)
}

// ahead is what the group holds of the rows; nil outside of one.
func (t table) ahead() *ahead {
	if t.tx == nil || t.c == nil {
		return nil
	}
	return t.tx.ahead
}

// Scan visits rows as [events.Rows] says, and what visit puts as [rows.Rows]
// does: what lies ahead is seen as it then is.
func (t table) Scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) error {
	for limit := scanPage; ; limit = min(2*limit, scanPageMax) {
		writes := t.writes()
		page, last, more, err := t.page(prefix, after, backward, limit)
		if err != nil {
			return err
		}
		for _, row := range page {
			if after != "" && (row.key <= after) != backward || row.key == after {
				return fmt.Errorf("scan rows: %q follows %q: %w", row.key, after, events.ErrDamaged)
			}
			if !visit(row.key, row.value) {
				return nil
			}
			after = row.key
			if t.writes() != writes {
				break // the rest of the page is old
			}
		}
		if t.writes() == writes {
			if !more {
				return nil
			}
			after = last
		}
	}
}

func (t table) writes() int {
	if t.tx == nil {
		return 0
	}
	return t.tx.writes
}

type row struct {
	key   string
	value []byte
}

// page gives the next rows of a scan, the last key that it has looked at, and
// whether there may be more behind it.
func (t table) page(prefix, after string, backward bool, limit int) (page []row, last string, more bool, err error) {
	from, to := rows.Bounds(prefix, after, backward)
	a := t.ahead()
	if a == nil {
		page, err = t.stored(from, to, backward, limit)
		page, last, more = over(page, nil, backward, limit)
		return page, last, more, err
	}
	if a.known[prefix] {
		page, last, more = over(within(&a.file, from, to, backward, limit), within(&a.rows, from, to, backward, limit), backward, limit)
		return page, last, more, nil
	}
	limit = max(limit, scanPageKnown)
	stored, err := t.stored(from, to, backward, limit)
	if err != nil {
		return nil, "", false, err
	}
	if after == "" && len(stored) < limit {
		a.learn(prefix, stored)
	}
	page, last, more = over(stored, within(&a.rows, from, to, backward, limit), backward, limit)
	return page, last, more, nil
}

// stored gives the next rows of a range of keys as the file has them.
func (t table) stored(from, to string, backward bool, limit int) (found []row, err error) {
	sql := `SELECT key, value FROM rows WHERE key >= ?1 `
	if to != "" {
		sql += `AND key < ?2 `
	}
	if backward {
		sql += `ORDER BY key DESC LIMIT ?3`
	} else {
		sql += `ORDER BY key LIMIT ?3`
	}
	err = t.query("rows", func(s *sqlite3.Stmt) {
		found = append(found, row{string(s.ColumnRawBlob(0)), s.ColumnBlob(1, []byte{})})
	}, sql, []byte(from), []byte(to), int64(limit))
	return found, err
}
