package ops

import (
	"fmt"
	"slices"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/render"
	"decklog/projections"
)

// LeaseRequest asks for a participant's oldest messages.
type LeaseRequest struct {
	Asker
	Harness  string        `json:"harness,omitempty"`
	Hook     string        `json:"hook,omitempty"`      // the harness's event that the run answers
	Budget   int           `json:"max_bytes,omitempty"` // encoded bytes of the text; 0: BudgetDefault
	Markup   render.Markup `json:"markup,omitempty"`
	Stopping bool          `json:"stopping,omitempty"` // the session is about to end its turn
	// Late says whether the run began so long ago that its harness may have
	// given it up; it then leases nothing. Nil: never. Within is the same for a
	// ledger in another process: how many microseconds from now on; 0 and less: it
	// is late already; nil: never.
	Late   func() bool `json:"-"`
	Within *int64      `json:"within_us,omitempty"`
}

// BudgetDefault is how many encoded bytes one lease holds at most, as a rule:
// under the caps of the harnesses, by whichever count they use.
const BudgetDefault = 9000

// Offered is a lease: what to print, and what to quote when it is printed.
type Offered struct {
	ID          events.LeaseID         `json:"id"` // empty: there is nothing to lease
	Position    events.Position        `json:"position"`
	Until       *events.Time           `json:"until"`
	Busy        *events.Time           `json:"busy_until"` // another lease runs until then
	Instruction events.InstructionForm `json:"instruction"`
	Messages    []LeasedMessage        `json:"messages"`
	Notices     []LeasedNotice         `json:"notices"`
	Calls       []LeasedCall           `json:"calls"`
	Text        string                 `json:"text"`
	// Sought is, when there is nothing to lease, what was printed before and is yet
	// to be found in the session's transcript.
	Sought []commands.Sought `json:"-"`
}

// LeasedMessage is a message as the lease offers it.
type LeasedMessage struct {
	projections.Shown
	Pending  bool `json:"pending"`
	IsEdited bool `json:"is_edited"` // seen as a stub before, now final
}

// LeasedNotice is the telling of a loss.
type LeasedNotice struct {
	Message events.MessageID   `json:"message"`
	Thread  events.ThreadID    `json:"thread"`
	To      events.Participant `json:"to"`
	Reason  events.LostReason  `json:"reason"`
	Attempt int                `json:"attempt"`
}

// Waits says whether a lease would hold anything for the caller, or anything is
// due to be recorded around it. It writes nothing, and costs a look.
func (o *Ops) Waits(q LeaseRequest) (waits bool, err error) {
	err = o.look(func(v *reading) error {
		policy, err := v.policy()
		if err != nil {
			return err
		}
		caller, r := o.identify(v.s, policy, q.Asker, v.now)
		if r != nil {
			waits = true // the refusal is told by the lease
			return nil
		}
		call := o.call("", caller)
		offer := commands.Taking{Call: call, Who: caller.ID, Stopping: q.Stopping}.Offer(v.s, v.now)
		waits = !offer.Empty() || len(commands.Due(v.s, call, caller.ID, v.now, policy)) > 0
		return nil
	})
	return waits, err
}

// Silence makes a session's bell silent when nothing waits for it and nothing is
// leased, until something could fall due without an event. It looks where all is
// settled: nothing that it sees may yet be undone, and what is recorded after it
// rings again (see package bell).
func (o *Ops) Silence(id events.SessionID) error {
	if o.World.Bells == (bell.Bells{}) {
		return nil
	}
	return o.Ledger.Settled(func(r events.Reader) error {
		s := projections.On(r.Rows())
		if s.Fold() != projections.FoldVersion {
			return s.Err()
		}
		policy := s.Policy()
		if policy == nil || s.Session(id) == nil {
			return s.Err()
		}
		now := o.World.Now()
		call := o.call("", session(id))
		quiet, until := commands.Quiet(s, call, call.Caller.ID, bell.LookEvery, now, policy.Policy)
		if err := s.Err(); err != nil || !quiet {
			return err
		}
		if until == nil {
			return o.World.Bells.Silence(string(id), nil)
		}
		look := until.Std()
		return o.World.Bells.Silence(string(id), &look)
	})
}

// IgnoreRequest says which directories' sessions take no part.
type IgnoreRequest struct {
	Policy []string `json:"policy"` // as the policy in force names them
	Roots  []string `json:"roots"`  // what they are on the caller's machine
}

