package top

import (
	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// picture is what was seen of the ledger in one look.
type picture struct {
	threads   projections.ThreadsView
	owed      projections.OwedView
	mailboxes projections.MailboxesView
	refusals  projections.RefusalsView
	health    projections.HealthView
	thread    *projections.ThreadView // that is open
	after     events.Position         // everything up to here is in it
	now       events.Time
	err       error
}

// look asks for every view. Each is of a moment of its own, and the earliest of
// these is the one after which there may be more to see.
func look(c Config) (p picture) {
	p.now = c.Now()
	if p.after, p.err = c.Desk.End(); p.err != nil {
		return p
	}
	ask(&p, &p.threads, c.Desk.Threads, ops.ThreadsRequest{Limit: ops.OverviewMax})
	ask(&p, &p.owed, c.Desk.Owed, ops.OwedRequest{})
	ask(&p, &p.mailboxes, c.Desk.Mailboxes, ops.MailboxesRequest{})
	ask(&p, &p.refusals, c.Desk.Refusals, ops.RefusalsRequest{})
	ask(&p, &p.health, c.Desk.Health, ops.HealthRequest{})
	return p
}

// ask puts a view into the picture, unless something failed before.
func ask[Q, V any](p *picture, into *V, op func(Q) (V, *commands.Refusal, error), q Q) {
	if p.err != nil {
		return
	}
	view, refused, err := op(q)
	switch {
	case err != nil:
		p.err = err
	case refused != nil:
		p.err = refusal{refused}
	default:
		*into = view
	}
}

// refusal carries a refusal to whoever shows it.
type refusal struct{ *commands.Refusal }

func (r refusal) Error() string { return string(r.Code) + ": " + r.Message }

// lookInto looks, and reads the thread that is open besides.
func lookInto(c Config, open events.ThreadID) picture {
	p := look(c)
	if p.err == nil && open != "" {
		read := readThread(c, open)
		p.thread, p.err = read.thread, read.err
	}
	return p
}

// readThread reads one thread and nothing else.
func readThread(c Config, id events.ThreadID) (p picture) {
	var view projections.ThreadView
	if ask(&p, &view, c.Desk.Thread, ops.ThreadRequest{ID: string(id)}); p.err == nil {
		p.thread = &view
	}
	return p
}
