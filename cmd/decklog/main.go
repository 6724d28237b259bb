// Command decklog is the ledger's program for agents, people and auditors: see
// `decklog help`.
package main

import (
	"fmt"
	"os"

	"decklog/cmd/internal/program"
	"decklog/internal/cli"
)

// release is the version that a release is built with.
var release = "dev"

func main() {
	// A ledger that is served elsewhere is reached by the program that can speak
	// to it. It gets the whole command line, before any of it was read, and looks
	// around itself.
	args := os.Args[1:]
	if cli.Served(cli.LedgerOf(args, os.Getenv)) {
		err := program.Daemon(append([]string{"cli"}, args...)...)
		fmt.Fprintf(os.Stderr, "decklog: no_daemon: %v\nFix: put decklogd beside decklog, or on PATH: `make build` makes both\n", err)
		os.Exit(cli.ExitFailed)
	}
	os.Exit(cli.Main(newEnv()))
}

// newEnv is the program's surroundings as they are.
func newEnv() *cli.Env { return program.Env(release) }

// newHook is one run of a harness's hook, in the program's surroundings.
var newHook = program.NewHook
