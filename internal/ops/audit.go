package ops

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// Audited is what an audit of the whole ledger found.
type Audited struct {
	OK       bool            `json:"ok"`
	Position events.Position `json:"position"` // of the last event
	Checked  int             `json:"checked"`  // events
	Faults   []Fault         `json:"faults"`
	// Digest is of all rows of the views, as a rebuild gives it; empty when not all
	// could be compared. Events is of all events with their places. Where two machines
	// share a ledger both are the same on both, up to the same position.
	Digest string `json:"digest"`
	Events string `json:"events"`
}

// Fault is one thing that is not as it was written.
type Fault struct {
	Position events.Position `json:"position"`
	What     string          `json:"what"`
}

// FaultsMax bounds how many faults an audit names; one is enough to distrust a ledger.
const FaultsMax = 100

// Verify checks that positions and revisions have no gaps, that every event's
// digest is that of its bytes and of the event before it in its stream, that
// every body opens its commitment or was taken back, that what an event or an
// equal message is found by is right, that the ledger's own storage is sound,
// and that the views are what the events make of them.
func (o *Ops) Verify() (Audited, error) {
	a := auditor{
		Ops: o, Audited: Audited{Faults: []Fault{}}, memory: rows.New(),
		read: sha256.New(), heads: map[events.Stream]head{}, broken: map[events.Stream][]events.Position{}, bodies: map[events.EventID]owner{},
	}
	a.s = projections.On(a.memory)
	if err := o.refoldOld(); err != nil {
		return a.Audited, err
	}
	var end events.Position
	if err := o.Ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err }); err != nil {
		return a.Audited, err
	}
	// The bulk in pages, each with a snapshot of its own; what came meanwhile,
	// and the views, in one snapshot.
	for a.Position < end {
		err := o.Ledger.View(func(r events.Reader) error { return a.page(r) })
		if err != nil {
			return a.Audited, err
		}
		o.progress("verify", a.Position, end)
	}
	err := o.Ledger.View(func(r events.Reader) error {
		end, err := r.End()
		if err != nil {
			return err
		}
		for a.Position < end {
			if err := a.page(r); err != nil {
				return err
			}
		}
		a.missingBodies()
		if err := a.storage(r); err != nil {
			return err
		}
		return a.views(r.Rows())
	})
	slices.SortStableFunc(a.Faults, func(x, y Fault) int { return int(x.Position - y.Position) })
	a.OK = len(a.Faults) == 0
	a.Audited.Events = hex.EncodeToString(a.read.Sum(nil))
	return a.Audited, err
}

// refoldOld folds the views anew where an older version of the folds made them:
// those are old, not wrong.
func (o *Ops) refoldOld() error {
	old := false
	err := o.Ledger.View(func(r events.Reader) error {
		checkpoint, err := projections.ReadCheckpoint(r.Rows())
		old = err == nil && checkpoint.Position > 0 && checkpoint.Fold < projections.FoldVersion
		return nil // one that cannot be read is found with the other rows
	})
	if err == nil && old {
		_, err = o.Rebuild()
	}
	return err
}

type auditor struct {
	*Ops
	Audited
	s      *projections.State
	memory *rows.Rows
	read   hash.Hash   // of the events' digests, in the order of their positions
	high   events.Time // the latest time so far
	heads  map[events.Stream]head
	broken map[events.Stream][]events.Position // where its chain does not hold
	bodies map[events.EventID]owner            // that are not there, by the event they belong to
}

type head struct {
	revision events.Revision
	digest   events.Digest
}

type owner struct {
	position events.Position
	stream   events.Stream
	of       string
}

// fault keeps a fault. Of too many the first stay: of what is wrong, that counts
// where it begins.
func (a *auditor) fault(at events.Position, format string, args ...any) {
	if len(a.Faults) == FaultsMax {
		last := 0
		for i := range a.Faults {
			if a.Faults[i].Position > a.Faults[last].Position {
				last = i
			}
		}
		if a.Faults[last].Position <= at {
			return
		}
		a.Faults = slices.Delete(a.Faults, last, last+1)
	}
	a.Faults = append(a.Faults, Fault{Position: at, What: fmt.Sprintf(format, args...)})
}

