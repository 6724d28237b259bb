package hook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/hook"
	"decklog/internal/ops"
	"decklog/internal/render"
)

// The forms in which the harnesses take a text. Codex drops an answer with
// anything else.
const (
	added  = `{"hookSpecificOutput":{"hookEventName":EVENT,"additionalContext":TEXT}}`
	held   = `{"decision":"block","reason":TEXT}`
	denied = `{"decision":"deny","reason":TEXT}`
)

// takes are the events at which each harness takes a text, with the form.
var takes = map[string]map[string]string{
	"claude-code": {
		"SessionStart": added, "UserPromptSubmit": added, "PostToolUse": added, "PostToolUseFailure": added, "PostToolBatch": added, "Stop": added,
	},
	"codex":    {"SessionStart": added, "UserPromptSubmit": added, "PostToolUse": added, "Stop": held},
	"gemini":   {"BeforeAgent": added, "AfterTool": added, "AfterAgent": denied},
	"opencode": {"chat.message": `{"part":TEXT}`, "tool.execute.after": `{"output":TEXT}`, "session.idle": `{"prompt":TEXT}`},
	"cursor":   {"postToolUse": `{"additional_context":TEXT}`, "stop": `{"followup_message":TEXT}`},
}

// deaf says that a harness takes nothing at an event of ours.
func deaf(harness, event string) bool { return takes[harness][event] == "" }

// escapes are the events at which the harness escapes angle brackets in a text.
var escapes = map[string][]string{"codex": {"Stop"}, "gemini": {"BeforeAgent", "AfterTool", "AfterAgent"}}

// others are the events at which decklog has nothing to say.
var others = map[string]string{
	"claude-code": `PreToolUse Notification UserPromptExpansion SessionEnd StopFailure SubagentStart SubagentStop PreCompact PostCompact
		PreModelSwitch PostModelSwitch PermissionRequest PermissionDenied Setup TeammateIdle TaskCreated TaskCompleted Elicitation
		ElicitationResult ConfigChange WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded
		MessageDisplay PreSkillShellCommand`,
	"codex":    `PreModelRequest PostModelRequest PreToolUse PermissionRequest PreCompact PostCompact SessionEnd SubagentStart SubagentStop Interrupt`,
	"gemini":   `BeforeTool SessionEnd BeforeModel AfterModel BeforeToolSelection PreCompress Notification`,
	"opencode": `tool.execute.before session.deleted dispose`,
	"cursor": `preToolUse sessionEnd postToolUseFailure beforeShellExecution afterShellExecution beforeMCPExecution afterMCPExecution
		beforeReadFile afterFileEdit afterAgentResponse afterAgentThought subagentStart`,
}

// ends are the events that end a session.
var ends = []string{"SessionEnd", "session.deleted", "dispose", "sessionEnd"}

// registers are the events at which a session is registered and no more.
var registers = map[string][]string{
	"gemini": {"SessionStart"}, "opencode": {"session.created", "session.compacted"}, "cursor": {"sessionStart", "beforeSubmitPrompt"},
}

// size is what a text counts against the cap of a harness: characters of UTF-16
// in Claude Code, bytes in Codex.
var size = map[string]func(text string) int{
	"claude-code": characters,
	"codex":       func(text string) int { return len(text) },
	"gemini":      characters,
	"opencode":    characters,
	"cursor":      characters,
}

func characters(text string) int { return len(utf16.Encode([]rune(text))) }

// sizeMax is the cap: what is larger does not come into the context whole.
const sizeMax = 10_000

