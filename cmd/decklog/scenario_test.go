package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/cli"
	"decklog/internal/memory"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/internal/token"
	"decklog/projections"
)

var update = flag.Bool("update", false, "rewrite the streams that the scenarios compare")

// scenarioStart is the moment at which every scenario begins.
var scenarioStart = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// TestScenarios runs the specification in testdata/scenarios against each
// ledger: in memory and in SQLite within this process, and through the real
// program, a process for each line: on the file, on a `decklog serve` that is
// reached over its socket and over HTTP, and on two machines that share a ledger in
// EventStoreDB, each with a serve of its own (fleet_test.go). The commands of a
// scenario:
//
//	at +10s                 it is ten seconds after the scenario's start
//	decklog ARG...          runs the program, which must exit 0 (! for not)
//	exits N decklog ARG...  the same, with this exit code
//	race decklog ARG... against decklog ARG...
//	                        runs two that decide on the same state, the second on the other machine where there are two;
//	                        the first is recorded first, and the second must exit 0 (! before it for not) and is looked at
//	save NAME PATH          keeps a value of the JSON printed last, as receipt.id
//	is PATH VALUE           that value must be this one (! for not)
//	same PATH FILE          that text must be the file's, byte for byte
//	has PATH N              that list must have this many elements
//	told                    each machine of a fleet knows what the other sees of its sessions, as it does within half a minute
//	streams                 writes every stream to the file "streams", readable (-update rewrites what it is compared with)
func TestScenarios(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			program := ""
			if mode != "memory" && mode != "sqlite" {
				if testing.Short() {
					t.Skip("starts a process for each line of each scenario")
				}
				var err error
				if program, err = toldTheTime(); err != nil {
					t.Fatal(err)
				}
			}
			var faults, told sync.Map
			t.Cleanup(func() {
				if mode == "sqlite" && !narrowed() {
					everyScenarioTold(t, &told)
				}
				faults.Range(func(what, _ any) bool { t.Error(what); return true })
				if mode == "http" && !t.Failed() && !narrowed() {
					everyOperationAnswered(t)
				}
			})
			testscript.Run(t, testscript.Params{
				Dir:                "../../testdata/scenarios",
				UpdateScripts:      *update && mode == "program",
				RequireUniqueNames: true,
				Setup: func(e *testscript.Env) error {
					clock := filepath.Join(e.WorkDir, "clock")
					e.Setenv("DECKLOG_TEST_CLOCK", clock)
					e.Setenv("DECKLOG_LEDGER", "sqlite:"+filepath.Join(e.WorkDir, "ledger", "ledger.db"))
					e.Setenv("HOME", e.WorkDir)
					e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
					e.Setenv("USER", surroundings.OSUser())
					s := &scene{mode: mode, program: program, names: map[string]string{}, work: e.WorkDir, faults: &faults, told: &told}
					e.Values[sceneKey{}] = s
					if mode == "fleet" {
						s.fleet = newFleet(s)
					}
					e.Defer(s.end)
					return os.WriteFile(clock, []byte(scenarioStart.Format(time.RFC3339Nano)), 0o600)
				},
				Condition: func(cond string) (bool, error) {
					if cond == mode {
						return true, nil
					}
					if slices.Contains(modes, cond) {
						return false, nil
					}
					return false, fmt.Errorf("there is no condition %q", cond)
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"at": cmdAt, "decklog": cmdDecklog, "exits": cmdExits, "race": cmdRace, "save": cmdSave, "is": cmdIs, "same": cmdSame, "has": cmdHas, "told": cmdTold, "streams": cmdStreams,
				},
			})
		})
	}
}

// modes are the ledgers that the scenarios run against. None is called as a condition
// that testscript knows itself, such as unix, which holds in every mode.
var modes = []string{"memory", "sqlite", "program", "socket", "http", "fleet"}

