package esdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// triesMax is how often one Update decides anew because others were quicker.
const triesMax = 12

var (
	errDry     = errors.New("decided, and not appended here")
	errBlocked = errors.New("another unit is about to append there")
	errMoved   = fmt.Errorf("others were quicker: %w", events.ErrConflict)
)

// unit is one Update at work.
type unit struct {
	l       *Ledger
	out     []outgoing // what the last run of its function decided
	local   bool       // it wrote rows or tallies besides, which are the mirror's own
	placed  func(now func(events.Position) events.Position)
	blocked chan struct{} // closed when the unit is over that has to be first
	half    bool          // or when the rest of its own command is recorded
	keys    []string      // that it holds in flying
	over    chan struct{}
	landed  map[events.EventID]events.Recorded // what the mirror has of this unit
	bodies  map[string]bool                    // the streams that it made, and whether an event has come that names them
	outbox  string                             // its entry there
	took    time.Duration                      // to send it and to see it, in all

	noted  []outgoing // what is in it
	before *unit      // what is left of the same command, whose place this one takes

	// The ledger's lock guards these.
	adrift  bool // it gave up, and it is not known what became of it
	resumed bool // tidy is about to find out
	since   time.Time
}

// Update calls fn on the mirror, sends what it decided, and returns when the
// mirror has received it. Where others were quicker, or what was decided did not
// come to lie exactly where the decision saw it, fn is called again: it then finds
// its own events, and what it appends under their ids is not appended again.
//
// It has the outcomes that [events.Ledger] promises, with one difference: an
// Update that appends to several streams may be recorded in part when its outcome
// is unknown. What is left of a command that has begun is appended by and by.
func (l *Ledger) Update(fn func(events.Tx) error) error {
	if err := l.ready(); err != nil {
		return fmt.Errorf("update ledger: %w", err)
	}
	u := &unit{l: l, landed: map[events.EventID]events.Recorded{}, bodies: map[string]bool{}}
	defer u.release()
	err := u.update(fn)
	if !errors.Is(err, events.ErrUnknown) {
		u.dropOrphans()
	}
	if err == nil && len(u.landed) > 0 && l.onCommit != nil {
		l.onCommit(1, len(u.landed), u.took)
	}
	return err
}

func (u *unit) update(fn func(events.Tx) error) error {
	l := u.l
	for try := 0; ; {
		err := u.decide(fn)
		switch {
		case errors.Is(err, errBlocked):
			if err := u.await(); err != nil {
				return fmt.Errorf("update ledger: %w", err)
			}
			continue
		case err != nil && len(u.landed) > 0:
			return fmt.Errorf("update ledger: %w: what was recorded could not be read again: %w", events.ErrUnknown, err)
		case err != nil:
			return err
		case len(u.out) == 0:
			return nil
		}
		again, err := u.send()
		u.release()
		switch {
		case errors.Is(err, errMoved) && try < triesMax:
			l.yield(try)
		case err != nil && len(u.landed) > 0 && !errors.Is(err, events.ErrUnknown):
			return fmt.Errorf("update ledger: %w: %w", events.ErrUnknown, err)
		case err != nil:
			return fmt.Errorf("update ledger: %w", err)
		case !again:
			return nil
		}
		if try++; try > 2*triesMax {
			return fmt.Errorf("update ledger: decided %d times and never done: %w", try, events.ErrUnknown)
		}
	}
}

// await waits for the unit that has to be first, or for the rest of the command.
func (u *unit) await() error {
	late := time.NewTimer(u.l.bounds.send + u.l.bounds.apply)
	defer late.Stop()
	select {
	case <-u.blocked:
		return nil
	case <-late.C:
		if u.half {
			return unseen(errors.New("a part of it is still to be sent"))
		}
		return stale(errors.New("it is not known yet what became of a command before it"))
	case <-u.l.life.Done():
		return errShut
	}
}

// yield waits a moment after a conflict, longer each time. The cluster speaks of one
// before what is in the way is durable, and until then that cannot be read.
func (l *Ledger) yield(try int) {
	wait := time.NewTimer(rand.N(time.Millisecond << min(try, 6)))
	select {
	case <-wait.C:
	case <-l.life.Done():
		wait.Stop()
	}
}

