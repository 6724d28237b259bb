package hook_test

import (
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/notes"
)

// In Gemini CLI nothing in a hook's input tells a subagent's tool from one of
// the session's own: only that it comes while the session lets one work.
func TestASubagentOfGeminiTakesNothing(t *testing.T) {
	s := newStage(t)
	s.begin("gemini")
	asked := s.request(gem, "Which commit fixed the lease test?")
	s.hears("gemini/before-tool-of-an-agent").silent()
	s.hears("gemini/after-tool").silent()
	s.hears("gemini/after-tool-of-mcp").silent()
	if got := s.state(asked); got != events.StateQueued {
		t.Errorf("the message is %s", got)
	}
	s.hears("gemini/after-tool-of-an-agent").brings(asked) // that is the session's own again
	next := s.request(gem, "And which one broke it?")
	s.hears("gemini/after-tool").brings(next)
}

func TestASubagentWhoseEndWasMissedKeepsNoMailBackFromTheNextPromptOrStop(t *testing.T) {
	for _, name := range []string{"gemini/before-agent", "gemini/after-agent"} {
		s := newStage(t)
		s.begin("gemini")
		s.hears("gemini/before-tool-of-an-agent").silent()
		asked := s.request(gem, "Are you there?")
		s.hears(name).brings(asked)
		next := s.request(gem, "Still there?")
		s.hears("gemini/after-tool").brings(next)
	}
}

func TestTheEndOfASubagentIsNotedThoughTheBellIsSilent(t *testing.T) {
	s := newStage(t)
	s.begin("gemini")
	s.bells = bell.Beside(t.TempDir())
	s.hears("gemini/before-tool-of-an-agent").silent()
	if err := s.bells.Silence(gem, nil); err != nil {
		t.Fatal(err)
	}
	s.hears("gemini/after-tool-of-an-agent").silent()
	if err := s.bells.Ring(gem); err != nil {
		t.Fatal(err)
	}
	asked := s.request(gem, "Are you there?")
	s.hears("gemini/after-tool").brings(asked)
}

func TestASessionThatEndedOrTakesNoPartIsNotMarkedForItsSubagent(t *testing.T) {
	s := newStage(t)
	s.notes = notes.Open(t.TempDir())
	s.begin("gemini")
	s.hears("gemini/before-tool-of-an-agent").silent()
	if !s.notes.Delegating(gem) {
		t.Fatal("nothing is noted of the subagent")
	}
	s.after(time.Second)
	s.hears("gemini/session-end-exit").silent()
	if s.notes.Delegating(gem) {
		t.Error("the session that ended has a subagent")
	}

	private := newStage(t)
	private.notes = notes.Open(t.TempDir())
	private.policy.Sessions.Ignore = []string{"/w"}
	private.hears("gemini/before-tool-of-an-agent").silent()
	if private.notes.Delegating(gem) {
		t.Error("a session that takes no part left a trace")
	}
}

// What would arrive nowhere, or in place of something else, is not delivered.
func TestWhereAHarnessTakesNoTextNothingIsDelivered(t *testing.T) {
	for harness, names := range map[string][]string{
		"gemini": {"session-start-startup", "session-start-resume", "session-start-clear"}, "opencode": {"session-created", "session-compacted"},
		"cursor": {"session-start", "before-submit-prompt"},
	} {
		for _, name := range names {
			s := newStage(t)
			session := owner(t, harness+"/"+name)
			s.join(session)
			asked := s.request(session, "Are you there?")
			s.hears(harness + "/" + name).silent()
			if got := s.state(asked); got != events.StateQueued {
				t.Errorf("%s/%s: the message is %s", harness, name, got)
			}
			if e := s.peer(session); !e.Live {
				t.Errorf("%s/%s: %+v", harness, name, e)
			}
			if text := s.hears(harness + "/post-tool-use").brings(asked); !instructs(text) {
				t.Errorf("%s/%s: then it is told\n%s", harness, name, text)
			}
		}
	}
}

// Somebody who breaks a turn off does not want another.
func TestATurnThatWasBrokenOffOrFailedIsNotHeld(t *testing.T) {
	for _, name := range []string{"opencode/session-idle-broken-off", "cursor/stop-aborted", "cursor/stop-held", "opencode/session-idle-held"} {
		s := newStage(t)
		harness, _, _ := strings.Cut(name, "/")
		session := s.begin(harness)
		asked := s.request(session, "Are you there?")
		s.hears(name).silent()
		if p := s.peer(session); p.Busy {
			t.Errorf("%s: it is shown as %+v", name, p)
		}
		s.hears(harness + "/user-prompt-submit").brings(asked)
	}
}

func TestASessionOfCursorWorksInTheFirstOfItsFolders(t *testing.T) {
	s := newStage(t)
	s.hears("cursor/session-start", with("workspace_roots", []string{"/w/demo", "/w/other"})).silent()
	if e := s.joinedIn(cur); e.Cwd != "/w/demo" || e.Harness != "cursor" {
		t.Errorf("it joined as %+v", e)
	}
}

func TestAfterACompactionOpencodeIsToldInShort(t *testing.T) {
	s := newStage(t)
	s.begin("opencode")
	s.hears("opencode/session-compacted").silent()
	text := s.hears("opencode/chat-message").text()
	if !strings.Contains(text, `form="short"`) {
		t.Errorf("it is told\n%s", text)
	}
}
