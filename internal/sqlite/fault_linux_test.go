package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"decklog/events"
)

func TestAFullDiskRefusesAndGoesOnWhenThereIsRoom(t *testing.T) {
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs to mount a small file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(folder, unix.MNT_DETACH) })
	filler := filepath.Join(folder, "filler")
	must(t, os.WriteFile(filler, make([]byte, 400_000), 0o600))

	l := opened(t, filepath.Join(folder, "ledger.db"), testOptions())
	body := strings.Repeat("b", 10_000)
	put := func(n int) error {
		b := note("a", events.Revision(n)-1, fmt.Sprint(n))
		b.Events[0].Body = &events.Body{Text: []byte(body)}
		return appendTo(l, b)
	}
	appended := 0
	var err error
	for ; err == nil && appended < 1000; appended++ {
		err = put(appended)
	}
	appended--
	if !errors.Is(err, events.ErrNoSpace) {
		t.Fatalf("append %d gave %v", appended, err)
	}
	if end, err := l.end(); end != events.Position(appended) || err != nil {
		t.Errorf("end %d after %d appends, %v", end, appended, err)
	}
	must(t, os.Remove(filler))
	must(t, put(appended))
	if bad := firstBad(t, l); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
}

func TestALedgerThatCannotBeWrittenSaysSo(t *testing.T) {
	folder := t.TempDir()
	must(t, opened(t, filepath.Join(folder, "ledger.db"), testOptions()).Close())
	if err := unix.Mount(folder, folder, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs to mount a folder read-only: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(folder, unix.MNT_DETACH) })
	must(t, unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	for _, name := range []string{"ledger.db", "absent.db", "sub/absent.db"} {
		if _, err := Open(filepath.Join(folder, name), none); !errors.Is(err, events.ErrReadOnly) {
			t.Errorf("open %s gave %v", name, err)
		}
	}
}

func TestFileSystemsThatMachinesShareGetARollbackJournal(t *testing.T) {
	for name, c := range map[string]struct {
		magic uint32
		want  string
	}{
		"ext4":     {unix.EXT4_SUPER_MAGIC, journalWAL},
		"btrfs":    {unix.BTRFS_SUPER_MAGIC, journalWAL},
		"xfs":      {unix.XFS_SUPER_MAGIC, journalWAL},
		"tmpfs":    {unix.TMPFS_MAGIC, journalWAL},
		"overlay":  {unix.OVERLAYFS_SUPER_MAGIC, journalWAL},
		"nfs":      {unix.NFS_SUPER_MAGIC, journalDelete},
		"cifs":     {unix.CIFS_SUPER_MAGIC, journalDelete},
		"smb2":     {unix.SMB2_SUPER_MAGIC, journalDelete},
		"9p":       {unix.V9FS_MAGIC, journalDelete},
		"virtiofs": {unix.FUSE_SUPER_MAGIC, journalDelete},
	} {
		if got := journalOn(c.magic); got != c.want {
			t.Errorf("%s has %s", name, got)
		}
	}
}
