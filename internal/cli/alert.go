package cli

import (
	"flag"
	"fmt"
	"strings"

	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/projections"
)

func alert() *Command {
	return &Command{
		Name: "alert", Group: "driving", Body: true, Usage: "CHANNEL [--payload FILE] [--as bot:NAME] -- BODY",
		Short: "begin a thread with an alert, as a bot or a person",
		Long: `Sends an alert to the seat that triages its channel, and a copy to the seat whose area
its text and payload are of, which will drive the thread. The policy names the channels
under [[alerts]], each with its one triager. A bot that has no session names itself with
--as bot:NAME. The payload, at most 64 KiB of text, is shown with the thread.`,
		Examples: []string{
			`decklog alert "#alerts" --as bot:pager -- "the AppFolio sync lambda times out"`,
			`decklog alert "#alerts" --payload alert.json -- "guest-card delivery is late"`,
		},
		Flags: func(f *flag.FlagSet, r *run) { r.text("payload", "", "attach `FILE`: what came with the alert") },
		Run: func(r *run) error {
			body, err := r.body()
			if err != nil {
				return err
			}
			if err := r.want(1, 1, "the alert's channel"); err != nil {
				return err
			}
			var payload []byte
			if file := r.str("payload"); file != "" {
				if payload, err = r.bodyFile(file); err != nil {
					return err
				}
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Alert(ops.AlertRequest{Asker: r.asker(), Channel: r.args[0], Body: body, Payload: payload})
			if err := r.answer(receipt, refusal, err, func() string { return sayReceipt(receipt) }); err != nil || refusal != nil {
				return err
			}
			return r.judge(receipt)
		},
	}
}

// sayAlert shows what only an alert has: its channel, and what came with it.
func sayAlert(b *strings.Builder, m projections.ShownInThread) {
	if m.Channel != "" {
		fmt.Fprintf(b, "    channel %s\n", render.Terminal(m.Channel))
	}
	for l := range strings.Lines(render.Terminal(m.Payload)) {
		fmt.Fprintf(b, "    payload | %s\n", strings.TrimSuffix(l, "\n"))
	}
}
