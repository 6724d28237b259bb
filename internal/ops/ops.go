// Package ops is the one set of operations behind every door of decklog: the
// command line, the hooks, and later MCP and HTTP call the same ones. An
// operation reads the folded state, lets a decider decide, appends what it
// decided, and joins views with bodies. It holds no rule of its own, and knows
// neither flags nor harnesses nor which ledger it works on.
package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/failure"
	"decklog/projections"
)

// Ledger is what the operations need: a ledger whose commits can be waited for.
type Ledger interface {
	events.Ledger
	// Wait returns nil as soon as the ledger has an event after this position.
	Wait(ctx context.Context, after events.Position) error
}

// World is what the operations observe and are told of their surroundings.
type World struct {
	Now    func() events.Time
	Random func([]byte) // fills it
	Alive  func(events.Process) bool
	Seen   func(events.SessionID) (busy bool, at events.Time, known bool) // as hooks noted it
	// Fleet is this machine among those that share the ledger; nil: it is the only one.
	Fleet *Fleet
	// Note notes that a session is busy or idle, for who cannot do so beside the
	// ledger. It may be nil.
	Note func(id events.SessionID, busy bool, at events.Time) error
	// Bells are told for whom something came to wait. The zero value has none.
	Bells  bell.Bells
	Device string // the machine's host name
	OSUser string
	// Environ gives a variable of the calling process; Ancestors the processes
	// that it descends from, the nearest first.
	Environ   func(string) string
	Ancestors func() []events.Process
	// Claims are what the door learned of all its callers; nil: each call has its own.
	Claims *Claims
	// PolicyFile is the policy that an empty ledger adopts.
	PolicyFile func() (events.Policy, error)
	// Classify asks the policy's classifier a question, and gives its clean word;
	// the error says why there is none.
	Classify func(context.Context, *events.Routing, []byte) (events.Verdict, error)
	// Progress is told how far long work has come. It may be nil.
	Progress func(what string, done, end events.Position)
}

// Ops are the operations on one ledger.
type Ops struct {
	Ledger Ledger
	World  World
	// Hub wakes those who wait, where many do. Nil: every commit wakes each.
	Hub *Hub
	// Still says why whoever asks is to be answered no more: it went away, or may
	// not ask any longer. Nil: it stays. What reads the whole ledger looks between
	// two pages, and what waits before each look and each lease.
	Still func() error
}

func (o *Ops) still() error {
	if o.Still == nil {
		return nil
	}
	return o.Still()
}

// Asker is who asks, as far as the caller of an operation says it.
type Asker struct {
	As      string           `json:"as,omitempty"`      // a session's id or prefix, @name; empty: found out
	Command events.CommandID `json:"command,omitempty"` // empty: a new one
	Claims  Claims           `json:"-"`                 // what the door learned of it besides
	// checksFirst says that the command has checks that come before the one of
	// who asks.
	checksFirst bool
	// bots says that the command is one that a bot may give.
	bots bool
}

// CommandID is the id of the command that is given; empty where it is yet to be made.
func (a Asker) CommandID() events.CommandID { return a.Command }

// Again says in an error after which nobody knows what became of a command by which id
// that is given again, since its caller may not have chosen one.
func Again(err error, id events.CommandID) error {
	if id == "" || !errors.Is(err, events.ErrUnknown) {
		return err
	}
	f := failure.Of(err)
	return failure.New(f.Code, strings.Replace(f.Fix, "the same --key or --command", "--command "+string(id)+" or the same --key", 1), err)
}

// same is who asks, for another command.
func (a Asker) same() Asker { return Asker{As: a.As, Claims: a.Claims} }

// observe is what is observed of a session: here, and where it is of another machine
// there.
func (w *World) observe(s *projections.Session) (ob commands.Observation) {
	if w.Fleet != nil {
		return w.Fleet.observe(s, w.Now())
	}
	if s.Process != nil && s.Device == w.Device {
		ob.Gone = !w.Alive(*s.Process)
	}
	if busy, at, known := w.Seen(s.ID); known {
		ob.Busy, ob.Seen = busy, &at
	}
	return ob
}

// NewCommand makes a command's id.
func (o *Ops) NewCommand() events.CommandID {
	var random [10]byte
	o.World.Random(random[:])
	return events.CommandAt(o.World.Now(), random)
}

func (o *Ops) salt() (s events.Salt) {
	o.World.Random(s[:])
	return s
}

func (o *Ops) progress(what string, done, end events.Position) {
	if o.World.Progress != nil {
		o.World.Progress(what, done, end)
	}
}

