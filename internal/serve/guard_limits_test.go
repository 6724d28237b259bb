package serve

import (
	"fmt"
	"testing"
	"time"
)

// Whoever has a whole network of addresses must not fill the memory with them.
func TestWhatIsKeptOfBadTokensIsBounded(t *testing.T) {
	var f failures
	limits := Limits{FailuresMax: 2, FailureEvery: time.Second}.orDefaults()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	refused := 0
	for i := range 3 * failuresKept {
		if f.count(fmt.Sprintf("10.%d.%d.1", i/256, i%256), now, &limits) > 0 {
			refused++
		}
	}
	if len(f.out) > failuresKept+1 || refused == 0 {
		t.Errorf("%d addresses are kept, %d attempts were one too many", len(f.out), refused)
	}
	// Once they are forgotten there is room again.
	later := now.Add(time.Hour)
	if wait := f.count("192.0.2.1", later, &limits); wait != 0 || len(f.out) > 2 {
		t.Errorf("after an hour: wait %s, %d are kept", wait, len(f.out))
	}
}

func TestBadTokensAreForgottenOneByOne(t *testing.T) {
	var f failures
	limits := Limits{FailuresMax: 3, FailureEvery: time.Second}.orDefaults()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	try := func(from string, want bool) {
		t.Helper()
		if wait := f.count(from, now, &limits); (wait == 0) != want || wait > limits.FailureEvery {
			t.Errorf("at %s from %s: wait %s", now.Format(time.TimeOnly), from, wait)
		}
	}
	for range 3 {
		try("192.0.2.1", true)
	}
	for range 100 { // who goes on is not kept out for longer
		try("192.0.2.1", false)
	}
	try("192.0.2.2", true)
	try("unix", true)
	now = now.Add(time.Second)
	try("192.0.2.1", true)
	try("192.0.2.1", false)
	// A /64 is one caller's, and so is an IPv4 address however it is written.
	for range 3 {
		try("2001:db8::1", true)
	}
	try("2001:db8::ffff", false)
	try("2001:db8:0:1::1", true)
	try("::ffff:192.0.2.1", false)
}
