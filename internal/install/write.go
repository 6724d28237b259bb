package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
)

// ErrChanged is a file that somebody changed since it was read.
var ErrChanged = errors.New("somebody changed it meanwhile; run the command again")

// ErrReadOnly is a file that its owner does not want to be written.
var ErrReadOnly = errors.New("it is read-only")

// Diff shows the change, as patches are written.
func (c Change) Diff() []byte {
	before, after := c.Path, c.Path
	if !c.Was {
		before = os.DevNull
	}
	if c.Gone {
		after = os.DevNull
	}
	text := diff.Diff(before, c.Before, after, c.After)
	if i := bytes.IndexByte(text, '\n'); i >= 0 { // the line that repeats both names
		text = text[i+1:]
	}
	return text
}

// possible says why a file cannot be written, as far as that can be told before.
func (c Change) possible() error {
	real, err := c.real()
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case info.Mode().Perm()&0o200 == 0:
		return ErrReadOnly
	}
	return nil
}

// real is the file itself, where the path is a symbolic link.
func (c Change) real() (string, error) {
	if !c.Was {
		return c.Path, nil
	}
	return filepath.EvalSymlinks(c.Path)
}

// Apply makes the change, whole or not at all.
func (c Change) Apply() error {
	real, err := c.real()
	if err != nil {
		return fmt.Errorf("write %s: %w", c.Path, err)
	}
	switch now, was, err := read(real); {
	case err != nil:
		return err
	case was != c.Was || !bytes.Equal(now, c.Before):
		return fmt.Errorf("write %s: %w", c.Path, ErrChanged)
	}
	if c.Gone {
		if err := os.Remove(c.Path); err != nil {
			return fmt.Errorf("remove %s: %w", c.Path, err)
		}
		return nil
	}
	mode := fs.FileMode(0o600)
	if c.shared {
		mode = 0o644
	}
	if err := replace(real, c.After, mode); err != nil {
		return fmt.Errorf("write %s: %w", c.Path, err)
	}
	return nil
}

// replace writes a file beside its place and moves it there, so that nobody
// reads half of it, and a crash leaves the old one or the new one. The mode of a
// file that is there stays.
func replace(path string, text []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	} else if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
