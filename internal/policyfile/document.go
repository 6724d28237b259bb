package policyfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// value is a TOML value that remembers its place. A policy is read into these
// and not into Go types, because its author must be told of every fault at once,
// each with its line, and a decoder stops at the first.
type value struct {
	kind unstable.Kind // Table, Array, or that of a scalar
	at   place
	text string // of a scalar; of a string, what its quotes hold
	// closed says that the value was written whole, and nothing can be added.
	closed bool
	// opened says that the header of a table was seen.
	opened bool
	keys   []entry  // of a table, as written; a key that is there twice is here twice
	items  []*value // of an array
}

// entry is a key of a table, with its value.
type entry struct {
	name string
	at   place
	*value
}

// get finds a key of a table; nil when it is not there.
func (v *value) get(name string) *entry {
	for i := range v.keys {
		if v.keys[i].name == name {
			return &v.keys[i]
		}
	}
	return nil
}

// add puts a key into a table.
func (v *value) add(k key, child *value) *value {
	v.keys = append(v.keys, entry{k.name, k.at, child})
	return child
}

// key is one part of a dotted key.
type key struct {
	name string
	at   place
}

// document reads TOML into a tree.
type document struct {
	*faults
	text  []byte
	lines []int  // the offset at which each line begins
	root  *value // always a table
	table *value // that keys go into; nil behind a header that cannot be read
	// broken says that some of the text could not be read, so that what seems to
	// be missing may only be unread.
	broken bool
}

func readDocument(text []byte, f *faults) *document {
	root := &value{kind: unstable.Table, at: place{line: 1}, opened: true}
	d := &document{faults: f, text: text, root: root, table: root}
	d.lines = []int{0}
	for i, c := range text {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	for from := 0; from < len(text); {
		from = d.read(from)
	}
	return d
}

// read reads from this offset, where a line begins, to the end or to the first
// fault in the TOML itself, and gives the offset to go on from: one slip must
// not hide what is wrong behind it.
func (d *document) read(from int) int {
	var p unstable.Parser
	p.Reset(d.text[from:])
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			d.header(d.keysOf(&p, from, e), e.Kind)
		case unstable.KeyValue:
			if d.table != nil {
				d.set(&p, from, d.table, e)
			}
		}
	}
	if p.Error() == nil {
		return len(d.text)
	}
	d.broken = true
	says, at := p.Error().Error(), from
	if fault, ok := errors.AsType[*unstable.ParserError](p.Error()); ok {
		at += int(p.Range(fault.Highlight).Offset)
	}
	d.add(d.placeOf(at), "", fixOfSyntax(says), "this is no TOML: %s", says)

	line := d.lineOf(at)
	if strings.HasPrefix(d.line(line), "[") {
		d.table = nil
	}
	// A value that was never closed is noticed in the next line only.
	if d.lines[line] == from || !beginsExpression(d.line(line)) || strings.TrimSpace(string(d.text[d.lines[line]:at])) != "" {
		line++
	}
	for line < len(d.lines) && !beginsExpression(d.line(line)) {
		line++
	}
	if line == len(d.lines) {
		return len(d.text)
	}
	return d.lines[line]
}

// placeOf is the place of an offset.
func (d *document) placeOf(offset int) place {
	line := d.lineOf(offset)
	return place{line + 1, utf8.RuneCount(d.text[d.lines[line]:offset]) + 1}
}

// lineOf is the line of an offset, counted from 0.
func (d *document) lineOf(offset int) int {
	line, begins := slices.BinarySearch(d.lines, offset)
	if !begins {
		line--
	}
	return line
}

// line is the text of a line, without the blanks around it.
func (d *document) line(n int) string {
	text := d.text[d.lines[n]:]
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	return string(bytes.TrimSpace(text))
}

