// Package top shows a ledger in a terminal: the threads, what is owed, the
// mailboxes and how the ledger stands, and any thread with all that happened in
// it. It goes on as things happen, because it waits for the ledger's events.
//
// It reads through [ops.Operations] and changes nothing, so that it is the same on
// a file and on a running `decklog serve`. It knows no ledger and no network.
//
// What others wrote is shown, never sent to the terminal: every text goes through
// [render.Terminal] before it is drawn. Colours are the terminal's own sixteen,
// which its owner chose to be read on its background, dark or light; NO_COLOR
// takes them away, and nothing is said by a colour alone.
package top

import (
	"context"
	"fmt"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"

	"decklog/events"
	"decklog/internal/ops"
)

// Config is what a picture needs to be drawn.
type Config struct {
	Desk ops.Operations
	Now  func() events.Time
	// Input and Output are the terminal.
	Input  io.Reader
	Output io.Writer
	// Environ is the environment, each variable as NAME=VALUE.
	Environ []string
}

// Once prints one picture and returns: all panes, one below the other.
func Once(c Config, width int) error {
	p := look(c)
	if p.err != nil {
		return p.err
	}
	out := colorprofile.NewWriter(c.Output, c.Environ)
	if _, err := fmt.Fprintln(out, whole(p, width)); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// Run shows the picture until its user ends it or ctx is done.
func Run(ctx context.Context, c Config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	program := tea.NewProgram(newScreen(ctx, c),
		tea.WithContext(ctx), tea.WithInput(c.Input), tea.WithOutput(c.Output), tea.WithEnvironment(c.Environ), tea.WithoutSignalHandler())
	end, err := program.Run()
	if s, is := end.(*screen); is && s.failed != nil {
		return s.failed
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("show the ledger: %w", err)
	}
	return nil
}

// Width is that of a picture that is printed once: as COLUMNS says, else 100.
func Width(getenv func(string) string) int {
	var n int
	if _, err := fmt.Sscanf(getenv("COLUMNS"), "%d", &n); err != nil || n < widthMin || n > 1000 {
		return 100
	}
	return n
}

// IsTerminal says whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }
