package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	whole := true
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
	u.l.mu.Lock()
	u.l.owned[u.outbox] = true
	u.l.mu.Unlock()
	return u.l.note(u.outbox, noted)
}

// done takes the entry away: all of it is recorded, or nothing that counts.
func (u *unit) done() {
	if u.outbox != "" {
		_ = u.l.note(u.outbox, nil) // else it is found done by who looks next
	}
}

// takeBack lets others look at what is left of the entry.
func (u *unit) takeBack() {
	if u.outbox == "" {
		return
	}
	u.l.mu.Lock()
	delete(u.l.owned, u.outbox)
	u.l.mu.Unlock()
	u.outbox = ""
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
// what dead processes left half sent. It looks when it is stirred, and each time
// that the mirror has caught up.
func (l *Ledger) tidy() {
	for {
		select {
		case <-l.chores:
		case <-l.life.Done():
			return
		}
		if err := l.dropBodies(); err == nil {
			_ = l.resume() // both are tried again when the cluster is reached again
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

// resume sends what is left of the units whose process died.
func (l *Ledger) resume() error {
	left, err := l.notes(outKey)
	for key, noted := range left {
		l.mu.Lock()
		owned := l.owned[key]
		l.owned[key] = true
		l.mu.Unlock()
		if owned {
			continue
		}
		u := &unit{l: l, landed: map[events.EventID]events.Recorded{}, bodies: map[string]bool{}, outbox: key}
		err := u.resume(noted)
		switch {
		case err == nil:
			u.done()
		case errors.Is(err, errEarly):
			err = nil
		}
		u.takeBack()
		if err != nil {
			return err
		}
	}
	return err
}

// errEarly says that what the dead process sent last may yet be recorded.
var errEarly = errors.New("too early to tell")

// lateAfter is how many times as long as one try an append that was sent can take
// to be recorded or never. The server keeps to its deadline.
const lateAfter = 3

func (u *unit) resume(noted []byte) error {
	var w waiting
	if err := json.Unmarshal(noted, &w); err != nil {
		return nil // nobody can read it
	}
	var all []outgoing
	recorded := make([]bool, len(w.Batches))
	err := u.l.View(func(r events.Reader) error {
		for i, b := range w.Batches {
			_, there, err := r.Event(b.Events[0].ID)
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
		if wait := lateAfter*u.l.bounds.attempt - time.Since(u.l.opened); wait > 0 {
			time.AfterFunc(wait, u.l.stir)
			return errEarly
		}
	}
	for _, b := range w.Batches {
		o, err := b.outgoing()
		if err != nil {
			return nil
		}
		all = append(all, o)
	}
	u.l.await(all)
	defer u.l.forget(all)
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
		for range triesMax {
			if !errors.Is(err, errMoved) {
				break
			}
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
