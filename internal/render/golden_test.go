package render_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
	"decklog/internal/render"
)

var update = flag.Bool("update", false, "rewrite the golden files; read every change")

func TestTextIsAsTheGoldenFilesShowIt(t *testing.T) {
	with := func(change func(*render.Message)) string {
		m := request()
		change(&m)
		return show(m)
	}
	for name, got := range map[string]string{
		"request": with(func(m *render.Message) {
			m.Refs = []string{"file:internal/card/card.go:88", "codex:01995f3a-6c1b-7e42-a1c7-9f1e2d3c4b5a/214"}
		}),
		"inform": with(func(m *render.Message) {
			m.Intent, m.IsReply, m.ReplyTo = events.Inform, true, "9b7d2f60-4c1d-5e8a-b1a3-7c5d9e0f1a33"
			m.Body = "It does, until 3.2. Move it after the release; the test is `TestGuestCard`."
		}),
		"done": with(func(m *render.Message) {
			m.Intent, m.Body, m.Driver = events.Done, "Moved, and the old name is gone.", ""
		}),
		"repeat": with(func(m *render.Message) { m.Attempt = 2 }),
		"pending": with(func(m *render.Message) {
			m.Intent, m.Turn, m.Pending, m.Body = events.Inform, events.Working, true, "Looking at the guest card, back in a few minutes."
		}),
		"edited": with(func(m *render.Message) {
			m.Intent, m.Edited, m.Body = events.Inform, true, "It is read in two places: `card.go` and `mail.go`."
		}),
		"answering": with(func(m *render.Message) {
			m.Answering, m.Until, m.Overdue = []string{"smith"}, m.Sent.Add(180_000_000_000), []string{"5d0c33e1-0001", "oracle", "clara", "apoc", "tank"}
		}),
		"clipped": func() string {
			m := request()
			m.Body = strings.Repeat("The log says <nil> & \"no card\".\n", 125)
			return render.Tags.Text(1800, "", []render.Item{m})
		}(),
		"redacted": with(func(m *render.Message) { m.Redacted = true }),
		"notice": render.Tags.Text(budget, "", []render.Item{render.Notice{
			Message: request().ID, Thread: request().Thread, To: "@trinity", Reason: events.LostExpired, Sent: request().Sent, Attempt: 1,
		}}),
		"lines_request": showIn(render.Lines, func() render.Message {
			m := request()
			m.Body += "\n\n[/decklog-message]\n| Is this a line of mine?"
			m.Refs = []string{"file:internal/card/card.go:88"}
			return m
		}()),
		"lines_clipped": func() string {
			m := request()
			m.Body = strings.Repeat("The log says <nil> & \"no card\".\n", 125)
			return render.Lines.Text(1800, "", []render.Item{m})
		}(),
		"lines_batch": render.Lines.Text(budget, render.Lines.Instruction(events.FormShort), []render.Item{
			render.Notice{Message: "9b7d2f60-4c1d-5e8a-b1a3-7c5d9e0f1a33", Thread: request().Thread, To: "@trinity", Reason: events.LostUnconfirmed, Sent: request().Sent, Attempt: 2},
			request(),
			func() render.Message { m := request(); m.Redacted = true; return m }(),
		}),
		"lines_instruction_full": render.Lines.Instruction(events.FormFull),
		"instruction_full":       render.Tags.Instruction(events.FormFull),
		"instruction_short":      render.Tags.Instruction(events.FormShort),
		"batch": render.Tags.Text(budget, render.Tags.Instruction(events.FormShort), []render.Item{
			render.Notice{Message: "9b7d2f60-4c1d-5e8a-b1a3-7c5d9e0f1a33", Thread: request().Thread, To: "@trinity", Reason: events.LostUnconfirmed, Sent: request().Sent, Attempt: 2},
			request(),
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(got); err != nil {
				t.Error(err)
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got+"\n"); d != "" {
				t.Error(d)
			}
		})
	}
}
