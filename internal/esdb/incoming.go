package esdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/events"
)

// heldMax bounds the bodies that are held until their events come; one that was
// let go is read from its stream.
const heldMax = 4096

// tombstoneType is that of what the cluster keeps for ever of a stream that was ended.
const tombstoneType = "$streamDeleted"

// incoming is one thing that a subscription told.
type incoming struct {
	at       place     // of an event; zero when it is none
	append   []arrival // the whole append that ends with it; nil when none does
	begun    bool      // an append has begun and not ended
	body     string    // the stream of a body; empty when none came
	machine  string    // a machine that told something; empty when none did
	told     telling   // what that was
	looked   *place    // how far the server has looked
	caughtUp bool      // the server has told all that there was
	ended    error     // why nothing more comes
}

// reading reads what a subscription tells, beside the transactions of the mirror that
// bring it.
type reading struct {
	l     *Ledger
	at    place // the mirror has all up to here, if it
	has   bool  // has anything
	group []arrival
	held  map[string]*client.RecordedEvent // bodies, by the stream's name
	order []string
	came  map[events.Stream]place // what the mirror may not have yet
}

// follow reads on until the subscription or the context ends.
func (r *reading) follow(ctx context.Context, s *client.Subscription, into chan<- incoming) {
	for {
		in := r.read(ctx, s.Recv())
		select {
		case into <- in:
		case <-ctx.Done():
			return
		}
		if in.ended != nil {
			return
		}
	}
}

func (r *reading) read(ctx context.Context, e *client.SubscriptionEvent) (in incoming) {
	switch {
	case e.SubscriptionDropped != nil:
		if in.ended = e.SubscriptionDropped.Error; in.ended == nil {
			in.ended = errors.New("the subscription ended")
		}
	case e.EventAppeared != nil:
		if o := e.EventAppeared.OriginalEvent(); o != nil {
			in.at = placeOf(o.Position)
			if in.ended = r.event(ctx, o, &in); in.ended != nil {
				in.at = place{} // it did not come
			}
		}
	case e.CheckPointReached != nil:
		looked := placeOf(*e.CheckPointReached)
		in.looked = &looked
	case e.CaughtUp != nil:
		in.caughtUp = true
	}
	in.begun = len(r.group) > 0
	return in
}

// event reads one event.
func (r *reading) event(ctx context.Context, o *client.RecordedEvent, in *incoming) (err error) {
	name, ours := strings.CutPrefix(o.StreamID, r.l.address.Prefix)
	if !ours {
		return nil
	}
	if strings.HasPrefix(name, bodyMark) {
		if o.EventType == bodyType && o.EventNumber == 0 { // what somebody put behind it is nothing
			r.hold(name, o)
			in.body = name
		}
		return nil
	}
	if machine, is := strings.CutPrefix(name, toldMark); is {
		// What somebody else put there is nothing to stop at: nothing is decided by it.
		if o.EventType == toldType {
			in.machine, in.told = machine, telling{in.at, o.Data}
		}
		return nil
	}
	if r.has && !in.at.after(r.at) {
		return nil // it is there
	}
	if o.EventType == tombstoneType && !r.ours(events.Stream(name)) {
		return nil // somebody else's stream was taken away, and this is what stays of it
	}
	r.at, r.has = in.at, true
	a, own := r.l.own(events.Stream(name), o)
	if !own {
		if a, err = decode(events.Stream(name), events.Revision(o.EventNumber), o.EventID, o.EventType, o.Data, o.UserMetadata); err != nil {
			return foreign(fmt.Errorf("the cluster's stream %s: %w", o.StreamID, err), r.ours(events.Stream(name)))
		}
	}
	a.at = in.at
	if n := len(r.group); a.index != n+1 || n > 0 && (r.group[0].Stream != a.Stream || r.group[0].total != a.total) {
		return foreign(fmt.Errorf("event %d of the cluster's stream %s is number %d of its append, after %d: %w", a.Revision, o.StreamID, a.index, n, events.ErrDamaged), r.ours(events.Stream(name)))
	}
	if a.body != "" {
		stream := bodyStream(a.ID, a.body)
		if !own {
			if a.Body, err = r.body(ctx, stream); err != nil {
				return err
			}
			if ref, holds := events.TextOf(a.Event); holds && a.Body != nil && !a.Body.Opens(ref) {
				a.Body = nil // it is not what was said
			}
		}
		delete(r.held, stream)
	}
	r.group = append(r.group, a)
	if a.index == a.total {
		in.append, r.group = r.group, nil
		r.note(a)
	}
	return nil
}

// note remembers of which streams events are on their way to the mirror.
func (r *reading) note(a arrival) {
	if len(r.came) > takeMax+waitMax {
		r.l.mu.Lock()
		at := r.l.at
		r.l.mu.Unlock()
		maps.DeleteFunc(r.came, func(_ events.Stream, p place) bool { return !p.after(at) })
	}
	r.came[a.Stream] = a.at
}

// ours says whether there is any event of the ledger's in a stream.
func (r *reading) ours(stream events.Stream) bool {
	if _, is := r.came[stream]; is {
		return true
	}
	head := events.NoStream
	err := r.l.View(func(v events.Reader) (err error) { head, err = v.Head(stream); return err })
	return err != nil || head != events.NoStream
}

// hold keeps a body until its event comes. Most come right behind it.
func (r *reading) hold(stream string, b *client.RecordedEvent) {
	if _, there := r.held[stream]; !there {
		r.order = append(r.order, stream)
	}
	r.held[stream] = b
	if len(r.order) > heldMax {
		delete(r.held, r.order[0])
		r.order = r.order[1:]
	}
}

// body is what lies beside an event; nil when it went.
func (r *reading) body(ctx context.Context, stream string) (*events.Body, error) {
	if e, there := r.held[stream]; there {
		if _, b, err := readBody(e); err == nil {
			return &b, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.l.bounds.attempt)
	defer cancel()
	e, err := r.l.fence.first(ctx, r.l.address.Prefix+stream)
	if err != nil || e == nil {
		return nil, err
	}
	_, b, err := readBody(e)
	return &b, err
}
