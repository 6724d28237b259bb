//go:build !testclock

// Package clock tells the time. It is the only place that asks the machine for
// it: everything that decides or folds is given a moment.
//
// A program built with `-tags testclock` is told the moment by a file instead,
// so that a test of the real program can say when it is. The released program
// has no such door.
package clock

import (
	"time"

	"decklog/events"
)

// Test says that this program was built to be told the time.
const Test = false

// Now is this moment by the machine's clock, which may have gone back since it
// was last asked.
func Now() events.Time { return events.At(time.Now()) }
