package cli

import "fmt"

func checksEngine() *Command {
	return &Command{
		Name: "engine-check", Group: "set-up", Usage: "URL",
		Short: "does a server keep what decklog relies on? promise by promise",
		Long: `Asks an EventStoreDB or KurrentDB server, or a cluster, for everything that decklog
relies on, before anybody's ledger lies there: what the server has to do by itself, and
what a ledger on it has to keep, by the same suite that decklog's own ledgers are tested
with. Prints each promise with ok or failed and why, and exits 0 only when all are kept.

It needs a user who may read $all, and append to and delete streams. It leaves every
ledger there alone: all that it makes has names that begin with engine-check- and a word
of this run's own, and is taken away at the end, also after a failure or Ctrl-C (a second
Ctrl-C ends it at once). What stays are tombstones, until the server is scavenged. A
prefix= in the URL is not written to.

A file needs no such check: decklog verify reads all of a ledger in a file.`,
		Without:  []string{"ledger", "as", "command"},
		Examples: []string{`decklog engine-check 'esdb://localhost:2113?tls=false'`, `decklog engine-check esdb+discover://ops:PASSWORD@cluster.example:2113 --json`},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the server's URL"); err != nil {
				return err
			}
			url := r.args[0]
			if !clustered(url) {
				return Failed("not_a_server", "name a server: decklog engine-check 'esdb://localhost:2113?tls=false'; a ledger in a file is read whole by decklog verify --ledger sqlite:PATH",
					fmt.Errorf("check %.80q: it is no server's address, which begins with esdb:// or esdb+discover://", url))
			}
			return r.becomes("engine-check")
		},
	}
}
