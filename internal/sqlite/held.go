package sqlite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
)

// held is what the transaction of a mirror has appended. It lies in memory, is
// read as if the file had it, and goes with the transaction: what is appended to
// a mirror is only ever tried, to see what would come of it. So SQLite is given
// nothing that it would have to take back.
type held struct {
	events  []events.Recorded // behind the file's last, in their order
	bodies  map[events.EventID]*events.Body
	dropped map[events.EventID]bool
	absent  events.EventID // was asked for last, and is not in the file: who appends asks first
}

// errTried says that a mirror was to keep what was appended to it.
var errTried = errors.New("what is appended to a mirror is only tried: it comes from what is mirrored")

// hold appends an event to what is held.
func (t *tx) hold(r events.Recorded, p events.Proposed) error {
	h := &t.held
	there := slices.ContainsFunc(h.events, func(e events.Recorded) bool { return e.ID == r.ID })
	if !there && h.absent != r.ID {
		var err error
		if there, err = t.recorded(r.ID); err != nil {
			return err
		}
	}
	if there {
		return fmt.Errorf("event id %q is not new", r.ID)
	}
	h.events = append(h.events, r)
	if b := p.Body; b != nil {
		if h.bodies == nil {
			h.bodies = map[events.EventID]*events.Body{}
		}
		h.bodies[r.ID] = b
	}
	for _, id := range p.Drops {
		if h.dropped == nil {
			h.dropped = map[events.EventID]bool{}
		}
		h.dropped[id] = true
	}
	t.last, t.high = r.Position, r.High
	t.appended++
	return nil
}

// recorded says whether the file has an event of this id.
func (r *reader) recorded(id events.EventID) (there bool, err error) {
	err = r.query("event "+string(id), func(*sqlite3.Stmt) { there = true }, `SELECT 1 FROM events WHERE id = ?`, string(id))
	return there, err
}

// holds says whether the transaction has appended anything that only it knows.
func (t *tx) holds() bool { return len(t.held.events) > 0 && t.c != nil }

func (t *tx) End() (events.Position, error) {
	if t.holds() {
		return t.last, nil
	}
	return t.reader.End()
}

func (t *tx) All(from events.Position, limit int) ([]events.Recorded, error) {
	page, err := t.reader.All(from, limit)
	return t.withHeld(page, limit, err, func(r events.Recorded) bool { return r.Position >= from })
}

func (t *tx) Stream(stream events.Stream, from events.Revision, limit int) ([]events.Recorded, error) {
	page, err := t.reader.Stream(stream, from, limit)
	return t.withHeld(page, limit, err, func(r events.Recorded) bool { return r.Stream == stream && r.Revision >= from })
}

// withHeld puts what is held behind a page of the file's.
func (t *tx) withHeld(page []events.Recorded, limit int, err error, wanted func(events.Recorded) bool) ([]events.Recorded, error) {
	if err != nil || !t.holds() {
		return page, err
	}
	for _, r := range t.held.events {
		if len(page) < limit && wanted(r) {
			page = append(page, r)
		}
	}
	return page, nil
}

func (t *tx) Event(id events.EventID) (events.Recorded, bool, error) {
	if t.holds() {
		for _, r := range t.held.events {
			if r.ID == id {
				return r, true, nil
			}
		}
	}
	r, there, err := t.reader.Event(id)
	if err == nil && !there {
		t.held.absent = id
	}
	return r, there, err
}

func (t *tx) AsOf(at events.Time) (events.Position, error) {
	if t.holds() {
		for _, r := range slices.Backward(t.held.events) {
			if r.High <= at {
				return r.Position, nil
			}
		}
		return t.reader.asOf(at, t.held.events[0].Position-1)
	}
	return t.reader.AsOf(at)
}

func (t *tx) Body(id events.EventID) (events.Body, bool, error) {
	if t.holds() {
		if t.held.dropped[id] {
			return events.Body{}, false, nil
		}
		if b := t.held.bodies[id]; b != nil {
			return *b, true, nil
		}
	}
	return t.reader.Body(id)
}

func (t *tx) Alike(f events.Fingerprint) (id events.EventID, found bool, err error) {
	if !t.holds() {
		return t.reader.Alike(f)
	}
	for _, r := range slices.Backward(t.held.events) {
		if b := t.held.bodies[r.ID]; b != nil && b.Fingerprint == f && !t.held.dropped[r.ID] {
			return r.ID, true, nil
		}
	}
	if len(t.held.dropped) == 0 {
		return t.reader.Alike(f)
	}
	err = t.query("bodies alike", func(s *sqlite3.Stmt) {
		if one := events.EventID(s.ColumnText(0)); !found && !t.held.dropped[one] {
			id, found = one, true
		}
	}, `SELECT id FROM bodies JOIN events USING (position) WHERE fingerprint = ? ORDER BY position DESC`, f[:])
	return id, found, err
}
