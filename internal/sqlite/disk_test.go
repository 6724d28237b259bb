package sqlite

import (
	"io"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// counted is a file in memory that counts its syncs.
type counted struct {
	vfs.File
	bytes []byte
	syncs int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, c.bytes[min(int(off), len(c.bytes)):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (c *counted) WriteAt(p []byte, off int64) (int, error) {
	if more := int(off) + len(p) - len(c.bytes); more > 0 {
		c.bytes = append(c.bytes, make([]byte, more)...)
	}
	return copy(c.bytes[off:], p), nil
}

func (c *counted) Truncate(size int64) error { c.bytes = c.bytes[:size]; return nil }
func (c *counted) Size() (int64, error)      { return int64(len(c.bytes)), nil }
func (c *counted) Sync(vfs.SyncFlag) error   { c.syncs++; return nil }

// A step is a write at an offset, a sync and whether it reached the disk, or what
// another process does.
func TestALogIsSyncedWheneverSomebodyMayHaveWrittenToIt(t *testing.T) {
	header := func(salt string) []byte { return []byte(strings.Repeat(salt, logHeaderBytes)) }
	type world struct {
		disk *counted
		log  *logFile
	}
	write := func(p []byte, off int64) func(world) { return func(w world) { w.log.WriteAt(p, off) } }
	frame := func(off int64) func(world) { return write([]byte("frame"), off) }
	other := func(p []byte, off int64) func(world) { return func(w world) { w.disk.WriteAt(p, off) } }
	synced := func(want bool) func(world) {
		return func(w world) {
			t.Helper()
			before := w.disk.syncs
			if err := w.log.Sync(vfs.SYNC_NORMAL); err != nil || (w.disk.syncs > before) != want {
				t.Errorf("a sync reached the disk: %t, not %t; %v", w.disk.syncs > before, want, err)
			}
		}
	}
	begun := []func(world){write(header("a"), 0), synced(false), frame(32), synced(true)}
	for name, steps := range map[string][]func(world){
		"its own, once more":            {synced(false), synced(false)},
		"its own, longer":               {frame(37), synced(true), synced(false)},
		"its own, over what was before": {frame(32), synced(true)},
		"another's behind it":           {other([]byte("frame"), 37), synced(true), synced(true)},
		"another's before its own":      {other([]byte("frame"), 37), frame(42), synced(true)},
		"another's in its place":        {other(header("b"), 0), synced(true)},
		"its own in the place of old":   {write(header("b"), 0), synced(true)},
		"its own in one that it emptied": {
			func(w world) {
				before := w.disk.syncs
				if err := w.log.Truncate(0); err != nil || w.disk.syncs == before {
					t.Errorf("to empty the log is no sync: %v", err)
				}
			},
			write(header("b"), 0), synced(false), frame(32), synced(true), synced(false),
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &counted{}
			w := world{disk, &logFile{journalFile: journalFile{disk}}}
			for _, step := range append(begun[:len(begun):len(begun)], steps...) {
				step(w)
			}
		})
	}
	t.Run("one that another began", func(t *testing.T) {
		disk := &counted{bytes: append(header("a"), "frame"...)}
		w := world{disk, &logFile{journalFile: journalFile{disk}}}
		for _, step := range []func(world){synced(true), frame(37), synced(true), synced(true)} {
			step(w)
		}
	})
}
