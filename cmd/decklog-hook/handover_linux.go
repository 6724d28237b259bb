package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"decklog/internal/runs"
)

// handOver becomes the full program, with the input that was read. It returns
// only when that cannot be; then the harness goes on, and is told nothing.
func handOver(input []byte, args []string) (ran bool) {
	program, err := fullProgram()
	if err != nil {
		complain(err)
		return false
	}
	fd, err := unix.MemfdCreate("input", 0)
	if err != nil {
		complain(err)
		return false
	}
	f := os.NewFile(uintptr(fd), "input")
	if _, err := f.Write(input); err != nil {
		complain(err)
		return false
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		complain(err)
		return false
	}
	if err := unix.Dup2(fd, 0); err != nil {
		complain(err)
		return false
	}
	complain(syscall.Exec(program, append([]string{program, "hook"}, args...), runs.HandedOver(os.Environ())))
	return false
}
