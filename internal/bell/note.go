package bell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A note says whether a session is in a turn, and when that was seen. It is one
// line, always of the same length, so that it is written over the last one in a
// single write and nobody reads half of two:
//
//	busy 2026-11-30T09:00:00.000000Z
const noteLayout = "2006-01-02T15:04:05.000000Z"

const noteBytes = len("busy ") + len(noteLayout) + 1

// NotePath is the note of a session, under the name of its file, in a ledger's
// folder.
func NotePath(folder, name string) string { return filepath.Join(folder, "notes", name) }

// Note writes down whether a session is in a turn. It does not sync: a note that
// a crash takes along was about a process that it took along too.
func Note(path string, busy bool, now time.Time) error {
	line := make([]byte, 0, noteBytes)
	if busy {
		line = append(line, "busy "...)
	} else {
		line = append(line, "idle "...)
	}
	line = now.UTC().AppendFormat(line, noteLayout)
	line = append(line, '\n')
	if len(line) != noteBytes {
		return errors.New("the moment has no year of four digits")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		// Only this folder: were the one above it missing, so would be the ledger.
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(line, 0)
	return errors.Join(err, f.Close())
}

// delegated ends the name of the mark that lies beside a session's note while
// the session lets a subagent work. No note's name has this sign.
const delegated = "~"

// Delegate marks a session's note, or takes the mark away.
func Delegate(path string, is bool) error {
	mark := path + delegated
	if !is {
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(mark, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Delegating says whether a session's note is marked.
func Delegating(path string) bool {
	_, err := os.Lstat(path + delegated)
	return err == nil
}

// Noted reads a note; false when there is none, or it cannot be read.
func Noted(path string) (busy bool, at time.Time, known bool) {
	f, err := os.Open(path)
	if err != nil {
		return false, at, false
	}
	defer f.Close()
	var line [noteBytes]byte
	if _, err := f.ReadAt(line[:], 0); err != nil || line[noteBytes-1] != '\n' {
		return false, at, false
	}
	state := string(line[:5])
	at, err = time.Parse(noteLayout, string(line[5:noteBytes-1]))
	if err != nil || state != "busy " && state != "idle " {
		return false, time.Time{}, false
	}
	return state == "busy ", at, true
}
