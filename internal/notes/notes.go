// Package notes keeps what was observed and is no event: whether a session is
// busy, when it was last seen, and what went wrong in a hook. It lies in files
// beside the ledger and costs no commit, because every prompt and every tool
// call leaves some.
//
// Nothing here decides what a replay shows, so nothing here is worth a failure:
// a note that cannot be written is an error to report and go on from, and one
// that cannot be read is as if it had never been made.
package notes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"decklog/events"
)

// Notes are the notes beside one ledger. Several processes may write and read
// them at once.
type Notes struct {
	dir string // the ledger's folder

	memory *memory // instead of files; nil when there are files
}

// memory holds the notes of a ledger that is itself in memory.
type memory struct {
	mu     sync.Mutex
	seen   map[events.SessionID]Observation
	faults []Fault
}

// Open gives the notes in the ledger's folder; nothing is read or made before it
// is needed. Without a folder (no ledger was found) nothing is seen and no
// session noted, but faults are: in the user's state folder.
func Open(dir string) *Notes { return &Notes{dir: dir} }

// InMemory gives notes that this process keeps to itself.
func InMemory() *Notes { return &Notes{memory: &memory{seen: map[events.SessionID]Observation{}}} }

// Observation is what was last seen of a session.
type Observation struct {
	Known bool // false: nothing was ever seen, or it cannot be read
	Busy  bool // it was in a turn
	At    events.Time
}

// Busy notes that a session is in a turn.
func (n *Notes) Busy(s events.SessionID, now events.Time) error {
	return n.note(s, Observation{Known: true, Busy: true, At: now})
}

// Idle notes that a session waits for its person.
func (n *Notes) Idle(s events.SessionID, now events.Time) error {
	return n.note(s, Observation{Known: true, At: now})
}

// A note is one line, always of the same length, so that it is written over the
// last one in a single write and nobody reads half of two:
//
//	busy 2026-11-30T09:00:00.000000Z
const (
	busy, idle = "busy ", "idle "
	noteBytes  = len("busy 2026-11-30T09:00:00.000000Z\n")
)

func (n *Notes) note(s events.SessionID, o Observation) error {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		n.memory.seen[s] = o
		return nil
	}
	line := idle + o.At.String() + "\n"
	if o.Busy {
		line = busy + o.At.String() + "\n"
	}
	path, err := n.path(s)
	if err == nil && len(line) != noteBytes {
		err = fmt.Errorf("%v has no year of four digits", o.At)
	}
	if err == nil {
		err = overwrite(path, line)
	}
	if err != nil {
		return fmt.Errorf("note session: %w", err)
	}
	return nil
}

// overwrite writes a short text to the beginning of a file, which it makes, with
// its folder, when it is not there. It does not sync: a note that a crash takes
// along was about a process that it took along too.
func overwrite(path, text string) error {
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600) }
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		// Only this folder: were the one above it missing, so would be the ledger.
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err = open()
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Close())
}

// Seen is what was last noted of a session.
func (n *Notes) Seen(s events.SessionID) Observation {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		return n.memory.seen[s]
	}
	path, err := n.path(s)
	if err != nil {
		return Observation{}
	}
	f, err := os.Open(path)
	if err != nil {
		return Observation{}
	}
	defer f.Close()
	var line [noteBytes]byte
	if _, err := f.ReadAt(line[:], 0); err != nil || line[noteBytes-1] != '\n' {
		return Observation{}
	}
	state, moment := string(line[:len(busy)]), string(line[len(busy):noteBytes-1])
	at, err := events.ParseTime(moment)
	if err != nil || state != busy && state != idle {
		return Observation{}
	}
	return Observation{Known: true, Busy: state == busy, At: at}
}

// Forget takes the note of a session away, once it has ended.
func (n *Notes) Forget(s events.SessionID) error {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		delete(n.memory.seen, s)
		return nil
	}
	path, err := n.path(s)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget session: %w", err)
	}
	return nil
}

// path is the file of a session's note.
func (n *Notes) path(s events.SessionID) (string, error) {
	switch {
	case n.dir == "":
		return "", errors.New("there is no ledger's folder")
	case s == "":
		return "", errors.New("the session has no id")
	}
	return filepath.Join(n.dir, "notes", fileName(string(s))), nil
}

// fileName makes a session's id, whatever it holds, a name of a file in one
// folder: letters, digits, dot, underscore and hyphen stay, except for a dot in
// front; any other byte becomes %XX. What is then too long for a file system
// becomes its hash, behind a sign that no other name begins with. No two ids
// have one name.
func fileName(id string) string {
	const nameBytesMax = 200
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= nameBytesMax {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return "=" + hex.EncodeToString(sum[:])
}
