// Package bell keeps the bells: a file for each session that says whether its
// mailbox is worth a look. Nothing waiting is the common case of a hook run, and
// a look at one file is all that it then costs.
//
// A bell may ring in vain. It never stays silent for a message that waits, and
// three things make that so (ADR 0012):
//
//   - It is rung inside the transaction that makes something wait, before its
//     commit: who dies in between has rung in vain.
//   - It is silenced only inside a write transaction that found nothing waiting
//     and nothing leased when it began, and that writes nothing itself. Both
//     are under the ledger's write lock, so no ring is lost between look and
//     silence; and there is no commit whose failure could undo the reason.
//   - A bell that is not there rings. So to ring is to remove the silence, which
//     needs no space on a disk that is full.
//
// The package knows files and nothing of messages. It imports little, because
// the program that looks at the bell first is started at every tool call.
package bell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// LookEvery is the longest that a bell stays silent for a session around which
// something may fall due without an event: a send that nobody took, a debt.
const LookEvery = 60 * time.Second

// forever is the file time of a bell around which nothing can fall due.
var forever = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// rung is the file time of a bell that rings now.
var rung = time.Unix(0, 0)

// Bells are those beside one ledger. The zero value, of a ledger without a
// folder, has bells that always ring.
type Bells struct{ dir string }

// Beside gives the bells in a ledger's folder.
func Beside(folder string) Bells {
	if folder == "" {
		return Bells{}
	}
	return Bells{dir: filepath.Join(folder, "bells")}
}

// Rings says whether a session's mailbox is worth a look at this moment: its
// bell was rung, or is due, or nobody knows. A bell that is due further ahead
// than any bell is ever set is of a clock that went back since, and rings.
func (b Bells) Rings(session string, now time.Time) bool {
	path := b.path(session)
	if path == "" {
		return true
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	due := info.ModTime()
	if due.Equal(forever) {
		return false
	}
	return !now.Before(due) || due.Sub(now) > LookEvery
}

// Ring makes a session's bell ring. One that is not there rings already.
func (b Bells) Ring(session string) error {
	path := b.path(session)
	if path == "" {
		return nil
	}
	err := os.Chtimes(path, rung, rung)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Remove(path)
}

// Silence makes a session's bell silent until a moment, at most LookEvery ahead;
// nil: until it is rung. Only a transaction that the package speaks of may call it.
func (b Bells) Silence(session string, until *time.Time) error {
	path := b.path(session)
	if path == "" {
		return nil
	}
	due := forever
	if until != nil {
		due = *until
	}
	err := os.Chtimes(path, due, due)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(path, due, due)
}

// Forget takes away the bell of a session that has ended; it then rings.
func (b Bells) Forget(session string) error {
	path := b.path(session)
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// path is the session's bell; empty when it can have none.
func (b Bells) path(session string) string {
	name := Name(session)
	if b.dir == "" || name == "" {
		return ""
	}
	return filepath.Join(b.dir, name)
}

// nameBytesMax is how long the name of a file may be.
const nameBytesMax = 200

// Name makes a session's id, whatever it holds, a name of a file in one folder:
// letters, digits, dot, underscore and hyphen stay, except for a dot in front;
// any other byte becomes %XX. No two ids have one name. It is empty for an id
// that has none, or whose name would be too long.
func Name(id string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(id))
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	if len(b) > nameBytesMax {
		return ""
	}
	return string(b)
}

// ignored is the list of directories whose sessions take no part. It lies among
// the bells, under a name that no session's bell can have.
const ignored = ".ignored"

// Ignores says whether a session that works in a directory takes no part: it has
// no bell, and the list of the ignored directories names one that holds it.
// Without a list nobody is ignored here, and the full program decides.
func (b Bells) Ignores(session, dir string) bool {
	if b.dir == "" || !filepath.IsAbs(dir) {
		return false
	}
	list, err := os.ReadFile(filepath.Join(b.dir, ignored))
	if err != nil || len(list) == 0 {
		return false
	}
	if _, err := os.Lstat(b.path(session)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for root := range strings.Lines(string(list)) {
		if Under(dir, strings.TrimSuffix(root, "\n")) {
			return true
		}
	}
	return false
}

// Under says whether a directory is root or lies in it; both are paths without
// symbolic links.
func Under(dir, root string) bool {
	const slash = string(filepath.Separator)
	return dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, slash)+slash)
}

// Ignore writes the list of the ignored directories, each with its symbolic
// links resolved. With none the list is taken away, which a policy that ignores
// others does before it is in force. Both are for a write transaction: else a
// list of a policy that was left behind could stay.
func (b Bells) Ignore(roots []string) error {
	if b.dir == "" {
		return nil
	}
	file := filepath.Join(b.dir, ignored)
	if len(roots) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.Mkdir(b.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Whole or not at all: half a path would name another directory.
	half := file + ".new"
	if err := os.WriteFile(half, []byte(strings.Join(roots, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(half, file)
}
