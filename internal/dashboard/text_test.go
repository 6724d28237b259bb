package dashboard

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"decklog/events"
)

func FuzzNothingOfATextIsHiddenOrLost(f *testing.F) {
	for _, seed := range []string{"", "plain\ttext\n", "\u202eevil\u202c", "a\u200bb", "\xff\xfe", "\U000e0041", "👩\u200d👧", "\x00\x1b[31m"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var seen strings.Builder
		marks := 0
		for _, s := range spans(text) {
			if (s.Mark == "") == (s.Text == "") {
				t.Fatalf("a span is both or neither: %+v", s)
			}
			if strings.IndexFunc(s.Text, unseen) >= 0 || !utf8.ValidString(s.Text) {
				t.Fatalf("something is not seen in %q", s.Text)
			}
			if s.Mark != "" {
				marks++
			}
			seen.WriteString(s.Text)
		}
		want := strings.Map(func(r rune) rune {
			if unseen(r) {
				marks--
				return -1
			}
			return r
		}, strings.ToValidUTF8(text, "\ufffd"))
		if seen.String() != want || marks != 0 {
			t.Fatalf("%q became %q, %d marks too many", text, seen.String(), marks)
		}
		if shown, rest := folded(text); shown+rest != text {
			t.Fatalf("folding %q lost something", text)
		}
	})
}

func TestAnAgeIsItsLargestUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "ahead", 0: "now", 59 * time.Second: "59s", 61 * time.Second: "1m", time.Hour: "1h", time.Hour + 5*time.Minute: "1h 5m",
		11*time.Hour + 5*time.Minute: "11h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestTheTrackMarksWhatTellsMostOfManySteps(t *testing.T) {
	var steps []step
	for i := range TicksMax * 3 {
		class := "delivery"
		if i == 100 {
			class = "refused"
		}
		steps = append(steps, step{Position: events.Position(i + 1), Class: class})
	}
	s := scrubOf(steps, 200)
	refused, here := 0, 0
	for _, tick := range s.Ticks {
		if tick.Class == "refused" {
			refused++
		}
		if tick.Here {
			here++
		}
	}
	if len(s.Ticks) != TicksMax || refused != 1 || here != 1 || s.Index != 199 || s.Prev != 199 || s.Next != 201 {
		t.Errorf("%d ticks, %d refused, %d here, scrub %d %d %d", len(s.Ticks), refused, here, s.Index, s.Prev, s.Next)
	}
}
