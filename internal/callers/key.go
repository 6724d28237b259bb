// Package callers keeps, beside a ledger, what tells decklog's MCP server who
// calls it: the key of the stamps, and which session made which call of a tool,
// as the pre-tool hook saw it. Whoever can read the key can write to the ledger
// as well, so both are files of its owner alone.
package callers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"decklog/internal/stamp"
)

// Callers are those beside one ledger. The zero value is of a ledger without a
// folder: it has no key and knows nobody.
type Callers struct{ dir string }

// Beside gives the callers in a ledger's folder; nothing is read or made before
// it is needed.
func Beside(folder string) Callers { return Callers{dir: folder} }

// None says that there is no folder to keep anything in.
func (c Callers) None() bool { return c.dir == "" }

const keyName = "stamp.key"

// ErrNoKey says that no stamp was ever made beside this ledger.
var ErrNoKey = errors.New("there is no key beside the ledger")

// Key is the key by which stamps are read.
func (c Callers) Key() ([]byte, error) {
	if c.None() {
		return nil, ErrNoKey
	}
	file := filepath.Join(c.dir, keyName)
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoKey
	case err != nil:
		return nil, fmt.Errorf("read key: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("read key %s: it is no file of its owner's alone (%s); remove it, and the next call makes a new one", file, info.Mode())
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if len(key) != stamp.KeyBytes {
		return nil, fmt.Errorf("read key %s: it has %d bytes, and not %d; remove it, and the next call makes a new one", file, len(key), stamp.KeyBytes)
	}
	return key, nil
}

// MakeKey is the key by which stamps are made, made now where there is none. Of
// several processes that make it at once one wins, and all have that one's: it
// appears whole under its name, or not at all.
func (c Callers) MakeKey() ([]byte, error) {
	key, err := c.Key()
	if !errors.Is(err, ErrNoKey) || c.None() {
		return key, err
	}
	half, err := os.CreateTemp(c.dir, keyName+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	defer os.Remove(half.Name())
	key = make([]byte, stamp.KeyBytes)
	_, _ = rand.Read(key) // never fails: the program would have been ended
	_, err = half.Write(key)
	if closing := half.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Link(half.Name(), filepath.Join(c.dir, keyName))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return c.Key()
}
