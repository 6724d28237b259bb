package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"decklog/commands"
	"decklog/events"
)

// reader turns a document into a policy.
type reader struct {
	*faults
	roster roster
	broken bool // some of the text could not be read
}

// textBytesMax bounds each single text of a policy.
const textBytesMax = 1000

// field is a key that a table may have.
type field struct {
	name string
	need bool
	read func(key string, v *value)
}

func (r *reader) policy(root *value) events.Policy {
	p := events.DefaultPolicy()
	r.table("", root,
		field{name: "limits", read: func(key string, v *value) { r.limits(key, v, &p.Limits) }},
		field{name: "sessions", read: func(key string, v *value) {
			r.section(key, v, field{name: "ignore", read: r.texts(&p.Sessions.Ignore, isDirectory)})
		}},
		field{name: "seats", read: list(r, &p.Seats, r.seat)},
		field{name: "persons", read: list(r, &p.Persons, r.person)},
		field{name: "areas", read: list(r, &p.Areas, r.area)},
		field{name: "alerts", read: list(r, &p.Alerts, r.alert)},
		field{name: "routing", read: func(key string, v *value) {
			p.Routing = &events.Routing{Timeout: events.Span(RoutingTimeout)}
			r.section(key, v,
				field{name: "classifier", read: r.classifier(&p.Routing.Classifier)},
				field{name: "group", read: func(key string, v *value) {
					r.texts(&p.Routing.Group, isGroup)(key, v)
					r.roster.group(key, p.Routing.Group, v)
				}},
				field{name: "timeout", read: r.span(&p.Routing.Timeout, 100*time.Millisecond, 10*time.Minute, true)},
			)
		}},
	)
	return p
}

func (r *reader) limits(key string, v *value, into *events.Limits) {
	var fields []field
	for _, l := range limits() {
		if l.count != nil {
			fields = append(fields, field{name: l.name, read: r.count(l.count(into), 0, l.countMax)})
		} else {
			fields = append(fields, field{name: l.name, read: r.span(l.span(into), l.spanMin, l.spanMax, l.always)})
		}
	}
	r.section(key, v, fields...)
}

func (r *reader) seat(key string, v *value) (s events.Seat) {
	r.table(key, v,
		field{name: "name", need: true, read: r.name(&s.Name)},
		field{name: "stickers", read: r.texts(&s.Stickers, isWord)},
		field{name: "fallback", read: r.text(&s.Fallback, isWord)},
	)
	r.roster.seat(key, s, v)
	return s
}

func (r *reader) person(key string, v *value) (p events.Person) {
	r.table(key, v,
		field{name: "name", need: true, read: r.name(&p.Name)},
		field{name: "os_user", read: r.text(&p.OSUser, isWord)},
		field{name: "home", read: r.seatOf(&p.Home)},
		field{name: "roles", read: r.texts(&p.Roles, isWord)},
	)
	r.roster.person(key, p, v)
	return p
}

// priorityMin is the least priority of an area; the greatest is as far from 0.
const priorityMin = -1_000_000

func (r *reader) area(key string, v *value) (a events.Area) {
	priority := priorityMin - 1 // until one is read
	if v.get("priority") == nil {
		priority = 0
	}
	r.table(key, v,
		field{name: "seat", need: true, read: r.seatOf(&a.Seat)},
		field{name: "priority", read: r.count(&priority, priorityMin, -priorityMin)},
		field{name: "match", need: true, read: r.texts(&a.Match, nil)},
		field{name: "reason", read: r.text(&a.Reason, nil)},
	)
	if m := v.get("match"); m != nil && m.kind == unstable.Array && len(m.items) == 0 {
		r.add(m.at, key+".match", "name at least one word, or take the area away", "is empty, so that nothing is of this area")
	}
	if priority >= priorityMin {
		a.Priority = priority
		r.roster.priority(key, a, v)
	}
	r.roster.area(key, a, v)
	return a
}

func (r *reader) alert(key string, v *value) (a events.Alert) {
	r.table(key, v,
		field{name: "channel", need: true, read: r.text(&a.Channel, isChannel)},
		field{name: "triager", need: true, read: r.seatOf(&a.Triager)},
	)
	r.roster.alert(key, a, v)
	return a
}

// table reads a table that may have these keys and no others.
func (r *reader) table(key string, v *value, fields ...field) {
	if v.kind != unstable.Table {
		r.add(v.at, key, "write a table of keys and values", "is %s, and not a table", kindOf(v))
		return
	}
	under := func(name string) string {
		if key == "" {
			return name
		}
		return key + "." + name
	}
	for _, e := range v.keys {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.name })
		if i < 0 {
			r.unknown(key, e, under(e.name), fields)
			continue
		}
		fields[i].read(under(e.name), e.value)
	}
	for _, f := range fields {
		if f.need && v.get(f.name) == nil && !r.broken {
			r.add(v.at, under(f.name), "add "+f.name, "is missing")
		}
	}
}

