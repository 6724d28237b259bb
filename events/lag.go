package events

import "time"

// Follower is what a Ledger may be besides: one whose events are recorded elsewhere,
// where others append too, and come to it from there. So it may be behind.
type Follower interface {
	// Lag is how it stands now. It waits for nobody.
	Lag() Lag
	// Stale says that what is read now may lack what was recorded there long ago.
	Stale() bool
}

// Lag is how a Follower stands, as far as it can know. An age below 0 is one that it
// does not know.
type Lag struct {
	// Live says that it had all that there was, moments ago, and is told of what comes.
	Live bool
	// Why is what is the matter while it is not: with a code, and what to do.
	Why error
	// Ended says that it will not come alive by itself.
	Ended bool
	// Behind is how long ago it was last known to have everything; 0 while it is live.
	Behind time.Duration
	// Heard is how long ago anything was last heard from there.
	Heard time.Duration
	// Waiting is how many events have come and are not in it yet.
	Waiting int
	// Place is how far it is in the log there, in that log's own measure, and LogEnd
	// where that ended when it was last asked; 0: not known. Not all that lies between
	// them is ours.
	Place, LogEnd uint64
	// Unsent is how many commands were begun and wait for the rest of their events to
	// be sent, and Undropped how many bodies have yet to go there:
	// they were taken back, or their events were never recorded.
	Unsent, Undropped int
	// Rebuilding says that it is being made anew beside the one that is read.
	Rebuilding bool

	// Since this process began: how often it connected, how often it ceased to be
	// told, how many appends were tried again, and how many were too late.
	Connected, Dropped, Retried, Conflicts int64
}
