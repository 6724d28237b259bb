package cli

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"decklog/internal/ops"
	"decklog/internal/render"
)

func turn() *Command {
	return &Command{
		Name: "turn", Group: "driving", Usage: "THREAD [--message MSG] [--block]",
		Short: "may you answer in a thread, and when?",
		Long: `Says whether you may answer, and when. A person's message that mentions nobody is its
driver's to answer; every other seat holds for a while (hold), stays out when somebody
before it took the message (stay_out), and else judges by itself (judge). Then, while
another's answer is pending, it is waited for (wait), for at most three minutes from
when that was begun. After that you answer, and tell whose answer is still pending.

Without --block nothing is recorded, and the exit code is 4 for wait and hold. With
--block the message is acked where that is due, the verdict is waited for, and the
thread is printed as it then is: read it before you write. It may be begun again at
any time. The message is the latest that went to you, unless you name another.`,
		Examples: []string{`decklog turn THREAD`, `decklog turn THREAD --block`, `decklog turn THREAD --message MESSAGE --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("message", "", "the message that you would answer: `MSG`")
			r.toggle("block", "ack, wait, and print the thread again")
		},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the id of a thread or message"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			answer, refusal, err := r.ops.Turn(ctx, ops.TurnRequest{
				Asker: r.asker(), Thread: r.args[0], Message: r.str("message"), Block: r.on("block"),
			})
			if err == nil && refusal == nil && answer.Waits() {
				r.code = ExitPending
			}
			return r.show(answer, refusal, err, func() error { return r.write([]byte(sayTurn(answer))) })
		},
	}
}

func sayTurn(a ops.TurnAnswer) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(string(a.Verdict), "_", " "))
	if a.Until != nil {
		fmt.Fprintf(&b, " until %s", *a.Until)
	}
	fmt.Fprintf(&b, ": %s\n", a.Says)
	for _, p := range a.Pending {
		fmt.Fprintf(&b, "pending: %s is writing %s, waited for until %s\n", render.Terminal(p.Who()), p.Message, p.Until)
	}
	if a.Tell != "" {
		fmt.Fprintf(&b, "tell: %s\n", a.Tell)
	}
	if a.Waits() {
		fmt.Fprintf(&b, "next: decklog turn %s --block\n", a.Thread)
	}
	if a.Reread != nil {
		fmt.Fprintf(&b, "\n%s", sayThread(*a.Reread))
	}
	return b.String()
}

func ack() *Command {
	return &Command{
		Name: "ack", Group: "driving", Usage: "MSG act|no_input",
		Short: "say without a word that you will act, or need not",
		Long: `Places an ack on a message: act says that you will act on it, no_input that it needs
nothing from you. Who waits for its turn acks first. On a person's message that mentions
nobody it takes the message: seats that come later stay out. The same ack again changes
nothing. An ack is no answer.`,
		Examples: []string{`decklog ack MESSAGE act`, `decklog ack MESSAGE no_input`},
		Run: func(r *run) error {
			if err := r.want(2, 2, "the message's id and the ack, act or no_input,"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Ack(ops.AckRequest{Asker: r.asker(), Message: r.args[0], Ack: r.args[1]})
			return r.answer(receipt, refusal, err, func() string {
				what := "you will act on message %s"
				if receipt.Ack != "act" {
					what = "message %s needs nothing from you"
				}
				return fmt.Sprintf("acked: "+what, receipt.Message)
			})
		},
	}
}