func (r *reader) unknown(table string, e entry, key string, fields []field) {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	fix := "take it away; known here are " + strings.Join(names, ", ")
	if near := nearest(e.name, names); near != "" {
		fix = "write " + near
	} else if table == "" && slices.ContainsFunc(limits(), func(l limit) bool { return l.name == e.name }) {
		fix = "put it under [limits]"
	}
	r.add(e.at, key, fix, "there is no such key")
}

// section reads a table that is there once.
func (r *reader) section(key string, v *value, fields ...field) {
	if v.kind == unstable.Array && !v.closed {
		r.add(v.at, key, "write ["+key+"]", "is a table, and not a list of them")
		for _, item := range v.items {
			r.table(key, item, fields...)
		}
		return
	}
	r.table(key, v, fields...)
}

// list reads tables of which there may be several.
func list[T any](r *reader, into *[]T, read func(key string, v *value) T) func(string, *value) {
	return func(key string, v *value) {
		switch v.kind {
		case unstable.Array:
			for _, item := range v.items {
				*into = append(*into, read(key, item))
			}
		case unstable.Table:
			r.add(v.at, key, "write [["+key+"]]", "is a list of tables, and not a table")
			*into = append(*into, read(key, v))
		default:
			r.add(v.at, key, "write [["+key+"]] and its keys below", "is %s, and not a list of tables", kindOf(v))
		}
	}
}

// count reads a whole number.
func (r *reader) count(into *int, least, most int) func(string, *value) {
	return func(key string, v *value) {
		fix := fmt.Sprintf("write a whole number from %d to %d", least, most)
		if least == 0 {
			fix += "; 0 is no limit"
		}
		if v.kind != unstable.Integer {
			r.add(v.at, key, fix, "is %s, and not a whole number", kindOf(v))
			return
		}
		n, err := strconv.ParseInt(v.text, 0, 64) // its base 0 is TOML's notation
		switch {
		case least == 0 && strings.HasPrefix(v.text, "-"):
			r.add(v.at, key, fix, "is below zero")
		case err != nil || n < int64(least) || n > int64(most):
			r.add(v.at, key, fix, "%s is out of bounds", v.text)
		default:
			*into = int(n)
		}
	}
}

// span reads a length of time. Zero is no limit, unless there must always be one.
func (r *reader) span(into *events.Span, least, most time.Duration, always bool) func(string, *value) {
	return func(key string, v *value) {
		fix := fmt.Sprintf("write %q to %q", writeSpan(events.Span(least)), writeSpan(events.Span(most)))
		if !always {
			fix += `, or "0s" for no limit`
		}
		if v.kind == unstable.Integer {
			if n, err := strconv.ParseInt(v.text, 0, 64); err == nil && n == 0 && !always {
				*into = 0 // zero needs no unit
				return
			}
			r.add(v.at, key, fmt.Sprintf("write its unit, such as %q; %s", v.text+"s", fix), "%s is a number, and not a length of time", v.text)
			return
		}
		if v.kind != unstable.String {
			r.add(v.at, key, fix, "is %s, and not a length of time", kindOf(v))
			return
		}
		length, err := time.ParseDuration(v.text)
		switch {
		case err != nil:
			r.add(v.at, key, fix+"; the units are h, m, s and ms", "%q is no length of time", v.text)
		case length < 0:
			r.add(v.at, key, fix, "%q is below zero", v.text)
		case length == 0 && !always:
			*into = 0
		case length < least || length > most:
			r.add(v.at, key, fix, "%q is out of bounds", v.text)
		default:
			*into = events.Span(length)
		}
	}
}

// text reads a text that is not blank. The check says what is wrong with it, and
// the fix; nil checks no more.
func (r *reader) text(into *string, check func(string) (says, fix string)) func(string, *value) {
	return func(key string, v *value) {
		if v.kind != unstable.String {
			r.add(v.at, key, "write text in quotes", "is %s, and not text", kindOf(v))
			return
		}
		says, fix := "", ""
		switch {
		case strings.TrimSpace(v.text) == "":
			says, fix = "is blank", "write something, or take it away"
		case len(v.text) > textBytesMax:
			says, fix = fmt.Sprintf("has %d bytes", len(v.text)), fmt.Sprintf("write at most %d", textBytesMax)
		case strings.ContainsFunc(v.text, unicode.IsControl):
			says, fix = fmt.Sprintf("%q holds a line's end, a tab or another control character", v.text), "write it in one line"
		case check != nil:
			says, fix = check(v.text)
		}
		if says != "" {
			r.add(v.at, key, fix, "%s", says)
			return
		}
		*into = v.text
	}
}