// narrowed says that only some scenarios run.
func narrowed() bool {
	f := flag.Lookup("test.run")
	return f != nil && strings.Count(f.Value.String(), "/") > 1
}

// everyScenarioTold says which scenarios ran nothing on the file, where each can: one
// that is skipped in every mode proves nothing, and nobody would see it.
func everyScenarioTold(t *testing.T, told *sync.Map) {
	files, err := filepath.Glob("../../testdata/scenarios/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if _, ran := told.Load("script-" + name); !ran {
			t.Errorf("the scenario %s ran nothing", name)
		}
	}
}

type sceneKey struct{}

// scene is what a scenario keeps between its lines.
type scene struct {
	mode    string
	program string
	ledger  *memory.Ledger
	notes   *notes.Notes
	last    []byte            // what was printed last
	names   map[string]string // of ids, for the streams
	work    string            // the scenario's folder
	server  *exec.Cmd         // serves the ledger, if somebody does
	proxy   *described        // stands before it
	fleet   *fleet            // the machines that share the ledger, if it is so
	faults  *sync.Map         // what was not as the server describes itself
	told    *sync.Map         // the folders of the scenarios that ran the program
}

// serve starts a server of the scenario's ledger, and has the program reach that.
func (s *scene) serve(ts *testscript.TestScript) {
	if s.server != nil || s.mode != "socket" && s.mode != "http" {
		return
	}
	server := exec.Command(s.program, "serve", "--listen", "127.0.0.1:0", "--json", "--quiet")
	server.Dir, server.Env = s.work, s.environ(ts)
	at, err := begin(server, filepath.Join(s.work, ".serve-log"))
	ts.Check(err)
	s.server = server
	ts.Setenv("DECKLOG_LEDGER", at.Socket)
	if s.mode == "http" {
		secret, err := token.OfMachine(filepath.Join(s.work, "ledger"))
		ts.Check(err)
		s.proxy, err = describe(at.HTTP, secret)
		ts.Check(err)
		ts.Setenv("DECKLOG_LEDGER", s.proxy.URL)
		ts.Setenv("DECKLOG_TOKEN", secret)
	}
}

// listens is where a server can be reached.
type listens struct{ HTTP, Socket string }

// begin starts a server, and waits until it says where it listens.
func begin(server *exec.Cmd, logFile string) (listens, error) {
	var at struct{ Serving listens }
	log, err := os.Create(logFile)
	if err != nil {
		return at.Serving, err
	}
	defer log.Close()
	server.Stderr = log
	out, err := server.StdoutPipe()
	if err != nil {
		return at.Serving, err
	}
	if err := server.Start(); err != nil {
		return at.Serving, err
	}
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		_ = server.Wait()
		said, _ := os.ReadFile(logFile)
		return at.Serving, fmt.Errorf("the server did not come: %w\n%s", err, said)
	}
	return at.Serving, nil
}

// stop ends a server, which must end well.
func stop(server *exec.Cmd) {
	_ = server.Process.Signal(syscall.SIGTERM)
	if err := server.Wait(); err != nil {
		panic(fmt.Sprintf("the server ended with %v", err))
	}
}

// end stops the servers.
func (s *scene) end() {
	if s.fleet != nil {
		s.fleet.end()
	}
	if s.server == nil {
		return
	}
	if s.proxy != nil {
		s.proxy.Close()
		for name := range s.proxy.seen {
			answeredEver.Store(name, true)
		}
		if s.proxy.wrong != "" {
			s.faults.Store(s.proxy.wrong, true)
		}
	}
	stop(s.server)
}

// environ is what a program of the scenario finds around it.
func (s *scene) environ(ts *testscript.TestScript) (environ []string) {
	for _, name := range []string{
		"HOME", "USER", "PATH", "DECKLOG_TEST_CLOCK", "DECKLOG_LEDGER", "DECKLOG_TOKEN", "DECKLOG_AS", "DECKLOG", "DECKLOG_SESSION",
		"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "XDG_STATE_HOME", "XDG_DATA_HOME",
	} {
		if v := ts.Getenv(name); v != "" {
			environ = append(environ, name+"="+v)
		}
	}
	return environ
}

