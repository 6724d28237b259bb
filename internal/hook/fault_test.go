package hook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"decklog/events"
	"decklog/internal/hook"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

// flawed is a ledger whose updates the test has a hand in: n counts those of one
// hook run from 1.
func (s *stage) flawed(update func(n int, update func() error) error) func(ops.Ledger) ops.Ledger {
	return func(l ops.Ledger) ops.Ledger { return &flawedLedger{Ledger: l, update: update} }
}

type flawedLedger struct {
	ops.Ledger
	n       int
	update  func(n int, update func() error) error
	view    func() error
	closing error
}

func (l *flawedLedger) Update(fn func(events.Tx) error) error {
	if l.update == nil {
		return l.Ledger.Update(fn)
	}
	l.n++
	return l.update(l.n, func() error { return l.Ledger.Update(fn) })
}

func (l *flawedLedger) View(fn func(events.Reader) error) error {
	if l.view != nil {
		if err := l.view(); err != nil {
			return err
		}
	}
	return l.Ledger.View(fn)
}

func (l *flawedLedger) Close() error { return errors.Join(l.Ledger.Close(), l.closing) }

// faulty says that a run prints nothing, or what prints lets it, and says what is
// wrong in one line and one noted fault.
func (s *stage) faulty(code string, run func() *answer) *answer {
	s.t.Helper()
	before := len(s.notes.Faults())
	a := run()
	if a.stdout.Len() > 0 {
		s.t.Errorf("%s: prints %q", code, a.stdout.String())
	}
	s.complains(code, a, before)
	return a
}

func (s *stage) complains(code string, a *answer, before int) {
	s.t.Helper()
	line := a.stderr.String()
	if !strings.HasPrefix(line, "decklog hook "+a.harness+": "+code+": ") || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		s.t.Errorf("says %q, want one line with the code %s", line, code)
	}
	faults := s.notes.Faults()[before:]
	if len(faults) != 1 {
		s.t.Fatalf("%s: notes %+v", code, faults)
	}
	f := faults[0]
	if f.Code != code || f.Harness != a.harness || f.Event != strings.ReplaceAll(a.event, "\n", " ") || f.Time != a.began || f.What == "" {
		s.t.Errorf("notes %+v, want the code %s of %s %q at %v", f, code, a.harness, a.event, a.began)
	}
}

func TestWhatIsNoInputIsAFaultAndNothingElse(t *testing.T) {
	whole := given(t, "claude-code/user-prompt-submit")
	for what, input := range map[string]string{
		"nothing":                      "",
		"blanks":                       " \n\t ",
		"text":                         "please check the lease test",
		"a number":                     "4711",
		"null":                         "null",
		"a list":                       "[" + whole + "]",
		"half an object":               whole[:len(whole)/2],
		"an object and more":           whole + whole,
		"an object without an event":   `{"session_id":"` + ada + `"}`,
		"an object without a session":  `{"hook_event_name":"Stop"}`,
		"an event that is a number":    `{"session_id":"` + ada + `","hook_event_name":7}`,
		"a session that is an object":  `{"session_id":{},"hook_event_name":"Stop"}`,
		"an empty session":             `{"session_id":"","hook_event_name":"Stop"}`,
		"a session with a blank":       `{"session_id":"a b","hook_event_name":"Stop"}`,
		"a session that is a seat":     `{"session_id":"@smith","hook_event_name":"Stop"}`,
		"a session that is a bot":      `{"session_id":"bot:x","hook_event_name":"Stop"}`,
		"a session of a megabyte":      `{"session_id":"` + strings.Repeat("s", 1<<20) + `","hook_event_name":"Stop"}`,
		"a session with a bidi mark":   `{"session_id":"a\u202eb","hook_event_name":"Stop"}`,
		"bytes that are not UTF-8":     "{\"session_id\":\"\xff\xfe",
		"a byte order mark":            "\ufeff" + whole,
		"ten thousand opening braces":  strings.Repeat(`{"a":`, 20_000),
		"ten thousand opening squares": `{"hook_event_name":"Stop","x":` + strings.Repeat("[", 20_000),
		"an end without the beginning": whole[100:],
		"a NUL":                        whole[:10] + "\x00" + whole[10:],
	} {
		for _, harness := range hook.Harnesses() {
			t.Run(harness+"/"+what, func(t *testing.T) {
				s := newStage(t)
				s.join(ada)
				s.request(ada, "Are you there?")
				end := s.end()
				before := len(s.notes.Faults())
				if harness == "cursor" {
					input = strings.Replace(input, "session_id", "conversation_id", 1)
				}
				a := s.hook(harness, strings.Replace(input, `"Stop"`, `"`+eventIn(harness, "Stop")+`"`, 1))
				if a.stdout.Len() > 0 {
					t.Errorf("prints %q", a.stdout.String())
				}
				faults := s.notes.Faults()[before:]
				if len(faults) != 1 || faults[0].Code != "bad_input" || strings.Count(a.stderr.String(), "\n") != 1 || a.stderr.Len() > 1100 {
					t.Errorf("says %.200q, and notes %+v", a.stderr.String(), faults)
				}
				if more := s.happened(end + 1); more != nil {
					t.Errorf("%q happened", more)
				}
			})
		}
	}
}

