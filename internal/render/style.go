package render

import (
	"strings"
	"unicode"
)

// style is the markup of a frame, and what of a text could be taken for it.
// Every tag is written here, so that another form of frame is another style:
// one harness escapes angle brackets in what hooks give it, and will need a
// frame that has none.
type style struct {
	begin, beginEnd string // around the name and attributes of a tag
	empty           string // in place of beginEnd, on a tag without content
	end, endEnd     string
	lookalikes      *unicode.RangeTable
	tight           bool // attributes are cut by what is written of them
}

var angle = style{
	begin: "<", beginEnd: ">",
	empty: "/>",
	end:   "</", endEnd: ">",
	lookalikes: angles,
}

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
