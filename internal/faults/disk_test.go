//go:build faults && linux

package faults_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a file system, mounted by FUSE, that knows what would be left of it
// after a power cut: what was synced. What programs see lies in memory; beside
// it lies what is on the platter. A file's bytes and length get there by its
// fsync, the names in a folder by an fsync of the folder, and by nothing else.
//
// The kernel's page cache lies between it and the programs, as with any disk,
// and passes every write on at once; so the order of writes and syncs is known
// here. Memory that programs share (SQLite's -shm) is the kernel's.
//
// A fault is asked for by setting a field, under mu.
type disk struct {
	mu sync.Mutex

	lies    bool                                // it says that it synced, and did not
	failing func(name string, nth int) bool     // whether this fsync, the nth of the disk, fails with EIO
	unfit   func(nth int) bool                  // whether this write, the nth of the disk, fails with EIO
	unread  func(nth int) bool                  // and this read
	fullAt  int                                 // the write from which on there is no room for more
	cutAt   int                                 // the sync at which the power is cut, instead of doing it
	room    int64                               // bytes that all files together may have; 0: no bound
	off     bool                                // the power is cut: everything fails
	left    map[string][]byte                   // once it is: what is left, by path
	seen    map[string]*file                    // by path, as programs see them
	kept    map[string]*file                    // as the synced folders name them
	named   []naming                            // changes of names that no fsync of a folder confirmed
	syncs   int                                 // asked for
	writes  int                                 // likewise
	reads   int                                 // likewise
	did     struct{ failed, lied, refused int } // faults that were injected
}

type file struct {
	mode     uint32
	now      []byte
	kept     []byte
	unsynced []change
}

// change is a write, or with a nil text a new length.
type change struct {
	at   int64
	text []byte
}

func (c change) onto(b []byte) []byte {
	end := c.at
	if c.text != nil {
		end += int64(len(c.text))
	} else if c.at <= int64(len(b)) {
		return b[:c.at]
	}
	if n := end - int64(len(b)); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	copy(b[c.at:], c.text)
	return b
}

// naming is a name that came to be or, without a file, went.
type naming struct {
	path string
	file *file
}

func (n naming) onto(names map[string]*file) {
	if n.file == nil {
		delete(names, n.path)
		return
	}
	names[n.path] = n.file
}

func (d *disk) name(path string, f *file) {
	n := naming{path, f}
	n.onto(d.seen)
	d.named = append(d.named, n)
}

func (d *disk) change(f *file, c change) syscall.Errno {
	if d.off {
		return syscall.EIO
	}
	if d.writes++; d.unfit != nil && d.unfit(d.writes) {
		d.did.failed++
		return syscall.EIO
	}
	if d.writes == d.fullAt {
		d.room = 1
	}
	if d.room > 0 && c.text != nil {
		used := max(0, c.at+int64(len(c.text))-int64(len(f.now)))
		for _, other := range d.seen {
			used += int64(len(other.now))
		}
		if used > d.room && c.at+int64(len(c.text)) > int64(len(f.now)) {
			d.did.refused++
			return syscall.ENOSPC
		}
	}
	f.now = c.onto(f.now)
	f.unsynced = append(f.unsynced, c)
	return 0
}

// sync is an fsync of a file, or without one of a folder.
func (d *disk) sync(path string, f *file) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	switch {
	case d.off:
		return syscall.EIO
	case d.syncs == d.cutAt:
		d.did.failed++
		d.darken(rand.IntN(2) == 0)
		return syscall.EIO
	case d.lies:
		d.did.lied++
		return 0
	case d.failing != nil && d.failing(path, d.syncs):
		d.did.failed++
		// As the kernel does: what could not be written it forgets, some of it was
		// written all the same, and the next fsync has nothing to complain of.
		if f != nil {
			for _, c := range f.unsynced {
				if rand.IntN(2) == 0 {
					f.kept = c.onto(f.kept)
				}
			}
			f.unsynced = nil
		}
		return syscall.EIO
	case f == nil:
		for _, n := range d.named {
			n.onto(d.kept)
		}
		d.named = nil
	default:
		for _, c := range f.unsynced {
			f.kept = c.onto(f.kept)
		}
		f.unsynced = nil
	}
	return 0
}

