package clock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"decklog/events"
)

const variable = "DECKLOG_TEST_CLOCK"

// isReal says whether Now reads the machine's clock.
func isReal() bool {
	before := events.At(time.Now())
	now := Now()
	return before <= now && now <= events.At(time.Now())
}

func TestNowIsTheMachinesTimeUnlessATestTellsAnother(t *testing.T) {
	t.Setenv(variable, "")
	if !isReal() {
		t.Error("nobody told a time, and it is not the machine's")
	}
	path := filepath.Join(t.TempDir(), "now")
	t.Setenv(variable, path)
	for _, moment := range []string{"2026-11-30T09:00:00.000001Z", "2026-11-30T08:00:00.000000Z"} {
		if err := os.WriteFile(path, []byte(moment+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !Test {
			if !isReal() {
				t.Errorf("a program that was not built for it was told that it is %v", Now())
			}
			continue
		}
		if got := Now().String(); got != moment {
			t.Errorf("it is %s, want %s", got, moment)
		}
	}
}

func TestATestThatLostItsClockStops(t *testing.T) {
	if !Test {
		t.Skip("only a program built with -tags testclock is told the time")
	}
	for what, write := range map[string]func(path string) error{
		"no file":       func(string) error { return nil },
		"an empty file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"no moment":     func(path string) error { return os.WriteFile(path, []byte("soon"), 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "now")
			if err := write(path); err != nil {
				t.Fatal(err)
			}
			t.Setenv(variable, path)
			defer func() {
				if recover() == nil {
					t.Error("it went on")
				}
			}()
			Now()
		})
	}
}
