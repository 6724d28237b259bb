//go:build !linux

package esdbdouble

import "os"

// datasync waits until what was written is on the disk.
func datasync(f *os.File) error { return f.Sync() }
