package sqlite

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"decklog/events"
)

// Groups bounds the groups in which a [Grouped] ledger commits.
type Groups struct {
	// Members is how many Update calls one commit holds at most.
	Members int
	// Longest is the time after which a group takes nobody in any more, so that
	// other processes get their turn.
	Longest time.Duration
	// Queue is how many Update calls may wait for their turn. One more is
	// refused with [events.ErrBusy].
	Queue int
}

// DefaultGroups suits a process that serves many.
var DefaultGroups = Groups{Members: 128, Longest: 10 * time.Millisecond, Queue: 10_000}

// Grouped makes a ledger that commits in groups, for a process that lives long
// and appends for many at once: Update calls that come while another runs or
// commits become durable together, with one sync for all of them. One that comes
// alone waits for nobody.
//
// Each keeps the outcomes that Update promises by itself. Its function runs in a
// savepoint of its own, so what fails or panics undoes its own part and no
// other's. It sees what members before it did, though that is not durable yet;
// so nobody hears of success, also not one that only read, before the commit.
// Where that fails, each of them gets its error.
func Grouped(bounds Groups) Option {
	return func(o *options) { o.groups = &bounds }
}

// Queued is how many Update calls of this process wait for their turn.
func (l *Ledger) Queued() int {
	if l.groups == nil {
		return 0
	}
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	return len(l.groups.queue)
}

// groups is the queue of the Update calls of a grouped ledger, and what one
// group leaves to the next.
//
// No goroutine of its own commits. Each call runs its function itself, when it
// is its turn, in the open group that the one before hands it; whoever finds
// nobody to hand it to commits for all. So a function that panics, or ends its
// goroutine, does so where it was called.
type groups struct {
	bounds Groups

	mu    sync.Mutex
	queue []*member // the first comes next
	open  bool      // a group is, or is about to be: who comes queues

	// For the one that holds Ledger.writing:
	writer *connection // nil until it is needed
	kept   kept
	ahead  *ahead
	ends   ends

	logPages int  // of the write-ahead log
	moveAt   int  // as many pages
	moved    bool // most of it was moved, or is
	moving   atomic.Bool
	movers   sync.WaitGroup
}

// member is one Update call.
type member struct {
	told  chan told // its turn, if it had to wait for it; then what came of the group
	final bool      // the group is committed behind it, whoever waits
}

// told is what a member is told by another.
type told struct {
	group *group // that it is to go on with; nil: it opens the next
	err   error
}

// group is one write transaction with its members.
type group struct {
	l       *Ledger
	c       *connection
	began   time.Time
	ahead   *ahead
	ends    *ends
	kept    any
	members []*member // that want to hear what came of it
	ran     int
	events  int
	wrote   bool
	dropped bool
	lost    error // why it cannot be committed: nothing of it was appended, unless it is ErrUnknown
}

// updateInGroup is Update of a grouped ledger.
func (l *Ledger) updateInGroup(fn func(events.Tx) error) error {
	return l.join(&member{told: make(chan told, 1)}, fn)
}

func (l *Ledger) join(m *member, fn func(events.Tx) error) (err error) {
	defer l.guard(&err)()
	g, err := l.groups.wait(m)
	if err == nil && g == nil {
		g, err = l.openGroup()
	}
	if err != nil {
		return fmt.Errorf("update ledger: %w", err)
	}
	durable, err := g.run(m, fn)
	if err != nil || durable {
		return err
	}
	if err := (<-m.told).err; err != nil {
		return fmt.Errorf("update ledger: %w", err)
	}
	return nil
}

// wait waits for the member's turn, and gives the group that it goes on with; nil
// when it is to open one.
func (q *groups) wait(m *member) (*group, error) {
	q.mu.Lock()
	if !q.open {
		q.open = true
		q.mu.Unlock()
		return nil, nil
	}
	if len(q.queue) >= q.bounds.Queue {
		q.mu.Unlock()
		return nil, fmt.Errorf("%d wait for their turn: %w", q.bounds.Queue, events.ErrBusy)
	}
	q.queue = append(q.queue, m)
	q.mu.Unlock()
	t := <-m.told
	return t.group, t.err
}

// next takes the first out of the queue; nil when there is none. It is called
// under mu.
func (q *groups) next() *member {
	if len(q.queue) == 0 {
		return nil
	}
	m := q.queue[0]
	q.queue[0] = nil
	if q.queue = q.queue[1:]; len(q.queue) == 0 {
		q.queue = nil // the array has been walked to its end
	}
	return m
}

