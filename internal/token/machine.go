package token

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"decklog/events"
)

// MachineFileName is what the file with the machine's own token is called. It
// holds the token itself: who can read it can write to the ledger's file too.
const MachineFileName = "serve.token"

// ErrNoMachine says that the machine has no token beside this ledger.
var ErrNoMachine = errors.New("this machine has no token beside the ledger")

// OfMachine reads the machine's own token beside a ledger. Where there is none,
// or who asks may not read it, the error is [ErrNoMachine].
func OfMachine(folder string) (string, error) {
	var c cache[string]
	found, err := c.read(filepath.Join(folder, MachineFileName), parseMachine)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", ErrNoMachine
	case err != nil:
		return "", fmt.Errorf("read the machine's token: %w", err)
	}
	return found, nil
}

// MakeMachine is the machine's own token, made now where there is none. Of
// several processes that make it at once all have the same.
func MakeMachine(folder string) (string, error) {
	unlock, err := lock(filepath.Join(folder, lockName))
	if err != nil {
		return "", fmt.Errorf("make the machine's token: %w", err)
	}
	defer unlock()
	found, err := OfMachine(folder)
	if !errors.Is(err, ErrNoMachine) {
		return found, err
	}
	path := filepath.Join(folder, MachineFileName)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("make the machine's token: %s is there, and cannot be read", path)
	}
	made := text(machineID)
	if err := replace(path, []byte(made+"\n")); err != nil {
		return "", fmt.Errorf("make the machine's token: %w", err)
	}
	return made, nil
}

func parseMachine(b []byte) (string, error) {
	line := string(bytes.TrimSpace(b))
	if IDIn(line) != machineID {
		return "", errors.New("it holds no token; remove it, and `decklog serve` makes a new one")
	}
	return line, nil
}

func (t *Tokens) checkMachine(given [sha256.Size]byte) (Token, error) {
	found, err := t.machine.read(filepath.Join(t.dir, MachineFileName), parseMachine)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Token{}, ErrUnknown
	case err != nil:
		return Token{}, err
	}
	if hash := hashOf(found); subtle.ConstantTimeCompare(hash[:], given[:]) != 1 {
		return Token{}, ErrUnknown
	}
	return Token{ID: machineID, Participant: Machine, Scope: Write, Created: events.At(t.machine.date())}, nil
}
