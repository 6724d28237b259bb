package cli

import (
	"flag"
	"fmt"
	"strings"

	"decklog/internal/ops"
	"decklog/internal/render"
)

func review() *Command {
	return &Command{
		Name: "review", Group: "driving", Words: []string{"ask", "label", "check"},
		Usage: "ask THREAD --commit SHA [--author WHO] [--to SEAT] | label REVIEW root|bandage low|med|high | check THREAD --commit SHA [--at-least POSITION]",
		Short: "have another seat review a commit before it is merged",
		Long: `The driver asks another seat, never itself and never the commit's author, for a critique
of one commit: is it a bandage or the root, would it recur, the class or this instance.
The answer is a label, root or bandage, with a risk. root with low or med clears the
merge of that commit, and of no other; everything else, and no label in time, calls the
owners. check answers a merge tool: exit code 0 when the commit is cleared, else 3.`,
		Examples: []string{
			`decklog review ask THREAD --commit 4f2a9c1 --author @smith`,
			`decklog review label REVIEW root low`,
			`decklog review check THREAD --commit 4f2a9c1 && git merge --ff-only 4f2a9c1`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("commit", "", "the commit: `SHA`, 7 to 64 hex digits")
			r.text("author", "", "who wrote it: `WHO`, a seat, @name or any text")
			r.text("to", "", "the `SEAT` that is asked (default: the next in order)")
			r.least()
		},
		Run: func(r *run) error {
			if r.atLeast > 0 && !(len(r.args) > 0 && r.args[0] == "check") {
				return misused("--at-least is for `review check`")
			}
			return r.sub(map[string]func() error{"ask": r.askReview, "label": r.labelReview, "check": r.checkReview})
		},
	}
}

// commitOf makes sure that a thread and a commit are named, and opens the ledger.
func (r *run) commitOf() error {
	if err := r.want(1, 1, "the id of a thread"); err != nil {
		return err
	}
	if r.str("commit") == "" {
		return misused("--commit is missing: the commit's hash")
	}
	return r.open()
}

func (r *run) askReview() error {
	if err := r.commitOf(); err != nil {
		return err
	}
	receipt, refusal, err := r.ops.AskReview(ops.ReviewRequest{
		Asker: r.asker(), Thread: r.args[0], Commit: r.str("commit"), Author: r.str("author"), To: r.str("to"),
	})
	return r.answer(receipt, refusal, err, func() string {
		return fmt.Sprintf("asked: review %s of commit %s by %s%s\n%s", receipt.ID, receipt.Commit, seatOr(receipt.Reviewer), due(receipt.Due), receipt.Says)
	})
}

func (r *run) labelReview() error {
	// A label that lacks its risk is one that cannot be read, and no misuse.
	if err := r.want(2, 3, "a review, and a label with its risk"); err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	receipt, refusal, err := r.ops.LabelReview(ops.LabelRequest{
		Asker: r.asker(), Review: r.args[0], Label: r.args[1], Risk: strings.Join(r.args[2:], ""),
	})
	return r.answer(receipt, refusal, err, func() string {
		if receipt.Label == "" {
			return fmt.Sprintf("open: review %s\n%s\nExample: decklog review label %s root low", receipt.ID, receipt.Says, receipt.ID)
		}
		return fmt.Sprintf("labelled: review %s: %s, %s\n%s", receipt.ID, receipt.Label, receipt.Risk, receipt.Says)
	})
}

func (r *run) checkReview() error {
	if err := r.commitOf(); err != nil {
		return err
	}
	view, refusal, err := r.ops.CheckReview(ops.CheckRequest{Thread: r.args[0], Commit: r.str("commit")})
	if err == nil && refusal == nil && !view.Clear {
		r.code = ExitRefused
	}
	return r.show(view, refusal, err, func() error {
		word := "not clear"
		if view.Clear {
			word = "clear"
		}
		return r.printf("%s: commit %s: %s; the thread is %s\n", word, render.Terminal(view.Commit), view.Why, drivenBy(view.Driver))
	})
}
