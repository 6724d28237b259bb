package events

import "errors"

// Proposed is an event that a decision wants appended. The ledger gives it a
// position, a revision and a digest.
type Proposed struct {
	Stream Stream
	ID     EventID
	Actor  Participant // who acted, or noticed
	Cause  Cause
	Event  Event
	// Body is what a person or an agent wrote; it lies beside the event, which
	// holds only its commitment. Nil for an event without one.
	Body *Body
	// Drops names earlier events whose bodies go in the same transaction.
	Drops []EventID
}

// Cause is why an event exists: the command that asked for it, and the event
// that the command answered, if it answered one.
type Cause struct {
	Command CommandID `json:"command"`
	Event   EventID   `json:"event,omitempty"`
}

// Recorded is an event in its place.
type Recorded struct {
	Position Position
	Stream   Stream
	Revision Revision
	ID       EventID
	Time     Time
	High     Time // the latest time up to here: by it the place of a moment is found, whatever the clock did
	Actor    Participant
	Cause    Cause
	Policy   Position // of the policy.adopted event that it was decided under; 0 for the first of them
	Version  int      // of the type's schema
	Data     []byte   // as it is stored; never encoded again
	Digest   Digest
	Event    Event
}

// Type is the recorded event's type, also when this program does not know it.
func (r Recorded) Type() Type { return r.Event.EventType() }

// Batch is what one decision appends to one stream, at the revision that it read.
type Batch struct {
	Stream   Stream
	Expected Revision
	Time     Time
	Policy   Position
	Events   []Proposed
}

// Reader reads a ledger. It sees what was durable when the reading began.
type Reader interface {
	// End is the position of the last event; 0 when there is none.
	End() (Position, error)
	// Head is the revision of the stream's last event, NoStream when it has none.
	Head(Stream) (Revision, error)
	// All gives at most limit events at and after from, in order.
	All(from Position, limit int) ([]Recorded, error)
	// Stream gives at most limit events of one stream at and after from, in order.
	Stream(s Stream, from Revision, limit int) ([]Recorded, error)
	// Event finds an event by its id.
	Event(EventID) (Recorded, bool, error)
	// AsOf is the last position whose running maximum of times is not later
	// than t; 0 when there is none. A clock that went back cannot hide what
	// was recorded before.
	AsOf(t Time) (Position, error)
	// Body reads what lies beside an event; false when it has none, or it went.
	Body(EventID) (Body, bool, error)
	// Alike finds the latest event whose body has this fingerprint and is still there.
	Alike(Fingerprint) (EventID, bool, error)
	// Rows reads the views' rows.
	Rows() Rows
}

// Rows is the ordered map in which a ledger keeps the rows of the views, beside
// its events and in their transaction. It gives keys and values no meaning.
// Keys are compared byte by byte, and none is empty. What was read must not be
// changed in place.
type Rows interface {
	// Get reads a row; nil when there is none.
	Get(key string) ([]byte, error)
	// Scan calls visit with each row whose key begins with prefix and lies
	// after the key after (or, backward, before it; "" begins at the end),
	// until visit returns false. What visit puts or removes ahead of the scan
	// is seen as it then is.
	Scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) error
	// Put writes a row; a nil value removes it.
	Put(key string, value []byte) error
}

// Keeper is what Rows may be besides: a place where the fold keeps what it has
// read of them and written to them, for the rest of the unit of work and for the
// next one of the same ledger. A ledger lets it go when a transaction is not
// committed, or the rows are cleared; that another process wrote in between the
// fold has to see by itself.
type Keeper interface {
	Kept() any // nil when there is nothing
	Keep(any)
}

// Fold is what is kept, where it can go on behind a unit of work that was undone: a
// ledger on which many are, because they were only tried, tells it how each ended.
type Fold interface {
	// Ended says that what was put since the last end is part of the ledger, or undone.
	// It answers whether the fold can go on; else it is let go.
	Ended(undone bool) (goesOn bool)
}

// Projector folds events into the views' rows. A ledger calls it in the
// transaction that appends them, so that a view is never ahead of or behind
// what was recorded.
type Projector func(Rows, []Recorded) error

// Tx is one unit of work: what it read is still so when what it appended
// becomes durable, or none of it happens.
type Tx interface {
	Reader
	// Append puts the batch at the end of its stream. ErrConflict when the
	// stream's head is not the one expected. After any other error the
	// transaction writes nothing more, and Update fails whatever its function
	// returns.
	Append(Batch) ([]Recorded, error)
	// ClearRows removes every row of the views, for a rebuild in the same transaction.
	ClearRows() error
	// Tally adds n to a counter that is no event and no view: how often
	// somebody was refused past the number that is recorded one by one. It
	// gives the new count and the moment of the first; n of 0 only reads.
	Tally(key string, n int, now Time) (count int, since Time, err error)
	// EndTally takes the counter away.
	EndTally(key string) error
}

// Placer is what a Tx may be besides where nobody knows an event's place before it
// is recorded, so that the function is called once more to be told it. One that
// uses nothing of the place but the position says so, and is told by it: now gives
// the position that an event of this unit has for the one that Append gave.
type Placer interface {
	Placed(told func(now func(Position) Position))
}

// Ledger is the append-only sequence of events, with their bodies and the rows
// of the views beside them.
//
// Update has three outcomes. Nil: what was appended is durable, and survives
// the death of the process and of the machine. An error of the caller's
// function, or ErrConflict: nothing was appended. Any other error: unknown; the
// command may have been recorded, and its caller settles it by sending the same
// command id again. Unknown is never reported as "no".
//
// Update may call its function more than once; only the last call counts.
type Ledger interface {
	View(func(Reader) error) error
	Update(func(Tx) error) error
	// Settled calls its function with the last state of the ledger, all of it
	// durable, while nobody can append. It is for what a function does beside
	// the ledger because of what it read there: that is done before anything else
	// is appended, and no commit can fail and undo its reason.
	Settled(func(Reader) error) error
	Close() error
}

// The errors that a ledger's caller tells apart.
var (
	// ErrConflict says that the stream went on since it was read: read again, decide again.
	ErrConflict = errors.New("the stream went on since it was read")
	// ErrUnknown says that nobody can tell whether the append became durable.
	ErrUnknown = errors.New("outcome unknown: send the same command again")
	// ErrNewer says that a newer decklog wrote this ledger.
	ErrNewer = errors.New("the ledger was written by a newer decklog")
	// ErrNoSpace says that the disk is full; nothing was appended.
	ErrNoSpace = errors.New("no space left for the ledger")
	// ErrLocked says that another process holds the ledger longer than anybody should.
	ErrLocked = errors.New("the ledger is held by another process")
	// ErrBusy says that more wait to append than may; nothing was appended.
	ErrBusy = errors.New("too many wait to append to the ledger")
	// ErrReadOnly says that the ledger or its folder cannot be written.
	ErrReadOnly = errors.New("the ledger cannot be written")
	// ErrDamaged says that the file is no ledger, or no longer one.
	ErrDamaged = errors.New("the ledger is damaged")
)
