package mcp

import (
	"errors"
	"sync"

	"decklog/events"
	"decklog/internal/ops"
)

// ledger is the ledger as the calls of one server share it. It is opened by the
// call that needs it and closed behind the last that runs: a server lives as long
// as its harness, and one that does nothing must not stand in the way of a new
// program, of a file that was put back, or of a ledger that could not be opened
// before.
type ledger struct {
	open func() (ops.Operations, error)

	mu    sync.Mutex
	desk  ops.Operations
	users int
}

// take gives the operations, and what to call when done with them.
func (l *ledger) take() (ops.Operations, func(error), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.desk == nil {
		desk, err := l.open()
		if err != nil {
			return nil, nil, err
		}
		l.desk, l.users = desk, 0
	}
	l.users++
	desk := l.desk
	return desk, func(err error) { l.done(desk, err) }, nil
}

// done ends a use. A ledger whose last outcome is unknown answers nothing more:
// the next call opens it anew.
func (l *ledger) done(desk ops.Operations, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.desk != desk { // it was given up by another call
		return
	}
	if l.users--; l.users == 0 || errors.Is(err, events.ErrUnknown) {
		l.desk = nil
		_ = desk.Close() // what was appended is durable already
	}
}