// Ignore notes beside the bells which directories' sessions take no part, so
// that their hook runs need not ask. It does so where all is settled, so that no
// policy is adopted meanwhile, and none that it saw is undone. Where another policy is in
// force than the one that the caller read, it notes nothing.
func (o *Ops) Ignore(q IgnoreRequest) error {
	if o.World.Bells == (bell.Bells{}) {
		return nil
	}
	return o.Ledger.Settled(func(r events.Reader) error {
		s := projections.On(r.Rows())
		policy := s.Policy()
		if policy == nil || !slices.Equal(policy.Policy.Sessions.Ignore, q.Policy) {
			return s.Err()
		}
		return o.World.Bells.Ignore(q.Roots)
	})
}

// Lease offers the caller its oldest messages that fit, and nobody else while
// the lease runs. An empty id says that there is nothing to offer.
func (o *Ops) Lease(q LeaseRequest) (offered Offered, refused *commands.Refusal, err error) {
	if q.Budget == 0 {
		q.Budget = BudgetDefault
	}
	refused, err = o.update("lease", q.Asker, func(u *unit) (*commands.Refusal, error) {
		offered = Offered{Messages: []LeasedMessage{}, Notices: []LeasedNotice{}, Calls: []LeasedCall{}}
		who := u.call.Caller.ID
		if err := u.sweep(who); err != nil {
			return nil, err
		}
		if q.Late != nil && q.Late() {
			return nil, u.end(&offered)
		}
		taking := commands.Taking{Call: u.call, Who: who, Stopping: q.Stopping}
		offer := taking.Offer(u.s, u.now)
		items, err := u.items(offer.Items)
		if err != nil {
			return nil, err
		}
		recorded, r, err := u.run(commands.Lease{
			Taking: taking, Harness: q.Harness, Hook: q.Hook, Take: take(q, offer.Instruction, items),
			Version: render.InstructionVersion,
		}, events.TypeMailboxTaken, events.TypeInstructionLeased, events.TypeMailboxLeased)
		if r != nil || err != nil {
			return r, err
		}
		if len(recorded) == 0 {
			if offer.Runs != nil {
				until := offer.Runs.Until
				offered.Busy = &until
			}
			offered.Sought = commands.SoughtFor(u.s, who, u.now)
			return nil, u.end(&offered)
		}
		// What is printed is what the lease holds, also when this command opened it
		// before and something else could be offered now.
		lease := u.s.Lease(u.call.ID.Lease())
		if lease == nil || len(u.held(lease)) < len(lease.Items) {
			return nil, fmt.Errorf("read the lease's rows: %w", events.ErrDamaged) // and nothing was leased
		}
		if items, err = u.items(u.held(lease)); err != nil {
			return nil, err
		}
		until := lease.Until
		offered.ID, offered.Until, offered.Instruction = lease.ID, &until, lease.Instruction
		offered.Position = recorded[len(recorded)-1].Position
		offered.Text = q.Markup.Text(q.Budget, q.instruction(lease.Instruction), items)
		for i, it := range lease.Items {
			if it.Kind == events.ItemCall {
				offered.Calls = append(offered.Calls, leasedCall(items[i].(render.Call)))
				continue
			}
			m := u.s.Message(it.Message)
			if it.Kind == events.ItemNotice {
				offered.Notices = append(offered.Notices, LeasedNotice{
					Message: it.Message, Thread: it.Thread, To: it.To, Reason: it.Reason, Attempt: it.Attempt,
				})
				continue
			}
			offered.Messages = append(offered.Messages, LeasedMessage{
				Shown: u.s.Show(m, m.Delivery(who), u.tx), Pending: it.Pending, IsEdited: it.Edited,
			})
		}
		return nil, nil
	})
	return offered, refused, err
}

// instruction is the standing instruction's text; empty when none is owed.
func (q LeaseRequest) instruction(form events.InstructionForm) string {
	if form == "" {
		return ""
	}
	return q.Markup.Instruction(form)
}

// held gives the items of a lease as they were offered.
func (u *unit) held(l *projections.Lease) (items []commands.OfferItem) {
	for _, it := range l.Items {
		if call := u.s.Call(it.Call, projections.Mailboxed(it, l.Mailbox)); call != nil {
			items = append(items, commands.OfferItem{Leased: it, Call: call})
			continue
		}
		if m := u.s.Message(it.Message); m != nil {
			items = append(items, commands.OfferItem{Leased: it, Message: m})
		}
	}
	return items
}

