//go:build faults && linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/faults"
)

// roleVar makes the test binary one of the processes of a test.
const roleVar = "DECKLOG_FAULTS_ROLE"

// roles are what a process of a test may be.
var roles = map[string]func(args []string) error{"work": work}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// often is how many rounds a test plays: all of them for `make faults`, a part
// in `make test`. DECKLOG_FAULTS_ROUNDS=N plays N hundredths.
func often(all, part int) int {
	text := os.Getenv("DECKLOG_FAULTS_ROUNDS")
	switch percent, err := strconv.Atoi(text); {
	case text == "":
		return part
	case err != nil:
		return all
	default:
		return max(1, all*percent/100)
	}
}

var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "decklog-faults-") })

// program is decklog, built to be broken and to be told the time.
var program = sync.OnceValues(func() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "decklog")
	out, err := exec.Command("go", "build", "-tags", "faults,testclock", "-o", path, "decklog/cmd/decklog").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// begun is the moment at which every test's clock stands first.
var begun = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// unbounded is a policy under which nobody is held up for having sent much.
const unbounded = `[limits]
session_rate = 0
device_rate = 0
person_rate = 0
thread_rate = 0
recipient_full = 0
`

// machine is a place of its own for processes of the program: a home, a ledger,
// a clock.
type machine struct {
	testing.TB
	dir     string
	ledger  string // the file
	clock   string
	program string
	before  []string // the program's arguments
	environ []string
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	dir := t.TempDir()
	return newMachineAt(t, filepath.Join(dir, "ledger.db"))
}

func newMachineAt(t testing.TB, ledger string) *machine {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{TB: t, dir: t.TempDir(), ledger: ledger, program: path}
	m.clock = filepath.Join(m.dir, "clock")
	m.at(begun)
	return m
}

// policy writes the policy that the first command adopts.
func (m *machine) policy(text string) {
	m.Helper()
	must(m, os.MkdirAll(filepath.Dir(m.ledger), 0o700))
	must(m, os.WriteFile(filepath.Join(filepath.Dir(m.ledger), cli.PolicyName), []byte(text), 0o600))
}

// at sets the clock. A process that looks meanwhile sees the old time or the new.
func (m *machine) at(now time.Time) {
	m.Helper()
	must(m, os.WriteFile(m.clock+".next", []byte(now.Format(time.RFC3339Nano)), 0o600))
	must(m, os.Rename(m.clock+".next", m.clock))
}

func (m *machine) with(environ ...string) *machine {
	other := *m
	other.environ = append(append([]string{}, m.environ...), environ...)
	return &other
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(m.program, append(slices.Clone(m.before), args...)...)
	cmd.Dir = m.dir
	cmd.Env = append([]string{
		"HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "USER=somebody", "XDG_STATE_HOME=" + filepath.Join(m.dir, "state"),
		"DECKLOG_LEDGER=sqlite:" + m.ledger, "DECKLOG_TEST_CLOCK=" + m.clock, faults.JournalVar + "=" + os.Getenv(faults.JournalVar),
	}, m.environ...)
	return cmd
}

// ran is what a process that ended left behind.
type ran struct {
	code           int // -1: it was killed
	stdout, stderr []byte
}

func (r ran) String() string {
	return fmt.Sprintf("exit %d\nstandard output: %.2000s\nstandard error: %.2000s", r.code, r.stdout, r.stderr)
}

// run runs the program to its end.
func (m *machine) run(stdin string, args ...string) ran {
	m.Helper()
	return finish(m, m.command(args...), strings.NewReader(stdin))
}

func finish(t testing.TB, cmd *exec.Cmd, stdin io.Reader) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.Bytes(), stderr.Bytes()}
}

// done runs a command that must succeed, and gives what it printed.
func (m *machine) done(args ...string) []byte {
	m.Helper()
	r := m.run("", args...)
	if r.code != 0 {
		m.Fatalf("decklog %s: %s", args, r)
	}
	return r.stdout
}

func (m *machine) join(sessions ...string) {
	m.Helper()
	for _, s := range sessions {
		m.done("join", "--session", s)
	}
}

// answer is what a command prints with --json, as far as these tests look at it.
type answer struct {
	Receipt struct {
		ID       string
		Position events.Position
		Digest   string
	}
	Error   struct{ Code, Message string }
	Refusal struct{ Code, Message string }
}

func (r ran) answer() (a answer) {
	_ = json.Unmarshal(r.stdout, &a)
	return a
}

// hookInput is what a harness writes to its hook at a prompt.
func hookInput(session string) string {
	return fmt.Sprintf(`{"session_id":%q,"transcript_path":"/t/%s.jsonl","cwd":"/","hook_event_name":"UserPromptSubmit","prompt":"go on"}`,
		session, session)
}

func (m *machine) hook(session string) ran {
	m.Helper()
	return m.run(hookInput(session), "hook", "claude-code")
}

// shown is a message as a hook printed it.
type shown struct {
	message events.MessageID
	attempt int
}

var frameShape = regexp.MustCompile(`<decklog-message id=\\?"([^"\\]+)\\?"[^>]* attempt=\\?"(\d+)\\?"`)

// framesIn lists the messages in what a hook printed.
func framesIn(text []byte) (all []shown) {
	for _, m := range frameShape.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(m[2]))
		all = append(all, shown{events.MessageID(m[1]), n})
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commandID is the n-th id of a test's own commands.
func commandID(random io.Reader) events.CommandID {
	var b [10]byte
	_, _ = io.ReadFull(random, b[:])
	return events.CommandAt(events.At(begun), b)
}

// patience is how long a test waits for what must come. A program that keeps
// its promises never lets it be waited out.
const patience = 60 * time.Second
