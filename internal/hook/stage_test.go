package hook_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/failure"
	"decklog/internal/hook"
	"decklog/internal/memory"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The sessions of the inputs in testdata, and one that has no harness.
const (
	ada     = "11110000-0000-4000-8000-000000000001" // of Claude Code
	cleared = "11110000-0000-4000-8000-000000000002" // that follows ada after /clear
	forked  = "11110000-0000-4000-8000-0000000000f0" // from ada
	kay     = "01a00000-0000-7000-8000-000000000001" // of Codex
	gem     = "22220000-0000-4000-8000-000000000001" // of Gemini CLI
	ola     = "ses_4f0000000ffe0000000000000A"       // of opencode
	cur     = "c0500000-0000-4000-8000-000000000001" // of Cursor
	bob     = "bbbbbbbb-0000-4000-8000-000000000002"
)

// stage is a ledger in memory that hooks run against, one as often as the test
// says, with a clock, processes and an environment that the test sets. What
// everybody else does goes through its Ops.
type stage struct {
	*ops.Ops
	t       testing.TB
	ledger  *memory.Ledger
	notes   *notes.Notes
	now     events.Time
	age     time.Duration             // of each hook run when it is asked
	process map[string]events.Process // that hooks find, by harness
	dead    map[events.Process]bool
	environ map[string]string             // of the hooks
	policy  events.Policy                 // that the empty ledger adopts
	world   func(ops.Ledger) ops.Ledger   // what the hooks take for the ledger
	beside  func(*notes.Notes) hook.Notes // and for the notes
	stdout  func(to io.Writer) io.Writer  // and for standard output
	code    func(error) string            // what an error is called
	bells   bell.Bells                    // that hooks look at before the ledger; of no folder: they always ring
	mu      sync.Mutex                    // guards what follows, for hooks that run at once
	n       uint64                        // random
	opened  int
	closed  int
}

func newStage(t testing.TB) *stage {
	s := &stage{
		t: t, ledger: memory.New(projections.Project), notes: notes.InMemory(),
		now: events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)), process: map[string]events.Process{}, dead: map[events.Process]bool{},
		environ: map[string]string{}, policy: events.DefaultPolicy(),
		world: func(l ops.Ledger) ops.Ledger { return l }, beside: func(n *notes.Notes) hook.Notes { return n },
		stdout: func(w io.Writer) io.Writer { return w }, code: func(err error) string { return failure.Of(err).Code },
	}
	s.policy.Limits.SessionRate, s.policy.Limits.DeviceRate, s.policy.Limits.PersonRate = 0, 0, 0
	s.Ops = &ops.Ops{Ledger: s.ledger, World: ops.World{
		Now: func() events.Time { return s.now },
		Random: func(b []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.n++
			binary.BigEndian.PutUint64(b[len(b)-8:], s.n)
		},
		Alive: func(p events.Process) bool { return !s.dead[p] },
		Seen: func(id events.SessionID) (bool, events.Time, bool) {
			o := s.notes.Seen(id)
			return o.Busy, o.At, o.Known
		},
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return s.policy, nil },
	}}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if a, err := s.Verify(); err != nil || !a.OK {
			t.Errorf("verify: %+v %v", a, err)
		}
		if s.opened != s.closed {
			t.Errorf("the ledger was opened %d times, and closed %d times", s.opened, s.closed)
		}
	})
	return s
}

func (s *stage) after(span time.Duration) { s.now = s.now.Add(span) }

// lent is the ledger as a hook run has it, which closes it.
type lent struct {
	ops.Ledger
	s *stage
}

func (l lent) Close() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.closed++
	return nil
}

