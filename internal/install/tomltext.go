package install

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlText is a TOML document that is edited where it must be and stays as it is
// everywhere else. It knows as much of TOML as the few edits need that decklog
// makes in Codex's configuration.
type tomlText struct {
	text   []byte
	values map[string]any
	lines  []tomlLine
}

// tomlLine is a header of a table, or a key with its value.
type tomlLine struct {
	path     []string // from the root
	header   bool
	list     bool // a header of a list of tables
	from, to int
	kind     unstable.Kind // of the value
	items    []item        // of a list
}

// item is an element of a list.
type item struct {
	from, to int
	text     string
}

func readTOML(text []byte) (*tomlText, error) {
	d := &tomlText{}
	return d, d.become(text)
}

// become takes over a text if that can be read.
func (d *tomlText) become(text []byte) error {
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		says := err.Error()
		if at, is := errors.AsType[*toml.DecodeError](err); is {
			line, _ := at.Position()
			says = fmt.Sprintf("line %d: %s", line, says)
		}
		return fmt.Errorf("it is no TOML: %s", strings.TrimPrefix(says, "toml: "))
	}
	var p unstable.Parser
	p.Reset(text)
	var lines []tomlLine
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		l := tomlLine{from: int(e.Raw.Offset), to: int(e.Raw.Offset + e.Raw.Length)}
		var first *unstable.Node
		for it := e.Key(); it.Next(); {
			if first == nil {
				first = it.Node()
			}
			l.path = append(l.path, string(it.Node().Data))
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			l.header, l.list = true, e.Kind == unstable.ArrayTable
			l.from = bytes.LastIndexByte(text[:first.Raw.Offset], '\n') + 1
			l.to = lineEnd(text, int(first.Raw.Offset))
			table = l.path
		case unstable.KeyValue:
			l.path = append(slices.Clone(table), l.path...)
			l.kind = e.Value().Kind
			if l.kind == unstable.Array {
				for it := e.Value().Children(); it.Next(); {
					n := it.Node()
					l.items = append(l.items, item{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length), string(n.Data)})
				}
			}
		}
		lines = append(lines, l)
	}
	if err := p.Error(); err != nil {
		return fmt.Errorf("it is no TOML: %w", err)
	}
	d.text, d.values, d.lines = text, values, lines
	return nil
}

// lineEnd is the end of the line in which an offset lies, before its line break.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + len(bytes.TrimRight(text[at:at+i], "\r"))
	}
	return len(text)
}

func (d *tomlText) splice(all ...splice) error { return d.become(spliced(d.text, all...)) }

// value is what lies at a place; nil when nothing does.
func (d *tomlText) value(path ...string) any {
	var v any = d.values
	for _, key := range path {
		in, is := v.(map[string]any)
		if !is {
			return nil
		}
		v = in[key]
	}
	return v
}

// find is the line that says a place; nil when none does.
func (d *tomlText) find(path ...string) *tomlLine {
	for i := range d.lines {
		if slices.Equal(d.lines[i].path, path) && !d.lines[i].list {
			return &d.lines[i]
		}
	}
	return nil
}

func (d *tomlText) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// append puts a table behind everything, with a blank line in front.
func (d *tomlText) append(table string) error {
	lead := ""
	switch {
	case len(d.text) == 0:
	case !bytes.HasSuffix(d.text, []byte("\n")):
		lead = "\n\n"
	case !bytes.HasSuffix(d.text, []byte("\n\n")) && !bytes.HasSuffix(d.text, []byte("\n\r\n")):
		lead = "\n"
	}
	text := strings.ReplaceAll(lead+table, "\n", d.newline())
	return d.splice(splice{len(d.text), len(d.text), text})
}

// dropTable takes out a table with those below it, and the blank line in front.
// What else may say the same place (a dotted key, an inline table) goes too.
func (d *tomlText) dropTable(path ...string) error {
	under := func(l tomlLine) bool { return len(l.path) >= len(path) && slices.Equal(l.path[:len(path)], path) }
	var all []splice
	for i := 0; i < len(d.lines); {
		l := d.lines[i]
		if !under(l) {
			i++
			continue
		}
		out := splice{from: bytes.LastIndexByte(d.text[:l.from], '\n') + 1}
		for i++; i < len(d.lines) && under(d.lines[i]); i++ {
			l = d.lines[i]
		}
		out.to = lineEnd(d.text, l.to)
		out.to += len(d.breakAt(out.to))
		if out.from == 0 {
			out.to += len(d.breakAt(out.to))
		} else { // the blank line that parted it from what is above
			if before := bytes.TrimRight(d.text[:out.from], "\r\n"); len(before) < out.from {
				above := lineEnd(d.text, len(before))
				above += len(d.breakAt(above))
				if len(before) == 0 {
					above = 0
				}
				out.from = max(above, out.from-len(d.newline()))
			}
		}
		all = append(all, out)
	}
	return d.splice(all...)
}

