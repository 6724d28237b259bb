package esdbdouble

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync waits until what was written is on the disk.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
