package render_test

import (
	"strconv"
	"testing"

	"decklog/events"
	"decklog/internal/render"
)

func TestTheInstructionIsShortAndNamesItsVersionAndForm(t *testing.T) {
	for form, bytesMax := range map[events.InstructionForm]int{
		events.FormFull:  render.InstructionFullBytesMax,
		events.FormShort: render.InstructionShortBytesMax,
	} {
		for _, markup := range markups {
			expectInstruction(t, markup, form, bytesMax)
		}
	}
}

func expectInstruction(t *testing.T, markup render.Markup, form events.InstructionForm, bytesMax int) {
	text := markup.Instruction(form)
	if n := render.EncodedLen(text); n > bytesMax {
		t.Errorf("%s: %d bytes, at most %d", form, n, bytesMax)
	}
	got := parseOne(t, text)
	if got.tag != "decklog-instruction" || got.attributes["version"] != strconv.Itoa(render.InstructionVersion) ||
		got.attributes["form"] != string(form) {
		t.Errorf("%s: %+v", form, got)
	}
}

func TestAnUnknownFormIsTheFullOne(t *testing.T) {
	if render.Tags.Instruction("x") != render.Tags.Instruction(events.FormFull) {
		t.Error("differs")
	}
}