func (a *auditor) page(r events.Reader) error {
	if err := a.still(); err != nil {
		return err
	}
	found, err := r.All(a.Position+1, page)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		end, err := r.End()
		a.fault(a.Position+1, "events are missing up to position %d", end)
		a.Position = end
		return err
	}
	for _, e := range found {
		if e.Position != a.Position+1 {
			a.fault(a.Position+1, "the next event has position %d", e.Position)
		}
		a.Position = e.Position
		a.Checked++
		if err := a.event(r, e); err != nil {
			return err
		}
	}
	return a.s.Err()
}

func (a *auditor) event(r events.Reader, e events.Recorded) error {
	before, known := a.heads[e.Stream]
	if !known {
		before.revision = events.NoStream
	}
	if e.Revision != before.revision+1 {
		a.fault(e.Position, "revision %d of stream %s follows revision %d", e.Revision, e.Stream, before.revision)
	}
	if a.Checked == 1 {
		a.high = e.Time
	}
	if a.high = max(a.high, e.Time); e.High != a.high {
		a.fault(e.Position, "the latest time up to here is %s, not %s", a.high, e.High)
		a.high = min(a.high, e.High) // one that is wrong makes none of the next so
	}
	if e.Revision != before.revision+1 || e.Chain(before.digest) != e.Digest {
		a.broken[e.Stream] = append(a.broken[e.Stream], e.Position)
	}
	if e.Chain(before.digest) != e.Digest {
		a.fault(e.Position, "the digest is not that of the event and of the one before it in stream %s", e.Stream)
	}
	a.heads[e.Stream] = head{e.Revision, e.Digest}
	a.read.Write(e.Digest[:])
	if _, unread := e.Event.(events.Unknown); unread { // of a newer program, or damaged
		if _, err := events.Decode(e.Type(), e.Version, e.Data); err != nil {
			a.fault(e.Position, "%v", err)
		}
	}
	a.s.Apply(e)
	switch ev := e.Event.(type) {
	case events.MessageSent:
		return a.body(r, e, "message "+string(ev.Message), ev.Body, func(b events.Body) events.Fingerprint { return commands.Fingerprint(ev, b.Text) })
	case events.MessageEdited:
		return a.body(r, e, "message "+string(ev.Message), ev.Body, unlike)
	case events.PayloadAttached:
		return a.body(r, e, "message "+string(ev.Message), ev.Payload, unlike)
	case events.HandoffOffered:
		return a.body(r, e, "hand-off "+string(ev.Handoff), ev.Reason, unlike)
	case events.HandoffDeclined:
		if ev.Reason != nil {
			return a.body(r, e, "hand-off "+string(ev.Handoff), *ev.Reason, unlike)
		}
	case events.OwedClosed:
		if ev.Reason != nil {
			return a.body(r, e, "item "+ev.Item, *ev.Reason, unlike)
		}
	case events.MessageDeleted:
		for _, id := range ev.Bodies {
			delete(a.bodies, id)
		}
	}
	return nil
}

// unlike is what tells a body from others by which no message is found.
func unlike(events.Body) (none events.Fingerprint) { return none }

func (a *auditor) body(r events.Reader, e events.Recorded, of string, ref events.BodyRef, alike func(events.Body) events.Fingerprint) error {
	body, there, err := r.Body(e.ID)
	switch {
	case err != nil:
		return err
	case !there:
		a.bodies[e.ID] = owner{e.Position, e.Stream, of}
	case !body.Opens(ref):
		a.fault(e.Position, "the body of %s is not the one that was committed to", of)
	case body.Fingerprint != alike(body):
		a.fault(e.Position, "what tells %s from another is not of its body", of)
	}
	return nil
}

// missingBodies names the bodies that are gone without a reason: where an event
// that is not as it was written may have given it, there; else at the message.
func (a *auditor) missingBodies() {
next:
	for _, o := range a.bodies {
		for _, at := range a.broken[o.stream] {
			if at > o.position {
				a.fault(at, "it may have said why the body of %s, at position %d, is gone", o.of, o.position)
				continue next
			}
		}
		a.fault(o.position, "the body of %s is gone, and no event says why", o.of)
	}
}

// selfChecking is a reader whose ledger keeps what it finds events by apart from
// the events: it says where the two differ.
type selfChecking interface {
	Check() (wrong []string, err error)
}

// storage lets the ledger check what reading every event does not touch: an
// index that lost one would hide it from whoever asks for it by its id.
func (a *auditor) storage(r events.Reader) error {
	c, is := r.(selfChecking)
	if !is {
		return nil
	}
	wrong, err := c.Check()
	for _, what := range wrong {
		a.fault(a.Position, "the file: %s", what)
	}
	return err
}

