package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// modelName is the model that a harness is told to use. The stub answers to any.
const modelName = "some-model"

// harness is a program under test, and how it is driven.
type harness struct {
	name         string // as decklog calls it
	label        string // with the way in which it is driven
	npm, version string
	command      string // in the package
	wire         wire
	occasions    occasions
	prepare      func(*stage) error // writes what its user would have, without decklog
	captures     func(*stage) error // adds what keeps the inputs of its hooks
	open         func(s *stage, resume string) (conversation, error)
	shell        func(command string) reply
	delegate     func(prompt string) []reply
	report       func(text string) reply // ends a subagent; nil: by a text
	mcp          func(tool string) reply // a call of one of decklog's tools
	// oneTurn says that each turn is a process of its own, which begins and ends
	// the session.
	oneTurn bool
	// unapproved says that the hooks run without their user's approval, as
	// scripts have it.
	unapproved bool
	wakes      func(s *stage) (conversation, error) // opens a session that can be woken
	forks      func(s *stage, session string) (conversation, error)
	seen       func(s *stage, session string) (map[string]int, error)
}

// occasions are a harness's names for the events at which mail is delivered; one
// without a name takes none.
type occasions struct {
	start, prompt string
	tool          []string
	stop          string
	again         bool // what holds a stop is a prompt like its user's
	untold        bool // no event says that the context was compacted
	// unproven are the events whose texts stand in the transcript as a tool's or
	// the user's own: they are never told as read.
	unproven []string
}

// conversation is a running harness with one session at a time.
type conversation interface {
	id() string
	say(text string) error // and waits for the end of the turn
	clear() error
	compact() error
	another() error // goes on with a new session beside this one, in the same process
	turnTo(session string) error
	sandboxed() error // and with one whose tools run in the harness's own sandbox
	end() error
}

// stage is what one harness is run on: a folder with a home, a work directory
// and a ledger of its own.
type stage struct {
	*harness
	ctx     context.Context
	folder  string
	home    string
	work    string
	decklog string // the program under test
	program string // the harness's
	capture string // where the inputs of the hooks are kept; empty: nowhere
	model   *model
	exposed bool // nothing but their settings keeps the programs from the network
	logs    int
	before  map[string]string // the files of the home before decklog was installed
	after   map[string]string // and after
}

func newStage(ctx context.Context, h *harness, folder, decklog, program string, capture bool) (*stage, error) {
	s := &stage{
		harness: h, ctx: ctx, folder: folder, home: filepath.Join(folder, "home"), work: filepath.Join(folder, "work"),
		decklog: decklog, program: program,
	}
	for _, dir := range []string{s.home, s.work, s.bin(), filepath.Join(folder, "tmp"), filepath.Join(folder, "log"), filepath.Join(folder, "ledger")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if capture {
		s.capture = filepath.Join(folder, "capture")
		if err := os.MkdirAll(s.capture, 0o700); err != nil {
			return nil, err
		}
	}
	// Beside it lie the one that hooks run first and the one that speaks MCP; on
	// the harness's path all do.
	for _, name := range []string{"decklog", "decklog-hook", "decklogd"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(decklog), name), filepath.Join(s.bin(), name)); err != nil {
			return nil, err
		}
	}
	// A login shell, which Codex runs hooks and tools in, may set its own PATH.
	profile := fmt.Sprintf("PATH=%s\n", s.path())
	if err := os.WriteFile(filepath.Join(s.home, ".profile"), []byte(profile), 0o600); err != nil {
		return nil, err
	}
	if git := exec.CommandContext(ctx, "git", "init", "-q", "-b", "main", s.work); git.Run() != nil {
		return nil, fmt.Errorf("git init failed in the work directory")
	}
	var err error
	if s.model, err = newModel(h.wire, filepath.Join(folder, "model")); err != nil {
		return nil, err
	}
	return s, s.setUp()
}

func (s *stage) bin() string { return filepath.Join(s.folder, "bin") }
func (s *stage) path() string {
	return s.bin() + ":/usr/local/bin:/usr/bin:/bin:" + filepath.Dir(s.program)
}

