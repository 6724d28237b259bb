//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// terminal is a terminal with a program in it: what the program writes is drawn on
// a screen, and what the screen answers to the program's questions goes back.
type terminal struct {
	t       *testing.T
	cmd     *exec.Cmd
	pty     *os.File
	mu      sync.Mutex
	drawn   *sync.Cond
	screen  *vt.Emulator
	raw     strings.Builder // all that was written
	over    bool
	forever chan struct{} // closed when the program ended
}

func (m *machine) terminal(t *testing.T, width, height int, program string, args ...string) *terminal {
	t.Helper()
	x := &terminal{t: t, cmd: m.command(program, args...), screen: vt.NewEmulator(width, height), forever: make(chan struct{})}
	x.drawn = sync.NewCond(&x.mu)
	x.cmd.Env = append(x.cmd.Env, "TERM=xterm-256color")
	f, err := pty.StartWithSize(x.cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
	if err != nil {
		t.Fatal(err)
	}
	x.pty = f
	// It ends with the test's process: to close the screen would race with reading it.
	go func() {
		_, _ = io.Copy(f, x.screen)
	}()
	go func() {
		defer close(x.forever)
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			x.mu.Lock()
			x.raw.Write(b[:n])
			_, _ = x.screen.Write(b[:n])
			x.over = err != nil // a terminal whose program has gone gives EIO
			x.drawn.Broadcast()
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_ = x.cmd.Wait()
		<-x.forever
		f.Close()
	})
	return x
}

// shows waits until the screen holds all of these, each as a regular expression.
func (x *terminal) shows(patterns ...string) string {
	x.t.Helper()
	return x.until(func(screen string) bool {
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(screen) {
				return false
			}
		}
		return true
	}, strings.Join(patterns, " and "))
}

// hides waits until the screen no longer holds this.
func (x *terminal) hides(text string) string {
	x.t.Helper()
	return x.until(func(screen string) bool { return !strings.Contains(screen, text) }, "no "+text)
}

// until waits for what is drawn next. What has not come when the test's own time
// is nearly over is reported with the screen that came instead.
func (x *terminal) until(enough func(screen string) bool, what string) string {
	x.t.Helper()
	late := false
	if deadline, has := x.t.Deadline(); has {
		bell := time.AfterFunc(time.Until(deadline)-5*time.Second, func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			late = true
			x.drawn.Broadcast()
		})
		defer bell.Stop()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		screen := x.screen.String()
		switch {
		case enough(screen):
			return screen
		case x.over, late:
			x.t.Fatalf("the screen never showed %s; the program ended: %t\n%s", what, x.over, screen)
		}
		x.drawn.Wait()
	}
}

func (x *terminal) keys(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, keys); err != nil {
		x.t.Fatal(err)
	}
}

// ends waits for the end of the program, and demands that it was a good one.
func (x *terminal) ends() {
	x.t.Helper()
	<-x.forever
	if err := x.cmd.Wait(); err != nil {
		x.t.Fatalf("the program ended with %v:\n%s", err, x.raw.String())
	}
}

const (
	escape = "\x1b"
	enter  = "\r"
)

func TestTopShowsWhatHappensAsItHappens(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	_, thread := m.sent(ada, bob, "--intent", "request", "--", "Which commit fixed the lease test?")
	x := m.terminal(t, 100, 30, "decklog", "top")
	x.shows(`\[1 threads 1\]`, `THREAD +TURN +DRIVER`, `Which commit fixed the lease test\?`, `at \d+  \d\d:\d\d:\d\d UTC`)

	// A send from outside comes without a key.
	m.sent(bob, ada, "--", "I am on the release notes.")
	x.shows(`\[1 threads 2\]`, `I am on the release notes\.`)

	// The latest is chosen; the one below it is opened, and follows what happens.
	x.keys("j" + enter)
	x.shows(`thread `+thread+`  open`, `owed: bbbbbbbb owes 11110000 a reply`, `11110000 → bbbbbbbb  request, queued`)
	m.instructed(bob)
	x.shows(`bbbbbbbb was offered`, `bbbbbbbb has it printed`, `request, delivered`)
	x.keys(escape)
	x.shows(`THREAD +TURN +DRIVER`)

	// The other panes.
	x.keys("2")
	x.shows(`\[2 owed 1\]`, `reply +bbbbbbbb +11110000`)
	x.keys("\t")
	x.shows(`\[3 mailboxes 1\]`, `bbbbbbbb +session`, `claude-code`)
	x.keys("4")
	x.shows(`\[4 health\]`, `ledger +\d+ events`, `journal wal`)
	x.keys("?")
	x.shows(`decklog top shows the ledger`)
	x.keys("x1")
	x.hides("decklog top shows the ledger")

	// A filter, and a smaller terminal.
	x.keys("/RELEASE" + enter)
	x.hides("Which commit")
	x.shows(`only with “RELEASE”`, `I am on the release notes\.`)
	x.mu.Lock()
	x.screen.Resize(50, 10)
	x.mu.Unlock()
	if err := pty.Setsize(x.pty, &pty.Winsize{Cols: 50, Rows: 10}); err != nil {
		t.Fatal(err)
	}
	x.keys(escape)
	screen := x.shows(`THREAD|TURN`, `Which commit`, `q quit|…`)
	if strings.Contains(screen, "MSGS") {
		t.Errorf("a narrow screen has all columns:\n%s", screen)
	}
	x.keys("q")
	x.ends()
	if !strings.Contains(x.raw.String(), "\x1b[?1049l") {
		t.Error("the terminal's own screen was not given back")
	}
}

