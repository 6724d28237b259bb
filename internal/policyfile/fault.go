package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"decklog/commands"
)

// Fault is one thing that is wrong in a policy file, and how to put it right.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`             // counted from 1
	Column int    `json:"column,omitempty"` // in characters, counted from 1; 0: not known
	Key    string `json:"key,omitempty"`    // where it belongs, such as limits.lease; empty: nowhere
	Says   string `json:"says"`
	Fix    string `json:"fix"`
}

// String is the fault in one line, as compilers write theirs.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:", f.File, f.Line)
	if f.Column > 0 {
		fmt.Fprintf(&b, "%d:", f.Column)
	}
	if f.Key != "" {
		fmt.Fprintf(&b, " %s:", f.Key)
	}
	fmt.Fprintf(&b, " %s. Fix: %s", f.Says, f.Fix)
	return b.String()
}

// place is where something stands in a file.
type place struct{ line, column int }

// faults collects all that is wrong in one file.
type faults struct {
	file string
	all  []Fault
}

func (f *faults) add(at place, key, fix, says string, values ...any) {
	f.all = append(f.all, Fault{File: f.file, Line: at.line, Column: at.column, Key: key, Says: fmt.Sprintf(says, values...), Fix: fix})
}

// sorted gives the faults as they stand in the file; of several at one place,
// the first that was found comes first.
func (f *faults) sorted() []Fault {
	slices.SortStableFunc(f.all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return f.all
}

// nearest is the name that somebody probably meant; empty when none is near.
func nearest(word string, names []string) string {
	best, least := "", max(1, utf8.RuneCountInString(word)/3)+1
	for _, name := range names {
		if d := commands.Distance(strings.ToLower(word), name); d < least {
			best, least = name, d
		}
	}
	return best
}