// decide calls fn in a transaction of the mirror, which is kept only when there
// is nothing to send.
func (u *unit) decide(fn func(events.Tx) error) error {
	u.out, u.local, u.placed, u.blocked, u.half, u.before = nil, false, nil, nil, false, nil
	l := u.l
	l.gate.RLock()
	defer l.gate.RUnlock()
	err := l.mirror.Update(func(inner events.Tx) error {
		t := &tx{Tx: inner, unit: u}
		err := fn(t)
		if u.blocked != nil {
			return errBlocked
		}
		if err == nil {
			err = inner.(sqlite.Mirror).Alive()
		}
		if err == nil {
			err = t.failed
		}
		if err != nil || len(u.out) == 0 {
			return err
		}
		if !u.fly() {
			return errBlocked
		}
		return errDry
	})
	if errors.Is(err, errDry) {
		return nil
	}
	return err
}

// tx is the transaction that a unit's function decides in.
type tx struct {
	events.Tx
	unit   *unit
	failed error // what was taken and cannot be sent
}

func (t *tx) Append(b events.Batch) ([]events.Recorded, error) {
	u := t.unit
	if own := u.own(b); own != nil {
		return own, nil
	}
	if u.blocks(b) {
		return nil, errBlocked
	}
	recorded, err := t.Tx.Append(b)
	if err != nil || len(recorded) == 0 {
		return recorded, err
	}
	o, err := encode(b, recorded)
	if err != nil {
		t.failed = err
		return nil, err
	}
	u.out = append(u.out, o)
	return recorded, nil
}

func (t *tx) Event(id events.EventID) (r events.Recorded, there bool, err error) {
	r, there, err = t.Tx.Event(id)
	if there && err == nil && t.unit.waitsFor(id) {
		return events.Recorded{}, false, errBlocked
	}
	return r, there, err
}

// own gives what this unit has recorded of the batch already. A refusal has
// another id each time that it is decided; the one of the same command in the
// same stream is the same.
func (u *unit) own(b events.Batch) (all []events.Recorded) {
	if len(u.landed) == 0 {
		return nil
	}
	for _, p := range b.Events {
		r, there := u.landed[p.ID]
		if _, is := p.Event.(events.CommandRefused); is && !there {
			for _, r = range u.landed {
				if there = r.Stream == p.Stream && r.Type() == events.TypeCommandRefused && r.Cause == p.Cause; there {
					break
				}
			}
		}
		if !there || r.Stream != b.Stream {
			return nil
		}
		all = append(all, r)
	}
	return all
}

func (t *tx) Placed(told func(now func(events.Position) events.Position)) { t.unit.placed = told }

func (t *tx) ClearRows() error {
	t.unit.local = true
	return t.Tx.ClearRows()
}

func (t *tx) Tally(key string, n int, now events.Time) (int, events.Time, error) {
	t.unit.local = t.unit.local || n != 0
	return t.Tx.Tally(key, n, now)
}

func (t *tx) EndTally(key string) error {
	t.unit.local = true
	return t.Tx.EndTally(key)
}

func (t *tx) Rows() events.Rows { return rows{t.Tx.Rows(), t.unit} }

// rows notes that the function itself put one.
type rows struct {
	events.Rows
	unit *unit
}

func (r rows) Put(key string, value []byte) error {
	r.unit.local = true
	return r.Rows.Put(key, value)
}

func (r rows) Kept() any {
	if k, is := r.Rows.(events.Keeper); is {
		return k.Kept()
	}
	return nil
}

func (r rows) Keep(fold any) {
	if k, is := r.Rows.(events.Keeper); is {
		k.Keep(fold)
	}
}

