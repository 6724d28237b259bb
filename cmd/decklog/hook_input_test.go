package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"decklog/internal/notes"
)

// repeated is n times the same text, made while it is read.
func repeated(text string, n int) io.Reader {
	block := strings.Repeat(text, 1+(1<<16)/len(text))
	return io.LimitReader(&cycle{text: block}, int64(n)*int64(len(text)))
}

type cycle struct {
	text string
	at   int
}

func (c *cycle) Read(p []byte) (int, error) {
	n := copy(p, c.text[c.at:])
	c.at = (c.at + n) % len(c.text)
	return n, nil
}

// wrongInput is what no harness should ever write to a hook, with the code of
// the fault that it leaves.
var wrongInput = map[string]struct {
	code  string
	stdin func() io.Reader
}{
	"nothing":                   {"bad_input", says("")},
	"blanks":                    {"bad_input", says(" \n\t ")},
	"no JSON":                   {"bad_input", says("Segmentation fault (core dumped)\n")},
	"bytes":                     {"bad_input", says("\x00\xff\xfe\x80{}")},
	"null":                      {"bad_input", says("null")},
	"a number":                  {"bad_input", says("17")},
	"a list":                    {"bad_input", says(`[{"hook_event_name":"Stop","session_id":"taker-02"}]`)},
	"an empty object":           {"bad_input", says("{}")},
	"two objects":               {"bad_input", says(stdinOf("Stop", "taker-02", nil) + stdinOf("Stop", "taker-02", nil))},
	"nested without end":        {"bad_input", func() io.Reader { return repeated("[", 200_000) }},
	"an object without end":     {"bad_input", func() io.Reader { return repeated(`{"a":`, 200_000) }},
	"UTF-16":                    {"bad_input", says("\xff\xfe{\x00}\x00")},
	"no event":                  {"bad_input", says(`{"session_id":"taker-02","cwd":"/"}`)},
	"no session":                {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","cwd":"/"}`)},
	"an empty session":          {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":""}`)},
	"an event that is a number": {"bad_input", says(`{"hook_event_name":7,"session_id":"taker-02"}`)},
	"a session that is a list":  {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":["taker-02"]}`)},
	"a session that is null":    {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":null}`)},
	"a session of two lines":    {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":"taker-02\nx"}`)},
	"a session that is a seat":  {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":"@smith"}`)},
	"a session without end":     {"bad_input", says(`{"hook_event_name":"UserPromptSubmit","session_id":"` + strings.Repeat("s", 100_000) + `"}`)},
	"an unknown event":          {"unknown_event", says(`{"hook_event_name":"UserPromptWithdrawn","session_id":"taker-02"}`)},
	"an event of another case":  {"unknown_event", says(`{"hook_event_name":"userpromptsubmit","session_id":"taker-02"}`)},
	"65 MiB of blanks":          {"bad_input", func() io.Reader { return repeated(" ", 65<<20) }},
	"65 MiB of a prompt": {"bad_input", func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"session_id":"taker-02","hook_event_name":"UserPromptSubmit","prompt":"`),
			repeated("go on ", 11<<20), strings.NewReader(`"}`))
	}},
}

func says(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

// doors are the harnesses, each with the program that runs its hook: the full
// one, or the small one that looks at the bell first.
func doors() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, harness := range hooked {
			if !yield(harness, false) || !yield(harness, true) {
				return
			}
		}
	}
}

// F41: whatever a hook reads, it ends well, prints nothing, changes nothing, and
// says why on standard error and beside the ledger.
func TestF41WrongInputTroublesNoHarnessAndIsNoted(t *testing.T) {
	for harness, small := range doors() {
		t.Run(fmt.Sprint(harness, " by decklog-hook ", small), func(t *testing.T) {
			m := aboard(t)
			m.first = small
			m.hook(harness, "SessionStart", "taker-02")
			m.join("sender-01")
			id := m.send("sender-01", "taker-02", "still to come")
			before := m.events()
			for name, c := range wrongInput {
				expectFault(t, m, name, c.code, harness, c.stdin())
			}
			// An input that is cut anywhere is no input.
			whole := stdinOf("UserPromptSubmit", "taker-02", map[string]any{"prompt": "é👩\u200d👧\n\"quoted\""})
			for n := 1; n < len(whole); n += 7 {
				expectFault(t, m, whole[:n], "bad_input", harness, strings.NewReader(whole[:n]))
			}
			if after := m.events(); len(after) != len(before) {
				t.Errorf("%d events became %d", len(before), len(after))
			}
			r, err := finish(m.hookCommand(harness), strings.NewReader(whole))
			m.ok(err)
			if text := contextOf(t, "UserPromptSubmit", r.stdout); !strings.Contains(text, id) {
				t.Errorf("message %s did not come: %q", id, text)
			}
			m.verified()
		})
	}
}

// expectFault runs a hook that must end well, print nothing, and note one fault.
func expectFault(t *testing.T, m *machine, what, code, harness string, stdin io.Reader) notes.Fault {
	t.Helper()
	before := len(m.noted())
	r, err := finish(m.hookCommand(harness), stdin)
	if err != nil && !strings.Contains(err.Error(), "broken pipe") {
		t.Fatal(err)
	}
	if r.code != 0 || len(r.stdout) > 0 || !bytes.Contains(r.stderr, []byte(code)) || len(r.stderr) > 4000 {
		t.Errorf("%.80q: %s", what, r)
	}
	noted := m.noted()
	if len(noted) != before+1 {
		t.Errorf("%.80q: %d faults were noted", what, len(noted)-before)
		return notes.Fault{}
	}
	fault := noted[len(noted)-1]
	if fault.Code != code || fault.Harness != harness || fault.What == "" {
		t.Errorf("%.80q: noted as %+v, want %s", what, fault, code)
	}
	return fault
}

// F41: what is missing or of another type, and is not needed, is done without.
func TestF41AnInputWithOnlyWhatIsNeededIsEnough(t *testing.T) {
	for harness, small := range doors() {
		m := aboard(t)
		m.first = small
		m.join("sender-01")
		for name, start := range map[string]string{
			"bare":        `{"session_id":"bare-session","hook_event_name":"SessionStart"}`,
			"wrong types": `{"session_id":"typed-session","hook_event_name":"SessionStart","cwd":7,"source":[],"transcript_path":{},"session_title":1.5,"agent_id":null,"stop_hook_active":"yes"}`,
			"twice":       `{"session_id":"first-session","hook_event_name":"Stop","session_id":"twice-session","hook_event_name":"SessionStart"}`,
			"more":        `{"session_id":"new-session","hook_event_name":"SessionStart","hook_version":99,"nested":{"session_id":"other"}}`,
		} {
			r, err := finish(m.hookCommand(harness), strings.NewReader(start))
			m.ok(err)
			if text := contextOf(t, "SessionStart", r.stdout); r.code != 0 || len(r.stderr) > 0 || !strings.Contains(text, "decklog-instruction") {
				t.Errorf("%s, %s: %s", harness, name, r)
			}
		}
		for _, session := range []string{"bare-session", "typed-session", "twice-session", "new-session"} {
			m.send("sender-01", session, "are you there?")
		}
		if noted := m.noted(); len(noted) > 0 {
			t.Errorf("noted: %+v", noted)
		}
	}
}

// F41: a harness that nobody knows is told so, and goes on.
func TestF41AnUnknownHarnessIsToldAndGoesOn(t *testing.T) {
	m := aboard(t)
	for _, args := range [][]string{{"hook"}, {"hook", "emacs"}, {"hook", ""}} {
		r := m.run(strings.NewReader(stdinOf("SessionStart", "taker-02", nil)), args...)
		if r.code != 0 || len(r.stdout) > 0 || len(r.stderr) == 0 {
			t.Errorf("%q: %s", args, r)
		}
	}
}
