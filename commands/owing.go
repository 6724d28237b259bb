package commands

import (
	"fmt"
	"slices"

	"decklog/events"
	"decklog/projections"
)

// NudgesMax is how often the debtor of an item is reminded before the owners are
// called.
const NudgesMax = 3

// RoleOwner is the role of the persons who are called when nobody else can decide.
const RoleOwner = "owner"

// Owners lists who is called, in the policy's order: the persons with the role.
// Where the policy gives it to nobody they are all called. A policy without
// persons has no owners: the call is recorded and shown, and goes to nobody's
// agents.
func Owners(p events.Policy) []events.Participant {
	all, owners := []events.Participant{}, []events.Participant{}
	for _, person := range p.Persons {
		all = append(all, events.Named(person.Name))
		if slices.Contains(person.Roles, RoleOwner) {
			owners = append(owners, events.Named(person.Name))
		}
	}
	if len(owners) > 0 {
		return owners
	}
	return all
}

// Reminder is what time brings about for an open item next.
type Reminder struct {
	At    events.Time
	Nudge int               // that the debtor gets; 0: the owners are called
	Page  events.PageReason // why
}

// NextReminder says what time brings about for an open item next (R16): reminders of
// its debtor, the first at the due time and each further one as long after the
// last, then a call to the owners; for a review, whose time is its bound, that
// call at once. False: nothing, because the item is not bounded, or the owners
// were called already. Silence closes nothing.
func NextReminder(o projections.Owed, l events.Limits, now events.Time) (Reminder, bool) {
	switch {
	case o.Due == nil || o.Paged != nil:
		return Reminder{}, false
	case o.Kind == projections.OwedReview:
		return Reminder{At: *o.Due, Page: events.PageLate}, true
	case l.OwedAfter == 0:
		return Reminder{}, false
	case o.Nudged == nil:
		return Reminder{At: *o.Due, Nudge: 1}, true
	}
	next := Reminder{At: o.Nudged.Add(l.OwedAfter.Std()), Nudge: o.Nudges + 1}
	if *o.Nudged > now {
		next.At = now // the clock went back since: no clock silences a reminder
	}
	if o.Nudges >= NudgesMax {
		next.Nudge, next.Page = 0, events.PageReminded
	}
	return next, true
}

// owing records what is due of the open items that the participant owes or is
// owed; for an owner, of all.
func (d *due) owing(boxes []events.Participant) {
	owners := Owners(d.policy)
	n := 0
	d.s.DueBy(d.now, concerned(boxes, owners), func(o projections.Owed) bool {
		next, bounded := NextReminder(o, d.policy.Limits, d.now)
		if !bounded || d.now < next.At {
			return true
		}
		// The due time and the passing are part of the cause: an accepted hand-off is
		// owed anew, and so is what passed to another.
		stream, cause := events.ThreadStream(o.Thread), fmt.Sprintf("%s %d %d", o.ID, *o.Due, o.Passed)
		if next.Nudge > 0 {
			d.add(stream, cause, fmt.Sprintf("nudged %d", next.Nudge),
				events.OwedNudged{Thread: o.Thread, Item: o.ID, Debtor: o.Debtor, Nudge: next.Nudge})
		} else {
			if o.Kind == projections.OwedReview {
				d.add(stream, cause, "timed out", events.ReviewTimedOut{Review: events.ReviewID(o.ID), Thread: o.Thread})
			}
			d.add(stream, cause, "paged",
				events.OwedPaged{Thread: o.Thread, Item: o.ID, Owners: owners, Debtor: o.Debtor, Reason: next.Page})
		}
		n++
		return n < DueMax
	})
}

// concerned is whose items somebody looks after: those of its mailboxes; nil, for
// an owner, is everybody's.
func concerned(boxes, owners []events.Participant) []events.Participant {
	if slices.ContainsFunc(boxes, func(box events.Participant) bool { return slices.Contains(owners, box) }) {
		return nil
	}
	return boxes
}

// Overseers lists the sessions that have to look from now on at what falls due
// anywhere: the owners', when an event opens an item that is bounded. Until then
// their bells may have been silent for good.
func Overseers(s *projections.State, e events.Event, p events.Policy) (found []events.SessionID) {
	opens := false
	switch e := e.(type) {
	case events.MessageSent:
		opens = e.Due != nil
	case events.HandoffOffered:
		opens = e.Due != nil
	case events.ReviewAsked:
		opens = e.Due != nil
	case events.RoutingUndone: // what the move had closed is owed again
		opens = true
	}
	if !opens {
		return nil
	}
	for _, owner := range Owners(p) {
		for _, row := range s.SessionsOf(owner.Name()) {
			found = append(found, row.ID)
		}
	}
	return found
}

