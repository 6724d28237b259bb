package callers_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"decklog/internal/callers"
)

var now = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func TestOfManyThatMakeTheKeyAtOnceAllHaveTheSame(t *testing.T) {
	for range 20 {
		c := callers.Beside(t.TempDir())
		if _, err := c.Key(); !errors.Is(err, callers.ErrNoKey) {
			t.Fatalf("a key before any was made: %v", err)
		}
		const many = 16
		keys := make([][]byte, many)
		var ready, done sync.WaitGroup
		ready.Add(many)
		for i := range many {
			done.Go(func() {
				ready.Done()
				ready.Wait()
				key, err := c.MakeKey()
				if err != nil {
					t.Error(err)
				}
				keys[i] = key
			})
		}
		done.Wait()
		for _, key := range keys {
			if len(key) != 32 || !bytes.Equal(key, keys[0]) {
				t.Fatalf("two keys: %x and %x", key, keys[0])
			}
		}
	}
}

func TestTheKeyIsItsOwnersAloneAndNothingElseIsLeft(t *testing.T) {
	dir := t.TempDir()
	c := callers.Beside(dir)
	if _, err := c.MakeKey(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("left %v %v", files, err)
	}
	file := filepath.Join(dir, files[0].Name())
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 32 {
		t.Fatalf("%v %v", info, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Key(); err == nil {
		t.Error("a key that others can read is used")
	}
	if _, err := c.MakeKey(); err == nil {
		t.Error("a key that others can read is made over")
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 31); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Key(); err == nil {
		t.Error("half a key is used")
	}
	if _, err := (callers.Callers{}).MakeKey(); !errors.Is(err, callers.ErrNoKey) {
		t.Errorf("without a folder: %v", err)
	}
}

func TestACallIsKnownByItsIdOnceAndForItsToolAlone(t *testing.T) {
	c := callers.Beside(t.TempDir())
	use := callers.Use{Session: "s", Agent: "a", Tool: "decklog_send", Made: now}
	note := func(id string) {
		t.Helper()
		if err := c.Note(id, use); err != nil {
			t.Fatal(err)
		}
	}
	note("toolu_1")
	if got, found := c.Noted("toolu_1", "decklog_send", now.Add(time.Second)); !found || got.Session != "s" || got.Agent != "a" {
		t.Errorf("%+v %t", got, found)
	}
	if _, found := c.Noted("toolu_1", "decklog_send", now); found {
		t.Error("it is known twice")
	}
	for what, ask := range map[string]func() bool{
		"another tool": func() bool { _, found := c.Noted("toolu_2", "decklog_ack", now); return found },
		"another day":  func() bool { _, found := c.Noted("toolu_2", "decklog_send", now.AddDate(0, 0, 1)); return found },
		"before":       func() bool { _, found := c.Noted("toolu_2", "decklog_send", now.Add(-time.Hour)); return found },
		"another id":   func() bool { _, found := c.Noted("toolu_3", "decklog_send", now); return found },
		"a path":       func() bool { _, found := c.Noted("../tool-uses/toolu_2", "decklog_send", now); return found },
		"no id":        func() bool { _, found := c.Noted("", "decklog_send", now); return found },
	} {
		note("toolu_2")
		if ask() {
			t.Errorf("known for %s", what)
		}
	}
}

func TestCallsThatNeverCameAreForgotten(t *testing.T) {
	dir := t.TempDir()
	c := callers.Beside(dir)
	for i := range 300 {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26))
		if err := c.Note(id, callers.Use{Session: "s", Tool: "decklog_send", Made: time.Now()}); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "tool-uses", id), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadDir(filepath.Join(dir, "tool-uses")); err != nil || len(kept) > 256 {
		t.Errorf("%d are kept: %v", len(kept), err)
	}
}
