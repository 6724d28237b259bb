package ops

import (
	"context"
	"errors"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
)

// WakeRequest asks to be told when what waits for an idle session is worth a turn.
type WakeRequest struct {
	Session events.SessionID `json:"session,omitempty"`
	Told    events.Position  `json:"told,omitempty"` // what came to wait up to here was told of
	// Stirred says that something was noted of the session; nil: nobody says so.
	Stirred <-chan struct{} `json:"-"`
}

// Wake blocks until something waits for the session that is worth a turn, while
// the session is idle. It is told by the ledger, by the session's bell and by its
// note, and looks by itself only for what makes no event, as hook runs do.
// Nothing is worth a turn of a session that is not here: then Newest is 0, as it
// is when the context ends. It changes nothing.
func (o *Ops) Wake(ctx context.Context, q WakeRequest) (post commands.Post, err error) {
	// Who listens from a session's start on may be there before it has joined.
	joining, cancel := context.WithTimeout(ctx, bell.LookEvery)
	defer cancel()
	for known := false; ; {
		var at events.Position
		here := false
		if err := o.still(); err != nil {
			return commands.Post{}, err
		}
		err := o.look(func(v *reading) error {
			at = v.s.Position()
			post, here = v.post(q)
			return nil
		})
		if known = known || here; err != nil || post.Newest > 0 || !here && (known || joining.Err() != nil) {
			return post, err
		}
		switch err := o.stir(ctx, q, at); {
		case ctx.Err() != nil:
			return commands.Post{}, nil
		case err != nil:
			return post, err
		}
	}
}

// post is what waits for the session now, if it is idle; false when it is not here.
func (v *reading) post(q WakeRequest) (p commands.Post, here bool) {
	row := v.s.Session(q.Session)
	if row == nil {
		return p, false
	}
	call := v.call("", session(q.Session))
	ob := call.Look(row)
	switch {
	case !commands.PresenceOf(row, ob, v.now).Live:
		return p, false
	case ob.Busy, ob.Seen == nil:
		return p, true // its own hooks bring it, and note when its turn ends
	case !v.World.Bells.Rings(string(q.Session), v.now.Std()):
		return p, true
	}
	return commands.WorthATurn(v.s, call, call.Caller.ID, q.Told, v.now), true
}

// stir waits until the ledger or the session's note has changed, or time alone
// may have brought something.
func (o *Ops) stir(ctx context.Context, q WakeRequest, at events.Position) error {
	wait, cancel := context.WithTimeout(ctx, bell.LookEvery)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-q.Stirred:
			cancel()
		case <-wait.Done():
		}
	}()
	err := o.stirred(wait, at, events.Participant(q.Session), "")
	cancel()
	<-over
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
