package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"golang.org/x/sys/unix"
)

// diskName is how a connection asks SQLite for [disk].
const diskName = "decklog"

func init() { vfs.Register(diskName, disk{vfs.Find("os").(vfs.VFSFilename)}) }

// disk is the driver's layer to the system with one repair: that the disk is
// full it passes on as that. The driver looks for the system's error where
// package os has wrapped it, does not see it, and reports a fault of the disk,
// after which nobody may say that nothing was appended.
type disk struct{ vfs.VFSFilename }

func (d disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&(vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL) != 0 {
		file = journalFile{file}
	}
	return file, flags, err
}

// journalFile is a write-ahead log or a rollback journal. Each commit begins by
// writing to it, so this is where a full disk shows.
type journalFile struct{ vfs.File }

func (f journalFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}
