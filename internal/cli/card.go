package cli

import (
	"flag"
	"fmt"

	"decklog/internal/ops"
	"decklog/internal/render"
)

func card() *Command {
	return &Command{
		Name: "card", Group: "driving", Usage: "THREAD --subject S --work WHO --status ST",
		Short: "show where the driven work of a thread stands",
		Long: `Posts the driver's card into a thread, or edits it in place: one card for a thread and a
seat, whatever is said on it later. Use it for driven work, as an alert, an investigation
or a fix, and not with every answer. Only the seat that drives keeps a card; one that
drives no more closes its own with --status done. An edit may leave out what stays as
the card says.`,
		Examples: []string{
			`decklog card THREAD --subject "guest-card sync fails" --work @ana --status investigating`,
			`decklog card THREAD --status reviewing`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("subject", "", "what the work is, in one `LINE`")
			r.text("work", "", "whose work it is: `WHO`")
			r.text("status", "", "`STATUS`: investigating, planning, driving, reviewing, blocked or done")
		},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the id of a thread"); err != nil {
				return err
			}
			if r.str("status") == "" {
				return misused("--status is missing: where the work stands")
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Card(ops.CardRequest{
				Asker: r.asker(), Thread: r.args[0], Subject: []byte(r.str("subject")), Work: r.str("work"), Status: r.str("status"),
			})
			return r.answer(receipt, refusal, err, func() string {
				what := "edited"
				if receipt.Posted {
					what = "posted"
				}
				return fmt.Sprintf("%s: card %s in thread %s: %s, driven by @%s, work of %s",
					what, receipt.ID, receipt.Thread, receipt.Status, receipt.Driver, render.Terminal(receipt.Work))
			})
		},
	}
}
