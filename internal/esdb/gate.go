package esdb

import (
	"sync"
	"time"
)

// gate lets any number of users through to the mirror, until it is shut so that the
// mirror can be changed for another. Unlike a lock for many readers it is shut for a
// bounded time only: one user who stays long must not keep all others out.
type gate struct {
	mu      sync.Mutex
	inside  int
	shut    chan struct{} // closed when it opens again; nil while it is open
	emptied chan struct{} // closed when the last user has left while it is shut
}

// RLock enters, and waits while the gate is shut. Who is inside must not enter again.
func (g *gate) RLock() {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			g.inside++
		}
		g.mu.Unlock()
		if shut == nil {
			return
		}
		<-shut
	}
}

// RUnlock leaves.
func (g *gate) RUnlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.shut != nil {
		close(g.emptied)
	}
}

// close lets nobody in, and says whether all who were inside have left within a
// time. Else it is open again. One may close it at a time.
func (g *gate) close(within time.Duration) bool {
	g.mu.Lock()
	g.shut, g.emptied = make(chan struct{}), make(chan struct{})
	if g.inside == 0 {
		close(g.emptied)
	}
	emptied := g.emptied
	g.mu.Unlock()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-emptied:
		return true
	case <-late.C:
		g.open()
		return false
	}
}

// open lets everybody in again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}
