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
	faults.Point("before-row")
	switch {
	case key == "":
		return rows.ErrEmptyKey
	case value == nil:
		return t.tx.write("remove row", `DELETE FROM rows WHERE key = ?`, []byte(key))
	}
	return t.tx.write("put row", `REPLACE INTO rows (key, value) VALUES (?, ?)`, []byte(key), value)
}

// Scan visits rows as [events.Rows] says, and what visit puts as [rows.Rows]
// does: what lies ahead is seen as it then is.
func (t table) Scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) error {
	for limit := scanPage; ; limit = min(2*limit, scanPageMax) {
		writes := t.writes()
		page, err := t.page(prefix, after, backward, limit)
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
		if len(page) < limit && t.writes() == writes {
			return nil
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

func (t table) page(prefix, after string, backward bool, limit int) (page []row, err error) {
	from, to := rows.Bounds(prefix, after, backward)
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
		page = append(page, row{string(s.ColumnRawBlob(0)), s.ColumnBlob(1, []byte{})})
	}, sql, []byte(from), []byte(to), int64(limit))
	return page, err
}