// log names a file for what a run prints, without its ending.
func (s *stage) log(name string) string {
	s.logs++
	return filepath.Join(s.folder, "log", fmt.Sprintf("%02d-%s", s.logs, name))
}

// environ is what a harness is given, and nothing of what this was started with.
func (s *stage) environ(more ...string) []string {
	if s.exposed {
		const nobody = "http://127.0.0.1:9"
		more = append(more, "HTTP_PROXY="+nobody, "HTTPS_PROXY="+nobody, "http_proxy="+nobody, "https_proxy="+nobody, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	}
	return append([]string{
		"PATH=" + s.path(), "HOME=" + s.home, "TMPDIR=" + filepath.Join(s.folder, "tmp"), "SHELL=/bin/sh", "LANG=C.UTF-8", "TERM=dumb",
		"DECKLOG_LEDGER=sqlite:" + filepath.Join(s.folder, "ledger", "ledger.db"),
	}, more...)
}

// run runs decklog as the tester, who is in no session.
func (s *stage) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.decklog, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.work, s.environ(), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("decklog %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.Bytes(), nil
}

// join registers a session by hand, which writes to the harness's.
func (s *stage) join(session string) error {
	_, err := s.run("join", "--session", session)
	return err
}

// send sends a message from a session to another.
func (s *stage) send(from, to, intent, body string) (id string, err error) {
	b, err := s.run("send", "--json", "--as", from, "--to", to, "--intent", intent, "--", body)
	if err != nil {
		return "", err
	}
	var answer struct{ Receipt struct{ ID string } }
	err = json.Unmarshal(b, &answer)
	return answer.Receipt.ID, err
}

// event is one of the ledger's, as far as the tester looks at it.
type event struct {
	Position int64
	Type     string
	Data     struct {
		Session, Harness, Source, Reason, Hook, Lease, Mailbox, Form, Message string
		Transcript                                                            string
		Offset                                                                int64
		Process                                                               *struct{ PID int }
		Items                                                                 []struct{ Message string }
	}
}

func (s *stage) events() (all []event, err error) {
	b, err := s.run("events")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// busy says whether decklog has a session as in a turn.
func (s *stage) busy(session string) bool {
	b, err := s.run("peers", "--json", "--session", session)
	if err != nil {
		return false
	}
	var view struct{ Peers []struct{ Busy bool } }
	_ = json.Unmarshal(b, &view)
	return len(view.Peers) == 1 && view.Peers[0].Busy
}

// happened are the events of a type about a session, oldest first.
func (s *stage) happened(kind, session string) ([]event, error) {
	all, err := s.events()
	return slices.DeleteFunc(all, func(e event) bool { return e.Type != kind || e.Data.Session != session && e.Data.Mailbox != session }), err
}

// await waits until an event of a type about a session is there.
func (s *stage) await(kind, session string, more int) (all []event, err error) {
	for range 100 {
		if all, err = s.happened(kind, session); err != nil || len(all) >= more {
			return all, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return all, fmt.Errorf("the ledger has %d %s of session %s, not %d", len(all), kind, session, more)
}

// hooks are the events of the harness at which a message was leased.
func (s *stage) hooks(message string) (hooks []string, err error) {
	all, err := s.events()
	for _, e := range all {
		for _, it := range e.Data.Items {
			if e.Type == "mailbox.leased" && it.Message == message {
				hooks = append(hooks, e.Data.Hook)
			}
		}
	}
	return hooks, err
}

// posted is a message in the view of its thread.
type posted struct {
	ID         string
	From       string
	ReplyTo    string `json:"reply_to"`
	State      string
	Deliveries []struct{ Lease, To, Confirmed string }
}

func (s *stage) thread(message string) (messages []posted, err error) {
	b, err := s.run("thread", "--json", message)
	if err != nil {
		return nil, err
	}
	var view struct{ Messages []posted }
	err = json.Unmarshal(b, &view)
	return view.Messages, err
}