// openGroup begins the write transaction. Where that fails, it does for all who
// wait for their turn: each would have waited as long again.
func (l *Ledger) openGroup() (g *group, err error) {
	q := l.groups
	defer func() {
		if g != nil {
			return
		}
		// It failed, or a fault of memory ends it.
		if err == nil {
			err = errEnded
		}
		q.mu.Lock()
		waiting := q.queue
		q.queue, q.open = nil, false
		q.mu.Unlock()
		for _, m := range waiting {
			m.told <- told{err: err}
		}
	}()
	c, err := l.beginWriting()
	if err != nil {
		return nil, err
	}
	whole := false
	defer func() {
		if !whole {
			l.endWriting(c)
		}
	}()
	if !c.goesOn {
		same, err := q.ahead.begin(c)
		if err != nil {
			return nil, err
		}
		if !same {
			q.ends = newEnds()
		}
	}
	whole = true
	return &group{l: l, c: c, began: time.Now(), ahead: q.ahead, ends: &q.ends, kept: q.kept.take()}, nil
}

// run calls a member's function, and hands the group on whatever comes of it.
// Without an error the member is yet to be told what came of the group, unless
// all that it saw was durable.
func (g *group) run(m *member, fn func(events.Tx) error) (durable bool, err error) {
	defer g.handOn(m)
	if err := g.unit(fn); err != nil {
		return false, err
	}
	if !g.wrote {
		return true, nil
	}
	g.members = append(g.members, m)
	return false, nil
}

// unit is one unit of work of the group.
func (g *group) unit(fn func(events.Tx) error) (err error) {
	t := &tx{reader: &reader{c: g.c, kept: g.kept}, project: g.l.project, ahead: g.ahead, ends: g.ends, placed: g.ends.placed, first: !g.wrote && g.l.alone()}
	g.kept = nil
	g.ran++
	kept := false
	defer func() {
		t.c = nil
		if kept {
			return
		}
		p := recover()
		if fault, is := p.(addressed); is {
			g.lost = g.l.faulted(fault)
			err = fmt.Errorf("update ledger: %w", g.lost)
			return
		}
		g.undo(t)
		if p != nil {
			panic(p)
		}
		if g.lost == nil {
			g.kept = ended(t.kept, true)
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	err = t.alive()
	if err == nil && t.holds() {
		err = errTried
	}
	if err == nil && t.saved && !t.first {
		err = g.c.exec("RELEASE member")
	}
	if err != nil {
		t.failed = err
		return fmt.Errorf("update ledger: %w", err)
	}
	kept = true
	g.ahead.keep()
	g.ends.keep(t)
	g.kept = ended(t.kept, false)
	g.events += t.appended
	g.wrote = g.wrote || t.writes > 0
	g.dropped = g.dropped || t.dropped
	return nil
}

// undo takes back what a member did. Where SQLite has rolled back everything, or
// cannot roll back a part, the group is lost.
func (g *group) undo(t *tx) {
	var err error
	switch {
	case g.c.db.GetAutocommit():
		err = errEnded
		if t.failed != nil {
			err = t.failed
		}
	case t.saved && t.first:
		g.c.rollback()
		err = g.l.begin(g.c)
	case t.saved:
		err = g.c.exec("ROLLBACK TO member")
		if err == nil {
			err = g.c.exec("RELEASE member")
		}
	}
	if err != nil {
		g.lost = fmt.Errorf("another command of its group ended the transaction: %w", err)
		return
	}
	g.ahead.undo()
}

// handOn lets the next of the queue go on with the group, or ends it behind m.
func (g *group) handOn(m *member) {
	q := g.l.groups
	if !m.final && g.lost == nil && g.ran < q.bounds.Members && time.Since(g.began) < q.bounds.Longest {
		q.mu.Lock()
		next := q.next()
		q.mu.Unlock()
		if next != nil {
			next.told <- told{group: g}
			return
		}
	}
	g.finish()
}

// finish commits, tells the members, and lets the next group begin.
func (g *group) finish() {
	err := errEnded
	defer g.l.groups.letNext()
	defer func() {
		for _, m := range g.members {
			m.told <- told{err: err}
		}
	}()
	defer g.l.endWriting(g.c) // before anybody is told
	if err = g.commit(); err != nil {
		g.l.groups.ahead = newAhead() // and the next group forgets the ends too
		return
	}
	g.ahead.written()
	if !g.c.open {
		g.l.shorten(g.c)
	}
	g.l.groups.kept.giveBack(g.kept)
}

// letNext lets the first of the queue open the next group.
func (q *groups) letNext() {
	q.mu.Lock()
	next := q.next()
	q.open = next != nil
	q.mu.Unlock()
	if next != nil {
		next.told <- told{}
	}
}

func (g *group) commit() (err error) {
	defer g.l.guard(&err)()
	if g.lost != nil {
		return g.lost
	}
	if g.l.alone() && !g.wrote {
		g.c.open = true // nobody else writes, so the next group sees the same
		return nil
	}
	if err := g.ahead.write(g.c.exec); err != nil {
		return err
	}
	if !g.l.alone() { // what a mirror lost lies elsewhere
		if err := g.l.InPlace(); err != nil {
			return err
		}
	}
	return g.l.commit(g.c, commit{members: len(g.members), events: g.events, last: g.ends.last, dropped: g.dropped})
}
