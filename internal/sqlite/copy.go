package sqlite

import (
	"fmt"

	"decklog/events"
)

// Take puts events that another ledger recorded behind the last, as they are: with
// their times, ids and digests. Each must have there the position that it comes to
// have here, so the first goes behind this ledger's last; else the error is
// [events.ErrConflict]. All of them are durable when it returns nil, and after any
// other error but an unknown outcome none is.
func (l *Ledger) Take(all []Arrived) error {
	if len(all) == 0 {
		return nil
	}
	return l.Update(func(tx events.Tx) error {
		end, err := tx.End()
		if err != nil {
			return err
		}
		if end+1 != all[0].Position {
			return fmt.Errorf("take event %s: it has position %d, and here %d comes next: %w", all[0].ID, all[0].Position, end+1, events.ErrConflict)
		}
		for from := 0; from < len(all); {
			to := from + 1
			for to < len(all) && all[to].Stream == all[from].Stream {
				to++
			}
			recorded, err := tx.(Mirror).Record(all[from:to], nil)
			if err != nil {
				return err
			}
			for i, r := range recorded {
				if of := all[from+i]; r.Digest != of.Digest {
					return fmt.Errorf("take event %s at position %d: its digest is not %s: %w", r.ID, r.Position, of.Digest, events.ErrDamaged)
				}
			}
			from = to
		}
		return nil
	})
}
