package ops

import "decklog/events"

// places says of a command that nothing of its answer depends on where its events lie
// but this position, so that a ledger that learns that later need not run it again.
func (u *unit) places(at *events.Position) {
	if placer, is := u.tx.(events.Placer); is {
		placer.Placed(func(now func(events.Position) events.Position) { *at = now(*at) })
	}
}
