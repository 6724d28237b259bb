//go:build linux || darwin || freebsd

package doctor

import "golang.org/x/sys/unix"

// freeBytes is how much the user may still write where a folder lies.
func freeBytes(folder string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
