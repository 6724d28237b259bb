package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc/peer"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/esdbdouble"
	"decklog/internal/ops"
	"decklog/internal/token"
)

// fleet are two machines that share a ledger: a server that speaks EventStoreDB's
// protocol, and on each machine a `decklog serve` with its own views, home, state
// and name. Whoever is seen first gets a machine, the two in turn, and stays there;
// who reads and is nobody asks the two in turn.
//
// A command sees what was done before it on the other machine, since its machine was
// asked for the position that the other one had reached (at_least).
type fleet struct {
	*scene
	double   *esdbdouble.Server
	log      *esdbdouble.Log
	machines []*post
	tells    chan struct{}    // something was told to the machines
	homes    map[string]*post // of sessions, seats and persons
	dealt    int              // sessions and persons
	readers  int
	last     *post           // on which the last command was given
	reached  events.Position // that some machine's answer may have told of
}

// post is one machine of a fleet.
type post struct {
	name   string
	dir    string // all that it has
	server *exec.Cmd
	at     listens
	secret string
}

func newFleet(s *scene) *fleet {
	f := &fleet{scene: s, homes: map[string]*post{}, tells: make(chan struct{}, 1)}
	for _, name := range []string{"deck-a", "deck-b"} {
		f.machines = append(f.machines, &post{name: name, dir: filepath.Join(s.work, "."+name)})
	}
	return f
}

func (f *fleet) devices() (names []string) {
	for _, m := range f.machines {
		names = append(names, m.name)
	}
	return names
}

// folder is where the views of a machine lie, and all that is beside them.
func (m *post) folder() string { return filepath.Join(m.dir, "ledger") }

// The names in a scenario's folder that stand for the machine's own: whatever a
// scenario looks at there is of the machine of the last command.
var ofMachine = []string{"ledger", "state"}

// untold leaves out of streams what depends on what one machine told the other of its
// sessions: that comes every thirty seconds at most. Whether they live stays, and so
// does where they sit.
func untold(streams string) string {
	streams = seenOf.ReplaceAllString(streams, "$1")
	return strings.ReplaceAll(streams, `"arrives":"next_tool_call"`, `"arrives":"next_prompt"`)
}

var seenOf = regexp.MustCompile(`,"busy":(?:true|false)(,"session":"[^"]*")?,"says":"[^"]*"`)

// start starts the machines, with what the scenario laid beside the ledger.
func (f *fleet) start(ts *testscript.TestScript) {
	f.log = esdbdouble.NewLog()
	var err error
	f.double, err = esdbdouble.Start(f.log, esdbdouble.Config{})
	ts.Check(err)
	f.double.Inject(esdbdouble.Fault{
		Call: esdbdouble.Append, Stream: "dl.presence-", Point: esdbdouble.Answer, Times: esdbdouble.Always,
		Effect: esdbdouble.Do(func() {
			select {
			case f.tells <- struct{}{}:
			default:
			}
		}),
	})
	for _, m := range f.machines {
		for _, name := range ofMachine {
			ts.Check(os.MkdirAll(filepath.Join(m.dir, name), 0o700))
			laid := filepath.Join(f.work, name)
			if _, err := os.Stat(laid); err == nil {
				ts.Check(os.CopyFS(filepath.Join(m.dir, name), os.DirFS(laid)))
			}
		}
		server := exec.Command(f.program, "serve", "--listen", "127.0.0.1:0", "--json", "--quiet",
			"--ledger", f.double.URL()+"&views="+filepath.Join(m.folder(), "ledger.db"))
		server.Dir = m.dir
		server.Env = append(f.environ(ts), "HOME="+m.dir, "XDG_STATE_HOME="+filepath.Join(m.dir, "state"), "DECKLOG_DEVICE="+m.name)
		m.at, err = begin(server, filepath.Join(m.dir, "log"))
		ts.Check(err)
		m.server = server
		m.secret, err = token.OfMachine(m.folder())
		ts.Check(err)
	}
	for _, name := range ofMachine { // a link takes its place
		ts.Check(os.RemoveAll(filepath.Join(f.work, name)))
	}
}

// of is the machine that a command is given on.
func (f *fleet) of(ts *testscript.TestScript, args []string, stdin string) *post {
	who := caller(ts.Getenv, args, stdin)
	if who == "" && (slices.Contains(looks, verb(args)) || len(args) > 1 && args[0] == "policy" && args[1] == "show") {
		f.readers++
		return f.machines[f.readers%len(f.machines)]
	}
	if who == "" && verb(args) == "token" && f.last != nil {
		return f.last // the tokens are those of the machine that they were made on
	}
	if who == "" {
		who = "@" + surroundings.OSUser() // whom a command is of that nobody else can have given
	}
	home := f.homes[who]
	if prefix := len(who) >= 6 && !strings.HasPrefix(who, "@"); home == nil && prefix {
		for _, known := range slices.Backward(slices.Sorted(maps.Keys(f.homes))) {
			if strings.HasPrefix(known, who) {
				home = f.homes[known]
			}
		}
	}
	if home == nil {
		home = f.machines[f.dealt%len(f.machines)]
		f.dealt++
		f.homes[who] = home
	}
	if seat := value(args, "--seat"); verb(args) == "join" && seat != "" {
		f.homes["@"+strings.TrimPrefix(seat, "@")] = home
	}
	return home
}