// readAnswer takes an answer as the harness does, and gives the text that the
// model sees. It is an error when anything in it is not as the harness wants it:
// one JSON object of exactly the fields of the event, with a line feed behind it.
func readAnswer(harness, event, stdout string) (text string, err error) {
	form, is := takes[harness][event]
	if !is {
		return "", errors.New("the harness takes nothing here")
	}
	before, after, _ := strings.Cut(strings.Replace(form, "EVENT", quote(event), 1)+"\n", "TEXT")
	if !strings.HasPrefix(stdout, before) || !strings.HasSuffix(stdout, after) {
		return "", fmt.Errorf("the answer is not of the form of\n%s", form)
	}
	quoted := stdout[len(before) : len(stdout)-len(after)]
	if err := json.Unmarshal([]byte(quoted), &text); err != nil || quote(text) != quoted {
		return "", fmt.Errorf("its text is not written as JSON is (%v): %s", err, quoted)
	}
	switch escaped := slices.Contains(escapes[harness], event); {
	case escaped && (!strings.HasPrefix(text, "[decklog-") || strings.ContainsAny(text, "<>")):
		return "", errors.New("the harness would escape the text's brackets")
	case !escaped && !strings.HasPrefix(text, "<decklog-"):
		return "", errors.New("the text begins with no tag")
	}
	return text, nil
}

// quote writes a text as JSON, and nothing in it for HTML.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// delivering are the inputs at which a session gets its mail.
var delivering = []string{
	"claude-code/session-start-startup", "claude-code/session-start-resume", "claude-code/session-start-clear", "claude-code/session-start-compact",
	"claude-code/session-start-fork", "claude-code/session-start-agent-type", "claude-code/user-prompt-submit",
	"claude-code/user-prompt-submit-of-a-wake", "claude-code/post-tool-use", "claude-code/post-tool-use-of-mcp",
	"claude-code/post-tool-use-failure", "claude-code/post-tool-batch", "claude-code/stop",
	"codex/session-start-startup", "codex/session-start-resume", "codex/session-start-clear", "codex/session-start-compact",
	"codex/session-start-without-a-transcript", "codex/user-prompt-submit", "codex/post-tool-use", "codex/post-tool-use-of-a-patch", "codex/stop",
	"gemini/before-agent", "gemini/before-agent-of-a-reason", "gemini/after-tool", "gemini/after-tool-of-mcp", "gemini/after-tool-of-an-agent",
	"gemini/after-agent",
	"opencode/chat-message", "opencode/tool-execute-after", "opencode/session-idle",
	"cursor/post-tool-use", "cursor/stop",
}

func TestEachEventIsAnsweredInTheFormThatItsHarnessTakes(t *testing.T) {
	for _, name := range delivering {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.join(session)
			asked := s.request(session, "Which commit fixed the lease test?")
			a := s.hears(name)
			text := a.brings(asked)
			if !instructs(text) {
				t.Errorf("the instruction is not first:\n%s", text)
			}
			if got := s.state(asked); got != events.StateDelivered {
				t.Errorf("what was printed is %s", got)
			}
		})
	}
}

func TestTheNamesOfHarnessesAreThoseThatAreAnswered(t *testing.T) {
	if got := hook.Harnesses(); !slices.Equal(got, []string{"claude-code", "codex", "gemini", "opencode", "cursor"}) || len(takes) != len(got) {
		t.Errorf("harnesses %q", got)
	}
}

func TestNothingIsPrintedWhenNothingWaits(t *testing.T) {
	for _, name := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			session := owner(t, name)
			s.join(session)
			harness, _, _ := strings.Cut(name, "/")
			s.hears(harness+"/user-prompt-submit", of(session), with("transcript_path", "")).text() // the instruction
			if deaf(harness, s.eventOf(name)) {
				s.hears(name).silent() // and what it is owed comes with the next prompt
				return
			}
			if strings.HasSuffix(name, "start-compact") || strings.HasSuffix(name, "start-clear") {
				if text := s.hears(name).brings(); !strings.Contains(text, `form="short"`) {
					t.Fatalf("a session that lost its context is told\n%s", text)
				}
				name = harness + "/session-start-resume"
			}
			s.hears(name, of(session)).silent()
		})
	}
}

