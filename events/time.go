package events

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Time is a moment in microseconds since the Unix epoch, UTC. It comes in with
// a command; nothing that folds or decides reads a clock. A moment that never
// comes is a nil *Time, never the zero value.
type Time int64

// timeLayout is RFC 3339 in UTC with exactly six digits, so that times as text
// sort as they do as numbers.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// The first and the last moment that can be written: the year has four digits.
const (
	timeMin Time = -62_167_219_200_000_000
	timeMax Time = 253_402_300_799_999_999
)

// At turns a clock's reading into a Time; what is finer than a microsecond is
// cut, and what could not be written is the first or the last moment that can.
func At(t time.Time) Time { return min(max(Time(t.UnixMicro()), timeMin), timeMax) }

// ParseTime reads RFC 3339 with any offset and up to nine digits. Its year must
// have four digits in UTC too, or it could not be written again.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("parse time %q: %w", s, err)
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return 0, fmt.Errorf("parse time %q: in UTC its year is %d", s, year)
	}
	return At(t), nil
}

// Add moves a moment by d, and not past the moments that can be written.
func (t Time) Add(d time.Duration) Time { return min(max(t+Time(d.Microseconds()), timeMin), timeMax) }

// Sub is how far t lies after u; negative when the clock went back between them.
// It is at most what a Duration holds, 292 years.
func (t Time) Sub(u Time) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(int64(t-u), -most), most)) * time.Microsecond
}

// Std is the same moment as the standard library has it, in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

func (t Time) String() string { return t.Std().Format(timeLayout) }

// MarshalJSON writes the moment as RFC 3339 text.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(timeLayout)+2)
	b = append(b, '"')
	b = t.Std().AppendFormat(b, timeLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads RFC 3339 text.
func (t *Time) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("parse time %s: %w", b, err)
	}
	*t, err = ParseTime(s)
	return err
}

// Span is a length of time in a policy, written as Go writes it: "10m", "180s".
type Span time.Duration

// Std is the same length as the standard library has it.
func (s Span) Std() time.Duration { return time.Duration(s) }

func (s Span) String() string { return time.Duration(s).String() }

// MarshalText writes the length.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a length of zero or more.
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("parse span %q: %w", b, err)
	}
	if d < 0 {
		return fmt.Errorf("parse span %q: below zero", b)
	}
	*s = Span(d)
	return nil
}
