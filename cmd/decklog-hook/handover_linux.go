package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// handOver becomes the full program, with the input that was read. It returns
// only when that cannot be; then the harness goes on, and is told nothing.
func handOver(input []byte, args []string) {
	program, err := fullProgram()
	if err != nil {
		complain(err)
		return
	}
	fd, err := unix.MemfdCreate("input", 0)
	if err != nil {
		complain(err)
		return
	}
	f := os.NewFile(uintptr(fd), "input")
	if _, err := f.Write(input); err != nil {
		complain(err)
		return
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		complain(err)
		return
	}
	if err := unix.Dup2(fd, 0); err != nil {
		complain(err)
		return
	}
	complain(syscall.Exec(program, append([]string{program, "hook"}, args...), os.Environ()))
}

// fullProgram is the one beside this, else the one on the path.
func fullProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "decklog")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	return exec.LookPath("decklog")
}

func complain(err error) {
	os.Stderr.WriteString("decklog-hook: hand over to decklog: " + err.Error() + "\n")
}

// inputMax bounds what is read; what is longer, the full program refuses too.
const inputMax = 64<<20 + 1

// readAll reads to the end or to inputMax, in a buffer that is mostly large enough.
func readAll(f *os.File) ([]byte, error) {
	b := make([]byte, 0, 16<<10)
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF || len(b) >= inputMax {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}
