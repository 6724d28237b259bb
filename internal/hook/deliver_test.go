package hook_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/hook"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

func TestAStopIsHeldForRequestsAndForAnswersToOwnRequestsAndForNothingElse(t *testing.T) {
	// Each says what waits for the session that is about to stop.
	for what, c := range map[string]struct {
		waits func(s *stage, session string) events.MessageID
		holds bool
	}{
		"a request": {func(s *stage, session string) events.MessageID { return s.request(session, "Which commit?") }, true},
		"an answer to its own request": {func(s *stage, session string) events.MessageID {
			s.join(bob)
			asked := s.send(ops.SendRequest{Asker: ops.Asker{As: session}, To: bob, Intent: "request", Body: []byte("Which commit?")})
			return s.send(ops.SendRequest{Asker: ops.Asker{As: bob}, ReplyTo: string(asked.ID), Body: []byte("4f2a9c1")}).ID
		}, true},
		"a counter-question to its own request": {func(s *stage, session string) events.MessageID {
			s.join(bob)
			asked := s.send(ops.SendRequest{Asker: ops.Asker{As: session}, To: bob, Intent: "request", Body: []byte("Which commit?")})
			return s.send(ops.SendRequest{Asker: ops.Asker{As: bob}, ReplyTo: string(asked.ID), Intent: "request", Body: []byte("On which branch?")}).ID
		}, true},
		"the done that answers its own request": {func(s *stage, session string) events.MessageID {
			s.join(bob)
			asked := s.send(ops.SendRequest{Asker: ops.Asker{As: session}, To: bob, Intent: "request", Body: []byte("Which commit?")})
			return s.send(ops.SendRequest{Asker: ops.Asker{As: bob}, ReplyTo: string(asked.ID), Intent: "done", Body: []byte("None, it is fixed.")}).ID
		}, true},
		"a request to its seat": {func(s *stage, session string) events.MessageID {
			s.join(session, func(q *ops.JoinRequest) { q.Seat = "smith" })
			return s.request("@smith", "Whoever sits there")
		}, true},
		"an inform": {func(s *stage, session string) events.MessageID { return s.inform(session, "By the way") }, false},
		"an answer to its inform": {func(s *stage, session string) events.MessageID {
			s.join(bob)
			told := s.send(ops.SendRequest{Asker: ops.Asker{As: session}, To: bob, Body: []byte("By the way")})
			return s.send(ops.SendRequest{Asker: ops.Asker{As: bob}, ReplyTo: string(told.ID), Body: []byte("Good to know")}).ID
		}, false},
		"a reply to somebody else's request": {func(s *stage, session string) events.MessageID {
			asked := s.request(session, "Which commit?")
			s.hears(harnessOf(session) + "/user-prompt-submit").brings(asked)
			return s.send(ops.SendRequest{Asker: ops.Asker{As: bob}, To: session, ReplyTo: string(asked), Body: []byte("I found it myself")}).ID
		}, false},
		"a done": {func(s *stage, session string) events.MessageID {
			return s.send(ops.SendRequest{To: session, Intent: "done", Body: []byte("That was all")}).ID
		}, false},
	} {
		for _, harness := range hook.Harnesses() {
			t.Run(harness+"/"+what, func(t *testing.T) {
				s := newStage(t)
				session := s.begin(harness)
				id := c.waits(s, session)
				before := s.inform(session, "An inform that waits beside it")
				if c.holds {
					s.hears(harness + "/stop").brings(id)
					s.hears(harness + "/stop-hook-active").silent()
					s.hears(harness + "/stop").silent()
					s.hears(harness + "/user-prompt-submit").brings(before)
					return
				}
				s.hears(harness + "/stop").silent()
				s.hears(harness + "/stop").silent()
				s.hears(harness+"/user-prompt-submit").brings(id, before)
			})
		}
	}
}

func harnessOf(session string) string {
	harness := map[string]string{kay: "codex", gem: "gemini", ola: "opencode", cur: "cursor"}[session]
	return cmp.Or(harness, "claude-code")
}

func TestAStopIsNotHeldForTheNoticeOfALoss(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	s.join(bob)
	lost := s.send(ops.SendRequest{Asker: ops.Asker{As: kay}, To: bob, Intent: "request", Body: []byte("Are you there?")})
	s.after(25 * time.Hour)
	s.hears("codex/stop").silent()
	if text := s.hears("codex/user-prompt-submit").text(); !strings.Contains(text, `<decklog-notice message="`+string(lost.ID)+`"`) {
		t.Errorf("the next prompt brings\n%s", text)
	}
}

