package ops

import (
	"fmt"

	"decklog/events"
	"decklog/internal/bell"
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
