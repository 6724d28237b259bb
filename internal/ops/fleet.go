package ops

import (
	"fmt"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/failure"
	"decklog/projections"
)

// Refold folds a ledger's rows anew where another version of the folds made them.
// It is for a ledger to which events come from elsewhere: before the first does,
// for the next fold must not go on with rows that it does not know.
func Refold(tx events.Tx) error {
	u := &unit{Ops: &Ops{}, tx: tx}
	u.refresh()
	return u.refold()
}

// Rings rings the bells of those for whom something came to wait, as a command
// does in its own transaction, where the events come from another machine. It is
// called in the transaction that brings them, before its commit.
func Rings(bells func() bell.Bells) func(events.Reader, []events.Recorded) error {
	return func(r events.Reader, recorded []events.Recorded) error {
		s := projections.On(r.Rows())
		policy := events.Policy{}
		if adopted := s.Policy(); adopted != nil {
			policy = adopted.Policy
		}
		return ring(bells(), s, policy, recorded)
	}
}

// ring rings the bells of those for whom these events made something wait.
func ring(bells bell.Bells, s *projections.State, policy events.Policy, recorded []events.Recorded) error {
	rung := map[events.SessionID]bool{}
	for _, r := range recorded {
		if _, is := r.Event.(events.PolicyAdopted); is {
			if err := bells.Ignore(nil); err != nil {
				return fmt.Errorf("forget the ignored directories: %w", err)
			}
		}
		for _, id := range stirs(s, r.Event, policy) {
			if rung[id] {
				continue
			}
			rung[id] = true
			if err := bells.Ring(string(id)); err != nil {
				return fmt.Errorf("ring the bell of session %s: %w", id, err)
			}
		}
	}
	return s.Err()
}

// Lag is how the ledger stands towards where its events are recorded; false for one
// that is this place itself, and never behind.
func (o *Ops) Lag() (events.Lag, bool) {
	l, is := o.Ledger.(events.Follower)
	if !is {
		return events.Lag{}, false
	}
	return l.Lag(), true
}

// Stale says that what is read may lack what was recorded elsewhere long ago.
func (o *Ops) Stale() bool {
	l, is := o.Ledger.(events.Follower)
	return is && l.Stale()
}

// cluster says the same as it is shown; nil for a ledger that is never behind.
func (o *Ops) cluster() *projections.ClusterView {
	lag, is := o.Lag()
	if !is {
		return nil
	}
	v := &projections.ClusterView{
		Live: lag.Live, BehindMS: age(lag.Behind), HeardMS: age(lag.Heard), Waiting: lag.Waiting,
		Unsent: max(0, lag.Unsent), Undropped: max(0, lag.Undropped), Rebuilding: lag.Rebuilding,
	}
	if lag.Why != nil {
		f := failure.Of(lag.Why)
		v.Code, v.Says, v.Fix = f.Code, f.Message, f.Fix
	}
	return v
}

func age(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
