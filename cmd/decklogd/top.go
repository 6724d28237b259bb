package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"decklog/internal/cli"
	"decklog/internal/top"
)

// topPatience is how long one question of the picture waits for a server that is
// not there.
const topPatience = time.Second

// showTop shows the ledger in the terminal until its user ends it; where there is
// no terminal, one picture of it.
func showTop(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("decklogd top", flag.ContinueOnError)
	url := flags.String("ledger", os.Getenv("DECKLOG_LEDGER"), "the ledger's `URL`")
	once := flags.Bool("once", false, "print one picture and end")
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("%q is one word too many", flags.Arg(0))}
	}
	env := newEnv()
	if cli.Served(*url) {
		env.Patience = topPatience // it tries again by itself, and says meanwhile that it does
	}
	desk, _, err := open(*url, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, desk.Close()) }()
	c := top.Config{Desk: desk, Now: env.World.Now, Input: os.Stdin, Output: os.Stdout, Environ: os.Environ()}
	if *once || !top.IsTerminal(os.Stdin) || !top.IsTerminal(os.Stdout) {
		return top.Once(c, top.Width(os.Getenv))
	}
	return top.Run(ctx, c)
}
