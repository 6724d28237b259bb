package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"decklog/events"
	"decklog/internal/sqlite"
)

const (
	// takeMax is how many events one transaction of the mirror brings at most,
	// up to a whole append.
	takeMax = 2048
	// waitMax is how many things that a subscription told wait to be taken at most.
	waitMax = 512
	// againMax is how long the projector waits at most before it subscribes again.
	againMax = 2 * time.Second
	// quietFor is how long a server is silent before it is asked whether that was all.
	quietFor = 3 * time.Second
	// unsetFrom is where places begin that are none.
	unsetFrom = 1 << 63
)

// target is a mirror that a projector fills, and who is told of that.
type target struct {
	view    func(func(events.Reader) error) error
	write   func(func(sqlite.Mirror) error) error
	hook    func(events.Reader, []events.Recorded) error
	stalled <-chan struct{} // the cluster has what did not come

	checked    func()                                          // the mirror is of what the cluster has
	subscribed func(end place)                                 // and is told of it; the end of the log just before
	may        func(context.Context, [][]arrival) (int, error) // how many of these appends it may have by now
	coming     func(int)                                       // so many events came, and are not there yet
	landed     func([]events.Recorded, []uuid.UUID, place)     // these are there, by the ids that they were sent with
	seen       func(place)                                     // all up to here came, and is there as far as it is an event
	live       func(whole time.Time)                           // it has had all that there was
}

// projector is one subscription at work.
type projector struct {
	l *Ledger
	target

	at       place
	has      bool
	until    place // the end of the log when it began
	caughtUp bool
	last     place // the last that came
	begun    bool  // an append came in part
	unnamed  unnamed
	told     map[string]telling
	began    time.Time     // when that was asked for
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
	l.subscribe(l.life, func() *projector {
		l.mu.Lock()
		defer l.mu.Unlock()
		return &projector{l: l, at: l.at, has: l.has, target: target{
			view: l.View, write: l.bringing, hook: l.hook, stalled: l.stalled,
			checked: l.isChecked, subscribed: l.isSubscribed, coming: l.isComing, landed: l.land, seen: l.hasSeen, live: l.isLive,
		}}
	}, l.stumble)
}

// subscribe lets one projector run after the other, until the context ends or over
// says that there is no sense in another.
func (l *Ledger) subscribe(ctx context.Context, next func() *projector, over func(error) (hopeless bool)) {
	wait := 20 * time.Millisecond
	for ctx.Err() == nil {
		p := next()
		began := p.at
		err := p.run(ctx)
		if ctx.Err() != nil || over(err) {
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
		case <-ctx.Done():
			pause.Stop()
		}
		wait = min(2*wait, againMax)
	}
}

