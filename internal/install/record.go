package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Record is what installations changed, so that a removal can restore a file
// byte for byte. It lies in the user's state folder and holds no copy of anybody's
// file: only where a text was put in, and what stood there before.
type Record struct {
	path  string
	Files map[string][]Edit `json:"files"` // by path, the oldest first
}

// Edit is one change of a file: the bytes of After from At, Cut of them, stand
// where Put stood before.
type Edit struct {
	Before string `json:"before"` // SHA-256 of the file; empty: there was none
	After  string `json:"after"`
	At     int    `json:"at"`
	Cut    int    `json:"cut"`
	Put    string `json:"put"`
	// Made are the containers in the file that were missing before.
	Made []string `json:"made,omitempty"`
	// Folders are those that had to be made for the file, the deepest first.
	Folders []string `json:"folders,omitempty"`
}

// editsMax bounds how many edits of a file are remembered.
const editsMax = 20

// OpenRecord reads the record. One that is not there, or cannot be read, is empty:
// a removal then takes out what it knows as decklog's.
func OpenRecord(stateFolder string) *Record {
	r := &Record{path: filepath.Join(stateFolder, "installed.json")}
	if text, err := os.ReadFile(r.path); err == nil {
		_ = json.Unmarshal(text, r)
	}
	if r.Files == nil {
		r.Files = map[string][]Edit{}
	}
	return r
}

// NoRecord is a record that knows of nothing.
func NoRecord() *Record { return &Record{} }

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// editOf is what undoes a change.
func editOf(c Change) Edit {
	from := 0
	for from < min(len(c.Before), len(c.After)) && c.Before[from] == c.After[from] {
		from++
	}
	same := 0
	for same < min(len(c.Before), len(c.After))-from && c.Before[len(c.Before)-1-same] == c.After[len(c.After)-1-same] {
		same++
	}
	e := Edit{
		After: sum(c.After), At: from, Cut: len(c.After) - same - from,
		Put: string(c.Before[from : len(c.Before)-same]), Made: c.made,
	}
	if c.Was {
		e.Before = sum(c.Before)
	}
	return e
}

// undo takes back what installations did to a file, as far as nobody has changed
// it since; all says that this was all that they did.
func (r *Record) undo(path string, text []byte) (before []byte, was, all bool) {
	edits := r.Files[path]
	for i, e := range slices.Backward(edits) {
		if e.After != sum(text) || e.At+e.Cut > len(text) {
			return text, true, false
		}
		before = slices.Concat(text[:e.At], []byte(e.Put), text[e.At+e.Cut:])
		switch {
		case e.Before == "":
			return nil, false, i == 0
		case e.Before != sum(before):
			return text, true, false
		}
		text = before
	}
	return text, true, len(edits) > 0
}

// made are the containers that installations made in a file.
func (r *Record) made(path string) (made []string, known bool) {
	for _, e := range r.Files[path] {
		made, known = append(made, e.Made...), true
	}
	return made, known
}

// Apply makes the changes of a plan, and remembers them.
func (p Plan) Apply(log *Record, removes bool) error {
	for _, c := range p.Unchanged {
		switch {
		case removes:
			log.forget(c)
		case c.Was && log.Files[c.Path] == nil:
			log.remember(c, editOf(c)) // what its user wrote by hand, a removal leaves
		}
	}
	for _, c := range p.Changes {
		var folders []string
		if !removes && !c.Was {
			folders = missing(filepath.Dir(c.Path))
		}
		if err := c.Apply(); err != nil {
			return err
		}
		if removes {
			log.forget(c)
		} else {
			e := editOf(c)
			e.Folders = folders
			log.remember(c, e)
		}
		if err := log.write(); err != nil {
			return err
		}
	}
	return nil
}

// missing are a folder and those above it that are not there, the deepest first.
func missing(folder string) (all []string) {
	for {
		if _, err := os.Stat(folder); err == nil || filepath.Dir(folder) == folder {
			return all
		}
		all = append(all, folder)
		folder = filepath.Dir(folder)
	}
}

func (r *Record) remember(c Change, e Edit) {
	edits := append(r.Files[c.Path], e)
	r.Files[c.Path] = edits[max(0, len(edits)-editsMax):]
}

// forget drops what is known of a file that nothing of decklog is left in, and
// takes away the folders that were made for it, if nothing else is in them.
func (r *Record) forget(c Change) {
	if c.Gone {
		for _, e := range slices.Backward(r.Files[c.Path]) {
			for _, folder := range e.Folders {
				if os.Remove(folder) != nil {
					break
				}
			}
		}
	}
	delete(r.Files, c.Path)
}

// write keeps the record; an empty one is no file.
func (r *Record) write() error {
	if len(r.Files) == 0 {
		err := os.Remove(r.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.path), 0o700)
	}
	if err == nil {
		err = replace(r.path, b.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember what was changed: %w", err)
	}
	return nil
}
