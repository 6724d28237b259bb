//go:build testclock

// Package clock tells the time of a test.
package clock

import (
	"fmt"
	"os"
	"strings"
	"time"

	"decklog/events"
)

// Test says that this program was built to be told the time.
const Test = true

// Now is the moment that stands, as RFC 3339 text, in the file that
// DECKLOG_TEST_CLOCK names; without that variable it is the machine's. It panics
// when the file holds no moment: a test that lost its clock proves nothing.
func Now() events.Time {
	path := os.Getenv("DECKLOG_TEST_CLOCK")
	if path == "" {
		return events.At(time.Now())
	}
	text, err := os.ReadFile(path)
	// A file that is just being written is empty for a moment.
	for tries := 0; err == nil && len(text) == 0 && tries < 1000; tries++ {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		panic(fmt.Sprintf("read test clock: %v", err))
	}
	now, err := events.ParseTime(strings.TrimSpace(string(text)))
	if err != nil {
		panic(fmt.Sprintf("read test clock %s: %v", path, err))
	}
	return now
}
