package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

// Env is what a run of the program is given by its surroundings.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        func(string) string
	Getwd          func() (string, error)
	World          ops.World
	// Open gives the operations on the ledger at an address, in the environment's
	// world, and says what lies beside it, also when it fails.
	Open func(url string, env *Env) (ops.Operations, Beside, error)
	// LedgerFile is the file of the ledger at an address, without opening it; empty
	// for one in memory.
	LedgerFile func(url string) (string, error)
	// Views is the file of what this machine has of a ledger in a cluster, and its
	// address as it may be printed. Nil in a program that knows no cluster.
	Views func(url string) (file, shown string, err error)
	// Folder is where the bells and the notes of the ledger at an address lie; empty
	// for one that has none on this machine.
	Folder func(url string) (string, error)
	// Patience is how long the ledger waits for other processes; 0: as long as
	// suits somebody who waits for the answer.
	Patience time.Duration
	// Hook runs a harness's hook, and gives the exit code.
	Hook func(env *Env, harness string) int
	// Wake listens for the mail of an idle session, and gives the exit code.
	Wake    func(env *Env, q WakeRequest) int
	Version Version
	// Daemon becomes the program that holds what is heavy, with these arguments.
	// It returns only when that cannot be run.
	Daemon func(args ...string) error
}

// Beside is what lies beside a ledger.
type Beside struct {
	Folder string // empty for a ledger without a file
	Notes  *notes.Notes
}

// Version says which program this is.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Protocol int    `json:"protocol"`
	Fold     int    `json:"fold"`
	Clock    string `json:"clock"`
}

// The exit codes.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitRefused = 3
	ExitPending = 4
)

// Command is one of the program's commands.
type Command struct {
	Name     string
	Usage    string   // what follows the name
	Short    string   // one line, for the list
	Long     string   // what a newcomer has to know
	Examples []string // command lines, each with a comment
	Hidden   bool
	Group    string
	// Harmless says that the exit code is 0 also for a command line that cannot
	// be parsed: to a harness it would say something else.
	Harmless bool
	// Body says that the command takes a body: after `--`, from standard input
	// with `-`, or with --body-file.
	Body  bool
	Words []string // that complete its first argument
	// Without are flags that all commands have and this one does not take: help and
	// completion leave them out.
	Without []string
	// Flags declares the command's flags; Run runs it.
	Flags func(*flag.FlagSet, *run)
	Run   func(*run) error
}

// run is one run of a command.
type run struct {
	*Env
	command *Command
	flags   *flag.FlagSet
	args    []string // positional
	rest    []string // after --
	dashed  bool     // there was a --
	values  map[string]*string
	lists   map[string]*list
	// switches are the flags that take no value.
	switches map[string]*bool

	url    string
	json   bool
	as     string
	id     string
	ops    ops.Operations
	beside Beside
	// atLeast is what a reading must see; 0: whatever there is. stale says that it does not.
	atLeast events.Position
	stale   bool
	code    int
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (r *run) text(name, value, usage string) {
	r.values[name] = r.flags.String(name, value, usage)
}
func (r *run) toggle(name, usage string) { r.switches[name] = r.flags.Bool(name, false, usage) }
func (r *run) many(name, usage string) {
	l := new(list)
	r.lists[name] = l
	r.flags.Var(l, name, usage)
}
func (r *run) str(name string) string { return *r.values[name] }
func (r *run) on(name string) bool    { return *r.switches[name] }

func (r *run) asker() ops.Asker {
	return ops.Asker{As: r.as, Command: events.CommandID(r.id)}
}

// usageError is a command line that cannot be parsed: exit code 2.
type usageError struct{ what string }

func (e usageError) Error() string { return e.what }

func misused(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// Main runs the program and gives its exit code.
func Main(env *Env) int {
	args := env.Args
	// Flags that hold for every command may stand before its name.
	var early []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, inline := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		switch {
		case name == "h" || name == "help":
			return help(env, args[1:])
		case name == "version":
			args = append([]string{"version"}, args[1:]...)
			continue
		case name == "json":
			early, args = append(early, args[0]), args[1:]
		case (name == "ledger" || name == "as" || name == "command") && (inline || len(args) > 1):
			n := 2
			if inline {
				n = 1
			}
			early, args = append(early, args[:n]...), args[n:]
		default:
			complain(env.Stderr, "decklog: unknown flag %s before the command\nSee: decklog help\n", args[0])
			return ExitUsage
		}
	}
	if len(args) == 0 {
		overview(env.Stderr)
		return ExitUsage
	}
	if args[0] == "help" {
		return help(env, args[1:])
	}
	c := Find(args[0])
	if c == nil {
		fmt.Fprintf(env.Stderr, "decklog: there is no command %q%s\nSee: decklog help\n", args[0], didYouMean(args[0]))
		return ExitUsage
	}
	return c.main(env, append(early, args[1:]...))
}

func (c *Command) main(env *Env, args []string) int {
	r := c.begin(env)
	err := r.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		c.help(env.Stdout)
		return ExitDone
	}
	if err != nil {
		r.json = r.json || slices.Contains(args, "--json")
		r.misuse(flagError(err))
		if c.Harmless {
			return ExitDone
		}
		return ExitUsage
	}
	err = c.Run(r)
	if r.ops != nil {
		if e := r.ops.Close(); err == nil && e != nil {
			err = e
		}
	}
	code := r.finish(err)
	if c.Harmless && err != nil {
		return ExitDone
	}
	return code
}

