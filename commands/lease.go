package commands

import (
	"fmt"
	"slices"

	"decklog/events"
	"decklog/projections"
)

// ItemsMax is how many items one lease offers at most.
const ItemsMax = 5

// Offer is what a participant's next lease can hold: the standing instruction
// where it is owed, and its oldest items, oldest first.
type Offer struct {
	Runs        *projections.Lease     // a lease that runs: until it ends there is nothing else
	Instruction events.InstructionForm // empty: not owed
	Items       []OfferItem
}

// OfferItem is an item that waits, with what its recipient has to know of it.
type OfferItem struct {
	events.Leased
	At       events.Participant // the mailbox that it lies in now
	Message  *projections.Message
	Delivery *projections.Delivery
	Call     *projections.Call // of a call, which has neither of those
	position events.Position
}

// Empty says whether there is nothing to print.
func (o Offer) Empty() bool { return o.Runs != nil || o.Instruction == "" && len(o.Items) == 0 }

// Taking asks what a participant can be offered now, or to be offered it.
type Taking struct {
	Call
	Who events.Participant
	// Stopping is a session that is about to end its turn: it is held once for
	// a request, an answer to its own request or the offer of a hand-off, and for
	// nothing else.
	Stopping bool
}

// Offer looks at the mailbox of the participant and, for a session, at those of
// its seat and its person. It writes nothing.
func (c Taking) Offer(s *projections.State, now events.Time) Offer {
	var o Offer
	if running := s.Current(c.Who); running.Runs(now) {
		o.Runs = running
		return o
	}
	for _, at := range s.Mailboxes(c.Who) {
		visit := s.Queue
		if at != c.Who {
			if s.Current(at).Runs(now) {
				continue // its person reads it by hand
			}
			// A loss is told to the one who sent the message; another session of the
			// same person did not.
			visit = s.QueuedForTaker
		}
		n := 0
		visit(at, func(q projections.Queued) bool {
			if item, ready := c.ready(s, at, q, now); ready && !c.has(o.Items, item) {
				o.Items = append(o.Items, item)
				n++
			}
			return n < ItemsMax
		})
	}
	slices.SortStableFunc(o.Items, func(a, b OfferItem) int { return int(a.position - b.position) })
	o.Items = o.Items[:min(len(o.Items), ItemsMax)]
	if c.Stopping && len(o.Items) == 0 {
		return o
	}
	o.Instruction = s.Mailbox(c.Who).Instruction.Owed
	return o
}

// ready says whether an item can be offered now, and how.
func (c Taking) ready(s *projections.State, at events.Participant, q projections.Queued, now events.Time) (OfferItem, bool) {
	if q.Kind == events.ItemCall {
		return c.callReady(s, at, q, now)
	}
	m, d := q.Message, q.Delivery
	item := OfferItem{At: at, Message: m, Delivery: d, position: q.Position}
	if q.Kind == events.ItemNotice {
		item.Leased = events.Leased{
			Kind: events.ItemNotice, Message: m.ID, Thread: m.Thread, Attempt: d.Notice.Attempt + 1, Reason: d.Notice.Reason, To: d.To,
		}
		return item, !c.Stopping
	}
	item.Leased = events.Leased{
		Kind: events.ItemMessage, Message: m.ID, Thread: m.Thread, Attempt: d.Attempt + 1,
		Pending: m.Turn == events.Working,
		// Also when the run that was offered the stub never confirmed: it may have
		// printed it, and a mere repeat would then not be acted on.
		Edited: d.Again || d.AsStub && m.Turn == events.Final,
	}
	switch {
	case m.Awaited(now), m.Held(d, now), now >= m.Expires:
		return item, false
	case at != c.Who && m.Author.ID == c.Who:
		return item, false
	case d.To == at && m.To.Kind == events.KindPerson && at != c.Who && !c.takesFor(s, at.Name(), m, now):
		return item, false
	case c.Stopping:
		return item, d.Attempt == 0 && (m.Intent == events.Request || m.IsReply && c.answersRequest(s, m))
	}
	return item, true
}

// has says whether the participant has the message of an item by another copy,
// or is offered it: who is session, seat and person at once reads it once.
func (c Taking) has(offered []OfferItem, item OfferItem) bool {
	if item.Kind != events.ItemMessage {
		return false
	}
	return item.At != c.Who && item.Message.Delivery(c.Who) != nil ||
		slices.ContainsFunc(offered, func(o OfferItem) bool { return o.Kind == events.ItemMessage && o.Message == item.Message })
}

// along lists the copies of leased messages that lie in one more mailbox which
// the session takes from: it has printed them by the copy that it leased.
func (c Taking) along(s *projections.State, at events.Participant, items []events.Leased, now events.Time) (moved []events.Moved) {
	if s.Current(at).Runs(now) {
		return nil
	}
	for _, it := range items {
		m := s.Message(it.Message)
		if it.Kind != events.ItemMessage || m == nil {
			continue
		}
		d := m.Delivery(at)
		if d == nil || !d.Waits() || m.To.ID == at && m.To.Kind == events.KindPerson && !c.takesFor(s, at.Name(), m, now) {
			continue
		}
		moved = append(moved, events.Moved{Message: m.ID, Thread: m.Thread})
	}
	return moved
}

