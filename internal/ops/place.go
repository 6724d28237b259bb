package ops

import "decklog/events"

// places says of a command that its answer is made of nothing but its own events, and
// that this position is all in it that depends on where they lie: so a ledger that
// learns that later need not run it again. An answer that was read from the views is
// not such a one, since others' events may come before its own.
func (u *unit) places(at *events.Position) {
	if placer, is := u.tx.(events.Placer); is {
		placer.Placed(func(now func(events.Position) events.Position) { *at = now(*at) })
	}
}
