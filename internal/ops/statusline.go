package ops

import (
	"decklog/events"
	"decklog/projections"
)

// StatusView is what a status line tells of a participant: what waits for it and
// what it owes. It holds nothing that anybody wrote.
type StatusView struct {
	Participant events.Participant    `json:"participant"` // empty: nobody that takes part
	Seat        string                `json:"seat"`        // that a session occupies
	Mailboxes   []projections.Waiting `json:"mailboxes"`   // its own first
	Waiting     int                   `json:"waiting"`     // messages, as its inbox lists them as queued
	Owed        int                   `json:"owed"`        // items that it owes
	Due         int                   `json:"due"`         // of these, past their time
	At          events.Position       `json:"at"`
}

// Status looks at what waits for whoever is named, else for who asks. It changes
// nothing. A session that nobody knows has nothing waiting.
func (o *Ops) Status(a Asker) (view StatusView, err error) {
	_, err = caught(o.look(func(v *reading) error {
		view = StatusView{Mailboxes: []projections.Waiting{}, At: v.s.Position()}
		who, r, err := v.who(a, true)
		if err != nil || r != nil {
			return err
		}
		view.Participant = who
		view.Seat = v.s.SeatOf(v.s.Session(who.Session()))
		view.Mailboxes = v.waiting(who)
		for _, w := range view.Mailboxes {
			view.Waiting += w.Messages
		}
		for _, item := range v.s.OwedItems(v.s.Mailboxes(who), nil, OwedMax) {
			view.Owed++
			if item.Due != nil && *item.Due <= v.now {
				view.Due++
			}
		}
		return nil
	}))
	return view, err
}

// waiting counts what waits. What a session took from its seat or its person, and
// has not confirmed, lies in the session's mailbox and is in the inbox of both; so
// for a seat or a person, whose status line runs seldom, the inbox is read.
func (v *reading) waiting(who events.Participant) []projections.Waiting {
	if v.s.Session(who.Session()) != nil {
		return v.s.Waiting(who)
	}
	w := projections.Waiting{Mailbox: who}
	query := projections.InboxQuery{Who: who, State: events.StateQueued, Limit: InboxMax}
	for {
		found := v.s.Inbox(query, v.r)
		w.Messages += len(found.Messages)
		if found.NextCursor == "" {
			return []projections.Waiting{w}
		}
		query.Before, _ = query.Resume(found.NextCursor)
	}
}