func sceneOf(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

func cmdAt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: at +DURATION")
	}
	d, err := time.ParseDuration(strings.TrimPrefix(args[0], "+"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.Getenv("DECKLOG_TEST_CLOCK"), []byte(scenarioStart.Add(d).Format(time.RFC3339Nano)), 0o600))
}

func cmdDecklog(ts *testscript.TestScript, neg bool, args []string) {
	code := sceneOf(ts).tell(ts, args)
	if neg == (code == 0) {
		ts.Fatalf("decklog exited with %d", code)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "decklog" {
		ts.Fatalf("usage: exits N decklog ARG...")
	}
	if code := sceneOf(ts).tell(ts, args[2:]); strconv.Itoa(code) != args[0] {
		ts.Fatalf("decklog exited with %d, not %s", code, args[0])
	}
}

// tell runs the program, and lets the scenario look at what it printed.
func (s *scene) tell(ts *testscript.TestScript, args []string) int {
	code, stdout, stderr := s.run(ts, args)
	s.last = stdout
	s.told.Store(filepath.Base(s.work), true)
	_, _ = ts.Stdout().Write(stdout)
	_, _ = ts.Stderr().Write(stderr)
	return code
}

func (s *scene) run(ts *testscript.TestScript, args []string) (code int, out, errs []byte) {
	stdin := readStdin(ts)
	if s.program == "" {
		var stdout, stderr bytes.Buffer
		code = cli.Main(s.env(ts, args, strings.NewReader(stdin), &stdout, &stderr))
		return code, stdout.Bytes(), stderr.Bytes()
	}
	s.serve(ts)
	cmd := s.command(ts, args)
	if s.fleet != nil {
		on := s.fleet.of(ts, args, stdin)
		s.fleet.reach(ts, on)
		defer s.fleet.went(ts, on)
		cmd.Env = append(cmd.Env, on.environ(ts)...)
		hears(cmd, args)
	}
	r, err := finish(cmd, strings.NewReader(stdin))
	ts.Check(err)
	return r.code, r.stdout, r.stderr
}

// command is a run of the program in the scenario's folder.
func (s *scene) command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), s.environ(ts)
	return cmd
}

// readStdin is what the scenario put into the file "stdin", once.
func readStdin(ts *testscript.TestScript) string {
	file := ts.MkAbs("stdin")
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	ts.Check(os.Remove(file))
	return string(b)
}

// env is the program's, within this process.
func (s *scene) env(ts *testscript.TestScript, args []string, stdin io.Reader, stdout, stderr io.Writer) *cli.Env {
	env := newEnv()
	args = slices.Clone(args)
	for i := 1; i < len(args) && args[i-1] != "--"; i++ {
		// The scenario's folder is meant, and is not this process's.
		if slices.Contains([]string{"--body-file", "--cwd", "--policy", "--repo", "--payload"}, args[i-1]) {
			args[i] = ts.MkAbs(args[i])
		}
	}
	env.Args, env.Stdin, env.Stdout, env.Stderr = args, stdin, stdout, stderr
	env.Environ = ts.Getenv
	env.Getwd = func() (string, error) { return ts.MkAbs("."), nil }
	env.World.Environ = ts.Getenv
	env.World.Ancestors = func() []events.Process { return nil }
	env.World.Progress = nil
	env.Hook = func(env *cli.Env, harness string) int {
		run := newHook(env, harness)
		run.Age = func() time.Duration { return 0 } // this process is older than any hook run
		run.Process = func(string) (events.Process, bool) { return events.Process{}, false }
		run.Do()
		return cli.ExitDone
	}
	env.World.Now = func() events.Time {
		b, err := os.ReadFile(ts.Getenv("DECKLOG_TEST_CLOCK"))
		ts.Check(err)
		now, err := events.ParseTime(string(b))
		ts.Check(err)
		return now
	}
	if s.mode == "memory" {
		if s.ledger == nil {
			s.ledger, s.notes = memory.New(projections.Project), notes.InMemory()
		}
		folder := filepath.Dir(strings.TrimPrefix(ts.Getenv("DECKLOG_LEDGER"), "sqlite:"))
		env.LedgerFile = func(string) (string, error) { return "", nil }
		env.Folder = env.LedgerFile
		env.Open = func(_ string, env *cli.Env) (ops.Operations, cli.Beside, error) {
			beside := surroundings.Look(env, cli.Beside{Folder: folder, Notes: s.notes})
			env.World.Bells = bell.Bells{} // there is no folder for them to lie in
			return &ops.Ops{Ledger: stays{s.ledger}, World: env.World}, beside, nil
		}
	}
	return env
}

