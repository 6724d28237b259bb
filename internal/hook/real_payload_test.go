package hook_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"decklog/events"
	"decklog/internal/callers"
	"decklog/internal/stamp"
)

// The inputs under testdata/real are what the real programs said to a hook, as
// `make live LIVE='-capture internal/hook/testdata/real'` wrote them.

// fields are the paths of an answer's fields, of which a harness takes exactly these.
var (
	asContext = []string{"hookSpecificOutput", "hookSpecificOutput.additionalContext", "hookSpecificOutput.hookEventName"}
	asReason  = []string{"decision", "reason"}
	asPart    = []string{"part"} // of what its plugin answers to opencode
	asOutput  = []string{"output"}
	asPrompt  = []string{"prompt"}
)

// realAnswers are the kinds of real input at which mail is delivered; at every
// other there is no answer.
var realAnswers = map[string]map[string][]string{
	"claude-code": {
		"session-start-startup": asContext, "session-start-resume": asContext, "session-start-clear": asContext, "session-start-compact": asContext,
		"session-start-fork": asContext,
		"user-prompt-submit": asContext, "post-tool-use": asContext, "post-tool-use-of-agent": asContext, "post-tool-use-failure": asContext,
		"post-tool-batch": asContext, "stop": asContext,
		"post-tool-use-of-mcp--decklog--decklog-send": asContext, "post-tool-use-failure-of-mcp--decklog--decklog-send": asContext,
	},
	"codex": {
		"session-start-startup": asContext, "session-start-resume": asContext, "session-start-clear": asContext, "session-start-compact": asContext,
		"session-start-fork": asContext,
		"user-prompt-submit": asContext, "post-tool-use": asContext, "post-tool-use-of-spawn-agent": asContext,
		"post-tool-use-of-multi-agent-v1wait-agent": asContext, "post-tool-use-of-mcp--decklog--decklog-send": asContext, "stop": asReason,
	},
	"gemini": {
		"before-agent": asContext, "after-tool": asContext, "after-tool-of-invoke-agent": asContext, "after-agent": asReason,
		"after-tool-of-mcp-decklog-decklog-send": asContext,
		// Nothing in these tells of the subagent: what came before does.
		"after-tool-in-a-subagent": asContext, "after-tool-of-complete-task-in-a-subagent": asContext,
		"after-tool-of-mcp-decklog-decklog-send-in-a-subagent": asContext,
	},
	"opencode": {
		"chat-message": asPart, "tool-execute-after": asOutput, "tool-execute-after-of-task": asOutput, "session-idle": asPrompt,
	},
}

// realInput is one that a real program gave to a hook.
type realInput struct {
	harness, kind string
	text          []byte
	event         string
	session       string
	agent         string
}

func realInputs(t *testing.T) (all []realInput) {
	t.Helper()
	files, err := filepath.Glob("testdata/real/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		in := realInput{harness: filepath.Base(filepath.Dir(file)), kind: strings.TrimSuffix(filepath.Base(file), ".json")}
		if in.text, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		var said struct {
			Event   string `json:"hook_event_name"`
			Session string `json:"session_id"`
			Agent   string `json:"agent_id"`
		}
		if err := json.Unmarshal(in.text, &said); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		in.event, in.session, in.agent = said.Event, said.Session, said.Agent
		seen[in.harness+"/"+in.kind] = true
		all = append(all, in)
	}
	for harness, kinds := range realAnswers {
		for kind := range kinds {
			if !seen[harness+"/"+kind] {
				t.Errorf("there is no %s/%s", harness, kind)
			}
		}
	}
	return all
}

// realFields are the paths of the fields in a document, sorted.
func realFields(document map[string]any, under string) (paths []string) {
	for name, value := range document {
		paths = append(paths, under+name)
		if inner, is := value.(map[string]any); is {
			paths = append(paths, realFields(inner, under+name+".")...)
		}
	}
	slices.Sort(paths)
	return paths
}

