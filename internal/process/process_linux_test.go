package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
)

// The tests run real processes: this test program under other names. A role in
// the environment says what it plays there.
const roleVariable = "DECKLOG_PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Setenv("GORACE", "atexit_sleep_ms=0") // children under the race detector else linger for a second
		os.Exit(m.Run())
	case "harness": // runs a shell that runs the child, as harnesses do
		shell := exec.Command("sh", "-c", `"$CHILD"; true`)
		shell.Env = append(os.Environ(), roleVariable+"=child")
		shell.Stdout, shell.Stderr = os.Stdout, os.Stderr
		if err := shell.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "child":
		found, ok := Harness(os.Getenv("HARNESS"))
		json.NewEncoder(os.Stdout).Encode(seen{
			Self: Self(), Ancestors: Ancestors(), Harness: found, Found: ok,
			Age: Age(), Running: time.Since(began),
		})
	case "waiter": // lives until its standard input ends
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
	}
}

// seen is what a child saw of the world.
type seen struct {
	Self      events.Process
	Ancestors []events.Process
	Harness   events.Process
	Found     bool
	Age       time.Duration
	Running   time.Duration
}

// program is this test program under another name.
func program(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.Link(self, file); err == nil {
		return file
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// underHarness runs a child below a shell below the command, and gives the
// command's pid and what the child saw.
func underHarness(t *testing.T, harness string, cmd *exec.Cmd) (int, seen) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), cmd.Env...)
	cmd.Env = append(cmd.Env, roleVariable+"=harness", "HARNESS="+harness, "CHILD="+self)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return cmd.Process.Pid, s
}

func TestTheHarnessIsFoundAboveTheShellThatRunsUs(t *testing.T) {
	for _, c := range []struct {
		harness, file string
		args          []string
	}{
		{"claude-code", "claude", nil},
		{"claude-code", "claude.exe", nil},
		{"claude-code", "node", []string{"/opt/lib/claude.js"}},
		{"codex", "codex", []string{"exec"}},
		{"gemini", "node", []string{"--no-warnings=DEP0040", "/opt/bin/gemini", "-p", "x"}},
		{"gemini", "node", []string{"-r", "./hook.js", "/opt/bundle/gemini.mjs"}},
		{"opencode", ".opencode", nil},
		{"opencode", "bun", []string{"run", "/opt/opencode.cjs"}},
		{"another-harness", "another-harness", nil},
	} {
		t.Run(c.harness+" as "+c.file, func(t *testing.T) {
			pid, s := underHarness(t, c.harness, exec.Command(program(t, c.file), c.args...))
			if !s.Found || s.Harness.PID != pid {
				t.Fatalf("found %v %+v, want pid %d", s.Found, s.Harness, pid)
			}
			// The child, its shell, the harness, this test.
			if len(s.Ancestors) < 3 || s.Ancestors[1] != s.Harness || s.Ancestors[2] != Self() {
				t.Errorf("ancestors %+v, want the harness %+v second and this test %+v third", s.Ancestors, s.Harness, Self())
			}
			if Alive(s.Harness) || Alive(s.Self) {
				t.Error("what has ended counts as running")
			}
		})
	}
}

func TestWhatIsNoHarnessIsNotTakenForOne(t *testing.T) {
	for _, c := range []struct {
		what, harness, file string
		args                []string
	}{
		{"another program", "claude-code", "claudette", nil},
		{"an argument that is not the script", "gemini", "node", []string{"server.js", "gemini"}},
		{"another harness", "codex", "gemini", nil},
		{"no name", "", "claude", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			pid, s := underHarness(t, c.harness, exec.Command(program(t, c.file), c.args...))
			if s.Found && s.Harness.PID == pid {
				t.Errorf("%s was taken for %s", c.file, c.harness)
			}
		})
	}
}

func TestASandboxThatIsTheHarnesssOwnFileIsPassedOver(t *testing.T) {
	sandbox := exec.Command(program(t, "codex"))
	sandbox.Args[0] = "codex-linux-sandbox" // as Codex starts it
	if pid, s := underHarness(t, "codex", sandbox); s.Found && s.Harness.PID == pid {
		t.Error("the sandbox was taken for the harness")
	}
}

func TestAHarnessUnderAnotherNameIsFoundByThePidThatItTells(t *testing.T) {
	// The harness learns its own pid only when it runs, so a shell that becomes it tells.
	cmd := exec.Command("sh", "-c", `CLAUDE_PID=$$ exec "$0"`, program(t, "2.1.332"))
	pid, s := underHarness(t, "claude-code", cmd)
	if !s.Found || s.Harness.PID != pid {
		t.Errorf("found %v %+v, want pid %d", s.Found, s.Harness, pid)
	}
}

func TestAVariableThatNamesNoAncestorIsSilent(t *testing.T) {
	stranger := startWaiter(t)
	cmd := exec.Command(program(t, "some-program"))
	cmd.Env = []string{fmt.Sprintf("CLAUDE_PID=%d", stranger.Process.Pid)}
	if _, s := underHarness(t, "claude-code", cmd); s.Found && s.Harness.PID == stranger.Process.Pid {
		t.Error("a process that is no ancestor was found")
	}
}

func TestTheNearestOfTwoHarnessesIsFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outer, inner := program(t, "claude"), program(t, "claude")
	// The outer runs a shell that runs the inner, and hands the outer's pid down.
	script := filepath.Join(t.TempDir(), "inner")
	text := fmt.Sprintf("#!/bin/sh\n%s=harness CHILD='%s' CLAUDE_PID=$OUTER '%s'\n", roleVariable, self, inner)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `OUTER=$$ exec "$0"`, outer)
	cmd.Env = append(os.Environ(), roleVariable+"=harness", "HARNESS=claude-code", "CHILD="+script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if !s.Found || s.Harness.PID == cmd.Process.Pid || s.Harness != s.Ancestors[1] {
		t.Errorf("found %+v, want the second of %+v; the outer is %d", s.Harness, s.Ancestors, cmd.Process.Pid)
	}
}

func startWaiter(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, "waiter"))
	cmd.Env = append(os.Environ(), roleVariable+"=waiter")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestAProcessIsAliveUntilItEndsAndNotAfterThoughNobodyAskedHow(t *testing.T) {
	cmd := startWaiter(t)
	s, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := s.process()
	if !Alive(p) {
		t.Fatalf("%+v runs, and counts as gone", p)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Wait for its end, but leave it as it is: a zombie.
	for {
		err = unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if s, err := readStat(p.PID); err != nil || s.state != 'Z' {
		t.Fatalf("it is in state %c, %v; want a zombie", s.state, err)
	}
	if Alive(p) {
		t.Error("a zombie counts as running")
	}
	cmd.Wait()
	if Alive(p) {
		t.Error("a process that is gone counts as running")
	}
}

func TestAnotherProcessWithThePidIsNotThisOne(t *testing.T) {
	self := Self()
	if self.PID != os.Getpid() || self.Start == 0 || !events.IsUUID(self.Boot) {
		t.Fatalf("Self() = %+v", self)
	}
	if !Alive(self) {
		t.Error("this process counts as gone")
	}
	for _, p := range []events.Process{
		{},
		{PID: self.PID, Start: self.Start + 1, Boot: self.Boot},
		{PID: self.PID, Start: self.Start, Boot: "00000000-0000-0000-0000-000000000000"},
		{PID: self.PID, Start: self.Start},
		{PID: -self.PID, Start: self.Start, Boot: self.Boot},
		{PID: 1 << 30, Start: self.Start, Boot: self.Boot},
	} {
		if Alive(p) {
			t.Errorf("%+v counts as running", p)
		}
	}
}

func TestAncestorsLeadUpToTheFirstProcess(t *testing.T) {
	all := Ancestors()
	if len(all) == 0 || all[0].PID != os.Getppid() {
		t.Fatalf("ancestors %+v, want the parent %d first", all, os.Getppid())
	}
	if slices.Contains(all, Self()) {
		t.Error("this process is its own ancestor")
	}
	for _, p := range all {
		if !Alive(p) {
			t.Errorf("ancestor %+v counts as gone", p)
		}
	}
	if last := all[len(all)-1]; last.PID != 1 && len(all) < levelsMax {
		if s, err := readStat(last.PID); err != nil || s.parent != 0 {
			t.Errorf("the last ancestor is %+v, below %d", last, s.parent)
		}
	}
}

func TestAgeIsTheTimeSinceTheProcessWasCreated(t *testing.T) {
	before := time.Now()
	_, s := underHarness(t, "claude-code", exec.Command(program(t, "claude")))
	most, least := time.Since(before)+tick, s.Running-tick
	if s.Age < least || s.Age > most {
		t.Errorf("a child's age was %v, want %v to %v", s.Age, least, most)
	}
	if first, second := Age(), Age(); first < time.Since(began)-tick || second < first {
		t.Errorf("this process's age was %v, then %v, after %v", first, second, time.Since(began))
	}
}

func TestParseStatReadsAnyNameAndRefusesWhatIsCut(t *testing.T) {
	const rest = " S 4700 4711 4700 34816 4711 4194304 101 0 0 0 0 0 0 0 20 0 1 0 228374 3133440 390"
	for _, comm := range []string{"claude", "", "a b", "a) R 1 (b", ")", "((", "x\ny"} {
		got, err := parseStat([]byte("4711 (" + comm + ")" + rest + "\n"))
		want := stat{pid: 4711, parent: 4700, start: 228374, state: 'S', comm: comm}
		if err != nil || got != want {
			t.Errorf("of %q: %+v, %v; want %+v", comm, got, err, want)
		}
	}
	for _, text := range []string{"", "4711", "4711 (claude", "4711 )(", "4711 (claude)", "4711 (claude) S 1", "x (claude)" + rest, "4711 (claude)" + strings.Replace(rest, "4700", "y", 1)} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("of %q: %+v, want an error", text, got)
		}
	}
}

func TestTheNameOfAProgramIsTakenFromItsFile(t *testing.T) {
	for file, want := range map[string]string{
		"claude":               "claude",
		"/usr/bin/claude":      "claude",
		"/opt/bin/claude.exe":  "claude",
		"/opt/bin/.opencode":   "opencode",
		"/opt/codex (deleted)": "codex",
		"/home/ana/.local/share/claude/versions/2.1.332": "claude",
		"cli.js": "cli",
		"":       "",
	} {
		if got := nameOf(file); got != want {
			t.Errorf("nameOf(%q) = %q, want %q", file, got, want)
		}
	}
}
