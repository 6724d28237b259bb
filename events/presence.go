package events

// Process identifies one run of a program: a pid that was used again has
// another start time, and after a restart of the machine another boot.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, as the kernel has it
	Boot  string `json:"boot"`  // the kernel's boot id
	// Space is the number of the pid namespace in which it has this pid; zero is
	// the machine's own. From within another one it cannot be seen.
	Space uint64 `json:"space,omitempty"`
}

// Source is why a session joined, as its harness says it.
type Source string

// The sources. A session that joins again by SourceCompact or SourceClear has
// lost its context, and is owed the standing instruction again.
const (
	SourceStartup Source = "startup"
	SourceResume  Source = "resume"
	SourceClear   Source = "clear"
	SourceCompact Source = "compact"
	SourceFork    Source = "fork"
	SourceManual  Source = "manual" // by `decklog join`, a test, or over HTTP
)

// SessionJoined says that a session takes part from now on; for one that had
// left, that it was resumed.
type SessionJoined struct {
	Session SessionID `json:"session"`
	Harness string    `json:"harness,omitempty"`
	Source  Source    `json:"source"`
	Cwd     string    `json:"cwd,omitempty"`
	Repo    string    `json:"repo,omitempty"` // the repository's root, symbolic links resolved
	Branch  string    `json:"branch,omitempty"`
	Title   string    `json:"title,omitempty"`
	Person  string    `json:"person,omitempty"` // whose process it is
	Device  string    `json:"device"`           // the machine's host name
	// Process is the harness that runs the session; nil when none was found, and
	// then the session is live until it leaves or was long not seen.
	Process    *Process `json:"process,omitempty"`
	Transcript string   `json:"transcript,omitempty"`
}

// EndReason is why a session left.
type EndReason string

// The reasons.
const (
	EndLeft        EndReason = "left"         // it said so
	EndCleared     EndReason = "cleared"      // another session follows in the same process
	EndProcessGone EndReason = "process_gone" // its process ended
	EndUnseen      EndReason = "unseen"       // it has no process, and was not seen for 12 h
)

// SessionLeft says that a session ended.
type SessionLeft struct {
	Session SessionID `json:"session"`
	Reason  EndReason `json:"reason"`
}

// Protocol is the version of the rules that this program's seats follow.
const Protocol = 5

// SeatTaken says that a session occupies a seat from now on.
type SeatTaken struct {
	Seat     string    `json:"seat"`
	Session  SessionID `json:"session"`
	Protocol int       `json:"protocol"`
	From     SessionID `json:"from,omitempty"` // who occupied it before, and is live no more
}

// SeatLeft says that a seat is free again.
type SeatLeft struct {
	Seat    string    `json:"seat"`
	Session SessionID `json:"session"`
	Reason  EndReason `json:"reason"`
}
