package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"decklog/events"
	"decklog/internal/sqlite"
)

// A command may append to several streams: a lease takes from a seat's mailbox
// and lends in the session's own. In one database that is one transaction. Here it
// is several appends, and whoever asks by the command's id sees it recorded as
// soon as the first is. So once the first is recorded the rest has to follow, also
// when the process died in between: before the first is sent, all of it is noted in
// the mirror's file, and what is left of it is sent by whoever opens that next.
//
// The first stream's rules are strict, since it is appended to at the revision
// that the decision saw. What follows goes behind whatever came there meanwhile.
// Where the file is lost too, half a command stays: later runs mend it as they
// mend what a crash leaves (ADR 0001).

const (
	outKey  = "out/"
	dropKey = "drop/"
)

// waiting is an entry of the outbox.
type waiting struct {
	Batches []waitingBatch `json:"batches"`
}

type waitingBatch struct {
	Stream   events.Stream   `json:"stream"`
	Expected events.Revision `json:"expected"`
	Time     events.Time     `json:"time"`
	Policy   events.Position `json:"policy"`
	Events   []waitingEvent  `json:"events"`
}

type waitingEvent struct {
	ID      events.EventID     `json:"id"`
	Actor   events.Participant `json:"actor"`
	Cause   events.Cause       `json:"cause"`
	Type    events.Type        `json:"type"`
	Version int                `json:"version"`
	Data    []byte             `json:"data"`
	Body    *events.Body       `json:"body,omitempty"`
	Drops   []events.EventID   `json:"drops,omitempty"`
}

// putOut notes what is about to be sent where it would be no whole without its end.
func (u *unit) putOut(out []outgoing) error {
	whole := u.outbox == "" // else an entry of the same command is there already
	for i := range out {
		whole = whole && !begun(out, i)
	}
	if whole {
		return nil
	}
	var w waiting
	for _, o := range out {
		b := waitingBatch{Stream: o.stream, Expected: o.expected, Time: o.recorded[0].Time, Policy: o.recorded[0].Policy}
		for i, p := range o.proposed {
			r := o.recorded[i]
			b.Events = append(b.Events, waitingEvent{
				ID: p.ID, Actor: p.Actor, Cause: p.Cause, Type: r.Type(), Version: r.Version, Data: r.Data, Body: p.Body, Drops: p.Drops,
			})
		}
		w.Batches = append(w.Batches, b)
	}
	noted, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("note what is sent: %w", err)
	}
	u.outbox = outKey + string(out[0].proposed[0].ID)
	u.noted = out
	u.halve(w.ids())
	if err := u.l.note(u.outbox, noted); err != nil {
		u.done()
		return err
	}
	return nil
}

