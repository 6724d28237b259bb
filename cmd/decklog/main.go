// Command decklog is the ledger's program for agents, people and auditors: see
// `decklog help`.
package main

import (
	"os"
	"path/filepath"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/callers"
	"decklog/internal/cli"
	"decklog/internal/clock"
	"decklog/internal/hook"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/internal/process"
)

// release is the version that a release is built with.
var release = "dev"

func main() { os.Exit(cli.Main(newEnv())) }

// newEnv is the program's surroundings as they are.
func newEnv() *cli.Env {
	env := surroundings.New(release)
	env.Hook, env.Wake, env.Daemon = runHook, runWake, becomeDaemon
	return env
}

func runHook(env *cli.Env, harness string) int {
	ignoreClosedPipes()
	newHook(env, harness).Do()
	return cli.ExitDone
}

// newHook is one run of a harness's hook, in the program's surroundings.
func newHook(env *cli.Env, harness string) *hook.Run {
	run := &hook.Run{
		Harness: harness, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr,
		Environ: env.Environ, Now: env.World.Now, Age: process.Age, Process: process.Harness,
		Code: func(err error) string { return cli.FailureOf(err).Code },
		Open: func() (*ops.Ops, hook.Notes, error) {
			env.Patience = hook.Patience
			ledger, beside, err := env.Open(env.Environ("DECKLOG_LEDGER"), env)
			if err != nil {
				return nil, beside.Notes, err
			}
			world := env.World
			// A hook is told by its harness whose it is; what its environment says
			// may be of the harness that this one was started in.
			world.Environ = func(string) string { return "" }
			world.Ancestors = func() []events.Process { return nil }
			world.Progress = nil
			return &ops.Ops{Ledger: ledger, World: world}, beside.Notes, nil
		},
	}
	if file, err := surroundings.LedgerFile(env.Environ("DECKLOG_LEDGER")); err == nil && file != "" {
		folder := filepath.Dir(file)
		run.Bells, run.Beside, run.Callers = bell.Beside(folder), notes.Open(folder), callers.Beside(folder)
	}
	if clock.Test {
		// A harness above a test is the one that somebody runs the test in, and
		// none of the test's sessions.
		run.Process = func(string) (events.Process, bool) { return events.Process{}, false }
	}
	return run
}
