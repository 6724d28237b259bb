package hook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
	"decklog/projections"
)

// transcript is a session's, which the test writes as its harness does.
type transcript struct {
	t    *testing.T
	file string
}

func newTranscript(t *testing.T, first string) transcript {
	w := transcript{t, filepath.Join(t.TempDir(), "transcript.jsonl")}
	if first != "" {
		w.add(first)
	}
	return w
}

func (w transcript) add(line string) {
	w.t.Helper()
	f, err := os.OpenFile(w.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	f.Close()
}

// here says where the transcript is, to a hook.
func (w transcript) here() change { return with("transcript_path", w.file) }

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// byClaude is the line in which Claude Code writes down what a hook brought.
func byClaude(session, event, text string) string {
	return fmt.Sprintf(`{"type":"attachment","sessionId":%q,"uuid":"u1","attachment":{"type":"hook_additional_context","hookEvent":%q,"content":[%s]}}`, session, event, quoted(text))
}

func (s *stage) reads(message events.MessageID, want bool) {
	s.t.Helper()
	view, r, err := s.Thread(ops.ThreadRequest{ID: string(message)})
	if r != nil || err != nil {
		s.t.Fatalf("%v %v", r, err)
	}
	var shown projections.ShownInThread
	for _, m := range view.Messages {
		if m.ID == message {
			shown = m
		}
	}
	if read := shown.Deliveries[len(shown.Deliveries)-1].Read != nil; read != want || want != (shown.State == events.StateRead) {
		s.t.Errorf("message %s is %s, and read: %t", message, shown.State, read)
	}
}

func TestWhatAHookBroughtIsReadOnceItsHarnessWroteItDown(t *testing.T) {
	// Each says how its harness writes down the text of a prompt's and a stop's hook.
	for harness, c := range map[string]struct {
		first  string
		prompt func(session, text string) string
		stop   func(session, text string) string
	}{
		"claude-code": {
			prompt: func(session, text string) string { return byClaude(session, "UserPromptSubmit", text) },
			stop:   func(session, text string) string { return byClaude(session, "Stop", text) },
		},
		"codex": {
			first: fmt.Sprintf(`{"type":"session_meta","payload":{"id":%q,"cwd":"/w/demo","cli_version":"0.171.0"}}`, kay),
			prompt: func(_, text string) string {
				return fmt.Sprintf(`{"type":"response_item","payload":{"type":"message","id":"m1","role":"developer","content":[{"text":%s}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["hooks.additional_context"]}}}`, quoted(text))
			},
			stop: func(_, text string) string {
				return fmt.Sprintf(`{"type":"response_item","payload":{"type":"message","id":"m2","role":"user","content":[{"text":%s}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["unknown"],"content_item_metadata":[{"provenance":{"type":"harness","hook":true}}]}}}`, quoted(`<hook_prompt hook_run_id="stop:1">`+text+"</hook_prompt>"))
			},
		},
	} {
		t.Run(harness, func(t *testing.T) {
			s := newStage(t)
			session := s.begin(harness)
			w := newTranscript(t, c.first)
			told, asked := s.inform(session, "By the way"), s.request(session, "Which commit?")
			text := s.hears(harness+"/user-prompt-submit", w.here()).brings(told, asked)
			s.hears(harness+"/post-tool-use", w.here()).silent()
			s.reads(told, false)
			w.add(c.prompt(session, text))
			s.hears(harness+"/post-tool-use", w.here()).silent()
			s.reads(told, true)
			s.reads(asked, true)

			last := s.request(session, "Is it pushed?")
			held := s.hears(harness+"/stop", w.here())
			w.add(c.stop(session, held.text()))
			s.hears(harness+"/stop-hook-active", w.here()).silent()
			s.reads(last, true)
		})
	}
}

// begun is a session of Claude Code that was brought a request.
func begun(t *testing.T) (s *stage, w transcript, asked events.MessageID, text string) {
	s = newStage(t)
	s.begin("claude-code")
	w, asked = newTranscript(t, ""), s.request(ada, "Which commit?")
	return s, w, asked, s.hears("claude-code/user-prompt-submit", w.here()).brings(asked)
}

func TestWhatWasNeverDeliveredIsNeverRead(t *testing.T) {
	s := newStage(t)
	s.begin("claude-code")
	w, asked := newTranscript(t, ""), s.request(ada, "Which commit?")
	var printed string
	s.stdout = func(to io.Writer) io.Writer { return broken{} }
	s.hears("claude-code/user-prompt-submit", w.here())
	s.stdout = func(to io.Writer) io.Writer { return to }
	s.after(10 * time.Second)
	printed = s.hears("claude-code/post-tool-use", w.here()).text() // the second attempt
	w.add(byClaude(ada, "UserPromptSubmit", fmt.Sprintf("<decklog-message id=%q attempt=\"1\">\nWhich commit?\n</decklog-message>", asked)))
	s.hears("claude-code/post-tool-use", w.here()).silent()
	s.reads(asked, false)
	w.add(byClaude(ada, "PostToolUse", printed))
	s.hears("claude-code/post-tool-use", w.here()).silent()
	s.reads(asked, true)
}

func TestACopyOfATranscriptReadsNothingForTheSessionThatHasIt(t *testing.T) {
	s, w, asked, text := begun(t)
	w.add(byClaude(ada, "UserPromptSubmit", text))
	s.hears("claude-code/session-start-fork", w.here()).text()
	s.hears("claude-code/user-prompt-submit", of(forked), w.here()).silent()
	s.reads(asked, false)
	s.hears("claude-code/stop", w.here()).silent()
	s.reads(asked, true)
}

func TestTheEndOfASessionIsTheLastLook(t *testing.T) {
	s, w, asked, text := begun(t)
	w.add(byClaude(ada, "UserPromptSubmit", text))
	s.hears("claude-code/session-end-other", w.here()).silent()
	s.reads(asked, true)
}

func TestADayLaterNobodyLooksAnyMore(t *testing.T) {
	s, w, asked, text := begun(t)
	w.add(byClaude(ada, "UserPromptSubmit", text))
	s.after(24 * time.Hour)
	s.hears("claude-code/stop", w.here()).silent()
	s.reads(asked, false)
}

func TestWhatIsYetToBeFoundIsLookedForOnceAMinute(t *testing.T) {
	s := newStage(t)
	s.bells = bell.Beside(t.TempDir())
	s.World.Bells = s.bells
	s.begin("claude-code")
	asked := s.request(ada, "Which commit?")
	w := newTranscript(t, "") // which is not there yet
	text := s.hears("claude-code/user-prompt-submit", w.here()).brings(asked)
	s.hears("claude-code/post-tool-use", w.here()).silent()
	w.add(byClaude(ada, "UserPromptSubmit", text))
	s.after(bell.LookEvery - time.Second)
	s.hears("claude-code/post-tool-use", w.here()).silent()
	s.reads(asked, false)
	s.after(time.Second)
	s.hears("claude-code/post-tool-use", w.here()).silent()
	s.reads(asked, true)
}

func TestAReadIsRefusedThatNoLeaseOfTheSessionBearsOut(t *testing.T) {
	s, _, asked, _ := begun(t)
	sought, err := s.Sought(ada)
	if err != nil || len(sought) != 1 || sought[0].Hook != "UserPromptSubmit" {
		t.Fatalf("sought: %+v, %v", sought, err)
	}
	s.join(bob)
	for what, q := range map[string]ops.ReadRequest{
		"of another session": {As: bob, Lease: sought[0].Lease, Seen: seen(asked, 1)},
		"of no lease":        {As: ada, Lease: "none", Seen: seen(asked, 1)},
		"of another attempt": {As: ada, Lease: sought[0].Lease, Seen: seen(asked, 2)},
		"of another message": {As: ada, Lease: sought[0].Lease, Seen: seen("none", 1)},
	} {
		if r, err := s.Read(q); r == nil || err != nil {
			t.Errorf("a read %s: %v, %v", what, r, err)
		}
		s.reads(asked, false)
	}
	for range 2 {
		if r, err := s.Read(ops.ReadRequest{As: ada, Lease: sought[0].Lease, Harness: "claude-code", Transcript: "/t", Seen: append(seen(asked, 1), seen(asked, 1)...)}); r != nil || err != nil {
			t.Fatalf("%v %v", r, err)
		}
	}
	s.reads(asked, true)
	if sought, err := s.Sought(ada); err != nil || len(sought) > 0 {
		t.Errorf("found, and still sought: %+v, %v", sought, err)
	}
}

func seen(m events.MessageID, attempt int) []commands.Seen {
	return []commands.Seen{{Message: m, Attempt: attempt}}
}