// callReady says whether a call can be offered now. What lies in the mailbox of a
// seat or a person stays there while another session's lease on it runs.
func (c Taking) callReady(s *projections.State, at events.Participant, q projections.Queued, now events.Time) (OfferItem, bool) {
	call := q.Call
	item := OfferItem{At: at, Call: call, position: q.Position, Leased: events.Leased{
		Kind: events.ItemCall, Call: call.Event, Thread: call.Thread, Attempt: call.Attempt + 1,
	}}
	if at != c.Who {
		item.To = at
	}
	switch {
	case call.State == events.StateLeased && s.Lease(call.Lease).Runs(now):
		return item, false
	case call.Type == events.TypeOwedPaged && at != c.Who && c.seated(s):
		return item, false // it is for a person, and the debtor may be this very seat
	case c.Stopping:
		return item, call.Type == events.TypeHandoffOffered && call.Attempt == 0
	}
	return item, true
}

func (c Taking) seated(s *projections.State) bool {
	row := s.Session(c.Who.Session())
	return row != nil && s.SeatOf(row) != ""
}

// takesFor says whether this session is one that takes a person's message: it
// works on the author's repository, or no other session of the person does.
func (c Taking) takesFor(s *projections.State, person string, m *projections.Message, now events.Time) bool {
	me := s.Session(c.Who.Session())
	if m.Author.Repo == "" || me.Repo == m.Author.Repo {
		return true
	}
	for _, row := range s.SessionsOf(person) {
		if row.ID != me.ID && row.Repo == m.Author.Repo && events.Participant(row.ID) != m.Author.ID && c.live(row, now) {
			return false
		}
	}
	return true
}

func (c Taking) answersRequest(s *projections.State, m *projections.Message) bool {
	parent := s.Message(m.ReplyTo)
	return parent != nil && parent.Intent == events.Request
}

// WordBytesMax bounds a word of the caller's that is kept as it is.
const WordBytesMax = 64

// Lease asks for the oldest messages that fit.
type Lease struct {
	Taking
	Harness string
	Hook    string // the harness's event that the run answers
	Take    int    // how many of the offered items fit; the run that prints them has measured it
	Version int    // of the standing instruction's text that the run would print
}

// Decide opens a lease on the first Take items of the offer, or answers with no
// events when there is nothing to lease: a lease runs, or nothing waits. The
// lease and the taking from the mailbox of a seat or a person are one command.
func (c Lease) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	if !c.Caller.Known() {
		return nil, c.nobody("whose mailbox is meant").example("decklog lease --as SESSION")
	}
	if _, live := c.author(s, now, p); !live {
		return nil, NotLive(s, c.Call, now)
	}
	for _, name := range []string{c.Harness, c.Hook} {
		if len(name) > WordBytesMax {
			return nil, refuse(BadRequest, "the name of a harness or of its hook has %d bytes", len(name)).
				fix("name it with at most %d", WordBytesMax).example("decklog lease --as SESSION --harness claude-code")
		}
	}
	o := c.Offer(s, now)
	if o.Empty() {
		return nil, nil
	}
	items := o.Items[:min(max(c.Take, 0), len(o.Items))]
	if len(items) == 0 && o.Instruction == "" {
		return nil, nil
	}
	var out []events.Proposed
	add := func(stream events.Stream, e events.Event) {
		out = append(out, events.Proposed{
			Stream: stream, ID: c.ID.Event(len(out)), Actor: c.Who, Cause: events.Cause{Command: c.ID}, Event: e,
		})
	}
	for _, at := range s.Mailboxes(c.Who)[1:] {
		var moved []events.Moved
		for _, it := range items {
			if it.At == at && it.Kind == events.ItemMessage {
				moved = append(moved, events.Moved{Message: it.Leased.Message, Thread: it.Thread})
			}
		}
		if moved != nil {
			add(events.MailboxStream(at), events.MailboxTaken{Mailbox: at, Session: c.Who.Session(), Items: moved})
		}
	}
	until := now.Add(p.Limits.Lease.Std())
	stream := events.MailboxStream(c.Who)
	if o.Instruction != "" {
		add(stream, events.InstructionLeased{
			Lease: c.ID.Lease(), Mailbox: c.Who, Version: c.Version, Form: o.Instruction,
			Attempt: s.Mailbox(c.Who).Instruction.Attempt + 1, Until: until,
		})
	}
	if len(items) > 0 {
		leased := make([]events.Leased, len(items))
		for i, it := range items {
			leased[i] = it.Leased
		}
		add(stream, events.MailboxLeased{Lease: c.ID.Lease(), Mailbox: c.Who, Harness: c.Harness, Hook: c.Hook, Until: until, Items: leased})
	}
	return out, nil
}

// Confirm says that a hook run printed what it had leased.
type Confirm struct {
	Call
	Lease events.LeaseID
}