// views compares the stored rows with those that the events make, and takes each
// of these away, so that what is left is what the views lack.
func (a *auditor) views(stored events.Rows) error {
	if err := a.s.Flush(); err != nil {
		return err
	}
	var failed error
	looked, digest := 0, newRowsDigest()
	err := stored.Scan("", "", false, func(k string, v []byte) bool {
		digest.add(k, v)
		if looked++; looked%page == 0 {
			if failed = a.still(); failed != nil {
				return false
			}
		}
		want, err := a.memory.Get(k)
		switch {
		case err != nil:
		case want == nil:
			a.fault(a.Position, "the views have a row %q that no event explains", k)
		default:
			if !bytes.Equal(want, v) {
				a.fault(a.Position, "the views' row %q is not what the events make of it", k)
			}
			err = a.memory.Put(k, nil)
		}
		failed = err
		return err == nil && len(a.Faults) < FaultsMax
	})
	if err = errors.Join(err, failed); err != nil || len(a.Faults) >= FaultsMax {
		return err
	}
	a.Digest = digest.String()
	return a.memory.Scan("", "", false, func(k string, _ []byte) bool {
		a.fault(a.Position, "the views lack the row %q", k)
		return len(a.Faults) < FaultsMax
	})
}

// Rebuilt is what a rebuild made.
type Rebuilt struct {
	Position events.Position `json:"position"`
	Rows     int             `json:"rows"`
	Digest   string          `json:"digest"` // SHA-256 of all rows
}

// apart is a ledger that makes its views anew beside those that are read meanwhile,
// from where its events are recorded.
type apart interface {
	Rebuild(tell func(done, end events.Position) error) error
}

// Rebuild throws the views away and makes them anew: nobody sees them half made. They
// are folded from the events, in one transaction; what a cluster has is read from
// there, events and all, and ends when nobody waits for it any more.
func (o *Ops) Rebuild() (built Rebuilt, err error) {
	if l, is := o.Ledger.(apart); is {
		err = l.Rebuild(func(done, end events.Position) error {
			o.progress("rebuild", done, end)
			return o.still()
		})
		if err != nil {
			return built, err
		}
		err = o.Ledger.View(func(r events.Reader) error {
			if built.Position, err = r.End(); err != nil {
				return err
			}
			return built.count(r.Rows())
		})
		return built, err
	}
	err = o.Ledger.Update(func(tx events.Tx) (err error) {
		built, err = o.rebuild(tx)
		return err
	})
	if err != nil {
		return built, fmt.Errorf("rebuild: %w", err)
	}
	return built, nil
}

func (o *Ops) rebuild(tx events.Tx) (built Rebuilt, err error) {
	if err := tx.ClearRows(); err != nil {
		return built, err
	}
	end, err := tx.End()
	if err != nil {
		return built, err
	}
	s := projections.Anew(tx.Rows())
	for from := events.Position(1); from <= end; {
		found, err := tx.All(from, page)
		if err != nil || len(found) == 0 {
			return built, err
		}
		for _, r := range found {
			s.Apply(r)
		}
		from = found[len(found)-1].Position + 1
		o.progress("rebuild", from-1, end)
	}
	if err := s.Flush(); err != nil {
		return built, err
	}
	built.Position = end
	return built, built.count(tx.Rows())
}

// count adds what the rows are.
func (b *Rebuilt) count(rows events.Rows) error {
	digest := newRowsDigest()
	err := rows.Scan("", "", false, func(k string, v []byte) bool {
		b.Rows++
		digest.add(k, v)
		return true
	})
	b.Digest = digest.String()
	return err
}

// rowsDigest is SHA-256 of rows of the views, in the order of their keys.
type rowsDigest struct {
	hash.Hash
	row []byte
}

func newRowsDigest() *rowsDigest { return &rowsDigest{Hash: sha256.New()} }

func (d *rowsDigest) add(k string, v []byte) {
	row := append(strconv.AppendInt(d.row[:0], int64(len(k)), 10), ' ')
	row = append(append(row, k...), ' ')
	row = append(strconv.AppendInt(row, int64(len(v)), 10), ' ')
	d.row = append(row, v...)
	d.Write(d.row)
}

func (d *rowsDigest) String() string { return hex.EncodeToString(d.Sum(nil)) }
