//go:build linux

// Command bench measures what decklog promises of its speed, each promise beside
// a reference that runs in turn with it, in the same minutes, on the same disk.
// Absolute times are of the machine alone; the ratios are what is promised.
//
// A row of the table is measured in rounds. In each round the measured and the
// reference take turns (A B A B ...), and the round gives the ratio of their
// medians; the table shows the medians over the rounds, and the least and the
// greatest ratio of a round.
//
// `make bench` runs it. It exits 1 when a goal is missed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"syscall"

	"decklog/events"
)

func main() {
	var (
		only    = flag.String("only", "", "measure only the rows whose name `REGEXP` matches")
		rounds  = flag.Int("rounds", 5, "measure each row in `N` rounds")
		count   = flag.Int("events", 1_000_000, "the large ledger has `N` events")
		folder  = flag.String("folder", "", "make the ledgers in a folder of their own in `DIR` (default: where temporary files go)")
		asJSON  = flag.Bool("json", false, "print one JSON document")
		profile = flag.String("profile", "", "write a CPU profile of each row that runs in this program into `DIR`")
		child   = flag.String("child", "", "for the program's own use")
		ledger  = flag.String("ledger", "", "for the program's own use")
	)
	flag.Parse()
	if *child != "" {
		exit(runChild(*child, *ledger, *profile))
	}
	pattern, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 || *rounds < 1 || *count < smallEvents {
		fmt.Fprintf(os.Stderr, "bench: -only takes a regular expression, -rounds 1 or more, -events %d or more\n", smallEvents)
		os.Exit(2)
	}
	dir, err := os.MkdirTemp(*folder, "decklog-bench-")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		exit(err)
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stopped
		os.RemoveAll(dir)
		os.Exit(1)
	}()
	b := &bench{folder: dir, rounds: *rounds, events: *count, profile: *profile, ledgers: map[int]*made{}}
	table, err := b.measure(pattern)
	os.RemoveAll(dir)
	if err != nil {
		exit(err)
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(table)
	} else {
		err = table.print(os.Stdout)
	}
	if err == nil && table.Missed > 0 {
		err = fmt.Errorf("%d of %d goals missed", table.Missed, table.Missed+table.Met)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bench is one run: its folder, and what the rows share.
type bench struct {
	folder  string
	rounds  int
	events  int
	profile string
	built   bool
	ledgers map[int]*made // by how many events they have
}

// row is what is measured together: one line of the table, or several.
type row struct {
	name  string
	lines []line
	// begin prepares, and gives what one round does and what ends it.
	begin func(*bench) (round, error)
}

// round gives a sample for each of the row's lines.
type round func() ([]sample, error)

// sample is what one round measured. Without a ratio it is measured by reference.
type sample struct{ measured, reference, ratio float64 }

// rows are those that decklog promises, in the order of the design's table.
func rows() []row {
	return slices.Concat([]row{
		hookQuiet(), hookDelivers(), hookOff(), hookIgnored(), sendOnce(), appendLoop(), sendTogether(),
		folding(), threadAt(), queries(), appendServed(), waking(), manyWaiting(),
	}, fleetAppends(), []row{fleetProject()})
}

func (b *bench) measure(only *regexp.Regexp) (table, error) {
	t := table{Machine: machine(b.folder), Rounds: b.rounds}
	for _, r := range rows() {
		if !only.MatchString(r.name) {
			continue
		}
		b.say("%s", r.name)
		samples, err := b.run(r)
		if err != nil {
			return t, fmt.Errorf("%s: %w", r.name, err)
		}
		for i, l := range r.lines {
			of := make([]sample, len(samples))
			for n := range samples {
				of[n] = samples[n][i]
			}
			t.add(l.result(of))
		}
	}
	return t, nil
}

func (b *bench) run(r row) (samples [][]sample, err error) {
	once, err := r.begin(b)
	if err != nil {
		return nil, err
	}
	end, err := profiled(b.profile, r.name)
	if err != nil {
		return nil, err
	}
	defer end()
	for n := range b.rounds {
		s, err := once()
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
		b.say("  round %d of %d: %s", n+1, b.rounds, brief(r.lines, s))
	}
	return samples, nil
}

// profiled writes a CPU profile until the function that it gives is called.
func profiled(folder, name string) (func(), error) {
	if folder == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(folder, name+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// progress tells how far long work has come, a hundred thousand events at a time.
func (b *bench) progress(what string, done, end events.Position) {
	const often = 100_000
	if end >= often && done%often == 0 {
		b.say("  %s: %d of %d events", what, done, end)
	}
}