func (w waiting) ids() (ids []events.EventID) {
	for _, b := range w.Batches {
		for _, e := range b.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// done takes the entry away: all of it is recorded, or nothing that counts.
func (u *unit) done() {
	if u.outbox == "" {
		return
	}
	_ = u.l.note(u.outbox, nil) // else it is found done by who looks next
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	if whole := u.l.halves[u.first()]; whole != nil {
		maps.DeleteFunc(u.l.halves, func(_ events.EventID, of chan struct{}) bool { return of == whole })
		close(whole)
	}
	u.outbox = ""
}

// first is the first event of the entry.
func (u *unit) first() events.EventID { return events.EventID(u.outbox[len(outKey):]) }

// halve notes of which events the entry is: none of them stands for its command
// before all are recorded.
func (u *unit) halve(ids []events.EventID) {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	whole := u.l.halves[u.first()]
	if whole == nil {
		whole = make(chan struct{})
	}
	for _, id := range ids {
		u.l.halves[id] = whole
	}
}

// waitsFor says whether an event is of a command that is not wholly recorded. Who
// gives that command again is answered when it is: else the answer would promise
// what only this machine knows of.
func (u *unit) waitsFor(id events.EventID) bool {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	whole := u.l.halves[id]
	if whole != nil {
		u.blocked, u.half = whole, true
	}
	return whole != nil
}

// drift leaves the entry, if there is one, to tidy. Until it is known what became of
// it the unit stays in the way of others: what comes after it must not be recorded
// before its end. Only the same command, given again, may take its place.
func (u *unit) drift() {
	if u.outbox == "" {
		return
	}
	u.l.mu.Lock()
	u.since, u.adrift = time.Now(), true
	u.l.adrift[u.outbox] = u
	u.l.mu.Unlock()
	u.l.stir()
}

// inherit takes the place of what is left of the same command; false while tidy is
// at it. The caller holds the lock.
func (u *unit) inherit() bool {
	if u.before == nil {
		return true
	}
	if !u.before.adrift || u.before.resumed {
		u.blocked = u.before.over
		return false
	}
	u.outbox, u.before.adrift = u.before.outbox, false
	delete(u.l.adrift, u.outbox)
	u.before.ground()
	return true
}

// remember finds what a dead process left.
func (l *Ledger) remember() error {
	left, err := l.notes(outKey)
	if err != nil {
		return err
	}
	for key, noted := range left {
		u := &unit{l: l, outbox: key}
		var w waiting
		if json.Unmarshal(noted, &w) == nil {
			u.noted = w.outgoing()
		}
		if len(u.noted) == 0 {
			u.done() // nobody can read it
			continue
		}
		u.out = u.noted
		u.halve(w.ids())
		u.fly()
		u.drift()
	}
	return nil
}

// note keeps something in the mirror's file.
func (l *Ledger) note(key string, value []byte) error {
	return l.writing(func(m sqlite.Mirror) error { return m.Note(key, value) })
}

// writing is a transaction of the mirror.
func (l *Ledger) writing(do func(sqlite.Mirror) error) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror.Update(func(tx events.Tx) error { return do(tx.(sqlite.Mirror)) })
}

// bringing is a transaction of the mirror that others wait for.
func (l *Ledger) bringing(do func(sqlite.Mirror) error) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	return l.mirror.Bring(do)
}

func (l *Ledger) notes(prefix string) (found map[string][]byte, err error) {
	found = map[string][]byte{}
	err = l.writing(func(m sqlite.Mirror) error {
		return m.Notes(prefix, func(key string, value []byte) { found[key] = value })
	})
	return found, err
}

// drop has streams of bodies go for ever.
func (l *Ledger) drop(streams []string) {
	if len(streams) == 0 {
		return
	}
	_ = l.writing(func(m sqlite.Mirror) error {
		for _, stream := range streams {
			if err := m.Note(dropKey+stream, []byte{}); err != nil {
				return err
			}
		}
		return nil
	})
	l.stir()
}

// stir has the chores looked at.
func (l *Ledger) stir() {
	select {
	case l.chores <- struct{}{}:
	default:
	}
}

// tidy does what is left to do beside the updates: bodies that have to go, and
// what dead processes left half sent. It looks when it is stirred, each time that
// the mirror has caught up, and again after what it could not do.
func (l *Ledger) tidy() {
	for {
		select {
		case <-l.chores:
		case <-l.life.Done():
			return
		}
		err := l.dropBodies()
		if err == nil {
			err = l.resume()
		}
		if err != nil {
			again := time.AfterFunc(l.bounds.look, l.stir)
			context.AfterFunc(l.life, func() { again.Stop() })
		}
	}
}