// texts reads a list of texts, no two of them alike.
func (r *reader) texts(into *[]string, check func(string) (says, fix string)) func(string, *value) {
	return func(key string, v *value) {
		if v.kind != unstable.Array {
			r.add(v.at, key, "write a list: ["+`"..."`+"]", "is %s, and not a list", kindOf(v))
			return
		}
		for _, item := range v.items {
			var text string
			r.text(&text, check)(key, item)
			switch {
			case text == "":
			case slices.Contains(*into, text):
				r.add(item.at, key, "keep one of them", "%q is here twice", text)
			default:
				*into = append(*into, text)
			}
		}
	}
}

// name reads the name of a seat or person.
func (r *reader) name(into *string) func(string, *value) { return r.text(into, isName) }

// seatOf reads the name of a seat that must be on the roster.
func (r *reader) seatOf(into *string) func(string, *value) {
	return func(key string, v *value) {
		r.text(into, isName)(key, v)
		if *into != "" {
			r.roster.refer(key, *into, v.at)
		}
	}
}

// classifier reads a command as a list of its words, or one address as text.
func (r *reader) classifier(into *[]string) func(string, *value) {
	const fix = `write a command as a list, such as ["my-classifier", "--json"], or one address that begins with http:// or https://`
	return func(key string, v *value) {
		switch v.kind {
		case unstable.String:
			var address string
			r.text(&address, nil)(key, v)
			if address != "" && !isAddress(address) {
				r.add(v.at, key, fix, "%q is no address", address)
				return
			}
			*into = []string{address}
		case unstable.Array:
			words := make([]string, len(v.items)) // the words of a command may be alike
			for i, item := range v.items {
				r.text(&words[i], nil)(key, item)
			}
			if len(words) == 0 {
				r.add(v.at, key, fix, "is empty")
			} else if len(words) > 1 && isAddress(words[0]) {
				r.add(v.items[0].at, key, fix, "an address takes no arguments")
			}
			*into = words
		default:
			r.add(v.at, key, fix, "is %s", kindOf(v))
		}
	}
}

func isName(s string) (says, fix string) {
	const fits = "write 1 to 64 of a-z, 0-9, dot, underscore and hyphen, and begin with a letter or digit"
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Sprintf("%q is no name", s), fits
		}
	}
	if len(s) > 64 {
		return fmt.Sprintf("%q is longer than a name may be", s), fits
	}
	return "", ""
}

func isWord(s string) (says, fix string) {
	if strings.ContainsFunc(s, unicode.IsSpace) {
		return fmt.Sprintf("%q holds a blank", s), "write one word"
	}
	return "", ""
}

func isChannel(s string) (says, fix string) {
	if len(s) > commands.ChannelBytesMax {
		return fmt.Sprintf("has %d bytes", len(s)), fmt.Sprintf("write at most %d", commands.ChannelBytesMax)
	}
	return isWord(s)
}

// isGroup wants a name that can be told in a text behind an @: words of letters
// and digits, with one blank between them.
func isGroup(s string) (says, fix string) {
	const fits = `write words of letters and digits with one blank between them, without the @, such as "Agent Force"`
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '-' || r == '.' || r == '_' })
	whole := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
	for _, word := range words {
		if strings.ContainsFunc(word, func(r rune) bool { return !whole(r) }) {
			return fmt.Sprintf("%q is no name", s), fits
		}
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	switch {
	case !whole(first) || !whole(last) || strings.Contains(s, "  "):
		return fmt.Sprintf("%q is no name", s), fits
	case len(s) > 64:
		return fmt.Sprintf("%q is longer than a name may be", s), "write at most 64 bytes"
	case strings.EqualFold(s, events.GroupName):
		return fmt.Sprintf("%q names all seats under every policy", s), "take it away"
	}
	return "", ""
}

// isDirectory wants a directory that is the same one wherever decklog runs. A
// leading ~/ is the user's own; who matches a session's directory replaces it.
func isDirectory(s string) (says, fix string) {
	if s == "~" || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "/") || len(s) > 2 && s[1] == ':' {
		return "", ""
	}
	return fmt.Sprintf("%q depends on where decklog runs", s), "write the whole path, or begin with ~/"
}

func isAddress(s string) bool {
	host, secure := strings.CutPrefix(s, "https://")
	if !secure {
		var plain bool
		if host, plain = strings.CutPrefix(s, "http://"); !plain {
			return false
		}
	}
	return host != "" && host[0] != '/' && !strings.ContainsFunc(host, unicode.IsSpace)
}

// kindOf names what somebody wrote.
func kindOf(v *value) string {
	switch v.kind {
	case unstable.String:
		return "text"
	case unstable.Integer:
		return "a whole number"
	case unstable.Float:
		return "a broken number"
	case unstable.Bool:
		return v.text
	case unstable.Array:
		return "a list"
	case unstable.Table:
		return "a table"
	}
	return "a date or a time"
}