// LedgerOf is the address of the ledger that a command line names, the last time
// that it names one, or else the environment; empty when neither does. It reads no
// more of the line than that.
func LedgerOf(args []string, environ func(string) string) (url string) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, inline := strings.Cut(arg, "=")
		if name != "--ledger" && name != "-ledger" {
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		url = value
	}
	return or(url, environ("DECKLOG_LEDGER"))
}

// address is that of the ledger which is meant; empty: the one in the user's data folder.
func (r *run) address() string { return or(r.url, r.Environ("DECKLOG_LEDGER")) }

// flagError says what is wrong with a flag as the rest of the program writes flags.
func flagError(err error) error {
	if name, is := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); is {
		return misused("there is no flag --%s", strings.TrimPrefix(name, "-"))
	}
	if name, is := strings.CutPrefix(err.Error(), "flag needs an argument: -"); is {
		return misused("the flag --%s needs a value", strings.TrimPrefix(name, "-"))
	}
	return err
}

// given are those of these flags that this run was given with something in them, as
// they were, for a program that goes on with it.
func (r *run) given(names ...string) (args []string) {
	r.flags.Visit(func(f *flag.Flag) {
		if value := f.Value.String(); value != "" && slices.Contains(names, f.Name) {
			args = append(args, "--"+f.Name+"="+value)
		}
	})
	return args
}

// again writes the given flags of this run, as they were, for somebody who types a
// next one into a shell.
func (r *run) again(names ...string) string {
	var b strings.Builder
	r.flags.Visit(func(f *flag.Flag) {
		value, is := f.Value.String(), r.switches[f.Name] != nil
		switch {
		case !slices.Contains(names, f.Name):
		case is && value == "true":
			b.WriteString("--" + f.Name + " ")
		case is:
			b.WriteString("--" + f.Name + "=" + value + " ")
		default:
			b.WriteString("--" + f.Name + " " + word(value) + " ")
		}
	})
	return b.String()
}

// word is a text as one word of a shell's line.
func word(s string) string {
	ordinary := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("@%+=:,./_-", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !ordinary(c) }) < 0 {
		return s
	}
	return shellQuote(s)
}

// begin is a run of the command, with its flags declared.
func (c *Command) begin(env *Env) *run {
	r := &run{
		Env: env, command: c, flags: flag.NewFlagSet(c.Name, flag.ContinueOnError),
		values: map[string]*string{}, switches: map[string]*bool{}, lists: map[string]*list{},
	}
	c.declare(r)
	return r
}