// beginsExpression says whether a line looks like the beginning of a section or
// of a key, and not like the inside of a list.
func beginsExpression(line string) bool {
	name := strings.TrimLeft(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
	return strings.HasPrefix(line, "[") || len(name) < len(line) && strings.HasPrefix(strings.TrimSpace(name), "=")
}

func fixOfSyntax(says string) string {
	switch {
	case strings.Contains(says, "must be quoted"), strings.Contains(says, "start of value"), strings.Contains(says, "expected keyword"):
		return `write text in quotes, such as "10m"`
	case strings.Contains(says, "'='"):
		return "write a key, = and a value"
	case strings.Contains(says, "table name"):
		return "write [limits], [sessions] and [routing], but [[seats]], [[persons]], [[areas]] and [[alerts]]"
	case strings.Contains(says, "expected newline"):
		return "write one key in a line; a comment begins with #"
	case strings.Contains(says, "new lines"), strings.Contains(says, "unterminated"), strings.Contains(says, "incomplete"), strings.Contains(says, "after array value"):
		return "close the quotes, the list or the table"
	}
	return "correct the TOML here"
}

// keysOf gives the parts of a header's or a key's name.
func (d *document) keysOf(p *unstable.Parser, from int, n *unstable.Node) (keys []key) {
	for it := n.Key(); it.Next(); {
		k := it.Node()
		keys = append(keys, key{string(k.Data), d.placeOf(from + int(k.Raw.Offset))})
	}
	return keys
}

// header opens a section, in which the keys that follow lie.
func (d *document) header(keys []key, kind unstable.Kind) {
	parent := d.descend(d.root, keys[:len(keys)-1])
	if parent == nil {
		d.table = nil
		return
	}
	k, path := keys[len(keys)-1], dotted(keys)
	have := parent.get(k.name)
	section := func() *value { return &value{kind: unstable.Table, at: k.at, opened: true} }
	switch {
	case have == nil && kind == unstable.Table:
		d.table = parent.add(k, section())
	case have == nil:
		d.table = section()
		parent.add(k, &value{kind: unstable.Array, at: k.at, items: []*value{d.table}})
	case have.kind == unstable.Array && !have.closed:
		if kind == unstable.Table {
			d.add(k.at, path, "write [["+path+"]]", "is a list, but here it is a table")
		}
		d.table = section()
		have.items = append(have.items, d.table)
	case have.kind == unstable.Table && !have.closed:
		if have.opened || kind != unstable.Table {
			d.add(k.at, path, "put all its keys under one ["+path+"]", "is here a second time; the first is in line %d", have.at.line)
		}
		have.opened = true
		d.table = have.value
	default:
		d.table = section() // its keys have no place, and are left unread
		d.add(k.at, path, "keep one of the two", "has a value already, in line %d", have.at.line)
	}
}

// set puts a key and its value into a table.
func (d *document) set(p *unstable.Parser, from int, table *value, n *unstable.Node) {
	keys := d.keysOf(p, from, n)
	last := keys[len(keys)-1]
	if table = d.descend(table, keys[:len(keys)-1]); table == nil {
		return
	}
	if have := table.get(last.name); have != nil {
		d.add(last.at, dotted(keys), "keep one of the two", "is set a second time; the first is in line %d", have.at.line)
	}
	table.add(last, d.valueOf(p, from, n.Value(), last.at))
}

// descend goes down the tables that a dotted key names, and makes those that are
// not there; nil, and a fault, when something else is in the way.
func (d *document) descend(v *value, keys []key) *value {
	for i, k := range keys {
		next := v.get(k.name)
		switch {
		case next == nil:
			v = v.add(k, &value{kind: unstable.Table, at: k.at})
		case next.kind == unstable.Table && !next.closed:
			v = next.value
		case next.kind == unstable.Array && !next.closed:
			v = next.items[len(next.items)-1]
		default:
			d.add(k.at, dotted(keys[:i+1]), "keep one of the two", "has a value already, in line %d", next.at.line)
			return nil
		}
	}
	return v
}

// valueOf copies a value out of the parser, which forgets it.
func (d *document) valueOf(p *unstable.Parser, from int, n *unstable.Node, at place) *value {
	if n.Kind != unstable.Array { // the parser does not say where a list begins
		at = d.placeOf(from + int(n.Raw.Offset))
	}
	v := &value{kind: n.Kind, at: at, closed: true}
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			v.items = append(v.items, d.valueOf(p, from, it.Node(), at))
		}
	case unstable.InlineTable:
		v.kind, v.closed = unstable.Table, false
		for it := n.Children(); it.Next(); {
			d.set(p, from, v, it.Node())
		}
		v.closed = true
	default:
		v.text = string(n.Data)
	}
	return v
}

// compare has the whole text decoded a second time, by the library itself. Its
// rules are finer than those above, and what it refuses must not pass. It comes
// last, when everything that can be said better was said.
func (d *document) compare() {
	if d.broken {
		return
	}
	var all map[string]any
	err := toml.Unmarshal(d.text, &all)
	if err == nil {
		return
	}
	var at place
	if fault, ok := errors.AsType[*toml.DecodeError](err); ok {
		at.line, at.column = fault.Position()
	}
	for _, f := range d.all {
		if f.Line == at.line {
			return
		}
	}
	d.add(at, "", "correct the TOML here", "this is no TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
}

// dotted is a key as one writes it.
func dotted(keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return strings.Join(names, ".")
}
