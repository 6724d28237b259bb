package esdbdouble

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

// Point is a place in the handling of a call where a fault can strike.
type Point int

const (
	// Begin is when the call has come, and nothing of it was read.
	Begin Point = iota
	// Message is when a message of an append was read: first that which names
	// the stream, then one for each event.
	Message
	// Commit is when all of an append or a delete was read and nothing written.
	Commit
	// Answer is when it was written and nothing answered.
	Answer
	// Send is before each message of a read or a subscription goes out.
	Send
	// SendConfirmation is Send for what says that a subscription has begun.
	SendConfirmation
	// SendEvent is Send for an event, of a read or of a subscription.
	SendEvent
	// SendCheckpoint is Send for what says how far a subscription has looked.
	SendCheckpoint
	// SendCaughtUp is Send for what says that a subscription is live.
	SendCaughtUp
)

// The names of calls.
const (
	Append      = "Append"
	BatchAppend = "BatchAppend"
	Read        = "Read"
	Delete      = "Delete"
	Tombstone   = "Tombstone"
	Gossip      = "Gossip"
	Features    = "Features"
)

// Always is the number of times of a fault that strikes until it is lifted.
const Always = -1

// Fault is something that goes wrong in a server.
//
//	server.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Answer, Effect: esdbdouble.Cut()})
//
// commits the next append and cuts the connection before it is answered.
type Fault struct {
	Call   string // its name; empty is any
	Stream string // how the stream's name begins; "$all" for all; an append has none at Begin
	Point  Point
	Skip   int // so many passes go by unharmed
	Times  int // how often it strikes; 0 is once
	Effect Effect
}

// Effect is what a fault does to a call that passes it. The call goes on when
// it returns nil, and is answered with the error otherwise.
type Effect func(*Call) error

// Call is one call that a fault has struck.
type Call struct {
	context.Context
	Server *Server
	Name   string
	Stream string

	life *life
}

// Cut resets the connection on which the call came, with all other calls on it.
// What was sent just before and not yet read is lost too, as it is on a network:
// a test that wants it to come must hold the cut back until it has.
func Cut() Effect {
	return func(c *Call) error {
		if p, known := peer.FromContext(c); known {
			c.life.connections.reset(p.Addr)
		}
		<-c.Done()
		return c.Err()
	}
}

// Kill ends the server as kill -9 would.
func Kill() Effect {
	return func(c *Call) error {
		c.Server.Stop()
		<-c.Done()
		return c.Err()
	}
}

// Say answers the call with an error, such as [NotReady]. At [Send] it drops a
// subscription.
func Say(err error) Effect { return func(*Call) error { return err } }

// Hold keeps the call until a channel is closed, or until its client gives up.
func Hold(until <-chan struct{}) Effect {
	return func(c *Call) error {
		select {
		case <-until:
			return nil
		case <-c.Done():
			return c.Err()
		}
	}
}

// Slow keeps the call for a while, for what is measured and not for what is
// tested.
func Slow(wait time.Duration) Effect {
	return func(c *Call) error {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-c.Done():
			return c.Err()
		}
	}
}

// Do plays anything while the call waits: an election, a crash of another node,
// somebody else's append in between.
func Do(play func()) Effect {
	return func(*Call) error {
		play()
		return nil
	}
}

// Injected is a fault in its server.
type Injected struct {
	fault  Fault
	faults *faults
	struck chan struct{}
	times  int
}

// Struck is closed when the fault strikes first, before its effect is over.
func (i *Injected) Struck() <-chan struct{} { return i.struck }

// Times is how often it has struck.
func (i *Injected) Times() int {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	return i.times
}

// Lift takes the fault away. Calls that it holds stay held.
func (i *Injected) Lift() { i.faults.remove(i) }

// faults are those of one server.
type faults struct {
	mu    sync.Mutex
	all   []*Injected
	calls map[string]int
}

func (f *faults) inject(fault Fault) *Injected {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault.Times == 0 {
		fault.Times = 1
	}
	i := &Injected{fault: fault, faults: f, struck: make(chan struct{})}
	f.all = append(f.all, i)
	return i
}

func (f *faults) remove(i *Injected) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, other := range f.all {
		if other == i {
			f.all = append(f.all[:n:n], f.all[n+1:]...)
			return
		}
	}
}

// clear lifts all faults.
func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

// strikes are the effects that a call meets at a point.
func (f *faults) strikes(c *Call, at Point) (effects []Effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at == Begin {
		if f.calls == nil {
			f.calls = map[string]int{}
		}
		f.calls[c.Name]++
	}
	for _, i := range f.all {
		switch {
		case i.fault.Point != at, i.fault.Call != "" && i.fault.Call != c.Name, !strings.HasPrefix(c.Stream, i.fault.Stream):
		case i.fault.Skip > 0:
			i.fault.Skip--
		case i.fault.Times != 0:
			if i.fault.Times > 0 {
				i.fault.Times--
			}
			if i.times++; i.times == 1 {
				close(i.struck)
			}
			effects = append(effects, i.fault.Effect)
		}
	}
	return effects
}

// passes is where a call meets the faults of a point.
func (c *Call) passes(at Point) error {
	for _, effect := range c.Server.faults.strikes(c, at) {
		if err := effect(c); err != nil {
			return err
		}
	}
	return nil
}
