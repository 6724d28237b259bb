// Package enginecheck asks a server for all that decklog relies on: what a ledger on
// it has to keep, by the contract suite that decklog's own ledgers keep, and what
// the server has to do by itself. It knows no server and no ledger; it is given both.
package enginecheck

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"decklog/events"
	"decklog/internal/ledgertest"
)

// PromiseMax is how long one promise is tried. A server that keeps it is done long before.
const PromiseMax = 2 * time.Minute

// CleanMax is how long it is tried to take away what was made.
const CleanMax = time.Minute

// closeMax is how long a ledger is given to close whose promise was left behind.
var closeMax = 10 * time.Second // a test wants less

// Promise is one thing that the server has to do by itself.
type Promise struct {
	Says  string
	Holds func(context.Context) (note string, err error)
}

// Engine is the server that is asked.
type Engine struct {
	Server, Prefix string // as they are shown
	Promises       []Promise
	// Open opens an empty ledger on it, another for each name.
	Open func(name string, project events.Projector) (events.Ledger, error)
	// Clean takes away what was made, and says of how many streams.
	Clean func(context.Context) (streams int, err error)
}

// Result is what became of a promise.
type Result string

const (
	OK      Result = "ok"
	Failed  Result = "failed"
	Skipped Result = "skipped" // it is not asked of an engine that is set up so
	NotRun  Result = "not_run" // it was broken off before
)

// Check is one promise, and whether it is kept.
type Check struct {
	Of      string `json:"of"` // server or ledger
	Promise string `json:"promise"`
	Result  Result `json:"result"`
	Why     string `json:"why,omitempty"` // why not, or what is worth knowing
	TookMS  int64  `json:"took_ms"`
}

// What a check is of.
const (
	OfServer = "server"
	OfLedger = "ledger"
)

// Report is what was found.
type Report struct {
	OK     bool    `json:"ok"` // all promises are kept, and nothing is left but what Left says
	Server string  `json:"server"`
	Prefix string  `json:"prefix"`
	Checks []Check `json:"checks"`
	Left   Left    `json:"left"`
}

// Left is what the checks leave on the server.
type Left struct {
	Streams int    `json:"streams"`         // that were made, and are ended for ever
	Fault   string `json:"fault,omitempty"` // why others are still there
}

// Count is how many checks had a result.
func (r Report) Count(of Result) (n int) {
	for _, c := range r.Checks {
		if c.Result == of {
			n++
		}
	}
	return n
}

// Run tries every promise, one after the other, and takes away what was made,
// whatever comes of it. When the context ends, the promise that is tried is left
// behind and the rest is not tried.
func Run(ctx context.Context, e Engine, told func(done, all int, c Check)) Report {
	return run(ctx, e, told, PromiseMax)
}

func run(ctx context.Context, e Engine, told func(done, all int, c Check), most time.Duration) Report {
	count := &counting{}
	ledgertest.Contract(count, nil)
	s := &suite{Report: Report{Server: e.Server, Prefix: e.Prefix, Checks: []Check{}}, ctx: ctx, most: most}
	s.told = func(c Check) {
		s.Checks = append(s.Checks, c)
		told(len(s.Checks), len(e.Promises)+count.n, c)
	}
	for _, p := range e.Promises {
		s.try(OfServer, p.Says, func(t *trial) {
			note, err := p.Holds(t.ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.note(note)
		})
	}
	ledgers := 0
	ledgertest.Contract(&trial{suite: s}, func(t *trial, project events.Projector) events.Ledger {
		ledgers++
		l, err := e.Open(fmt.Sprint("ledger-", ledgers), project)
		if err != nil {
			t.Fatalf("open a ledger: %v", err)
		}
		return l
	})
	// What was broken off has to be taken away too.
	clean, end := context.WithTimeout(context.WithoutCancel(ctx), CleanMax)
	defer end()
	var err error
	if s.Left.Streams, err = e.Clean(clean); err != nil {
		s.Left.Fault = err.Error()
	}
	s.OK = s.Count(Failed)+s.Count(NotRun) == 0 && err == nil
	return s.Report
}

// counting only counts the promises.
type counting struct {
	silent
	n int
}

func (c *counting) Run(string, func(*counting)) bool { c.n++; return true }

// silent is a T of which nothing is heard.
type silent struct{}

func (silent) Helper()               {}
func (silent) Error(...any)          {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatal(...any)          {}
func (silent) Fatalf(string, ...any) {}
func (silent) Skip(...any)           {}
func (silent) Cleanup(func())        {}

// suite is a run of all promises.
type suite struct {
	Report
	ctx  context.Context
	most time.Duration
	told func(Check)
}

// trial is one promise that is tried, in a goroutine of its own. It stands for the
// *testing.T that the contract is given in a test.
type trial struct {
	*suite
	ctx context.Context

	mu      sync.Mutex
	faults  []string
	skipped bool
	notes   string
	cleanup []func()
	over    bool // nobody listens any more
}

var _ ledgertest.Runner[*trial] = (*trial)(nil)

// Run tries a promise of the ledger.
func (t *trial) Run(says string, try func(*trial)) bool {
	return t.suite.try(OfLedger, says, try) != Failed
}

// try tries one promise.
func (s *suite) try(of, says string, do func(*trial)) Result {
	c := Check{Of: of, Promise: says, Result: NotRun}
	if s.ctx.Err() != nil {
		s.told(c)
		return c.Result
	}
	ctx, end := context.WithTimeout(s.ctx, s.most)
	defer end()
	t := &trial{suite: s, ctx: ctx}
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer t.clean() // also when do ends its goroutine
		t.guard(func() { do(t) })
	}()
	left := false
	select {
	case <-ended:
	case <-ctx.Done():
		// A promise that is not kept may wait for ever for what does not come.
		left = true
		go t.clean()
		late := time.NewTimer(closeMax)
		select {
		case <-ended:
		case <-late.C:
		}
		late.Stop()
	}
	c.TookMS = time.Since(began).Milliseconds()
	t.mu.Lock()
	t.over = true
	switch {
	case s.ctx.Err() != nil && (left || len(t.faults) > 0):
		c.Result, c.Why = NotRun, "it was broken off"
	case left:
		c.Result, c.Why = Failed, strings.Join(append([]string{fmt.Sprintf("it was not done within %s", s.most)}, t.faults...), "; ")
	case len(t.faults) > 0:
		c.Result, c.Why = Failed, strings.Join(t.faults, "; ")
	case t.skipped:
		c.Result, c.Why = Skipped, t.notes
	default:
		c.Result, c.Why = OK, t.notes
	}
	t.mu.Unlock()
	s.told(c)
	return c.Result
}

// guard makes a fault of a panic.
func (t *trial) guard(do func()) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	do()
}

