package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/process"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// harnessVariable makes this test program play a harness: under the harness's
// name it runs one program after another, each below a shell, as harnesses run
// their hooks and their tools.
const harnessVariable = "DECKLOG_TEST_HARNESS"

// act is a program that a harness runs, in an environment of which nothing else
// is known; and what came of it.
type act struct {
	Program string
	Args    []string
	Environ []string
	Dir     string
	Stdin   string

	Code           int
	Stdout, Stderr string
}

func init() {
	if os.Getenv(harnessVariable) == "" {
		return
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var a act
		if in.Decode(&a) != nil {
			os.Exit(0)
		}
		// The shell does not become the program: it has something left to do.
		shell := exec.Command("sh", append([]string{"-c", `"$0" "$@"; exit $?`, a.Program}, a.Args...)...)
		shell.Env, shell.Dir = a.Environ, a.Dir
		r, err := finish(shell, strings.NewReader(a.Stdin))
		a.Code, a.Stdout, a.Stderr = r.code, string(r.stdout), string(r.stderr)
		if err != nil {
			a.Code, a.Stderr = -1, err.Error()
		}
		if out.Encode(a) != nil {
			os.Exit(1)
		}
	}
}

// harnessed is a process with a harness's name, and what it runs.
type harnessed struct {
	*machine
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// ashore sets up a machine with the released program, which looks for harnesses
// above it, and with the machine's own clock.
func ashore(t testing.TB) *machine {
	t.Helper()
	m := aboard(t)
	program, err := released()
	m.ok(err)
	m.program, m.clock = program, ""
	return m
}

// programNamed is this test program under another name.
func (m *machine) programNamed(name string) string {
	m.Helper()
	self, err := os.Executable()
	m.ok(err)
	file := filepath.Join(m.TempDir(), name)
	if os.Link(self, file) == nil {
		return file
	}
	text, err := os.ReadFile(self)
	m.ok(err)
	m.ok(os.WriteFile(file, text, 0o700))
	return file
}

var asHarness = []string{harnessVariable + "=1", "GORACE=atexit_sleep_ms=0"}

// harness starts a process with this name.
func (m *machine) harness(name string) *harnessed {
	m.Helper()
	h := &harnessed{machine: m, cmd: exec.Command(m.programNamed(name))}
	h.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, asHarness...)
	h.cmd.Stderr = os.Stderr
	in, err := h.cmd.StdinPipe()
	m.ok(err)
	out, err := h.cmd.StdoutPipe()
	m.ok(err)
	h.in, h.out = json.NewEncoder(in), json.NewDecoder(out)
	m.ok(h.cmd.Start())
	m.Cleanup(func() {
		_ = in.Close()
		_ = h.cmd.Wait()
	})
	return h
}

// kill ends it as nobody expects.
func (h *harnessed) kill() {
	h.Helper()
	h.ok(h.cmd.Process.Kill())
	_ = h.cmd.Wait()
}

// does lets the harness run decklog, with nothing in its environment but this
// machine's and more.
func (h *harnessed) does(stdin string, more []string, args ...string) ran {
	h.Helper()
	cmd := h.command(args...)
	return h.runs(act{Program: h.program, Args: args, Environ: append(cmd.Env, more...), Dir: cmd.Dir, Stdin: stdin})
}

func (h *harnessed) runs(a act) ran {
	h.Helper()
	h.ok(h.in.Encode(a))
	var done act
	h.ok(h.out.Decode(&done))
	return ran{done.Code, []byte(done.Stdout), []byte(done.Stderr)}
}

// hooks lets the harness run its hook, which must end well, and gives the
// context that it brings.
func (h *harnessed) hooks(harness, event, session string, more map[string]any) string {
	h.Helper()
	r := h.does(stdinOf(event, session, more), nil, "hook", harness)
	if r.code != 0 || len(r.stderr) > 0 {
		h.Fatalf("hook %s %s: %s", harness, event, r)
	}
	return contextOf(h, event, r.stdout)
}

// author sends from inside the harness, and gives who the sender was taken for.
func (h *harnessed) author(more []string, args ...string) string {
	h.Helper()
	r := h.does("", more, append([]string{"send", "--json"}, args...)...)
	if r.code != 0 {
		h.Fatalf("send %q: %s", args, r)
	}
	return h.sender(read[receipt](h, r.stdout).Receipt.ID)
}

