//go:build unix

package serve_test

import (
	"syscall"
	"testing"
)

// openFiles is how many files this process may open: as many as it may allow itself.
func openFiles(t *testing.T) uint64 {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	return uint64(l.Cur)
}
