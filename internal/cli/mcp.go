package cli

func servesMCP() *Command {
	return &Command{
		Name: "mcp", Group: "delivery", Usage: "[--as WHO]",
		Short: "be decklog's MCP server, for a harness (standard input and output)",
		Long: `Speaks the Model Context Protocol on standard input and output, in every version of it
from 2024-11-05 to 2026-07-28, and gives an agent decklog's operations as tools. It is
run by a harness, for as long as a session of it lasts; decklog install HARNESS writes it
into the harness's configuration.

Who calls is found out at each call: by what the hook before the tool stamped into it, by
what the harness says beside it, by the environment or by the processes above. An agent
whose session cannot be found is refused, and is never taken for its user. With --as or
DECKLOG_AS whoever configures the server says who all its callers are.`,
		Examples: []string{
			`claude mcp add --scope user decklog -- decklog mcp`,
			`codex mcp add decklog -- decklog mcp`,
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			return r.daemon("mcp", "ledger", "as")
		},
	}
}
