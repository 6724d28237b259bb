package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/ops"
)

// verifying lets one reading of the whole ledger run at a time. Who asks while one
// runs shares the next with all others who do: so any number of them costs no more
// than one reading after the other.
type verifying struct {
	turn chan struct{} // held by the one that runs
	mu   sync.Mutex
	next *reading // that has not begun yet; nil: none
}

// reading is one reading of the whole ledger, and those who wait for it.
type reading struct {
	askers  int
	life    context.Context // ends when nobody waits for it any more
	end     context.CancelFunc
	done    chan struct{}
	audited ops.Audited
	err     error

	mu   sync.Mutex
	come api.Progress
}

// sayEvery is how often a client is told how far the reading has come.
const sayEvery = time.Second

// Verify reads the whole ledger as [ops.Ops.Verify] does, and shares the reading
// with others who ask meanwhile. When the context ends it gives its cause, and the
// reading ends too unless others wait for it. come may be nil.
func (s *Server) Verify(ctx context.Context, come func(api.Progress)) (ops.Audited, error) {
	r := s.join()
	defer s.leave(r)
	say := time.NewTicker(sayEvery)
	defer say.Stop()
	for {
		select {
		case <-r.done:
			return r.audited, r.err
		case <-ctx.Done():
			return ops.Audited{}, context.Cause(ctx)
		case <-say.C:
			r.mu.Lock()
			at := r.come
			r.mu.Unlock()
			if come != nil {
				come(at)
			}
		}
	}
}

func (s *Server) join() *reading {
	v := &s.verifying
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.next
	if r == nil {
		r = &reading{done: make(chan struct{}), come: api.Progress{What: "verify"}}
		r.life, r.end = context.WithCancel(s.life)
		v.next = r
		go s.read(r)
	}
	r.askers++
	return r
}

func (s *Server) leave(r *reading) {
	v := &s.verifying
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.askers--; r.askers > 0 {
		return
	}
	if v.next == r {
		v.next = nil // nobody joins one that is called off
	}
	r.end()
}

// read waits for its turn, and reads. Who asks from then on joins the next one.
func (s *Server) read(r *reading) {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			r.err = fmt.Errorf("verify: %s", saysOf(p))
		}
	}()
	v := &s.verifying
	select {
	case v.turn <- struct{}{}:
	case <-r.life.Done():
		r.err = errEnds
		return
	}
	defer func() { <-v.turn }()
	v.mu.Lock()
	if v.next == r {
		v.next = nil
	}
	v.mu.Unlock()
	desk := *s.Ops
	desk.Still = func() error {
		if r.life.Err() != nil {
			return errEnds
		}
		return nil
	}
	desk.World.Progress = func(what string, done, end events.Position) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.come = api.Progress{What: what, Done: done, End: end}
	}
	r.audited, r.err = desk.Verify()
}

// verify answers the route. It is bounded by nothing but its client's staying.
func (s *Server) verify(_ context.Context, o ops.Operations, in json.RawMessage) (any, *commands.Refusal, error) {
	if _, err := api.Decode[api.None](in); err != nil {
		return nil, nil, err
	}
	desk := o.(*ops.Ops) // [Server.desk] made it
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	audited, err := s.Verify(ctx, func(at api.Progress) {
		if gone := desk.Still(); gone != nil {
			end(gone)
		} else if desk.World.Progress != nil {
			desk.World.Progress(at.What, at.Done, at.End)
		}
	})
	return audited, nil, err
}
