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
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// How long what waits for the cluster waits at most.
const (
	openMax    = 15 * time.Second // until it is known that the mirror is of this ledger
	sendMax    = 10 * time.Second // for one append, with all its tries
	attemptMax = 2 * time.Second  // for one try of them
	applyMax   = 10 * time.Second // until the mirror has what was sent, or what was in the way
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

	opened  time.Time
	chores  chan struct{}
	stalled chan struct{}

	gate   sync.RWMutex // for writing: the mirror is changed for another
	mirror *sqlite.Ledger

	mu      sync.Mutex // of what follows
	at      place      // the last of the cluster's events that the mirror has
	has     bool       // it has any
	changed chan struct{}
	live    bool // the mirror has had all that there was
	heard   time.Time
	lived   chan struct{} // closed when it first was
	checked chan struct{} // closed when the mirror is known to be of this ledger
	failed  error         // why it is never brought up to date again
	awaited map[sent]chan events.Recorded
	flying  map[string]*unit // what units of this process are about to append to, and for whom
	owned   map[string]bool  // the outbox's entries whose units still run
	closed  bool
}

var _ events.Ledger = (*Ledger)(nil)

// bounds are what a test may want otherwise.
type bounds struct{ open, send, attempt, apply time.Duration }

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

// MirrorWith gives the mirror options of a SQLite ledger.
func MirrorWith(more ...sqlite.Option) Option {
	return func(l *Ledger) { l.options = append(l.options, more...) }
}

// Open opens the ledger at an address. It waits until the cluster has been
// reached and the mirror was found to be of this ledger.
func Open(a Address, project events.Projector, more ...Option) (*Ledger, error) {
	l := &Ledger{
		address: a, project: project, bounds: bounds{openMax, sendMax, attemptMax, applyMax},
		changed: make(chan struct{}), lived: make(chan struct{}), checked: make(chan struct{}),
		awaited: map[sent]chan events.Recorded{}, flying: map[string]*unit{}, owned: map[string]bool{}, chores: make(chan struct{}, 1), stalled: make(chan struct{}, 1),
	}
	for _, option := range more {
		option(l)
	}
	l.opened = time.Now()
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
	if l.mirror, err = l.openMirror(l.address.Views); err != nil {
		return fmt.Errorf("open the views: %w", err)
	}
	if err := l.loadCheckpoint(); err != nil {
		return err
	}
	if l.prepare != nil {
		if err := l.mirror.Update(l.prepare); err != nil {
			return fmt.Errorf("prepare the views: %w", err)
		}
	}
	l.work.Go(l.follow)
	l.work.Go(l.tidy)
	late := time.NewTimer(l.bounds.open)
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
			return failure.New("unreachable", "check that the cluster runs, its address, and that tls=true or tls=false is what it has",
				fmt.Errorf("the cluster was not reached within %s", l.bounds.open))
		}
	}
}

func (l *Ledger) openMirror(path string) (*sqlite.Ledger, error) {
	return sqlite.Open(path, l.project, append([]sqlite.Option{sqlite.Mirrors()}, l.options...)...)
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
	At     place          `json:"at"`
}

const (
	engine        = "esdb 1" // another way of giving positions is another engine
	checkpointKey = "checkpoint"
)

var errOther = errors.New("the views are of another ledger")

// other says that the mirror must not be used for this ledger.
func other(views, format string, args ...any) error {
	return failure.New("other_ledger", "give this ledger views of its own with views=PATH, or take the file away to have them made anew",
		fmt.Errorf("%s: %w: %s", views, errOther, fmt.Sprintf(format, args...)))
}

func (l *Ledger) loadCheckpoint() error {
	var noted []byte
	err := l.mirror.Update(func(tx events.Tx) (err error) {
		noted, err = tx.(sqlite.Mirror).Noted(checkpointKey)
		return err
	})
	if err != nil || noted == nil {
		return err
	}
	c, err := l.readCheckpoint(noted)
	if err == nil {
		l.at, l.has = c.At, true
	}
	return err
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

// View calls fn with a snapshot of the mirror.
func (l *Ledger) View(fn func(events.Reader) error) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror.View(fn)
}

// Settled calls fn with the last state of the mirror, which it stays until fn
// returns. What was appended meanwhile, here or elsewhere, comes to the mirror
// after it.
func (l *Ledger) Settled(fn func(events.Reader) error) error {
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

// Lag is how far the mirror is behind the cluster, as far as is known here.
type Lag struct {
	// Live says that the mirror has all that the cluster has told of, and is being told.
	Live bool
	// Heard is when the cluster last told anything.
	Heard time.Time
	// Failed is why the mirror is not brought up to date any more; nil while it is.
	Failed error
}

// Lag tells how far the mirror is.
func (l *Ledger) Lag() Lag {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Lag{Live: l.live, Heard: l.heard, Failed: l.failed}
}

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

// ready waits until the mirror has had all that there was when it was opened:
// before, it knows neither who takes part nor what was sent.
func (l *Ledger) ready() error {
	if l.life.Err() != nil {
		return errShut
	}
	if _, failed := l.state(); failed != nil {
		return failed
	}
	select {
	case <-l.lived:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(l.life, l.bounds.apply)
	defer cancel()
	err := l.until(ctx, func() (bool, error) {
		select {
		case <-l.lived:
			return true, nil
		default:
			return false, nil
		}
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return stale(errors.New("the views do not have yet what the cluster has"))
	}
	return err
}

// stale is the error of what was not appended because the mirror is too far behind.
func stale(why error) error {
	return failure.New("stale", "wait until the views have caught up, and run it again: decklog doctor says how far they are; nothing was recorded",
		behind{why})
}

// behind is an error by which nothing was appended, as it is by a conflict.
type behind struct{ error }

func (b behind) Is(target error) bool { return target == events.ErrConflict }
func (b behind) Unwrap() error        { return b.error }