// call makes the envelope of a command. What it observes of a session it
// observes once, so that one decision sees one world.
func (o *Ops) call(id events.CommandID, caller commands.Caller) commands.Call {
	seen := map[events.SessionID]commands.Observation{}
	return commands.Call{
		ID: id, Caller: caller, Device: o.World.Device, OSUser: o.World.OSUser, Salt: o.salt(),
		Look: func(s *projections.Session) commands.Observation {
			if known, ok := seen[s.ID]; ok {
				return known
			}
			ob := o.World.observe(s)
			seen[s.ID] = ob
			return ob
		},
	}
}

// unit is one command at work in a write transaction.
type unit struct {
	*Ops
	tx     events.Tx
	s      *projections.State
	now    events.Time
	policy *projections.Adopted
	call   commands.Call
	wrote  []events.Recorded
}

// Receipt is what every command that changes something answers, but sending,
// which answers more.
type Receipt struct {
	ID       string          `json:"id"`
	Position events.Position `json:"position"`
}

// update runs one command: it makes sure that a policy is in force, finds out
// who asks, and calls work. A refusal that work answers with is recorded.
func (o *Ops) update(name string, a Asker, work func(*unit) (*commands.Refusal, error)) (*commands.Refusal, error) {
	if a.Command != "" && !events.IsUUID(string(a.Command)) {
		return commands.Refuse(commands.BadRequest, "the command's id %.40q is no UUID", a.Command).
			Better("give a UUID of your own, and the same one again when you try again; or none", "decklog send --command 01a22e58-34a8-753d-901f-757b6505aad7 --to @smith -- BODY"), nil
	}
	var refused *commands.Refusal
	id := a.Command
	if id == "" {
		id = o.NewCommand()
	}
	err := o.Ledger.Update(func(tx events.Tx) error {
		u := &unit{Ops: o, tx: tx, now: o.World.Now()}
		if err := u.begin(); err != nil {
			return err
		}
		identify := o.identify
		if a.bots {
			identify = o.identifyBot
		}
		caller, r := identify(u.s, u.policy.Policy, a, u.now)
		u.call = o.call(id, caller)
		u.call.Nobody, u.call.Subagent = r, o.claims(a).Subagent || o.underCodex(u.s, caller)
		var err error
		if r == nil || a.checksFirst {
			r, err = work(u)
		}
		if err == nil {
			err = u.s.Err()
		}
		if err != nil {
			return err
		}
		refused = r
		if err := u.settle(name, r); err != nil {
			return err
		}
		return u.ring()
	})
	if err != nil {
		return nil, Again(fmt.Errorf("%s: %w", name, err), id)
	}
	return refused, nil
}

// begin reads the state, folds it anew where another version of the folds made
// it, and adopts a policy where there is none.
func (u *unit) begin() error {
	u.refresh()
	if err := u.refold(); err != nil {
		return err
	}
	if u.policy = u.s.Policy(); u.policy != nil || u.s.Err() != nil {
		return u.s.Err()
	}
	policy, err := u.World.PolicyFile()
	if err != nil {
		return err
	}
	id := events.FollowUp("empty ledger", "policy.adopted")
	u.policy = &projections.Adopted{}
	_, err = u.append([]events.Proposed{{
		Stream: events.PolicyStream, ID: id.Event(0), Actor: projections.Device(u.World.Device),
		Cause: events.Cause{Command: id}, Event: events.PolicyAdopted{Policy: policy},
	}})
	if err == nil {
		u.policy = u.s.Policy()
	}
	return err
}

func (u *unit) refold() error {
	switch err := u.s.Err(); {
	case err != nil, u.s.Position() == 0, u.s.Fold() == projections.FoldVersion:
		return err
	case u.s.Fold() > projections.FoldVersion:
		return fmt.Errorf("read the views: %w", events.ErrNewer)
	}
	if _, err := u.rebuild(u.tx); err != nil {
		return err
	}
	u.refresh()
	return nil
}

func (u *unit) refresh() { u.s = projections.On(u.tx.Rows()) }

// append records what was decided, stream by stream in its order, each at the
// revision that this transaction sees.
//
// Where that moves a thread's driver, this is recorded behind it.
func (u *unit) append(proposed []events.Proposed) (recorded []events.Recorded, err error) {
	drove := u.driving(proposed)
	if recorded, err = u.record(proposed); err != nil || len(drove) == 0 {
		return recorded, err
	}
	_, err = u.record(commands.Moves(u.s, drove, recorded))
	return recorded, err
}

// driving says who drives the threads that events are about to be appended to.
func (u *unit) driving(proposed []events.Proposed) map[events.ThreadID]string {
	if len(u.policy.Policy.Seats) == 0 {
		return nil
	}
	drove := map[events.ThreadID]string{}
	for _, p := range proposed {
		if t := u.s.Thread(p.Stream.Thread()); t != nil {
			drove[t.ID] = u.s.Driver(t).Seat
		}
	}
	return drove
}