// breakAt is the line break at an offset.
func (d *tomlText) breakAt(at int) string {
	switch rest := d.text[at:]; {
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return "\r\n"
	case bytes.HasPrefix(rest, []byte("\n")):
		return "\n"
	}
	return ""
}

// errByHand is a form that only its author should change.
var errByHand = errors.New("it is written in a form that only a person can change")

// include makes a text an element of the list table.key, which it makes where it
// is missing.
func (d *tomlText) include(text, table, key string) error {
	element := quote(text) // JSON's strings are TOML's
	line := key + " = [" + element + "]"
	l := d.find(table, key)
	switch {
	case l != nil && l.kind != unstable.Array:
		return fmt.Errorf("%s.%s is no list", table, key)
	case l != nil && len(l.items) == 0:
		open := l.from + bytes.LastIndexByte(d.text[l.from:l.to], '[')
		return d.splice(splice{open + 1, open + 1, element})
	case l != nil:
		last := l.items[len(l.items)-1]
		between := ", "
		if n := len(l.items); n > 1 && bytes.Contains(d.text[l.items[n-2].to:last.from], []byte("\n")) {
			between = "," + d.newline() + d.indentOf(last.from)
		} else if _, white, found := cutLast(string(d.text[l.from:last.from]), "\n"); found {
			between = "," + d.newline() + blanks(white)
		}
		return d.splice(splice{last.to, last.to, between + element})
	}
	if d.value(table, key) != nil {
		return errByHand // inside an inline table
	}
	if h := d.find(table); h != nil && h.header {
		return d.splice(splice{h.to, h.to, d.newline() + line})
	}
	if d.value(table) == nil {
		return d.append("[" + table + "]\n" + line + "\n")
	}
	for i := range d.lines { // `table.other = ...`, or `table = {...}`
		l := d.lines[i]
		switch {
		case slices.Equal(l.path, []string{table}) && l.kind == unstable.InlineTable:
			end := l.to - 1
			end -= len(d.text[l.from:end]) - len(bytes.TrimRight(d.text[l.from:end], " \t"))
			lead := ", "
			if d.text[end-1] == '{' {
				lead = " "
			}
			return d.splice(splice{end, end, lead + line})
		case !l.header && len(l.path) > 1 && l.path[0] == table && d.inRoot(i):
			return d.splice(splice{l.from, l.from, table + "." + line + d.newline()})
		}
	}
	return errByHand
}

// inRoot says whether a line stands in front of all tables.
func (d *tomlText) inRoot(i int) bool {
	return !slices.ContainsFunc(d.lines[:i], func(l tomlLine) bool { return l.header })
}

func (d *tomlText) indentOf(at int) string {
	_, line, _ := cutLast(string(d.text[:at]), "\n")
	return blanks(line)
}

// exclude takes an element out of the list table.key. A list in which nothing is
// left goes too when it says nothing but that, and so does its table.
func (d *tomlText) exclude(text, table, key string) error {
	l := d.find(table, key)
	if l == nil {
		return nil
	}
	i := slices.IndexFunc(l.items, func(it item) bool { return it.text == text })
	switch {
	case i < 0:
		return nil
	case len(l.items) == 1:
		return d.dropKey(table, key)
	case i > 0:
		return d.splice(splice{from: l.items[i-1].to, to: l.items[i].to})
	}
	return d.splice(splice{from: l.items[0].from, to: l.items[1].from})
}

func (d *tomlText) dropKey(table, key string) error {
	l := d.find(table, key)
	if h := d.find(table); h != nil && h.header && d.alone(table) {
		return d.dropTable(table)
	}
	from := bytes.LastIndexByte(d.text[:l.from], '\n') + 1
	to := lineEnd(d.text, l.to)
	return d.splice(splice{from: from, to: to + len(d.breakAt(to))})
}

// alone says whether a table holds one thing only.
func (d *tomlText) alone(table string) bool {
	in, is := d.value(table).(map[string]any)
	return is && len(in) == 1
}
