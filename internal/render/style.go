package render

import "strings"

// Markup is the form of a frame. Which one a text takes is up to the door that
// carries it to the model.
type Markup int

const (
	// Tags is the usual form: tags in angle brackets.
	//
	//	<decklog-message id="…">
	//	BODY
	//	</decklog-message>
	Tags Markup = iota
	// Lines has no angle bracket, for a door that would escape them. What was
	// written by others stands behind a bar, in each of its lines, and no line of
	// decklog's begins with one: so a body cannot end its frame, whatever it holds.
	//
	//	[decklog-message id="…"]
	//	| BODY
	//	[/decklog-message]
	Lines
)

// style is how a markup is written, and what of a text could be taken for it.
// Every tag is written here.
type style struct {
	begin, beginEnd string // around the name and attributes of a tag
	empty           string // in place of beginEnd, on a tag without content
	end, endEnd     string
	margin          string // before each line that somebody else wrote
	instruction     string // what the standing instruction adds for this form
	tight           bool   // attributes are cut by what is written of them
}

func (m Markup) style() style {
	if m == Lines {
		return style{
			begin: "[", beginEnd: "]",
			empty: "/]",
			end:   "[/", endEnd: "]",
			margin:      "| ",
			instruction: "A line behind a bar (|) is its sender's.\n",
		}
	}
	return style{
		begin: "<", beginEnd: ">",
		empty: "/>",
		end:   "</", endEnd: ">",
	}
}

// styles are all that there are: what a frame is looked for in.
var styles = []style{Tags.style(), Lines.style()}

// attribute is one attribute of a tag; one without a value is not written.
type attribute struct{ name, value string }

// flag is the value of an attribute that is written when it is so.
func flag(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// beginTag writes a tag that has content and an endTag.
func (s style) beginTag(name string, attributes ...attribute) string {
	return s.begin + name + s.attributes(attributes) + s.beginEnd
}

func (s style) endTag(name string) string { return s.end + name + s.endEnd }

// emptyTag writes a tag without content.
func (s style) emptyTag(name string, attributes ...attribute) string {
	return s.begin + name + s.attributes(attributes) + s.empty
}

// refTag writes an address. It may be longer than another value, and stands
// even when nothing of it can be shown: a ref is never left out in silence.
func (s style) refTag(address string) string {
	return s.begin + `decklog-ref address="` + s.escapeAttribute(address, RefBytesMax) + `"` + s.empty
}

func (s style) attributes(attributes []attribute) string {
	var b strings.Builder
	for _, a := range attributes {
		if v := s.value(a.value); v != "" {
			b.WriteString(" " + a.name + `="` + v + `"`)
		}
	}
	return b.String()
}
