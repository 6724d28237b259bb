package notes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decklog/events"
)

const noteBytes = len("busy 2026-11-30T09:00:00.000000Z\n")

const writerVariable = "DECKLOG_NOTES_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" { // one of several processes that note faults
		n := Open(dir)
		for i := range writerFaults {
			if err := n.Fault(moment(t0, i), "codex", "Stop", os.Getenv("WRITER"), "test", fmt.Sprint(i, " ", strings.Repeat("x", 300))); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // children under the race detector else linger for a second
	os.Exit(m.Run())
}

const t0 = events.Time(1_796_029_200_000_000)

func moment(from events.Time, n int) events.Time { return from + events.Time(n) }

// stores are the two ways to keep notes; what holds for one holds for the other.
func stores(t *testing.T, test func(t *testing.T, n *Notes)) {
	t.Run("in files", func(t *testing.T) {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		test(t, Open(t.TempDir()))
	})
	t.Run("in memory", func(t *testing.T) { test(t, InMemory()) })
}

func TestASessionIsSeenAsItWasLastNoted(t *testing.T) {
	stores(t, func(t *testing.T, n *Notes) {
		const a, b = events.SessionID("11110000-0000-4000-8000-000000000001"), events.SessionID("ses_b")
		expect := func(s events.SessionID, want Observation) {
			t.Helper()
			if got := n.Seen(s); got != want {
				t.Errorf("%s is seen as %+v, want %+v", s, got, want)
			}
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		expect(a, Observation{})
		do(n.Busy(a, t0))
		expect(a, Observation{Known: true, Busy: true, At: t0})
		expect(b, Observation{})
		do(n.Idle(a, t0+1))
		do(n.Busy(b, t0+2))
		expect(a, Observation{Known: true, At: t0 + 1})
		expect(b, Observation{Known: true, Busy: true, At: t0 + 2})
		do(n.Busy(a, t0-1)) // the clock went back
		expect(a, Observation{Known: true, Busy: true, At: t0 - 1})
		do(n.Forget(a))
		do(n.Forget(a))
		expect(a, Observation{})
		expect(b, Observation{Known: true, Busy: true, At: t0 + 2})
	})
}

func TestAnotherProcessSeesWhatOneNoted(t *testing.T) {
	dir := t.TempDir()
	if err := Open(dir).Busy("s", t0); err != nil {
		t.Fatal(err)
	}
	if got, want := Open(dir).Seen("s"), (Observation{Known: true, Busy: true, At: t0}); got != want {
		t.Errorf("seen as %+v, want %+v", got, want)
	}
}

func TestOnlyTheirOwnerReadsNotes(t *testing.T) {
	dir := t.TempDir()
	n := Open(dir)
	if err := errors.Join(n.Busy("s", t0), n.Fault(t0, "codex", "Stop", "s", "test", "it broke")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"notes": fs.ModeDir | 0o700, "notes/s": 0o600, faultsFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
}

func TestNothingIsMadeBeforeItIsNeeded(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	n := Open(filepath.Join(dir, "ledger"))
	n.Seen("s")
	n.Faults()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("there are %v, %v", files, err)
	}
}

func TestANoteThatCannotBeWrittenIsAnErrorAndMakesNoLedgersFolder(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "ledger")
	if err := Open(missing).Busy("s", t0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the ledger's folder: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ledger's folder was made: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a file in place of the folder":  Open(dir).Busy("s", t0),
		"no folder at all":               Open("").Idle("s", t0),
		"a session without an id":        Open(t.TempDir()).Busy("", t0),
		"a time of more than four years": Open(t.TempDir()).Busy("s", 1<<62),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "note session: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnUnreadableNoteIsAsIfItWereNotThere(t *testing.T) {
	dir := t.TempDir()
	n := Open(dir)
	if err := n.Busy("s", t0); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "notes", "s")
	good, err := os.ReadFile(path)
	if err != nil || len(good) != noteBytes {
		t.Fatalf("%q, %v", good, err)
	}
	for _, text := range []string{"", "busy", "\x00\x00", strings.Repeat("x", 100), "away" + string(good[4:]), "busy 2026-13-30T09:00:00.000000Z\n", string(good[:noteBytes-1]), string(good[:noteBytes-1]) + "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := n.Seen("s"); got != (Observation{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	// And it heals.
	if err := n.Idle("s", t0); err != nil {
		t.Fatal(err)
	}
	if got := n.Seen("s"); got != (Observation{Known: true, At: t0}) {
		t.Errorf("then seen as %+v", got)
	}
}

func TestEachSessionHasAFileOfItsOwnInTheFolder(t *testing.T) {
	for id, want := range map[string]string{
		"11110000-0000-4000-8000-000000000001": "11110000-0000-4000-8000-000000000001",
		"ses_A.b":                              "ses_A.b",
		".":                                    "%2E",
		"..":                                   "%2E.",
		"../../etc/passwd":                     "%2E.%2F..%2Fetc%2Fpasswd",
		"a/b\\c":                               "a%2Fb%5Cc",
		"100%":                                 "100%25",
		"=x":                                   "%3Dx",
		"é":                                    "%C3%A9",
		"a\x00b":                               "a%00b",
	} {
		if got := fileName(id); got != want {
			t.Errorf("fileName(%q) = %q, want %q", id, got, want)
		}
	}
	ids := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./=%A-F0-9]{1,6}`), rapid.StringOfN(rapid.Rune(), 60, 300, -1))
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		name := fileName(a)
		if a != "" && !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") || len(name) > 200 {
			t.Fatalf("fileName(%q) = %q", a, name)
		}
		if a != b && name == fileName(b) {
			t.Fatalf("%q and %q have one name, %q", a, b, name)
		}
	})
}

func TestFaultsAreReadBackNewestLast(t *testing.T) {
	stores(t, func(t *testing.T, n *Notes) {
		if got := n.Faults(); len(got) > 0 {
			t.Fatalf("at first there are %v", got)
		}
		for i, at := range []events.Time{t0, t0 + 2, t0 + 1, t0 + 1} {
			if err := n.Fault(at, "claude-code", "PostToolUse", "ses_a", "ledger_locked", fmt.Sprintf("it broke <%d>", i)); err != nil {
				t.Fatal(err)
			}
		}
		fault := func(at events.Time, what string) Fault {
			return Fault{Time: at, Harness: "claude-code", Event: "PostToolUse", Session: "ses_a", Code: "ledger_locked", What: what}
		}
		want := []Fault{fault(t0, "it broke <0>"), fault(t0+1, "it broke <2>"), fault(t0+1, "it broke <3>"), fault(t0+2, "it broke <1>")}
		if diff := cmp.Diff(want, n.Faults()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFaultIsOneBoundedLineWithoutControlCharacters(t *testing.T) {
	stores(t, func(t *testing.T, n *Notes) {
		for _, c := range []struct{ what, want string }{
			{"", ""},
			{"one\ntwo\tthree\r\x00\x1b[31m\u009b", "one two three[31m"},
			{`"quoted" \back <b>`, `"quoted" \back <b>`},
			{"\xff not UTF-8", "\uFFFD not UTF-8"},
			{strings.Repeat("x", 1001), strings.Repeat("x", 1000)},
			{strings.Repeat("x", 999) + "é", strings.Repeat("x", 999)},
			{strings.Repeat("\U0001F468", 100_000), strings.Repeat("\U0001F468", 250)},
		} {
			if err := n.Fault(t0, "h\n", strings.Repeat("e", 300), "s", "c", c.what); err != nil {
				t.Fatal(err)
			}
			all := n.Faults()
			got := all[len(all)-1]
			if got.What != c.want || !utf8.ValidString(got.What) {
				t.Errorf("%.50q is kept as %.50q, want %.50q", c.what, got.What, c.want)
			}
			if got.Harness != "h " || got.Event != strings.Repeat("e", 200) {
				t.Errorf("kept as %+v", got)
			}
		}
	})
}

func TestFaultsGoToTheStateFolderWhenTheLedgersCannotBeWritten(t *testing.T) {
	state := t.TempDir()
	for _, c := range []struct {
		what string
		set  func(t *testing.T)
		want string
	}{
		{"XDG_STATE_HOME", func(t *testing.T) { t.Setenv("XDG_STATE_HOME", state) }, filepath.Join(state, "decklog")},
		{"the home folder", func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", "not/a/whole/path")
			t.Setenv("HOME", state)
		}, filepath.Join(state, ".local", "state", "decklog")},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.set(t)
			for i, n := range []*Notes{Open(filepath.Join(state, "no ledger here")), Open("")} {
				if err := n.Fault(t0, "codex", "Stop", "s", "ledger_missing", "it is not there"); err != nil {
					t.Fatal(err)
				}
				if got := n.Faults(); len(got) != i+1 {
					t.Errorf("read back %v, want %d", got, i+1)
				}
			}
			if _, err := os.Stat(filepath.Join(c.want, faultsFile)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFaultThatCanBeWrittenNowhereIsAnError(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", blocked)
	n := Open(blocked)
	if err := n.Fault(t0, "codex", "Stop", "s", "test", "x"); err == nil || !strings.HasPrefix(err.Error(), "note fault: ") {
		t.Errorf("got %v", err)
	}
	if got := n.Faults(); len(got) > 0 {
		t.Errorf("read back %v", got)
	}
}

func TestDamagedLinesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	n := Open(dir)
	if err := n.Fault(t0, "codex", "Stop", "s", "first", "x"); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, faultsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "\n{}\n[]\nhalf a li\n")
	f.Close()
	if err := n.Fault(t0, "codex", "Stop", "s", "last", "x"); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, fault := range n.Faults() {
		codes = append(codes, fault.Code)
	}
	if !slices.Equal(codes, []string{"first", "last"}) {
		t.Errorf("read back %v", codes)
	}
}

func TestOnlyTheLatestFaultsAreKept(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	n := Open(dir)
	const written = 2000 // of about 1,100 bytes: some eight files full
	for i := range written {
		if err := n.Fault(moment(t0, i), "codex", "Stop", "s", "test", strings.Repeat("x", whatBytesMax)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{faultsFile, olderFaultsFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > faultsBytesMax {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	all := n.Faults()
	if len(all) < faultsBytesMax/1200 {
		t.Fatalf("only %d are kept", len(all))
	}
	for i, fault := range all { // and none is missing among them
		if want := moment(t0, written-len(all)+i); fault.Time != want {
			t.Fatalf("fault %d is of %v, want %v", i, fault.Time, want)
		}
	}
}

func TestMemoryKeepsTheLatestFaultsOnly(t *testing.T) {
	n := InMemory()
	for i := range faultsKeptMax + 10 {
		n.Fault(moment(t0, i), "codex", "Stop", "s", "test", "x")
	}
	if all := n.Faults(); len(all) != faultsKeptMax || all[0].Time != moment(t0, 10) {
		t.Errorf("%d are kept, from %v", len(all), all[0].Time)
	}
}

// Together the writers fill the file more than once, and less than twice.
const writers, writerFaults = 8, 120

func TestFaultsOfSeveralProcessesStayApartAndWhole(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for w := range writers {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), writerVariable+"="+dir, fmt.Sprintf("WRITER=w%d", w))
		wait.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()

	lines := 0
	for _, name := range []string{olderFaultsFile, faultsFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	all := Open(dir).Faults()
	if lines != writers*writerFaults || len(all) != lines {
		t.Errorf("%d lines, %d of them whole; want %d", lines, len(all), writers*writerFaults)
	}
	last := map[events.SessionID]events.Time{}
	for _, fault := range all {
		if fault.Time <= last[fault.Session] {
			t.Errorf("of %s, %v is here twice", fault.Session, fault.Time)
		}
		last[fault.Session] = fault.Time
	}
}

func TestOneNotesIsSafeForSeveralAtOnce(t *testing.T) {
	stores(t, func(t *testing.T, n *Notes) {
		var wait sync.WaitGroup
		for w := range 8 {
			wait.Go(func() {
				for i := range 50 {
					n.Busy("s", moment(t0, i))
					n.Idle(events.SessionID(fmt.Sprint(w)), moment(t0, i))
					if o := n.Seen("s"); !o.Known || !o.Busy || o.At < t0 || o.At > moment(t0, 49) {
						t.Errorf("seen as %+v", o)
					}
					n.Fault(moment(t0, i), "codex", "Stop", "s", "test", "x")
				}
			})
		}
		wait.Wait()
		if got := n.Faults(); len(got) != 8*50 {
			t.Errorf("%d faults, want %d", len(got), 8*50)
		}
	})
}
