package ops

import (
	"decklog/commands"
	"decklog/events"
)

// Sought lists what a hook printed for a session and nobody found in its
// transcript yet. It changes nothing.
func (o *Ops) Sought(id events.SessionID) (sought []commands.Sought, err error) {
	err = o.look(func(v *reading) error {
		sought = commands.SoughtFor(v.s, events.Participant(id), v.now)
		return nil
	})
	return sought, err
}

// NoteRequest says that a session is busy or idle.
type NoteRequest struct {
	Asker
	Session events.SessionID `json:"session,omitempty"`
	Busy    bool             `json:"busy"`
}

// Note notes that a session is busy or idle, as a hook of another machine saw it.
// It is an observation beside the ledger, and no event.
func (o *Ops) Note(q NoteRequest) (refused *commands.Refusal, err error) {
	refused, err = caught(o.look(func(v *reading) error {
		if why := commands.CheckSessionID(string(q.Session)); why != "" {
			return refusal{commands.Refuse(commands.BadRequest, "the session %s", why)}
		}
		policy, err := v.policy()
		if err != nil {
			return err
		}
		if r := v.touches(v.s, policy, q.Asker, events.Participant(q.Session), v.now); r != nil {
			return refusal{r}
		}
		return nil
	}))
	if refused != nil || err != nil || o.World.Note == nil {
		return refused, err
	}
	return nil, o.World.Note(q.Session, q.Busy, o.World.Now())
}

// ReadRequest says what was found of a lease in the transcript of the caller.
type ReadRequest struct {
	As         string          `json:"as,omitempty"`
	Lease      events.LeaseID  `json:"lease,omitempty"`
	Harness    string          `json:"harness,omitempty"`
	Transcript string          `json:"transcript,omitempty"`
	Seen       []commands.Seen `json:"seen,omitempty"`
}

// Read records that delivered messages were found in their recipient's own
// transcript. Found again, they change nothing.
func (o *Ops) Read(q ReadRequest) (refused *commands.Refusal, err error) {
	asker := Asker{As: q.As, Command: commands.ReadOf(q.Lease)}
	return o.update("read", asker, func(u *unit) (*commands.Refusal, error) {
		if l := u.s.Lease(q.Lease); l != nil {
			if r := o.touches(u.s, u.policy.Policy, asker, l.Mailbox, u.now); r != nil {
				return r, nil
			}
		}
		_, r, err := u.run(commands.Read{
			Call: u.call, Lease: q.Lease, Harness: q.Harness, Transcript: q.Transcript, Seen: q.Seen,
		}, events.TypeMessageRead)
		return r, err
	})
}