func TestAHeldStopBringsAtMostFiveAndTheOldest(t *testing.T) {
	s := newStage(t)
	s.begin("claude-code")
	var asked []events.MessageID
	for n := range 7 {
		s.inform(ada, fmt.Sprint("inform ", n))
		asked = append(asked, s.request(ada, fmt.Sprint("request ", n)))
	}
	s.hears("claude-code/stop").brings(asked[:5]...)
	s.hears("claude-code/stop").brings(asked[5:]...)
	s.hears("claude-code/stop").silent()
}

func TestTheInstructionComesWithTheRequestThatHoldsAStop(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := owner(t, harness+"/stop")
		s.hears(harness + "/stop").silent()
		asked := s.request(session, "Are you there?")
		if text := s.hears(harness + "/stop").brings(asked); !instructs(text) {
			t.Errorf("%s: overtaken:\n%s", harness, text)
		}
	}
}

func TestF40AStopThatWasHeldAlreadyLetsGo(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		fresh := s.request(session, "Asked while it was held")
		s.hears(harness + "/stop-hook-active").silent()
		if p := s.peer(session); p.Busy {
			t.Errorf("%s: it stopped, and is shown as %+v", harness, p)
		}
		s.hears(harness + "/user-prompt-submit").brings(fresh)
	}
}

func TestF40AStopIsHeldOnceForAMessageEvenIfItCouldNotBePrinted(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		asked := s.request(session, "Are you there?")
		s.stdout = func(io.Writer) io.Writer { return broken{} }
		s.faulty("print", func() *answer { return s.hears(harness + "/stop") })
		if p := s.peer(session); p.Busy {
			t.Errorf("%s: it stopped, and is shown as %+v", harness, p)
		}
		s.stdout = func(w io.Writer) io.Writer { return w }
		s.after(10 * time.Second)
		s.hears(harness + "/stop").silent()
		text := s.hears(harness + "/user-prompt-submit").text()
		s.again(2, text, asked)
	}
}

// again says that a text holds these messages as the given attempt, marked.
func (s *stage) again(attempt int, text string, messages ...events.MessageID) {
	s.t.Helper()
	(&answer{t: s.t}).bringsAgain(attempt, text, messages)
	if strings.Count(text, "This is a repeat: ") != len(messages) {
		s.t.Errorf("not every repeat says so:\n%s", text)
	}
}

// broken is a standard output that takes some bytes, and no more.
type broken struct {
	to   io.Writer
	some int
}

var errBroken = errors.New("write |1: broken pipe")

func (b broken) Write(p []byte) (int, error) {
	if b.to != nil {
		_, _ = b.to.Write(p[:min(len(p), b.some)])
	}
	return min(len(p), b.some), errBroken
}

func TestWhatCouldNotBePrintedComesAgainAsARepeat(t *testing.T) {
	for _, name := range delivering {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.join(session)
			asked := s.request(session, "Are you there?")
			s.stdout = func(w io.Writer) io.Writer { return broken{} }
			s.faulty("print", func() *answer { return s.hears(name) })
			if got := s.state(asked); got != events.StateLeased {
				t.Errorf("what was not printed is %s", got)
			}
			s.stdout = func(w io.Writer) io.Writer { return w }

			s.hears(name, with("source", "resume")).silent() // the lease still runs
			s.after(10 * time.Second)
			prompt := s.hears(harnessOfInput(name)+"/user-prompt-submit", of(session))
			text := prompt.text()
			s.again(2, text, asked)
			if !instructs(text) {
				t.Errorf("the instruction was lost with it:\n%s", text)
			}
			s.hears(harnessOfInput(name)+"/user-prompt-submit", of(session)).silent()
		})
	}
}

func harnessOfInput(name string) string {
	harness, _, _ := strings.Cut(name, "/")
	return harness
}

func TestWhatWasPrintedAndNotConfirmedComesAgainAsARepeatAndAtMostThreeTimes(t *testing.T) {
	s := newStage(t)
	s.begin("claude-code")
	asked := s.request(ada, "Are you there?")
	for attempt := 1; attempt <= 3; attempt++ {
		s.world = s.flawed(func(n int, update func() error) error {
			if n == 2 {
				return errors.New("killed before the confirm")
			}
			return update()
		})
		a := s.hears("claude-code/post-tool-use")
		text, err := readAnswer(a.harness, a.event, a.stdout.String())
		if err != nil {
			t.Fatal(err)
		}
		if attempt == 1 {
			(&answer{t: t}).bringsAgain(1, text, []events.MessageID{asked})
		} else {
			s.again(attempt, text, asked)
		}
		s.world = func(l ops.Ledger) ops.Ledger { return l }
		s.after(9 * time.Second)
		s.hears("claude-code/post-tool-use").silent()
		s.after(time.Second)
	}
	s.hears("claude-code/post-tool-use").silent()
	if got := s.state(asked); got != events.StateUndelivered {
		t.Errorf("after three times it is %s", got)
	}
	if text := s.hears("claude-code/user-prompt-submit", of(bob)).text(); !strings.Contains(text, `reason="unconfirmed"`) {
		t.Errorf("its sender is told\n%s", text)
	}
}

