package esdbdouble

// Quirks are how servers of other versions differ, so that a client can be shown
// all that it may meet. The zero value is the newest server known.
type Quirks struct {
	CaughtUp    CaughtUp
	Checkpoints Checkpoints
	Features    FeaturesQuirk

	// Repeats makes a subscription that is resumed tell once more of the event after
	// which it is to begin. No server is known to; that each event comes once is
	// none's promise either.
	Repeats bool

	// NoPosition leaves the place of what was appended out of the answer.
	NoPosition bool
}

// CaughtUp is how a server says that a subscription is live.
type CaughtUp int

const (
	// CaughtUpWithPlace says when, and at which position or revision. Clients
	// that know only the bare form pass over it.
	CaughtUpWithPlace CaughtUp = iota
	// CaughtUpBare says nothing more (23.10 to 24.10.4, and 25.0.0).
	CaughtUpBare
	// CaughtUpNever does not say it (before 23.10).
	CaughtUpNever
)

// Checkpoints are how a filtered subscription says how far it has looked.
type Checkpoints int

const (
	// CheckpointsOfPages name where a page began, a place at or before the last
	// event that was considered: whoever resumes there may look twice, and misses
	// nothing. The prepare position of such a place may be 0.
	CheckpointsOfPages Checkpoints = iota
	// CheckpointsNever come not at all.
	CheckpointsNever
	// CheckpointsParked name the same place again and again once the
	// subscription is live (22.10.0).
	CheckpointsParked
	// CheckpointsAhead name the next event that will be considered, so that one
	// who resumes there never sees it (24.10.0 to 24.10.4, and 25.0.0).
	CheckpointsAhead
	// CheckpointsUnset name the greatest position that there is, by which a
	// resumed subscription begins at the end.
	CheckpointsUnset
)

// FeaturesQuirk is how a server answers when it is asked what it can.
type FeaturesQuirk int

const (
	// FeaturesListed names what it can, and its version.
	FeaturesListed FeaturesQuirk = iota
	// FeaturesUnknown is a server that was not yet asked such things.
	FeaturesUnknown
)
