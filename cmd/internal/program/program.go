// Package program is what the command line is made of, for the two programs that
// have one: decklog, which short commands run, and decklogd, which reaches
// ledgers that are served elsewhere. It wires and decides nothing.
package program

import (
	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/callers"
	"decklog/internal/cli"
	"decklog/internal/clock"
	"decklog/internal/failure"
	"decklog/internal/hook"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/internal/process"
	"decklog/internal/runs"
)

// Env is a program's surroundings as they are.
func Env(release string) *cli.Env {
	env := surroundings.New(release)
	env.Hook, env.Wake, env.Daemon = Hook, Wake, Daemon
	return env
}

// Hook runs a harness's hook, and gives the exit code.
func Hook(env *cli.Env, harness string) int {
	ignoreClosedPipes()
	NewHook(env, harness).Do()
	return cli.ExitDone
}

// NewHook is one run of a harness's hook, in the program's surroundings.
func NewHook(env *cli.Env, harness string) *hook.Run {
	run := &hook.Run{
		Harness: harness, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr,
		Environ: env.Environ, Now: env.World.Now, Age: process.Age, Process: process.Harness,
		Code: func(err error) string { return failure.Of(err).Code },
		Open: func() (ops.Operations, hook.Notes, error) {
			env := *env
			env.Patience = hook.Patience
			// A hook is told by its harness whose it is; what its environment says
			// may be of the harness that this one was started in.
			env.World.Environ = func(string) string { return "" }
			env.World.Ancestors = func() []events.Process { return nil }
			env.World.Progress = nil
			desk, beside, err := env.Open(env.Environ("DECKLOG_LEDGER"), &env)
			return desk, beside.Notes, err
		},
	}
	if folder := surroundings.Folder(env.Environ("DECKLOG_LEDGER")); folder != "" {
		run.Bells, run.Beside, run.Callers = bell.Beside(folder), notes.Open(folder), callers.Beside(folder)
		run.Went = func(harness string, how runs.Outcome) {
			runs.Tell(folder, runs.Told{Harness: harness, Outcome: how, Took: runs.Took(env.Environ)})
		}
	}
	if clock.Test {
		// A harness above a test is the one that somebody runs the test in, and
		// none of the test's sessions.
		run.Process = func(string) (events.Process, bool) { return events.Process{}, false }
	}
	return run
}
