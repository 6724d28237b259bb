package cli

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/projections"
)

func send() *Command {
	return &Command{
		Name: "send", Group: "messages", Body: true,
		Usage: "--to WHO [--intent request|inform|done] [--reply-to MSG] [--ref ADDR]... [--turn working|final] [--key K] [--over] -- BODY",
		Short: "send a message to a session, a seat or a person",
		Long: `Sends one message and prints its receipt. The first line of the body is all that
lists show: put the point there, and write for somebody who knows nothing of your work.

WHO is a session's full id, a prefix of it of at least 6 characters, or @name for a
seat or a person. A reply may leave it out: it goes to the author of what it answers.

Intents: request expects an answer; inform (the default) expects none; done closes
the thread. A receipt is no reply: the answer comes into your context by itself.

A refused message is not sent, and may be sent again once what was wrong is mended.
With --key the same message sent again, because its answer was lost, is sent once.`,
		Examples: []string{
			`decklog send --to 5d0c33e1 --intent request -- "Does the lease fix cover a clock that jumps back?"`,
			`decklog send --reply-to MESSAGE -- "Yes: lease_test.go, line 42."`,
			`decklog send --to @smith --ref file:lease/lease.go:42 --ref commit:4f2a9c1 -- "Please look at this."`,
			`decklog send --reply-to MESSAGE --intent done -- "Thank you, that settles it."`,
			`git diff | decklog send --to @smith -`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("to", "", "the recipient: `WHO`, a session's id or prefix, or @name")
			r.text("intent", "inform", "what you expect: `INTENT`, request, inform or done")
			r.text("reply-to", "", "the message that this answers: `MSG`")
			r.text("turn", "final", "`TURN`: working for a stub whose answer is to come, else final")
			r.text("key", "", "your own `KEY` for this message: the same again is sent once")
			r.toggle("over", "answer a person although another's answer is pending; it is recorded")
			r.many("ref", "`ADDR` of a passage: file:PATH[:LINE], commit:SHA or HARNESS:SESSION[/ORDINAL[:LINE]]; up to 10")
		},
		Run: func(r *run) error {
			body, err := r.body()
			if err != nil {
				return err
			}
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Send(ops.SendRequest{
				Asker: r.asker(), To: r.str("to"), ReplyTo: r.str("reply-to"), Intent: r.str("intent"), Turn: r.str("turn"),
				Key: r.str("key"), Body: body, Refs: *r.lists["ref"], Over: r.on("over"),
			})
			if err := r.answer(receipt, refusal, err, func() string { return sayReceipt(receipt) }); err != nil || refusal != nil {
				return err
			}
			return r.judge(receipt)
		},
	}
}

// judge asks, after a person's message was acknowledged, whether its mention of a
// seat moves the thread. What comes of it is told beside the receipt.
func (r *run) judge(sent commands.SendReceipt) error {
	if sent.From.Name() == "" {
		return nil // only a person moves a thread by a mention
	}
	verdict, asked, refusal, err := r.ops.JudgeRouting(context.Background(), sent.ID)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		complain(r.Stderr, "routing: %s", refusal.Text())
	case asked && r.json:
	case asked:
		complain(r.Stderr, "routing: %s\n", strings.TrimSuffix(sayVerdict(verdict), "\n"))
	}
	return nil
}

func sayReceipt(s commands.SendReceipt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: message %s in thread %s, from %s\n", s.State, s.ID, s.Thread, s.From)
	who := string(s.To.ID)
	if s.To.Session != "" {
		who += " (session " + string(s.To.Session) + ")"
	}
	fmt.Fprintf(&b, "to %s: %s\n", who, s.To.Evidence)
	fmt.Fprintf(&b, "arrives: %s; expires %s\n", strings.ReplaceAll(string(s.Arrives), "_", " "), s.Expires)
	for _, m := range s.Masked {
		fmt.Fprintf(&b, "masked: %d × %s\n", m.Count, m.Kind)
	}
	if s.ResendOf != "" {
		fmt.Fprintf(&b, "resend of %s, which was lost\n", s.ResendOf)
	}
	b.WriteString(s.Says)
	if s.Next != "" {
		b.WriteString("\nnext: " + s.Next)
	}
	return b.String()
}

