package cli

import "flag"

func top() *Command {
	return &Command{
		Name: "top", Group: "messages", Usage: "[--once]",
		Short: "threads, owed items, mailboxes and health, live in a terminal",
		Long: `Shows the ledger in a terminal, and goes on as things happen: the threads with their
drivers, what is owed, who has mail, and how the ledger stands. Tab or 1 to 4 change
between these, the arrows or j and k move, Enter opens a thread with all that happened in
it, / narrows the list, ? says the rest, and q ends it. It only looks. With --once, or
where standard output is no terminal, it prints one picture and ends. NO_COLOR is honoured.`,
		Without:  []string{"json", "as", "command"},
		Examples: []string{`decklog top`, `decklog top --once`, `decklog top --ledger unix:/run/decklog/decklog.sock`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.toggle("once", "print one picture and end")
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if r.json {
				return misused("--json is for the views: decklog threads, owed, mailboxes and health have it")
			}
			return r.daemon("top", "ledger", "once")
		},
	}
}
