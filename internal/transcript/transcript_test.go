package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"decklog/internal/render"
	"decklog/internal/transcript"
)

// Whose the transcripts in testdata are. Those of Claude Code and Codex were
// written by the real programs, without what no reader looks at.
const (
	ada = "92caf3a4-c3a8-4a18-8a86-e66840ed3838"
	kay = "01a22dea-36df-7141-a35d-9dcfd8a3102a"
	gem = "edacf08d-42d6-42f4-b7cd-6c9298ee183d"
	oak = "ses_0001"
)

var owner = map[string]string{"claude-code": ada, "codex": kay, "gemini": gem}

// look reads a transcript and lists each frame with the event that brought it,
// and how often it was tried.
func look(t testing.TB, s transcript.Source, from transcript.Mark) (found []string, to transcript.Mark) {
	t.Helper()
	to, err := s.Read(from, func(c transcript.Context) {
		for _, f := range render.Frames(c.Text) {
			found = append(found, fmt.Sprintf("%s %.8s %d", c.Hook, f.ID, f.Attempt))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, to
}

func (s stored) source() transcript.Source {
	return transcript.Source{Harness: s.harness, File: s.file, Session: owner[s.harness]}
}

// stored is a transcript of a harness, in a file of the test's own.
type stored struct {
	harness, file string
	text          []byte
}

func sample(t testing.TB, harness string) stored {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", harness+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := stored{harness: harness, file: filepath.Join(t.TempDir(), "transcript.jsonl"), text: text}
	s.write(t, text)
	return s
}

func (s stored) write(t testing.TB, text []byte) {
	t.Helper()
	if err := os.WriteFile(s.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

var wanted = map[string][]string{
	"claude-code": {
		"UserPromptSubmit 28a4f2ed 1", "PostToolUse e3b20e53 1", "UserPromptSubmit 2b16bdce 1", "Stop ae04676f 1",
		"UserPromptSubmit 72577f5f 1", "UserPromptSubmit 07b0628e 1", "PostToolUse 97224f75 1", "PostToolUseFailure 13cada52 1",
	},
	"codex": {
		" f78d275f 1", " a82ea786 1", " 39391028 1", "Stop c72e6499 1", " a4a385c5 1", " dfae52d1 1", " 794998d1 1", " c985da69 1",
	},
	"gemini": {"BeforeAgent m-Before 1", "BeforeAgent m-Before 3"},
}

func TestWhatAHookBroughtIsFoundOnceInEachHarnessesOwnTranscript(t *testing.T) {
	for harness, want := range wanted {
		s := sample(t, harness)
		if got, to := look(t, s.source(), transcript.Mark{}); !slices.Equal(got, want) || to.Offset != int64(len(s.text)) {
			t.Errorf("%s up to %d of %d:\n%s\nwant\n%s", harness, to.Offset, len(s.text), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		_, err := s.source().Read(transcript.Mark{}, func(c transcript.Context) {
			record, _, _ := bytes.Cut(s.text[c.Offset:], []byte("\n"))
			if c.Record == "" || !bytes.HasPrefix(record, []byte("{")) || !bytes.Contains(record, []byte(c.Record)) {
				t.Errorf("%s: at %d there is no record %s: %.80s", harness, c.Offset, c.Record, record)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

const quoted = `<decklog-message id=\"m-quoted\" attempt=\"1\">\nbody\n</decklog-message>`

func TestWhatSomebodySaidOrQuotedIsNoHooksText(t *testing.T) {
	for harness, lines := range map[string][]string{
		"claude-code": {
			`{"type":"user","sessionId":"` + ada + `","uuid":"u","message":{"role":"user","content":"` + quoted + `"}}`,
			`{"type":"user","sessionId":"` + ada + `","uuid":"u","message":{"role":"user","content":[{"type":"tool_result","content":"` + quoted + `"}]}}`,
			`{"type":"user","sessionId":"` + ada + `","uuid":"u","message":{"role":"user","content":"x"},"toolUseResult":{"attachment":{"type":"hook_additional_context","content":["` + quoted + `"]}}}`,
			`{"type":"assistant","sessionId":"` + ada + `","uuid":"u","message":{"role":"assistant","content":[{"type":"text","text":"` + quoted + `"}]}}`,
			`{"type":"attachment","sessionId":"` + ada + `","uuid":"u","attachment":{"type":"hook_success","hookEvent":"Stop","content":"` + quoted + `","stdout":"` + quoted + `"}}`,
			`{"type":"attachment","sessionId":"` + ada + `","uuid":"u","attachment":{"type":"file","content":["` + quoted + `"]}}`,
			`{"type":"attachment","sessionId":"` + ada + `","uuid":"u","isSidechain":true,"attachment":{"type":"hook_additional_context","hookEvent":"Stop","content":["` + quoted + `"]}}`,
			`{"type":"attachment","sessionId":"another","uuid":"u","attachment":{"type":"hook_additional_context","hookEvent":"Stop","content":["` + quoted + `"]}}`,
			`{"type":"attachment","sessionId":"` + ada + `","uuid":"u","attachment":{"type":"hook_additional_context","hookEvent":"Stop","content":["Another hook says: ` + quoted + `"]}}`,
			`{"type":"attachment","sessionId":"` + ada + `","uuid":"u","attachment":{"type":"hook_additional_context","hookEvent":"Stop","content":{"text":"` + quoted + `"}}}`,
			`{"type":"system","subtype":"stop_hook_summary","sessionId":"` + ada + `","hookAdditionalContext":["` + quoted + `"]}`,
			`{"type":"queue-operation","sessionId":"` + ada + `","content":"` + quoted + `"}`,
		},
		"codex": {
			`{"type":"response_item","payload":{"type":"message","id":"m","role":"user","content":[{"text":"` + quoted + `"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["user.text"]}}}`,
			`{"type":"response_item","payload":{"type":"message","id":"m","role":"developer","content":[{"text":"` + quoted + `"}]}}`,
			`{"type":"response_item","payload":{"type":"message","id":"m","role":"user","content":[{"text":"<hook_prompt hook_run_id=\"stop:1\">` + quoted + `</hook_prompt>"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["unknown"],"content_item_metadata":[{"provenance":{"type":"user"}}]}}}`,
			`{"type":"response_item","payload":{"type":"message","id":"m","role":"user","content":[{"text":"x"},{"text":"` + quoted + `"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["hooks.additional_context"]}}}`,
			`{"type":"response_item","payload":{"type":"message","id":"m","role":"assistant","content":[{"text":"` + quoted + `"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["model"]}}}`,
			`{"type":"response_item","payload":{"type":"function_call_output","id":"m","output":"` + quoted + `","internal_chat_message_metadata_passthrough":{"content_item_kinds":["hooks.additional_context"]}}}`,
			`{"type":"event_msg","payload":{"type":"message","content":[{"text":"` + quoted + `"}],"internal_chat_message_metadata_passthrough":{"content_item_kinds":["hooks.additional_context"]}}}`,
		},
		"gemini": {
			`{"id":"g","type":"user","content":[{"text":"` + quoted + `"}]}`,
			`{"id":"g","type":"user","content":[{"text":"look at <hook_context>` + quoted + `</hook_context>"}]}`,
			`{"id":"g","type":"user","content":[{"text":"x"},{"text":"<hook_context>` + quoted + `</hook_context> and more"}]}`,
			`{"id":"g","type":"user","content":"<hook_context>` + quoted + `</hook_context>"}`,
			`{"id":"g","type":"gemini","content":[{"text":"x"},{"text":"<hook_context>` + quoted + `</hook_context>"}]}`,
			`{"id":"g","type":"user","content":[{"functionResponse":{"response":{"output":"ok\n\n<hook_context>` + quoted + `</hook_context>"}}}]}`,
			`{"$set":{"messages":[{"id":"g","type":"user","content":[{"text":"x"},{"text":"<hook_context>` + quoted + `</hook_context>"}]}]}}`,
		},
	} {
		s := sample(t, harness)
		s.write(t, append(s.text, strings.Join(lines, "\n")+"\n"...))
		if got, _ := look(t, s.source(), transcript.Mark{}); !slices.Equal(got, wanted[harness]) {
			t.Errorf("%s:\n%s", harness, strings.Join(got, "\n"))
		}
	}
}

func TestATranscriptOfAnotherSessionHoldsNothing(t *testing.T) {
	for harness := range wanted {
		s := sample(t, harness).source()
		s.Session = "another-0001"
		if got, _ := look(t, s, transcript.Mark{}); got != nil {
			t.Errorf("%s: in another's transcript there is %q", harness, got)
		}
	}
}

func TestALookGoesOnWhereTheLastOneEndedAndWaitsForTheEndOfALine(t *testing.T) {
	for harness, want := range wanted {
		s := sample(t, harness)
		var got []string
		var at transcript.Mark
		for size := 0; size < len(s.text); size += 997 {
			s.write(t, s.text[:size])
			found, to := look(t, s.source(), at)
			got, at = append(got, found...), to
		}
		s.write(t, s.text)
		found, to := look(t, s.source(), at)
		if got = append(got, found...); !slices.Equal(got, want) {
			t.Errorf("%s, bit by bit:\n%s", harness, strings.Join(got, "\n"))
		}
		if found, _ := look(t, s.source(), to); found != nil {
			t.Errorf("%s: found again: %q", harness, found)
		}
	}
}

func TestAFileThatWasBegunAnewIsReadFromItsBeginning(t *testing.T) {
	s := sample(t, "claude-code")
	_, at := look(t, s.source(), transcript.Mark{})
	for what, text := range map[string][]byte{
		"shorter":                     s.text[:len(s.text)-1000],
		"another one under that name": append([]byte(`{"type":"summary","summary":"a first line that is long enough to tell one file from another"}`+"\n"), s.text...),
	} {
		s.write(t, text)
		if got, _ := look(t, s.source(), at); len(got) < len(wanted["claude-code"])-1 {
			t.Errorf("%s: %q", what, got)
		}
	}
	moved := filepath.Join(filepath.Dir(s.file), "moved.jsonl")
	s.write(t, s.text)
	if err := os.Rename(s.file, moved); err != nil {
		t.Fatal(err)
	}
	if got, to := look(t, s.source(), at); got != nil || to != at {
		t.Errorf("of a file that is gone: %q, %+v", got, to)
	}
	source := s.source()
	source.File = moved
	if got, _ := look(t, source, at); !slices.Equal(got, wanted["claude-code"]) {
		t.Errorf("under its new name: %q", got)
	}
}

func TestALookIsBounded(t *testing.T) {
	s := sample(t, "claude-code")
	noise := []byte(`{"type":"user","sessionId":"` + ada + `","message":{"content":"` + strings.Repeat("decklog-message ", 4<<10) + `"}}` + "\n")
	whole := bytes.Repeat(noise, transcript.LookBytesMax/len(noise)+1)
	s.write(t, append(whole, s.text...))
	if got, _ := look(t, s.source(), transcript.Mark{}); !slices.Equal(got, wanted["claude-code"]) {
		t.Errorf("at the end of a long file: %q", got)
	}
	s.write(t, append(slices.Clone(s.text), whole...))
	got, to := look(t, s.source(), transcript.Mark{})
	if got != nil {
		t.Errorf("before the last %d bytes: %q", transcript.LookBytesMax, got)
	}
	if info, err := os.Stat(s.file); err != nil || to.Offset != info.Size() {
		t.Errorf("read up to %d of %d: %v", to.Offset, info.Size(), err)
	}
	huge := []byte(`{"type":"user","message":{"content":"` + strings.Repeat("x", transcript.LineBytesMax) + `"}}` + "\n")
	s.write(t, append(huge, s.text...))
	if got, _ := look(t, s.source(), transcript.Mark{}); !slices.Equal(got, wanted["claude-code"]) {
		t.Errorf("behind a huge line: %q", got)
	}
}

func TestWhatIsNoTranscriptHoldsNothing(t *testing.T) {
	dir := t.TempDir()
	for _, harness := range []string{"claude-code", "codex", "gemini", "opencode", "cursor", ""} {
		for _, file := range []string{filepath.Join(dir, "none"), ""} {
			s := transcript.Source{Harness: harness, File: file, Session: ada}
			if got, _ := look(t, s, transcript.Mark{}); got != nil {
				t.Errorf("%q of %s: %q", file, harness, got)
			}
		}
	}
	s := transcript.Source{Harness: "opencode", File: filepath.Join(dir, "text"), Session: ada}
	if err := os.WriteFile(s.File, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(transcript.Mark{}, func(transcript.Context) {}); err == nil {
		t.Error("a text was read as a database")
	}
}

// opencodes makes a database as opencode does, in which a writer is at work.
func opencodes(t *testing.T) (s transcript.Source, write func(sql string)) {
	t.Helper()
	s = transcript.Source{Harness: "opencode", File: filepath.Join(t.TempDir(), "opencode.db"), Session: oak}
	db, err := sqlite3.Open("file:" + s.File)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	write = func(sql string) {
		t.Helper()
		if err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	write(`PRAGMA journal_mode=WAL;
		CREATE TABLE message(id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
		CREATE TABLE part(id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
		INSERT INTO message VALUES('msg_1', 'ses_0001', 1, '{"role":"user"}'), ('msg_2', 'ses_0001', 2, '{"role":"assistant"}'), ('msg_3', 'ses_0002', 3, '{"role":"user"}')`)
	return s, write
}

func part(id, message, session, data string) string {
	return fmt.Sprintf(`INSERT INTO part VALUES('%s', '%s', '%s', 1, '%s')`, id, message, session, strings.ReplaceAll(data, "'", "''"))
}

func TestOpencodesDatabaseIsReadWhileItsOwnerWrites(t *testing.T) {
	s, write := opencodes(t)
	frame := func(id string) string {
		return `{"type":"text","text":"` + strings.Replace(quoted, "m-quoted", id, 1) + `","synthetic":true}`
	}
	write(part("prt_1", "msg_1", oak, `{"type":"text","text":"`+quoted+`"}`)) // the prompt
	write(part("prt_2", "msg_1", oak, frame("m-1")))
	write(part("prt_3", "msg_2", oak, frame("m-said"))) // a reply
	write(part("prt_4", "msg_2", oak, `{"type":"tool","tool":"bash","state":{"output":"`+quoted+`"},"synthetic":true}`))
	write(part("prt_5", "msg_3", "ses_0002", frame("m-others")))
	write(part("prt_6", "msg_3", oak, frame("m-mixed"))) // of another session's message
	text := strings.Replace(quoted, "m-quoted", "m-tool", 1)
	write("BEGIN IMMEDIATE")
	write(part("prt_7", "msg_1", oak, frame("m-2")))

	got, at := look(t, s, transcript.Mark{})
	if !slices.Equal(got, []string{" m-1 1"}) || at.Offset != 6 {
		t.Errorf("while another writes: %q up to %d", got, at.Offset)
	}
	write("COMMIT")
	var of transcript.Context
	at, err := s.Read(at, func(c transcript.Context) { of = c })
	if err != nil || of.Record != "prt_7" || of.Offset != 7 || at.Offset != 7 {
		t.Errorf("what was written since: %+v up to %d, %v", of, at.Offset, err)
	}
	write(part("prt_8", "msg_2", oak, `{"type":"tool","state":{"output":"ok\n\n`+text+`","metadata":{"decklog":"`+text+`"}}}`))
	write(part("prt_9", "msg_2", oak, `{"type":"tool","state":{"output":"ok","metadata":{"decklog":"`+text+`"}}}`)) // it was cut away since
	got, at = look(t, s, at)
	if !slices.Equal(got, []string{" m-tool 1"}) {
		t.Errorf("behind a tool's output: %q", got)
	}
	write("DELETE FROM part WHERE id <> 'prt_2'")
	if got, _ := look(t, s, at); !slices.Equal(got, []string{" m-1 1"}) {
		t.Errorf("of a database that was made anew: %q", got)
	}
}

func TestALookLocksNobodyOut(t *testing.T) {
	s, write := opencodes(t)
	write(part("prt_1", "msg_1", oak, `{"type":"text","text":"`+quoted+`","synthetic":true}`))
	other, err := sqlite3.Open("file:" + s.File)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Read(transcript.Mark{}, func(transcript.Context) {
		if err := other.Exec("PRAGMA busy_timeout=0; UPDATE part SET time_created = 2"); err != nil {
			t.Errorf("a writer waits for a look: %v", err)
		}
	})
	if err := errors.Join(err, other.Close()); err != nil {
		t.Error(err)
	}
	write("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE")
	if got, to := look(t, s, transcript.Mark{}); got != nil || to.Offset != 0 {
		t.Errorf("in a locked database: %q up to %d", got, to.Offset)
	}
	write("COMMIT")
}

func FuzzATranscriptReadInTwoLooksIsReadAsInOne(f *testing.F) {
	harnesses := []string{"claude-code", "codex", "gemini"}
	for i, harness := range harnesses {
		s := sample(f, harness)
		f.Add(byte(i), s.text[:min(len(s.text), 4000)], 1000)
	}
	f.Fuzz(func(t *testing.T, which byte, text []byte, cut int) {
		s := stored{harness: harnesses[int(which)%len(harnesses)], file: filepath.Join(t.TempDir(), "t.jsonl")}
		s.write(t, text)
		want, whole := look(t, s.source(), transcript.Mark{})
		s.write(t, text[:min(max(cut, 0), len(text))])
		got, at := look(t, s.source(), transcript.Mark{})
		s.write(t, text)
		rest, to := look(t, s.source(), at)
		if got = append(got, rest...); !slices.Equal(got, want) || to.Offset != whole.Offset {
			t.Errorf("in one: %q up to %d; in two: %q up to %d", want, whole.Offset, got, to.Offset)
		}
	})
}
