//go:build !linux

package sqlite

// journalFor says how the files in a folder must be kept. Only Linux tells us
// what kind of file system it is on by a number.
func journalFor(string) (string, error) { return journalWAL, nil }
