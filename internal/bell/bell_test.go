package bell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) *time.Time { t := now.Add(d); return &t }

func silenced(t *testing.T, until *time.Time) Bells {
	t.Helper()
	b := Beside(t.TempDir())
	if err := b.Silence("s", until); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABellThatIsNotThereRings(t *testing.T) {
	b := Beside(t.TempDir())
	if !b.Rings("s", now) {
		t.Error("the bell of a session that nobody knows is silent")
	}
	if err := b.Ring("s"); err != nil || !b.Rings("s", now) {
		t.Errorf("ringing it: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "s")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ringing made a file: %v", err)
	}
	if !(Bells{}).Rings("s", now) || (Bells{}).Ring("s") != nil || (Bells{}).Silence("s", nil) != nil {
		t.Error("without a folder a bell does not ring")
	}
}

func TestASilentBellRingsWhenItIsRungOrDueOrOfAnotherClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		until *time.Time
		at    time.Time
		rings bool
	}{
		{"for ever", nil, now.AddDate(50, 0, 0), false},
		{"before it is due", after(time.Minute), now.Add(59 * time.Second), false},
		{"when it is due", after(time.Minute), now.Add(time.Minute), true},
		{"after it was due", after(time.Minute), now.AddDate(1, 0, 0), true},
		{"on a clock that went back", after(time.Minute), now.Add(-time.Second), true},
		{"on a clock that went back far", after(time.Minute), time.Unix(0, 0), true},
	} {
		if got := silenced(t, c.until).Rings("s", c.at); got != c.rings {
			t.Errorf("%s it rings: %t", c.name, got)
		}
	}
	b := silenced(t, nil)
	if err := b.Ring("s"); err != nil || !b.Rings("s", now) {
		t.Errorf("rung, it is silent: %v", err)
	}
	info, err := os.Stat(filepath.Join(b.dir, "s"))
	if err != nil || info.ModTime().Unix() != 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("a rung bell: %v %v", info, err)
	}
	if err := b.Silence("s", nil); err != nil || b.Rings("s", now) {
		t.Errorf("silenced again, it rings: %v", err)
	}
}

func TestWhatIsNoFileIsNoSilence(t *testing.T) {
	b := Beside(t.TempDir())
	if err := os.MkdirAll(filepath.Join(b.dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	forever := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(b.dir, "s"), forever, forever); err != nil {
		t.Fatal(err)
	}
	if !b.Rings("s", now) {
		t.Error("a folder in place of a bell is silent")
	}
}

func TestASessionIsIgnoredOnlyByAListThatNamesItsDirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	play := filepath.Join(root, "play")
	if err := os.MkdirAll(filepath.Join(play, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(play, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	b := Beside(root)
	if b.Ignores("s", play) {
		t.Error("ignored without a list")
	}
	if err := b.Ignore([]string{play, filepath.Join(root, "other")}); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		play: true, filepath.Join(play, "deep"): true, filepath.Join(root, "link", "deep"): true,
		play + "ground": false, root: false, "play": false, "": false,
	} {
		if got := b.Ignores("s", dir); got != want {
			t.Errorf("a session in %q is ignored: %t", dir, got)
		}
	}
	if err := b.Silence("here", nil); err != nil {
		t.Fatal(err)
	}
	if b.Ignores("here", play) {
		t.Error("a session that takes part is ignored")
	}
	if err := b.Ignore(nil); err != nil || b.Ignores("s", play) {
		t.Errorf("ignored after the list was taken away: %v", err)
	}
	if err := b.Ignore(nil); err != nil {
		t.Errorf("taking no list away: %v", err)
	}
}

func TestANameIsOfOneSessionAndStaysInItsFolder(t *testing.T) {
	for id, want := range map[string]string{
		"5d0c33e1-8f6f": "5d0c33e1-8f6f", "ses_A.b": "ses_A.b", "..": "%2E.", "../x": "%2E.%2Fx", ".ignored": "%2Eignored", "é": "%C3%A9", "": "",
	} {
		if got := Name(id); got != want {
			t.Errorf("Name(%q) = %q, want %q", id, got, want)
		}
	}
}
