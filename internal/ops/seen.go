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

// ReadRequest says what was found of a lease in the transcript of the caller.
type ReadRequest struct {
	As         string
	Lease      events.LeaseID
	Harness    string
	Transcript string
	Seen       []commands.Seen
}

// Read records that delivered messages were found in their recipient's own
// transcript. Found again, they change nothing.
func (o *Ops) Read(q ReadRequest) (refused *commands.Refusal, err error) {
	return o.update("read", Asker{As: q.As, Command: commands.ReadOf(q.Lease)}, func(u *unit) (*commands.Refusal, error) {
		_, r, err := u.run(commands.Read{
			Call: u.call, Lease: q.Lease, Harness: q.Harness, Transcript: q.Transcript, Seen: q.Seen,
		}, events.TypeMessageRead)
		return r, err
	})
}
