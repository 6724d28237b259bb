package events_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decklog/events"
)

var year9999 = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()

func TestATimeReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := events.Time(rapid.Int64Range(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), year9999).Draw(t, "time"))
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != len(`"2026-11-30T09:00:00.000000Z"`) {
			t.Fatalf("%s has not six digits", data)
		}
		var got events.Time
		if err := json.Unmarshal(data, &got); err != nil || got != want {
			t.Fatalf("%d is written %s and read %d, %v", want, data, got, err)
		}
		if string(data) != `"`+want.String()+`"` {
			t.Fatalf("as JSON %s, as text %s", data, want)
		}
		if parsed, err := events.ParseTime(want.String()); err != nil || parsed != want {
			t.Fatalf("%s parses as %d, %v", want, parsed, err)
		}
		if events.At(want.Std()) != want {
			t.Fatalf("%d becomes %s and back %d", want, want.Std(), events.At(want.Std()))
		}
	})
}

func TestTimesAsTextSortAsTheyDoAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Int64Range(0, year9999)
		a, b := events.Time(moment.Draw(t, "a")), events.Time(moment.Draw(t, "b"))
		if (a < b) != (a.String() < b.String()) {
			t.Fatalf("%d, %d but %s, %s", a, b, a, b)
		}
	})
}

func TestOneMomentIsTheSameInEveryOffset(t *testing.T) {
	want, err := events.ParseTime("2026-11-30T09:00:00.250001Z")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"2026-11-30T10:00:00.250001+01:00", "2026-11-30T03:30:00.250001-05:30", "2026-11-30T23:00:00.250001+14:00",
		"2026-11-30T09:00:00.250001999Z", "2026-11-30T09:00:00.250001000+00:00",
	} {
		if got, err := events.ParseTime(s); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", s, got, err, want)
		}
	}
	if got := want.String(); got != "2026-11-30T09:00:00.250001Z" {
		t.Errorf("it is written %s", got)
	}
	if whole, err := events.ParseTime("2026-11-30T09:00:00Z"); err != nil || whole.String() != "2026-11-30T09:00:00.000000Z" {
		t.Errorf("a whole second is %s, %v", whole, err)
	}
}

func TestWhatIsFinerThanAMicrosecondIsCut(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 0, 0, 999_999_999, time.UTC)
	if got := events.At(at).String(); got != "2026-11-30T09:00:00.999999Z" {
		t.Errorf("it became %s", got)
	}
}

func TestWhatIsNoTimeIsRefused(t *testing.T) {
	for _, data := range []string{`""`, `"now"`, `"2026-11-30"`, `"2026-11-30T09:00:00"`, `"2026-13-30T09:00:00Z"`, `1796029210`, `{}`, `null`, `"9999-12-31T23:59:59-14:00"`, `"0000-01-01T00:00:00+14:00"`, `"2026-11-30T09:00:00Z`} {
		var got events.Time
		if err := json.Unmarshal([]byte(data), &got); err == nil {
			t.Errorf("%s is read as %s", data, got)
		}
	}
}

func TestTheDistanceOfTwoMomentsIsNegativeWhenTheClockWentBack(t *testing.T) {
	a := events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	for _, d := range []time.Duration{0, time.Microsecond, -time.Microsecond, time.Hour, -time.Hour, 100 * 365 * 24 * time.Hour} {
		if got := a.Add(d).Sub(a); got != d {
			t.Errorf("moved by %s it lies %s ahead", d, got)
		}
	}
}

func TestASpanReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := events.Span(rapid.Int64Range(0, math.MaxInt64).Draw(t, "span"))
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got events.Span
		if err := json.Unmarshal(data, &got); err != nil || got != want {
			t.Fatalf("%d is written %s and read %d, %v", want, data, got, err)
		}
	})
	for text, want := range map[string]time.Duration{"10m": 10 * time.Minute, "180s": 3 * time.Minute, "24h": 24 * time.Hour, "0": 0, "0s": 0, "1h30m": 90 * time.Minute} {
		var got events.Span
		if err := got.UnmarshalText([]byte(text)); err != nil || got.Std() != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1s", "10", "10 m", "soon", "-0.1us"} {
		var got events.Span
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestAClockThatIsFarOffStillTellsMomentsThatCanBeWritten(t *testing.T) {
	last, err := events.ParseTime("9999-12-31T23:59:59.999999Z")
	if err != nil {
		t.Fatal(err)
	}
	first, err := events.ParseTime("0000-01-01T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][2]events.Time{
		"a day after the last moment":   {last.Add(24 * time.Hour), last},
		"a day before the first moment": {first.Add(-24 * time.Hour), first},
		"a clock in the year 12000":     {events.At(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)), last},
		"a clock before the year 0":     {events.At(time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)), first},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %s, want %s", what, got[0], got[1])
		}
	}
	if span := last.Sub(first); span < 292*365*24*time.Hour {
		t.Errorf("from the first moment to the last are %s", span)
	}
	if span := first.Sub(last); span > -292*365*24*time.Hour {
		t.Errorf("from the last moment to the first are %s", span)
	}
}