// land notes what the mirror has now, and tells the units that wait for it.
func (l *Ledger) land(recorded []events.Recorded, sentAs []uuid.UUID, at place) {
	l.change(func() {
		l.at, l.has = at, true
		for i, r := range recorded {
			if w := l.awaited[sent{r.Stream, sentAs[i]}]; w != nil {
				select {
				case w.told <- r:
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
	if err := p.view(func(r events.Reader) error { return p.unnamed.recall(r.(sqlite.Noted)) }); err != nil {
		return ofMirror{fmt.Errorf("read what the views note: %w", err)}
	}
	attempt, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	p.began = time.Now()
	last, err := p.l.fence.end(attempt)
	if err != nil {
		return err
	}
	if last != nil {
		p.until = placeOf(last.Position)
	}
	p.last = p.at
	var after *place
	if p.has {
		after = &p.at
	}
	s, err := p.l.fence.subscribe(ctx, p.l.address.Prefix, after, p.l.bounds.apply)
	if err != nil {
		return err
	}
	p.subscribed(p.until)
	came := make(chan incoming, waitMax)
	r := &reading{l: p.l, at: p.at, has: p.has, held: map[string]*client.RecordedEvent{}, came: map[events.Stream]place{}}
	go r.follow(ctx, s, came)
	return p.take(ctx, came)
}

// check makes sure that the mirror is of what the cluster has: that the last
// event that it has is there, in its place, and says the same.
func (p *projector) check(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	if !p.has {
		// That somebody answers is enough.
		_, err := p.l.fence.end(attempt)
		if err == nil {
			p.checked()
		}
		return err
	}
	c, _, err := p.l.checkpointOf(p.view)
	if err != nil {
		return ofMirror{err}
	}
	e, err := p.l.fence.at(attempt, p.at)
	switch {
	case err != nil && (kindOf(err) != client.ErrorCodeUnknown || attempt.Err() != nil || refusedForAccess(err)):
		return err
	case err != nil:
		return other(p.l.address.Views, "the cluster knows no place %d of its log: %v", p.at.Commit, err)
	case e == nil || e.EventID.String() != c.Server || placeOf(e.Position) != p.at || sealOf(e.UserMetadata) != c.Seal:
		return other(p.l.address.Views, "their last event %s is not where they have it from", c.Event)
	}
	p.checked()
	return nil
}

// take brings what came to the mirror, as much at once as is there.
func (p *projector) take(ctx context.Context, came <-chan incoming) error {
	quiet := time.NewTimer(quietFor)
	defer quiet.Stop()
	p.heard, p.patience = time.Now(), 2*quietFor
	for {
		var in incoming
		select {
		case in = <-came:
		case <-quiet.C:
			if err := p.listen(ctx); err != nil {
				return err
			}
			quiet.Reset(quietFor)
			continue
		case <-p.stalled:
			if time.Since(p.heard) > max(p.l.bounds.attempt, p.patience) {
				return errStalled
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		p.heard = time.Now()
		var groups [][]arrival
		caughtUp, events := false, 0
		for more := true; more; {
			if p.begun = in.begun; in.at != (place{}) {
				p.last = in.at
			}
			if in.append != nil {
				groups = append(groups, in.append)
				events += len(in.append)
			}
			if in.machine != "" {
				p.tells(in.machine, in.told)
			}
			if in.body != "" {
				p.unnamed.fresh[in.body] = true
			}
			// It only says how far the server has looked. One is never resumed from:
			// some versions named a place that had not been looked at yet.
			caughtUp = caughtUp || in.caughtUp || in.looked != nil && !p.until.after(*in.looked) && in.looked.Commit < unsetFrom
			if more = events < takeMax && in.ended == nil; more {
				select {
				case in = <-came:
				default:
					more = false
				}
			}
		}
		if err := p.bringTold(); err != nil {
			return ofMirror{err}
		}
		p.coming(events + len(came))
		if err := p.bring(ctx, groups); err != nil {
			return err
		}
		if !p.begun {
			p.seen(p.last)
		}
		switch {
		case caughtUp:
			p.isLive(p.heard)
		case p.has && !p.until.after(p.at):
			p.isLive(p.began)
		}
		if in.ended != nil {
			return in.ended
		}
		quiet.Reset(quietFor)
	}
}

// listen finds out, where the server is silent, whether it has said everything: some
// never say that a subscription is live (before 23.10).
func (p *projector) listen(ctx context.Context) error {
	if p.caughtUp || p.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.l.bounds.attempt)
	defer cancel()
	asked := time.Now()
	_, newest, _, err := p.l.fence.newest(ctx, p.l.address.Prefix)
	if err == nil && (newest == nil || !newest.after(p.last)) {
		p.isLive(asked)
	}
	return err
}

// isLive notes, once, that the mirror has had all that there was.
func (p *projector) isLive(whole time.Time) {
	p.patience = 0
	if !p.caughtUp {
		p.caughtUp = true
		p.live(whole)
	}
}

// bring applies what came, as soon as the mirror may have it.
func (p *projector) bring(ctx context.Context, groups [][]arrival) error {
	for len(groups) > 0 {
		n := len(groups)
		if p.may != nil {
			var err error
			if n, err = p.may(ctx, groups); err != nil {
				return err
			}
		}
		if err := p.apply(ctx, groups[:n]); err != nil {
			return err
		}
		groups = groups[n:]
	}
	return nil
}

// apply is one transaction of the mirror: events, bodies, rows of the views, the
// place up to which they are had, and what else is done because of them.
func (p *projector) apply(ctx context.Context, groups [][]arrival) error {
	if len(groups) == 0 {
		return nil
	}
	var all []events.Recorded
	var sentAs []uuid.UUID
	var drops bool
	var note []string // of bodies
	end := groups[len(groups)-1]
	last := end[len(end)-1]
	err := p.write(func(m sqlite.Mirror) (err error) {
		all, sentAs = nil, nil
		if note, drops, err = p.unnamed.look(m, groups); err != nil {
			return err
		}
		for _, group := range groups {
			recorded, dropped, err := record(m, group)
			if err != nil {
				return err
			}
			drops = drops || dropped
			all = append(all, recorded...)
			for _, a := range group {
				sentAs = append(sentAs, a.server)
			}
		}
		noted, err := json.Marshal(checkpoint{
			Engine: engine, Prefix: p.l.address.Prefix, Event: last.ID, Server: serverID(last.ID).String(), Seal: seal(last.Recorded), At: last.at,
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
		return ofMirror{fmt.Errorf("bring events to the views: %w", err)}
	}
	p.at, p.has = last.at, true
	p.unnamed.looked(groups, note)
	p.landed(all, sentAs, p.at)
	if drops {
		p.l.stir()
	}
	return nil
}

// record puts one append at the mirror's end.
func record(m sqlite.Mirror, group []arrival) (recorded []events.Recorded, drops bool, err error) {
	arrived := make([]sqlite.Arrived, len(group))
	var gone [][]string // the streams of the bodies that go with each, if it is kept as it is
	for i, a := range group {
		arrived[i] = a.Arrived
		for _, id := range a.Drops {
			body, err := bodyOf(m, group[:i], id)
			if err != nil {
				return nil, false, err
			}
			if body != nil {
				gone = append(gone, make([][]string, i+1-len(gone))...)
				gone[i] = append(gone[i], bodyStream(id, bodyShort(*body)))
			}
		}
	}
	if recorded, err = m.Record(arrived, sameAgain); err != nil {
		return nil, false, err
	}
	for i, streams := range gone {
		for _, stream := range streams {
			if recorded[i].ID != arrived[i].ID {
				continue
			}
			drops = true
			if err := m.Note(dropKey+stream, []byte{}); err != nil {
				return nil, false, err
			}
		}
	}
	for i, a := range group {
		if a.body == "" || recorded[i].ID == a.ID {
			continue
		}
		// It came again, in another stream: what it says there is nobody's.
		first, err := bodyOf(m, nil, a.ID)
		if err == nil && (first == nil || bodyShort(*first) != a.body) {
			drops, err = true, m.Note(dropKey+bodyStream(a.ID, a.body), []byte{})
		}
		if err != nil {
			return nil, false, err
		}
	}
	return recorded, drops, nil
}

// bodyOf is what lies beside an event that came just now, or is there; nil when
// there is none.
func bodyOf(m sqlite.Mirror, came []arrival, id events.EventID) (*events.Body, error) {
	for _, a := range came {
		if a.ID == id {
			return a.Body, nil
		}
	}
	body, there, err := m.Body(id)
	if err != nil || !there {
		return nil, err
	}
	return &body, nil
}
