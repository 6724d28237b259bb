// Package memory is a ledger that lives as long as its process: for tests, and
// for the simulation, which needs many ledgers and no disk.
package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"decklog/events"
	"decklog/internal/rows"
)

var (
	errClosed = errors.New("the ledger is closed")
	errEnded  = errors.New("its transaction has ended")
	errView   = errors.New("a view only reads")
)

// Ledger is an [events.Ledger] in memory. It keeps the whole contract but one
// part: what it holds is gone with the process. Update never has an unknown
// outcome.
//
// A view reads the state that was current when it began, and holds up nobody.
// Update and Settled calls wait for each other, so the function of one must not
// call Update, Settled or Close.
type Ledger struct {
	project events.Projector
	writing sync.Mutex            // held by the one Update that runs
	state   atomic.Pointer[state] // what was last committed; nil once closed

	waking  sync.Mutex
	changed chan struct{} // closed, and replaced, with each commit
}

var _ events.Ledger = (*Ledger)(nil)

// New gives an empty ledger that folds its events by project.
func New(project events.Projector) *Ledger {
	l := &Ledger{project: project, changed: make(chan struct{})}
	l.state.Store(&state{rows: rows.New()})
	return l
}

// View calls fn with what was committed when it began.
func (l *Ledger) View(fn func(events.Reader) error) error {
	s := l.state.Load()
	if s == nil {
		return fmt.Errorf("view ledger: %w", errClosed)
	}
	return fn(reader{s})
}

// Update calls fn once, and keeps what it did when it returns nil. An error of
// fn is returned as it is.
func (l *Ledger) Update(fn func(events.Tx) error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	s := l.state.Load()
	if s == nil {
		return fmt.Errorf("update ledger: %w", errClosed)
	}
	// An error or a panic of fn leaves the copy behind, and with it all that fn did.
	t := &tx{reader: reader{s.copy()}, project: l.project}
	defer t.finish()
	if err := fn(t); err != nil {
		return err
	}
	if t.refusal != nil {
		return fmt.Errorf("update ledger: %w", t.refusal)
	}
	l.state.Store(t.state)
	l.wake()
	return nil
}

// Settled calls fn with the last state, which it stays until fn returns. An error
// of fn is returned as it is.
func (l *Ledger) Settled(fn func(events.Reader) error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	s := l.state.Load()
	if s == nil {
		return fmt.Errorf("settle ledger: %w", errClosed)
	}
	return fn(reader{s})
}

// Close ends the ledger. Views that run go on; waiters are told. A second Close
// does nothing.
func (l *Ledger) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.state.Store(nil)
	l.wake()
	return nil
}

// Wait returns nil once the ledger's end lies after the given position, or the
// context's error when that comes first.
func (l *Ledger) Wait(ctx context.Context, after events.Position) error {
	for {
		changed := l.next()
		switch s := l.state.Load(); {
		case s == nil:
			return fmt.Errorf("wait for the ledger: %w", errClosed)
		case s.end() > after:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next is closed by the first commit from now on.
func (l *Ledger) next() <-chan struct{} {
	l.waking.Lock()
	defer l.waking.Unlock()
	return l.changed
}

func (l *Ledger) wake() {
	l.waking.Lock()
	defer l.waking.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}