// run is a hook run on the stage, with what it prints.
func (s *stage) run(harness string, stdin io.Reader) (*hook.Run, *answer) {
	a := &answer{t: s.t, harness: harness, began: s.now}
	return &hook.Run{
		Harness: harness, Stdin: stdin, Stdout: s.stdout(&a.stdout), Stderr: &a.stderr,
		Environ: func(name string) string { return s.environ[name] },
		Bells:   s.bells, Beside: s.beside(s.notes),
		Open: func() (ops.Operations, hook.Notes, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.opened++
			return &ops.Ops{Ledger: s.world(lent{s.ledger, s}), World: s.World}, s.beside(s.notes), nil
		},
		Now: func() events.Time { return s.now }, Age: func() time.Duration { return s.age }, Code: s.code,
		Process: func(harness string) (events.Process, bool) {
			p, found := s.process[harness]
			return p, found
		},
	}, a
}

// hook runs the hook of a harness with this input.
func (s *stage) hook(harness, input string) *answer {
	run, a := s.run(harness, strings.NewReader(input))
	var fields map[string]any // a struct would take the names in any case
	_ = json.Unmarshal([]byte(input), &fields)
	a.event, _ = fields["hook_event_name"].(string)
	run.Do()
	return a
}

// hears runs the hook with one of the inputs in testdata, HARNESS/NAME, changed
// as the test says.
func (s *stage) hears(name string, changes ...change) *answer {
	s.t.Helper()
	return s.hook(filepath.Dir(name), given(s.t, name, changes...))
}

// change sets a field of an input.
type change struct {
	field string
	value any
}

func with(field string, value any) change { return change{field, value} }

func of(session string) change { return with("session_id", session) }

// others' names of the inputs that every harness has.
var called = map[string]map[string]string{
	"gemini": {
		"user-prompt-submit": "before-agent", "pre-tool-use": "before-tool", "post-tool-use": "after-tool", "stop": "after-agent",
		"stop-hook-active": "after-agent-active", "session-end": "session-end-exit",
	},
	"opencode": {
		"session-start-startup": "session-created", "session-start-compact": "session-compacted", "user-prompt-submit": "chat-message",
		"pre-tool-use": "tool-execute-before", "post-tool-use": "tool-execute-after", "stop": "session-idle",
		"stop-hook-active": "session-idle-held", "session-end": "session-deleted",
	},
	// Cursor takes nothing at a prompt. Where a test means the next time that a
	// session takes everything, that is a tool.
	"cursor":      {"session-start-startup": "session-start", "user-prompt-submit": "post-tool-use", "stop-hook-active": "stop-held"},
	"claude-code": {"session-end": "session-end-other"},
}

// calls are others' names of events that every harness has.
var calls = map[string]map[string]string{
	"gemini": {"UserPromptSubmit": "BeforeAgent", "PreToolUse": "BeforeTool", "PostToolUse": "AfterTool", "Stop": "AfterAgent"},
	"opencode": {
		"SessionStart": "session.created", "UserPromptSubmit": "chat.message", "PreToolUse": "tool.execute.before",
		"PostToolUse": "tool.execute.after", "Stop": "session.idle", "SessionEnd": "session.deleted",
	},
	"cursor": {
		"SessionStart": "sessionStart", "UserPromptSubmit": "beforeSubmitPrompt", "PreToolUse": "preToolUse", "PostToolUse": "postToolUse",
		"Stop": "stop", "SessionEnd": "sessionEnd",
	},
}

// eventIn is the harness's own name of an event that every harness has.
func eventIn(harness, event string) string {
	if own, is := calls[harness][event]; is {
		return own
	}
	return event
}

// path is the file of an input.
func path(name string) string {
	harness, input, _ := strings.Cut(name, "/")
	if own, is := called[harness][input]; is {
		input = own
	}
	return filepath.Join("testdata", harness, input+".json")
}

