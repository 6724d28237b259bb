package cli

import (
	"flag"
	"fmt"
	"strconv"

	"decklog/events"
	"decklog/internal/ops"
)

func lease() *Command {
	return &Command{
		Name: "lease", Group: "delivery", Usage: "--as SESSION [--harness H] [--max-bytes N]",
		Short: "take a mailbox's oldest messages for a while (for adapters)",
		Long: `Offers the oldest messages of a mailbox, at most five and what fits, to this run for
ten seconds; meanwhile nobody else is offered any of that mailbox. Print them, then
confirm with the lease's id. What is not confirmed is offered again, marked as a
repeat; after three times it is reported to its sender as undelivered. An empty id
says that nothing waits. Hooks do all of this by themselves.`,
		Examples: []string{`decklog lease --as 5d0c33e1 --json`, `decklog confirm LEASE`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("harness", "", "the `HARNESS` that prints them")
			r.text("max-bytes", strconv.Itoa(ops.BudgetDefault), "at most `N` bytes of text, as they count inside a JSON string")
		},
		Run: func(r *run) error {
			budget, err := r.number("max-bytes")
			if err != nil {
				return err
			}
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if budget < 1 {
				return misused("--max-bytes %d is less than 1", budget)
			}
			if err := r.open(); err != nil {
				return err
			}
			offered, refusal, err := r.ops.Lease(ops.LeaseRequest{Asker: r.asker(), Harness: r.str("harness"), Hook: "lease", Budget: budget})
			return r.answer(offered, refusal, err, func() string {
				switch {
				case offered.ID != "":
					return fmt.Sprintf("lease %s until %s\n\n%s", offered.ID, *offered.Until, offered.Text)
				case offered.Busy != nil:
					return fmt.Sprintf("nothing: another lease runs until %s", *offered.Busy)
				}
				return "nothing waits"
			})
		},
	}
}

func confirm() *Command {
	return &Command{
		Name: "confirm", Group: "delivery", Usage: "LEASE",
		Short: "say that what was leased was printed (for adapters)",
		Long: `Confirms a lease: what it offered counts as delivered. A confirm that comes late still
counts while none of its messages was offered again; else it is refused whole
(stale_lease) and changes nothing. Do not try a refused one again.`,
		Examples: []string{`decklog confirm 3f0c7a52-6a0f-5a0e-8a5c-1f7c1d2b3a90`},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the lease's id"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Confirm(r.asker(), events.LeaseID(r.args[0]))
			return r.answer(receipt, refusal, err, func() string { return "confirmed: lease " + receipt.ID })
		},
	}
}

func hook() *Command {
	return &Command{
		Name: "hook", Group: "delivery", Usage: "claude-code|codex|gemini|opencode|cursor",
		Short: "answer a harness's hook (standard input and output)",
		Long: `Reads the harness's JSON from standard input and answers in that harness's form: it
registers the session, delivers what waits, and notes who is busy. It never breaks the
harness: whatever is wrong, it exits 0 and prints nothing; the reason goes to standard
error and into hook-faults.jsonl beside the ledger.

decklog install HARNESS writes the hooks where the harness looks for them: for Claude Code
and Codex SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, Stop and SessionEnd; for
Gemini CLI SessionStart, BeforeAgent, BeforeTool, AfterTool, AfterAgent and SessionEnd; for
opencode a plugin, which runs this and does what it answers.

cursor is experimental: it was built by Cursor's documents and never run with Cursor.
There a message arrives after a tool or at the end of a turn, and at no prompt.`,
		Examples: []string{
			`echo '{"hook_event_name":"SessionStart","session_id":"5d0c33e1","source":"startup","cwd":"."}' | decklog hook claude-code`,
		},
		Words: []string{"claude-code", "codex", "gemini", "opencode", "cursor"},
		// To a harness the exit code of a bad command line would say: erase the prompt.
		Harmless: true,
		Run: func(r *run) error {
			harness := ""
			if len(r.args) > 0 {
				harness = r.args[0]
			}
			r.overrideLedger()
			r.code = r.Hook(r.Env, harness)
			return nil
		},
	}
}

// number is a flag that is a number.
func (r *run) number(name string) (int, error) {
	n, err := strconv.Atoi(r.str(name))
	if err != nil {
		return 0, misused("--%s %q is no number", name, r.str(name))
	}
	return n, nil
}
