package sqlite

import "golang.org/x/sys/unix"

// journalFor says how the files in a folder must be kept.
func journalFor(folder string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return "", err
	}
	return journalOn(uint32(s.Type)), nil
}

// journalOn says it for a kind of file system, by its magic number. The index
// of a write-ahead log is memory that all processes share, and a file system
// that another machine, or the host of this one, also writes cannot give them
// that: ledgers on these were damaged within a minute.
func journalOn(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC,
		unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, // virtiofs has this one too
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC:
		return journalDelete
	}
	return journalWAL
}
