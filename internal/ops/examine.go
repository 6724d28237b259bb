package ops

import (
	"fmt"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// Examined is what a look at the end of a ledger tells of its health. It is no
// audit: what lies further back only `verify` reads.
type Examined struct {
	Position events.Position
	// Journal is how the ledger's file keeps its journal; empty for one without a file.
	Journal string
	// Cluster is how it stands towards the cluster that it lies in; nil where it lies in
	// none.
	Cluster *projections.ClusterView
	// Namesake is the name of this machine where another one of the ledger goes by it too;
	// else empty.
	Namesake string
	// Outdated says that the views were folded by an older program: the next command
	// folds them anew. Nothing below the tail was looked at then. It is not called
	// stale, which every answer may say of itself.
	Outdated bool
	Checked  int     // events of the tail
	Faults   []Fault // found in the tail
	// Ahead is how many events of the tail were recorded at a later time than
	// this moment, and by how much the latest.
	Ahead    int
	AheadMax int64 // microseconds
	Policy   *events.Policy
	// Caller is who asks; Nobody, instead, why nobody can tell.
	Caller  commands.Caller
	Session *projections.Session
	Nobody  *commands.Refusal
	Heard   map[string]*Heard // by harness
}

// Heard is what the ledger and the notes beside it tell of a harness.
type Heard struct {
	Run      events.Time // of its last hook, as far as anything was noted; 0: never
	Delivery events.Time // the last that a hook confirmed; 0: none in the tail
	Live     int         // sessions
}

// TailMax is how far back an examination looks.
const TailMax = 5000

// Examine looks at the end of the ledger. It changes nothing, not even views that
// are outdated.
func (o *Ops) Examine(a Asker) (x Examined, err error) {
	err = o.Ledger.View(func(r events.Reader) error {
		x = Examined{Journal: o.journal(), Cluster: o.cluster(), Namesake: o.namesake(), Faults: []Fault{}, Heard: map[string]*Heard{}}
		v := &examination{Examined: &x, reading: &reading{Ops: o, r: r, s: projections.On(r.Rows()), now: o.World.Now()}}
		return v.look(a)
	})
	if err != nil {
		return Examined{Journal: o.journal(), Cluster: o.cluster()}, fmt.Errorf("examine the ledger: %w", err)
	}
	return x, nil
}

func (o *Ops) namesake() string {
	if f := o.World.Fleet; f != nil && f.namesake(o.World.Now()) != nil {
		return f.World.Device
	}
	return ""
}

func (o *Ops) journal() string {
	if mode, is := o.Ledger.(interface{ JournalMode() string }); is {
		return mode.JournalMode()
	}
	return ""
}

type examination struct {
	*Examined
	*reading
	leases map[events.LeaseID]string // the harness of those that hooks took
	heads  map[events.Stream]head
}

func (v *examination) look(a Asker) error {
	end, err := v.r.End()
	if err != nil {
		return err
	}
	v.Position = end
	if v.s.Fold() > projections.FoldVersion {
		return fmt.Errorf("read the views: %w", events.ErrNewer)
	}
	v.Outdated = end > 0 && v.s.Fold() < projections.FoldVersion
	if !v.Outdated && v.s.Position() != end {
		v.fault(end, "the views end at position %d", v.s.Position())
	}
	if err := v.tail(max(1, end-TailMax+1), end); err != nil || v.Outdated {
		return err
	}
	if adopted := v.s.Policy(); adopted != nil {
		v.Policy = &adopted.Policy
	}
	policy, err := v.policy()
	if err != nil {
		policy = events.DefaultPolicy() // that the file is bad is told for itself
	}
	v.Caller, v.Nobody = v.identify(v.s, policy, a, v.now)
	v.Session = v.s.Session(v.Caller.ID.Session())
	v.sessions()
	return v.s.Err()
}

func (v *examination) fault(at events.Position, format string, args ...any) {
	if len(v.Faults) < FaultsMax {
		v.Faults = append(v.Faults, Fault{Position: at, What: fmt.Sprintf(format, args...)})
	}
}

// tail reads the last events: whether they lie without a gap and chain in their
// streams, and what they tell of harnesses and clocks.
func (v *examination) tail(from, end events.Position) error {
	v.leases, v.heads = map[events.LeaseID]string{}, map[events.Stream]head{}
	for from <= end {
		found, err := v.r.All(from, page)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			v.fault(from, "events are missing up to position %d", end)
			return nil
		}
		for _, e := range found {
			if e.Position != from {
				v.fault(from, "the next event has position %d", e.Position)
			}
			from = e.Position + 1
			v.Checked++
			v.chains(e)
			v.clock(e)
			v.hear(e)
		}
	}
	return nil
}

func (v *examination) chains(e events.Recorded) {
	before, known := v.heads[e.Stream]
	switch {
	case !known && e.Revision > 0: // the one before it lies further back
	case known && e.Revision != before.revision+1:
		v.fault(e.Position, "revision %d of stream %s follows revision %d", e.Revision, e.Stream, before.revision)
	case e.Chain(before.digest) != e.Digest:
		v.fault(e.Position, "the digest is not that of the event and of the one before it in stream %s", e.Stream)
	}
	v.heads[e.Stream] = head{e.Revision, e.Digest}
}

func (v *examination) clock(e events.Recorded) {
	if by := e.Time - v.now; by > 0 {
		v.Ahead++
		v.AheadMax = max(v.AheadMax, int64(by))
	}
}

func (v *examination) heard(harness string) *Heard {
	if v.Heard[harness] == nil {
		v.Heard[harness] = &Heard{}
	}
	return v.Heard[harness]
}

// byHand are the hooks' names under which people and adapters lease.
var byHand = map[string]bool{"": true, "lease": true, "wait": true}

func (v *examination) hear(e events.Recorded) {
	switch ev := e.Event.(type) {
	case events.SessionJoined:
		if ev.Source != events.SourceManual {
			h := v.heard(ev.Harness)
			h.Run = max(h.Run, e.Time)
		}
	case events.MailboxLeased:
		if !byHand[ev.Hook] {
			v.leases[ev.Lease] = ev.Harness
		}
	case events.MailboxConfirmed:
		if harness, is := v.leases[ev.Lease]; is {
			h := v.heard(harness)
			h.Delivery = max(h.Delivery, e.Time)
			h.Run = max(h.Run, e.Time)
		}
	}
}

// sessions adds what was noted of those that are live.
func (v *examination) sessions() {
	look := v.call("", commands.Caller{}).Look
	for _, row := range v.s.LiveSessions() {
		observed := look(row)
		h := v.heard(row.Harness)
		if commands.PresenceOf(row, observed, v.now).Live {
			h.Live++
		}
		if observed.Seen != nil {
			h.Run = max(h.Run, *observed.Seen)
		}
	}
}
