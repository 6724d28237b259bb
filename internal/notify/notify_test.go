package notify_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"decklog/internal/notify"
)

// program puts a program of this name into a folder that is all of PATH.
func program(t *testing.T, name, script string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
}

func TestAProgramGetsTheDocumentAndItsArgumentsAsTheyAre(t *testing.T) {
	program(t, "tell", `echo "$#: $1"; while read -r line; do echo "$line"; done`)
	var out bytes.Buffer
	err := notify.Run(t.Context(), []string{"tell", "$HOME; exit 3"}, []byte("{\"person\":\"@ana\"}\n"), &out)
	if want := "1: $HOME; exit 3\n{\"person\":\"@ana\"}\n"; err != nil || out.String() != want {
		t.Errorf("it printed %q: %v", out.String(), err)
	}
}

func TestAProgramThatFailsOrIsNotThereIsAnError(t *testing.T) {
	program(t, "tell", "exit 3")
	for _, words := range [][]string{{"tell"}, {"no-such-program"}, nil} {
		if err := notify.Run(t.Context(), words, nil, new(bytes.Buffer)); err == nil {
			t.Errorf("%q is no error", words)
		}
	}
}

func TestTheDesktopIsToldWhereThereIsAProgramForIt(t *testing.T) {
	program(t, "notify-send", `for a; do echo "$a"; done`)
	var out bytes.Buffer
	shown, err := notify.Desktop(t.Context(), "decklog", "2 pages", &out)
	if !shown || err != nil || out.String() != "--app-name=decklog\ndecklog\n2 pages\n" {
		t.Errorf("shown %t: %q %v", shown, out.String(), err)
	}
	program(t, "osascript", `echo "$2"`)
	out.Reset()
	shown, err = notify.Desktop(t.Context(), "decklog", `2 "pages"`, &out)
	if !shown || err != nil || strings.TrimSpace(out.String()) != `display notification "2 \"pages\"" with title "decklog"` {
		t.Errorf("shown %t: %q %v", shown, out.String(), err)
	}
	t.Setenv("PATH", t.TempDir())
	if shown, err := notify.Desktop(t.Context(), "decklog", "2 pages", &out); shown || err != nil {
		t.Errorf("shown %t without a program: %v", shown, err)
	}
}