// given is one of the inputs in testdata.
func given(t testing.TB, name string, changes ...change) string {
	t.Helper()
	b, err := os.ReadFile(path(name))
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) == 0 {
		return string(b)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range changes {
		if _, is := fields["conversation_id"]; is && c.field == "session_id" {
			c.field = "conversation_id"
		}
		if event, is := c.value.(string); is && c.field == "hook_event_name" {
			c.value = eventIn(filepath.Dir(name), event)
		}
		fields[c.field] = c.value
	}
	if b, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// inputs are the names of the inputs in testdata.
func inputs(t testing.TB) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(files) < 75 {
		t.Fatalf("%d inputs: %v", len(files), err)
	}
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	return names
}

// owner is the session that an input in testdata is of.
func owner(t testing.TB, name string) string {
	t.Helper()
	var in struct {
		Session      string `json:"session_id"`
		Conversation string `json:"conversation_id"`
	}
	if err := json.Unmarshal([]byte(given(t, name)), &in); err != nil {
		t.Fatal(err)
	}
	return in.Session + in.Conversation
}

// answer is what a hook run printed.
type answer struct {
	t              testing.TB
	harness, event string
	began          events.Time
	stdout, stderr bytes.Buffer
}

// silent says that the run had nothing to say, and nothing to complain of.
func (a *answer) silent() {
	a.t.Helper()
	if a.stdout.Len() > 0 || a.stderr.Len() > 0 {
		a.t.Fatalf("%s %s is answered with %q and %q", a.harness, a.event, a.stdout.String(), a.stderr.String())
	}
}

// text is what the answer brings into the model's context, with angle brackets
// where the harness takes none.
func (a *answer) text() string {
	a.t.Helper()
	return tagged(a.raw())
}

var (
	lineTags = regexp.MustCompile(`(?m)^\[(/?decklog-.*)\]$`)
	margin   = regexp.MustCompile(`(?m)^\| `)
)

func tagged(text string) string {
	return margin.ReplaceAllString(lineTags.ReplaceAllString(text, "<$1>"), "")
}

// raw is the text as the answer has it. The answer must be, byte for byte, the
// one that this harness takes at this event.
func (a *answer) raw() string {
	a.t.Helper()
	if a.stderr.Len() > 0 {
		a.t.Fatalf("%s %s complains: %s", a.harness, a.event, a.stderr.String())
	}
	text, err := readAnswer(a.harness, a.event, a.stdout.String())
	if err != nil {
		a.t.Fatalf("%s %s: %v in\n%s", a.harness, a.event, err, a.stdout.String())
	}
	return text
}

// ids are the messages in a text, in their order, each with its attempt.
func ids(text string) (found []string) {
	for _, m := range regexp.MustCompile(`(?m)^<decklog-message id="([^"]+)".* attempt="(\d+)"`).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1]+" "+m[2])
	}
	return found
}

// brings says that the answer holds these messages and no other, each for the
// first time.
func (a *answer) brings(messages ...events.MessageID) string {
	a.t.Helper()
	text := a.text()
	a.bringsAgain(1, text, messages)
	return text
}

func (a *answer) bringsAgain(attempt int, text string, messages []events.MessageID) {
	a.t.Helper()
	var want []string
	for _, m := range messages {
		want = append(want, string(m)+" "+string(rune('0'+attempt)))
	}
	if got := ids(text); !slices.Equal(got, want) {
		a.t.Fatalf("%s %s brings %q, want %q in\n%s", a.harness, a.event, got, want, text)
	}
}

func instructs(text string) bool { return strings.HasPrefix(text, "<decklog-instruction ") }

// join registers a session by hand.
func (s *stage) join(id string, changes ...func(*ops.JoinRequest)) {
	s.t.Helper()
	q := ops.JoinRequest{Session: id, Harness: "by-hand", Cwd: "/w/demo"}
	for _, c := range changes {
		c(&q)
	}
	if _, r, err := s.Join(q); r != nil || err != nil {
		s.t.Fatalf("join %s: %+v %v", id, r, err)
	}
}

