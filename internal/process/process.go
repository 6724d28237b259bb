// Package process tells one run of a program from another, finds the harness
// that runs a session, and says whether it still does.
//
// It reads /proc, so it knows something on Linux only. Elsewhere it finds
// nothing, and a session is then live until it leaves or was long not seen.
// Whatever ends while it is looked at is as good as gone before; nothing here
// returns an error, because nobody could act on one.
package process

import (
	"iter"
	"os"
	"strconv"
	"time"

	"decklog/events"
)

// began is when Go's part of this process started.
var began = time.Now()

// levelsMax bounds how far up the ancestors are followed.
const levelsMax = 64

// stat is what the kernel says of a process.
type stat struct {
	pid, parent int
	start       uint64 // clock ticks since boot
	state       byte
	comm        string // the program's name, cut at 15 bytes
}

// ended says that a process did all that it ever will: only its parent has not
// asked how it ended.
func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

func (s stat) process() events.Process {
	return events.Process{PID: s.pid, Start: s.start, Boot: bootID(), Space: space()}
}

// Self is this process; the zero value where the system does not tell.
func Self() events.Process {
	s, err := readStat(os.Getpid())
	if err != nil {
		return events.Process{}
	}
	return s.process()
}

// Ancestors are the processes above this one, the parent first and pid 1 last,
// at most 64.
func Ancestors() (all []events.Process) {
	for s := range ancestors() {
		all = append(all, s.process())
	}
	return all
}

// Harness finds the nearest ancestor that is the named harness: the program
// itself, a script that Node or the like runs, or the ancestor that the harness
// told its children about. A subshell, a wrapper or a sandbox in between is
// passed over.
//
// Nearest, because one harness may run another, and a variable may come from
// the outer one.
func Harness(name string) (events.Process, bool) {
	if name == "" {
		return events.Process{}, false
	}
	program, told := name, 0
	switch name {
	case "claude-code":
		program, told = "claude", pidFrom("CLAUDE_PID")
	case "opencode":
		told = pidFrom("OPENCODE_PID")
	}
	for s := range ancestors() {
		if s.pid == told || runs(program, s.comm, readArgs(s.pid), readExe(s.pid)) {
			return s.process(), true
		}
	}
	return events.Process{}, false
}

func pidFrom(variable string) int {
	pid, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return 0
	}
	return pid
}

// ancestors follows the parents, until one is gone or cannot be read.
func ancestors() iter.Seq[stat] {
	return func(yield func(stat) bool) {
		child, err := readStat(os.Getpid())
		for range levelsMax {
			if err != nil || child.parent <= 0 {
				return
			}
			var parent stat
			parent, err = readStat(child.parent)
			// A parent is older than its child. One that is not has the pid of the
			// parent that ended a moment ago.
			if err != nil || parent.start > child.start || !yield(parent) {
				return
			}
			child = parent
		}
	}
}