func TestWhatIsTheHarnesssOwnAffairIsNotEvenLookedAt(t *testing.T) {
	for harness, names := range others {
		for _, event := range strings.Fields(names) {
			if slices.Contains(ends, event) {
				continue
			}
			s := newStage(t)
			session := s.begin(harness)
			s.request(session, "Is anybody there?")
			opened := s.opened
			s.leavesNothing(harness+" "+event, func() *answer {
				return s.hears(harness+"/user-prompt-submit", with("hook_event_name", event))
			})
			if s.opened != opened {
				t.Errorf("%s %s opened the ledger", harness, event)
			}
		}
	}
	for _, name := range inputs(t) {
		s := newStage(t)
		a := s.hears(name)
		known := append(strings.Fields(others[a.harness]), registers[a.harness]...)
		if _, is := takes[a.harness][a.event]; !is && !slices.Contains(known, a.event) {
			t.Errorf("%s is of an event that %s does not have", name, a.harness)
		}
	}
}

func TestNothingInAnAnswerIsEscapedForHTML(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		s.inform(session, "a <b> & \"c\" 'd' \\ e \u00a0 \U0001F469\u200d\U0001F680")
		stdout := s.hears(harness + "/user-prompt-submit").stdout.String()
		for _, want := range []string{
			`decklog-message id=\"`, `a &lt;b&gt; &amp; \"c\" 'd' \\ e ` + "\u00a0 \U0001F469\u200d\U0001F680",
		} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %s in\n%s", harness, want, stdout)
			}
		}
	}
}

func TestALargeToolResponseChangesNothing(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		s := newStage(t)
		session := s.begin(harness)
		asked := s.request(session, "Are you there?")
		s.hears(harness+"/post-tool-use", with("tool_response", strings.Repeat("日<&\\\"\n", 200<<10/8))).brings(asked)
		s.hears(harness+"/post-tool-use", with("tool_response", strings.Repeat("x", 8<<20))).silent()
	}
}