func TestAnInputThatCannotBeReadOrIsTooLargeIsAFault(t *testing.T) {
	whole := given(t, "codex/user-prompt-submit")
	for what, stdin := range map[string]io.Reader{
		"an error at once":            iotest.ErrReader(errors.New("input/output error")),
		"an error behind it":          io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errors.New("input/output error"))),
		"one that goes on and on":     io.MultiReader(strings.NewReader(whole), blanks{}),
		"one byte more than is heard": io.LimitReader(io.MultiReader(strings.NewReader(whole), blanks{}), hook.InputMax+1),
	} {
		t.Run(what, func(t *testing.T) {
			s := newStage(t)
			s.faulty("bad_input", func() *answer {
				run, a := s.run("codex", stdin)
				run.Do()
				return a
			})
		})
	}
}

// blanks is an input without an end.
type blanks struct{}

var blank = bytes.Repeat([]byte(" "), 1<<16)

func (blanks) Read(p []byte) (int, error) { return copy(p, blank), nil }

func TestAnEventThatTheHarnessDoesNotHaveIsAFault(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		for _, event := range []string{"sessionstart", "STOP", "AfterAll", "Stop ", "x", "\u202e", "日本", `"`, "a\nb"} {
			s := newStage(t)
			a := s.faulty("unknown_event", func() *answer { return s.hears(harness+"/user-prompt-submit", with("hook_event_name", event)) })
			if s.end() != 0 {
				t.Errorf("%s %q: %q happened (%s)", harness, event, s.happened(1), a.stderr.String())
			}
		}
	}
	// What Claude Code has more, Codex does not know.
	s := newStage(t)
	s.faulty("unknown_event", func() *answer { return s.hears("codex/user-prompt-submit", with("hook_event_name", "PostToolBatch")) })
}

func TestAHarnessThatNobodyKnowsIsAFault(t *testing.T) {
	for _, harness := range []string{"", "claude", "Claude-Code", "emacs", "codex ", "a\nb", strings.Repeat("x", 1<<20)} {
		s := newStage(t)
		before := len(s.notes.Faults())
		a := s.hook(harness, given(t, "claude-code/user-prompt-submit"))
		faults := s.notes.Faults()[before:]
		if a.stdout.Len() > 0 || strings.Count(a.stderr.String(), "\n") != 1 || a.stderr.Len() > 1100 || len(faults) != 1 || faults[0].Code != "unknown_harness" {
			t.Errorf("%.20q: prints %q, says %.200q, notes %+v", harness, a.stdout.String(), a.stderr.String(), faults)
		}
	}
}

func TestWhateverIsWrongIsSaidInOneShortLine(t *testing.T) {
	s := newStage(t)
	s.world = func(l ops.Ledger) ops.Ledger {
		return &flawedLedger{Ledger: l, view: func() error {
			return fmt.Errorf("the policy has 2 faults:\nline 1\x1b[31m\r\nline 2: %s", strings.Repeat("日", 2000))
		}}
	}
	a := s.faulty("failed", func() *answer { return s.hears("codex/stop") })
	if line := a.stderr.String(); len(line) > 1001 || !utf8.ValidString(line) || strings.ContainsAny(line, "\x1b\r") {
		t.Errorf("%d bytes: %q", len(line), line)
	}
}

