package cli

func copies() *Command {
	return &Command{
		Name: "copy", Group: "set-up", Usage: "FROM TO",
		Short: "move a ledger into a file or a cluster, event by event",
		Long: `Copies the ledger at FROM into the one at TO: from a file into a cluster and back, into
another file, or under another prefix. Every event is taken as it is recorded, in its
place, with its id, time, actor and cause, events of a newer decklog byte for byte; bodies
with their salts, and those that went stay gone. So positions and digests are the same in
both, and links and cursors go on to hold. FROM is only read, and may be in use.

TO must be empty, or a copy of FROM that was broken off: run the same copy again after
Ctrl-C, a crash or a lost connection, and it goes on where it was. Anything else in TO is
refused, and so is an event that the cluster could not take (at most 1 MiB with what
belongs to it), before anything is written. It copies up to the end that FROM has when it
begins, and says how many came since: run it again to take them too. Nobody may append to
TO before it is done, and no serve can tell that it is not. At the end it compares the
two, event by event, and verifies TO.

To move: end whoever uses FROM, copy, and name TO from then on (--ledger, DECKLOG_LEDGER;
a ledger in a cluster through decklog serve).
What lies beside FROM is not copied: decklog.toml (the policy in force is in the ledger),
tokens.json and serve.token (make new ones: decklog token create), the bells (a bell that
is not there rings, so every session looks) and what hooks noted, and how often somebody
was refused beyond the refusals that are recorded.

Of a cluster's ledger it needs a copy of its own on this machine while it runs, beside
the one that decklog serve keeps, and takes that away at the end; views=PATH in the
address names another place, where it stays.`,
		Without: []string{"ledger", "as", "command"},
		Examples: []string{
			`decklog copy sqlite:$HOME/.local/share/decklog/ledger.db 'esdb://cluster.example:2113?prefix=dl.'`,
			`decklog copy 'esdb://localhost:2113?tls=false&prefix=dl.' sqlite:ledger.db --json`,
			`decklog copy sqlite:ledger.db sqlite:backup.db`,
		},
		Run: func(r *run) error {
			if err := r.want(2, 2, "FROM and TO, the addresses of two ledgers,"); err != nil {
				return err
			}
			return r.becomes("copy")
		},
	}
}
