package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// How long what waits for the cluster waits at most.
const (
	openMax    = 15 * time.Second // until it is known that the mirror is of this ledger
	knownMax   = 5 * time.Second  // the same where it can be read before that is known
	sendMax    = 10 * time.Second // for one append, with all its tries
	attemptMax = 2 * time.Second  // for one try of them
	applyMax   = 10 * time.Second // until the mirror has what was sent, or what was in the way
	lookEvery  = 5 * time.Second  // how often the cluster is asked how far it is
	freshMax   = 12 * time.Second // since the mirror was known to have everything; then it is stale
)

// Ledger is an [events.Ledger] in an EventStoreDB cluster, with a mirror on this
// machine. Any number of goroutines may use it. Update calls whose events are of
// different streams and of different actors run at once, apart from their
// functions, which run one by one.
//
// One process at a time may have a mirror.
type Ledger struct {
	address Address
	bounds  bounds
	project events.Projector
	hook    func(events.Reader, []events.Recorded) error
	prepare func(events.Tx) error
	options []sqlite.Option
	fence   *fence
	owner   *os.File // locked while the mirror is ours

	life context.Context // until Close
	end  context.CancelFunc
	work sync.WaitGroup

	opened     time.Time
	chores     chan struct{}
	stalled    chan struct{}
	counted    counted
	told       func(error)
	onCommit   func(commands, events int, took time.Duration)
	rebuilding atomic.Bool
	step       func(string) // where a test may end the process; nil: nowhere
	hearing    hearing
	publishing publishing

	gate   gate // closed while the mirror is changed for another
	mirror *sqlite.Ledger

	mu      sync.Mutex // of what follows
	at      place      // the last of the cluster's events that the mirror has
	has     bool       // it has any
	changed chan struct{}
	standing
	lived   chan struct{} // closed when the mirror first had all that there was
	checked chan struct{} // closed when the mirror is known to be of this ledger
	failed  error         // why it is not brought up to date any more
	awaited map[sent]*awaited
	flying  map[string]*unit                 // what units of this process are about to append to, and for whom
	adrift  map[string]*unit                 // by their entries in the outbox
	halves  map[events.EventID]chan struct{} // of commands of which a part may be recorded; closed when all is
	closed  bool
}

var _ events.Ledger = (*Ledger)(nil)

// bounds are what a test may want otherwise.
type bounds struct{ open, send, attempt, apply, look, fresh time.Duration }

// Option makes [Open] differ from what suits most callers.
type Option func(*Ledger)

// Apply has a function called in each transaction of the mirror that brings
// events, before its commit: for what must be done wherever they come from, such
// as ringing a bell. Its error undoes the transaction, which is tried again.
func Apply(call func(events.Reader, []events.Recorded) error) Option {
	return func(l *Ledger) { l.hook = call }
}

// Prepare has a function called in a transaction of the mirror before the first
// event is brought to it, for what the projector relies on.
func Prepare(call func(events.Tx) error) Option {
	return func(l *Ledger) { l.prepare = call }
}

// OnCommit has a function called after each Update of this process that appended and
// whose outcome is known: that it was one command, how many events it appended, and how
// long they took from when they were decided until the mirror had them. What other machines
// append is none. The function must be quick, and must not call the Ledger.
func OnCommit(call func(commands, events int, took time.Duration)) Option {
	return func(l *Ledger) { l.onCommit = call }
}

// MirrorWith gives the mirror options of a SQLite ledger.
func MirrorWith(more ...sqlite.Option) Option {
	return func(l *Ledger) { l.options = append(l.options, more...) }
}

// Open opens the ledger at an address. It waits until the cluster has been
// reached and the mirror was found to be of this ledger.
//
// Where the cluster cannot be reached in time, a mirror that was filled from there
// before is opened all the same. It is read as it was then, and is stale; nothing
// can be appended. It comes alive by itself when the cluster answers, or turns out
// to be of another ledger: then it is not read any more.
func Open(a Address, project events.Projector, more ...Option) (*Ledger, error) {
	l := &Ledger{
		address: a, project: project, bounds: bounds{openMax, sendMax, attemptMax, applyMax, lookEvery, freshMax},
		changed: make(chan struct{}), lived: make(chan struct{}), checked: make(chan struct{}),
		awaited: map[sent]*awaited{}, flying: map[string]*unit{}, adrift: map[string]*unit{}, halves: map[events.EventID]chan struct{}{},
		chores: make(chan struct{}, 1), stalled: make(chan struct{}, 1),
	}
	for _, option := range more {
		option(l)
	}
	l.opened = time.Now()
	l.since = l.opened
	l.life, l.end = context.WithCancel(context.Background())
	l.fence = newFence(l.life, a.Connection)
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", a.Shown(), err), l.Close())
	}
	return l, nil
}

