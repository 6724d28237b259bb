package ops

import (
	"context"
	"errors"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/projections"
)

// WaitFor is what a wait ends with.
type WaitFor string

// What can be waited for.
const (
	WaitReply WaitFor = "reply" // a final answer to the message, or any answer in the thread
	WaitFinal WaitFor = "final" // the message, or every message of the thread, is final
	WaitAny   WaitFor = "any"   // anything new in the thread
)

// WaitRequest asks to be told when something comes.
type WaitRequest struct {
	Asker
	ID  string  `json:"id,omitempty"` // a thread or a message; empty: anything in the caller's mailbox
	For WaitFor `json:"for,omitempty"`
	// Once says that the door can print only once: the wait ends with the first
	// lease, also where what is waited for lies behind it.
	Once bool `json:"once,omitempty"`
	// Since is the position at which the wait for a thread began, for one that is
	// asked again; 0: it begins now. What came after it is new. One behind the
	// ledger's end is refused.
	Since events.Position `json:"since,omitempty"`
	// Began is told where the wait for a thread began. It may be nil.
	Began func(events.Position) error `json:"-"`
	// Confirms says that print confirms what it printed by itself, before it returns.
	Confirms bool `json:"-"`
}

// Waited is what came.
type Waited struct {
	Messages []projections.Shown `json:"messages"`
	Notices  []LeasedNotice      `json:"notices"`
	Calls    []LeasedCall        `json:"calls"`
	TimedOut bool                `json:"timed_out"`
	At       events.Position     `json:"at"`
	// Text is what a hook would print of it: with the standing instruction, which
	// is confirmed like the messages and must not go unsaid. Empty for what is
	// only shown.
	Text string `json:"text"`
	// Lease holds what is to be confirmed once it was printed; empty for what is
	// only shown.
	Lease events.LeaseID `json:"lease"`
}

// Wait blocks on the ledger until what is waited for came, or the context ends.
// What it finds in the caller's own mailbox it leases, gives to print, and
// confirms once that succeeded; what others were sent it only shows. It prints
// once for each lease, with the text that a hook would give, and once, without,
// for what it only shows. The result is all of it together.
func (o *Ops) Wait(ctx context.Context, q WaitRequest, print func(Waited) error) (Waited, *commands.Refusal, error) {
	w := waiting{Ops: o, q: q, print: print, out: Waited{Messages: []projections.Shown{}, Notices: []LeasedNotice{}, Calls: []LeasedCall{}}}
	if r, err := w.start(); r != nil || err != nil {
		return w.out, r, err
	}
	if w.thread != "" && q.Began != nil {
		if err := q.Began(w.since); err != nil {
			return w.out, nil, err
		}
	}
	for {
		met, wake, r, err := w.step()
		if r != nil || err != nil || met {
			return w.out, r, err
		}
		// A stub's or a lease's time ends without an event; what is due then is
		// looked at then.
		wait, cancel := ctx, context.CancelFunc(func() {})
		if wake > 0 {
			wait, cancel = context.WithTimeout(ctx, wake)
		}
		err = o.stirred(wait, w.out.At, w.caller.ID, w.thread)
		cancel()
		switch {
		case ctx.Err() != nil:
			w.out.TimedOut = true
			return w.out, nil, nil
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return w.out, nil, err
		}
	}
}

type waiting struct {
	*Ops
	q       WaitRequest
	print   func(Waited) error
	caller  commands.Caller
	thread  events.ThreadID
	message events.MessageID // empty: the thread is meant
	since   events.Position  // where the wait began
	given   map[events.MessageID]bool
	printed bool // a lease
	out     Waited
}

func (w *waiting) start() (*commands.Refusal, error) {
	w.given = map[events.MessageID]bool{}
	switch w.q.For {
	case "":
		w.q.For = WaitReply
	case WaitReply, WaitFinal, WaitAny:
	default:
		return commands.Refuse(commands.BadRequest, "%q is nothing to wait for", w.q.For).
			Better("wait for reply, final or any", "decklog wait MESSAGE --for reply --timeout 60s"), nil
	}
	return caught(w.look(func(v *reading) error {
		policy, err := v.policy()
		if err != nil {
			return err
		}
		caller, r := w.identify(v.s, policy, w.q.Asker, v.now)
		if r != nil {
			return refusal{r}
		}
		if !caller.Known() {
			return refusal{commands.Refuse(commands.NoCaller, "nobody can tell who is waiting")}
		}
		if r := v.known(policy, caller); r != nil {
			return refusal{r}
		}
		w.caller = caller
		if w.q.ID != "" {
			thread, r := findThread(v.s, w.q.ID)
			if r != nil {
				return refusal{r}
			}
			w.thread = thread
			if v.s.Thread(events.ThreadID(w.q.ID)) == nil {
				if m, r := commands.FindMessage(v.s, w.q.ID); r == nil {
					w.message = m.ID
				}
			}
		}
		w.since = v.s.Position()
		if w.q.Since < 0 || w.q.Since > w.since {
			return refusal{commands.Refuse(commands.BadRequest, "no wait began at position %d: the ledger's last is %d", w.q.Since, w.since).
				Better("give back what the wait said when it began; or nothing, and it begins now", "decklog wait MESSAGE --for reply --timeout 60s")}
		}
		if w.q.Since > 0 {
			w.since = w.q.Since
		}
		return nil
	}))
}

