package ops

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// page is how many events a long reading takes at a time, so that no snapshot
// is held for long.
const page = 1000

// moment turns --at into a position: a number, or a time.
func (v *reading) moment(at string) (events.Position, error) {
	end, err := v.r.End()
	if err != nil || at == "" {
		return end, err
	}
	if n, err := strconv.ParseInt(at, 10, 64); err == nil {
		if n < 0 || events.Position(n) > end {
			return 0, refusal{commands.Refuse(commands.BadRequest, "the ledger has no position %d: its last is %d", n, end).
				Better("name a position up to the last, or a time", "decklog events --from "+strconv.FormatInt(int64(max(1, end-10)), 10))}
		}
		return events.Position(n), nil
	}
	t, err := events.ParseTime(strings.TrimSpace(at))
	if err != nil {
		return 0, refusal{commands.Refuse(commands.BadRequest, "%q is neither a position nor a time", at).
			Better("name a position as a number, or a time as RFC 3339", "decklog thread THREAD --at 2026-11-30T09:00:00Z")}
	}
	return v.r.AsOf(t)
}

// replay runs a reading on the views as they are or, with at, on the views as
// they were, folded from the ledger up to there, and of the kinds of rows that a
// fold may leave out only these.
func (o *Ops) replay(at string, only projections.Kind, read func(v *reading, live bool) error) (*commands.Refusal, error) {
	if at == "" {
		return caught(o.look(func(v *reading) error { return read(v, true) }))
	}
	var to events.Position
	if r, err := caught(o.look(func(v *reading) (err error) { to, err = v.moment(at); return err })); r != nil || err != nil {
		return r, err
	}
	s := projections.Replay(rows.New(), only)
	var last events.Time
	err := o.pages(1, to, func(found []events.Recorded) error {
		for _, r := range found {
			s.Apply(r)
			last = r.Time
		}
		o.progress("replay", found[len(found)-1].Position, to)
		return s.Err()
	})
	if err == nil {
		err = s.Flush()
	}
	if err != nil {
		return nil, err
	}
	return caught(o.look(func(v *reading) error {
		v.s, v.now = s, last
		if err := read(v, false); err != nil {
			return err
		}
		return v.s.Err()
	}))
}

// pages reads the ledger from one position to another, both included: each page
// while the one before it is visited, which on two processors takes little more
// than the longer of the two.
func (o *Ops) pages(from, to events.Position, visit func([]events.Recorded) error) error {
	type read struct {
		found []events.Recorded
		err   error
	}
	reads, enough := make(chan read), make(chan struct{})
	go func() {
		defer close(reads)
		for from <= to {
			select {
			case <-enough: // the next select may not see it, while what was read is let go of
				return
			default:
			}
			found, err := o.page(from, to)
			if err == nil && len(found) == 0 {
				return
			}
			select {
			case reads <- read{found, err}:
			case <-enough:
				return
			}
			if err != nil {
				return
			}
			from = found[len(found)-1].Position + 1
		}
	}()
	defer func() {
		close(enough)
		for range reads { // until nobody reads any more
		}
	}()
	for r := range reads {
		if r.err != nil {
			return r.err
		}
		if err := o.still(); err != nil {
			return err
		}
		if err := visit(r.found); err != nil {
			return err
		}
	}
	return nil
}

// page reads the events of one page, as far as to.
func (o *Ops) page(from, to events.Position) (found []events.Recorded, err error) {
	err = o.Ledger.View(func(r events.Reader) (err error) {
		found, err = r.All(from, page)
		return err
	})
	for len(found) > 0 && found[len(found)-1].Position > to {
		found = found[:len(found)-1]
	}
	return found, err
}

// caught takes a refusal out of an error.
func caught(err error) (*commands.Refusal, error) {
	if r, is := err.(refusal); is {
		return r.Refusal, nil
	}
	return nil, err
}

