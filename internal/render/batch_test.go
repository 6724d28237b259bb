package render_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/render"
)

// hostile draws bodies that are likely to be longer when they are shown.
func hostile() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{"a", "word ", "\n", "\t", `"`, `\`, "&", "<", ">", "é", "日", "👩‍👧", "＜", "\u202e", "\U000e0041", "\x1b", "\xff", "&amp;"})
	return rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(pieces, 1, 60).Draw(t, "pieces"), "")
		return strings.Repeat(s, rapid.IntRange(1, 40).Draw(t, "times"))
	})
}

func message() *rapid.Generator[render.Message] {
	return rapid.Custom(func(t *rapid.T) render.Message {
		m := request()
		m.Body = hostile().Draw(t, "body")
		m.Intent = rapid.SampledFrom([]events.Intent{events.Request, events.Inform, events.Done}).Draw(t, "intent")
		m.Branch = rapid.String().Draw(t, "branch")
		m.Attempt = rapid.IntRange(1, 3).Draw(t, "attempt")
		m.Pending = rapid.Bool().Draw(t, "pending")
		m.Refs = rapid.SliceOfN(rapid.SampledFrom([]string{"file:a.go:3", "commit:0a1b2c", `codex:0199/12 "<x>"`}), 0, 10).Draw(t, "refs")
		return m
	})
}

// checkClipped holds the text of a message that stands alone against the
// promises of clipping.
func checkClipped(t rapid.TB, markup render.Markup, m render.Message, room int) {
	text := markup.Text(room, "", []render.Item{m})
	if !utf8.ValidString(text) {
		t.Fatalf("no UTF-8: %q", text)
	}
	blocks, err := parse(text)
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%d frames, %v in\n%s", len(blocks), err, text)
	}
	got, size := blocks[0], render.EncodedLen(text)

	whole := showIn(markup, m)
	if render.EncodedLen(whole) <= room && text != whole {
		t.Fatalf("clipped, and would fit whole in %d:\n%s", room, text)
	}
	empty := m
	empty.Body = ""
	if room >= render.EncodedLen(showIn(markup, empty))+100 && size > room {
		t.Fatalf("%d bytes in a budget of %d:\n%s", size, room, text)
	}
	if len(got.refs) != len(m.Refs) {
		t.Fatalf("%d of %d refs:\n%s", len(got.refs), len(m.Refs), text)
	}
	if m.Intent == events.Request && !strings.HasSuffix(text, `,"body":"your answer"}`) {
		t.Fatalf("no reply call:\n%s", text)
	}

	full := string([]rune(m.Body))
	if text == whole {
		if got.body != full || got.attributes["clipped"] != "" {
			t.Fatalf("whole, and read back as %q:\n%s", got.body, text)
		}
		return
	}
	kept, found := strings.CutSuffix(got.body, "\n…")
	if !found || !strings.HasPrefix(full, kept) || kept == full {
		t.Fatalf("%q is no clipped %q", got.body, full)
	}
	if got.attributes["clipped"] != "true" || !slices.Contains(got.hints, "Clipped. All of it: decklog thread "+string(m.ID)) {
		t.Fatalf("does not say where all of it is:\n%s", text)
	}
	if size > render.EncodedLen(whole) {
		t.Fatalf("longer than the whole:\n%s", text)
	}
}

func TestOnlyTheBodyIsClippedAndNeverInsideARuneOrReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkClipped(t, rapid.SampledFrom(markups).Draw(t, "markup"), message().Draw(t, "message"), rapid.IntRange(-10, 12000).Draw(t, "budget"))
	})
}

func FuzzClippedFrameStandsWhole(f *testing.F) {
	f.Add(strings.Repeat("&<日\u202e", 900), 1500)
	f.Add("short", 0)
	f.Fuzz(func(t *testing.T, body string, room int) {
		m := request()
		m.Body = body
		for _, markup := range markups {
			checkClipped(t, markup, m, room)
		}
	})
}

func TestABodyIsClippedAsLateAsItCanBe(t *testing.T) {
	m := request()
	m.Body = strings.Repeat("x", 20000)
	for room := 1500; room < 1520; room++ {
		if got := render.EncodedLen(render.Tags.Text(room, "", []render.Item{m})); got != room {
			t.Errorf("%d bytes in a budget of %d", got, room)
		}
	}
}

func TestFitTakesTheOldestThatFitAndAlwaysOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []render.Item
		for _, m := range rapid.SliceOfN(message(), 0, 6).Draw(t, "messages") {
			items = append(items, m)
			if rapid.Bool().Draw(t, "notice") {
				items = append(items, render.Notice{Message: m.ID, Thread: m.Thread, To: m.To, Reason: events.LostExpired, Sent: m.Sent, Attempt: 1})
			}
		}
		markup := rapid.SampledFrom(markups).Draw(t, "markup")
		instruction := rapid.SampledFrom([]string{"", markup.Instruction(events.FormFull)}).Draw(t, "instruction")
		room := rapid.IntRange(0, 20000).Draw(t, "budget")

		n := markup.Fit(room, instruction, items)
		if n > len(items) || n == 0 && len(items) > 0 {
			t.Fatalf("%d of %d items", n, len(items))
		}
		text := markup.Text(room, instruction, items[:n])
		if n > 1 && render.EncodedLen(text) > room {
			t.Fatalf("%d items take %d of %d bytes", n, render.EncodedLen(text), room)
		}
		if n < len(items) && n > 0 {
			if more := render.EncodedLen(markup.Text(room, instruction, items[:n+1])); more <= room {
				t.Fatalf("%d items would fit too: %d of %d bytes", n+1, more, room)
			}
		}
		if markup.Fit(room, instruction, items[:n]) != n {
			t.Fatal("what fits does not fit alone")
		}

		want := n
		if instruction != "" {
			want++
		}
		if want == 0 {
			if text != "" {
				t.Fatalf("nothing is shown as %q", text)
			}
			return
		}
		blocks, err := parse(text)
		if err != nil || len(blocks) != want {
			t.Fatalf("%d blocks instead of %d, %v in\n%s", len(blocks), want, err, text)
		}
		if instruction != "" && blocks[0].tag != "decklog-instruction" {
			t.Fatalf("overtaken by %s", blocks[0].tag)
		}
	})
}

func TestWhatWasLeasedIsShownEvenOverTheBudget(t *testing.T) {
	m := request()
	m.Body = strings.Repeat("x", 4000)
	blocks, err := parse(render.Tags.Text(10, "", []render.Item{m, m, m}))
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	for _, b := range blocks {
		if b.body != m.Body {
			t.Errorf("clipped to %d bytes", len(b.body))
		}
	}
}

func TestTheLongestBodyFitsBesideTheFullInstruction(t *testing.T) {
	m := request()
	m.Body = strings.Repeat("plain words and a line\n", 200)[:4000]
	text := render.Tags.Text(budget, render.Tags.Instruction(events.FormFull), []render.Item{m})
	if strings.Contains(text, "clipped") {
		t.Error("clipped")
	}
}

func TestTheInstructionCountsWhenASingleBodyIsClipped(t *testing.T) {
	m := request()
	m.Body = strings.Repeat("x", 20000)
	text := render.Tags.Text(budget, render.Tags.Instruction(events.FormFull), []render.Item{m})
	if n := render.EncodedLen(text); n != budget {
		t.Errorf("%d bytes in a budget of %d", n, budget)
	}
}