// cut is the power cut: from now on nothing works, and what is left is given by
// path. With torn, parts of what was not synced are left too: of the names a
// prefix, of each file's writes some, in sectors of 512 bytes, whatever came
// before or after them.
func (d *disk) cut(torn bool) map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.off {
		d.darken(torn)
	}
	return d.left
}

func (d *disk) darken(torn bool) {
	d.off = true
	if torn {
		for _, n := range d.named[:rand.IntN(len(d.named)+1)] {
			n.onto(d.kept)
		}
	}
	d.left = map[string][]byte{}
	for path, f := range d.kept {
		d.left[path] = slices.Clone(f.kept)
		if torn {
			d.left[path] = tear(d.left[path], f.unsynced)
		}
	}
}

// unsynced counts the changes that a cut would take away now.
func (d *disk) unsynced() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = len(d.named)
	for _, f := range d.seen {
		n += len(f.unsynced)
	}
	return n
}

func tear(kept []byte, changes []change) []byte {
	const sector = 512
	prefix := rand.IntN(2) == 0 // either they stop at some sector, or each comes by chance
	stop, chance, n := rand.IntN(8*len(changes)+1), rand.Float64(), 0
	left := func() bool {
		n++
		if prefix {
			return n <= stop
		}
		return rand.Float64() < chance
	}
	for _, c := range changes {
		if c.text == nil {
			if left() {
				kept = c.onto(kept)
			}
			continue
		}
		for at, end := c.at, c.at+int64(len(c.text)); at < end; {
			next := min(end, (at/sector+1)*sector)
			if left() {
				kept = change{at, c.text[at-c.at : next-c.at]}.onto(kept)
			}
			at = next
		}
	}
	return kept
}

// asSeen is what programs see, by path.
func (d *disk) asSeen() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string][]byte{}
	for path, f := range d.seen {
		all[path] = slices.Clone(f.now)
	}
	return all
}

// newDisk makes a disk with these files, all synced.
func newDisk(files map[string][]byte) *disk {
	d := &disk{seen: map[string]*file{}, kept: map[string]*file{}}
	for path, text := range files {
		f := &file{mode: 0o600, now: slices.Clone(text), kept: slices.Clone(text)}
		d.seen[path], d.kept[path] = f, f
	}
	return d
}

// mount mounts the disk until eject is called, at the latest by the test's end.
// This process must not touch what lies there: it would wait for itself.
func (d *disk) mount(t testing.TB) (folder string, eject func()) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs FUSE: there is no /dev/fuse")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a FUSE file system")
	}
	folder = t.TempDir()
	server, err := fs.Mount(folder, &folderNode{d: d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, Name: "decklog-lossy", FsName: "decklog-lossy",
	}})
	if err != nil {
		t.Skipf("needs FUSE: mount: %v", err)
	}
	eject = sync.OnceFunc(func() {
		if err := server.Unmount(); err != nil {
			_ = syscall.Unmount(folder, syscall.MNT_DETACH)
		}
		server.Wait()
	})
	t.Cleanup(eject)
	return folder, eject
}

// pour writes files into a new folder of a real disk. No shared memory outlives
// the machine, and bells say what they say by their times, which are not kept here.
func pour(t testing.TB, files map[string][]byte) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for path, text := range files {
		if strings.HasSuffix(path, "-shm") || strings.HasPrefix(path, "bells/") {
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, path)), 0o700))
		must(t, os.WriteFile(filepath.Join(folder, path), text, 0o600))
	}
	return folder
}

