package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"decklog/commands"
)

// groups order the commands in the overview.
var groups = []string{"messages", "sessions", "driving", "delivery", "audit", "set-up"}

// Find gives the command of a name; nil when there is none.
func Find(name string) *Command {
	for _, c := range All() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func help(env *Env, args []string) int {
	if len(args) == 0 {
		overview(env.Stdout)
		return ExitDone
	}
	switch c := Find(args[0]); {
	case c != nil:
		c.help(env.Stdout)
		return ExitDone
	case args[0] == "help" || args[0] == "-h" || args[0] == "--help":
		fmt.Fprint(env.Stdout, helpOfHelp)
		return ExitDone
	}
	fmt.Fprintf(env.Stderr, "decklog: there is no command %q%s\nSee: decklog help\n", args[0], didYouMean(args[0]))
	return ExitUsage
}

const helpOfHelp = `decklog help: what the commands are, and what each one takes

Usage: decklog help [COMMAND]

Without a command it lists them all. decklog COMMAND --help says the same as
decklog help COMMAND.

Examples:
  decklog help
  decklog help send
`

func overview(w io.Writer) {
	fmt.Fprint(w, `decklog: a ledger through which coding agents, and the people beside them,
ask each other for work, answer, and are held to what they owe.

Usage: decklog COMMAND [flags] [-- BODY]

`)
	for _, g := range groups {
		fmt.Fprintf(w, "%s\n", strings.ToUpper(g[:1])+g[1:])
		for _, c := range All() {
			if c.Group == g && !c.Hidden {
				fmt.Fprintf(w, "  %-12s %s\n", c.Name, c.Short)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, `Begin with:
  decklog join --session my-first-session          # take part
  decklog peers                                    # who else does
  decklog send --to SESSION --intent request -- "Which commit fixed the lease test?"

Every command has --help. All but top have --json; all but copy and engine-check, which
are given addresses as arguments, have --ledger URL; all but copy, engine-check and top have
--as WHO.
Exit codes: 0 done, 1 failed, 2 flags that cannot be parsed, 3 refused, 4 still pending.
`)
}

func (c *Command) help(w io.Writer) {
	fmt.Fprintf(w, "decklog %s: %s\n\nUsage: decklog %s\n\n%s\n", c.Name, c.Short, strings.TrimSpace(c.Name+" "+c.Usage), strings.TrimSpace(c.Long))
	if len(c.Examples) > 0 {
		fmt.Fprint(w, "\nExamples:\n")
		for _, e := range c.Examples {
			fmt.Fprintf(w, "  %s\n", e)
		}
	}
	fmt.Fprint(w, "\nFlags:\n")
	c.eachFlag(func(f *flag.Flag) {
		name, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  --%-22s %s", strings.TrimSpace(f.Name+" "+name), usage)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}

// eachFlag visits the command's flags by name.
func (c *Command) eachFlag(visit func(*flag.Flag)) {
	c.begin(&Env{}).flags.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(c.Without, f.Name) {
			visit(f)
		}
	})
}

// otherWords are what people try for a command of another name.
var otherWords = map[string]string{
	"reply": "send", "ask": "send", "answer": "send", "message": "send", "list": "inbox", "read": "thread", "show": "thread",
	"log": "events", "status": "peers", "who": "peers", "whoami": "peers", "register": "join", "init": "join", "done": "send", "check": "verify", "audit": "verify",
	"move": "copy", "migrate": "copy", "import": "copy", "backup": "copy",
}

func didYouMean(name string) string {
	best, least := otherWords[name], 3
	for _, c := range All() {
		if best != "" {
			break
		}
		if strings.HasPrefix(c.Name, name) || strings.HasPrefix(name, c.Name) {
			best = c.Name
		}
	}
	for _, c := range All() {
		if d := commands.Distance(c.Name, name); best == "" && d < least {
			best, least = c.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
