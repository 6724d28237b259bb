package runs

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWhatARunTellsIsReadAsItWasTold(t *testing.T) {
	for _, o := range Outcomes() {
		for _, took := range []time.Duration{0, time.Microsecond, 812 * time.Microsecond, time.Second, tookMax} {
			told := Told{Harness: "claude-code", Outcome: o, Took: took}
			if got, ok := parse(told.text()); !ok || got != told {
				t.Errorf("%+v is told as %q, and read as %+v, %t", told, told.text(), got, ok)
			}
		}
	}
	if got := string(Told{"codex", Delivered, 6500 * time.Microsecond}.text()); got != "decklog-run 1 codex delivered 6500\n" {
		t.Errorf("it is told as %q", got)
	}
	if got, ok := parse([]byte("decklog-run 1 codex nothing 7 of-a-later-version\n")); !ok || got.Took != 7*time.Microsecond {
		t.Errorf("with one more word it is read as %+v, %t", got, ok)
	}
}

func TestATimeThatCannotBeIsTheNearestThatCan(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{-time.Second: 0, 2 * tookMax: tookMax} {
		if got, ok := parse(Told{"codex", Nothing, took}.text()); !ok || got.Took != want {
			t.Errorf("%v is read as %v, %t", took, got.Took, ok)
		}
	}
}

// hostile are no datagrams of a run.
var hostile = []string{
	"", "\n", "decklog-run", "decklog-run 1", "decklog-run 1 \n", "decklog-run 1 codex\n", "decklog-run 1 codex nothing\n", "decklog-run 1 codex nothing 1",
	"decklog-run 1 codex nothing -1\n", "decklog-run 1 codex nothing +1\n", "decklog-run 1 codex nothing 1e3\n", "decklog-run 1 codex nothing 99999999999999999999\n",
	"decklog-run 1 codex nothing 3600000001\n", "decklog-run 1 codex robbed 1\n", "decklog-run 1 Codex nothing 1\n", "decklog-run 1 co\"dex} nothing 1\n",
	"decklog-run 1  nothing 1\n", "decklog-run 2 codex nothing 1\n", "decklog-run 1 " + strings.Repeat("x", 33) + " nothing 1\n",
	"decklog-run 1 codex nothing 1 " + strings.Repeat("x", toldBytesMax) + "\n", strings.Repeat("\x00", 60_000), "{\"harness\":\"codex\"}\n",
}

func TestWhatNoRunTellsIsNotRead(t *testing.T) {
	for _, text := range hostile {
		if got, ok := parse([]byte(text)); ok {
			t.Errorf("%.80q is read as %+v", text, got)
		}
	}
	for _, bad := range []Told{{Harness: "", Outcome: Nothing}, {Harness: "a b", Outcome: Nothing}, {Harness: "codex", Outcome: "robbed"}, {Harness: "codex"}} {
		if text := bad.text(); text != nil {
			t.Errorf("%+v is told as %q", bad, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	f.Add([]byte("decklog-run 1 codex nothing 812\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		told, ok := parse(b)
		if !ok {
			return
		}
		if !slices.Contains(Outcomes(), told.Outcome) || !isWord(told.Harness) || told.Took < 0 || told.Took > tookMax {
			t.Fatalf("%q is read as %+v", b, told)
		}
		if again, ok := parse(told.text()); !ok || again != told || !bytes.HasPrefix(b, []byte(mark)) {
			t.Fatalf("%q is read as %+v, and that as %+v", b, told, again)
		}
	})
}

func TestTheTimeOfAProgramThatBecameAnotherIsThatOfBoth(t *testing.T) {
	began = began.Add(-time.Minute)
	defer func() { began = began.Add(time.Minute) }()
	nobody := func(string) string { return "" }
	if took := Took(nobody); took < time.Minute || took > time.Hour {
		t.Errorf("by itself it took %v", took)
	}
	line := handedOver(t)
	name, value, _ := strings.Cut(line, "=")
	began = began.Add(time.Minute) // the other program begins
	defer func() { began = began.Add(-time.Minute) }()
	given := func(asked string) string {
		if asked != name {
			return ""
		}
		return value
	}
	if took := Took(given); took < time.Minute {
		t.Errorf("both took %v", took)
	}
	for _, strange := range []string{"1 " + value[strings.Index(value, " ")+1:], value + "0000", value[:strings.Index(value, " ")], "-", " "} {
		if took := Took(func(string) string { return strange }); took >= time.Minute {
			t.Errorf("with %q it took %v", strange, took)
		}
	}
	if os.Getenv(variable) != "" {
		t.Error("the variable is set here")
	}
}
