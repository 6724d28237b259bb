package esdb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

var _ events.Follower = (*Ledger)(nil)

// standing is how the mirror stands towards the cluster. It is under Ledger.mu.
//
// That a subscription is silent proves nothing: one may be dead and not know it. So
// the cluster is asked every so often for the newest event of ours, and once the
// mirror has seen that, it is known to have had everything at the time of asking.
type standing struct {
	live    bool      // it has had all that there was, and is told of what comes
	reached bool      // there is a subscription
	since   time.Time // when either changed
	why     error     // why there is none, or none that helps
	lost    time.Time // when it was last live, while it is not
	away    bool      // there was none, and it was not live since
	heard   time.Time // when the cluster last said anything
	whole   time.Time // when it was last known to have everything
	seen    place     // the last of ours that was seen, event or not
	logEnd  place     // where the cluster's log ended when it was last asked
	coming  int       // events that came and are not there yet

	asked  time.Time // when the newest was asked for; zero: it was seen
	newest place

	looked  time.Time // when the cluster was last asked, before this time
	spoke   time.Time // when the subscription last told anything
	atWhole place     // where the log ended when it was known to have everything
}

// Told has a function told why the mirror is not brought up to date any more, when that
// begins, and with nil when it is over. It must be quick, and must not call the Ledger.
func Told(call func(why error)) Option {
	return func(l *Ledger) { l.told = call }
}

// counted is since the process began.
type counted struct{ dropped, retried, conflicts atomic.Int64 }

func unreachable(err error) error {
	return failure.New("unreachable", "check that the cluster runs, its address, and that tls=false is said where it has no TLS, and tlsCaFile=FILE where its certificate is of an authority of your own; nothing was recorded", err)
}

// errForeign says that something lies under the prefix that is no event of ours.
var errForeign = errors.New("there is something else under the prefix")

func foreign(err error, ours bool) error {
	if ours {
		return failure.New("foreign_event", "that stream is this ledger's: delete nothing, end who writes there besides decklog, and bring the cluster back to a state from before; the views have all up to it",
			fmt.Errorf("%w: %w", errForeign, err))
	}
	return failure.New("foreign_event", "see whose stream that is: where it is somebody's, give the ledger another prefix; where it is nobody's, end who writes there, tombstone it, scavenge the cluster, and start decklog serve again",
		fmt.Errorf("%w: %w", errForeign, err))
}

// ofMirror is an error of the mirror's own file.
type ofMirror struct{ error }

func (e ofMirror) Unwrap() error { return e.error }

// explained says why the mirror is not brought up to date, and whether it is
// hopeless to try again.
func explained(err error) (_ error, hopeless bool) {
	var own ofMirror
	switch {
	case errors.Is(err, errOther), errors.Is(err, errForeign):
		return err, true
	case errors.As(err, &own) && errors.Is(err, events.ErrDamaged):
		return failure.New("views_damaged", "keep a copy of the views, and have them made anew: decklog rebuild; nothing is lost", err), true
	case errors.As(err, &own) && errors.Is(err, events.ErrUnknown):
		return failure.New("views_broken", "look at the disk of the views, and start decklog serve again; nothing is lost", err), true
	case errors.As(err, &own) && errors.Is(err, events.ErrNoSpace):
		return failure.New("no_space", "make room on the disk of the views: they go on by themselves; what was answered is in the cluster", err), false
	case errors.As(err, &own):
		return err, false
	case refusedForAccess(err):
		return failure.New("access_denied", "give a user who may read $all, and append and delete under the prefix: esdb://USER:PASSWORD@HOST; without TLS no user is sent", err), true
	case refusedFor(err) != nil:
		return failure.New("cluster_refused", "see that it is an EventStoreDB or KurrentDB that serves gRPC: decklog engine-check URL", err), true
	}
	return unreachable(fmt.Errorf("the cluster does not answer: %w", err)), false
}

func (l *Ledger) isSubscribed(end place) {
	l.change(func() {
		l.reached, l.since = true, time.Now()
		if !errors.As(l.why, new(ofMirror)) { // that the cluster tells again does not help the mirror
			l.why = nil
		}
		l.heard, l.logEnd = time.Now(), end
	})
}

func (l *Ledger) isComing(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coming, l.heard = events, time.Now()
}

func (l *Ledger) hasSeen(last place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coming, l.spoke = 0, time.Now()
	if last.after(l.seen) {
		l.seen = last
	}
	if !l.asked.IsZero() && !l.newest.after(l.seen) {
		l.whole, l.asked = l.asked, time.Time{}
	}
}

// isLive notes that the mirror has had all that there was.
func (l *Ledger) isLive(whole time.Time) {
	l.change(func() {
		if l.away && l.told != nil {
			l.told(nil)
		}
		l.away = false
		l.live, l.why, l.since, l.whole, l.asked = true, nil, time.Now(), whole, time.Time{}
		select {
		case <-l.lived:
		default:
			close(l.lived)
		}
	})
	l.stir()
}

// stumble notes why a subscription ended, or did not begin, and says whether it is
// hopeless to try again.
func (l *Ledger) stumble(err error) (hopeless bool) {
	err, hopeless = explained(err)
	l.change(func() {
		if l.reached {
			l.since = time.Now()
			l.counted.dropped.Add(1)
		}
		if l.told != nil && (!l.away || hopeless) {
			l.told(err)
		}
		if l.live {
			l.lost = time.Now()
		}
		l.away = true
		l.reached, l.live, l.why, l.coming = false, false, err, 0
		if hopeless = hopeless || l.failed != nil; hopeless && l.failed == nil {
			l.failed = fmt.Errorf("the views stand still: %w", err)
		}
	})
	return hopeless
}

