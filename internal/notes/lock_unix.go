//go:build unix && !aix && !solaris

package notes

import (
	"os"
	"syscall"
)

// tryLock takes the file's lock, unless another process has it. Closing the file
// gives it back.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