// stays is a ledger in memory that outlives the commands that close it.
type stays struct{ *memory.Ledger }

func (stays) Close() error { return nil }

// value finds a value in the JSON printed last: names and indexes with dots
// between them; -1 is the last of a list.
func (s *scene) value(ts *testscript.TestScript, path string) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(s.last))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		ts.Fatalf("what was printed is no JSON: %v\n%s", err, s.last)
	}
	for _, part := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, there := at[part]
			if !there {
				ts.Fatalf("there is no %q of %s in %s", part, path, s.last)
			}
			v = next
		case []any:
			n, err := strconv.Atoi(part)
			ts.Check(err)
			if n < 0 {
				n += len(at)
			}
			if n < 0 || n >= len(at) {
				ts.Fatalf("the list at %s has %d elements in %s", path, len(at), s.last)
			}
			v = at[n]
		default:
			ts.Fatalf("there is no %q of %s in %s", part, path, s.last)
		}
	}
	return v
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func cmdSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save NAME PATH")
	}
	s := sceneOf(ts)
	v := text(s.value(ts, args[1]))
	ts.Setenv(args[0], v)
	s.names[v] = args[0]
}

func cmdIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: is PATH VALUE")
	}
	if got := text(sceneOf(ts).value(ts, args[0])); (got == args[1]) == neg {
		ts.Fatalf("%s is %q", args[0], got)
	}
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same PATH FILE")
	}
	if got, want := text(sceneOf(ts).value(ts, args[0])), ts.ReadFile(args[1]); got != want {
		ts.Fatalf("%s is %q, not %q", args[0], got, want)
	}
}

func cmdHas(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: has PATH N")
	}
	list, is := sceneOf(ts).value(ts, args[0]).([]any)
	if !is || strconv.Itoa(len(list)) != args[1] {
		ts.Fatalf("%s has %d elements: %v", args[0], len(list), list)
	}
}

func cmdRace(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: race decklog ARG... against [!] decklog ARG..."
	between := slices.Index(args, "against")
	if neg || between < 2 || args[0] != "decklog" {
		ts.Fatalf(usage)
	}
	first, second := args[1:between], args[between+1:]
	not := len(second) > 0 && second[0] == "!"
	if not {
		second = second[1:]
	}
	if len(second) < 2 || second[0] != "decklog" {
		ts.Fatalf(usage)
	}
	s := sceneOf(ts)
	var won, lost ran
	if s.fleet != nil {
		won, lost = s.fleet.race(ts, first, second[1:])
	} else { // one after the other, as they are put on one machine
		won.code, won.stdout, won.stderr = s.run(ts, first)
		lost.code, lost.stdout, lost.stderr = s.run(ts, second[1:])
	}
	if won.code != 0 || not == (lost.code == 0) {
		ts.Fatalf("the first: %s\nthe second: %s", won, lost)
	}
	s.last = lost.stdout
	_, _ = ts.Stdout().Write(lost.stdout)
	_, _ = ts.Stderr().Write(lost.stderr)
}