func edit() *Command {
	return &Command{
		Name: "edit", Group: "messages", Body: true,
		Usage: "MSG [--turn final] [-- BODY]",
		Short: "change an own message, or make a stub final",
		Long: `Gives an own message another text, or flips its turn from working to final, or both.
Only the author edits. A turn that is final stays final, though its text may still be
put right: new work is a new message. Whoever was given the old text is not told.
A stub that becomes final is delivered; other edits are not delivered again.`,
		Examples: []string{
			`decklog edit MESSAGE --turn final -- "The answer: it was the clock."`,
			`decklog edit MESSAGE -- "A better wording."`,
		},
		Flags: func(f *flag.FlagSet, r *run) { r.text("turn", "", "`TURN`: final") },
		Run: func(r *run) error {
			body, err := r.body()
			if err != nil {
				return err
			}
			if err := r.want(1, 1, "the message's id"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Edit(ops.EditRequest{Asker: r.asker(), Message: r.args[0], Body: body, Turn: r.str("turn")})
			return r.answer(receipt, refusal, err, func() string {
				return fmt.Sprintf("edited: message %s is %s", receipt.ID, receipt.Turn)
			})
		},
	}
}

func remove() *Command {
	return &Command{
		Name: "delete", Group: "messages", Usage: "MSG",
		Short: "take an own message back",
		Long: `Takes an own message back: its text is removed from the ledger and can no longer be
read; that it was sent, to whom and when stays recorded. A copy that was delivered
already lies in its recipient's transcript, out of reach.`,
		Examples: []string{`decklog delete MESSAGE`},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the message's id"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Delete(ops.DeleteRequest{Asker: r.asker(), Message: r.args[0]})
			return r.answer(receipt, refusal, err, func() string { return "deleted: the text of message " + receipt.ID + " is gone" })
		},
	}
}

// moment declares the flags of a command that shows a view.
func (r *run) moment() {
	r.text("at", "", "show the view as of `MOMENT`: a position, or a time as RFC 3339")
	r.least()
}

// least declares the flag of a reading that must not miss what somebody was told of.
func (r *run) least() {
	r.text("at-least", "", "see at least `POSITION`, such as that of a receipt which another machine's server gave: wait for it, 2 seconds at most, else show what is here and say that it is stale")
}

