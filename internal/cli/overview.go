package cli

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"decklog/commands"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/projections"
)

func threads() *Command {
	return &Command{
		Name: "threads", Group: "messages", Usage: "[--state S] [--seat SEAT] [--with WHO] [--text T] [--waiting] [--cursor C] [--limit N] [--at MOMENT] [--at-least POSITION]",
		Short: "every thread in a line, the latest first",
		Long: `Lists the threads, the one in which something happened last first: how it stands, who
drives it, who is still writing, what is owed in it, and what of it still lies in a
mailbox. A page that a filter left short may not be the last: go on with its cursor.`,
		Examples: []string{`decklog threads`, `decklog threads --state open --seat smith`, `decklog threads --waiting --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("state", "", "only threads that are `STATE`: open or done")
			r.text("seat", "", "only threads that `SEAT` drives")
			r.text("with", "", "only threads in which `WHO` takes part: a session's id or prefix, @name or bot:NAME")
			r.text("text", "", "only threads whose first line has `TEXT` in it")
			r.toggle("waiting", "only threads in which something is owed, or waits in a mailbox")
			r.text("cursor", "", "go on after the page that ended with `CURSOR`")
			r.text("limit", strconv.Itoa(ops.OverviewDefault), "at most `N` threads, up to 200")
			r.moment()
		},
		Run: func(r *run) error {
			return r.paged(ops.OverviewMax, func(limit int) error {
				view, refusal, err := r.ops.Threads(ops.ThreadsRequest{
					State: r.str("state"), Seat: r.str("seat"), Participant: r.str("with"), Text: r.str("text"), Waiting: r.on("waiting"),
					Cursor: r.str("cursor"), Limit: limit, At: r.str("at"),
				})
				return r.show(view, refusal, err, func() error {
					var b strings.Builder
					fmt.Fprintf(&b, "%s, as of position %d\n", plural(len(view.Threads), "thread"), view.At)
					for _, t := range view.Threads {
						fmt.Fprintf(&b, "%s  %-4s %s\n    %s\n", t.Thread, t.State, sayThreadLine(t), sayRoot(t))
					}
					if view.NextCursor != "" {
						fmt.Fprintf(&b, "more: decklog threads %s--cursor %s\n", r.again("state", "seat", "with", "text", "waiting", "limit", "at"), view.NextCursor)
					}
					return r.write([]byte(render.Terminal(b.String())))
				})
			})
		},
	}
}

// paged opens the ledger for a page of at most so many. One of nothing is refused:
// an operation would take it for the usual one.
func (r *run) paged(most int, show func(limit int) error) error {
	limit, err := r.number("limit")
	if err == nil {
		err = r.want(0, 0, "")
	}
	if err != nil {
		return err
	}
	if limit == 0 {
		return r.refused(commands.Refuse(commands.BadRequest, "the limit 0 is not from 1 to %d", most).
			Better("leave --limit out, or ask for one or more", "decklog "+r.command.Name+" --limit 50"))
	}
	if err := r.open(); err != nil {
		return err
	}
	return show(limit)
}

// sayThreadLine says in a line who drives a thread, and what is open in it.
func sayThreadLine(t projections.ThreadLine) string {
	parts := []string{drivenBy(t.Driver), "last " + t.Last.String(), plural(t.Messages, "message")}
	for _, p := range t.Turn.Pending {
		parts = append(parts, fmt.Sprintf("%s writes until %s", p.Who(), p.Until))
	}
	if t.Waiting > 0 {
		parts = append(parts, pluralOf(t.Waiting, "copy", "copies")+" waiting")
	}
	if t.Undelivered > 0 {
		parts = append(parts, strconv.Itoa(t.Undelivered)+" undelivered")
	}
	if t.Owed > 0 {
		owed := strconv.Itoa(t.Owed) + " owed"
		if t.Overdue > 0 {
			owed += fmt.Sprintf(", %d overdue", t.Overdue)
		}
		parts = append(parts, owed)
	}
	if h := t.Handoff; h != nil {
		parts = append(parts, fmt.Sprintf("hand-off %s from %s to %s", h.State, h.From, h.To))
	}
	if v := t.Review; v != nil {
		if v.Labelled == nil {
			parts = append(parts, "review asked")
		} else {
			parts = append(parts, fmt.Sprintf("review %s %s", v.Label, v.Risk))
		}
	}
	return strings.Join(parts, "; ")
}

// sayRoot is the first line of a thread, in one line.
func sayRoot(t projections.ThreadLine) string {
	text := t.Preview
	if t.Redacted {
		text = "[redacted]"
	}
	if t.Channel != "" {
		text = t.Channel + ": " + text
	}
	return flat(clip(text, 120))
}

func mailboxes() *Command {
	return &Command{
		Name: "mailboxes", Group: "sessions", Usage: "[--at MOMENT] [--at-least POSITION]",
		Short: "who has mail, who is here, and who sits where",
		Long: `Lists the mailboxes in which something waits, the longest wait first, then those of the
live sessions; then the seats with their occupants, and the persons. Looking takes
nothing out of a mailbox.`,
		Examples: []string{`decklog mailboxes`, `decklog mailboxes --json`},
		Flags:    func(f *flag.FlagSet, r *run) { r.moment() },
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Mailboxes(ops.MailboxesRequest{At: r.str("at")})
			return r.show(view, refusal, err, func() error { return r.write([]byte(render.Terminal(sayMailboxes(view)))) })
		},
	}
}

func sayMailboxes(v projections.MailboxesView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, as of position %d\n", pluralOf(len(v.Mailboxes), "mailbox", "mailboxes"), v.At)
	for _, l := range v.Mailboxes {
		says := []string{fmt.Sprintf("%d waiting", l.Waiting)}
		if l.Oldest != nil {
			says = append(says, "the first since "+l.Oldest.String())
		}
		if l.Lease != nil {
			says = append(says, fmt.Sprintf("leased until %s, attempt %d", l.Lease.Until, l.Lease.Attempt))
		}
		if l.Undelivered > 0 {
			says = append(says, fmt.Sprintf("%d undelivered, last %s", l.Undelivered, *l.UndeliveredLast))
		}
		if l.Evidence != "" {
			says = append(says, l.Evidence)
		}
		who := string(l.Participant)
		if l.Seat != "" {
			who += " (@" + l.Seat + ")"
		}
		fmt.Fprintf(&b, "%s  %-7s %-11s %-4s  %s\n", flat(who), l.Kind, or(flat(l.Harness), "-"), or(l.Presence, "-"), strings.Join(says, "; "))
	}
	if v.More {
		b.WriteString("more mailboxes are live, and nothing waits in them\n")
	}
	for _, s := range v.Seats {
		who := "nobody sits there"
		if s.Occupant != "" {
			who = "session " + string(s.Occupant)
		}
		if s.Absent != nil {
			who += ", absent since " + s.Absent.Time.String()
		}
		fmt.Fprintf(&b, "seat @%s  %s; %d waiting\n", s.Seat, who, s.Waiting)
	}
	for _, p := range v.Persons {
		fmt.Fprintf(&b, "person @%s  %s; %d waiting\n", flat(p.Person), plural(p.Sessions, "session"), p.Waiting)
	}
	return b.String()
}

func refusals() *Command {
	return &Command{
		Name: "refusals", Group: "audit", Usage: "[--code C] [--cursor C] [--limit N] [--at MOMENT] [--at-least POSITION]",
		Short: "what was refused, by code, the latest first",
		Long: `Counts the refusals by their codes, and lists the latest: who was refused what, and
why. Every refusal is an event; of a flood of them the most are only counted, under the
code counted. With --code it counts and lists only those.`,
		Examples: []string{`decklog refusals`, `decklog refusals --code pending --limit 5`, `decklog refusals --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("code", "", "only those with the code `CODE`")
			r.text("cursor", "", "go on after the page that ended with `CURSOR`")
			r.text("limit", strconv.Itoa(ops.OverviewDefault), "at most `N` refusals, up to 200")
			r.moment()
		},
		Run: func(r *run) error {
			return r.paged(ops.OverviewMax, func(limit int) error {
				view, refusal, err := r.ops.Refusals(ops.RefusalsRequest{Code: r.str("code"), Cursor: r.str("cursor"), Limit: limit, At: r.str("at")})
				return r.show(view, refusal, err, func() error {
					var b strings.Builder
					if code := r.str("code"); code != "" {
						n := 0
						for _, c := range view.Counts {
							if c.Code == code {
								n = c.Count
							}
						}
						fmt.Fprintf(&b, "%s with the code %s, of %d, as of position %d\n", plural(n, "refusal"), code, view.Total, view.At)
					} else {
						fmt.Fprintf(&b, "%s, as of position %d\n", plural(view.Total, "refusal"), view.At)
						for _, c := range view.Counts {
							fmt.Fprintf(&b, "%7d  %s\n", c.Count, c.Code)
						}
					}
					for _, f := range view.Refusals {
						fmt.Fprintf(&b, "%d  %s  %s  %s of %s: %s\n", f.Position, f.Time, f.By, f.Code, f.Command, flat(clip(f.Message, 200)))
					}
					if view.NextCursor != "" {
						fmt.Fprintf(&b, "more: decklog refusals %s--cursor %s\n", r.again("code", "limit", "at"), view.NextCursor)
					}
					return r.write([]byte(render.Terminal(b.String())))
				})
			})
		},
	}
}