func TestALedgerThatCannotBeOpenedIsAFaultWithItsTime(t *testing.T) {
	for code, cause := range map[string]error{
		"ledger_locked": events.ErrLocked, "ledger_newer": events.ErrNewer, "no_space": events.ErrNoSpace,
		"ledger_read_only": events.ErrReadOnly, "ledger_damaged": events.ErrDamaged, "failed": errors.New("no such thing"),
	} {
		for _, name := range delivering {
			s := newStage(t)
			s.faulty(code, func() *answer {
				run, a := s.run(harnessOfInput(name), strings.NewReader(given(t, name)))
				a.event = eventOf(t, name)
				run.Open = func() (ops.Operations, hook.Notes, error) { return nil, s.notes, fmt.Errorf("open ledger: %w", cause) }
				run.Do()
				return a
			})
		}
	}
}

func TestALedgerThatCannotBeOpenedHidesNoFaultOfTheInput(t *testing.T) {
	s := newStage(t)
	s.faulty("bad_input", func() *answer {
		run, a := s.run("codex", strings.NewReader("garbage"))
		run.Open = func() (ops.Operations, hook.Notes, error) { return nil, s.notes, events.ErrLocked }
		run.Do()
		return a
	})
}

func TestWithoutNotesTheFaultIsStillSaid(t *testing.T) {
	s := newStage(t)
	run, a := s.run("codex", strings.NewReader(given(t, "codex/stop")))
	run.Open = func() (ops.Operations, hook.Notes, error) { return nil, nil, events.ErrLocked }
	run.Do()
	if a.stdout.Len() > 0 || !strings.HasPrefix(a.stderr.String(), "decklog hook codex: ledger_locked: ") {
		t.Errorf("prints %q, says %q", a.stdout.String(), a.stderr.String())
	}
}

// eventOf is the event of an input in testdata.
func eventOf(t testing.TB, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(given(t, name), `"hook_event_name": "`)
	event, _, _ := strings.Cut(rest, `"`)
	return event
}

func TestALedgerThatFailsAtAnyStepIsAFaultAndTheMailComesAfterwards(t *testing.T) {
	// A prompt of a session whose start was missed joins, leases and confirms.
	for n, step := range []string{1: "join", 2: "lease", 3: "confirm"} {
		if step == "" {
			continue
		}
		for what, flaw := range map[string]func(update func() error) error{
			"not recorded": func(func() error) error { return fmt.Errorf("update ledger: %w", events.ErrLocked) },
			"recorded, and nobody can tell": func(update func() error) error {
				if err := update(); err != nil {
					return err
				}
				return fmt.Errorf("commit: %w", events.ErrUnknown)
			},
		} {
			for _, name := range []string{"claude-code/user-prompt-submit", "claude-code/post-tool-batch", "codex/post-tool-use", "codex/session-start-resume"} {
				t.Run(step+"/"+what+"/"+name, func(t *testing.T) {
					s := newStage(t)
					session := owner(t, name)
					s.join(session)
					_, r, err := s.Leave(ops.LeaveRequest{Session: session, Reason: events.EndLeft})
					if r != nil || err != nil {
						t.Fatal(r, err)
					}
					asked := s.request(session, "Are you there?")
					s.after(time.Second)
					s.world = s.flawed(func(i int, update func() error) error {
						if i != n {
							return update()
						}
						return flaw(update)
					})
					code := "ledger_locked"
					if what != "not recorded" {
						code = "unknown_outcome"
					}
					before := len(s.notes.Faults())
					a := s.hears(name)
					s.complains(code, a, before)
					printed := a.stdout.Len() > 0
					if printed != (step == "confirm") {
						t.Fatalf("prints %q", a.stdout.String())
					}
					if printed {
						if _, err := readAnswer(a.harness, a.event, a.stdout.String()); err != nil {
							t.Error(err)
						}
					}

					s.world = func(l ops.Ledger) ops.Ledger { return l }
					s.after(10 * time.Second)
					again := s.hears(harnessOfInput(name)+"/post-tool-use", of(session))
					switch {
					case step == "confirm" && code == "unknown_outcome":
						again.silent()
						if got := s.state(asked); got != events.StateDelivered {
							t.Errorf("it is %s", got)
						}
					case step == "lease" && code == "unknown_outcome", step == "confirm":
						s.again(2, again.text(), asked)
					default:
						again.brings(asked)
					}
				})
			}
		}
	}
}

