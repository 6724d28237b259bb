package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"decklog/commands"
	"decklog/internal/ops"
)

// The bounds of a wait. Several harnesses give a call up after a minute.
const (
	waitSeconds    = 45
	waitSecondsMax = 55
)

// writtenWithin is how long what was leased waits to be written: as long as a
// lease mostly runs. After that it is offered again, as a repeat.
const writtenWithin = 10 * time.Second

var (
	errNotWritten = errors.New("the answer was not written, so nothing of it is confirmed")
	errEnding     = errors.New("the server is about to end")
)

// deliveries are those that are not confirmed yet.
type deliveries struct {
	closing chan struct{}

	mu      sync.Mutex
	ended   bool
	pending sync.WaitGroup
}

// begin says whether one more may begin; its end is pending.Done.
func (d *deliveries) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.pending.Add(1)
	}
	return !d.ended
}

// end waits for those that were written, and lets the others be offered again.
func (d *deliveries) end() {
	d.mu.Lock()
	if !d.ended {
		d.ended = true
		close(d.closing)
	}
	d.mu.Unlock()
	d.pending.Wait()
}

// awaited is what a wait brought.
type awaited struct {
	ops.Waited
	token   string // by which the answer is known once it was written; empty: nothing waits for that
	refused *commands.Refusal
}

// await waits for mail, and gives what came first. What was leased is confirmed
// only when the answer that holds it has been written out: a client that went
// away, or called the wait off, gets the same again.
func (c *call) await(q ops.WaitRequest, within time.Duration) (awaited, error) {
	desk, done, err := c.take() // for longer than the call
	if err != nil {
		return awaited{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, within)
	token := rand.Text()
	written, forget := c.expect(token)
	first := make(chan ops.Waited, 1)
	print := func(w ops.Waited) error {
		first <- w
		if w.Text == "" {
			return nil // it is only shown, and there is nothing to confirm
		}
		late := time.NewTimer(writtenWithin)
		defer late.Stop()
		select {
		case <-written:
			return nil
		case <-late.C:
		case <-c.deliveries.closing:
		case <-c.over:
		}
		select {
		case <-written: // both may be so: who has its answer goes
			return nil
		default:
			return errNotWritten
		}
	}
	type ending struct {
		awaited
		err error
	}
	ended := make(chan ending, 1)
	if !c.deliveries.begin() {
		cancel()
		forget()
		done(nil)
		return awaited{}, errEnding
	}
	go func() {
		defer c.deliveries.pending.Done()
		defer cancel()
		defer forget()
		waited, refused, err := desk.Wait(ctx, q, print)
		done(err)
		ended <- ending{awaited{Waited: waited, refused: refused}, err}
	}()
	select {
	case w := <-first:
		return awaited{Waited: w, token: token}, nil
	case e := <-ended:
		select {
		case w := <-first:
			return awaited{Waited: w}, nil
		default:
			return e.awaited, e.err
		}
	}
}
