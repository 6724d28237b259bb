package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

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