// clean runs what was put off to the end, the last first, each once.
func (t *trial) clean() {
	for {
		t.mu.Lock()
		n := len(t.cleanup)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanup[n-1]
		t.cleanup = t.cleanup[:n-1]
		t.mu.Unlock()
		t.guard(last)
	}
}

func (t *trial) note(says string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = says
}

// Helper does nothing here: nobody is told of lines.
func (t *trial) Helper() {}

// Cleanup puts something off to the promise's end.
func (t *trial) Cleanup(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanup = append(t.cleanup, do)
}

// FaultsMax bounds what is told of one promise; one fault is enough.
const FaultsMax = 3

// Error notes a fault, and goes on.
func (t *trial) Error(args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && len(t.faults) < FaultsMax {
		t.faults = append(t.faults, strings.TrimSpace(fmt.Sprintln(args...)))
	}
}

// Errorf notes a fault, and goes on.
func (t *trial) Errorf(format string, args ...any) { t.Error(fmt.Sprintf(format, args...)) }

// Fatal notes a fault, and ends the promise.
func (t *trial) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf notes a fault, and ends the promise.
func (t *trial) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// Skip ends a promise that is not asked of this ledger.
func (t *trial) Skip(args ...any) {
	t.mu.Lock()
	t.skipped, t.notes = true, strings.TrimSpace(fmt.Sprintln(args...))
	t.mu.Unlock()
	runtime.Goexit()
}

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	of := ""
	for _, c := range r.Checks {
		if c.Of != of {
			of = c.Of
			b.WriteString(map[string]string{OfServer: "the server " + r.Server, OfLedger: "a ledger on it"}[of] + "\n")
		}
		fmt.Fprintf(&b, "  %-8s %s\n", strings.ReplaceAll(string(c.Result), "_", " "), c.Promise)
		if c.Why != "" {
			fmt.Fprintf(&b, "           %s\n", strings.ReplaceAll(strings.TrimSpace(c.Why), "\n", "\n           "))
		}
	}
	if r.Left.Fault != "" {
		fmt.Fprintf(&b, "Not all that was made could be taken away: %s\nFix: delete the streams whose names begin with %s\n", r.Left.Fault, r.Prefix)
	} else {
		fmt.Fprintf(&b, "Taken away: the %d streams whose names begin with %s\nTheir tombstones stay, and what they held is on the server's disk until its next scavenge.\n", r.Left.Streams, r.Prefix)
	}
	failed, not := r.Count(Failed), r.Count(NotRun)
	switch {
	case r.OK:
		fmt.Fprintf(&b, "engine-check: ok, %d promises\n", len(r.Checks))
	case failed > 0 || not > 0:
		fmt.Fprintf(&b, "engine-check: of %d promises %d failed, and %d were not tried\n", len(r.Checks), failed, not)
	default:
		b.WriteString("engine-check: all promises are kept, and something is left\n")
	}
	return b.String()
}
