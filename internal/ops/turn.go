package ops

import (
	"context"
	"errors"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// TurnRequest asks whether the caller may answer in a thread.
type TurnRequest struct {
	Asker
	Thread  string `json:"thread,omitempty"`  // its id, or that of a message in it
	Message string `json:"message,omitempty"` // that would be answered; empty: found out
	Block   bool   `json:"block,omitempty"`   // ack where that is due, wait, and read the thread again
}

// TurnAnswer is what the turn gate says.
type TurnAnswer struct {
	commands.Turn
	Reread *projections.ThreadView `json:"reread"` // with Block: the thread as the verdict found it
	At     events.Position         `json:"at"`
}

// Turn asks the turn gate. Without Block it only looks. With it, it waits on the
// ledger until the verdict is neither a hold nor a wait, or the context ends; an
// ack goes on the message before it waits for an answer, and one that fails is
// no reason not to wait. Nothing but the ledger knows of the wait, so that it
// can be begun again after a restart and ends when it would have ended.
func (o *Ops) Turn(ctx context.Context, q TurnRequest) (answer TurnAnswer, refused *commands.Refusal, err error) {
	t := turning{Ops: o, q: q, ctx: ctx}
	defer t.enough()
	for {
		if err = o.still(); err != nil {
			return t.out, nil, err
		}
		if refused, err = t.step(); refused != nil || err != nil {
			return t.out, refused, err
		}
		if !q.Block || !t.out.Waits() {
			return t.out, nil, nil
		}
		if t.out.Ack && !t.acked {
			t.acked = true
			_, _, _ = o.Ack(AckRequest{Asker: q.same(), Message: string(t.out.Message), Ack: string(events.AckAct)})
		}
		err = t.wait()
		switch {
		case ctx.Err() != nil:
			return t.out, nil, nil
		case err != nil:
			return t.out, nil, err
		}
	}
}

// turning is a caller of the gate who waits for its turn.
type turning struct {
	*Ops
	q     TurnRequest
	ctx   context.Context
	out   TurnAnswer
	who   events.Participant
	now   events.Time // of the last look
	floor events.Time // it is not earlier than this, whatever the clock says
	acked bool
	// bound ends the wait that gate began. It counts on this process's own clock,
	// which no jump of the world's moves.
	gate   commands.TurnVerdict
	bound  context.Context
	cancel context.CancelFunc
	most   events.Span // that a wait for answers lasts; 0: no bound
	over   bool        // it has lasted as long
}

// step looks once.
func (t *turning) step() (*commands.Refusal, error) {
	return caught(t.look(func(v *reading) error {
		policy, err := v.policy()
		if err != nil {
			return err
		}
		caller, r := v.identify(v.s, policy, t.q.Asker, v.now)
		if r == nil && caller.Known() {
			r = v.known(policy, caller)
		}
		if r != nil {
			return refusal{r}
		}
		t.who = caller.ID
		t.now, t.most = max(v.now, t.floor), policy.Limits.WaitFinal
		turn, r := commands.AskTurn{Call: t.call("", caller), Thread: t.q.Thread, Message: t.q.Message}.Gate(v.s, t.now, policy)
		if r != nil {
			return refusal{r}
		}
		if t.over {
			turn = turn.Over()
		}
		t.out = TurnAnswer{Turn: turn, At: v.s.Position()}
		t.q.Message = string(turn.Message) // what is said meanwhile changes nothing of what was asked
		if t.q.Block && !turn.Waits() {
			view, _ := v.s.ThreadView(turn.Thread, v.r, t.now, t.out.At)
			view.Time = &t.now
			t.out.Reread = &view
		}
		return nil
	}))
}

// wait blocks until the ledger has something new, or the gate opens by itself.
func (t *turning) wait() error {
	left := t.out.Until.Sub(t.now)
	if t.gate != t.out.Verdict {
		t.enough()
		most := left
		if t.out.Verdict == commands.TurnWait && t.most > 0 {
			most = t.most.Std()
		}
		t.gate = t.out.Verdict
		t.bound, t.cancel = context.WithTimeout(t.ctx, most)
	}
	wake, cancel := context.WithTimeout(t.bound, left)
	defer cancel()
	err := t.stirred(wake, t.out.At, t.who, t.out.Thread, roster)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	t.floor = *t.out.Until
	t.over = t.over || t.gate == commands.TurnWait && t.bound.Err() != nil
	return nil
}

// enough ends the present gate's bound.
func (t *turning) enough() {
	if t.cancel != nil {
		t.cancel()
	}
}

// AckRequest says something to a message without a word.
type AckRequest struct {
	Asker
	Message string `json:"message,omitempty"`
	Ack     string `json:"ack,omitempty"` // act or no_input
}

// AckReceipt names the ack that lies on the message.
type AckReceipt struct {
	Receipt
	Message events.MessageID `json:"message"`
	Thread  events.ThreadID  `json:"thread"`
	Ack     events.Ack       `json:"ack"`
}

// Ack places an ack; one that lies there already is placed once.
func (o *Ops) Ack(q AckRequest) (receipt AckReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("ack", q.Asker, func(u *unit) (*commands.Refusal, error) {
		command := commands.PlaceAck{Call: u.call, Message: q.Message, Ack: q.Ack}
		recorded, r, err := u.runAbout(q.Message, command, events.TypeAckPlaced)
		if r != nil || err != nil {
			return r, err
		}
		m, r := commands.FindMessage(u.s, q.Message)
		if r != nil {
			return r, nil
		}
		receipt = AckReceipt{Message: m.ID, Thread: m.Thread}
		id := ""
		if placed := command.Placed(u.s, m, u.now, u.policy.Policy); placed != nil {
			receipt.Ack, id = placed.Ack, string(placed.ID)
		}
		receipt.Receipt, err = u.receipt(id, recorded)
		return nil, err
	})
	return receipt, refused, err
}
