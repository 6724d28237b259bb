//go:build testclock

package main

import (
	"os"
	"strings"
	"time"
)

// now is the moment in the file that DECKLOG_TEST_CLOCK names, as the full
// program of a test has it.
func now() time.Time {
	if text, err := os.ReadFile(os.Getenv("DECKLOG_TEST_CLOCK")); err == nil {
		if t, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text))); err == nil {
			return t
		}
	}
	return time.Now()
}