// take is how many items are leased with the instruction. A frame that is all
// names and refs, and takes with it more than a harness does (a tenth more than
// the budget), waits for the next run.
func take(q LeaseRequest, owed events.InstructionForm, items []render.Item) int {
	budget, instruction := q.Budget, q.instruction(owed)
	n := q.Markup.Fit(budget, instruction, items)
	if n == 1 && instruction != "" && budget >= BudgetDefault && render.EncodedLen(q.Markup.Text(budget, instruction, items[:1])) > budget+budget/10 {
		return 0
	}
	return n
}

func (u *unit) end(offered *Offered) (err error) {
	offered.Position, err = u.tx.End()
	return err
}

// items joins what is offered with its text, in the form in which it is shown.
func (u *unit) items(offer []commands.OfferItem) (items []render.Item, err error) {
	for _, it := range offer {
		if it.Kind == events.ItemCall {
			call, err := u.callOf(it)
			if err != nil {
				return nil, err
			}
			items = append(items, call)
			continue
		}
		m := it.Message
		if it.Kind == events.ItemNotice {
			items = append(items, render.Notice{
				Message: m.ID, Thread: m.Thread, To: it.To, Reason: it.Reason, Sent: m.Sent, Attempt: it.Attempt,
			})
			continue
		}
		body, there, err := u.tx.Body(m.Event)
		if err != nil {
			return nil, err
		}
		frame := render.Message{
			ID: m.ID, Thread: m.Thread, From: m.Author.ID, Seat: m.Author.Seat, Harness: m.Author.Harness, Person: m.Author.Person, Subagent: m.Author.Subagent,
			Repo: m.Author.Repo, Branch: m.Author.Branch, To: m.To.ID, Intent: m.Intent, Turn: m.Turn, Sent: m.Sent,
			ReplyTo: m.ReplyTo, IsReply: m.IsReply, Attempt: it.Attempt, Pending: it.Pending, Edited: it.Edited,
			Body: string(body.Text), Redacted: !there, Refs: m.Refs,
		}
		u.surround(&frame, m)
		items = append(items, frame)
	}
	return items, nil
}

// surround says of a message's thread who drives it, and who else is answering
// there while the message comes.
func (u *unit) surround(frame *render.Message, m *projections.Message) {
	t := u.s.Thread(m.Thread)
	if t == nil {
		return
	}
	frame.Driver = u.s.Driver(t).Seat
	frame.Channel, frame.Payload = m.Channel, m.Payload != ""
	if m.Intent == events.Done {
		return // it wants no answer
	}
	if seat := u.seat(); seat != "" && m.Author.Kind == events.KindPerson && m.To.ID != u.call.Caller.ID {
		frame.Answers = commands.Answers(u.s, t, m)
		frame.Yours = frame.Answers == seat
	}
	awaited, overdue := u.call.Answering(u.s, t, u.now, u.policy.Policy)
	for _, p := range awaited {
		frame.Answering = once(frame.Answering, p.Who())
		frame.Until = max(frame.Until, p.Until)
	}
	for _, p := range overdue {
		if p.Message != m.ID {
			frame.Overdue = once(frame.Overdue, p.Who())
		}
	}
}

// seat is the one that the caller's session occupies; empty: none.
func (u *unit) seat() string { return u.s.SeatOf(u.s.Session(u.call.Caller.ID.Session())) }

func once(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// Confirm says that what a lease offered was printed. A confirm that is sent
// again, because its answer was lost, gets its first receipt.
func (o *Ops) Confirm(a Asker, lease events.LeaseID) (receipt Receipt, refused *commands.Refusal, err error) {
	if a.Command == "" {
		a.Command = events.FollowUp(string(lease), "confirm")
	}
	refused, err = o.update("confirm", a, func(u *unit) (*commands.Refusal, error) {
		if l := u.s.Lease(lease); l != nil {
			if r := o.touches(u.s, u.policy.Policy, a, l.Mailbox, u.now); r != nil {
				return r, nil
			}
		}
		confirm := commands.Confirm{Call: u.call, Lease: lease}
		if r := confirm.NotYours(u.s); r != nil {
			return r, nil
		}
		recorded, r, err := u.run(confirm, events.TypeInstructionConfirmed, events.TypeMailboxConfirmed)
		if r != nil || err != nil {
			return r, err
		}
		receipt, err = u.receipt(string(lease), recorded)
		u.places(&receipt.Position)
		return nil, err
	})
	return receipt, refused, err
}
