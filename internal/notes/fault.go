package notes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"decklog/events"
)

// Fault is something that went wrong in a hook run. A hook never troubles its
// harness, so this is how anybody hears of it.
//
//	{"time":"2026-11-30T09:00:00.000000Z","harness":"codex","event":"Stop","session":"01a0...","code":"ledger_locked","what":"..."}
type Fault struct {
	Time    events.Time      `json:"time"`
	Harness string           `json:"harness,omitempty"`
	Event   string           `json:"event,omitempty"` // the harness's, that the run answered
	Session events.SessionID `json:"session,omitempty"`
	Code    string           `json:"code"`
	What    string           `json:"what"`
}

// The bounds of what is kept: each text, each of two files, and the faults in memory.
const (
	whatBytesMax   = 1000
	wordBytesMax   = 200
	faultsBytesMax = 256 << 10
	faultsKeptMax  = 1000
)

// The files beside the ledger. When the first is full it becomes the second.
const (
	faultsFile      = "hook-faults.jsonl"
	olderFaultsFile = "hook-faults.1.jsonl"
)

// Fault notes that a hook run went wrong: beside the ledger, or, when that
// folder cannot be written (which may be what went wrong), in the user's state
// folder. What happened is cut at 1,000 bytes, on a rune, and keeps no control
// characters.
func (n *Notes) Fault(now events.Time, harness, event, session, code, what string) error {
	fault := Fault{
		Time:    now,
		Harness: oneLine(harness, wordBytesMax),
		Event:   oneLine(event, wordBytesMax),
		Session: events.SessionID(oneLine(session, wordBytesMax)),
		Code:    oneLine(code, wordBytesMax),
		What:    oneLine(what, whatBytesMax),
	}
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		n.memory.faults = append(n.memory.faults, fault)
		n.memory.faults = n.memory.faults[max(0, len(n.memory.faults)-faultsKeptMax):]
		return nil
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fault); err != nil {
		return fmt.Errorf("note fault: %w", err)
	}
	var errs []error
	if n.dir != "" {
		err := appendFault(n.dir, line.Bytes())
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	state, err := StateFolder()
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err == nil {
		err = appendFault(state, line.Bytes())
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("note fault: %w", errors.Join(append(errs, err)...))
}

// oneLine makes a text fit for one line of a list: its ends of line and tabs
// become blanks, other control characters go, and it is cut on a rune.
func oneLine(s string, bytesMax int) string {
	s = s[:min(len(s), 4*bytesMax)] // enough for what is kept of it
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
	if len(s) <= bytesMax {
		return s
	}
	cut := bytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// StateFolder is where the user's programs keep what may be lost.
func StateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "decklog"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find state folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", "decklog"), nil
}

// appendFault puts a line at the end of the folder's faults, in one write, so
// that lines of several processes stay apart.
func appendFault(dir string, line []byte) error {
	path := filepath.Join(dir, faultsFile)
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600) }
	f, err := open()
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 && info.Size()+int64(len(line)) > faultsBytesMax {
		rotate(f, info, path, filepath.Join(dir, olderFaultsFile))
		f.Close()
		if f, err = open(); err != nil {
			return err
		}
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// rotate makes a full file the older one. Of several processes that find it full
// one does: who holds the lock and still finds this file under its name. The
// others would else move the new file over the full one. Whoever writes into
// the full one meanwhile writes into the older.
func rotate(f *os.File, full os.FileInfo, path, older string) {
	if !tryLock(f) {
		return
	}
	if now, err := os.Stat(path); err == nil && os.SameFile(full, now) {
		os.Rename(path, older) // should it fail, the file grows until it does not
	}
}

// Faults lists the faults that are kept, the newest last. A line that cannot be
// read is left out.
func (n *Notes) Faults() (all []Fault) {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		all = slices.Clone(n.memory.faults)
	} else {
		dirs := []string{n.dir}
		if state, err := StateFolder(); err == nil {
			dirs = append(dirs, state)
		}
		for _, dir := range dirs {
			if dir != "" {
				all = readFaults(all, filepath.Join(dir, olderFaultsFile))
				all = readFaults(all, filepath.Join(dir, faultsFile))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.Time, b.Time) })
	return all
}

func readFaults(all []Fault, path string) []Fault {
	f, err := os.Open(path)
	if err != nil {
		return all
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*faultsBytesMax))
	if err != nil {
		return all
	}
	for line := range bytes.Lines(text) {
		var fault Fault
		if json.Unmarshal(line, &fault) == nil && fault.Code != "" {
			all = append(all, fault)
		}
	}
	return all
}