// keysOf are what two units must not have in common while one of them is being
// sent: the other would decide without what the first one did. By the actor, what
// is decided of one sender over all streams is strict on this machine.
func keysOf(b []events.Proposed) (keys []string) {
	for _, p := range b {
		for _, key := range []string{"stream " + string(p.Stream), "actor " + string(p.Actor)} {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// blocks says whether another unit is about to append there, and which. What is
// left of the same command is not in its way.
func (u *unit) blocks(b events.Batch) bool {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	for _, key := range keysOf(b.Events) {
		by := u.l.flying[key]
		if by != nil && by.adrift && len(u.out) == 0 && by.first() == b.Events[0].ID {
			u.before = by
		}
		if by != nil && by != u && by != u.before {
			u.blocked = by.over
			return true
		}
	}
	return false
}

// fly keeps others from the streams and the actors, and has the projector tell what
// comes of this unit: another machine may have the same command, and may be about to
// bring it. It is called while the mirror is ours, so nobody came in between; but
// tidy may have, to what is left of the same command.
func (u *unit) fly() bool {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	if !u.inherit() {
		return false
	}
	u.l.expect(u.out)
	u.over = make(chan struct{})
	for _, o := range u.out {
		for _, key := range keysOf(o.proposed) {
			if u.l.flying[key] == nil {
				u.l.flying[key] = u
				u.keys = append(u.keys, key)
			}
		}
	}
	return true
}

func (u *unit) release() {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	u.ground()
}

// ground is release for who holds the lock.
func (u *unit) ground() {
	if u.over == nil || u.adrift {
		return
	}
	for _, key := range u.keys {
		delete(u.l.flying, key)
	}
	close(u.over)
	u.keys, u.over = nil, nil
}

// send sends what was decided, and says whether the function has to run again
// to see what came of it. With errMoved it has to decide anew.
func (u *unit) send() (again bool, err error) {
	out := u.out
	again = u.local
	// The others name the policy by its position, so they wait until that is known.
	if i := slices.IndexFunc(out, func(o outgoing) bool { return o.stream == events.PolicyStream }); i >= 0 && i < len(out)-1 {
		out, again = out[:i+1], true
	}
	l := u.l
	began := time.Now()
	defer func() { u.took += time.Since(began) }()
	defer u.drift()
	defer l.forget(u.out)
	if err := u.putOut(out); err != nil {
		return false, err
	}
	for i := range out {
		if err := u.sendBodies(out[i]); err != nil {
			u.done()
			return false, err
		}
	}
	for i := range out {
		moved, err := u.sendOne(out, i)
		if err != nil {
			switch unknown := errors.Is(err, events.ErrUnknown); {
			case errors.Is(err, errMoved), i == 0 && !unknown:
				u.done()
			case !unknown:
				err = fmt.Errorf("%w: a part is recorded: %w", events.ErrUnknown, err)
			}
			return false, err
		}
		again = again || moved
	}
	same, err := u.land(out)
	if err == nil {
		u.done()
	}
	return again || !same && !u.place(out), err
}

// place tells a function that uses nothing of its events' places but the positions
// what these are, and says whether that is all that it has to know.
func (u *unit) place(out []outgoing) bool {
	if u.placed == nil {
		return false
	}
	now := map[events.Position]events.Position{}
	for _, o := range out {
		for i, p := range o.proposed {
			r, there := u.landed[p.ID]
			if !there || !sameBut(r, o.recorded[i]) {
				return false
			}
			now[o.recorded[i].Position] = r.Position
		}
	}
	u.placed(func(at events.Position) events.Position {
		if lies, is := now[at]; is {
			return lies
		}
		return at
	})
	return true
}

// sameBut says whether two events are the same but for their places in the ledger.
func sameBut(r, s events.Recorded) bool {
	return r.Stream == s.Stream && r.Revision == s.Revision && r.ID == s.ID && r.Type() == s.Type() && r.Version == s.Version &&
		r.Time == s.Time && r.Actor == s.Actor && r.Cause == s.Cause && r.Policy == s.Policy && bytes.Equal(r.Data, s.Data)
}

// sendOne appends the i-th batch. Where its stream went on and the command is
// recorded in part already, the batch follows at the stream's new end.
func (u *unit) sendOne(out []outgoing, i int) (moved bool, err error) {
	for try := range triesMax {
		err := u.append(out[i])
		if !errors.Is(err, errMoved) {
			return moved, err
		}
		u.l.yield(try)
		if _, err := u.land(out[:i]); err != nil {
			return false, err
		}
		head, err := u.l.catchUp(out[i].stream)
		if err != nil {
			return false, err
		}
		if u.l.arrived(out[i]) {
			return true, nil
		}
		if !begun(out, i) {
			return false, fmt.Errorf("append to %s at revision %d: %w", out[i].stream, out[i].expected, errMoved)
		}
		if out[i], err = out[i].moved(head); err != nil {
			return false, err
		}
		moved = true
	}
	return false, fmt.Errorf("append to %s: others were quicker %d times: %w", out[i].stream, triesMax, events.ErrUnknown)
}

// begun says whether a batch is of a command of which an earlier batch was sent.
func begun(out []outgoing, i int) bool {
	for _, before := range out[:i] {
		for _, p := range before.proposed {
			for _, q := range out[i].proposed {
				if p.Cause.Command == q.Cause.Command {
					return true
				}
			}
		}
	}
	return false
}

// moved is the same batch after another revision.
func (o outgoing) moved(head events.Revision) (outgoing, error) {
	b := events.Batch{Stream: o.stream, Expected: head, Events: o.proposed}
	recorded := slices.Clone(o.recorded)
	for i := range recorded {
		recorded[i].Revision = head + 1 + events.Revision(i)
	}
	return encode(b, recorded)
}

var errRefused = errors.New("the cluster refused it")

// append appends one batch. The errors: errMoved; errRefused; else nobody knows.
func (u *unit) append(o outgoing) error {
	err := u.l.retry(func(ctx context.Context) error {
		return u.l.fence.appendTo(ctx, u.l.address.Prefix+string(o.stream), expectation(o.expected), o.data)
	}, func() bool { return u.l.arrived(o) })
	if err != nil {
		return fmt.Errorf("append to %s: %w", o.stream, err)
	}
	return nil
}

// retry tries the same append again and again, with the same ids and at the same
// revision, by which the server knows it, until there is an answer, or the events
// have come to the mirror, or the time is over.
func (l *Ledger) retry(try func(context.Context) error, arrived func() bool) error {
	ctx, cancel := context.WithTimeout(l.life, l.bounds.send)
	defer cancel()
	tried := false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		attempt, cancel := context.WithTimeout(ctx, l.bounds.attempt)
		err := try(attempt)
		cancel()
		var not notSent
		before := tried // by a try of which nobody knows
		tried = tried || !errors.As(err, &not) && !errors.Is(err, errShut)
		switch kind := kindOf(err); {
		case err == nil || arrived():
			return nil
		case kind == client.ErrorCodeWrongExpectedVersion, kind == client.ErrorCodeStreamDeleted:
			l.counted.conflicts.Add(1)
			return errMoved
		case refusedFor(err) != nil && !before:
			return fmt.Errorf("%w: %w", errRefused, err)
		case refusedFor(err) != nil:
			return fmt.Errorf("%w: %w", events.ErrUnknown, err)
		}
		pause := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			if arrived() {
				return nil
			}
			if !tried {
				return fmt.Errorf("%w: %w", errRefused, err)
			}
			return fmt.Errorf("%w: %w", events.ErrUnknown, err)
		}
		l.counted.retried.Add(1)
	}
}

// sendBodies puts the bodies into their streams, before the events that name them.
func (u *unit) sendBodies(o outgoing) error {
	for i, p := range o.proposed {
		if p.Body == nil {
			continue
		}
		e, err := bodyData(p.ID, *p.Body)
		if err != nil {
			return err
		}
		stream := o.bodyStream(i)
		if !u.bodies[stream] {
			u.bodies[stream] = false
		}
		err = u.l.retry(func(ctx context.Context) error {
			return u.l.fence.appendTo(ctx, u.l.address.Prefix+stream, client.NoStream{}, []client.EventData{e})
		}, func() bool { return false })
		if err != nil && !errors.Is(err, errMoved) { // moved: it is there already
			// No event was sent, so nothing is recorded whatever became of the body.
			return failure.New("unreachable", "run it again when the cluster answers; nothing was recorded", fmt.Errorf("put body of %s: %s", p.ID, strings.TrimPrefix(err.Error(), events.ErrUnknown.Error()+": ")))
		}
	}
	return nil
}

// dropOrphans has the bodies go that no event names: what they say was never
// recorded, so nobody could take it back.
func (u *unit) dropOrphans() {
	var orphans []string
	for stream, named := range u.bodies {
		if !named {
			orphans = append(orphans, stream)
		}
	}
	u.l.drop(orphans)
}

// land waits until the mirror has what was sent, and says whether it lies there
// exactly as the decision saw it.
func (u *unit) land(out []outgoing) (same bool, err error) {
	ctx, cancel := context.WithTimeout(u.l.life, u.l.bounds.apply)
	defer cancel()
	same = true
	for _, o := range out {
		for i, p := range o.proposed {
			if _, there := u.landed[p.ID]; there {
				continue
			}
			r, err := u.l.arrival(ctx, sent{o.stream, o.data[i].EventID})
			if err != nil {
				return false, unseen(err)
			}
			if r.ID == p.ID {
				u.landed[p.ID] = r
			}
			if p.Body != nil && bytes.Equal(r.Data, o.recorded[i].Data) {
				u.bodies[o.bodyStream(i)] = true
			}
			same = same && r.Digest == o.recorded[i].Digest
		}
	}
	return same, nil
}

// unseen is the error of what the cluster has and the mirror has not received in
// time. Its receipt cannot be given yet: it says where the events lie, and what came
// of them, which only the mirror knows. The same command again finds them.
func unseen(err error) error {
	return failure.New("recorded_unseen", "it is recorded, and its receipt is not known here yet: run the same command again with the same --key or --command, and it is given; nothing happens twice",
		fmt.Errorf("%w: the cluster has it, and the views have not received it: %w", events.ErrUnknown, err))
}

// sent is an event that was sent to a stream. Another machine may send another
// under the same id elsewhere.
type sent struct {
	stream events.Stream
	id     uuid.UUID
}

// awaited is an event that a unit has sent, or is about to send.
type awaited struct {
	told     chan events.Recorded
	data     client.EventData
	recorded events.Recorded // as the decision saw it
	proposed events.Proposed
	body     string // the end of its body's stream

	index, total int
}

// await makes the projector tell when these events come.
func (l *Ledger) await(out []outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expect(out)
}

// expect is await for who holds the lock.
func (l *Ledger) expect(out []outgoing) {
	for _, o := range out {
		for i, e := range o.data {
			l.awaited[sent{o.stream, e.EventID}] = &awaited{
				told: make(chan events.Recorded, 1), data: e, recorded: o.recorded[i], proposed: o.proposed[i], body: o.bodies[i],
				index: i + 1, total: len(o.data),
			}
		}
	}
}

// own gives an event that a unit of this process sent, and that is byte for byte
// what came: what it says was read when it was sent.
func (l *Ledger) own(stream events.Stream, e *client.RecordedEvent) (a arrival, is bool) {
	l.mu.Lock()
	w := l.awaited[sent{stream, e.EventID}]
	l.mu.Unlock()
	if w == nil || int64(w.recorded.Revision) != int64(e.EventNumber) || w.data.EventType != e.EventType ||
		!bytes.Equal(w.data.Data, e.Data) || !bytes.Equal(w.data.Metadata, e.UserMetadata) {
		return a, false
	}
	a.Recorded, a.Body, a.Drops = w.recorded, w.proposed.Body, w.proposed.Drops
	a.server, a.body, a.index, a.total = e.EventID, w.body, w.index, w.total
	return a, true
}

func (l *Ledger) forget(out []outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range out {
		for _, e := range o.data {
			delete(l.awaited, sent{o.stream, e.EventID})
		}
	}
}

// arrived says whether the mirror has the batch.
func (l *Ledger) arrived(o outgoing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.awaited[sent{o.stream, o.data[len(o.data)-1].EventID}]
	return w != nil && len(w.told) > 0
}

// arrival waits for one of them.
func (l *Ledger) arrival(ctx context.Context, of sent) (events.Recorded, error) {
	l.mu.Lock()
	told := l.awaited[of].told
	l.mu.Unlock()
	select {
	case r := <-told:
		told <- r // it may be asked again
		return r, nil
	default:
	}
	impatient := time.NewTicker(l.bounds.attempt)
	defer impatient.Stop()
	for {
		select {
		case r := <-told:
			told <- r // it may be asked again
			return r, nil
		case <-impatient.C:
			l.stall()
		case <-ctx.Done():
			return events.Recorded{}, ctx.Err()
		}
	}
}

// catchUp waits until the mirror has all that the cluster has of a stream, and
// gives the stream's head.
func (l *Ledger) catchUp(stream events.Stream) (head events.Revision, err error) {
	ctx, cancel := context.WithTimeout(l.life, l.bounds.apply)
	defer cancel()
	want := events.NoStream
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		attempt, cancel := context.WithTimeout(ctx, l.bounds.attempt)
		e, err := l.fence.last(attempt, l.address.Prefix+string(stream))
		cancel()
		if err == nil {
			if e != nil {
				want = events.Revision(e.EventNumber)
			}
			break
		}
		if refusedFor(err) != nil || ctx.Err() != nil {
			return 0, stale(fmt.Errorf("read the end of %s: %w", stream, err))
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	err = l.until(ctx, func() (bool, error) {
		err := l.View(func(r events.Reader) (err error) {
			head, err = r.Head(stream)
			return err
		})
		return head >= want, err
	})
	if err != nil {
		return 0, stale(fmt.Errorf("the views have %s up to %d, the cluster up to %d: %w", stream, head, want, err))
	}
	return head, nil
}