func (l *Ledger) open() error {
	var err error
	if l.owner, err = own(l.address.Views); err != nil {
		return err
	}
	if err := removeMirror(besides(l.views())); err != nil {
		return err
	}
	if l.mirror, err = l.openMirror(l.address.Views); err != nil {
		return unreadable(fmt.Errorf("open the views: %w", err))
	}
	if err := l.loadCheckpoint(); err != nil {
		return unreadable(err)
	}
	if err := l.recall(); err != nil {
		return err
	}
	if err := l.remember(); err != nil {
		return fmt.Errorf("read what is still to be sent: %w", err)
	}
	if l.prepare != nil {
		if err := l.mirror.Update(l.prepare); err != nil {
			return fmt.Errorf("prepare the views: %w", err)
		}
	}
	l.work.Go(l.follow)
	l.work.Go(l.tidy)
	l.work.Go(l.look)
	known, err := l.known()
	if err != nil {
		return unreadable(err)
	}
	patience := l.bounds.open
	if known {
		patience = min(patience, knownMax)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		changed, failed := l.state()
		if failed != nil {
			return failed
		}
		select {
		case <-l.checked:
			return nil
		case <-changed:
		case <-late.C:
			if known {
				return nil
			}
			l.mu.Lock()
			why := l.whyNot()
			l.mu.Unlock()
			return unreachable(fmt.Errorf("the cluster was not reached within %s: %w", patience, l.fence.obstacle(errors.Unwrap(why))))
		}
	}
}

func (l *Ledger) openMirror(path string) (*sqlite.Ledger, error) {
	return sqlite.Open(path, l.project, append([]sqlite.Option{sqlite.Mirrors()}, l.options...)...)
}

// unreadable says what to do about views that cannot be opened because they are damaged.
func unreadable(err error) error {
	if !errors.Is(err, events.ErrDamaged) {
		return err
	}
	return failure.New("views_damaged", "where these are no views of this ledger, name others: views=PATH. Else keep a copy of the file, take it away and start decklog serve again: "+
		"they are made anew, and only what was still to be sent is lost", err)
}

// own makes sure that no other process brings events to the same mirror.
func own(views string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(views), 0o700); err != nil {
		return nil, fmt.Errorf("make the views' folder: %w", err)
	}
	f, err := os.OpenFile(strings.TrimSuffix(views, ".db")+".owner", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("own the views: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, failure.New("already_served", "use the decklog serve that runs, or give this one views of its own: views=PATH",
			fmt.Errorf("own %s: another process has it", views))
	}
	return f, nil
}

// checkpoint is what the mirror notes of how far it is, and of what ledger.
type checkpoint struct {
	Engine string         `json:"engine"`
	Prefix string         `json:"prefix"`
	Event  events.EventID `json:"event"`  // the last that it has
	Server string         `json:"server"` // the id that the cluster knows it by
	Seal   string         `json:"seal"`   // over all that it says
	At     place          `json:"at"`
}

const (
	engine        = "esdb 1" // another way of giving positions is another engine
	checkpointKey = "checkpoint"
	hostsKey      = "hosts" // where the cluster was
)

var errOther = errors.New("the views are of another ledger")

// other says that the mirror must not be used for this ledger.
func other(views, format string, args ...any) error {
	return failure.New("other_ledger", "give this ledger views of its own with views=PATH, or take the file away to have them made anew",
		fmt.Errorf("%s: %w: %s", views, errOther, fmt.Sprintf(format, args...)))
}

func (l *Ledger) loadCheckpoint() error {
	c, there, err := l.checkpointOf(l.mirror.View)
	if there && err == nil {
		l.at, l.has, l.seen = c.At, true, c.At
	}
	return err
}

