package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
)

// Alive says whether this very process runs on this machine: the pid is there,
// began at that moment of this boot, and has not ended. It answers false only
// with evidence: a process that the system hides counts as running. So does one
// of another pid namespace: a harness may lock its tools into one of their own,
// where neither it nor any other session's process has a pid.
func Alive(p events.Process) bool {
	if p.PID <= 0 {
		return false
	}
	if boot := bootID(); boot != "" && boot != p.Boot {
		return false
	}
	if p.Space != space() {
		return true
	}
	s, err := readStat(p.PID)
	switch {
	case err == nil:
		return s.start == p.Start && !s.ended()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		// Where /proc shows nobody the processes of others (hidepid), the kernel
		// still says that one is there, by refusing to signal it.
		return errors.Is(syscall.Kill(p.PID, 0), syscall.EPERM)
	}
	return true
}

// tick is the unit of a process's start, for programs the same on every machine
// that Go runs on.
const tick = time.Second / 100

// Age is how long ago this process was created, to 10 ms. No setting of the
// clock changes it, and the time that a machine slept counts. Where the system
// does not tell, it counts from the start of Go's part of the process.
func Age() time.Duration {
	s, err := readStat(os.Getpid())
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Since(began)
	}
	return max(0, time.Duration(now.Nano())-time.Duration(s.start)*tick)
}

// bootID is the kernel's name for the time since the machine started; empty when
// it cannot be read.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// space is the number of this process's pid namespace; zero for the machine's
// own, whose number is fixed in the kernel, and where it cannot be read.
var space = sync.OnceValue(func() uint64 {
	const machine = 0xEFFFFFFC
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, "pid:["), "]"), 10, 64)
	if err != nil || n == machine {
		return 0
	}
	return n
})

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads a line such as
//
//	4711 (claude) S 4700 4711 4700 34816 ... 228374 ...
//
// with the state as third field, the parent as fourth and the start as 22nd. The
// name may itself hold blanks and parentheses, so that the last ")" ends it.
func parseStat(text []byte) (s stat, err error) {
	opens, closes := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if opens < 0 || closes < opens {
		return stat{}, fmt.Errorf("parse process %q: no name", text)
	}
	s.comm = string(text[opens+1 : closes])
	fields := strings.Fields(string(text[closes+1:]))
	const state, parent, start = 0, 1, 19 // the fields behind the name begin with the third
	if len(fields) <= start {
		return stat{}, fmt.Errorf("parse process %q: cut off", text)
	}
	s.state = fields[state][0]
	var errs [3]error
	s.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:opens])))
	s.parent, errs[1] = strconv.Atoi(fields[parent])
	s.start, errs[2] = strconv.ParseUint(fields[start], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return stat{}, fmt.Errorf("parse process %q: %w", text, err)
	}
	return s, nil
}

// readArgs is the beginning of a process's command line; nil when it is gone.
// What follows the script's name is of no interest, and may be long.
func readArgs(pid int) []string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	defer f.Close()
	const bytesMax = 4096
	line, err := io.ReadAll(io.LimitReader(f, bytesMax))
	if err != nil || len(line) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
}

// readExe is the file that a process was started from; empty when it is gone, or
// another user's.
func readExe(pid int) string {
	file, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return ""
	}
	return file
}