// absent records the seats of the roster that have had no live session for long
// while something waits for them: mail, or an item that they owe.
func (d *due) absent() {
	after := d.policy.Limits.AbsentAfter
	if after == 0 {
		return
	}
	for _, seat := range d.policy.Seats {
		row := d.s.Seat(seat.Name)
		if row != nil && row.Absent != nil || d.s.Mailbox(events.Named(seat.Name)).Waiting == 0 && !d.s.Charged(seat.Name) {
			continue
		}
		if since, cause, empty := d.empty(row); empty && d.now.Sub(since) >= after.Std() {
			d.add(events.SeatStream(seat.Name), seat.Name+" "+cause, "absent", events.SeatAbsent{Seat: seat.Name, Since: since})
		}
	}
}

// empty says since when a seat has had no live session, and names that time of
// emptiness by what was recorded, so that all who notice it name it alike. A
// session whose process is gone is recorded to have left; from then on it counts.
func (d *due) empty(row *projections.Seat) (since events.Time, cause string, empty bool) {
	switch {
	case row == nil || row.Occupant == "" && row.Since == 0:
		return d.s.Policy().Time, "never taken", true // since it is on the roster
	case row.Occupant == "":
		return row.Since, fmt.Sprintf("left %d", row.Since), true
	}
	session := d.s.Session(row.Occupant)
	if session == nil {
		return row.Since, fmt.Sprintf("taken %d", row.Since), true
	}
	cause = fmt.Sprintf("%s %d", session.ID, session.Joins)
	switch {
	case d.live(session, d.now):
		return 0, "", false
	case session.Left == nil && session.Process != nil:
		d.ended(session)
		return 0, "", false
	case session.Left != nil && session.Reason != events.EndUnseen:
		return *session.Left, cause, true
	}
	// It is known when it was not seen for too long, whenever that was noticed.
	since = d.look(session).known(session).Add(projections.UnseenMax)
	if session.Left != nil {
		since = min(since, *session.Left)
	}
	return since, cause, true
}

// OwedClose asks for an open item to be owed no more, whatever became of it.
type OwedClose struct {
	Call
	Item   string
	Reason []byte
}

// Decide closes the item, for a person alone: what is owed is closed by an
// answer, or by somebody who answers for it.
func (c OwedClose) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	const example = `decklog owed close ITEM --reason "settled by word of mouth"`
	switch {
	case !c.Caller.Known():
		return nil, c.nobody("who closes the item").example("%s", example)
	case c.Caller.Kind != events.KindPerson:
		return nil, refuse(PersonOnly, "%s is no person, and only a person closes what is owed without an answer", c.Caller.ID).
			fix("answer the item, or ask a person to close it").example("decklog owed --by %s", or(safeWord(string(c.Caller.ID)), "SESSION"))
	case c.Caller.Left != "":
		return nil, refuse(NoCaller, "this runs in a harness whose session %s has ended; an agent is not taken for its user here", c.Caller.Left).
			fix("have the person run it outside of the harness, or name the person with --as").example("%s", example)
	}
	reason, r := c.reason(c.Reason, example)
	if r != nil {
		return nil, r
	}
	id := wholeItem(s, c.Item)
	o, found := s.Item(id)
	if !found {
		return nil, refuse(NotFound, "no open item has the id %q", cut(id, ToBytesMax)).
			fix("take the id from what is owed; what was answered is closed").example("decklog owed")
	}
	d, r := c.within(s, string(o.Thread), now, p)
	if r != nil {
		return nil, r
	}
	ref := reason.Commit()
	d.add(events.OwedClosed{Thread: o.Thread, Item: o.ID, By: d.from.ID, Why: events.OwedByPerson, Reason: &ref}, &reason)
	return d.out, nil
}

// wholeItem is the id that a prefix of an open item's stands for.
func wholeItem(s *projections.State, id string) string {
	return whole(func(prefix string, limit int) []string { return itemsWith(s, prefix, limit) }, id)
}

// itemsWith lists the ids that begin with a prefix and may be an open item's.
func itemsWith(s *projections.State, prefix string, limit int) (ids []string) {
	_, messages := s.Find(prefix, limit)
	for _, id := range messages {
		ids = append(ids, string(id))
	}
	for _, id := range s.HandoffsWith(prefix, limit) {
		ids = append(ids, string(id))
	}
	for _, id := range s.ReviewsWith(prefix, limit) {
		ids = append(ids, string(id))
	}
	return ids
}