// send sends a message; bob's, who joins for it, where the request names nobody.
func (s *stage) send(q ops.SendRequest) commands.SendReceipt {
	s.t.Helper()
	if q.As == "" {
		s.join(bob)
		q.As = bob
	}
	receipt, r, err := s.Send(q)
	if r != nil || err != nil {
		s.t.Fatalf("send: %+v %v", r, err)
	}
	return receipt
}

func (s *stage) request(to, body string) events.MessageID {
	s.t.Helper()
	return s.send(ops.SendRequest{To: to, Intent: "request", Body: []byte(body)}).ID
}

func (s *stage) inform(to, body string) events.MessageID {
	s.t.Helper()
	return s.send(ops.SendRequest{To: to, Body: []byte(body)}).ID
}

// begin starts the session of a harness and lets it have its instruction.
func (s *stage) begin(harness string) (session string) {
	s.t.Helper()
	first := s.hears(harness + "/session-start-startup")
	if deaf(harness, first.event) {
		first.silent()
		first = s.hears(harness + "/user-prompt-submit")
	}
	if text := first.text(); !instructs(text) {
		s.t.Fatalf("a session begins with\n%s", text)
	}
	return owner(s.t, harness+"/session-start-startup")
}

// happened are the events from a position on, as STREAM TYPE.
func (s *stage) happened(from events.Position) (all []string) {
	s.t.Helper()
	for _, r := range s.recorded(from) {
		all = append(all, string(r.Stream)+" "+string(r.Type()))
	}
	return all
}

func (s *stage) recorded(from events.Position) (all []events.Recorded) {
	s.t.Helper()
	err := s.ledger.View(func(r events.Reader) (err error) {
		all, err = r.All(from, 10_000)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// end is the position of the last event.
func (s *stage) end() (end events.Position) {
	s.t.Helper()
	if err := s.ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err }); err != nil {
		s.t.Fatal(err)
	}
	return end
}

// state is where a message stands, as its thread shows it.
func (s *stage) state(id events.MessageID) events.DeliveryState {
	s.t.Helper()
	view, r, err := s.Thread(ops.ThreadRequest{ID: string(id)})
	if r != nil || err != nil {
		s.t.Fatalf("thread: %+v %v", r, err)
	}
	for _, m := range view.Messages {
		if m.ID == id {
			return m.State
		}
	}
	s.t.Fatalf("message %s is not in its thread", id)
	return ""
}

// peer is a session as the presence view shows it.
func (s *stage) peer(id string) projections.Peer {
	s.t.Helper()
	view, r, err := s.Peers(ops.PeersRequest{Session: id})
	if r != nil || err != nil || len(view.Peers) != 1 {
		s.t.Fatalf("peers: %+v %+v %v", view, r, err)
	}
	return view.Peers[0]
}

// leavesNothing says that what runs records no event, notes nothing and opens
// the ledger as often as it may.
func (s *stage) leavesNothing(what string, run func() *answer) {
	s.t.Helper()
	end, faults := s.end(), len(s.notes.Faults())
	seen := map[string]notes.Observation{}
	all := []string{ada, cleared, forked, kay, gem, ola, cur, bob}
	for _, id := range all {
		seen[id] = s.notes.Seen(events.SessionID(id))
	}
	run().silent()
	if more := s.happened(end + 1); more != nil {
		s.t.Errorf("%s: %q happened", what, more)
	}
	if got := s.notes.Faults(); len(got) != faults {
		s.t.Errorf("%s: faults %+v", what, got[faults:])
	}
	after := map[string]notes.Observation{}
	for _, id := range all {
		after[id] = s.notes.Seen(events.SessionID(id))
	}
	if !maps.Equal(seen, after) {
		s.t.Errorf("%s: noted %+v, was %+v", what, after, seen)
	}
}

// eventOf is the event of an input.
func (s *stage) eventOf(name string) string {
	s.t.Helper()
	var in struct {
		Event string `json:"hook_event_name"`
	}
	if err := json.Unmarshal([]byte(given(s.t, name)), &in); err != nil {
		s.t.Fatal(err)
	}
	return in.Event
}