func inbox() *Command {
	return &Command{
		Name: "inbox", Group: "messages", Usage: "[--as WHO] [--sent] [--state S] [--cursor C] [--limit N] [--at MOMENT] [--at-least POSITION]",
		Short: "what was sent to you, or by you, newest first",
		Long: `Shows a page of the inbox, newest first. Looking changes nothing: nothing is taken,
confirmed or marked as read. Messages come into your context by themselves; use the
inbox to check a state or to read something again.`,
		Examples: []string{`decklog inbox --state queued`, `decklog inbox --sent --limit 50`, `decklog inbox --as @smith --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.toggle("sent", "what you sent, instead of what was sent to you")
			r.text("state", "", "only messages in `STATE`: queued, held, leased, delivered, read, expired, undelivered, deleted")
			r.text("cursor", "", "go on after the page that ended with `CURSOR`")
			r.text("limit", "20", "at most `N` messages, up to 200")
			r.moment()
		},
		Run: func(r *run) error {
			return r.paged(ops.InboxMax, func(limit int) error {
				view, refusal, err := r.ops.Inbox(ops.InboxRequest{
					As: r.named(), Sent: r.on("sent"), State: r.str("state"), Cursor: r.str("cursor"), Limit: limit, At: r.str("at"),
				})
				return r.show(view, refusal, err, func() error {
					var b strings.Builder
					fmt.Fprintf(&b, "%s, as of position %d: %s\n", view.Participant, view.At, plural(len(view.Messages), "message"))
					for _, m := range view.Messages {
						fmt.Fprintf(&b, "%s  %-11s %-7s %s → %s\n    %s\n", m.ID, m.State, m.Intent, from(m), m.To, line(m))
					}
					if view.NextCursor != "" {
						fmt.Fprintf(&b, "more: decklog inbox %s--cursor %s\n", r.again("as", "sent", "state", "limit", "at"), view.NextCursor)
					}
					return r.write([]byte(b.String()))
				})
			})
		},
	}
}

// named is whom --as or DECKLOG_AS names for a reading; empty: nobody.
func (r *run) named() string {
	if r.as != "" {
		return r.as
	}
	return r.Environ("DECKLOG_AS")
}

func from(m projections.Shown) string {
	who := string(m.From)
	if m.Subagent {
		who = "a subagent of " + who
	}
	if m.FromSeat != "" {
		who += fmt.Sprintf(" (@%s)", m.FromSeat)
	}
	return who
}

func line(m projections.Shown) string {
	switch {
	case m.Deleted != nil:
		return "[deleted]"
	case m.Redacted:
		return "[redacted]"
	}
	return render.Terminal(clip(m.Preview, 120))
}

// clip shortens a line to n runes.
func clip(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

func plural(n int, what string) string { return pluralOf(n, what, what+"s") }

func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func thread() *Command {
	return &Command{
		Name: "thread", Group: "messages", Usage: "ID [--at MOMENT] [--at-least POSITION]",
		Short: "a thread with everything that happened in it",
		Long: `Shows a thread: who drives it, its messages with their texts, every time each was offered, printed
and confirmed, what was refused, who is still writing, and what is owed. ID is a
thread's or a message's id, or the first characters of one. With --at it is replayed
from the recorded events to that moment. Looking changes nothing.`,
		Examples: []string{`decklog thread MESSAGE`, `decklog thread THREAD --at 42`, `decklog thread THREAD --at 2026-11-30T09:00:00Z --json`},
		Flags:    func(f *flag.FlagSet, r *run) { r.moment() },
		Run: func(r *run) error {
			if err := r.want(1, 1, "the id of a thread or message"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Thread(ops.ThreadRequest{ID: r.args[0], At: r.str("at")})
			return r.show(view, refusal, err, func() error { return r.write([]byte(sayThread(view))) })
		},
	}
}

func sayThread(v projections.ThreadView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "thread %s: %s, as of position %d\n", v.Thread, v.State, v.At)
	if v.ClosedBy != nil {
		fmt.Fprintf(&b, "closed by %s with %s at %s\n", v.ClosedBy.By, v.ClosedBy.Message, v.ClosedBy.Time)
	}
	sayWhoDrives(&b, v)
	for _, m := range v.Messages {
		fmt.Fprintf(&b, "\n%s  %s  %s → %s  %s, %s, %s\n", m.Sent, m.ID, from(m.Shown), m.To, m.Intent, m.Turn, m.State)
		switch {
		case m.Deleted != nil:
			fmt.Fprintf(&b, "    [deleted %s]\n", *m.Deleted)
		case m.Redacted:
			b.WriteString("    [redacted]\n")
		default:
			for l := range strings.Lines(render.Terminal(m.Body)) {
				fmt.Fprintf(&b, "    %s\n", strings.TrimSuffix(l, "\n"))
			}
		}
		if m.Edited != nil && m.Deleted == nil {
			fmt.Fprintf(&b, "    [edited %s: this is the text since then]\n", *m.Edited)
		}
		for _, ref := range m.Refs {
			fmt.Fprintf(&b, "    ref %s\n", render.Terminal(ref))
		}
		sayAlert(&b, m)
		for _, over := range m.Over {
			fmt.Fprintf(&b, "    [sent although %s was pending]\n", over)
		}
		for _, d := range m.Deliveries {
			fmt.Fprintf(&b, "  · attempt %d to %s, leased %s, %s\n", d.Attempt, d.To, d.Leased, outcome(d))
		}
	}
	for _, r := range v.Refusals {
		fmt.Fprintf(&b, "\n%s  refused %s: %s by %s\n    %s\n", r.Time, r.Code, r.Command, r.By, render.Terminal(r.Message))
	}
	for _, p := range v.Pending {
		fmt.Fprintf(&b, "\npending: %s is writing %s, waited for until %s\n", render.Terminal(p.Who()), p.Message, p.Until)
	}
	for _, o := range v.Owed {
		fmt.Fprintf(&b, "\nowed: %s owes %s %s %s%s\n", o.Debtor, o.Creditor, owedWord(o.Kind), o.ID, due(o.Due))
	}
	return b.String()
}

func due(t *events.Time) string {
	if t == nil {
		return ""
	}
	return ", due " + t.String()
}

func outcome(d projections.DeliveryShown) string {
	switch {
	case d.Confirmed != nil && d.Late:
		return "confirmed late " + d.Confirmed.String()
	case d.Confirmed != nil:
		return "confirmed " + d.Confirmed.String()
	case d.Expired != nil:
		return "ended unconfirmed, seen " + d.Expired.String()
	}
	return "not confirmed yet"
}

func wait() *Command {
	return &Command{
		Name: "wait", Group: "messages", Usage: "[THREAD|MSG] [--for reply|final|any] [--timeout 60s]",
		Short: "block until an answer, or anything, comes",
		Long: `Waits on the ledger, without asking it again and again, and prints what came. What
comes into your own mailbox is delivered by it: taken, printed and confirmed, like a
hook does. With a message it waits for a final answer to it; with a thread for an
answer in it; without either for anything sent to you. Exit code 4 when time is up. With
--json each delivery is one line.`,
		Examples: []string{`decklog wait MESSAGE --timeout 2m`, `decklog wait THREAD --for final`, `decklog wait --as @ana`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("for", "reply", "`WHAT`: reply, final or any")
			r.text("timeout", "60s", "how long at most: `DURATION`, as 90s or 5m")
		},
		Run: func(r *run) error {
			if err := r.want(0, 1, ""); err != nil {
				return err
			}
			timeout, err := time.ParseDuration(r.str("timeout"))
			if err != nil || timeout < 0 {
				return misused("--timeout %q is no duration such as 5s, 60s or 5m", r.str("timeout"))
			}
			if err := r.open(); err != nil {
				return err
			}
			interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(interrupted, timeout)
			defer cancel()
			id := ""
			if len(r.args) > 0 {
				id = r.args[0]
			}
			waited, refusal, err := r.ops.Wait(ctx, ops.WaitRequest{Asker: r.asker(), ID: id, For: ops.WaitFor(r.str("for"))}, r.sayWaited)
			if err != nil {
				return err
			}
			if refusal != nil {
				return r.refused(refusal)
			}
			if !waited.TimedOut {
				return nil
			}
			r.code = ExitPending
			if r.json {
				return r.document(ops.Waited{Messages: []projections.Shown{}, Notices: []ops.LeasedNotice{}, Calls: []ops.LeasedCall{}, TimedOut: true, At: waited.At})
			}
			why := fmt.Sprintf("it did not come within %s", timeout)
			if interrupted.Err() != nil {
				why = "interrupted"
			}
			_, err = fmt.Fprintf(r.Stderr, "still pending: %s\n", why)
			return err
		},
	}
}

// sayWaited prints what a wait brought before it is confirmed: as JSON one
// document for each lease, mostly the only one.
func (r *run) sayWaited(came ops.Waited) error {
	if r.json {
		return r.document(came)
	}
	if came.Text != "" {
		return r.printf("%s\n", render.Terminal(came.Text))
	}
	for _, m := range came.Messages {
		if err := r.printf("%s  %s  %s → %s  %s, %s\n%s\n", m.Sent, m.ID, from(m), m.To, m.Intent, m.State, render.Terminal(m.Body)); err != nil {
			return err
		}
	}
	return nil
}
