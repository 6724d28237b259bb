package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"

	"decklog/events"
	"decklog/internal/sqlite"
)

const (
	// takeMax is how many events one transaction of the mirror brings at most,
	// up to a whole append.
	takeMax = 512
	// heldMax bounds the bodies that are held until their events come; one that was
	// let go is read from its stream.
	heldMax = 4096
	// againMax is how long the projector waits at most before it subscribes again.
	againMax = 2 * time.Second
	// quietFor is how long a server that never says that a subscription is live has
	// to be silent to be taken for it (before 23.10).
	quietFor = 3 * time.Second
	// unsetFrom is where places begin that are none.
	unsetFrom = 1 << 63
)

// projector is one subscription at work.
type projector struct {
	l      *Ledger
	write  func(func(sqlite.Mirror) error) error
	live   func()                                           // the mirror has had all that there was
	landed func([]events.Recorded, []events.EventID, place) // and knows these too, by the ids that they were sent with
	hook   func(events.Reader, []events.Recorded) error

	at       place
	has      bool
	until    place // the end of the log when it began
	group    []arrival
	held     map[string]events.Body // by the stream's name
	order    []string
	heard    time.Time     // when anything last came
	patience time.Duration // without anything, while it is not live
}

var errStalled = errors.New("the subscription does not tell what the cluster has")

// stall has the projector subscribe anew when it has heard nothing for a while: what
// is waited for is in the cluster, and should have come.
func (l *Ledger) stall() {
	select {
	case l.stalled <- struct{}{}:
	default:
	}
}

// follow keeps the mirror up to date, as long as the ledger lives.
func (l *Ledger) follow() {
	wait := 20 * time.Millisecond
	for l.life.Err() == nil {
		l.mu.Lock()
		p := &projector{l: l, write: l.writing, live: l.isLive, landed: l.land, hook: l.hook, at: l.at, has: l.has, held: map[string]events.Body{}}
		began := p.at
		l.mu.Unlock()
		err := p.run(l.life)
		if l.life.Err() != nil {
			return
		}
		hopeless := errors.Is(err, errOther) || errors.Is(err, events.ErrDamaged) || refusedFor(err) != nil
		l.change(func() {
			l.live = false
			if hopeless {
				l.failed = fmt.Errorf("the views stand still: %w", err)
			}
		})
		if hopeless {
			return
		}
		if statusOf(err) == codes.Unavailable {
			l.fence.renew() // that a subscription ended makes the client look for nobody
		}
		if p.at != began {
			wait = 20 * time.Millisecond
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-l.life.Done():
			pause.Stop()
		}
		wait = min(2*wait, againMax)
	}
}

// isLive notes that the mirror has had all that there was.
func (l *Ledger) isLive() {
	l.change(func() {
		l.live = true
		select {
		case <-l.lived:
		default:
			close(l.lived)
		}
	})
	l.stir()
}

// land notes what the mirror has now, and tells the units that wait for it.
func (l *Ledger) land(recorded []events.Recorded, sentAs []events.EventID, at place) {
	l.change(func() {
		l.at, l.has, l.heard = at, true, time.Now()
		for i, r := range recorded {
			if told := l.awaited[sent{r.Stream, sentAs[i]}]; told != nil {
				select {
				case told <- r:
				default: // it was told
				}
			}
		}
	})
}

// run follows the cluster until the subscription ends.
func (p *projector) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	if err := p.check(ctx); err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	last, err := p.l.fence.end(attempt)
	if err != nil {
		return err
	}
	if last != nil {
		p.until = placeOf(last.Position)
	}
	var after *place
	if p.has {
		after = &p.at
	}
	s, err := p.l.fence.subscribe(ctx, p.l.address.Prefix, after, p.l.bounds.apply)
	if err != nil {
		return err
	}
	came := make(chan *client.SubscriptionEvent, takeMax)
	go func() {
		defer close(came)
		for {
			e := s.Recv()
			select {
			case came <- e:
			case <-ctx.Done():
				return
			}
			if e.SubscriptionDropped != nil {
				return
			}
		}
	}()
	return p.take(ctx, came)
}

