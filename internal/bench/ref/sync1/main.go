//go:build linux

// Command sync1 makes 4 KiB durable at the end of a file: the least that a
// program does which records something.
package main

import (
	"os"
	"syscall"
)

func main() {
	f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		os.Exit(1)
	}
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		os.Exit(1)
	}
	if err := syscall.Fdatasync(int(f.Fd())); err != nil {
		os.Exit(1)
	}
}
