//go:build !linux

package main

import (
	"bytes"
	"os"
	"os/exec"
)

// handOver runs the full program with the input that was read, where a process
// cannot become another with its input at hand, and says whether it ran. The
// harness goes on whatever comes of it.
func handOver(input []byte, args []string) (ran bool) {
	program, err := fullProgram()
	if err != nil {
		complain(err)
		return false
	}
	cmd := exec.Command(program, append([]string{"hook"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		complain(err)
		return false
	}
	return true
}
