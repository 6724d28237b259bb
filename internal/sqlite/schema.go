package sqlite

import (
	"fmt"
	"os"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/faults"
)

const (
	// applicationID marks the file as ours: "deck".
	applicationID = 0x6465636b
	// format is the version of the schema. It rises when an older decklog must
	// not touch the file.
	format = 1
)

// The journal modes that a ledger may have.
const (
	journalWAL    = "wal"
	journalDelete = "delete"
)

// schema is the ledger's tables.
//
// An event is never changed and never removed, and the triggers see to it that
// no later statement of ours forgets that; they are no lock against somebody
// who has the file. `high` is the running maximum of `time`: it never falls, so
// the place of a moment is found by halving, whatever the clock did.
//
// A body has its event's position for its key, not the event's id: ids are
// random, and each random key costs a commit another page of the log. For the
// keys of `rows` BLOB compares byte by byte, whatever the bytes are.
var schema = `
CREATE TABLE events (
	position  INTEGER PRIMARY KEY,
	stream    TEXT    NOT NULL,
	revision  INTEGER NOT NULL,
	id        TEXT    NOT NULL UNIQUE,
	type      TEXT    NOT NULL,
	version   INTEGER NOT NULL,
	time      INTEGER NOT NULL,
	high      INTEGER NOT NULL,
	actor     TEXT    NOT NULL,
	command   TEXT    NOT NULL,
	caused_by TEXT    NOT NULL,
	policy    INTEGER NOT NULL,
	data      BLOB    NOT NULL,
	digest    BLOB    NOT NULL,
	UNIQUE (stream, revision)
) STRICT;
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;
CREATE TRIGGER events_never_go BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never removed'); END;
CREATE TABLE bodies (
	position    INTEGER PRIMARY KEY REFERENCES events,
	salt        BLOB NOT NULL,
	body        BLOB NOT NULL,
	fingerprint BLOB NOT NULL
) STRICT;
CREATE INDEX bodies_alike ON bodies (fingerprint);
CREATE TABLE rows (
	key   BLOB NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tallies (
	key   TEXT    NOT NULL PRIMARY KEY,
	count INTEGER NOT NULL,
	since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = ` + strconv.Itoa(format) + `;`

// tables is what an empty file is given, and its mark.
func (l *Ledger) tables() string {
	all := schema
	if l.mirror {
		all += mirrorNotes
	}
	return all + fmt.Sprintf("PRAGMA application_id = %d;", l.applicationID())
}

func (l *Ledger) applicationID() int64 {
	if l.mirror {
		return mirrorID
	}
	return applicationID
}

// prepare brings the file to what this program works with: nothing to do for a
// ledger, everything for an empty file, an error for anything else.
func (l *Ledger) prepare() (err error) {
	defer l.guard(&err)()
	c, err := l.connections.lend()
	if err != nil {
		return err
	}
	defer l.connections.giveBack(c)
	ready := false
	if l.journal == journalWAL {
		ready, err = l.look(c)
	}
	if err == nil && !ready {
		err = l.make(c)
	}
	if err != nil {
		return err
	}
	l.coverIndex()
	return nil
}

// look is ready in a snapshot of its own: a file that is made just now must not
// look empty at first and then like something else.
func (l *Ledger) look(c *connection) (bool, error) {
	if err := c.exec("BEGIN"); err != nil {
		return false, err
	}
	defer c.rollback()
	return l.ready(c)
}

// ready says whether the file is a ledger in the journal mode that it should
// have; false when it has to be made so.
func (l *Ledger) ready(c *connection) (bool, error) {
	var found [2]int64
	for i, name := range []string{"application_id", "user_version"} {
		text, err := c.pragma(name)
		if err != nil {
			return false, err
		}
		found[i], _ = strconv.ParseInt(text, 10, 64)
	}
	switch id, version := found[0], found[1]; {
	case id == l.applicationID() && version > format:
		return false, fmt.Errorf("format %d, this one knows up to %d: %w", version, format, events.ErrNewer)
	case id == l.applicationID() && version == format:
		journal, err := c.pragma("journal_mode")
		return journal == l.journal, err
	case id == 0 && version == 0:
		empty := true
		err := c.query(func(*sqlite3.Stmt) { empty = false }, "SELECT 1 FROM sqlite_schema LIMIT 1")
		if err != nil || empty {
			return false, err
		}
	}
	return false, fmt.Errorf("it is another program's database: %w", events.ErrDamaged)
}

// make is what one process does to a new file while the others wait for the
// ticket. It also changes the journal mode of a ledger that was moved to
// another kind of file system.
func (l *Ledger) make(c *connection) error {
	if err := l.ticket.take(); err != nil {
		return err
	}
	defer l.ticket.giveBack()
	if l.journal == journalDelete {
		// Should the file still have a write-ahead log, then its index must not
		// be put into shared memory here. A connection that excludes all others
		// needs none.
		if _, err := c.pragma("locking_mode=EXCLUSIVE"); err != nil {
			return err
		}
		defer func() {
			c.pragma("locking_mode=NORMAL")
			c.pragma("user_version") // the next read lets the lock go
		}()
	}
	if ready, err := l.look(c); err != nil || ready {
		return err
	}
	switch journal, err := c.pragma("journal_mode=" + l.journal); {
	case err != nil:
		return err
	case journal != l.journal:
		return fmt.Errorf("set journal mode: it is %s, not %s", journal, l.journal)
	}
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer c.rollback()
	if ready, err := l.ready(c); err != nil || ready {
		return err
	}
	if err := explain(c.db.Exec(l.tables())); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	faults.Point("tables-made")
	return c.exec("COMMIT")
}

// coverIndex gives the log's index the rights of the ledger. The driver makes
// it with those of any new file. By its name alone: see the package comment.
func (l *Ledger) coverIndex() {
	if file, err := os.Stat(l.path); err == nil && l.journal == journalWAL {
		os.Chmod(l.path+"-shm", file.Mode().Perm())
	}
}