func (u *unit) record(proposed []events.Proposed) (recorded []events.Recorded, err error) {
	for len(proposed) > 0 {
		n := 1
		for n < len(proposed) && proposed[n].Stream == proposed[0].Stream {
			n++
		}
		head, err := u.tx.Head(proposed[0].Stream)
		if err != nil {
			return nil, err
		}
		done, err := u.tx.Append(events.Batch{
			Stream: proposed[0].Stream, Expected: head, Time: u.now, Policy: u.policy.Position, Events: proposed[:n],
		})
		if err != nil {
			return nil, err
		}
		recorded = append(recorded, done...)
		proposed = proposed[n:]
	}
	u.wrote = append(u.wrote, recorded...)
	u.refresh()
	return recorded, u.s.Err()
}

// ring rings the bells of those for whom something came to wait, before the
// commit that makes it so: who dies in between has rung in vain.
func (u *unit) ring() error { return ring(u.World.Bells, u.s, u.policy.Policy, u.wrote) }

// stirs lists the sessions that have to look after an event: their bells are rung
// by it, and those who wait are woken by it.
func stirs(s *projections.State, e events.Event, p events.Policy) []events.SessionID {
	return append(s.Stirs(e), commands.Overseers(s, e, p)...)
}

// sweepsMax bounds how often one command looks for what is due: once for each
// kind, which may come of the one before it.
const sweepsMax = 4

// sweep records what has fallen due around a participant, one kind after the
// other. What was recorded before, under the id of its cause, is not again.
func (u *unit) sweep(who events.Participant) error {
	if who == "" {
		return nil
	}
	for range sweepsMax {
		var fresh []events.Proposed
		for _, p := range commands.Due(u.s, u.call, who, u.now, u.policy.Policy) {
			switch _, recorded, err := u.tx.Event(p.ID); {
			case err != nil:
				return err
			case !recorded:
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 {
			break
		}
		if _, err := u.append(fresh); err != nil {
			return err
		}
	}
	return u.s.Err()
}

// again gives what a command recorded when it was admitted before; nothing when
// it was not.
func (u *unit) again() (recorded []events.Recorded, err error) {
	for n := 0; ; n++ {
		r, found, err := u.tx.Event(u.call.ID.Event(n))
		if err != nil || !found {
			return recorded, err
		}
		recorded = append(recorded, r)
	}
}

// settle records a refusal. One that comes after many within a minute is only
// counted, and the count becomes an event when the minute is over.
func (u *unit) settle(name string, r *commands.Refusal) error {
	stream, by := commands.RefusedIn(u.s, u.call, u.policy.Policy)
	count, since, err := u.tx.Tally(string(by), 0, u.now)
	if err != nil || r == nil && count == 0 {
		return err
	}
	head, err := u.tx.Head(stream)
	if err != nil {
		return err
	}
	if counted := commands.Counted(u.call, stream, by, count, since, u.now, head+1); counted != nil {
		if _, err := u.append([]events.Proposed{*counted}); err != nil {
			return err
		}
		if err := u.tx.EndTally(string(by)); err != nil {
			return err
		}
		head++
	}
	if r == nil {
		return nil
	}
	if commands.Flood(u.s, by, u.now) {
		_, _, err := u.tx.Tally(string(by), 1, u.now)
		return err
	}
	_, err = u.append([]events.Proposed{r.Refused(name, u.call, stream, by, head+1)})
	return err
}

// look runs one reading.
func (o *Ops) look(read func(v *reading) error) error {
	stale := false
	err := o.Ledger.View(func(r events.Reader) error {
		v := &reading{Ops: o, r: r, s: projections.On(r.Rows()), now: o.World.Now()}
		if err := v.s.Err(); err != nil {
			return err
		}
		if v.s.Position() > 0 && v.s.Fold() != projections.FoldVersion {
			if v.s.Fold() > projections.FoldVersion {
				return fmt.Errorf("read the views: %w", events.ErrNewer)
			}
			stale = true
			return nil
		}
		if err := read(v); err != nil {
			return err
		}
		return v.s.Err()
	})
	if err != nil || !stale {
		return err
	}
	if _, err := o.Rebuild(); err != nil {
		return err
	}
	return o.look(read)
}

// reading is one look at the ledger.
type reading struct {
	*Ops
	r   events.Reader
	s   *projections.State
	now events.Time
}

// policy is the policy in force; the file's on an empty ledger.
func (v *reading) policy() (events.Policy, error) {
	if adopted := v.s.Policy(); adopted != nil {
		return adopted.Policy, nil
	}
	return v.World.PolicyFile()
}

// refusal carries a refusal through code that returns errors.
type refusal struct{ *commands.Refusal }

func (r refusal) Error() string { return string(r.Code) + ": " + r.Message }
