package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"decklog/events"
)

// An event's id stands in its row and in the index by which it is found.
func TestAnIndexThatDiffersFromItsTableIsFoundByTheCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, testOptions())
	for n := range 20 {
		must(t, appendTo(l, note("a", events.Revision(n)-1, fmt.Sprint("event-number-", 100+n))))
	}
	check := func(l *Ledger) (wrong []string) {
		t.Helper()
		must(t, l.View(func(r events.Reader) (err error) {
			wrong, err = r.(*reader).Check()
			return err
		}))
		return wrong
	}
	if wrong := check(l); wrong != nil {
		t.Errorf("in a sound ledger it finds %q", wrong)
	}
	must(t, l.Close())
	file, err := os.ReadFile(path)
	must(t, err)
	id := []byte("event-number-107")
	if n := bytes.Count(file, id); n != 2 {
		t.Fatalf("the id stands there %d times", n)
	}
	for at := 0; ; at++ {
		next := bytes.Index(file[at:], id)
		if next < 0 {
			break
		}
		at += next
		damaged := bytes.Clone(file)
		damaged[at] ^= 1
		must(t, os.WriteFile(path, damaged, 0o600))
		l := opened(t, path, testOptions())
		if wrong := check(l); !strings.Contains(strings.Join(wrong, "\n"), "missing from index") {
			t.Errorf("with another byte at %d it finds %q", at, wrong)
		}
		must(t, l.Close())
	}
}

func TestATableWithAnotherColumnIsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, opened(t, path, testOptions()).Close())
	file, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(file, []byte("\tactor "), []byte("\tactos "), 1), 0o600))
	l := opened(t, path, testOptions())
	err = l.View(func(r events.Reader) error {
		_, err := r.All(1, 10)
		return err
	})
	if !errors.Is(err, events.ErrDamaged) {
		t.Errorf("reading gave %v", err)
	}
}

// The fault is one of memory that is mapped from a file that has shrunk, as
// when a disk cannot give a page of the log's index.
func TestAFaultOfSharedMemoryIsAnErrorAndEndsTheLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, testOptions())
	must(t, appendTo(l, note("a", -1, "1")))
	must(t, os.Truncate(path+"-shm", 0))
	for range 3 {
		if err := appendTo(l, note("a", 0, "2")); !errors.Is(err, events.ErrUnknown) {
			t.Fatalf("update gave %v", err)
		}
		if _, err := l.end(); !errors.Is(err, events.ErrUnknown) {
			t.Fatalf("view gave %v", err)
		}
	}
	l.Close() // and does not wait for the connection that is lost
}
