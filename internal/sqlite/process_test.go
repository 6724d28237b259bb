package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"decklog/events"
)

// roleVar makes the test binary one of the processes of a test.
const roleVar = "DECKLOG_TEST_ROLE"

// roles are what a process of a test may be. What it has to say it prints.
var roles = map[string]func(args []string) error{
	// append PATH NAME COUNT: waits for the end of its input, opens the ledger,
	// appends to its own stream and to a shared one, and prints each event's id
	// once it is durable.
	"append": func(args []string) error {
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		fmt.Println("ready")
		if _, err := io.ReadAll(os.Stdin); err != nil {
			return err
		}
		l, err := Open(args[0], none)
		if err != nil {
			return err
		}
		for n := range count {
			id := fmt.Sprint(args[1], "-", n)
			if err := appendNext(l, "shared", id); err != nil {
				return err
			}
			fmt.Println(id)
		}
		return l.Close()
	},
	// grep PATH TEXT: counts the text in the ledger's files. Another process
	// does it because the one that holds the ledger must not read them.
	"grep": func(args []string) error {
		files, err := filepath.Glob(args[0] + "*")
		if err != nil {
			return err
		}
		found := 0
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found += bytes.Count(content, []byte(args[1]))
		}
		fmt.Println(found)
		return nil
	},
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func process(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector waits a second at the end of each process, unless told not to.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func grep(t testing.TB, path, text string) int {
	t.Helper()
	out, err := process("grep", path, text).Output()
	must(t, err)
	found, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	return found
}

func TestManyProcessesMakeAndUseAnAbsentLedgerAtOnce(t *testing.T) {
	const processes, each = 16, 10
	path := filepath.Join(t.TempDir(), "new", "ledger.db")
	start, barrier, err := os.Pipe()
	must(t, err)
	defer start.Close()
	var running []*exec.Cmd
	for n := range processes {
		cmd := process("append", path, fmt.Sprint(n), fmt.Sprint(each))
		cmd.Stdin = start
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatal(line, err)
		}
		running = append(running, cmd)
	}
	barrier.Close()
	for n, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", n, err)
		}
	}
	l := opened(t, path, testOptions())
	if end, err := l.end(); end != processes*each || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
	if bad := firstBad(t, l); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
}

func TestAKilledWriterLosesNothingThatItAcknowledged(t *testing.T) {
	const rounds = 20
	path := filepath.Join(t.TempDir(), "ledger.db")
	acknowledged := 0
	for round := range rounds {
		cmd := process("append", path, fmt.Sprint("round", round), "1000000")
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		var ids []events.EventID
		for lines.Scan() {
			if id := lines.Text(); id != "ready" {
				ids = append(ids, events.EventID(id))
			}
			if len(ids) == 1+7*round {
				must(t, cmd.Process.Kill())
			}
		}
		cmd.Wait()

		l := opened(t, path, testOptions())
		must(t, l.View(func(r events.Reader) error {
			for _, id := range ids {
				if _, found, err := r.Event(id); !found || err != nil {
					t.Errorf("round %d: event %s was acknowledged and is lost, %v", round, id, err)
				}
			}
			return nil
		}))
		if bad := firstBad(t, l); bad != 0 {
			t.Errorf("round %d: event %d is bad", round, bad)
		}
		must(t, l.Close())
		acknowledged += len(ids)
	}
	t.Logf("%d events were acknowledged", acknowledged)
}

func TestACommitOfAnotherProcessWakesAWaiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := testOptions()
	o.lookEvery = time.Hour // so that only the pulse can do it
	l := opened(t, path, o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	woken := make(chan error)
	go func() { woken <- l.Wait(ctx, 2) }()
	must(t, process("append", path, "other", "3").Run())
	must(t, <-woken)
}

func TestAWaiterWithoutAPulseLooksForItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.Mkdir(strings.TrimSuffix(path, ".db")+".pulse", 0o700)) // nobody can touch or watch it
	o := testOptions()
	o.lookEvery = 5 * time.Millisecond
	l := opened(t, path, o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	woken := make(chan error)
	go func() { woken <- l.Wait(ctx, 0) }()
	must(t, process("append", path, "other", "1").Run())
	must(t, <-woken)
}

func TestACommitOfTheSameProcessNeedsNoPulse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.Mkdir(strings.TrimSuffix(path, ".db")+".pulse", 0o700))
	o := testOptions()
	o.lookEvery = time.Hour
	l := opened(t, path, o)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	woken := make(chan error)
	go func() { woken <- l.Wait(ctx, 0) }()
	must(t, appendTo(l, note("a", -1, "1")))
	must(t, <-woken)
}