// looks are the commands that change nothing, and are nobody's.
var looks = []string{"thread", "threads", "events", "owed", "driver", "peers", "mailboxes", "refusals", "health", "verify", "export"}

var sessionOfHook = regexp.MustCompile(`"(?:session_id|sessionID|conversation_id)"\s*:\s*"([^"]+)"`)

// caller is who gives a command, as far as that can be seen from outside.
func caller(environ func(string) string, args []string, stdin string) string {
	if is := verb(args); is == "hook" || is == "statusline" {
		if m := sessionOfHook.FindStringSubmatch(stdin); m != nil {
			return m[1]
		}
	}
	if session := value(args, "--session"); session != "" && (verb(args) == "join" || verb(args) == "leave") {
		return session
	}
	if as := value(args, "--as"); as != "" {
		return as
	}
	for _, name := range []string{"DECKLOG_AS", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "DECKLOG_SESSION"} {
		if id := environ(name); id != "" {
			return id
		}
	}
	return ""
}

func verb(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// value is what a flag of a command line is given.
func value(args []string, flag string) string {
	for i, arg := range args {
		switch is, inline := strings.CutPrefix(arg, flag+"="); {
		case arg == "--":
			return ""
		case inline:
			return is
		case arg == flag && i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// hears makes a run of a hook one of the small program, which looks at the bell first:
// that was rung on this machine by whatever came from another.
func hears(cmd *exec.Cmd, args []string) {
	if verb(args) == "hook" {
		small := exec.Command(filepath.Join(filepath.Dir(cmd.Path), "decklog-hook"), args[1:]...)
		cmd.Path, cmd.Args = small.Path, small.Args
	}
}

// environ is what a command of the machine finds otherwise than on another.
func (m *post) environ(ts *testscript.TestScript) []string {
	environ := []string{"DECKLOG_DEVICE=" + m.name}
	if ts.Getenv("DECKLOG_LEDGER") == "" || strings.HasPrefix(ts.Getenv("DECKLOG_LEDGER"), "sqlite:") {
		environ = append(environ, "DECKLOG_LEDGER="+m.at.Socket)
	}
	return environ
}

// reach makes a machine the one whose files are looked at, and waits until it has
// what the other one had.
func (f *fleet) reach(ts *testscript.TestScript, m *post) {
	if f.double == nil {
		f.start(ts)
	}
	// Who looks after several machines gives them all the same policy.
	laid, err := os.ReadFile(filepath.Join(f.work, "ledger", cli.PolicyName))
	if err == nil {
		err = os.WriteFile(filepath.Join(m.folder(), cli.PolicyName), laid, 0o600)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		ts.Check(err)
	}
	for _, name := range ofMachine {
		link := filepath.Join(f.work, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			ts.Check(err)
		}
		ts.Check(os.Symlink(filepath.Join(m.dir, name), link))
	}
	f.last = m
	ts.Check(f.catchUp(m))
}

// tell waits until both machines say the same of all sessions: until the one that saw
// something has told it, which it does by itself and not too often, and the other has
// heard it. Of the latter nobody says when it was.
func (f *fleet) tell() error {
	for {
		var views [2]string
		for i, m := range f.machines {
			var view struct {
				Peers []struct {
					Session, Evidence string
					Live, Busy        bool
				}
			}
			if err := m.get("/v1/peers", &view); err != nil {
				return err
			}
			views[i] = fmt.Sprint(view)
		}
		if views[0] == views[1] {
			return nil
		}
		look := time.NewTimer(20 * time.Millisecond)
		select {
		case <-f.tells:
		case <-look.C:
		}
		look.Stop()
	}
}

// race runs two commands on two machines at once: the first one's append is kept back
// until the other's to the same stream has come, so that both were decided before
// either was recorded. Then the first goes on, and when it is over the second.
func (f *fleet) race(ts *testscript.TestScript, first, second []string) (won, lost ran) {
	one := f.of(ts, first, "")
	f.reach(ts, one)
	other := f.machines[(slices.Index(f.machines, one)+1)%len(f.machines)]
	ts.Check(f.catchUp(other))
	is := map[string]bool{} // that the first is kept back, that both are there, that the first is over
	var mu sync.Mutex
	happens := sync.NewCond(&mu)
	var stream, from string
	sender := func(c *esdbdouble.Call) string {
		if p, known := peer.FromContext(c); known {
			return p.Addr.String()
		}
		return ""
	}
	until := func(c *esdbdouble.Call, what string) error {
		defer context.AfterFunc(c, func() {
			mu.Lock()
			defer mu.Unlock()
			happens.Broadcast()
		})()
		for !is[what] && c.Err() == nil {
			happens.Wait()
		}
		return c.Err()
	}
	say := func(what string) {
		is[what] = true
		happens.Broadcast()
	}
	kept := f.double.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.", Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: func(c *esdbdouble.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(c.Stream, "dl.body-") || strings.HasPrefix(c.Stream, "dl.presence-") || stream != "" && c.Stream != stream {
			return nil
		}
		if stream == "" {
			stream, from = c.Stream, sender(c)
			say("kept back")
		}
		if sender(c) == from {
			return until(c, "both are there")
		}
		say("both are there")
		return until(c, "over")
	}})
	defer kept.Lift()
	run := func(on *post, args []string) ran {
		cmd := f.command(ts, args)
		cmd.Env = append(cmd.Env, on.environ(ts)...)
		r, err := finish(cmd, nil)
		if err != nil {
			r.code = -1
		}
		return r
	}
	var racing sync.WaitGroup
	racing.Go(func() {
		won = run(one, first)
		mu.Lock()
		defer mu.Unlock()
		say("kept back") // it was not, when it appended nothing
		say("over")
	})
	mu.Lock()
	for !is["kept back"] {
		happens.Wait()
	}
	mu.Unlock()
	lost = run(other, second)
	mu.Lock()
	met := is["both are there"]
	say("both are there")
	mu.Unlock()
	racing.Wait()
	if !met {
		ts.Fatalf("the second was decided without an append in the way of the first one's:\n%s\n%s", won, lost)
	}
	f.went(ts, one)
	f.went(ts, other)
	return won, lost
}

