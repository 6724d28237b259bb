package runs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handedOver(*testing.T) string { return HandedOver(nil)[0] }

// Of two lines of one name the first is read.
func TestABeginningThatWasInheritedIsNotHandedOn(t *testing.T) {
	given := []string{"A=1", variable + "=7 7", "B=2"}
	all := HandedOver(given)
	if len(all) != 3 || all[0] != "A=1" || all[1] != "B=2" || !strings.HasPrefix(all[2], variable+"="+fmt.Sprint(os.Getpid())+" ") {
		t.Errorf("handed over: %q", all)
	}
	if given[1] != variable+"=7 7" {
		t.Errorf("what was given is now %q", given)
	}
}

// heard is what a listener hears: what runs told, and an empty one for each
// datagram that no run sends.
type heard struct {
	*Listener
	told chan Told
	end  chan error
}

func listenIn(t *testing.T, folder string) *heard {
	t.Helper()
	l, err := Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	return hear(l)
}

func hear(l *Listener) *heard {
	h := &heard{Listener: l, told: make(chan Told, 5000), end: make(chan error, 1)}
	go func() { h.end <- l.Hear(func(t Told) { h.told <- t }, func() { h.told <- Told{} }) }()
	return h
}

func (h *heard) stop(t *testing.T) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-h.end; err != nil {
		t.Error("the hearing ended with", err)
	}
}

func TestAListenerHearsWhatRunsTell(t *testing.T) {
	long := t.TempDir()
	for len(long) < 150 {
		long = filepath.Join(long, "a-folder-with-a-long-name")
	}
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"beside the ledger": t.TempDir(), "at a path that is too long for an address": long} {
		t.Run(name, func(t *testing.T) {
			h := listenIn(t, folder)
			path := filepath.Join(folder, SocketName)
			if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
				t.Errorf("the socket is %v, %v", info, err)
			}
			for n := range 100 {
				want := Told{Harness: "codex", Outcome: Delivered, Took: time.Duration(n) * time.Millisecond}
				Tell(folder, want)
				if got := <-h.told; got != want {
					t.Fatalf("it hears %+v, and %+v was told", got, want)
				}
			}
			h.stop(t)
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
			Tell(folder, Told{Harness: "codex", Outcome: Nothing}) // nobody listens, and nothing happens
		})
	}
}

func TestAListenerOutlivesWhateverIsSentToIt(t *testing.T) {
	folder := t.TempDir()
	h := listenIn(t, folder)
	defer h.stop(t)
	from, err := net.Dial("unixgram", filepath.Join(folder, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, text := range hostile {
		if _, err := from.Write([]byte(text)); err != nil {
			t.Fatalf("send %.20q: %v", text, err)
		}
		if got := <-h.told; got != (Told{}) {
			t.Errorf("%.80q is heard as %+v", text, got)
		}
	}
	want := Told{Harness: "gemini", Outcome: Late}
	Tell(folder, want)
	if got := <-h.told; got != want {
		t.Errorf("after all that it hears %+v", got)
	}
}

func TestARunDoesNotWaitForAListenerThatIsBehind(t *testing.T) {
	folder := t.TempDir()
	l, err := Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 { // far more than the kernel keeps; one that waited would wait for ever
		Tell(folder, Told{Harness: "codex", Outcome: Nothing})
	}
	h := hear(l)
	if got := <-h.told; got.Harness != "codex" {
		t.Errorf("it hears %+v", got)
	}
	h.stop(t)
}

func TestOneListensAtATimeAndADeadOnesPlaceIsFree(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, SocketName)
	first := listenIn(t, folder)
	if _, err := Listen(folder); !errors.Is(err, ErrListening) {
		t.Errorf("a second begins with %v", err)
	}
	want := Told{Harness: "codex", Outcome: Nothing}
	Tell(folder, want)
	if got := <-first.told; got != want {
		t.Errorf("the first hears %+v", got)
	}

	// It dies, and leaves its socket.
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	first.stop(t)
	if err := os.Rename(path+".kept", path); err != nil {
		t.Fatal(err)
	}
	second := listenIn(t, folder)
	Tell(folder, want)
	if got := <-second.told; got != want {
		t.Errorf("the one that follows hears %+v", got)
	}

	// Another took its place meanwhile, and keeps it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	third := listenIn(t, folder)
	second.stop(t)
	Tell(folder, want)
	if got := <-third.told; got != want {
		t.Errorf("the third hears %+v", got)
	}
	third.stop(t)
}

func TestAListenerTakesNoFileAway(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, SocketName)
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(folder); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("it begins with %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "kept" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if _, err := Listen(filepath.Join(folder, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder it begins with %v", err)
	}
}

func BenchmarkTell(b *testing.B) {
	for _, listening := range []bool{false, true} {
		b.Run(fmt.Sprintf("listening=%t", listening), func(b *testing.B) {
			folder := b.TempDir()
			if listening {
				l, err := Listen(folder)
				if err != nil {
					b.Fatal(err)
				}
				end := make(chan error)
				go func() { end <- l.Hear(func(Told) {}, func() {}) }()
				defer func() { l.Close(); <-end }()
			}
			for b.Loop() {
				Tell(folder, Told{Harness: "claude-code", Outcome: Nothing, Took: time.Millisecond})
			}
		})
	}
}
