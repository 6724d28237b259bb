package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonText is a JSON document, with or without comments, that is edited where it
// must be and stays as it is everywhere else. Places in it are named by the keys
// and indexes that lead there.
type jsonText struct {
	text   []byte
	root   hujson.Value
	edited bool
	// made are the containers that were missing and had to be made.
	made []string
}

func readJSON(text []byte) (*jsonText, error) {
	d := &jsonText{}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if err := d.become(text); err != nil {
		return nil, err
	}
	if _, is := d.root.Value.(*hujson.Object); !is {
		return nil, errors.New("it holds no object")
	}
	return d, nil
}

// become takes over a text if that can be read.
func (d *jsonText) become(text []byte) error {
	root, err := hujson.Parse(text)
	if err != nil {
		return fmt.Errorf("it is no JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d.text, d.root = text, root
	return nil
}

// splice is text in place of a range of another.
type splice struct {
	from, to int
	text     string
}

// splice changes the document in several places at once, if it can still be read
// afterwards.
func (d *jsonText) splice(all ...splice) error {
	d.edited = true
	return d.become(spliced(d.text, all...))
}

func spliced(text []byte, all ...splice) []byte {
	slices.SortStableFunc(all, func(a, b splice) int { return a.from - b.from })
	var b []byte
	at := 0
	for _, s := range all {
		b = append(append(b, text[at:s.from]...), s.text...)
		at = s.to
	}
	return append(b, text[at:]...)
}

// child is what a container holds under a key; of a key that is there twice the
// last, as the harnesses read it.
func child(v *hujson.Value, key string) *hujson.Value {
	switch in := v.Value.(type) {
	case *hujson.Object:
		for i := len(in.Members) - 1; i >= 0; i-- {
			if in.Members[i].Name.Value.(hujson.Literal).String() == key {
				return &in.Members[i].Value
			}
		}
	case *hujson.Array:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(in.Elements) {
			return &in.Elements[i]
		}
	}
	return nil
}

// find is what lies at a place; nil when nothing does.
func (d *jsonText) find(path ...string) *hujson.Value {
	v := &d.root
	for _, key := range path {
		if v = child(v, key); v == nil {
			return nil
		}
	}
	return v
}

// value is what lies at a place, as Go's own JSON knows it; nil when nothing does.
func (d *jsonText) value(path ...string) (value any) {
	v := d.find(path...)
	if v == nil {
		return nil
	}
	plain := v.Clone()
	plain.Minimize()
	_ = json.Unmarshal(plain.Pack(), &value) // it was parsed before
	return value
}

// put adds a member at a place where there is none. The objects above it are
// made where they are missing.
func (d *jsonText) put(raw string, path ...string) error {
	for n := 1; n < len(path); n++ {
		switch v := d.find(path[:n]...); {
		case v == nil:
			return d.make(path[:n], nested(path[n:], raw), path)
		case v.Value.Kind() != '{':
			return fmt.Errorf("%s is no object", pointer(path[:n]))
		}
	}
	return d.add(path[:len(path)-1], path[len(path)-1], raw)
}

// push adds an element at the end of a list, which is made where it is missing.
func (d *jsonText) push(raw string, path ...string) error {
	switch v := d.find(path...); {
	case v == nil:
		if err := d.put("["+raw+"]", path...); err != nil {
			return err
		}
		d.made = append(d.made, pointer(path))
		return nil
	case v.Value.Kind() != '[':
		return fmt.Errorf("%s is no list", pointer(path))
	}
	return d.add(path, "", raw)
}

// make adds a missing object with all that goes into it.
func (d *jsonText) make(path []string, raw string, whole []string) error {
	if err := d.add(path[:len(path)-1], path[len(path)-1], raw); err != nil {
		return err
	}
	for n := len(path); n < len(whole); n++ {
		d.made = append(d.made, pointer(whole[:n]))
	}
	return nil
}

// nested writes the objects around a value.
func nested(path []string, raw string) string {
	for _, key := range slices.Backward(path) {
		raw = "{" + quote(key) + ":" + raw + "}"
	}
	return raw
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func pointer(path []string) string { return strings.Join(path, ".") }

// container is an object or a list, seen alike.
type container struct {
	start, end int // with its brackets
	last       *hujson.Value
	before     hujson.Extra // in front of the last one
	after      hujson.Extra // in front of the closing bracket
}

func containerOf(v *hujson.Value) container {
	c := container{start: v.StartOffset, end: v.EndOffset}
	switch in := v.Value.(type) {
	case *hujson.Object:
		c.after = in.AfterExtra
		if n := len(in.Members); n > 0 {
			c.last, c.before = &in.Members[n-1].Value, in.Members[n-1].Name.BeforeExtra
		}
	case *hujson.Array:
		c.after = in.AfterExtra
		if n := len(in.Elements); n > 0 {
			c.last, c.before = &in.Elements[n-1], in.Elements[n-1].BeforeExtra
		}
	}
	return c
}

// add puts something behind all that a container holds, in the form that it has:
// on a line of its own, or beside the others.
func (d *jsonText) add(path []string, key, raw string) error {
	c := containerOf(d.find(path...))
	trailing := c.last != nil && c.last.AfterExtra != nil
	extra := c.after
	if c.last != nil && !trailing {
		extra = hujson.Extra(d.text[c.last.EndOffset : c.end-1])
	}
	newline, outer := d.newline(), d.indentOf(c.start)
	indent, lines := outer+d.unit(), true
	if c.last != nil {
		if _, behind, found := cutLast(string(c.before), "\n"); found {
			indent = blanks(behind)
		} else { // unless a comment goes to the end of the line
			lines = bytes.Contains(extra, []byte("\n"))
		}
	}
	lead, text := newline+indent, d.written(key, raw, indent, lines)
	if !lines {
		lead = blanks(string(c.before))
	}
	kept := len(bytes.TrimRight(extra, " \t\r\n")) // comments stay where they are
	at := c.end - 1 - len(extra) + kept
	var all []splice
	switch {
	case c.last == nil:
		if !bytes.Contains(extra[kept:], []byte("\n")) {
			text += newline + outer
		}
	case trailing:
		text += ","
	default:
		all = append(all, splice{c.last.EndOffset, c.last.EndOffset, ","})
	}
	return d.splice(append(all, splice{at, at, lead + text})...)
}

// written writes a member or an element.
func (d *jsonText) written(key, raw, indent string, lines bool) string {
	colon := ":"
	if lines || bytes.Contains(d.text, []byte(`": `)) {
		colon = ": "
	}
	if key != "" {
		key = quote(key) + colon
	}
	if !lines {
		return key + raw
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(raw), indent, d.unit()); err != nil {
		return key + raw
	}
	return key + strings.ReplaceAll(b.String(), "\n", d.newline())
}

func (d *jsonText) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// unit is by how much the document indents what is deeper by one.
func (d *jsonText) unit() string {
	if o, is := d.root.Value.(*hujson.Object); is && len(o.Members) > 0 {
		if _, indent, found := cutLast(string(o.Members[0].Name.BeforeExtra), "\n"); found && blanks(indent) != "" {
			return blanks(indent)
		}
	}
	return "  "
}

// indentOf is the indentation of the line in which an offset lies.
func (d *jsonText) indentOf(at int) string {
	_, line, found := cutLast(string(d.text[:at]), "\n")
	if !found {
		line = string(d.text[:at])
	}
	return blanks(line)
}

// blanks are the blanks and tabs that a text begins with.
func blanks(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t"))] }

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// drop takes out what lies at a place, with the comma that it no longer needs.
func (d *jsonText) drop(path ...string) error {
	in, key := d.find(path[:len(path)-1]...), path[len(path)-1]
	value := d.find(path...)
	if in == nil || value == nil {
		return nil
	}
	first, count, index := value, 0, 0
	switch c := in.Value.(type) {
	case *hujson.Object:
		count = len(c.Members)
		index = slices.IndexFunc(c.Members, func(m hujson.ObjectMember) bool { return m.Value.StartOffset == value.StartOffset })
		first = &c.Members[index].Name
	case *hujson.Array:
		count = len(c.Elements)
		index, _ = strconv.Atoi(key)
	}
	lead := len(first.BeforeExtra) - len(bytes.TrimRight(first.BeforeExtra, " \t\r\n"))
	out := splice{from: first.StartOffset - lead, to: value.EndOffset}
	last := index == count-1
	switch {
	case !last || value.AfterExtra != nil: // a comma follows
		all := []splice{out, commaAfter(value)}
		if count == 1 {
			all = append(all, d.collapse(in, out.from, commaAfter(value).to))
		}
		return d.splice(all...)
	case count > 1:
		return d.splice(commaAfter(d.before(in, index)), out)
	}
	return d.splice(out, d.collapse(in, out.from, out.to))
}

// collapse takes away the blanks of a container in which nothing is left, not
// even a comment.
func (d *jsonText) collapse(in *hujson.Value, from, to int) splice {
	left := string(d.text[in.StartOffset+1:from]) + string(d.text[to:in.EndOffset-1])
	if strings.TrimSpace(left) != "" {
		return splice{from: to, to: to}
	}
	return splice{from: to, to: in.EndOffset - 1}
}

func (d *jsonText) before(in *hujson.Value, index int) *hujson.Value {
	switch c := in.Value.(type) {
	case *hujson.Object:
		return &c.Members[index-1].Value
	case *hujson.Array:
		return &c.Elements[index-1]
	}
	return in
}

// commaAfter is the comma behind a value that has one.
func commaAfter(v *hujson.Value) splice {
	at := v.EndOffset + len(v.AfterExtra)
	return splice{from: at, to: at + 1}
}

// empty says whether a container holds nothing at all.
func (d *jsonText) empty(path ...string) bool {
	v := d.find(path...)
	if v == nil {
		return false
	}
	return v.EndOffset-v.StartOffset == 2 && (v.Value.Kind() == '{' || v.Value.Kind() == '[')
}
