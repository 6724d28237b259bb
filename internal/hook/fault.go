package hook

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"decklog/commands"
)

// fault is what went wrong in a run.
type fault struct{ code, says string }

func (f fault) Error() string { return f.says }

func (r *Run) faultOf(err error) fault {
	if f, is := err.(fault); is {
		return f
	}
	return fault{r.Code(err), err.Error()}
}

func refused(r *commands.Refusal) error { return fault{string(r.Code), r.Message} }

// tell says what went wrong in one line, and notes it.
func (v *visit) tell(f fault) {
	v.faulty = true
	v.say("%s: %s", f.code, f.says)
	if v.notes == nil {
		return
	}
	if err := v.notes.Fault(v.now, v.Run.Harness, v.in.Event, v.in.Session, f.code, f.says); err != nil {
		v.say("note the fault: %v", err)
	}
}

// lineBytesMax bounds a line on standard error: what a harness sends, and what
// is said of it, may be of any length.
const lineBytesMax = 1000

func (v *visit) say(format string, args ...any) {
	line := "decklog hook " + v.Run.Harness + ": " + fmt.Sprintf(format, args...)
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, cut(line, lineBytesMax))
	fmt.Fprintln(v.Stderr, line)
}

// cut shortens a text to bytesMax bytes, on a rune.
func cut(s string, bytesMax int) string {
	if len(s) <= bytesMax {
		return s
	}
	for bytesMax > 0 && !utf8.RuneStart(s[bytesMax]) {
		bytesMax--
	}
	return s[:bytesMax]
}