// check makes sure that the mirror is of what the cluster has: that the last
// event that it has is there, in its place.
func (p *projector) check(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	if !p.has {
		// That somebody answers is enough.
		_, err := p.l.fence.end(attempt)
		if err == nil {
			p.l.isChecked()
		}
		return err
	}
	var c checkpoint
	err := p.write(func(m sqlite.Mirror) error {
		noted, err := m.Noted(checkpointKey)
		if err == nil {
			c, err = p.l.readCheckpoint(noted)
		}
		return err
	})
	if err != nil {
		return err
	}
	e, err := p.l.fence.at(attempt, p.at)
	switch {
	case err != nil && (kindOf(err) != client.ErrorCodeUnknown || attempt.Err() != nil || refusedForAccess(err)):
		return err
	case err != nil:
		return other(p.l.address.Views, "the cluster knows no place %d of its log: %v", p.at.Commit, err)
	case e == nil || e.EventID.String() != c.Server || placeOf(e.Position) != p.at:
		return other(p.l.address.Views, "their last event %s is not where they have it from", c.Event)
	}
	p.l.isChecked()
	return nil
}

func (l *Ledger) isChecked() {
	l.change(func() {
		select {
		case <-l.checked:
		default:
			close(l.checked)
		}
	})
}

// take brings what came to the mirror, as much at once as is there.
func (p *projector) take(ctx context.Context, came <-chan *client.SubscriptionEvent) error {
	quiet := time.NewTimer(quietFor)
	defer quiet.Stop()
	p.heard, p.patience = time.Now(), 2*quietFor
	for {
		var e *client.SubscriptionEvent
		select {
		case e = <-came:
		case <-quiet.C:
			p.patience = 0
			p.live()
			continue
		case <-p.l.stalled:
			if time.Since(p.heard) > max(p.l.bounds.attempt, p.patience) {
				return errStalled
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		p.heard = time.Now()
		var groups [][]arrival
		var dropped error
		caughtUp, events := false, 0
		for e != nil {
			switch {
			case e.SubscriptionDropped != nil:
				if dropped = e.SubscriptionDropped.Error; dropped == nil {
					dropped = errors.New("the subscription ended")
				}
			case e.EventAppeared != nil:
				group, err := p.event(ctx, e.EventAppeared)
				if err != nil {
					return err
				}
				if group != nil {
					groups = append(groups, group)
					events += len(group)
				}
			case e.CheckPointReached != nil:
				// It only says how far the server has looked. One is never resumed from:
				// some versions named a place that had not been looked at yet.
				looked := placeOf(*e.CheckPointReached)
				caughtUp = caughtUp || !p.until.after(looked) && looked.Commit < unsetFrom
			case e.CaughtUp != nil:
				caughtUp = true
			}
			if e = nil; events < takeMax && dropped == nil {
				select {
				case e = <-came:
				default:
				}
			}
		}
		if err := p.apply(ctx, groups); err != nil {
			return err
		}
		if caughtUp || p.has && !p.until.after(p.at) {
			p.patience = 0
			p.live()
		}
		if dropped != nil {
			return dropped
		}
		quiet.Reset(quietFor)
	}
}

// event takes one event, and gives a whole append when it was the last of it.
func (p *projector) event(ctx context.Context, e *client.ResolvedEvent) ([]arrival, error) {
	o := e.OriginalEvent()
	if o == nil {
		return nil, nil
	}
	name, ours := strings.CutPrefix(o.StreamID, p.l.address.Prefix)
	if !ours {
		return nil, nil
	}
	if strings.HasPrefix(name, bodyMark) {
		if o.EventType == bodyType {
			if _, body, err := readBody(o); err == nil {
				p.hold(name, body)
			}
		}
		return nil, nil
	}
	at := placeOf(o.Position)
	if p.has && !at.after(p.at) {
		return nil, nil // it is there
	}
	a, err := decode(events.Stream(name), events.Revision(o.EventNumber), o.EventID, o.EventType, o.Data, o.UserMetadata)
	if err != nil {
		return nil, err
	}
	a.at = at
	if n := len(p.group); a.index != n+1 || n > 0 && (p.group[0].Stream != a.Stream || p.group[0].total != a.total) {
		return nil, fmt.Errorf("event %d of %s is number %d of its append, after %d: %w", a.Revision, a.Stream, a.index, n, events.ErrDamaged)
	}
	if a.body != "" {
		if a.Body, err = p.body(ctx, bodyStream(a.ID, a.body)); err != nil {
			return nil, err
		}
	}
	p.group = append(p.group, a)
	if a.index < a.total {
		return nil, nil
	}
	group := p.group
	p.group = nil
	return group, nil
}

// hold keeps a body until its event comes. Most come right behind it.
func (p *projector) hold(stream string, b events.Body) {
	if _, there := p.held[stream]; !there {
		p.order = append(p.order, stream)
	}
	p.held[stream] = b
	if len(p.order) > heldMax {
		delete(p.held, p.order[0])
		p.order = p.order[1:]
	}
}

// body is what lies beside an event; nil when it went.
func (p *projector) body(ctx context.Context, stream string) (*events.Body, error) {
	if b, there := p.held[stream]; there {
		return &b, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	e, err := p.l.fence.last(ctx, p.l.address.Prefix+stream)
	if err != nil || e == nil {
		return nil, err
	}
	_, b, err := readBody(e)
	return &b, err
}

// apply is one transaction of the mirror: events, bodies, rows of the views, the
// place up to which they are had, and what else is done because of them.
func (p *projector) apply(ctx context.Context, groups [][]arrival) error {
	if len(groups) == 0 {
		return nil
	}
	var all []events.Recorded
	var sentAs []events.EventID
	var drops bool
	end := groups[len(groups)-1]
	last := end[len(end)-1]
	err := p.write(func(m sqlite.Mirror) error {
		all, sentAs, drops = nil, nil, false
		for _, group := range groups {
			recorded, dropped, err := bring(m, group)
			if err != nil {
				return err
			}
			drops = drops || dropped
			all = append(all, recorded...)
			for _, a := range group {
				sentAs = append(sentAs, a.ID)
			}
		}
		noted, err := json.Marshal(checkpoint{
			Engine: engine, Prefix: p.l.address.Prefix, Event: last.ID, Server: serverID(last.ID).String(), At: last.at,
		})
		if err == nil {
			err = m.Note(checkpointKey, noted)
		}
		if err == nil && p.hook != nil {
			err = p.hook(m, all)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bring events to the views: %w", err)
	}
	p.at, p.has = last.at, true
	for _, group := range groups {
		for _, a := range group {
			if a.body != "" {
				delete(p.held, bodyStream(a.ID, a.body))
			}
		}
	}
	p.landed(all, sentAs, p.at)
	if drops {
		p.l.stir()
	}
	return nil
}

// bring puts one append at the mirror's end.
func bring(m sqlite.Mirror, group []arrival) (recorded []events.Recorded, drops bool, err error) {
	arrived := make([]sqlite.Arrived, len(group))
	bodies := map[events.EventID]*events.Body{}
	for i, a := range group {
		_, twice := bodies[a.ID]
		if !twice {
			if _, twice, err = m.Event(a.ID); err != nil {
				return nil, false, err
			}
		}
		bodies[a.ID] = a.Body
		arrived[i] = a.Arrived
		if twice {
			arrived[i].Recorded, arrived[i].Body, arrived[i].Drops = sameAgain(a.Recorded), nil, nil
		}
		for _, id := range arrived[i].Drops {
			body := bodies[id]
			if body == nil {
				found, there, err := m.Body(id)
				if err != nil {
					return nil, false, err
				}
				if there {
					body = &found
				}
			}
			if body != nil {
				drops = true
				if err := m.Note(dropKey+bodyStream(id, bodyShort(*body)), []byte{}); err != nil {
					return nil, false, err
				}
			}
		}
	}
	recorded, err = m.Record(arrived)
	return recorded, drops, err
}
