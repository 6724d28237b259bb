// Package wording says for another door what the operations say for a command
// line: a command in a text becomes a call of that door where it has one, and a
// flag the field that it is. It knows no door; each brings its own forms.
package wording

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Form is how the words of a command become the fields of a call.
type Form struct {
	Call  string   // what is called
	Given []Field  // what the command itself says
	Words []string // the fields of its arguments, in their order
	Body  string   // the field of what stands behind --
}

// Field is a field of a call, with its value.
type Field struct {
	Name  string
	Value any // a string, a number, true, or a list of strings
}

// Door is where a text is read.
type Door struct {
	// Forms are the commands that it has, by their first word or two.
	Forms map[string]Form
	// Flags are the fields of flags, where they differ; a flag that is empty here
	// stays as it is in a text, and is left out of a call.
	Flags map[string]string
	// Value gives the value of a field that is no text; nil, or false: it is one.
	Value func(field, text string) (any, bool)
	// Write writes a call; false when it cannot be one.
	Write func(call string, fields []Field) (string, bool)
	// Also are other words of a command line, with what they are here; nil: none.
	Also *strings.Replacer
	// Elsewhere stands before a command that the door has not.
	Elsewhere string
}

// switches are the flags that take no value.
var switches = map[string]bool{"over": true, "block": true, "why": true, "sent": true, "waiting": true, "bodies": true}

// command finds a command in a text: in backquotes, or by its flags.
var command = regexp.MustCompile("`decklog [^`]+`" + `|\bdecklog [a-z]+(?: [a-z]+)?(?: --[a-z-]+ [^\s;,]+)+`)

// flags finds a flag in a text.
var flags = regexp.MustCompile(`--(to|intent|reply-to|ref|turn|key|over|block|why|sent|state|cursor|limit|message|commit|author|reason|link|for|timeout|by|at|as|session|harness|seat|work|status|subject|payload)\b`)

// bodies says where a body stands.
var bodies = strings.NewReplacer("after --, or give it on standard input with -", "in body", "after --", "in body")

// Text writes a text in the door's terms: each command in it, which is in
// backquotes or the whole of it, as a call, and flags that are left as the fields
// that they are.
func (d Door) Text(text string) string {
	if strings.HasPrefix(text, "decklog ") {
		return d.call(text)
	}
	text = bodies.Replace(text)
	if d.Also != nil {
		text = d.Also.Replace(text)
	}
	var said strings.Builder
	at := 0
	for _, found := range command.FindAllStringIndex(text, -1) {
		said.WriteString(d.flags(text[at:found[0]]) + d.call(strings.Trim(text[found[0]:found[1]], "`")))
		at = found[1]
	}
	return said.String() + d.flags(text[at:])
}

// flags writes the flags in a text as the fields that they are.
func (d Door) flags(text string) string {
	return flags.ReplaceAllStringFunc(text, func(found string) string {
		return cmp.Or(d.field(strings.TrimPrefix(found, "--")), found)
	})
}

// field is the field that a flag is; empty where it is none here.
func (d Door) field(flag string) string {
	if field, differs := d.Flags[flag]; differs {
		return field
	}
	return strings.ReplaceAll(flag, "-", "_")
}

// call writes a command as a call; as it is where the door has none.
func (d Door) call(line string) string {
	elsewhere := d.Elsewhere + line
	words, ok := split(line)
	if !ok || len(words) < 2 {
		return elsewhere
	}
	f, rest, known := d.form(words[1:])
	if !known {
		return elsewhere
	}
	fields, ok := d.fields(f, rest)
	if !ok {
		return elsewhere
	}
	if text, can := d.Write(f.Call, fields); can {
		return text
	}
	return elsewhere
}

// form finds the form of a command: by two words, or else by one.
func (d Door) form(words []string) (f Form, rest []string, known bool) {
	if len(words) > 1 {
		if f, known = d.Forms[words[0]+" "+words[1]]; known {
			return f, words[2:], true
		}
	}
	f, known = d.Forms[words[0]]
	return f, words[1:], known
}

// fields reads what stands behind a command; false where that does not fit.
func (d Door) fields(f Form, rest []string) (fields []Field, ok bool) {
	fields = slices.Clone(f.Given)
	add := func(name, text string) {
		var value any = text
		if d.Value != nil {
			if other, is := d.Value(name, text); is {
				value = other
			}
		}
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if at < 0 {
			fields = append(fields, Field{name, value})
			return
		}
		if list, is := fields[at].Value.([]string); is { // a flag that comes again is one list
			more, _ := value.([]string)
			value = append(slices.Clone(list), more...)
		}
		fields[at].Value = value
	}
	words := f.Words
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		name, isFlag := strings.CutPrefix(word, "--")
		field := d.field(name)
		switch {
		case word == "--":
			if f.Body == "" {
				return nil, false
			}
			add(f.Body, strings.Join(rest, " "))
			return fields, true
		case isFlag && switches[name]:
			if field != "" {
				fields = append(fields, Field{field, true})
			}
		case isFlag && len(rest) == 0:
			return nil, false
		case isFlag:
			if field != "" {
				add(field, rest[0])
			}
			rest = rest[1:]
		case len(words) == 0:
			return nil, false
		default:
			add(words[0], word)
			words = words[1:]
		}
	}
	return fields, true
}

// Number is a text as a number, for fields that are one.
func Number(text string) (any, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// split takes a command line apart at its blanks, quotes minded; false when a
// quote does not close.
func split(line string) (words []string, ok bool) {
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, in = c, true
		case quote == 0 && c == ' ':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, quote == 0
}
