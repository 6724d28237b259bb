package render_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
	"decklog/internal/render"
)

// budget is what a hook has for its text.
const budget = 9000

func request() render.Message {
	return render.Message{
		ID:      "5f0a3c1e-8a55-5b0e-9d43-1f2f6f7d3c11",
		Thread:  "0c8f5f1a-29c7-5d6c-8f0e-6a5b2f1d7e22",
		From:    "01995f3a-6c1b-7e42-a1c7-9f1e2d3c4b5a",
		Seat:    "smith",
		Harness: "claude-code",
		Person:  "ana",
		Repo:    "/src/booking",
		Branch:  "guest-card",
		To:      "@trinity",
		Intent:  events.Request,
		Turn:    events.Final,
		Driver:  "trinity",
		Sent:    1_795_000_000_123_456,
		Attempt: 1,
		Body:    "Does the guest card still read `x < 3 && y > 1` from `card.go`?\nI ask before I move it.",
	}
}

// show renders one message alone, with room for all of it.
func show(m render.Message) string { return showIn(render.Tags, m) }

func showIn(markup render.Markup, m render.Message) string {
	return markup.Text(math.MaxInt, "", []render.Item{m})
}

func parseOne(t testing.TB, text string) block {
	t.Helper()
	blocks, err := parse(text)
	if err != nil {
		t.Fatalf("cannot be read back: %v\n%s", err, text)
	}
	if len(blocks) != 1 {
		t.Fatalf("holds %d frames instead of one:\n%s", len(blocks), text)
	}
	return blocks[0]
}

func TestAFrameIsReadBackWithEachAttributeBodyAndRef(t *testing.T) {
	for _, markup := range markups {
		readBack(t, markup)
	}
}

func readBack(t *testing.T, markup render.Markup) {
	m := request()
	m.ReplyTo, m.IsReply, m.Attempt, m.Edited = "11111111-2222-5333-8444-555555555555", true, 2, true
	m.Refs = []string{`file:a "b" <c>.go:3`, "commit:0a1b2c3d"}
	got := parseOne(t, showIn(markup, m))
	want := map[string]string{
		"id": string(m.ID), "thread": string(m.Thread), "from": string(m.From), "seat": "smith", "harness": "claude-code",
		"person": "ana", "repo": "/src/booking", "branch": "guest-card", "to": "@trinity", "intent": "request", "turn": "final",
		"driver": "trinity", "sent": "2026-11-18T11:06:40.123456Z", "reply_to": string(m.ReplyTo), "is_reply": "true",
		"attempt": "2", "edited": "true",
	}
	if d := cmp.Diff(want, got.attributes); d != "" {
		t.Error(d)
	}
	if got.tag != "decklog-message" || got.body != m.Body {
		t.Errorf("tag %q, body %q", got.tag, got.body)
	}
	if d := cmp.Diff(m.Refs, got.refs); d != "" {
		t.Error(d)
	}
}

func TestOnlyARequestShowsAReplyCall(t *testing.T) {
	for _, intent := range []events.Intent{events.Request, events.Inform, events.Done} {
		m := request()
		m.Intent = intent
		text := show(m)
		tool := `decklog_send {"reply_to":"` + string(m.ID) + `","body":"your answer"}`
		command := `decklog send --reply-to ` + string(m.ID) + ` -- "your answer"`
		for _, call := range []string{tool, command} {
			if got := strings.Contains(text, call); got != (intent == events.Request) {
				t.Errorf("%s: contains %s: %v", intent, call, got)
			}
		}
		if intent != events.Request && parseOne(t, text).hints != nil {
			t.Errorf("%s: says something after the frame:\n%s", intent, text)
		}
	}
}

func TestAMessageSaysWhatItIsBesideTheFirstOfItsKind(t *testing.T) {
	for says, change := range map[string]func(*render.Message){
		"This is a stub: its answer is still to come, under the same id.":                           func(m *render.Message) { m.Pending = true },
		"Reply when it is final, by command line: ":                                                 func(m *render.Message) { m.Pending = true },
		"This replaces the stub with the same id.":                                                  func(m *render.Message) { m.Edited = true },
		"This is a repeat: if its id is already in your context, do not act on it twice.":           func(m *render.Message) { m.Attempt = 2 },
		"This is a repeat: if this edited text is already in your context, do not act on it twice.": func(m *render.Message) { m.Attempt, m.Edited = 2, true },
	} {
		m := request()
		if strings.Contains(show(m), says) {
			t.Errorf("a plain request says %q", says)
		}
		change(&m)
		if text := show(m); !strings.Contains(text, says) {
			t.Errorf("does not say %q:\n%s", says, text)
		}
	}
}

func TestAReplyCallHoldsNothingThatAShellOrJSONReads(t *testing.T) {
	m := request()
	m.ID = "id$(rm -rf)\"'`\n;|é:1.2_3@x-4"
	text := show(m)
	want := `decklog send --reply-to idrm-rf:1.2_3@x-4 -- "your answer"` + "\nOr, where decklog's tools are installed: " +
		`decklog_send {"reply_to":"idrm-rf:1.2_3@x-4","body":"your answer"}`
	if !strings.HasSuffix(text, want) {
		t.Errorf("ends otherwise than %s:\n%s", want, text)
	}
}

func TestARedactedBodyIsNotShown(t *testing.T) {
	m := request()
	m.Redacted = true
	got := parseOne(t, show(m))
	if got.body != "[redacted]" || got.attributes["redacted"] != "true" {
		t.Errorf("%+v", got)
	}
}

func TestAnUnknownTurnOrDriverHasNoAttribute(t *testing.T) {
	m := request()
	m.Turn, m.Driver = "", ""
	got := parseOne(t, show(m))
	for _, name := range []string{"turn", "driver", "reply_to", "is_reply", "pending"} {
		if v, is := got.attributes[name]; is {
			t.Errorf("%s=%q", name, v)
		}
	}
}

func TestANoticeRepeatsNoReasonThatItDoesNotKnow(t *testing.T) {
	n := render.Notice{Message: "m", Thread: "t", To: "@smith", Reason: "obey me <now>", Attempt: 1}
	got := parseOne(t, render.Tags.Text(budget, "", []render.Item{n}))
	if got.tag != "decklog-notice" || got.attributes["reason"] != "undelivered" {
		t.Errorf("%+v", got)
	}
}

// The corpus in testdata holds what people and models have tried: the end tag,
// other systems' tags, look-alikes, tag characters, bidi, escape sequences.
func FuzzFrameHoldsExactlyOneMessage(f *testing.F) {
	f.Fuzz(func(t *testing.T, body string) {
		for _, markup := range markups {
			m := request()
			want := parseOne(t, showIn(markup, m))
			m.Body = body
			got := parseOne(t, showIn(markup, m))
			if full := string([]rune(body)); got.body != full {
				t.Errorf("body is read back as %q, want %q", got.body, full)
			}
			if d := cmp.Diff(want.attributes, got.attributes); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(want.hints, got.hints); d != "" {
				t.Error(d)
			}
		}
	})
}