func TestOfEightRunsAtOnceOneTakesEachMessageAndNoneIsLost(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		input := given(t, harness+"/post-tool-use")
		for round := range 100 {
			sent := map[string]bool{}
			for n := range 3 {
				sent[string(s.request(session, fmt.Sprint("round ", round, " message ", n)))+" 1"] = true
			}
			var (
				together, done sync.WaitGroup
				answers        [8]*answer
			)
			together.Add(1)
			for i := range answers {
				done.Add(1)
				go func() {
					defer done.Done()
					run, a := s.run(harness, strings.NewReader(input))
					a.event = eventIn(harness, "PostToolUse")
					answers[i] = a
					together.Wait()
					run.Do()
				}()
			}
			together.Done()
			done.Wait()
			takers := 0
			for _, a := range answers {
				if a.stdout.Len() == 0 {
					a.silent()
					continue
				}
				takers++
				for _, id := range ids(a.text()) {
					if !sent[id] {
						t.Fatalf("round %d: %q came twice, or is of another round", round, id)
					}
					delete(sent, id)
				}
			}
			if takers == 0 || len(sent) > 0 {
				t.Fatalf("round %d: %d takers, %v did not come", round, takers, sent)
			}
		}
	}
}

func TestARunBringsAtMostFiveTheOldestFirst(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		var sent []events.MessageID
		for n := range 12 {
			sent = append(sent, s.inform(session, fmt.Sprint("message ", n)))
		}
		for five := range slices.Chunk(sent, 5) {
			s.hears(harness + "/post-tool-use").brings(five...)
		}
		s.hears(harness + "/post-tool-use").silent()
	}
}

func TestWhatAnEndedSessionHadTakenForItsSeatGoesToTheNext(t *testing.T) {
	s := newStage(t)
	s.process["claude-code"] = claude
	s.begin("claude-code")
	s.join(ada, func(q *ops.JoinRequest) { q.Seat = "smith" })
	asked := s.request("@smith", "Whoever sits there")
	s.stdout = func(io.Writer) io.Writer { return broken{} }
	s.faulty("print", func() *answer { return s.hears("claude-code/user-prompt-submit") })
	s.stdout = func(w io.Writer) io.Writer { return w }
	s.after(time.Second)
	s.hears("claude-code/session-end-clear").silent()
	s.after(time.Second)
	text := s.hears("claude-code/session-start-clear").text()
	s.again(2, text, asked)
}

// says tells whether a harness has a payload of this name.
func says(harness, name string) bool {
	_, err := os.Stat(path(harness + "/" + name))
	return err == nil
}

