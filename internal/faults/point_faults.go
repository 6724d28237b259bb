//go:build faults && linux

// Package faults, built to break decklog: see the other half of this file.
package faults

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// The variables by which a test asks for a fault.
const (
	// KillVar is "POINT N": the process kills itself when it passes the point
	// for the N-th time, as kill -9 does: nothing is flushed, nothing deferred.
	KillVar = "DECKLOG_FAULTS_KILL"
	// HoldVar is a point: there the process writes a byte to its descriptor 3,
	// and waits until its descriptor 4 is closed by everybody else.
	HoldVar = "DECKLOG_FAULTS_HOLD"
	// TraceVar is a file to which the name of each point passed is added.
	TraceVar = "DECKLOG_FAULTS_TRACE"
	// JournalVar is a journal mode.
	JournalVar = "DECKLOG_FAULTS_JOURNAL"
)

var passed struct {
	sync.Mutex
	times map[string]int
}

// Point is a place at which this process may be killed or held.
func Point(name string) {
	passed.Lock()
	if passed.times == nil {
		passed.times = map[string]int{}
	}
	passed.times[name]++
	n := passed.times[name]
	passed.Unlock()

	if path := os.Getenv(TraceVar); path != "" {
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			f.WriteString(name + "\n")
			f.Close()
		}
	}
	if at, times, _ := strings.Cut(os.Getenv(KillVar), " "); at == name {
		if want, _ := strconv.Atoi(times); want == n {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if os.Getenv(HoldVar) == name && n == 1 {
		ready, turn := os.NewFile(3, "ready"), os.NewFile(4, "turn")
		ready.Write([]byte{'.'})
		io.Copy(io.Discard, turn)
	}
}

// Journal is the journal mode that a test wants; empty for what the file system
// calls for.
func Journal() string { return os.Getenv(JournalVar) }