// The bodies that take the most where they are shown.
var bodies = map[string]string{
	"a few words":                  "Which commit fixed the lease test?",
	"a full body":                  strings.Repeat("plain words and a line\n", 200)[:4000],
	"of quotes":                    strings.Repeat(`"`, 4000),
	"of backslashes":               strings.Repeat(`\`, 4000),
	"of brackets":                  strings.Repeat("<", 4000),
	"of references":                strings.Repeat("&lt;", 1000),
	"of three bytes a character":   strings.Repeat("日本語", 444),
	"of four bytes a character":    strings.Repeat("\U0001F680", 1000),
	"of families":                  strings.Repeat("\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466 ", 150),
	"of look-alikes":               strings.Repeat("\u300a\uff1c", 666),
	"of bidi controls and letters": strings.Repeat("\u202ex", 1000),
	"of line separators":           strings.Repeat("\u2028", 1333),
	"of tag characters":            "x" + strings.Repeat("\U000e0041", 999),
	"of tabs":                      "x" + strings.Repeat("\t", 3998) + "x",
}

func TestATextStaysUnderTheCapOfItsHarnessByItsOwnCount(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		for what, body := range bodies {
			for _, count := range []int{1, 5} {
				t.Run(fmt.Sprintf("%s/%d/%s", harness, count, what), func(t *testing.T) {
					s := newStage(t)
					session := owner(t, harness+"/user-prompt-submit")
					s.join(session)
					var sent []string
					for n := range count {
						text := fmt.Sprintf("%d %s", n, body)
						text = strings.ToValidUTF8(text[:min(len(text), 4000)], "")
						sent = append(sent, string(s.request(session, text))+" 1")
					}
					// Each run brings at least one, in their order, until none waits.
					for first := true; len(sent) > 0; first = false {
						raw := s.hears(harness + "/user-prompt-submit").raw()
						text := tagged(raw)
						if n := size[harness](raw); n >= sizeMax {
							t.Fatalf("%d of %d by the harness's count", n, sizeMax)
						}
						if instructs(text) != first {
							t.Errorf("the instruction comes first, and once:\n%s", text)
						}
						got := ids(text)
						if len(got) == 0 || len(got) > 5 || !slices.Equal(got, sent[:len(got)]) {
							t.Fatalf("brings %q of %q", got, sent)
						}
						if strings.Count(text, "\n</decklog-message>\n") != len(got) || strings.Count(text, "\nReply once, by command line: ") != len(got) {
							t.Errorf("not every frame stands whole:\n%s", text)
						}
						sent = sent[len(got):]
					}
					s.hears(harness + "/user-prompt-submit").silent()
				})
			}
		}
	}
}

func TestTheLongestRefsAndNamesStandWholeUnderTheCap(t *testing.T) {
	for _, harness := range hook.Harnesses() {
		for what, ref := range map[string]string{
			"of letters":    strings.Repeat("x", 507),
			"of ideographs": strings.Repeat("日", 169),
			"of references": strings.Repeat("&", 16) + strings.Repeat("x", 491),
			"of angles":     strings.Repeat("\u226a", 16) + strings.Repeat("x", 459),
			"of slashes":    strings.Repeat(`\`, 16) + strings.Repeat("x", 491),
			"of emoji":      strings.Repeat("\U0001F680", 16) + strings.Repeat("é", 221),
		} {
			t.Run(harness+"/"+what, func(t *testing.T) {
				s := newStage(t)
				session := owner(t, harness+"/user-prompt-submit")
				s.join(session)
				sender := strings.Repeat("b", 200)
				s.join(sender, func(q *ops.JoinRequest) {
					q.Harness, q.Repo, q.Branch = strings.Repeat("h", 256), strings.Repeat("日", 86), strings.Repeat("é", 300)
				})
				refs := slices.Repeat([]string{"file:" + ref}, 10)
				sent := s.send(ops.SendRequest{
					Asker: ops.Asker{As: sender}, To: session, Intent: "request", Refs: refs, Body: []byte(strings.Repeat("日", 1333)),
				})
				a := s.hears(harness + "/user-prompt-submit")
				text := a.brings(sent.ID)
				if n := size[harness](a.raw()); n >= sizeMax {
					t.Errorf("%d of %d by the harness's count", n, sizeMax)
				}
				if n := strings.Count(text, "<decklog-ref address="); n != len(refs) || strings.Contains(text, "…\"/>") || !strings.Contains(text, ` -- "your answer"`) {
					t.Errorf("%d refs in\n%s", n, text)
				}
			})
		}
	}
}

// What is admitted is bounded by what it takes where it is shown, of which the
// deciders know nothing: this is where the two meet.
func TestNoRefIsAdmittedThatGrowsWithoutBoundWhereItIsShown(t *testing.T) {
	// A frame of many runes at once tells which of them stand as references.
	var grow []string
	shown := regexp.MustCompile(`&#x([0-9A-F]+);`)
	for first := rune(0x80); first <= unicode.MaxRune; first += 1 << 12 {
		var runes strings.Builder
		for r := first; r < first+1<<12; r++ {
			if unicode.IsPrint(r) {
				runes.WriteRune(r)
			}
		}
		text := render.Tags.Text(1<<30, "", []render.Item{render.Message{Body: runes.String()}})
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			n, err := strconv.ParseInt(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			grow = append(grow, string(rune(n)))
		}
	}
	if len(grow) < 90 {
		t.Fatalf("only %d runes stand as references: %q", len(grow), grow)
	}
	s := newStage(t)
	s.join(kay)
	s.join(bob)
	for _, r := range append(grow, "&", `\`) {
		_, refusal, err := s.Send(ops.SendRequest{
			Asker: ops.Asker{As: bob}, To: kay, Body: []byte("x"), Refs: []string{"file:" + strings.Repeat(r, 17)},
		})
		if err != nil || refusal == nil || refusal.Code != commands.BadRequest {
			t.Errorf("a ref with 17 of %q (%U) is admitted: %+v %v", r, []rune(r), refusal, err)
		}
	}
}
