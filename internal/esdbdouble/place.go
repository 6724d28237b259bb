package esdbdouble

import (
	"cmp"
	"math"
)

// place is a position in the log as the server compares them. An event that was
// written over gRPC lies at equal numbers; a checkpoint need not.
type place struct{ commit, prepare int64 }

var (
	beforeAll = place{-1, -1}
	first     = place{0, 0}
	afterAll  = place{math.MaxInt64, math.MaxInt64}
)

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.commit, q.commit), cmp.Compare(p.prepare, q.prepare))
}

// placeOf reads a position off the wire, where the end is the greatest number.
func placeOf(commit, prepare uint64) place {
	if commit > math.MaxInt64 || prepare > math.MaxInt64 {
		return afterAll
	}
	return place{int64(commit), int64(prepare)}
}