func (l *Ledger) dropBodies() error {
	streams, err := l.notes(dropKey)
	for key := range streams {
		ctx, cancel := context.WithTimeout(l.life, l.bounds.attempt)
		err := l.fence.tombstone(ctx, l.address.Prefix+key[len(dropKey):])
		cancel()
		if err == nil {
			err = l.note(key, nil)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// resume sends what is left of the units whose process died, or which gave up.
func (l *Ledger) resume() error {
	l.mu.Lock()
	left := slices.Collect(maps.Values(l.adrift))
	l.mu.Unlock()
	var failed error
	for _, u := range left {
		l.mu.Lock()
		u.resumed = u.adrift
		mine := u.resumed
		l.mu.Unlock()
		if !mine {
			continue // the command was given again
		}
		work := &unit{l: l, landed: map[events.EventID]events.Recorded{}, bodies: map[string]bool{}, out: slices.Clone(u.noted)}
		err := work.resume(u.since)
		l.mu.Lock()
		u.resumed, u.adrift = false, err != nil
		if err == nil {
			delete(l.adrift, u.outbox)
		}
		l.mu.Unlock()
		switch {
		case err == nil:
			u.done()
			u.release()
		case !errors.Is(err, errEarly):
			failed = errors.Join(failed, err) // and none of the others waits for it
		}
	}
	return failed
}

// errEarly says that what was sent last may yet be recorded.
var errEarly = errors.New("too early to tell")

// lateAfter is how many times as long as one try an append that was sent can take
// to be recorded or never. The server keeps to its deadline.
const lateAfter = 3

func (u *unit) resume(since time.Time) error {
	all := u.out
	u.l.await(all)
	defer u.l.forget(all)
	recorded := make([]bool, len(all))
	err := u.l.View(func(r events.Reader) error {
		for i, o := range all {
			_, there, err := r.Event(o.proposed[0].ID)
			if err != nil {
				return err
			}
			recorded[i] = there
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !slices.Contains(recorded, true) {
		if wait := lateAfter*u.l.bounds.attempt - time.Since(since); wait > 0 {
			time.AfterFunc(wait, u.l.stir)
			return errEarly
		}
	}
	for i := range all {
		if recorded[i] {
			continue
		}
		if !slices.Contains(recorded[:i], true) || !begun(all, i) {
			// Nobody was told of it. Its bodies are of nothing.
			for _, p := range all[i].proposed {
				if p.Body != nil {
					u.bodies[bodyStream(p.ID, bodyShort(*p.Body))] = false
				}
			}
			continue
		}
		if err := u.sendBodies(all[i]); err != nil {
			return err
		}
		err := u.append(all[i])
		for try := range triesMax {
			if !errors.Is(err, errMoved) {
				break
			}
			u.l.yield(try)
			head, caught := u.l.catchUp(all[i].stream)
			if caught != nil {
				return caught
			}
			if u.l.arrived(all[i]) {
				err = nil
				break
			}
			if all[i], err = all[i].moved(head); err == nil {
				err = u.append(all[i])
			}
		}
		if err == nil {
			_, err = u.land(all[i : i+1])
		}
		if err != nil {
			return err
		}
		recorded[i] = true
	}
	u.dropOrphans()
	return nil
}

// outgoing are the appends of an entry; none when one cannot be read.
func (w waiting) outgoing() (all []outgoing) {
	for _, b := range w.Batches {
		o, err := b.outgoing()
		if err != nil {
			return nil
		}
		all = append(all, o)
	}
	return all
}

func (b waitingBatch) outgoing() (outgoing, error) {
	batch := events.Batch{Stream: b.Stream, Expected: b.Expected, Time: b.Time, Policy: b.Policy}
	var recorded []events.Recorded
	for i, e := range b.Events {
		event, _ := events.Decode(e.Type, e.Version, e.Data)
		batch.Events = append(batch.Events, events.Proposed{
			Stream: b.Stream, ID: e.ID, Actor: e.Actor, Cause: e.Cause, Event: event, Body: e.Body, Drops: e.Drops,
		})
		recorded = append(recorded, events.Recorded{
			Stream: b.Stream, Revision: b.Expected + 1 + events.Revision(i), ID: e.ID, Time: b.Time, Actor: e.Actor, Cause: e.Cause,
			Policy: b.Policy, Version: e.Version, Data: e.Data, Event: event,
		})
	}
	return encode(batch, recorded)
}