// declare makes the flags of a command, those that all have included.
func (c *Command) declare(r *run) {
	r.flags.SetOutput(io.Discard)
	r.flags.StringVar(&r.url, "ledger", "", "the ledger's `URL`: sqlite:PATH, unix:PATH or http(s)://HOST:PORT of a decklog serve, or memory: (default: DECKLOG_LEDGER, else in the user's data folder)")
	r.flags.BoolVar(&r.json, "json", false, "print one JSON document")
	r.flags.StringVar(&r.as, "as", "", "who acts: a session's id or prefix, `WHO` or @name (default: DECKLOG_AS, else found out)")
	r.flags.StringVar(&r.id, "command", "", "the command's own `UUID`; the same one again gets the same answer")
	if c.Body {
		r.text("body-file", "", "read the body from `FILE`")
	}
	if c.Flags != nil {
		c.Flags(r.flags, r)
	}
}

// parse takes flags and arguments in any order, up to a "--".
func (r *run) parse(args []string) error {
	for i, a := range args {
		if a == "--" {
			r.rest, r.dashed, args = args[i+1:], true, args[:i]
			break
		}
	}
	for {
		if err := r.flags.Parse(args); err != nil {
			return err
		}
		if r.flags.NArg() == 0 {
			break
		}
		r.args = append(r.args, r.flags.Arg(0))
		args = r.flags.Args()[1:]
	}
	if r.dashed && !r.command.Body {
		r.args = append(r.args, r.rest...)
	}
	if r.id != "" && !events.IsUUID(r.id) {
		return misused("--command %q is no UUID", r.id)
	}
	if least := r.values["at-least"]; least != nil && *least != "" {
		n, err := strconv.ParseInt(*least, 10, 64)
		if err != nil || n < 1 {
			return misused("--at-least %q is no position, such as a receipt's", *least)
		}
		r.atLeast = events.Position(n)
	}
	return nil
}

// want checks the number of arguments.
func (r *run) want(least, most int, what string) error {
	if len(r.args) < least {
		return misused("%s is missing", what)
	}
	if len(r.args) > most {
		if r.command.Body && !r.dashed {
			return misused("%q is one word too many; a body stands after --", r.args[most])
		}
		return misused("%q is one word too many", r.args[most])
	}
	return nil
}

// BodyReadMax bounds what is read of a body. What is longer than the policy
// allows is refused with its size; what is longer than this is not even read.
const BodyReadMax = 16 << 20

// body is the text that the command was given; nil: none.
func (r *run) body() ([]byte, error) {
	file := r.str("body-file")
	stdin := len(r.args) > 0 && r.args[len(r.args)-1] == "-" || len(r.rest) == 1 && r.rest[0] == "-"
	switch {
	case file != "" && (r.dashed || stdin):
		return nil, misused("the body is given twice: with --body-file and on the command line")
	case stdin && r.dashed && !(len(r.rest) == 1 && r.rest[0] == "-"):
		return nil, misused("the body is given twice: on standard input and after --")
	case file != "":
		return r.bodyFile(file)
	case stdin:
		if len(r.args) > 0 && r.args[len(r.args)-1] == "-" {
			r.args = r.args[:len(r.args)-1]
		}
		return readBody(r.Stdin, "standard input")
	case r.dashed:
		return []byte(strings.Join(r.rest, " ")), nil
	}
	return nil, nil
}

func readBody(from io.Reader, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(from, BodyReadMax+1))
	if err != nil {
		return nil, fmt.Errorf("read the body from %s: %w", what, err)
	}
	if len(b) > BodyReadMax {
		return nil, Failed("body_too_large", "keep what must be acted on, and attach the rest as refs; nothing was recorded",
			fmt.Errorf("read the body from %s: more than %d bytes", what, BodyReadMax))
	}
	return b, nil
}

// open opens the ledger that the flags and the environment name.
func (r *run) open() error {
	desk, beside, err := r.Open(r.address(), r.Env)
	r.beside = beside
	if err != nil {
		return err
	}
	r.ops = desk
	return r.reach()
}

// reach waits for what the reading must see, and says so where it has not come.
func (r *run) reach() error {
	if r.atLeast == 0 {
		return nil
	}
	end, err := ops.Reach(context.Background(), r.ops, r.atLeast)
	if err != nil {
		return err
	}
	if r.stale = end < r.atLeast; r.stale {
		complain(r.Stderr, "stale: the ledger here ends at position %d, and not yet at %d\n", end, r.atLeast)
	}
	return nil
}