func TestAReceiptSaysWhenAMessageArrivesByWhatTheHooksNoted(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		for _, c := range []struct {
			after string // the hook runs, oldest first; "+" has mail to print
			want  events.Arrival
		}{
			{"session-start-startup", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit", events.ArrivesNextToolCall},
			{"session-start-startup user-prompt-submit post-tool-use", events.ArrivesNextToolCall},
			{"session-start-startup user-prompt-submit stop", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit +stop", events.ArrivesNextToolCall},
			{"session-start-startup user-prompt-submit +stop stop-hook-active", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit stop user-prompt-submit", events.ArrivesNextToolCall},
			{"session-start-startup user-prompt-submit session-start-compact", events.ArrivesNextToolCall},
			{"session-start-startup user-prompt-submit stop session-start-compact", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit session-start-resume", events.ArrivesNextPrompt},
			{"post-tool-use", events.ArrivesNextToolCall},
			{"stop", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit session-end", events.ArrivesOnlyIfResumed},
			{"session-start-startup user-prompt-submit session-end session-start-resume", events.ArrivesNextPrompt},
			{"session-start-startup user-prompt-submit subagent-stop stop-failure", events.ArrivesNextToolCall},
		} {
			// Of what only some harnesses say there is nothing to be told in the others;
			// that a turn failed, or a subagent stopped, is left out where it is not said.
			if slices.ContainsFunc(strings.Fields(c.after), func(name string) bool {
				return name != "stop-failure" && name != "subagent-stop" && !says(harness, strings.TrimPrefix(name, "+"))
			}) {
				continue
			}
			t.Run(harness+"/"+c.after, func(t *testing.T) {
				s := newStage(t)
				session := owner(t, harness+"/user-prompt-submit")
				for _, name := range strings.Fields(c.after) {
					s.after(time.Second)
					name, mail := strings.CutPrefix(name, "+")
					if mail {
						s.request(session, "Before it stops")
					}
					if !says(harness, name) {
						continue // it has no such event
					}
					if a := s.hears(harness + "/" + name); a.stderr.Len() > 0 {
						t.Fatal(a.stderr.String())
					}
				}
				s.after(time.Second)
				receipt := s.send(ops.SendRequest{To: session, Intent: "request", Body: []byte("When does this arrive?")})
				if receipt.Arrives != c.want {
					t.Errorf("it arrives %s, want %s; %+v", receipt.Arrives, c.want, receipt.To)
				}
				if waits := strings.Contains(receipt.Next, "decklog wait"); waits != (c.want == events.ArrivesNextToolCall) {
					t.Errorf("next: %s", receipt.Next)
				}
			})
		}
	}
}

func TestAStopThatIsHeldIsBusyEvenIfItCouldNotConfirm(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	s.request(kay, "Are you there?")
	s.world = s.flawed(func(n int, update func() error) error {
		if n == 2 {
			return events.ErrLocked
		}
		return update()
	})
	s.hears("codex/stop")
	if p := s.peer(kay); !p.Busy {
		t.Errorf("it goes on, and is shown as %+v", p)
	}
}

func TestASessionThatNoHookSawIsNotTakenForBusy(t *testing.T) {
	s := newStage(t)
	s.join(kay)
	if receipt := s.send(ops.SendRequest{To: kay, Body: []byte("When?")}); receipt.Arrives != events.ArrivesNextPrompt {
		t.Errorf("it arrives %s", receipt.Arrives)
	}
}

func TestWhileItsBellIsSilentARunOnlyNotesThatItSawTheSession(t *testing.T) {
	for _, name := range delivering {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			harness := harnessOfInput(name)
			s.join(session)
			s.bells = bell.Beside(t.TempDir())
			s.hears(harness+"/user-prompt-submit", of(session)).text() // no bell yet: it rings
			if err := s.bells.Silence(session, nil); err != nil {
				t.Fatal(err)
			}
			asked := s.request(session, "Nobody rang for this one")
			s.after(time.Second)
			opened := s.opened
			if strings.Contains(name, "session-start") {
				s.hears(name).brings(asked) // a start trusts no bell
				return
			}
			s.hears(name).silent()
			s.hears(harness+"/user-prompt-submit", of(session), with("agent_id", "a1b2c3d")).silent()
			if s.opened != opened {
				t.Error("it opened the ledger")
			}
			want := notes.Observation{Known: true, Busy: !stops(name), At: s.now}
			if got := s.notes.Seen(events.SessionID(session)); got != want {
				t.Errorf("it noted %+v, want %+v", got, want)
			}
			if err := s.bells.Ring(session); err != nil {
				t.Fatal(err)
			}
			s.hears(name).brings(asked)

			if err := s.bells.Silence(session, nil); err != nil {
				t.Fatal(err)
			}
			s.after(time.Second)
			s.hears(harness+"/user-prompt-submit", of(session), with("hook_event_name", "SessionEnd")).silent()
			if p := s.peer(session); p.Live {
				t.Errorf("its end trusted the bell: %+v", p)
			}
			if !s.bells.Rings(session, s.now.Std()) {
				t.Error("the bell of a session that ended is silent")
			}
		})
	}
}

func TestASilentBellHidesNoFault(t *testing.T) {
	s := newStage(t)
	s.begin("codex")
	s.bells = bell.Beside(t.TempDir())
	if err := s.bells.Silence(kay, nil); err != nil {
		t.Fatal(err)
	}
	s.faulty("unknown_event", func() *answer { return s.hears("codex/user-prompt-submit", with("hook_event_name", "PostToolBatch")) })
	s.beside = func(n *notes.Notes) hook.Notes { return tired{n} }
	s.faulty("notes", func() *answer { return s.hears("codex/user-prompt-submit") })
}

// stops says whether an input is the end of a turn.
func stops(name string) bool {
	return slices.Contains([]string{"stop", "after-agent", "session-idle"}, filepath.Base(name))
}
