package commands_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// decidedRows are the numbers of the decided cases of driving; those of the
// sequences that the pure rules play are in decidedSequences, the others are
// scenarios.
var (
	decidedRows = []int{
		1, 2, 3, 4, 5, 7, 9, 11, 12, 13, 15, 16, 17, 19, 20, 22, 23, 24, 25, 26, 28, 29, 30, 32, 34, 35, 38, 39, 40, 41, 43, 44, 46, 48,
		50, 51, 52, 54, 55, 56, 59, 60, 61, 62, 63, 65, 67, 68, 69, 72, 73, 74, 75, 77, 78, 80, 82, 83, 85, 87, 88, 89, 90, 92, 93,
		95, 96, 97, 98, 100, 102, 103, 105, 106,
	}
	decidedSequences = []int{7, 8, 9, 11, 12, 14, 15, 17, 18, 20, 22, 23, 26}
)

// played are the numbers of the cases that ran, by the names of their subtests.
var played struct {
	sync.Mutex
	rows, sequences map[int]bool
}

var (
	rowNamed      = regexp.MustCompile(`/row_(\d+):`)
	sequenceNamed = regexp.MustCompile(`/S(\d+):`)
)

// plays notes which decided case a test is.
func plays(t testing.TB) {
	note := func(named *regexp.Regexp, into *map[int]bool) {
		found := named.FindStringSubmatch(t.Name())
		if found == nil {
			return
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		played.Lock()
		defer played.Unlock()
		if *into == nil {
			*into = map[int]bool{}
		}
		(*into)[n] = true
	}
	note(rowNamed, &played.rows)
	note(sequenceNamed, &played.sequences)
}

// TestMain says how many of the decided cases ran; when all tests did and one of
// the cases is missing, they failed.
func TestMain(m *testing.M) {
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		missing := without(decidedRows, played.rows)
		absent := without(decidedSequences, played.sequences)
		fmt.Printf("driving: %d of %d decided rows and %d of %d sequences ran\n",
			len(decidedRows)-len(missing), len(decidedRows), len(decidedSequences)-len(absent), len(decidedSequences))
		if len(missing)+len(absent) > 0 {
			fmt.Printf("driving: rows %v and sequences %v did not run\n", missing, absent)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func without(all []int, ran map[int]bool) []int {
	return slices.DeleteFunc(slices.Clone(all), func(n int) bool { return ran[n] })
}