func health() *Command {
	return &Command{
		Name: "health", Group: "audit", Usage: "[--at MOMENT] [--at-least POSITION]",
		Short: "how the ledger stands, in a few numbers",
		Long: `Says how long the ledger is, how many threads and items are open, what waits, and how
much room it takes. It reads what is counted already, and proves nothing: that is what
decklog verify does. What is wrong with the installation decklog doctor says.`,
		Examples: []string{`decklog health`, `decklog health --json`},
		Flags:    func(f *flag.FlagSet, r *run) { r.moment() },
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Health(ops.HealthRequest{At: r.str("at")})
			return r.show(view, refusal, err, func() error { return r.write([]byte(sayHealth(view))) })
		},
	}
}

func sayHealth(v projections.HealthView) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	if v.Last != nil {
		line("ledger", "%s up to position %d, the last at %s", plural(int(v.Events), "event"), v.Position, v.Last)
	} else {
		line("ledger", "no event yet")
	}
	line("threads", "%d open, %d done; %s", v.Threads.Open, v.Threads.Done, plural(v.Messages, "message"))
	line("mail", "%d waiting, %d lost ever", v.Waiting, v.Undelivered)
	line("sessions", "%d joined and have not left", v.Sessions)
	for _, o := range v.Owed {
		line("owed", "%s: %d open, %d overdue", o.Kind, o.Open, o.Overdue)
	}
	line("refusals", "%d", v.Refusals)
	if v.Policy != nil {
		line("policy", "in force since position %d, %s", v.Policy.Position, v.Policy.Time)
	}
	if v.SizeBytes != nil {
		line("store", "%d bytes, journal %s", *v.SizeBytes, v.Journal)
	}
	if c := v.Cluster; c != nil {
		switch {
		case c.Live:
			line("cluster", "live; %s to be sent, %s to be taken away there", plural(c.Unsent, "command"), plural(c.Undropped, "text"))
		case c.BehindMS == nil:
			line("cluster", "not live: %s", c.Says)
		default:
			line("cluster", "not live since %s: %s", time.Duration(*c.BehindMS)*time.Millisecond, c.Says)
		}
	}
	line("folds", "version %d", v.Fold)
	return b.String()
}
