// Package surroundings is what the programs find around them: the ledger at an
// address and what lies beside it, the clock, the user and the machine. It and
// the programs are the only ones that name concrete ledgers.
package surroundings

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/classifier"
	"decklog/internal/cli"
	"decklog/internal/clock"
	"decklog/internal/memory"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/internal/policyfile"
	"decklog/internal/process"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// New is a program's surroundings as they are.
func New(release string) *cli.Env {
	return &cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Getenv, Getwd: os.Getwd, Open: Open, LedgerFile: LedgerFile, Folder: FolderOf, Version: version(release),
		World: ops.World{
			Now: clock.Now, Random: random, Alive: process.Alive, Device: Device(), OSUser: OSUser(),
			Environ: os.Getenv, Ancestors: process.Ancestors, Progress: progress(os.Stderr),
			Classify: classifier.Ask,
		},
	}
}

// Open gives the operations on the ledger at an address, and fills in what the world
// beside it is known by: the bells, the notes, and the policy file.
func Open(url string, env *cli.Env) (ops.Operations, cli.Beside, error) {
	file, err := LedgerFile(url)
	if err != nil {
		return nil, cli.Beside{Notes: notes.Open("")}, err
	}
	if cli.Served(url) {
		return nil, cli.Beside{Notes: notes.Open("")}, cli.Failed("not_supported", "name it with --ledger or DECKLOG_LEDGER from the start",
			fmt.Errorf("open ledger %q: this program reaches no ledger that is served", url))
	}
	if file == "" {
		beside := Look(env, cli.Beside{Notes: notes.InMemory()})
		return &ops.Ops{Ledger: memory.New(projections.Project), World: env.World}, beside, nil
	}
	desk, beside, err := OpenFile(file, env)
	if err != nil {
		return nil, beside, err
	}
	return desk, beside, nil
}

// OpenFile opens a ledger in a file, with what suits a process that lives long.
func OpenFile(file string, env *cli.Env, more ...sqlite.Option) (*ops.Ops, cli.Beside, error) {
	folder := filepath.Dir(file)
	beside := Look(env, cli.Beside{Folder: folder, Notes: notes.Open(folder)})
	if env.Patience > 0 {
		more = append(more, sqlite.Patience(env.Patience))
	}
	ledger, err := sqlite.Open(file, projections.Project, more...)
	if err != nil {
		return nil, beside, err
	}
	return &ops.Ops{Ledger: ledger, World: env.World}, beside, nil
}

// LedgerFile is the file of the ledger at an address; empty for one in memory, and
// for one that is served.
func LedgerFile(url string) (string, error) {
	if url == "" {
		return defaultLedger()
	}
	scheme, path, found := strings.Cut(url, ":")
	switch {
	case found && scheme == "memory":
		return "", nil
	case found && scheme == "sqlite" && path != "":
		file, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("open ledger %q: %w", url, err)
		}
		return file, nil
	case cli.Served(url):
		return "", nil
	case found && (scheme == "esdb" || scheme == "esdb+discover"):
		// The address is not repeated: it may hold a password.
		return "", cli.Failed("not_supported", "reach it through decklog serve: let decklog serve --ledger 'esdb://HOST:PORT' run on this machine, and name the socket that it says with --ledger unix:PATH",
			fmt.Errorf("open a ledger over %s: only decklog serve does", scheme))
	}
	return "", cli.Failed("bad_ledger", "write --ledger sqlite:PATH, for instance --ledger sqlite:ledger.db; for a ledger that is served unix:PATH or http://HOST:PORT, and for decklog serve also esdb:// and esdb+discover://",
		fmt.Errorf("open ledger %q: no such kind of ledger", url))
}

// FolderOf is what the bells and the notes of a ledger lie in: that of its file, or
// of the socket of who serves it. Empty for one that has none on this machine.
func FolderOf(url string) (string, error) {
	if path, is := strings.CutPrefix(url, "unix:"); is && path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("open ledger %q: %w", url, err)
		}
		return filepath.Dir(path), nil
	}
	file, err := LedgerFile(url)
	if err != nil || file == "" {
		return "", err
	}
	return filepath.Dir(file), nil
}

// Folder is the same, and empty also for an address that is none.
func Folder(url string) string {
	folder, err := FolderOf(url)
	if err != nil {
		return ""
	}
	return folder
}

// Around is what lies in the folder of a ledger that somebody else opens.
func Around(env *cli.Env, folder string) cli.Beside {
	return Look(env, cli.Beside{Folder: folder, Notes: notes.Open(folder)})
}

// Look lets the world see what lies beside the ledger.
func Look(env *cli.Env, b cli.Beside) cli.Beside {
	env.World.Bells = bell.Beside(b.Folder)
	env.World.Seen = func(id events.SessionID) (bool, events.Time, bool) {
		o := b.Notes.Seen(id)
		return o.Busy, o.At, o.Known
	}
	env.World.Note = func(id events.SessionID, busy bool, at events.Time) error {
		if busy {
			return b.Notes.Busy(id, at)
		}
		return b.Notes.Idle(id, at)
	}
	env.World.PolicyFile = func() (events.Policy, error) {
		if b.Folder == "" {
			return events.DefaultPolicy(), nil
		}
		file := filepath.Join(b.Folder, cli.PolicyName)
		if _, err := os.Stat(file); os.IsNotExist(err) {
			return events.DefaultPolicy(), nil
		}
		p, faults, err := policyfile.Load(file)
		if err == nil && len(faults) > 0 {
			err = cli.BadPolicy(file, faults)
		}
		return p, err
	}
	return b
}

// defaultLedger is the ledger in the user's data folder.
func defaultLedger() (string, error) {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", cli.Failed("no_home", "name a ledger with --ledger sqlite:PATH, or set HOME", fmt.Errorf("find the user's data folder: %w", err))
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "decklog", "ledger.db"), nil
}

func random(b []byte) {
	_, _ = rand.Read(b) // never fails: the program would have been ended
}

// Device is the name of this machine: what DECKLOG_DEVICE says where that is a host's
// name, for containers that all have the same; else the system's.
func Device() string {
	if name := os.Getenv("DECKLOG_DEVICE"); hostName.MatchString(name) {
		return name
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// OSUser is the user that the operating system knows this process as.
func OSUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid-%d", os.Getuid())
}

// progress tells of long work on a terminal, and every 100,000 events elsewhere.
func progress(to *os.File) func(string, events.Position, events.Position) {
	info, err := to.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return func(what string, done, end events.Position) {
		const often, seldom = 10_000, 100_000
		switch {
		case end < often:
		case terminal:
			fmt.Fprintf(to, "\r%s: %d of %d events", what, done, end)
			if done >= end {
				fmt.Fprintln(to)
			}
		case done%seldom == 0:
			fmt.Fprintf(to, "%s: %d of %d events\n", what, done, end)
		}
	}
}

func version(release string) cli.Version {
	v := cli.Version{Version: release, Go: runtime.Version(), Protocol: events.Protocol, Fold: projections.FoldVersion, Clock: "system"}
	if clock.Test {
		v.Clock = "test"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
