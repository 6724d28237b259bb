package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"decklog/events"
)

// explain puts the ledger's word for an error of SQLite, or of the system, in
// front of it, and leaves one for which there is no word as it is. What an
// error at COMMIT means only the committer can say.
func explain(err error) error {
	is := func(causes ...error) bool {
		for _, cause := range causes {
			if errors.Is(err, cause) {
				return true
			}
		}
		return false
	}
	var word error
	switch {
	case err == nil:
		return nil
	case is(sqlite3.FULL, unix.ENOSPC, unix.EDQUOT),
		is(sqlite3.IOERR_SHMSIZE): // the index of the log found no room
		word = events.ErrNoSpace
	case is(sqlite3.CORRUPT, sqlite3.NOTADB),
		is(sqlite3.ERROR): // every statement is ours, so it is the file's tables that are not
		word = events.ErrDamaged
	case is(sqlite3.BUSY, sqlite3.LOCKED):
		word = events.ErrLocked
	case is(sqlite3.READONLY, sqlite3.CANTOPEN, sqlite3.PERM, fs.ErrPermission, unix.EROFS),
		is(unix.ENOTDIR, unix.ENAMETOOLONG, unix.ELOOP): // there can be no file of this name
		word = events.ErrReadOnly
	default:
		return err
	}
	return fmt.Errorf("%w: %w", word, err)
}