func TestALookThatFailsIsAFault(t *testing.T) {
	for _, name := range append(delivering, "codex/session-end", "claude-code/session-end-clear") {
		// Each run looks once, at the session and at the policy.
		s := newStage(t)
		s.join(owner(t, name))
		s.world = func(l ops.Ledger) ops.Ledger {
			return &flawedLedger{Ledger: l, view: func() error { return fmt.Errorf("view ledger: %w", events.ErrDamaged) }}
		}
		s.faulty("ledger_damaged", func() *answer { return s.hears(name) })
	}
}

func TestARefusedLeaseIsAFault(t *testing.T) {
	s := newStage(t)
	s.process["codex"] = claude
	s.join(kay)
	s.request(kay, "Are you there?")
	s.after(time.Second)
	run, a := s.run("codex", strings.NewReader(given(t, "codex/session-start-startup")))
	a.event = "SessionStart"
	before := len(s.notes.Faults())
	found := run.Process
	run.Process = func(harness string) (events.Process, bool) {
		p, ok := found(harness)
		s.dead[p] = true // its harness ends while the hook runs
		return p, ok
	}
	run.Do()
	if a.stdout.Len() > 0 {
		t.Errorf("prints %q", a.stdout.String())
	}
	s.complains("sender_not_live", a, before)
}

func TestARefusedJoinIsAFault(t *testing.T) {
	s := newStage(t)
	s.faulty("bad_request", func() *answer {
		return s.hears("claude-code/session-start-startup", with("transcript_path", "/"+strings.Repeat("x", 5000)))
	})
}

func TestAConfirmThatIsOverIsAFaultBesideAWholeAnswer(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	asked := s.request(kay, "Are you there?")
	run, a := s.run("codex", strings.NewReader(given(t, "codex/post-tool-use")))
	a.event = "PostToolUse"
	before := len(s.notes.Faults())
	run.Stdout = prints(func(p []byte) {
		// The run is paused here for longer than its lease, and another takes over.
		a.stdout.Write(p)
		s.after(11 * time.Second)
		s.again(2, s.hears("codex/post-tool-use").text(), asked)
	})
	run.Do()
	text, err := readAnswer("codex", "PostToolUse", a.stdout.String())
	if err != nil {
		t.Fatal(err)
	}
	(&answer{t: t}).bringsAgain(1, text, []events.MessageID{asked})
	s.complains("stale_lease", a, before)
	if got := s.state(asked); got != events.StateDelivered {
		t.Errorf("it is %s", got)
	}
}

// prints is a standard output that does something.
type prints func([]byte)

func (do prints) Write(p []byte) (int, error) {
	do(p)
	return len(p), nil
}

func TestAConfirmThatIsLateCountsWhileNobodyElseTookOver(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	asked := s.request(kay, "Are you there?")
	run, a := s.run("codex", strings.NewReader(given(t, "codex/post-tool-use")))
	a.event = "PostToolUse"
	run.Stdout = prints(func(p []byte) {
		a.stdout.Write(p)
		s.after(time.Minute)
	})
	run.Do()
	a.brings(asked)
	if got := s.state(asked); got != events.StateDelivered {
		t.Errorf("it is %s", got)
	}
}

func TestHalfAnAnswerIsNotConfirmed(t *testing.T) {
	for _, some := range []int{0, 1, 100} {
		s := newStage(t)
		s.begin("claude-code")
		asked := s.request(ada, "Are you there?")
		s.stdout = func(w io.Writer) io.Writer { return broken{w, some} }
		before := len(s.notes.Faults())
		a := s.hears("claude-code/stop")
		if a.stdout.Len() != some {
			t.Errorf("printed %q", a.stdout.String())
		}
		s.complains("print", a, before)
		if got := s.state(asked); got != events.StateLeased {
			t.Errorf("it is %s", got)
		}
	}
}

