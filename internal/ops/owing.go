package ops

import (
	"slices"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// CloseOwedRequest asks for an open item to be owed no more.
type CloseOwedRequest struct {
	Asker
	Item   string `json:"item,omitempty"`
	Reason Text   `json:"reason"`
}

// CloseOwed closes an open item, for a person.
func (o *Ops) CloseOwed(q CloseOwedRequest) (receipt Receipt, refused *commands.Refusal, err error) {
	refused, err = o.update("owed close", q.Asker, func(u *unit) (*commands.Refusal, error) {
		recorded, r, err := u.runAbout(q.Item, commands.OwedClose{Call: u.call, Item: q.Item, Reason: q.Reason}, events.TypeOwedClosed)
		if r != nil || err != nil {
			return r, err
		}
		if len(recorded) > 0 {
			q.Item = recorded[0].Event.(events.OwedClosed).Item
		}
		receipt, err = u.receipt(q.Item, recorded)
		return nil, err
	})
	return receipt, refused, err
}

// WaitingView is what waits for a person. It holds nothing that anybody wrote.
type WaitingView struct {
	Person   events.Participant      `json:"person"`
	Pages    []projections.OwedShown `json:"pages"` // open items of which the owners were told
	Calls    []WaitingCall           `json:"calls"`
	Messages []WaitingMessage        `json:"messages"`
	At       events.Position         `json:"at"`
}

// Count is how many things wait.
func (v WaitingView) Count() int { return len(v.Pages) + len(v.Calls) + len(v.Messages) }

// WaitingCall is a call in the person's mailbox that is about no page above.
type WaitingCall struct {
	What   events.Type     `json:"what"`
	Thread events.ThreadID `json:"thread"`
	Item   string          `json:"item"`
}

// WaitingMessage is a message that its recipient does not see by itself: it lies
// in the person's mailbox, or in that of a session that is idle.
type WaitingMessage struct {
	ID      events.MessageID   `json:"id"`
	Thread  events.ThreadID    `json:"thread"`
	From    events.Participant `json:"from"`
	To      events.Participant `json:"to"`
	Intent  events.Intent      `json:"intent"`
	Sent    events.Time        `json:"sent"`
	Session events.SessionID   `json:"session"` // that is idle; empty: no session has it
}

// Notify records what is due around a person, and gives what waits for them.
// Looking takes nothing out of a mailbox.
func (o *Ops) Notify(a Asker) (view WaitingView, refused *commands.Refusal, err error) {
	refused, err = o.update("notify", a, func(u *unit) (*commands.Refusal, error) {
		person, r := u.personAsking()
		if r != nil {
			return r, nil
		}
		if err := u.sweep(person); err != nil {
			return nil, err
		}
		view, err = u.waiting(person)
		return nil, err
	})
	return view, refused, err
}

// personAsking is the person who asks, or whose session does.
func (u *unit) personAsking() (events.Participant, *commands.Refusal) {
	switch caller := u.call.Caller; caller.Kind {
	case events.KindPerson:
		if commands.KnownPerson(u.policy.Policy, u.World.OSUser, caller.ID.Name()) {
			return caller.ID, nil
		}
		return "", commands.NotLive(u.s, u.call, u.now)
	case events.KindSession:
		if row := u.s.Session(caller.ID.Session()); row != nil && row.Person != "" {
			return events.Named(row.Person), nil
		}
	}
	return "", commands.Refuse(commands.NoCaller, "nobody can tell for which person this asks").
		Better("name the person with --as", "decklog notify --as @NAME")
}

func (u *unit) waiting(person events.Participant) (WaitingView, error) {
	v := WaitingView{Person: person, Pages: []projections.OwedShown{}, Calls: []WaitingCall{}, Messages: []WaitingMessage{}}
	paged := map[string]bool{}
	if len(u.policy.Policy.Persons) == 0 || slices.Contains(commands.Owners(u.policy.Policy), person) {
		for _, item := range u.s.Owing(nil, nil, OwedMax, u.now).Items {
			if item.Paged != nil {
				v.Pages = append(v.Pages, item)
				paged[item.ID] = true
			}
		}
	}
	u.waitsIn(person, "", &v, paged)
	for _, row := range u.s.SessionsOf(person.Name()) {
		pr := commands.PresenceOf(row, u.call.Look(row), u.now)
		if !pr.Live || pr.Busy {
			continue // a busy one sees it by itself
		}
		for _, box := range u.s.Mailboxes(events.Participant(row.ID)) {
			if box != person {
				u.waitsIn(box, row.ID, &v, paged)
			}
		}
	}
	var err error
	v.At, err = u.tx.End()
	return v, err
}

// waitsIn adds what lies in a mailbox and can be taken now.
func (u *unit) waitsIn(box events.Participant, session events.SessionID, v *WaitingView, paged map[string]bool) {
	u.s.QueuedForTaker(box, func(q projections.Queued) bool {
		switch {
		case q.Call != nil && !paged[q.Call.Item]:
			v.Calls = append(v.Calls, WaitingCall{What: q.Call.Type, Thread: q.Call.Thread, Item: q.Call.Item})
		case q.Message != nil && !q.Message.Awaited(u.now) && !q.Message.Held(q.Delivery, u.now):
			m := q.Message
			v.Messages = append(v.Messages, WaitingMessage{
				ID: m.ID, Thread: m.Thread, From: m.Author.ID, To: m.To.ID, Intent: m.Intent, Sent: m.Sent, Session: session,
			})
		}
		return true
	})
}
