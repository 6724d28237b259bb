package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/notify"
	"decklog/internal/ops"
	"decklog/projections"
)

func owed() *Command {
	return &Command{
		Name: "owed", Group: "sessions", Usage: "[--by WHO] [--to WHO] [--at MOMENT] [--at-least POSITION] | close ITEM --reason R",
		Short: "what is owed: open requests, hand-offs and reviews",
		Long: `Lists what somebody still has to close, oldest first: requests without an answer,
hand-offs that are offered or not closed yet, and reviews without a label, each with who
owes it, to whom, how old it is, and when it is due. Past due its debtor is reminded
through the next hook run, at most three times, and then the owners are called; for a
review they are called at once. A request closes when the one who was asked answers it,
when its thread is closed with done, or when it is taken back. Silence closes nothing. A
person may close an item without an answer, and says why.`,
		Examples: []string{`decklog owed`, `decklog owed --by @smith`, `decklog owed close ITEM --reason "settled by word of mouth"`},
		Words:    []string{"close"},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("by", "", "only what `WHO` owes: a participant, or me")
			r.text("to", "", "only what is owed to `WHO`: a participant, or me")
			r.text("reason", "", "`WHY` the item is closed")
			r.moment()
		},
		Run: func(r *run) error {
			if len(r.args) > 0 {
				return r.sub(map[string]func() error{"close": r.closeOwed})
			}
			if r.str("reason") != "" {
				return misused("--reason is for `owed close ITEM`")
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Owed(ops.OwedRequest{By: r.str("by"), To: r.str("to"), At: r.str("at"), As: r.named()})
			return r.show(view, refusal, err, func() error { return r.write([]byte(sayOwed(view))) })
		},
	}
}

func (r *run) closeOwed() error {
	if err := r.want(1, 1, "the item's id"); err != nil {
		return err
	}
	if r.str("by") != "" || r.str("to") != "" || r.str("at") != "" || r.atLeast > 0 {
		return misused("--by, --to, --at and --at-least are for the list of what is owed")
	}
	if err := r.open(); err != nil {
		return err
	}
	receipt, refusal, err := r.ops.CloseOwed(ops.CloseOwedRequest{Asker: r.asker(), Item: r.args[0], Reason: []byte(r.str("reason"))})
	return r.answer(receipt, refusal, err, func() string { return "closed: item " + receipt.ID })
}

func sayOwed(v projections.OwedView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, as of position %d\n", plural(len(v.Items), "open item"), v.At)
	for _, o := range v.Items {
		b.WriteString(sayItem(o) + "\n")
	}
	return b.String()
}

// sayItem says in one line who owes what, and how long the reminders have come.
func sayItem(o projections.OwedShown) string {
	says := fmt.Sprintf("%s  %s owes %s a %s since %s%s; %s old", o.ID, o.Debtor, o.Creditor, o.Kind, o.Since, due(o.Due), age(o.Age))
	if o.Nudges > 0 {
		says += ", " + plural(o.Nudges, "nudge")
	}
	if o.Paged != nil {
		says += ", paged " + o.Paged.String()
	}
	return says + ", " + o.State
}

// age is a number of milliseconds as people say it: to the second, or the minute.
func age(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < time.Hour {
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// notifyVariable names the program that is told what waits.
const notifyVariable = "DECKLOG_NOTIFY"

func notifies() *Command {
	return &Command{
		Name: "notify", Group: "set-up", Usage: "[--run PROGRAM] [--print]",
		Short: "tell a person what waits for them",
		Long: `Says what waits for a person and does not come to them by itself: the calls to the
owners, and the mail in their own mailbox and in their idle sessions. It is printed, and
handed to a program as JSON on its standard input: that of --run, else of DECKLOG_NOTIFY,
a program and its arguments with blanks between them, which no shell reads; else a
notification on the desktop is shown, where there is notify-send or osascript. What
somebody wrote is in none of it. Run it every few minutes, for instance from cron.`,
		Examples: []string{`decklog notify`, `decklog notify --run "tell-my-phone --quiet" --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("run", "", "the `PROGRAM` that is told (default: DECKLOG_NOTIFY, else the desktop)")
			r.toggle("print", "only print")
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Notify(r.asker())
			if err := r.show(view, refusal, err, func() error { return r.write([]byte(sayWaiting(view))) }); err != nil || refusal != nil {
				return err
			}
			if view.Count() > 0 && !r.on("print") {
				r.tell(view)
			}
			return nil
		},
	}
}

// tell hands on what was printed. A program that fails is told by the exit code:
// who runs this from cron would else never learn that nothing arrives.
func (r *run) tell(v ops.WaitingView) {
	ctx := context.Background()
	words := strings.Fields(r.str("run"))
	if len(words) == 0 {
		words = strings.Fields(r.Environ(notifyVariable))
	}
	var err error
	if len(words) > 0 {
		var document []byte
		if document, err = encode(v); err == nil {
			err = notify.Run(ctx, words, document, r.Stderr)
		}
	} else {
		_, err = notify.Desktop(ctx, "decklog", summary(v)+". See: decklog notify", r.Stderr)
	}
	if err != nil {
		complain(r.Stderr, "decklog notify: %v\nFix: run the program by hand, or name another with --run; what waits was printed, and waits on\n", err)
		r.code = ExitFailed
	}
}

// summary counts what waits.
func summary(v ops.WaitingView) string {
	requests := 0
	for _, m := range v.Messages {
		if m.Intent == events.Request {
			requests++
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{len(v.Pages), "page"}, {requests, "request"}, {len(v.Messages) - requests, "other message"}, {len(v.Calls), "call"}} {
		if p.n > 0 {
			parts = append(parts, plural(p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing waits"
	}
	return strings.Join(parts, ", ")
}

func sayWaiting(v ops.WaitingView) string {
	lines := []string{fmt.Sprintf("%s for %s, as of position %d", summary(v), v.Person, v.At)}
	for _, o := range v.Pages {
		lines = append(lines, "page: "+sayItem(o), "    decklog thread "+string(o.Thread))
	}
	for _, m := range v.Messages {
		where := "no session has it"
		if m.Session != "" {
			where = "the session " + string(m.Session) + " is idle"
		}
		lines = append(lines, fmt.Sprintf("%s: %s  %s → %s since %s; %s", m.Intent, m.ID, m.From, m.To, m.Sent, where))
	}
	for _, c := range v.Calls {
		lines = append(lines, fmt.Sprintf("call: %s in thread %s", c.What, c.Thread))
	}
	return strings.Join(lines, "\n") + "\n"
}
