package cli

import (
	"flag"

	"decklog/internal/cloudevents"
	"decklog/internal/ops"
)

// ExportBatchMax bounds how many events stand in one array of an export.
const ExportBatchMax = 10_000

func exports() *Command {
	return &Command{
		Name: "export", Group: "audit", Usage: "--format cloudevents [--from MOMENT] [--to MOMENT] [--batch N] [--bodies] [--at-least POSITION]",
		Short: "the ledger in the form of a standard",
		Long: `Prints the recorded events as CloudEvents 1.0, for programs that know that standard: each
event a line (application/cloudevents+json), or with --batch an array of so many a line
(application/cloudevents-batch+json). The type is decklog. and that of the event, the
subject its stream, and the source names the ledger, the same from whichever position on;
sequence is the position in digits that sort as text, and correlationid the command. Texts
are not among it. With --bodies the text that lies beside an event is the member body_text
of its data, and one that was taken back is said with body_redacted. It ends with the last
event that was there when it began; to go on, begin behind the highest sequence.`,
		Examples: []string{
			`decklog export --format cloudevents > ledger.jsonl`,
			`decklog export --format cloudevents --from 1001 --batch 100`,
			`decklog export --format cloudevents --from 2026-11-30T09:00:00Z --to 2026-11-30T10:00:00Z --bodies`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("format", "", "the standard's `NAME`: cloudevents")
			r.text("from", "", "begin at `MOMENT`, included: a position, or a time as RFC 3339 (default: the first event)")
			r.text("to", "", "end at `MOMENT`, included (default: the last event)")
			r.text("batch", "0", "arrays of `N` events, one a line; 0 for an event a line")
			r.toggle("bodies", "with the texts beside the events")
			r.least()
		},
		Run: func(r *run) error {
			batch, err := r.number("batch")
			if err != nil {
				return err
			}
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			switch format := r.str("format"); {
			case format == "":
				return misused("say in which form: --format cloudevents")
			case format != "cloudevents":
				return misused("--format %q is not cloudevents", format)
			case batch < 0 || batch > ExportBatchMax:
				return misused("--batch %d is not from 0 to %d", batch, ExportBatchMax)
			}
			if err := r.open(); err != nil {
				return err
			}
			return r.export(batch)
		},
	}
}

func (r *run) export(batch int) error {
	first, there, err := ops.First(r.ops)
	if err != nil {
		return err
	}
	if !there && r.str("from")+r.str("to") == "" {
		r.sees()
		return nil
	}
	source := cloudevents.Source(first)
	out := exporter{run: r, batch: batch}
	refusal, err := ops.Export(r.ops, ops.ExportRequest{From: r.str("from"), To: r.str("to"), Bodies: r.on("bodies")}, func(e ops.Exported) error {
		var text *cloudevents.Text
		if e.Body != nil {
			text = &cloudevents.Text{Body: e.Body.Text, Gone: e.Body.Gone}
		}
		if r.World.Progress != nil && e.Position%1000 == 0 {
			r.World.Progress("export", e.Position, e.To)
		}
		return out.add(cloudevents.Of(e.Recorded, source, text))
	})
	if err != nil {
		return err
	}
	r.sees()
	if refusal != nil {
		return r.refused(refusal)
	}
	return out.end()
}

// exporter prints events by themselves, or in arrays.
type exporter struct {
	*run
	batch int
	held  []cloudevents.Event
}

func (x *exporter) add(e cloudevents.Event) error {
	if x.batch == 0 {
		return x.document(e)
	}
	if x.held = append(x.held, e); len(x.held) < x.batch {
		return nil
	}
	return x.end()
}

func (x *exporter) end() error {
	if len(x.held) == 0 {
		return nil
	}
	held := x.held
	x.held = nil
	return x.document(held)
}