// tired are notes that cannot be written.
type tired struct{ *notes.Notes }

var errTired = errors.New("no space left on device")

func (tired) Busy(events.SessionID, events.Time) error { return errTired }
func (tired) Idle(events.SessionID, events.Time) error { return errTired }
func (tired) Forget(events.SessionID) error            { return errTired }

func TestANoteThatCannotBeWrittenIsAFaultAndTheMailComesAllTheSame(t *testing.T) {
	for _, name := range []string{"claude-code/user-prompt-submit", "claude-code/stop", "claude-code/session-start-resume", "codex/post-tool-use"} {
		s := newStage(t)
		session := owner(t, name)
		s.join(session)
		asked := s.request(session, "Are you there?")
		s.beside = func(n *notes.Notes) hook.Notes { return tired{n} }
		before := len(s.notes.Faults())
		a := s.hears(name)
		s.complains("notes", a, before)
		text, err := readAnswer(a.harness, a.event, a.stdout.String())
		if err != nil {
			t.Fatal(err)
		}
		a.bringsAgain(1, text, []events.MessageID{asked})
		if got := s.state(asked); got != events.StateDelivered {
			t.Errorf("it is %s", got)
		}
	}
	s := newStage(t)
	s.begin("codex")
	s.beside = func(n *notes.Notes) hook.Notes { return tired{n} }
	s.after(time.Second)
	s.faulty("notes", func() *answer { return s.hears("codex/session-end") })
	if p := s.peer(kay); p.Live {
		t.Errorf("%+v", p)
	}
}

// mute are notes that not even a fault can be left in.
type mute struct{ tired }

func (mute) Fault(events.Time, string, string, string, string, string) error { return errTired }

func TestAFaultThatCannotBeNotedIsSaid(t *testing.T) {
	s := newStage(t)
	s.beside = func(n *notes.Notes) hook.Notes { return mute{tired{n}} }
	a := s.hook("codex", "garbage")
	lines := strings.Split(a.stderr.String(), "\n")
	if a.stdout.Len() > 0 || len(lines) != 3 || !strings.Contains(lines[1], errTired.Error()) {
		t.Errorf("prints %q, says %q", a.stdout.String(), lines)
	}
}

func TestALedgerThatCannotBeClosedIsAFault(t *testing.T) {
	s := newStage(t)
	s.world = func(l ops.Ledger) ops.Ledger {
		return &flawedLedger{Ledger: l, closing: fmt.Errorf("close ledger: %w", events.ErrNoSpace)}
	}
	before := len(s.notes.Faults())
	a := s.hears("codex/session-start-startup")
	s.complains("no_space", a, before)
	if _, err := readAnswer("codex", "SessionStart", a.stdout.String()); err != nil {
		t.Error(err)
	}
	// It hides no fault that came before.
	s.faulty("bad_input", func() *answer { return s.hook("codex", "garbage") })
}

func TestAPanicIsAFault(t *testing.T) {
	for what, world := range map[string]func(ops.Ledger) ops.Ledger{
		"in a look": func(l ops.Ledger) ops.Ledger {
			return &flawedLedger{Ledger: l, view: func() error { panic("arithmetic") }}
		},
		"in the lease": func(l ops.Ledger) ops.Ledger {
			return &flawedLedger{Ledger: l, update: func(n int, update func() error) error { panic(fmt.Errorf("arithmetic %d", n)) }}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStage(t)
			session := s.begin("codex")
			s.request(session, "Are you there?")
			s.world = world
			s.faulty("panic", func() *answer { return s.hears("codex/user-prompt-submit") })
		})
	}
	s := newStage(t)
	run, a := s.run("codex", strings.NewReader(given(t, "codex/stop")))
	run.Open = func() (ops.Operations, hook.Notes, error) { panic("arithmetic") }
	run.Do()
	if a.stdout.Len() > 0 || a.stderr.String() != "decklog hook codex: panic: arithmetic\n" {
		t.Errorf("prints %q, says %q", a.stdout.String(), a.stderr.String())
	}
}
