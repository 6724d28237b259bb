// Package doctor looks at everything that decklog depends on, and says of each
// what is well, what is not, and what to do. It decides nothing, changes nothing
// and takes a bounded time, whatever the programs that it asks do.
package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"decklog/events"
	"decklog/internal/install"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

// Level is how well something is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, and should be looked at
	Fault   Level = "fault"   // something does not work
)

// Line is what was found of one thing.
type Line struct {
	About string `json:"about"` // programs, a harness, caller, ledger, policy, clock
	Check string `json:"check"`
	Level Level  `json:"level"`
	Says  string `json:"says"`
	Fix   string `json:"fix"` // what to do; empty: nothing
}

// Report is what the doctor found.
type Report struct {
	OK       bool   `json:"ok"`
	Faults   int    `json:"faults"`
	Warnings int    `json:"warnings"`
	Lines    []Line `json:"lines"`
}

// Notes are what hook runs left beside the ledger.
type Notes interface {
	Faults() []notes.Fault
}

// Patient is what is looked at.
type Patient struct {
	Place   install.Place
	Environ func(string) string
	Now     func() events.Time
	// Version and Commit are those of this program.
	Version, Commit string
	// LedgerFile is the ledger's; empty, with LedgerErr, where it cannot be told.
	LedgerFile string
	LedgerErr  error
	// Served is the address of a ledger that a `decklog serve` has: then its files
	// are the server's to look after, unless LedgerFile names them.
	Served string
	// Cluster is the address, as it may be printed, of a ledger in a cluster that is
	// looked at on this machine: LedgerFile are its views then, and Served is where the
	// `decklog serve` of this machine listens.
	Cluster    string
	PolicyName string
	Asker      ops.Asker
	// Open opens the ledger. It is called only when its file is there.
	Open func() (ops.Operations, Notes, error)
	// Explain says an error, and what to do about it.
	Explain func(error) (says, fix string)
	// Patience bounds each question to a program; 0: PatienceMax.
	Patience time.Duration
}

// PatienceMax is how long a program has to answer.
const PatienceMax = 10 * time.Second

// examination is an examination under way.
type examination struct {
	Patient
	ctx    context.Context
	now    events.Time
	ledger *ops.Examined // nil: it could not be looked at
	faults []notes.Fault
}

// part is what was found about one thing.
type part []Line

func (p *part) say(about, check string, level Level, fix, format string, args ...any) {
	*p = append(*p, Line{About: about, Check: check, Level: level, Says: fmt.Sprintf(format, args...), Fix: fix})
}

// Examine looks at everything.
func Examine(ctx context.Context, p Patient) Report {
	if p.Patience == 0 {
		p.Patience = PatienceMax
	}
	x := &examination{Patient: p, ctx: ctx, now: p.Now()}
	ledger := x.examineLedger()
	parts := []part{x.programs()}
	parts = append(parts, x.harnesses()...)
	parts = append(parts, x.caller(), ledger, x.policy(), x.clock())

	r := Report{Lines: []Line{}}
	for _, part := range parts {
		for _, l := range part {
			switch l.Level {
			case Fault:
				r.Faults++
			case Warning:
				r.Warnings++
			}
			r.Lines = append(r.Lines, l)
		}
	}
	r.OK = r.Faults+r.Warnings == 0
	return r
}

// harnesses asks all of them at once: each may take its time.
func (x *examination) harnesses() []part {
	all := install.Harnesses()
	parts := make([]part, len(all))
	var wait sync.WaitGroup
	for i, h := range all {
		wait.Go(func() { parts[i] = x.harness(h) })
	}
	wait.Wait()
	return parts
}

// ago says how long ago a moment was.
func (x *examination) ago(t events.Time) string {
	d := x.now.Sub(t)
	switch {
	case d < 0:
		return "at " + t.String()
	case d < time.Hour:
		return d.Truncate(time.Second).String() + " ago"
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
