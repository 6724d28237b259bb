package sqlite

import (
	"bytes"
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
	switch {
	case err != nil:
	case flags&vfs.OPEN_WAL != 0:
		file = &logFile{journalFile: journalFile{file}}
	case flags&vfs.OPEN_MAIN_JOURNAL != 0:
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

// logFile is a write-ahead log that is synced no more often than it has to be. A
// short command begins the log, commits once and is the last to close it: of the
// four syncs of SQLite two are for nothing.
//
// SQLite syncs a log's header before it writes frames behind it: should the new
// header be lost while frames overwrite old ones, the old header would vouch for
// what is left of the old frames. In an empty log there are none. A header that is
// lost there loses frames that nobody was told of, and the commit's own sync makes
// all of them durable. So that an empty log is one on the disk too, to empty it is
// to sync it.
//
// And SQLite syncs a log before it moves it into the file, because some process
// may have died between its last write and its sync. Where this handle began the
// log, has synced all that it wrote, and the log ends there and still has that
// header, nobody has.
//
// While a commit gathers, what SQLite writes to the log, each frame in two parts,
// goes to the file in few large writes, at the latest with the sync that the
// commit ends with. Until then nobody reads it: the log's index, which says how far
// the log reaches, follows the sync.
//
// The commit of a mirror waits for no disk, and yet asks for a sync, because that is
// where the gathering ends: this one only writes. So the log is as it is with
// synchronous=NORMAL, whole after a power cut and perhaps without its last commits.
// What keeps it whole is synced all the same: a new header over old frames, and the
// log before it is moved into the file, which no commit of a group does.
type logFile struct {
	journalFile
	gathers  bool
	hurries  bool   // the commit that gathers is a mirror's
	headed   bool   // a header was written that is not synced
	gathered []byte // for the file, from the place at
	at       int64

	header  []byte // that this handle gave to an empty log
	end     int64  // of what it wrote there
	unsaved bool   // some of that, but for the header, is not synced
}

// gatheredMax bounds what is gathered, in bytes.
const gatheredMax = 256 << 10

// logHeaderBytes is how long the header of a log is.
const logHeaderBytes = 32

func (f *logFile) WriteAt(p []byte, off int64) (int, error) {
	f.headed = f.headed || off == 0
	switch {
	case off > 0:
		f.unsaved = true
	case len(p) == logHeaderBytes && f.isEmpty():
		f.header, f.end, f.unsaved = bytes.Clone(p), 0, false
	default:
		f.header = nil
	}
	f.end = max(f.end, off+int64(len(p)))
	if !f.gathers {
		return f.journalFile.WriteAt(p, off)
	}
	if off != f.at+int64(len(f.gathered)) || len(f.gathered)+len(p) > gatheredMax {
		if err := f.flush(); err != nil {
			return 0, err
		}
		f.at = off
	}
	f.gathered = append(f.gathered, p...)
	return len(p), nil
}

// gather begins to gather, for one commit, and gives the function that ends it.
// What was gathered and did not come to the file is forgotten: its commit failed,
// and later another connection may write there.
func (f *logFile) gather(hurries bool) (end func()) {
	f.gathers, f.hurries = true, hurries
	return func() { f.gathers, f.hurries, f.gathered = false, false, f.gathered[:0] }
}

func (f *logFile) flush() error {
	if len(f.gathered) == 0 {
		return nil
	}
	_, err := f.journalFile.WriteAt(f.gathered, f.at)
	f.gathered = f.gathered[:0]
	return err
}

func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.journalFile.ReadAt(p, off)
}

func (f *logFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.journalFile.Size()
}

func (f *logFile) isEmpty() bool {
	size, err := f.Size()
	return err == nil && size == 0
}

func (f *logFile) Truncate(size int64) error {
	f.header = nil
	err := f.flush()
	if err == nil {
		err = f.journalFile.Truncate(size)
	}
	if err == nil && size == 0 {
		err = f.journalFile.Sync(vfs.SYNC_NORMAL)
	}
	return err
}

func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	if f.header != nil && !f.unsaved && f.isMine() {
		return nil
	}
	if f.hurries && !f.headed {
		return nil
	}
	if err := f.journalFile.Sync(flags); err != nil {
		return err
	}
	f.unsaved, f.headed = false, false
	return nil
}

// isMine says whether nobody else has written to the log since this handle last
// did: who had would have made it longer, or begun it anew.
func (f *logFile) isMine() bool {
	var header [logHeaderBytes]byte
	size, err := f.Size()
	if err != nil || size != f.end {
		return false
	}
	n, err := f.ReadAt(header[:], 0)
	return n == len(header) && err == nil && bytes.Equal(header[:], f.header)
}