// step looks once: it takes what lies in the caller's mailbox, and says whether
// what is waited for is there, and else how long until time alone may bring it.
func (w *waiting) step() (met bool, wake time.Duration, r *commands.Refusal, err error) {
	var came []projections.Shown
	err = w.look(func(v *reading) error {
		came, wake = nil, 0
		w.out.At = v.s.Position()
		if w.thread != "" {
			came, met, wake = w.inThread(v)
		}
		return nil
	})
	if err != nil {
		return false, 0, nil, err
	}
	if w.thread != "" && !met {
		return false, wake, nil, nil
	}
	if r, err = w.take(func() bool { return len(came) > 0 && w.allGiven(came) }); r != nil || err != nil {
		return false, 0, r, err
	}
	if w.q.Once && w.printed {
		return true, 0, nil, nil
	}
	if w.thread == "" {
		return len(w.out.Messages)+len(w.out.Notices)+len(w.out.Calls) > 0, w.nextLook(), nil, nil
	}
	var rest []projections.Shown
	for _, m := range came {
		if w.given[m.ID] {
			continue
		}
		if m.To == w.caller.ID && (m.State == events.StateLeased || m.State == events.StateQueued) {
			return false, w.nextLook(), nil, nil // another run has it: it is printed there, or comes back
		}
		rest = append(rest, m)
	}
	if len(rest) > 0 || len(w.out.Messages) == 0 {
		w.out.Messages = append(w.out.Messages, rest...)
		if err := w.say(Waited{Messages: append([]projections.Shown{}, rest...), Notices: []LeasedNotice{}, Calls: []LeasedCall{}, At: w.out.At}); err != nil {
			return false, 0, nil, err
		}
	}
	return true, 0, nil, nil
}

func (w *waiting) allGiven(came []projections.Shown) bool {
	for _, m := range came {
		if !w.given[m.ID] {
			return false
		}
	}
	return true
}

// take leases, prints and confirms what lies in the caller's mailbox, until
// enough came or nothing is left.
func (w *waiting) take(enough func() bool) (*commands.Refusal, error) {
	for !enough() {
		request := LeaseRequest{Asker: w.q.same(), Hook: "wait"}
		if err := w.still(); err != nil {
			return nil, err
		}
		if waits, err := w.Waits(request); err != nil || !waits {
			return nil, err
		}
		offered, r, err := w.Lease(request)
		if r != nil || err != nil || offered.ID == "" {
			return r, err
		}
		came := Waited{Messages: []projections.Shown{}, Notices: offered.Notices, Calls: offered.Calls, At: offered.Position, Text: offered.Text, Lease: offered.ID}
		for _, m := range offered.Messages {
			came.Messages = append(came.Messages, m.Shown)
		}
		if err := w.say(came); err != nil {
			return nil, err
		}
		w.printed = true
		if !w.q.Confirms {
			if _, r, err := w.Confirm(w.q.same(), offered.ID); r != nil || err != nil {
				return r, err
			}
		}
		for _, m := range came.Messages {
			w.given[m.ID] = true
		}
		w.out.Messages = append(w.out.Messages, came.Messages...)
		w.out.Notices = append(w.out.Notices, came.Notices...)
		w.out.Calls = append(w.out.Calls, came.Calls...)
		if w.q.Once {
			return nil, nil
		}
		if w.thread == "" && len(came.Messages)+len(came.Notices)+len(came.Calls) > 0 {
			return nil, nil
		}
	}
	return nil, nil
}

// say prints for who may still read it. What was leased for another comes again.
func (w *waiting) say(came Waited) error {
	if err := w.still(); err != nil {
		return err
	}
	return w.print(came)
}

// nextLook is how long until time alone may bring the caller something: a lease
// ends, a stub or a held copy has waited long enough, or, of which nothing here
// knows when, a loss falls due.
func (w *waiting) nextLook() time.Duration {
	left := bell.LookEvery
	_ = w.look(func(v *reading) error {
		if l := v.s.Current(w.caller.ID); l.Runs(v.now) {
			left = min(left, l.Until.Sub(v.now))
		}
		for _, at := range v.s.Mailboxes(w.caller.ID) {
			v.s.QueuedMessages(at, func(q projections.Queued) bool {
				if q.Message.FinalBy != nil && q.Message.Awaited(v.now) {
					left = min(left, q.Message.FinalBy.Sub(v.now))
				}
				if q.Message.Held(q.Delivery, v.now) {
					left = min(left, q.Delivery.Hold.Sub(v.now))
				}
				return true
			})
		}
		return nil
	})
	return left
}

// inThread lists what is waited for in the thread, says whether it is there,
// and how long a stub is waited for yet.
func (w *waiting) inThread(v *reading) (came []projections.Shown, met bool, wake time.Duration) {
	pending := false
	for _, m := range v.s.MessagesOf(w.thread) {
		mine := m.Author.ID == w.caller.ID
		if m.FinalBy != nil && m.Awaited(v.now) && !mine {
			left := m.FinalBy.Sub(v.now)
			if wake == 0 || left < wake {
				wake = left
			}
		}
		switch w.q.For {
		case WaitReply:
			asked := w.message == "" || m.ReplyTo == w.message
			if asked && m.ReplyTo != "" && !mine && m.Deleted == nil && !m.Awaited(v.now) &&
				(w.message != "" || m.Position > w.since || m.Main().Waits()) {
				came = append(came, v.s.Show(m, nil, v.r))
			}
		case WaitFinal:
			if w.message != "" && m.ID != w.message {
				continue
			}
			if m.Awaited(v.now) && (w.message != "" || !mine) {
				pending = true
			}
			came = append(came, v.s.Show(m, nil, v.r))
		case WaitAny:
			if m.Position > w.since && !mine && m.Deleted == nil {
				came = append(came, v.s.Show(m, nil, v.r))
			}
		}
	}
	if w.q.For == WaitFinal {
		return came, !pending, wake
	}
	return came, len(came) > 0, wake
}
