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
	var refused *commands.Refusal
	for _, ask := range []func() (*commands.Refusal, error){
		func() (r *commands.Refusal, err error) {
			p.threads, r, err = c.Desk.Threads(ops.ThreadsRequest{Limit: ops.OverviewMax})
			return r, err
		},
		func() (r *commands.Refusal, err error) {
			p.owed, r, err = c.Desk.Owed(ops.OwedRequest{})
			return r, err
		},
		func() (r *commands.Refusal, err error) {
			p.mailboxes, r, err = c.Desk.Mailboxes(ops.MailboxesRequest{})
			return r, err
		},
		func() (r *commands.Refusal, err error) {
			p.refusals, r, err = c.Desk.Refusals(ops.RefusalsRequest{})
			return r, err
		},
		func() (r *commands.Refusal, err error) {
			p.health, r, err = c.Desk.Health(ops.HealthRequest{})
			return r, err
		},
	} {
		if refused, p.err = ask(); p.err == nil && refused != nil {
			p.err = refusal{refused}
		}
		if p.err != nil {
			return p
		}
	}
	return p
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
	view, refused, err := c.Desk.Thread(ops.ThreadRequest{ID: string(id)})
	switch {
	case err != nil:
		p.err = err
	case refused != nil:
		p.err = refusal{refused}
	default:
		p.thread = &view
	}
	return p
}