// drain reads the files of a folder back.
func drain(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	must(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err == nil {
			files[name], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

// folderNode and fileNode are what FUSE asks.
type folderNode struct {
	fs.Inode
	d *disk
}

type fileNode struct {
	fs.Inode
	d *disk
	f *file
}

var (
	_ fs.NodeOnAdder     = (*folderNode)(nil)
	_ fs.NodeCreater     = (*folderNode)(nil)
	_ fs.NodeMkdirer     = (*folderNode)(nil)
	_ fs.NodeUnlinker    = (*folderNode)(nil)
	_ fs.NodeRenamer     = (*folderNode)(nil)
	_ fs.NodeFsyncer     = (*folderNode)(nil)
	_ fs.NodeOpener      = (*fileNode)(nil)
	_ fs.NodeReader      = (*fileNode)(nil)
	_ fs.NodeWriter      = (*fileNode)(nil)
	_ fs.NodeFsyncer     = (*fileNode)(nil)
	_ fs.NodeFlusher     = (*fileNode)(nil)
	_ fs.NodeGetattrer   = (*fileNode)(nil)
	_ fs.NodeSetattrer   = (*fileNode)(nil)
	_ fs.NodeGetxattrer  = (*fileNode)(nil)
	_ fs.NodeListxattrer = (*fileNode)(nil)
)

// OnAdd hangs up the files that the disk begins with.
func (n *folderNode) OnAdd(ctx context.Context) {
	if !n.IsRoot() {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(n.d.seen)) {
		at := &n.Inode
		for part := range strings.SplitSeq(filepath.Dir(path), "/") {
			if part == "." {
				continue
			}
			next := at.GetChild(part)
			if next == nil {
				next = at.NewPersistentInode(ctx, &folderNode{d: n.d}, fs.StableAttr{Mode: fuse.S_IFDIR})
				at.AddChild(part, next, true)
			}
			at = next
		}
		at.AddChild(filepath.Base(path), at.NewPersistentInode(ctx, &fileNode{d: n.d, f: n.d.seen[path]}, fs.StableAttr{}), true)
	}
}

func (n *folderNode) path(name string) string { return filepath.Join(n.Path(nil), name) }

func (n *folderNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	path := n.path(name)
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.d.off {
		return nil, nil, 0, syscall.EIO
	}
	f := &file{mode: mode & 0o777}
	n.d.name(path, f)
	out.Mode = f.mode
	return n.NewPersistentInode(ctx, &fileNode{d: n.d, f: f}, fs.StableAttr{}), nil, 0, 0
}

func (n *folderNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	out.Mode = mode
	return n.NewPersistentInode(ctx, &folderNode{d: n.d}, fs.StableAttr{Mode: fuse.S_IFDIR}), 0
}

func (n *folderNode) Unlink(ctx context.Context, name string) syscall.Errno {
	path := n.path(name)
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.d.off {
		return syscall.EIO
	}
	n.d.name(path, nil)
	return 0
}

func (n *folderNode) Rename(ctx context.Context, name string, to fs.InodeEmbedder, toName string, flags uint32) syscall.Errno {
	from, onto := n.path(name), filepath.Join(to.EmbeddedInode().Path(nil), toName)
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	f := n.d.seen[from]
	if n.d.off || f == nil {
		return syscall.EIO
	}
	n.d.name(onto, f)
	n.d.name(from, nil)
	return 0
}

func (n *folderNode) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	return n.d.sync(n.path("."), nil)
}

func (n *fileNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *fileNode) Read(ctx context.Context, h fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.d.off {
		return nil, syscall.EIO
	}
	if n.d.reads++; n.d.unread != nil && n.d.unread(n.d.reads) {
		n.d.did.failed++
		return nil, syscall.EIO
	}
	from := min(off, int64(len(n.f.now)))
	return fuse.ReadResultData(slices.Clone(n.f.now[from:min(from+int64(len(dest)), int64(len(n.f.now)))])), 0
}

func (n *fileNode) Write(ctx context.Context, h fs.FileHandle, text []byte, off int64) (uint32, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if errno := n.d.change(n.f, change{off, slices.Clone(text)}); errno != 0 {
		return 0, errno
	}
	return uint32(len(text)), 0
}

func (n *fileNode) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	return n.d.sync(n.Path(nil), n.f)
}

func (n *fileNode) Flush(ctx context.Context, h fs.FileHandle) syscall.Errno { return 0 }

func (n *fileNode) attr(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink = n.f.mode, uint64(len(n.f.now)), 1
}

func (n *fileNode) Getattr(ctx context.Context, h fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	n.attr(&out.Attr)
	return 0
}

func (n *fileNode) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if mode, is := in.GetMode(); is {
		n.f.mode = mode & 0o777
	}
	if size, is := in.GetSize(); is {
		if errno := n.d.change(n.f, change{at: int64(size)}); errno != 0 {
			return errno
		}
	}
	n.attr(&out.Attr)
	return 0
}

// The kernel asks for these at every write, to drop rights that no file here has.
func (n *fileNode) Getxattr(ctx context.Context, name string, dest []byte) (uint32, syscall.Errno) {
	return 0, syscall.ENODATA
}

func (n *fileNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) { return 0, 0 }