// catchUp asks a machine for the position that it must see, until it does.
func (f *fleet) catchUp(m *post) error {
	for range staleMax {
		var view struct {
			At    events.Position
			Stale bool
		}
		if err := m.get(fmt.Sprintf("/v1/position?at_least=%d", f.reached), &view); err != nil {
			return err
		}
		switch {
		case view.At >= f.reached:
			f.reached = view.At
			return nil
		case !view.Stale:
			return fmt.Errorf("%s is at %d, was asked for %d, and does not say that it is stale", m.name, view.At, f.reached)
		}
	}
	return fmt.Errorf("%s does not come to position %d: see its log in %s", m.name, f.reached, m.dir)
}

// staleMax is how often a machine may say that it is stale before it is taken at its
// word: it says so only after [ops.ReachMax].
const staleMax = 30

// went notes how far a machine is after a command.
func (f *fleet) went(ts *testscript.TestScript, m *post) { ts.Check(f.catchUp(m)) }

// get asks a machine's server, with the machine's token.
func (m *post) get(path string, into any) error {
	req, err := http.NewRequest(http.MethodGet, m.at.HTTP+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+m.secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s %s", m.name, path, res.Status, said)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(said, into)
}

// end looks whether both machines have the same, and stops them.
func (f *fleet) end() {
	if f.double == nil {
		return
	}
	defer f.double.Stop()
	for _, m := range f.machines {
		if m.server != nil {
			defer stop(m.server)
		}
	}
	if err := f.agree(); err != nil {
		f.faults.Store(fmt.Sprintf("%s: %v", filepath.Base(f.work), err), true)
	}
}

// agree says in what the machines differ, or what is there twice.
func (f *fleet) agree() error {
	var audits []ops.Audited
	for range 2 { // what one of them did last reaches the other
		for _, m := range f.machines {
			if m.server == nil {
				return nil // it is said why
			}
			if err := f.catchUp(m); err != nil {
				return err
			}
		}
	}
	for _, m := range f.machines {
		var a ops.Audited
		if err := m.get("/v1/verify", &a); err != nil {
			return err
		}
		if !a.OK || a.Digest == "" {
			return fmt.Errorf("%s is not as it was written: %+v", m.name, a)
		}
		audits = append(audits, a)
	}
	if a, b := audits[0], audits[1]; a.Position != b.Position || a.Digest != b.Digest || a.Events != b.Events {
		return fmt.Errorf("the machines differ: %+v, %+v", a, b)
	}
	seen, all := map[string]bool{}, 0
	for _, e := range f.log.Events("dl.") {
		if strings.HasPrefix(e.Stream, "dl.body-") || strings.HasPrefix(e.Stream, "dl.presence-") {
			continue
		}
		if all++; seen[e.ID.String()] || e.Type == "event.repeated" {
			return fmt.Errorf("event %s of %s is there twice", e.ID, e.Stream)
		}
		seen[e.ID.String()] = true
	}
	if all != int(audits[0].Position) {
		return fmt.Errorf("the machines have %d events, and the cluster %d", audits[0].Position, all)
	}
	return nil
}