// Decide admits the confirm, also after the deadline, as long as none of its
// messages was leased again or given up, as undelivered or expired; else it
// refuses it whole, and changes nothing. The lease's id is the fencing token:
// who quotes it printed it.
func (c Confirm) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	l := s.Lease(c.Lease)
	if l == nil {
		return nil, refuse(NotFound, "no lease has the id %q", c.Lease).
			fix("quote the lease's id as `decklog lease` gave it").example("decklog lease --as SESSION")
	}
	if r := c.NotYours(s); r != nil {
		return nil, r
	}
	if l.Confirmed != nil {
		return nil, c.stale(StaleLease, l, "lease %s was confirmed at %s", l.ID, *l.Confirmed)
	}
	for _, it := range l.Items {
		if what := overtaken(s, l, it); what != "" {
			r := c.stale(StaleLease, l, "lease %s is over: %s", l.ID, what)
			return nil, r.naming(it.Message, it.Thread)
		}
	}
	if box := s.Mailbox(l.Mailbox).Instruction; l.Instruction != "" && (box.Owed == "" || box.Lease != l.ID) {
		return nil, c.stale(StaleLease, l, "lease %s is over: the instruction was offered again", l.ID)
	}
	var out []events.Proposed
	add := func(stream events.Stream, e events.Event) {
		out = append(out, events.Proposed{
			Stream: stream, ID: c.ID.Event(len(out)), Actor: l.Mailbox, Cause: events.Cause{Command: c.ID}, Event: e,
		})
	}
	stream := events.MailboxStream(l.Mailbox)
	if l.Instruction != "" {
		add(stream, events.InstructionConfirmed{Lease: l.ID, Mailbox: l.Mailbox, Version: l.Version, Form: l.Instruction})
	}
	if len(l.Items) > 0 {
		add(stream, events.MailboxConfirmed{Lease: l.ID, Mailbox: l.Mailbox, Items: l.Items, Late: !l.Runs(now)})
	}
	taking := Taking{Call: c.Call, Who: l.Mailbox}
	for _, at := range s.Mailboxes(l.Mailbox)[1:] {
		if moved := taking.along(s, at, l.Items, now); moved != nil {
			add(events.MailboxStream(at), events.MailboxTaken{Mailbox: at, Session: l.Mailbox.Session(), Items: moved})
		}
	}
	return out, nil
}

// NotYours refuses a session that quotes the lease of another; it gets neither a
// confirm nor the receipt of an earlier one.
func (c Confirm) NotYours(s *projections.State) *Refusal {
	l := s.Lease(c.Lease)
	if l == nil || c.Caller.Kind != events.KindSession || c.Caller.ID == l.Mailbox {
		return nil
	}
	return c.stale(NotYours, l, "lease %s is of the mailbox of %s", l.ID, l.Mailbox)
}

func (c Confirm) stale(code Code, l *projections.Lease, format string, args ...any) *Refusal {
	r := refuse(code, format, args...)
	r.Lease = l.ID
	if r.Code == NotYours {
		r.Fix = "confirm only what was leased for this session"
	}
	return r.example("decklog lease --as %s", or(safeWord(string(l.Mailbox)), "SESSION"))
}

// overtaken says what happened to a leased item since; empty when nothing did.
func overtaken(s *projections.State, l *projections.Lease, it events.Leased) string {
	if it.Kind == events.ItemCall {
		return callOvertaken(s, l, it)
	}
	m := s.Message(it.Message)
	if m == nil {
		return fmt.Sprintf("message %s is not known", it.Message)
	}
	if it.Kind == events.ItemNotice {
		for _, d := range m.Deliveries {
			if d.Notice != nil && d.Notice.At == l.Mailbox && d.To == it.To {
				switch {
				case d.Notice.Attempt != it.Attempt:
					return fmt.Sprintf("the notice of message %s was offered again", m.ID)
				case d.Notice.State == events.StateUndelivered:
					return fmt.Sprintf("the notice of message %s was given up", m.ID)
				}
			}
		}
		return ""
	}
	d := m.Delivery(l.Mailbox)
	switch {
	case d == nil:
		return fmt.Sprintf("message %s went back to the one it was addressed to", m.ID)
	case d.Attempt != it.Attempt:
		return fmt.Sprintf("message %s was offered again as attempt %d", m.ID, d.Attempt)
	case d.State == events.StateUndelivered || d.State == events.StateExpired:
		return fmt.Sprintf("message %s is %s", m.ID, d.State)
	}
	return ""
}

// callOvertaken is overtaken for a call. One that was dropped meanwhile, because
// its item closed, was still printed.
func callOvertaken(s *projections.State, l *projections.Lease, it events.Leased) string {
	c := s.Call(it.Call, projections.Mailboxed(it, l.Mailbox))
	switch {
	case c == nil:
		return fmt.Sprintf("the call of event %s is not known", it.Call)
	case c.Attempt != it.Attempt:
		return fmt.Sprintf("the call of event %s was offered again as attempt %d", it.Call, c.Attempt)
	case c.State == events.StateUndelivered:
		return fmt.Sprintf("the call of event %s was given up", it.Call)
	}
	return ""
}
