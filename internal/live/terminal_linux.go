package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a harness at work in a terminal, as a person has it.
type terminal struct {
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{}

	mu    sync.Mutex
	shown []byte
}

// startInTerminal starts a program in a terminal of its own. What it shows is
// also kept, as LOG.out.
func startInTerminal(ctx context.Context, dir, log string, environ []string, argv ...string) (*terminal, error) {
	tty, name, err := newTerminal()
	if err != nil {
		return nil, err
	}
	far, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	kept, err := os.Create(log + ".out")
	if err != nil {
		return nil, err
	}
	t := &terminal{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), tty: tty, done: make(chan struct{})}
	t.cmd.Dir, t.cmd.Env, t.cmd.WaitDelay = dir, environ, 5*time.Second
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = far, far, far
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := tty.Read(b)
			_, _ = kept.Write(b[:n])
			t.mu.Lock()
			t.shown = append(t.shown, b[:n]...)
			t.mu.Unlock()
			if err != nil {
				kept.Close()
				return
			}
		}
	}()
	go func() {
		_ = t.cmd.Wait()
		close(t.done)
	}()
	return t, nil
}

// newTerminal makes a terminal of 120 columns and 40 lines.
func newTerminal() (near *os.File, far string, err error) {
	if near, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, "", err
	}
	fd := int(near.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, "", err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, "", err
	}
	return near, "/dev/pts/" + strconv.Itoa(number), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
}

// now is how much was shown so far, to look on from.
func (t *terminal) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.shown)
}

// screen is all that was shown.
func (t *terminal) screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.shown)
}

// keys types.
func (t *terminal) keys(typed string) error {
	_, err := t.tty.WriteString(typed)
	return err
}

// look waits until what was shown since then fits.
func (t *terminal) look(what string, since int, fits func(shown string) bool) error {
	return t.lookFor(patience, what, since, fits)
}

func (t *terminal) lookFor(span time.Duration, what string, since int, fits func(shown string) bool) error {
	deadline := time.Now().Add(span)
	for time.Now().Before(deadline) {
		if fits(t.screen()[since:]) {
			return nil
		}
		select {
		case <-t.done:
			return fmt.Errorf("the program ended before %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: not within %s", what, span)
}

// gone waits for the program's end.
func (t *terminal) gone() error {
	select {
	case <-t.done:
		return nil
	case <-time.After(patience):
		_ = t.cmd.Process.Kill()
		<-t.done
		return fmt.Errorf("the program did not end within %s", patience)
	}
}
