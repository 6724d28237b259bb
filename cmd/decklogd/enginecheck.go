package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"decklog/events"
	"decklog/internal/enginecheck"
	"decklog/internal/esdb"
	"decklog/internal/render"
)

// errSaid is the error of a command that has said what is wrong: the exit code is
// all that is left to tell.
var errSaid = errors.New("it was said")

// checkEngine asks a server for what decklog relies on. The views of the ledgers that
// it makes there lie in a temporary folder.
func checkEngine(ctx context.Context, args []string) error {
	args, asJSON, err := readAddresses("engine-check", args, 1)
	if err != nil {
		return err
	}
	address, err := esdb.Parse(args[0])
	if err != nil {
		return err
	}
	defer secondEnds(ctx)()
	probe, err := esdb.NewProbe(ctx, address)
	if err != nil {
		return err
	}
	defer probe.Close()
	folder, err := os.MkdirTemp("", "decklog-engine-check-")
	if err != nil {
		return fmt.Errorf("make a folder for the views: %w", err)
	}
	defer os.RemoveAll(folder)
	e := enginecheck.Engine{
		Server: probe.Server, Prefix: probe.Prefix, Clean: probe.Clean,
		Open: func(name string, project events.Projector) (events.Ledger, error) {
			return esdb.Open(probe.Ledger(name, filepath.Join(folder, name, "views.db")), project)
		},
	}
	for _, p := range probe.Promises() {
		e.Promises = append(e.Promises, enginecheck.Promise(p))
	}
	m := newMeter()
	m.line("engine-check: the names of all that is made begin with " + probe.Prefix)
	report := enginecheck.Run(ctx, e, func(done, all int, c enginecheck.Check) {
		m.tell(fmt.Sprintf("engine-check: %d of %d: %s: %s", done, all, c.Result, c.Promise), true)
	})
	m.done()
	if err := say(report, report.Text, asJSON); err != nil {
		return err
	}
	if !report.OK {
		return errSaid
	}
	return nil
}

// readAddresses reads the command line of a command that is given addresses.
func readAddresses(command string, args []string, want int) (addresses []string, asJSON bool, err error) {
	flags := flag.NewFlagSet("decklogd "+command, flag.ContinueOnError)
	flags.BoolVar(&asJSON, "json", false, "print one JSON document")
	if err := flags.Parse(args); err != nil {
		return nil, false, usageError{err}
	}
	if flags.NArg() != want {
		return nil, false, usageError{fmt.Errorf("%d addresses are given, not %d", flags.NArg(), want)}
	}
	return flags.Args(), asJSON, nil
}

// say prints what a command came to.
func say(report any, text func() string, asJSON bool) error {
	var err error
	if asJSON {
		to := json.NewEncoder(os.Stdout)
		to.SetEscapeHTML(false)
		err = to.Encode(report)
	} else {
		_, err = os.Stdout.WriteString(render.Terminal(text()))
	}
	if err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// secondEnds lets a second Ctrl-C end the process at once, once the first has asked
// for an end, until it is told to stop.
func secondEnds(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
}

// How often a meter is written: in one line of a terminal, and elsewhere.
const (
	meterEvery  = 200 * time.Millisecond
	meterSeldom = 5 * time.Second
)

// meter tells on standard error how far work is.
type meter struct {
	to       *os.File
	terminal bool
	last     time.Time
	wide     int // of the line that stands on the terminal
	what     string
}

func newMeter() *meter {
	info, err := os.Stderr.Stat()
	return &meter{to: os.Stderr, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// line writes a line that stays.
func (m *meter) line(says string) {
	m.done()
	fmt.Fprintln(m.to, render.Terminal(says))
}

// tell writes how far the work is. What is worth a line elsewhere than on a terminal
// is written there each time.
func (m *meter) tell(says string, worthALine bool) {
	says = render.Terminal(says)
	switch {
	case m.terminal && (worthALine || time.Since(m.last) > meterEvery):
		says = clip(says)
		fmt.Fprintf(m.to, "\r%-*s", m.wide, says)
		m.wide = len([]rune(says))
	case !m.terminal && (worthALine || time.Since(m.last) > meterSeldom):
		fmt.Fprintln(m.to, says)
	default:
		return
	}
	m.last = time.Now()
}

// clip keeps a line within a narrow terminal: one that is broken there cannot be
// written over.
func clip(says string) string {
	const columns = 79
	if all := []rune(says); len(all) > columns {
		return string(all[:columns-1]) + "…"
	}
	return says
}

// done ends the line that stands on the terminal.
func (m *meter) done() {
	if m.wide > 0 {
		fmt.Fprintln(m.to)
		m.wide = 0
	}
}

// progress is told how far the steps of long work are.
func (m *meter) progress(what string, done, end events.Position) {
	if m.what != what {
		m.done()
		m.what, m.last = what, time.Time{}
	}
	says := fmt.Sprintf("%s: %d of %d events", what, done, end)
	if end == 0 {
		says = fmt.Sprintf("%s: %d events", what, done)
	}
	m.tell(says, done == end && (m.terminal || !m.last.IsZero()))
}
