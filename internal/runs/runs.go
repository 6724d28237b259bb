// Package runs is how a hook run tells a `decklog serve` beside the same ledger
// that it was there, how it went, and how long it took. A hook run is a process
// of its own, mostly a very short one, and leaves nothing in the ledger when
// nothing waited: without this nobody could count them.
//
// A run tells it in one datagram to a socket beside the ledger's file, and does
// not wait. Where nobody listens, nothing happens. What arrives while the
// listener is behind is dropped by the kernel, so a count of runs is at least
// right from below. Nothing is decided by what a run tells: any process of this
// user can say anything here.
//
// A datagram is a line of text: the version of this form, the harness, how the
// run went, and its microseconds. More words may follow; what they say, an older
// listener passes over.
//
//	decklog-run 1 claude-code nothing 812
//
// The package imports little, because the program that sends most of these is
// started at every tool call.
package runs

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SocketName is the listener's socket, beside the ledger's file.
const SocketName = "runs.sock"

// ErrListening says that another process listens at this ledger already.
var ErrListening = errors.New("another process counts the hook runs at this ledger")

// Outcome is how a hook run went.
type Outcome string

// The outcomes. They are a closed list, so that each can be counted by itself.
const (
	Nothing   Outcome = "nothing"   // it looked, and nothing waited
	Delivered Outcome = "delivered" // it printed what it had leased, and confirmed it
	Passed    Outcome = "passed"    // a subagent's, or at an event at which nothing is delivered
	Ignored   Outcome = "ignored"   // in a directory whose sessions take no part
	Late      Outcome = "late"      // it began too long ago to lease anything
	Stamped   Outcome = "stamped"   // it said who makes a call of decklog's own tools
	Ended     Outcome = "ended"     // it ended its session
	Failed    Outcome = "failed"    // something went wrong; `decklog doctor` says what
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Nothing, Delivered, Passed, Ignored, Late, Stamped, Ended, Failed}
}

// Told is what a run tells of itself.
type Told struct {
	Harness string
	Outcome Outcome
	Took    time.Duration // since its program began, without what the system took to start it
}

const mark = "decklog-run 1 "

// The bounds of what is told.
const (
	toldBytesMax    = 128
	harnessBytesMax = 32
	tookMax         = time.Hour
)

// text is how it is sent; empty when it cannot be told in this form.
func (t Told) text() []byte {
	if !isWord(t.Harness) || !t.Outcome.known() {
		return nil
	}
	b := make([]byte, 0, toldBytesMax)
	b = append(b, mark...)
	b = append(b, t.Harness...)
	b = append(b, ' ')
	b = append(b, t.Outcome...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, min(max(t.Took, 0), tookMax).Microseconds(), 10)
	return append(b, '\n')
}

// parse reads what was sent; false for anything else.
func parse(b []byte) (t Told, ok bool) {
	if len(b) > toldBytesMax {
		return t, false
	}
	line, whole := strings.CutSuffix(string(b), "\n")
	rest, ours := strings.CutPrefix(line, mark)
	if !whole || !ours {
		return t, false
	}
	harness, rest, _ := strings.Cut(rest, " ")
	outcome, rest, _ := strings.Cut(rest, " ")
	number, _, _ := strings.Cut(rest, " ")
	micros, err := strconv.ParseUint(number, 10, 64)
	if err != nil || micros > uint64(tookMax.Microseconds()) || !isWord(harness) || !Outcome(outcome).known() {
		return t, false
	}
	return Told{Harness: harness, Outcome: Outcome(outcome), Took: time.Duration(micros) * time.Microsecond}, true
}

func (o Outcome) known() bool { return slices.Contains(Outcomes(), o) }

// isWord says whether a harness's name is one: lower case letters, digits, hyphens.
func isWord(s string) bool {
	if s == "" || len(s) > harnessBytesMax {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
