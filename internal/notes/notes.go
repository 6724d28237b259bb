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
	"sync"

	"decklog/events"
	"decklog/internal/bell"
)

// Notes are the notes beside one ledger. Several processes may write and read
// them at once.
type Notes struct {
	dir string // the ledger's folder

	memory *memory // instead of files; nil when there are files
	// tell is told of each observation besides; nil: nobody is.
	tell func(s events.SessionID, busy bool) error
}

// memory holds the notes of a ledger that is itself in memory.
type memory struct {
	mu     sync.Mutex
	seen   map[events.SessionID]Observation
	agents map[events.SessionID]bool
	looks  map[events.SessionID][]byte
	faults []Fault
}

// Open gives the notes in the ledger's folder; nothing is read or made before it
// is needed. Without a folder (no ledger was found) nothing is seen and no
// session noted, but faults are: in the user's state folder.
func Open(dir string) *Notes { return &Notes{dir: dir} }

// InMemory gives notes that this process keeps to itself.
func InMemory() *Notes {
	return &Notes{memory: &memory{seen: map[events.SessionID]Observation{}, agents: map[events.SessionID]bool{}, looks: map[events.SessionID][]byte{}}}
}

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

// Telling are the same notes, which tell somebody else whether a session is busy:
// who serves a ledger cannot look into a folder of another machine.
func (n *Notes) Telling(tell func(s events.SessionID, busy bool) error) *Notes {
	other := *n
	other.tell = tell
	return &other
}

func (n *Notes) note(s events.SessionID, o Observation) error {
	if n.tell != nil {
		if err := n.tell(s, o.Busy); err != nil {
			return fmt.Errorf("note session: %w", err)
		}
	}
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		n.memory.seen[s] = o
		return nil
	}
	path, err := n.path(s)
	if err == nil {
		err = bell.Note(path, o.Busy, o.At.Std())
	}
	if err != nil {
		return fmt.Errorf("note session: %w", err)
	}
	return nil
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
	busy, at, known := bell.Noted(path)
	if !known {
		return Observation{}
	}
	return Observation{Known: true, Busy: busy, At: events.At(at)}
}

// Forget takes the note of a session away, once it has ended.
func (n *Notes) Forget(s events.SessionID) error {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		delete(n.memory.seen, s)
		delete(n.memory.agents, s)
		delete(n.memory.looks, s)
		return nil
	}
	path, err := n.path(s)
	if err == nil {
		err = bell.Delegate(path, false)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget session: %w", err)
	}
	return n.forgetLook(s)
}

// Delegate notes that a session lets a subagent work, whose hooks look like its
// own, or that it no longer does.
func (n *Notes) Delegate(s events.SessionID, is bool) error {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		n.memory.agents[s] = is
		return nil
	}
	path, err := n.path(s)
	if err == nil {
		err = bell.Delegate(path, is)
	}
	if err != nil {
		return fmt.Errorf("note subagent: %w", err)
	}
	return nil
}

// Delegating says whether it was noted that a subagent works.
func (n *Notes) Delegating(s events.SessionID) bool {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		return n.memory.agents[s]
	}
	path, err := n.path(s)
	return err == nil && bell.Delegating(path)
}

// path is the file of a session's note.
func (n *Notes) path(s events.SessionID) (string, error) {
	switch {
	case n.dir == "":
		return "", errors.New("there is no ledger's folder")
	case s == "":
		return "", errors.New("the session has no id")
	}
	return bell.NotePath(n.dir, fileName(string(s))), nil
}

// fileName is the name of a session's note. An id that is too long to be one is
// there by its hash, behind a sign that no other name begins with.
func fileName(id string) string {
	if name := bell.Name(id); name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return "=" + hex.EncodeToString(sum[:])
}
