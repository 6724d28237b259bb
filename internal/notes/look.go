package notes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"decklog/events"
)

// looksFolder holds up to where each session's transcript was looked through.
const looksFolder = "looks"

// Look is what was noted of the last look through a session's transcript; nil
// when nothing was, or it cannot be read.
func (n *Notes) Look(s events.SessionID) []byte {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		return n.memory.looks[s]
	}
	path, err := n.beside(looksFolder, s)
	if err != nil {
		return nil
	}
	data, _ := os.ReadFile(path)
	return data
}

// NoteLook notes how far a session's transcript was looked through. What is lost
// of it, or written by two at once, costs another look from the beginning.
func (n *Notes) NoteLook(s events.SessionID, data []byte) error {
	if n.memory != nil {
		n.memory.mu.Lock()
		defer n.memory.mu.Unlock()
		n.memory.looks[s] = data
		return nil
	}
	path, err := n.beside(looksFolder, s)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.WriteFile(path, data, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("note look: %w", err)
	}
	return nil
}

func (n *Notes) forgetLook(s events.SessionID) error {
	path, err := n.beside(looksFolder, s)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget look: %w", err)
	}
	return nil
}
