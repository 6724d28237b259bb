package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"decklog/cmd/internal/surroundings"
	"decklog/internal/callers"
	"decklog/internal/mcp"
	"decklog/internal/ops"
)

// serveMCP speaks the Model Context Protocol on standard input and output until
// the client goes away.
func serveMCP(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("decklogd mcp", flag.ContinueOnError)
	url := flags.String("ledger", os.Getenv("DECKLOG_LEDGER"), "the ledger's `URL`")
	as := flags.String("as", "", "who all that call are: `WHO`, a session's id or @name (default: found out)")
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("%q is one word too many", flags.Arg(0))}
	}
	env := newEnv()
	c := mcp.Config{
		As: *as, Version: env.Version.Version, Stderr: os.Stderr, Now: func() time.Time { return env.World.Now().Std() },
		Open: func() (ops.Operations, error) {
			// An environment of its own: what opening fills in is of this ledger alone.
			desk, _, err := open(*url, newEnv())
			return desk, err
		},
	}
	// A bad address is told by each call: a server that ends tells nobody anything.
	if folder := surroundings.Folder(*url); folder != "" {
		c.Callers = callers.Beside(folder)
	}
	return mcp.Run(ctx, c, os.Stdin, os.Stdout)
}
