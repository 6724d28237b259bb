package runs

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HandedOver is this environment for the program that this one is about to become,
// with a line that says when it began. The line names the process, which stays the
// same, so that nobody else who inherits it believes it; one that was inherited goes.
func HandedOver(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(line string) bool { return strings.HasPrefix(line, variable+"=") })
	return append(kept, variable+"="+strconv.Itoa(os.Getpid())+" "+strconv.FormatInt(monotonic()-int64(time.Since(began)), 10))
}

// handed is how long ago the program began that became this one; false when
// there was none.
func handed(value string) (time.Duration, bool) {
	process, moment, _ := strings.Cut(value, " ")
	if process != strconv.Itoa(os.Getpid()) {
		return 0, false
	}
	at, err := strconv.ParseInt(moment, 10, 64)
	took := time.Duration(monotonic() - at)
	return took, err == nil && took >= 0 && took <= tookMax
}

// monotonic is the time of a clock that no setting changes, in nanoseconds; 0
// when there is none.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
