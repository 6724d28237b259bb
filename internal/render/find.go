package render

import (
	"strconv"
	"strings"

	"decklog/events"
)

// Frame is a message's frame as it was found in a text.
type Frame struct {
	ID      events.MessageID
	Attempt int
}

// Frames lists the messages in a text that Text wrote, in their order. It takes
// nothing else for one: the text must begin with a tag of ours, and a frame is
// whole from its opening tag to its end, each at the beginning of a line. What a
// harness cut away is not there, and what stands in a body is no frame.
func Frames(text string) (found []Frame) {
	for _, s := range styles {
		if strings.HasPrefix(text, s.begin+"decklog-") {
			return s.frames(text)
		}
	}
	return nil
}

func (s style) frames(text string) (found []Frame) {
	const name = "decklog-message"
	for at := 0; ; {
		begin := lineBeginning(text, at, s.begin+name+" ")
		if begin < 0 {
			return found
		}
		tag, rest, whole := strings.Cut(text[begin:], s.beginEnd+"\n") // a value may hold what ends a tag
		end := lineBeginning(rest, 0, s.endTag(name))
		if !whole || end < 0 || strings.Contains(tag, "\n") {
			return found
		}
		frame := Frame{ID: events.MessageID(attributeIn(tag, "id"))}
		frame.Attempt, _ = strconv.Atoi(attributeIn(tag, "attempt"))
		if frame.ID != "" && frame.Attempt > 0 {
			found = append(found, frame)
		}
		at = len(text) - len(rest) + end
	}
}

// lineBeginning is where a line of the text begins with this, from a place on;
// below 0 when none does.
func lineBeginning(text string, from int, with string) int {
	if from == 0 && strings.HasPrefix(text, with) {
		return 0
	}
	i := strings.Index(text[from:], "\n"+with)
	if i < 0 {
		return -1
	}
	return from + i + 1
}

// attributeIn is the value of an attribute of a tag, as it is written; empty when
// the tag has none.
func attributeIn(tag, name string) string {
	_, value, found := strings.Cut(tag, " "+name+`="`)
	if !found {
		return ""
	}
	value, _, _ = strings.Cut(value, `"`)
	return value
}