// cmdTold waits for what only a fleet has to wait for.
func cmdTold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: told")
	}
	if s := sceneOf(ts); s.fleet != nil {
		ts.Check(s.fleet.tell())
	}
}

// cmdStreams writes the streams whole into the file "streams", so that a
// scenario compares all that happened. Ids that the scenario saved stand by
// their names, others by number; times are those after the scenario's start.
// Positions never show.
func cmdStreams(ts *testscript.TestScript, neg bool, args []string) {
	s := sceneOf(ts)
	code, out, errs := s.run(ts, []string{"events"})
	if code != 0 {
		ts.Fatalf("decklog events exited with %d: %s", code, errs)
	}
	var order []string
	streams := map[string][]string{}
	for line := range bytes.Lines(out) {
		var e ops.EventShown
		ts.Check(json.Unmarshal(line, &e))
		stream := s.readable(string(e.Stream))
		if streams[stream] == nil {
			order = append(order, stream)
		}
		revision := e.Revision
		if s.fleet != nil && strings.HasPrefix(stream, "device-") { // one for each machine, that stand as one
			revision = events.Revision(len(streams[stream]))
		}
		streams[stream] = append(streams[stream], fmt.Sprintf("  %d %s %s by %s %s",
			revision, s.readable(e.Time.String()), e.Type, s.readable(string(e.Actor)), s.readable(string(e.Data))))
	}
	var b strings.Builder
	for _, stream := range order {
		fmt.Fprintf(&b, "%s\n%s\n", stream, strings.Join(streams[stream], "\n"))
	}
	all := b.String()
	if s.fleet != nil {
		ts.Check(os.WriteFile(ts.MkAbs("want"), []byte(untold(ts.ReadFile("want"))), 0o600))
		all = untold(all)
	}
	ts.Check(os.WriteFile(ts.MkAbs("streams"), []byte(all), 0o600))
}

var (
	anyTime       = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)
	anyID         = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyCommitment = regexp.MustCompile(`"commitment":"[0-9a-f]{64}"`)
	anyPolicy     = regexp.MustCompile(`\{"policy":\{.*`)
	anyAge        = regexp.MustCompile(`,"age_ms":\d+`)
)

// devices are the names of the machines.
func (s *scene) devices() []string {
	if s.fleet != nil {
		return s.fleet.devices()
	}
	return []string{surroundings.Device()}
}

func (s *scene) readable(line string) string {
	line = anyPolicy.ReplaceAllString(line, `{"policy":...}`)
	line = anyCommitment.ReplaceAllString(line, `"commitment":"..."`)
	line = anyAge.ReplaceAllString(line, "")
	line = anyTime.ReplaceAllStringFunc(line, func(t string) string {
		at, err := events.ParseTime(t)
		if err != nil {
			return t
		}
		return "+" + at.Sub(events.At(scenarioStart)).String()
	})
	line = strings.ReplaceAll(line, s.work, "WORK")
	for _, device := range s.devices() {
		line = strings.ReplaceAll(line, `"`+device+`"`, `"DEVICE"`)
		line = strings.ReplaceAll(line, "device:"+device, "device:DEVICE")
		line = strings.ReplaceAll(line, "device-"+device, "device-DEVICE")
	}
	line = strings.ReplaceAll(line, "person-"+surroundings.OSUser(), "person-USER")
	line = strings.ReplaceAll(line, "@"+surroundings.OSUser(), "@USER")
	line = strings.ReplaceAll(line, `"`+surroundings.OSUser()+`"`, `"USER"`)
	line = strings.ReplaceAll(line, `"label":"USER"`, `"label":"root"`) // which a user may be called, too
	return anyID.ReplaceAllStringFunc(line, func(id string) string {
		name, known := s.names[id]
		if !known {
			name = fmt.Sprintf("id%d", len(s.names)+1)
			s.names[id] = name
		}
		return name
	})
}