func TestWhatTheRealProgramsSayIsAnsweredWithExactlyTheFieldsThatTheyTake(t *testing.T) {
	for _, in := range realInputs(t) {
		t.Run(in.harness+"/"+in.kind, func(t *testing.T) {
			s := newStage(t)
			s.join(in.session)
			asked := s.request(in.session, "Which commit fixed the lease test?")
			a := s.hook(in.harness, string(in.text))
			if a.stderr.Len() > 0 {
				t.Fatalf("the hook complains: %s", a.stderr.String())
			}
			want, answers := realAnswers[in.harness][in.kind]
			if !answers {
				if a.stdout.Len() > 0 {
					t.Fatalf("the hook answers %s", a.stdout.String())
				}
				if got := s.state(asked); got != events.StateQueued {
					t.Errorf("the message is %s", got)
				}
				return
			}
			var document map[string]any
			d := json.NewDecoder(bytes.NewReader(a.stdout.Bytes()))
			if err := d.Decode(&document); err != nil || d.More() {
				t.Fatalf("the answer is not one JSON object (%v): %s", err, a.stdout.String())
			}
			if got := realFields(document, ""); !slices.Equal(got, want) {
				t.Fatalf("the answer has the fields %q, not %q", got, want)
			}
			text, _ := document[want[len(want)-1]].(string)
			if specific, is := document["hookSpecificOutput"].(map[string]any); is {
				text, _ = specific["additionalContext"].(string)
				if specific["hookEventName"] != in.event {
					t.Errorf("the answer is to %v, not to %s", specific["hookEventName"], in.event)
				}
			} else if want := map[string]any{"codex": "block", "gemini": "deny"}[in.harness]; document["decision"] != want {
				t.Errorf("the decision is %v", document["decision"])
			}
			if n := strings.Count(text, `decklog-message id="`+string(asked)+`"`); n != 1 {
				t.Errorf("the message is %d times in\n%s", n, text)
			}
			if got := s.state(asked); got != events.StateDelivered {
				t.Errorf("the message is %s", got)
			}
		})
	}
}

func TestARealSubagentTakesNothing(t *testing.T) {
	tried := map[string]int{}
	for _, in := range realInputs(t) {
		if in.agent == "" {
			continue
		}
		tried[in.harness]++
		if realAnswers[in.harness][in.kind] != nil {
			t.Errorf("%s/%s is of a subagent, and answered", in.harness, in.kind)
		}
		s := newStage(t)
		s.join(in.session)
		s.request(in.session, "Which commit fixed the lease test?")
		if a := s.hook(in.harness, string(in.text)); a.stdout.Len() > 0 || a.stderr.Len() > 0 {
			t.Errorf("%s/%s: %s%s", in.harness, in.kind, a.stdout.String(), a.stderr.String())
		}
	}
	if len(tried) != 3 { // nothing that Gemini says tells of one
		t.Errorf("tried %v", tried)
	}
}

func TestTheRealProgramsEndASession(t *testing.T) {
	for _, in := range realInputs(t) {
		if in.event != "SessionEnd" && in.event != "dispose" {
			continue
		}
		s := newStage(t)
		s.join(in.session)
		s.hook(in.harness, string(in.text))
		if s.peer(in.session).Live {
			t.Errorf("%s/%s: the session lives on", in.harness, in.kind)
		}
	}
}

// ofAMachine is what an input must not have kept: another home than ana's, a
// temporary folder, an id that was not made up, a key.
var ofAMachine = regexp.MustCompile(`/root|/home/[^a]|/Users/|/var/|[^i]/tmp/.|sk-|127\.0\.0\.1|token"|API_KEY|password`)

func TestTheRealInputsTellNothingOfTheMachineThatTheyCameFrom(t *testing.T) {
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	for _, in := range realInputs(t) {
		if found := ofAMachine.Find(in.text); found != nil {
			t.Errorf("%s/%s has %q", in.harness, in.kind, found)
		}
		real := map[string]bool{}
		for _, id := range ids.FindAllString(string(in.text), -1) {
			if !strings.HasPrefix(id, "11110000-0000-") && !strings.HasPrefix(id, "22220000-0000-") {
				real[id] = true
			}
		}
		if len(real) > 0 {
			t.Errorf("%s/%s has the ids %q", in.harness, in.kind, slices.Sorted(maps.Keys(real)))
		}
	}
}

func TestARealCallOfDecklogsToolIsStampedForTheSessionThatMakesIt(t *testing.T) {
	before := regexp.MustCompile(`^(pre-tool-use|before-tool|tool-execute-before)-of-.*decklog-send`)
	signed := regexp.MustCompile(`v1\.[\w-]+\.[\w-]+`)
	tried := map[string]int{}
	for _, in := range realInputs(t) {
		if !before.MatchString(in.kind) {
			continue
		}
		tried[in.harness]++
		var said struct {
			Input json.RawMessage `json:"tool_input"`
			Use   string          `json:"tool_use_id"`
		}
		if err := json.Unmarshal(in.text, &said); err != nil {
			t.Fatal(err)
		}
		s, c := newStage(t), callers.Beside(t.TempDir())
		run, a := s.run(in.harness, bytes.NewReader(in.text))
		run.Callers = c
		run.Do()
		key, err := c.Key()
		if err != nil {
			t.Fatalf("%s/%s: %v", in.harness, in.kind, err)
		}
		claim, err := stamp.Verify(key, signed.FindString(a.stdout.String()), "decklog_send", said.Use, said.Input, s.now.Std())
		if err != nil || claim.Session != in.session || claim.Agent != in.agent {
			t.Errorf("%s/%s: the stamp says %+v (%v) in %s", in.harness, in.kind, claim, err, a.stdout.String())
		}
	}
	if len(tried) != 4 {
		t.Errorf("tried %v", tried)
	}
}