func TestTopShowsAServedLedgerAsItHappens(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	_, _, url := m.served()
	x := m.terminal(t, 100, 30, "decklog", "top", "--ledger", url)
	x.shows(`\[1 threads 0\]`, `nothing here`)
	m.sent(ada, bob, "--intent", "request", "--", "Which commit fixed the lease test?")
	x.shows(`\[1 threads 1\]`, `Which commit fixed the lease test\?`)
	x.keys("q")
	x.ends()
}

func TestTopSaysThatItsServerIsGoneAndGoesOnWhenItIsBack(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	m.sent(ada, bob, "--", "Seen before.")
	server, _, url := m.served()
	x := m.terminal(t, 100, 30, "decklog", "top", "--ledger", url)
	x.shows(`\[1 threads 1\]`, `Seen before\.`)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	x.shows(`^.*not connected since \d\d:\d\d:\d\d, trying`, `Seen before\.`)
	m.sent(bob, ada, "--", "Written while nobody served.")
	m.served()
	x.shows(`^.*at \d+  \d\d:\d\d:\d\d UTC`, `Written while nobody served\.`)
	x.hides("not connected")
	x.keys("q")
	x.ends()
}

func TestTopShowsHostileTextAndIsNotActedOnByIt(t *testing.T) {
	m := aboard(t)
	hostile := "\x1b]0;pwned\x07\x1b[2J\x1b[31mred\u202eesrever\u009b31m"
	m.done("", "decklog", "join", "--session", ada, "--title", hostile, "--branch", "b\x1b[5m")
	m.join(bob)
	m.sent(ada, bob, "--", "first line \u202e\u009b2J\n<script>second\u2028line</script>")
	x := m.terminal(t, 120, 30, "decklog", "top")
	x.shows(`\[1 threads 1\]`, `first line`)
	x.keys(enter)
	x.shows(`thread [0-9a-f-]{36}`, `first line \\u202e`, `<script>second`)
	x.keys(escape)
	x.shows(`THREAD +TURN`)
	x.keys("3")
	x.shows(`\[3 mailboxes 1\]`, `x1b|first|red`)
	x.keys("q")
	x.ends()
	raw := x.raw.String()
	for _, c := range []string{"\x1b]0;pwned", "\x1b[31mred", "\x1b[5m", "\u202e", "\u009b", "\u2028"} {
		if strings.Contains(raw, c) {
			t.Errorf("%q was sent to the terminal", c)
		}
	}
}

func TestTopHonoursNoColor(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	m.sent(ada, bob, "--intent", "request", "--", "Which commit?")
	m.sent(ada, bob, "--", "This one is chosen, and so the other way round.")
	coloured := regexp.MustCompile("\x1b\\[[0-9;:]*(3[0-7]|9[0-7]|38|48)[;:m]")
	for _, c := range []struct {
		environ []string
		want    bool
	}{{[]string{"NO_COLOR=1"}, false}, {nil, true}} {
		x := m.with(c.environ...).terminal(t, 100, 24, "decklog", "top")
		x.shows(`Which commit\?`)
		x.keys("q")
		x.ends()
		if got := coloured.MatchString(x.raw.String()); got != c.want {
			t.Errorf("with %q it is coloured: %t", c.environ, got)
		}
	}
}

func TestTopGivesTheTerminalBackWhenItIsTold(t *testing.T) {
	m := aboard(t)
	m.join(ada)
	x := m.terminal(t, 80, 24, "decklog", "top")
	x.shows(`nothing here`)
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-x.forever
	var exit *exec.ExitError
	if err := x.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if !strings.Contains(x.raw.String(), "\x1b[?1049l") {
		t.Errorf("the terminal's own screen was not given back: %q", x.raw.String())
	}
}

func TestTopPrintsOnePictureWhereThereIsNoTerminal(t *testing.T) {
	m := aboard(t)
	m.join(ada, bob)
	m.sent(ada, bob, "--intent", "request", "--", "Which commit fixed the lease test?")
	for _, args := range [][]string{{"top"}, {"top", "--once"}} {
		out := m.done("", "decklog", args...)
		for _, want := range []string{"threads, 1", "owed, 1", "mailboxes, 2", "Which commit fixed the lease test?", "1 open, 0 done"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("it is written for a terminal:\n%q", out)
		}
	}
}