// look asks the cluster every so often how far it is. What the mirror does not come
// to see, and a cluster that does not answer, make the projector subscribe anew.
func (l *Ledger) look() {
	every := time.NewTicker(l.bounds.look)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			l.lookNow()
		case <-l.life.Done():
			return
		}
	}
}

func (l *Ledger) lookNow() {
	ctx, cancel := context.WithTimeout(l.life, l.bounds.attempt)
	defer cancel()
	began := time.Now()
	end, newest, short, err := l.fence.newest(ctx, l.address.Prefix)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.heard, l.logEnd = time.Now(), end
	}
	before := l.looked
	l.looked = began
	switch late := !l.asked.IsZero(); {
	case !l.live:
	case err == nil && newest == nil && !short && end != l.atWhole:
		// Too much of others' is at the end. Where the subscription has told since how far
		// it looked, it lives, and is believed.
		if !l.spoke.After(before) {
			l.stall()
			break
		}
		l.whole, l.asked, l.atWhole = before, time.Time{}, end
	case err == nil && (newest == nil || !newest.after(l.seen)):
		l.whole, l.asked, l.atWhole = began, time.Time{}, end
	case err == nil && !late:
		l.asked, l.newest = began, *newest
	default:
		l.stall()
	}
}

// fresh says whether the mirror had everything moments ago. The caller holds mu.
func (l *Ledger) fresh() bool {
	// By the clock on the wall too: the other one stands still while the machine sleeps.
	return l.live && time.Since(l.whole) < l.bounds.fresh && time.Since(l.whole.Round(0)) < l.bounds.fresh
}

// Stale says that the mirror may lack what is recorded in the cluster.
func (l *Ledger) Stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.fresh()
}

// Lag tells how the mirror stands towards the cluster.
func (l *Ledger) Lag() events.Lag {
	unsent, undropped := l.left()
	l.mu.Lock()
	defer l.mu.Unlock()
	lag := events.Lag{
		Live: l.fresh(), Ended: l.failed != nil, Behind: ago(l.whole), Heard: ago(l.heard), Waiting: l.coming,
		Place: l.at.Commit, LogEnd: max(l.logEnd.Commit, l.at.Commit), Unsent: unsent, Undropped: undropped, Rebuilding: l.rebuilding.Load(),
		Connected: l.fence.made.Load(), Dropped: l.counted.dropped.Load(), Retried: l.counted.retried.Load(), Conflicts: l.counted.conflicts.Load(),
	}
	if lag.Live {
		lag.Behind = 0
	} else {
		lag.Why = l.whyNot()
	}
	return lag
}

func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return time.Since(t)
}

// whyNot is why the mirror is not up to date. The caller holds mu.
func (l *Ledger) whyNot() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.why != nil:
		return l.why
	case l.live && l.coming == 0 && (l.asked.IsZero() || time.Since(l.heard) > l.bounds.fresh): // nothing is known to be missing
		return unreachable(fmt.Errorf("the cluster was not heard for %s", time.Since(l.heard).Truncate(time.Millisecond)))
	case l.reached:
		return stale(errors.New("the views do not have yet what the cluster has"))
	}
	return unreachable(errors.New("the cluster has not answered yet"))
}

// left is how many entries the outbox has, and how many bodies have to go; -1 when
// that cannot be read.
func (l *Ledger) left() (unsent, undropped int) {
	err := l.View(func(r events.Reader) error {
		notes := r.(sqlite.Noted)
		err := notes.Notes(outKey, func(string, []byte) { unsent++ })
		if err == nil {
			err = notes.Notes(dropKey, func(string, []byte) { undropped++ })
		}
		return err
	})
	if err != nil {
		return -1, -1
	}
	return unsent, undropped
}

// ready says whether anything can be appended: not before the mirror has had all
// that there was when it was opened, for before it knows neither who takes part nor
// what was sent; and not while the cluster has been away for so long that who waits
// for it would wait in vain.
func (l *Ledger) ready() error {
	if l.life.Err() != nil {
		return errShut
	}
	l.mu.Lock()
	failed, since, live, lived, lost := l.failed, l.since, l.live, l.lived, l.lost
	if l.why == nil && !l.reached {
		since = time.Now() // it was not tried yet to the end
	}
	l.mu.Unlock()
	if failed != nil {
		return behind{failed}
	}
	patience := l.bounds.apply - time.Since(since)
	select {
	case <-lived:
		if live || time.Since(lost) < l.bounds.apply {
			return nil
		}
	default:
		if patience <= 0 {
			break
		}
		ctx, cancel := context.WithTimeout(l.life, patience)
		defer cancel()
		err := l.until(ctx, func() (bool, error) {
			select {
			case <-lived:
				return true, nil
			default:
				return false, nil
			}
		})
		switch {
		case err == nil:
			return nil
		case l.life.Err() != nil:
			return errShut
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return behind{l.whyNot()}
}

// stale is the error of what was not appended because the mirror is too far behind.
func stale(why error) error {
	return behind{failure.New("stale", "wait until the views have caught up, and run it again: decklog doctor says how far they are; nothing was recorded", why)}
}

// behind is an error by which nothing was appended, as it is by a conflict.
type behind struct{ error }

func (b behind) Is(target error) bool { return target == events.ErrConflict }
func (b behind) Unwrap() error        { return b.error }