// sender is whose a message is.
func (m *machine) sender(id string) string {
	m.Helper()
	return string(m.message(id).From)
}

// peer is a session as `decklog peers` shows it.
func (m *machine) peer(session string) projections.Peer {
	m.Helper()
	view := told[projections.PeersView](m, "peers", "--session", session)
	if len(view.Peers) != 1 {
		m.Fatalf("peers: %+v", view)
	}
	return view.Peers[0]
}

// started is when a process began, as the kernel tells it.
func started(t testing.TB, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

// joined is the last event by which a session joined.
func (m *machine) joined(session string) (joined events.SessionJoined) {
	m.Helper()
	for _, e := range m.events("--type", string(events.TypeSessionJoined)) {
		if j := read[events.SessionJoined](m, e.Data); string(j.Session) == session {
			joined = j
		}
	}
	return joined
}

// programOf is what each harness's process is called.
var programOf = map[string]string{"claude-code": "claude", "codex": "codex"}

func TestAHookRecordsTheHarnessAboveItAndItsDeathShows(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	for harness, name := range programOf {
		for _, event := range []string{"SessionStart", "UserPromptSubmit"} { // the second when the first was missed
			t.Run(harness+"/"+event, func(t *testing.T) {
				m := ashore(t)
				h := m.harness(name)
				if text := h.hooks(harness, event, "taker-02", nil); !strings.Contains(text, "decklog-instruction") {
					t.Errorf("it is told %q", text)
				}
				want := events.Process{PID: h.cmd.Process.Pid, Start: started(t, h.cmd.Process.Pid), Boot: strings.TrimSpace(string(boot))}
				joined := m.joined("taker-02")
				if joined.Process == nil || *joined.Process != want || joined.Harness != harness || joined.Device != surroundings.Device() {
					t.Fatalf("joined as %+v on %+v, want %+v", joined, joined.Process, want)
				}
				if !process.Alive(want) {
					t.Fatal("the harness does not run")
				}
				if p := m.peer("taker-02"); !p.Live || !strings.HasPrefix(p.Evidence, "its process runs; ") {
					t.Errorf("while it runs it is shown as %+v", p)
				}

				h.kill()
				if p := m.peer("taker-02"); p.Live || p.Busy || p.Evidence != "its process is gone" {
					t.Errorf("after its death it is shown as %+v", p)
				}
				if text := m.done("peers"); !bytes.Contains(text, []byte(" gone ")) {
					t.Errorf("peers prints\n%s", text)
				}
				m.join("sender-01")
				sent := told[struct {
					Receipt struct{ ID, Arrives string }
				}](m, "send", "--as", "sender-01", "--to", "taker-02", "--", "Are you there?").Receipt
				if sent.Arrives != string(events.ArrivesOnlyIfResumed) {
					t.Errorf("a message to it arrives %s", sent.Arrives)
				}
				// Another process resumes it, and it gets its mail.
				if text := m.harness(name).hooks(harness, "SessionStart", "taker-02", map[string]any{"source": "resume"}); !strings.Contains(text, sent.ID) {
					t.Errorf("resumed, it is told %q", text)
				}
				if now := m.joined("taker-02").Process; now == nil || *now == want {
					t.Errorf("resumed, its process is %+v", now)
				}
				m.verified()
			})
		}
	}
}

func TestInsideAHarnessItsProcessTellsWhoActs(t *testing.T) {
	for harness, name := range programOf {
		t.Run(harness, func(t *testing.T) {
			m := ashore(t)
			m.join("sender-01")
			m.join("other-03")
			h := m.harness(name)
			// Before its session is known nobody is inside of it.
			if who := h.author(nil, "--to", "sender-01", "--", "Who am I?"); who != "@"+surroundings.OSUser() {
				t.Errorf("before the start it is %s that sends", who)
			}
			h.hooks(harness, "SessionStart", "taker-02", nil)
			if who := h.author(nil, "--to", "sender-01", "--", "Who am I now?"); who != "taker-02" {
				t.Errorf("it is %s that sends", who)
			}
			if who := h.author(nil, "--as", "taker-02", "--to", "sender-01", "--", "Named as myself"); who != "taker-02" {
				t.Errorf("named, it is %s that sends", who)
			}
			for _, args := range [][]string{{"--as", "other-03"}, {"--as", "other-"}, {"--as", "@" + surroundings.OSUser()}, {"--as", "nobody-99"}} {
				r := h.does("", nil, append(append([]string{"send", "--json"}, args...), "--to", "sender-01", "--", "As somebody else")...)
				if r.code != cli.ExitRefused || read[refused](t, r.stdout).Refusal.Code != "no_caller" {
					t.Errorf("%q: %s", args, r)
				}
			}
			r := h.does("", []string{"DECKLOG_AS=other-03"}, "send", "--json", "--to", "sender-01", "--", "As somebody else")
			if r.code != cli.ExitRefused || read[refused](t, r.stdout).Refusal.Code != "no_caller" {
				t.Errorf("by DECKLOG_AS: %s", r)
			}
			// Outside of it, this machine is taken at its word.
			if who := m.sender(m.send("other-03", "sender-01", "From elsewhere")); who != "other-03" {
				t.Errorf("elsewhere it is %s that sends", who)
			}
			m.verified()
		})
	}
}

func TestAfterAClearTheOldSessionsVariableIsSilentAndTheSeatPassesOn(t *testing.T) {
	m := ashore(t)
	m.join("sender-01")
	h := m.harness("claude")
	stale := []string{"CLAUDE_CODE_SESSION_ID=taker-02"} // as Claude Code leaves it in its children
	h.hooks("claude-code", "SessionStart", "taker-02", nil)
	if r := h.does("", stale, "join", "--seat", "smith"); r.code != 0 {
		t.Fatal(r)
	}
	if joined := m.joined("taker-02"); joined.Process == nil || joined.Process.PID != h.cmd.Process.Pid {
		t.Errorf("taking a seat changed its process to %+v", joined.Process)
	}
	own := m.send("sender-01", "taker-02", "To the session itself")
	h.hooks("claude-code", "SessionEnd", "taker-02", map[string]any{"reason": "clear"})
	if text := h.hooks("claude-code", "SessionStart", "next-03", map[string]any{"source": "clear"}); strings.Contains(text, own) {
		t.Errorf("the mail of the old session came to the new one: %q", text)
	}
	if p := m.peer("taker-02"); p.Live || p.Evidence != "left: cleared" {
		t.Errorf("the old one is shown as %+v", p)
	}
	if p := m.peer("next-03"); !p.Live || p.Seat != "smith" {
		t.Errorf("the new one is shown as %+v", p)
	}
	if who := h.author(stale, "--to", "sender-01", "--", "Who am I?"); who != "next-03" {
		t.Errorf("inside, it is %s that sends", who)
	}
	if who := h.author(stale, "--as", "@smith", "--to", "sender-01", "--", "As my seat"); who != "next-03" {
		t.Errorf("inside, as its seat, it is %s that sends", who)
	}
	seated := m.send("sender-01", "@smith", "Whoever sits there")
	if text := h.hooks("claude-code", "PostToolUse", "next-03", nil); !strings.Contains(text, seated) || strings.Contains(text, own) {
		t.Errorf("the new one is told %q", text)
	}

	// Outside of every harness too, a variable that names an ended session says nothing.
	sent := told[receipt](m.with(stale...), "send", "--to", "sender-01", "--", "Nobody's").Receipt.ID
	if who := m.sender(sent); who != "@"+surroundings.OSUser() {
		t.Errorf("outside, it is %s that sends", who)
	}
	m.verified()
}

func TestOfOneHarnessInsideAnotherTheInnerOneActs(t *testing.T) {
	m := ashore(t)
	m.join("sender-01")
	outer := m.harness("claude")
	outer.hooks("claude-code", "SessionStart", "outer-01", nil)
	environ := append(m.command().Env, "CLAUDE_CODE_SESSION_ID=outer-01")
	inside := act{
		Program: m.program, Args: []string{"hook", "codex"}, Environ: environ, Dir: m.dir, Stdin: stdinOf("SessionStart", "inner-02", nil),
	}
	sends := act{Program: m.program, Args: []string{"send", "--json", "--to", "sender-01", "--", "Who am I?"}, Environ: append(environ, "CODEX_THREAD_ID=inner-02"), Dir: m.dir}
	var script bytes.Buffer
	for _, a := range []act{inside, sends} {
		m.ok(json.NewEncoder(&script).Encode(a))
	}
	r := outer.runs(act{Program: m.programNamed("codex"), Environ: append(environ, asHarness...), Dir: m.dir, Stdin: script.String()})
	if r.code != 0 {
		t.Fatal(r)
	}
	out := json.NewDecoder(bytes.NewReader(r.stdout))
	var hooked, sent act
	m.ok(out.Decode(&hooked))
	m.ok(out.Decode(&sent))
	if hooked.Code != 0 || hooked.Stderr != "" || sent.Code != 0 {
		t.Fatalf("inside: %+v, %+v", hooked, sent)
	}
	if p := m.joined("inner-02").Process; p == nil || p.PID == outer.cmd.Process.Pid {
		t.Errorf("the inner session's process is %+v, the outer's %d", p, outer.cmd.Process.Pid)
	}
	if who := m.sender(read[receipt](t, []byte(sent.Stdout)).Receipt.ID); who != "inner-02" {
		t.Errorf("inside the inner one it is %s that sends", who)
	}
	if p := m.peer("outer-01"); !p.Live {
		t.Errorf("the outer one is shown as %+v", p)
	}
	if p := m.peer("inner-02"); p.Live {
		t.Errorf("the inner one ended, and is shown as %+v", p)
	}
}

// F2: the process is killed when all that it printed was read, and before it
// could confirm any of it.
func TestF2AHookThatIsKilledBetweenPrintAndConfirmPrintsTheSameAgain(t *testing.T) {
	for _, harness := range hooked {
		t.Run(harness, func(t *testing.T) {
			m := aboard(t)
			m.join("sender-01")
			m.hook(harness, "SessionStart", "taker-02")
			id := m.send("sender-01", "taker-02", "Are you there?", "--intent", "request")
			ledger, err := sqlite.Open(m.file(), projections.Project)
			m.ok(err)
			defer ledger.Close()
			end := func() (end events.Position) {
				m.ok(ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err }))
				return end
			}
			before := end()

			// The pipe is full, so the hook stands still between its lease and its print.
			read, write, err := os.Pipe()
			m.ok(err)
			defer read.Close()
			full, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096)
			m.ok(err)
			_, err = write.Write(make([]byte, full))
			m.ok(err)
			cmd := m.command("hook", harness)
			cmd.Stdin, cmd.Stdout = strings.NewReader(stdinOf("PostToolUse", "taker-02", nil)), write
			m.ok(cmd.Start())
			defer cmd.Process.Kill()
			m.ok(write.Close())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			m.ok(ledger.Wait(ctx, before))
			leased := end()
			if got := m.message(id); got.State != events.StateLeased {
				t.Fatalf("it is %s", got.State)
			}

			// Now the ledger is held, so it stands still between its print and its confirm.
			held, printed := make(chan error), make(chan struct{})
			go func() {
				held <- ledger.Update(func(events.Tx) error {
					held <- nil
					<-printed
					return errors.New("nothing to write")
				})
			}()
			m.ok(<-held)
			_, err = io.ReadFull(read, make([]byte, full))
			m.ok(err)
			line, err := bufio.NewReader(read).ReadBytes('\n')
			m.ok(err)
			if text := contextOf(t, "PostToolUse", line); !strings.Contains(text, id) || !strings.Contains(text, `attempt="1"`) {
				t.Errorf("it printed %q", text)
			}
			m.ok(cmd.Process.Kill())
			_ = cmd.Wait()
			close(printed)
			<-held
			if now := end(); now != leased {
				t.Fatalf("%d events came after the lease", now-leased)
			}

			if out := m.hook(harness, "PostToolUse", "taker-02"); len(out) > 0 {
				t.Errorf("while the lease runs: %s", out)
			}
			m.at(scenarioStart.Add(10 * time.Second))
			again := contextOf(t, "UserPromptSubmit", m.hook(harness, "UserPromptSubmit", "taker-02"))
			if !strings.Contains(again, id) || !strings.Contains(again, `attempt="2"`) || !strings.Contains(again, "This is a repeat: ") {
				t.Errorf("it comes again as %q", again)
			}
			if got := m.message(id); got.State != events.StateDelivered || len(got.Deliveries) != 2 || got.Deliveries[0].Confirmed != nil {
				t.Errorf("it is %s after %+v", got.State, got.Deliveries)
			}
			m.verified()
		})
	}
}
