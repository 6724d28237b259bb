//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// line is one line of the table: what is measured, beside what, and the goal
// that its ratio has.
type line struct {
	what, reference string
	unit            unit
	goal            goal
}

// unit is what a line's numbers count.
type unit string

const (
	seconds   unit = "s"
	perSecond unit = "/s"
	megabytes unit = "MB"
)

func (u unit) show(v float64) string {
	switch {
	case v == 0:
		return "-"
	case u == seconds && v < 1e-3:
		return fmt.Sprintf("%.0f µs", v*1e6)
	case u == seconds && v < 1:
		return fmt.Sprintf("%.1f ms", v*1e3)
	case u == seconds:
		return fmt.Sprintf("%.1f s", v)
	case u == perSecond:
		return fmt.Sprintf("%.0f/s", v)
	}
	return fmt.Sprintf("%.0f %s", v, u)
}

// goal bounds a ratio, from above or below; of megabytes it bounds the measured
// value itself. The zero goal is none: the line is there to be looked at.
type goal struct {
	bound   float64
	atLeast bool
}

func atMost(bound float64) goal  { return goal{bound: bound} }
func atLeast(bound float64) goal { return goal{bound: bound, atLeast: true} }

func (g goal) met(v float64) bool {
	if g.atLeast {
		return v >= g.bound
	}
	return g.bound == 0 || v <= g.bound
}

func (g goal) String() string {
	switch {
	case g.bound == 0:
		return ""
	case g.atLeast:
		return fmt.Sprintf("≥ %g", g.bound)
	}
	return fmt.Sprintf("≤ %g", g.bound)
}

// table is the answer.
type table struct {
	Machine facts    `json:"machine"`
	Rounds  int      `json:"rounds"`
	Lines   []result `json:"lines"`
	Met     int      `json:"met"`
	Missed  int      `json:"missed"`
}

// result is a line with its numbers, the medians over the rounds.
type result struct {
	What      string  `json:"what"`
	Measured  float64 `json:"measured"`
	Beside    string  `json:"beside"`
	Reference float64 `json:"reference"`
	Unit      unit    `json:"unit"`
	Ratio     float64 `json:"ratio"` // of the measured to the reference; of megabytes the measured
	Least     float64 `json:"least"` // ratio of a round
	Greatest  float64 `json:"greatest"`
	Goal      string  `json:"goal"`
	Met       bool    `json:"met"`

	line line
}

func (l line) result(of []sample) result {
	column := func(f func(sample) float64) []float64 {
		var all []float64
		for _, s := range of {
			all = append(all, f(s))
		}
		return all
	}
	ratios := column(func(s sample) float64 {
		switch {
		case l.unit == megabytes:
			return s.measured
		case s.ratio != 0 || s.reference == 0:
			return s.ratio
		}
		return s.measured / s.reference
	})
	r := result{
		What: l.what, Beside: l.reference, Unit: l.unit, Goal: l.goal.String(), line: l,
		Measured: median(column(func(s sample) float64 { return s.measured })), Reference: median(column(func(s sample) float64 { return s.reference })),
		Ratio: median(ratios), Least: slices.Min(ratios), Greatest: slices.Max(ratios),
	}
	r.Met = l.goal.met(r.Ratio)
	return r
}

func (t *table) add(r result) {
	t.Lines = append(t.Lines, r)
	switch {
	case r.Goal == "":
	case r.Met:
		t.Met++
	default:
		t.Missed++
	}
}

func (t table) print(to io.Writer) error {
	fmt.Fprintf(to, "%s\n%d rounds each; absolute times are of this machine only, the ratios are the goals.\n\n", t.Machine, t.Rounds)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\treference\tratio (least to greatest)\tgoal\t")
	for _, r := range t.Lines {
		ratio := fmt.Sprintf("%.2f (%.2f to %.2f)", r.Ratio, r.Least, r.Greatest)
		if r.Unit == megabytes {
			ratio = fmt.Sprintf("%.0f to %.0f", r.Least, r.Greatest)
		}
		verdict := "met"
		switch {
		case r.Goal == "":
			verdict = ""
		case !r.Met:
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\t%s\n", r.What, r.Unit.show(r.Measured), r.Beside, r.Unit.show(r.Reference), ratio, r.Goal, verdict)
	}
	return w.Flush()
}

// brief is a round in a few words.
func brief(lines []line, samples []sample) string {
	var out []string
	for i, l := range lines {
		out = append(out, l.unit.show(samples[i].measured)+" beside "+l.unit.show(samples[i].reference))
	}
	return strings.Join(out, "; ")
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if len(sorted) == 0 {
		return 0
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// facts are what the numbers are of.
type facts struct {
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"`
	Go         string `json:"go"`
}

func (f facts) String() string {
	return fmt.Sprintf("%d cores, %s, %s, %s", f.Cores, f.Kernel, f.FileSystem, f.Go)
}

func machine(folder string) facts {
	f := facts{Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, Kernel: "an unknown kernel"}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		text := func(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
		f.Kernel = text(u.Sysname[:]) + " " + text(u.Release[:])
	}
	f.FileSystem = fileSystem(folder)
	return f
}

// fileSystem is the kind of file system that a folder is on, from the mount
// whose point is the longest beginning of its path.
func fileSystem(folder string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	kind, longest := "an unknown file system", -1
	if err != nil {
		return kind
	}
	for l := range strings.Lines(string(mounts)) {
		fields := strings.Fields(l)
		if len(fields) < 3 {
			continue
		}
		point := strings.TrimSuffix(fields[1], "/")
		if (folder == point || strings.HasPrefix(folder, point+"/")) && len(point) >= longest {
			kind, longest = fields[2], len(point)
		}
	}
	return kind
}