// checkpointOf reads how far a mirror is; false when it has nothing yet.
func (l *Ledger) checkpointOf(view func(func(events.Reader) error) error) (c checkpoint, there bool, err error) {
	err = view(func(r events.Reader) error {
		noted, err := r.(sqlite.Noted).Noted(checkpointKey)
		if there = noted != nil; there && err == nil {
			c, err = l.readCheckpoint(noted)
		}
		return err
	})
	return c, there, err
}

// known says whether what the mirror has is known to be from where the cluster is
// said to be: then it may be read before that answers.
func (l *Ledger) known() (is bool, err error) {
	if !l.has {
		return false, nil
	}
	err = l.View(func(r events.Reader) error {
		from, err := r.(sqlite.Noted).Noted(hostsKey)
		is = string(from) == l.address.hosts()
		return err
	})
	return is, err
}

// isChecked notes that the mirror is of the cluster that answered, and where that is.
func (l *Ledger) isChecked() {
	if known, err := l.known(); !known && err == nil {
		_ = l.note(hostsKey, []byte(l.address.hosts())) // else it is known later
	}
	l.change(func() {
		select {
		case <-l.checked:
		default:
			close(l.checked)
		}
	})
}

func (l *Ledger) readCheckpoint(noted []byte) (c checkpoint, err error) {
	if err := json.Unmarshal(noted, &c); err != nil {
		return c, fmt.Errorf("read the views' checkpoint: %w: %w", events.ErrDamaged, err)
	}
	if c.Engine != engine || c.Prefix != l.address.Prefix {
		return c, other(l.address.Views, "they are of %s with the prefix %s, not of %s with %s", c.Engine, c.Prefix, engine, l.address.Prefix)
	}
	return c, nil
}

// View calls fn with a snapshot of the mirror. One that turned out to be of another
// ledger is not read.
func (l *Ledger) View(fn func(events.Reader) error) error {
	if err := l.strange(); err != nil {
		return fmt.Errorf("view ledger: %w", err)
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror.View(fn)
}

func (l *Ledger) strange() error {
	if _, failed := l.state(); errors.Is(failed, errOther) {
		return failed
	}
	return nil
}

// Settled calls fn with the last state of the mirror, which it stays until fn
// returns. What was appended meanwhile, here or elsewhere, comes to the mirror
// after it.
func (l *Ledger) Settled(fn func(events.Reader) error) error {
	if err := l.strange(); err != nil {
		return fmt.Errorf("settle ledger: %w", err)
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror.Settled(fn)
}

// Wait returns nil once the mirror's end lies after the position, or the
// context's error when that comes first.
func (l *Ledger) Wait(ctx context.Context, after events.Position) error {
	for {
		m := l.current()
		err := m.Wait(ctx, after)
		if err == nil || ctx.Err() != nil || l.life.Err() != nil || l.current() == m {
			return err
		}
	}
}

func (l *Ledger) current() *sqlite.Ledger {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror
}

// Stored is how many bytes the mirror takes.
func (l *Ledger) Stored() (bytes int64, err error) { return l.current().Stored() }

// JournalMode is how the mirror's commits are kept whole.
func (l *Ledger) JournalMode() string { return l.current().JournalMode() }

// Close ends the ledger. What is being sent has then an unknown outcome.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.end()
	l.fence.close()
	l.work.Wait()
	var err error
	if l.mirror != nil {
		err = l.current().Close()
	}
	if l.owner != nil {
		l.owner.Close()
	}
	return err
}

// state is what is closed with the next change, and why there will be none.
func (l *Ledger) state() (changed <-chan struct{}, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.failed
}

// change changes what is under mu, and wakes who waits for it.
func (l *Ledger) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
	close(l.changed)
	l.changed = make(chan struct{})
}

// until waits until is says so, looking again with each change.
func (l *Ledger) until(ctx context.Context, is func() (bool, error)) error {
	impatient := time.NewTicker(l.bounds.attempt)
	defer impatient.Stop()
	for {
		changed, failed := l.state()
		if yes, err := is(); yes || err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		select {
		case <-changed:
		case <-impatient.C:
			l.stall()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