// InboxRequest asks for a page of an inbox.
type InboxRequest struct {
	As     string `json:"as,omitempty"`
	Claims Claims `json:"-"`
	Sent   bool   `json:"sent,omitempty"`
	State  string `json:"state,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 0: InboxDefault
	At     string `json:"at,omitempty"`
}

// The bounds of a page.
const (
	InboxDefault = 20
	InboxMax     = 200
)

// states are what an inbox can be asked for.
var states = []events.DeliveryState{
	events.StateQueued, events.StateHeld, events.StateLeased, events.StateDelivered,
	events.StateRead, events.StateExpired, events.StateUndelivered, events.StateDeleted,
}

// Inbox gives a page of what went to somebody, or of what it sent. It changes nothing.
func (o *Ops) Inbox(q InboxRequest) (view projections.InboxView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, projections.InboxRows|projections.SentRows, func(v *reading, live bool) (err error) {
		query := projections.InboxQuery{Sent: q.Sent, State: events.DeliveryState(q.State)}
		known := q.State == ""
		for _, state := range states {
			known = known || state == query.State
		}
		if !known {
			return refusal{commands.Refuse(commands.BadRequest, "%q is no state of a message", q.State).
				Better("ask for queued, held, leased, delivered, read, expired, undelivered or deleted", "decklog inbox --state queued")}
		}
		const example = "decklog inbox"
		var r *commands.Refusal
		if query.Limit, r = limited(q.Limit, InboxDefault, InboxMax, example); r != nil {
			return refusal{r}
		}
		query.Who, r, err = v.who(Asker{As: q.As, Claims: q.Claims}, live)
		if err != nil {
			return err
		}
		if r != nil {
			return refusal{r}
		}
		if query.Before, r = resumed(q.Cursor, example, query.Resume); r != nil {
			return refusal{r}
		}
		view = v.s.Inbox(query, v.r)
		return nil
	})
	return view, refused, err
}

// limited is how many a page holds: as many as are asked for, and with 0 the default.
func limited(limit, otherwise, most int, example string) (int, *commands.Refusal) {
	switch {
	case limit == 0:
		return otherwise, nil
	case limit < 0 || limit > most:
		return 0, commands.Refuse(commands.BadRequest, "the limit %d is not from 1 to %d", limit, most).
			Better("ask for fewer, and for the rest with --cursor", example+" --limit 50")
	}
	return limit, nil
}

// resumed is the place from which a page goes on; 0 without a cursor.
func resumed(cursor, example string, resume func(string) (events.Position, bool)) (events.Position, *commands.Refusal) {
	if cursor == "" {
		return 0, nil
	}
	at, ok := resume(cursor)
	if !ok {
		return 0, commands.Refuse(commands.BadRequest, "the cursor %q is damaged, or of another query", cursor).
			Better("take next_cursor of the page before, and ask the same question; or begin without a cursor", example)
	}
	return at, nil
}

// who is the participant that a reading is about: the one named, else the caller.
func (v *reading) who(a Asker, live bool) (events.Participant, *commands.Refusal, error) {
	as := a.As
	policy, err := v.policy()
	if err != nil {
		return "", nil, err
	}
	if as != "" {
		caller, r := v.named(v.s, policy, as, v.now)
		if r == nil && live { // at an earlier moment it may not have come yet
			r = v.known(policy, caller)
		}
		if r == nil && caller.Kind == events.KindSession && strings.HasPrefix(as, "@") {
			caller.ID = events.Participant(as) // the seat's own post
		}
		return caller.ID, r, nil
	}
	if inside, claimed, ended := v.inside(v.s, v.now); inside == nil && claimed == "" && ended != "" && !v.claims(a).Agents && v.World.Environ("DECKLOG_AS") == "" {
		return events.Participant(ended), nil, nil // it cannot act any more, and may still look
	}
	caller, r := v.identify(v.s, policy, Asker{Claims: a.Claims}, v.now)
	if r == nil && !caller.Known() {
		r = commands.Refuse(commands.NoCaller, "nobody can tell whose view is meant")
	}
	return caller.ID, r, nil
}

// known refuses a participant that nobody here is or was: its view would be
// empty, and look as if nothing had happened.
func (v *reading) known(p events.Policy, c commands.Caller) *commands.Refusal {
	switch {
	case c.Kind == events.KindSession && v.s.Session(c.ID.Session()) != nil:
	case c.Kind == events.KindSeat:
	case c.Kind == events.KindPerson && commands.KnownPerson(p, v.World.OSUser, c.ID.Name()):
	default:
		return commands.Refuse(commands.NotFound, "nobody here is %s", c.ID).
			Better("take the id from those who take part, or @name of a seat or person of the policy", "decklog peers")
	}
	return nil
}

// ThreadRequest asks for a thread.
type ThreadRequest struct {
	ID string `json:"id,omitempty"` // of a thread or a message, or a prefix that one of them has
	At string `json:"at,omitempty"`
}

// Thread gives a thread with everything that happened in it. It changes
// nothing. With At it is folded from the thread's own events and from those of
// other streams that name it, up to there.
func (o *Ops) Thread(q ThreadRequest) (view projections.ThreadView, refused *commands.Refusal, err error) {
	refused, err = caught(o.look(func(v *reading) error {
		id, r := findThread(v.s, q.ID)
		if r != nil {
			return refusal{r}
		}
		at, err := v.moment(q.At)
		if err != nil {
			return err
		}
		s, now, seen := v.s, v.now, &v.now
		if q.At != "" {
			if s, seen, err = v.threadAt(id, at); err != nil {
				return err
			}
			if now, err = v.timeAt(at); err != nil {
				return err
			}
		}
		var found bool
		view, found = s.ThreadView(id, v.r, now, at)
		if !found {
			return refusal{notBegun(id, at)}
		}
		view.Time = seen
		return s.Err()
	}))
	return view, refused, err
}

// timeAt is the moment of a position, which is that of its event, whatever it is
// about: a stub of this thread may have been given up by then.
func (v *reading) timeAt(at events.Position) (events.Time, error) {
	found, err := v.r.All(at, 1)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].Time, nil
}

// threadAt folds a thread up to a position.
func (v *reading) threadAt(id events.ThreadID, at events.Position) (*projections.State, *events.Time, error) {
	memory := rows.New()
	s := projections.On(memory)
	var seen *events.Time
	apply := func(p events.Position) error {
		found, err := v.r.All(p, 1)
		if err == nil && len(found) == 1 {
			s.Apply(found[0])
			seen = &found[0].Time
		}
		return err
	}
	// Who could drive is decided outside of the thread.
	roster := v.s.RosterEvents(at)
	for _, e := range v.s.Named(id, 0, 0) {
		if e.Position > at {
			break
		}
		for len(roster) > 0 && roster[0] < e.Position {
			if err := apply(roster[0]); err != nil {
				return nil, nil, err
			}
			roster = roster[1:]
		}
		if err := apply(e.Position); err != nil {
			return nil, nil, err
		}
	}
	last := seen
	for _, p := range roster {
		if err := apply(p); err != nil {
			return nil, nil, err
		}
	}
	seen = last // the moment of the thread's own last event
	if err := s.Flush(); err != nil {
		return nil, nil, err
	}
	return projections.On(memory), seen, nil
}

func findThread(s *projections.State, id string) (events.ThreadID, *commands.Refusal) {
	t, r := commands.FindThread(s, id)
	if r != nil {
		return "", r
	}
	return t.ID, nil
}

// OwedRequest asks what is owed.
type OwedRequest struct {
	By     string `json:"by,omitempty"` // participants, or [Me]; empty: all
	To     string `json:"to,omitempty"`
	At     string `json:"at,omitempty"`
	As     string `json:"as,omitempty"` // who asks
	Claims Claims `json:"-"`
}

// Me is the caller, where a participant is named.
const Me = "me"

// OwedMax bounds the owed view.
const OwedMax = 1000

// Owed gives the open items, oldest first. It changes nothing.
func (o *Ops) Owed(q OwedRequest) (view projections.OwedView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, 0, func(v *reading, live bool) error {
		sides := make([][]events.Participant, 2)
		for i, name := range []string{q.By, q.To} {
			switch name {
			case "":
				continue
			case Me:
				name = q.As
			}
			who, r, err := v.who(Asker{As: name, Claims: q.Claims}, live)
			if err != nil {
				return err
			}
			if r != nil {
				return refusal{r}
			}
			sides[i] = v.s.Mailboxes(who)
		}
		view = v.s.Owing(sides[0], sides[1], OwedMax, v.now)
		return nil
	})
	return view, refused, err
}

// EventsRequest asks for events.
type EventsRequest struct {
	From   events.Position `json:"from,omitempty"`   // 0: the first
	Thread string          `json:"thread,omitempty"` // only those that name it
	Type   string          `json:"type,omitempty"`   // only those of this type
}

// Events visits the recorded events in order, and gives the position after
// which more may come. It changes nothing. A type that this program does not write,
// and of which the ledger holds none of a newer one's, is refused.
func (o *Ops) Events(q EventsRequest, visit func(events.Recorded) error) (last events.Position, refused *commands.Refusal, err error) {
	last = max(0, q.From-1)
	if refused, err := o.noSuchType(q.Type); refused != nil || err != nil {
		return last, refused, err
	}
	if q.Thread == "" {
		var end events.Position
		if err := o.look(func(v *reading) (err error) { end, err = v.r.End(); return err }); err != nil {
			return last, nil, err
		}
		err = o.pages(last+1, end, func(found []events.Recorded) error {
			for _, r := range found {
				last = r.Position
				if q.Type == "" || string(r.Type()) == q.Type {
					if err := visit(r); err != nil {
						return err
					}
				}
			}
			return nil
		})
		return last, nil, err
	}
	for {
		var found []events.Recorded
		more := false
		if err := o.still(); err != nil {
			return last, nil, err
		}
		refused, err = caught(o.look(func(v *reading) error {
			id, r := findThread(v.s, q.Thread)
			if r != nil {
				return refusal{r}
			}
			named := v.s.Named(id, last+1, page)
			more = len(named) == page
			for _, e := range named {
				events, err := v.r.All(e.Position, 1)
				if err != nil {
					return err
				}
				found = append(found, events...)
			}
			return nil
		}))
		if refused != nil || err != nil {
			return last, refused, err
		}
		for _, r := range found {
			last = r.Position
			if q.Type == "" || string(r.Type()) == q.Type {
				if err := visit(r); err != nil {
					return last, nil, err
				}
			}
		}
		if !more {
			return last, nil, nil
		}
	}
}

// noSuchType refuses a type of which no event is or will be.
func (o *Ops) noSuchType(name string) (*commands.Refusal, error) {
	if name == "" || slices.Contains(events.Types(), events.Type(name)) {
		return nil, nil
	}
	_, _, err := o.Events(EventsRequest{}, func(r events.Recorded) error {
		if string(r.Type()) == name { // a newer program wrote it
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var types []string
	for _, t := range events.Types() {
		types = append(types, string(t))
	}
	near := slices.MinFunc(types, func(a, b string) int { return cmp.Compare(commands.Distance(a, name), commands.Distance(b, name)) })
	return commands.Refuse(commands.BadRequest, "no event is of the type %s; there are %s", cut(name), strings.Join(types, ", ")).
		Better("name one of them, such as "+near, "decklog events --type "+near), nil
}
