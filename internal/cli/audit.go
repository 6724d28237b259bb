package cli

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"decklog/events"
	"decklog/internal/ops"
)

func listEvents() *Command {
	return &Command{
		Name: "events", Group: "audit", Usage: "[--from N] [--thread T] [--type T] [--follow] [--at-least POSITION]",
		Short: "the ledger, one event a line",
		Long: `Prints the recorded events in their order as JSON Lines: everything that happened, the
refusals included. Bodies are not among them: an event holds only a commitment to its
body; ` + "`decklog thread`" + ` joins them. With --follow it goes on as events come.`,
		Examples: []string{`decklog events --from 100`, `decklog events --thread THREAD`, `decklog events --type command.refused --follow`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("from", "1", "begin at position `N`, included")
			r.text("thread", "", "only events that name `THREAD`")
			r.text("type", "", "only events of `TYPE`, such as message.sent")
			r.toggle("follow", "go on as events come, until interrupted")
			r.least()
		},
		Run: func(r *run) error {
			from, err := r.number("from")
			if err != nil {
				return err
			}
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if from < 1 {
				return misused("--from %d is less than 1", from)
			}
			if err := r.open(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			query := ops.EventsRequest{From: events.Position(from), Thread: r.str("thread"), Type: r.str("type")}
			for {
				// Before it is read: what comes meanwhile must not be slept through. And what came
				// before was looked at, whether it is printed or not.
				var end events.Position
				if r.on("follow") {
					var err error
					if end, err = r.ops.End(); err != nil {
						return err
					}
				}
				last, refusal, err := r.ops.Events(query, func(e events.Recorded) error { return r.document(ops.ShowEvent(e)) })
				if err != nil {
					return err
				}
				r.sees()
				if refusal != nil {
					return r.refused(refusal)
				}
				if !r.on("follow") {
					return nil
				}
				query.From = last + 1
				if err := r.ops.Past(ctx, max(end, last)); err != nil {
					if ctx.Err() != nil {
						return nil
					}
					return err
				}
			}
		},
	}
}

func verify() *Command {
	return &Command{
		Name: "verify", Group: "audit", Usage: "[--at-least POSITION]",
		Short: "prove that nothing was altered or left out",
		Long: `Reads the whole ledger: positions and revisions without gaps, every event's digest and
its chain in its stream, every body against its commitment, and the views against their
rebuild. Names the first position that is not as it was written, and exits 1. Two machines
that share a ledger, and are at the same position, have the same two digests.`,
		Examples: []string{`decklog verify`, `decklog verify --json`},
		Flags:    func(f *flag.FlagSet, r *run) { r.least() },
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			audited, err := r.ops.Verify()
			if err != nil {
				return err
			}
			if !audited.OK {
				r.code = ExitFailed
			}
			return r.show(audited, nil, nil, func() error {
				var b strings.Builder
				fmt.Fprintf(&b, "%s up to position %d\n", plural(audited.Checked, "event"), audited.Position)
				for _, f := range audited.Faults {
					fmt.Fprintf(&b, "position %d: %s\n", f.Position, f.What)
				}
				if audited.OK {
					fmt.Fprintf(&b, "digest of the events %s\ndigest of the views  %s\n", audited.Events, audited.Digest)
					b.WriteString("verify: ok\n")
				} else {
					fmt.Fprintf(&b, "verify: first fault at position %d\n", audited.Faults[0].Position)
				}
				return r.write([]byte(b.String()))
			})
		},
	}
}

func rebuild() *Command {
	return &Command{
		Name: "rebuild", Group: "audit", Usage: "",
		Short: "throw the views away and fold them anew",
		Long: `Folds every view anew from the recorded events, in one transaction, while others go on
reading. What was confirmed stays confirmed: it is in the events. Of a ledger in a cluster
the events are read from there anew, too, into views beside those that are read meanwhile;
that takes as much room again on the disk.`,
		Examples: []string{`decklog rebuild`},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			built, err := r.ops.Rebuild()
			return r.answer(map[string]any{"id": "views", "position": built.Position, "rows": built.Rows, "digest": built.Digest}, nil, err, func() string {
				return fmt.Sprintf("rebuilt: %s from %s, digest %s", plural(built.Rows, "row"), plural(int(built.Position), "event"), built.Digest)
			})
		},
	}
}
