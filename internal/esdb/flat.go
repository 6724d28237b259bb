package esdb

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A flat object of strings is what metadata is: {"actor": "@smith", "schema": "1"}.
// Each event has one, written once and read on each machine, and encoding/json takes
// longer for it than for the event.

// flat writes one.
type flat []byte

func (f *flat) put(key, value string) {
	before := `,"`
	if len(*f) == 0 {
		before = `{"`
	}
	*f = append(append(append(*f, before...), key...), `":`...)
	if plain(value) && strings.IndexByte(value, '"') < 0 {
		*f = append(append(append(*f, '"'), value...), '"')
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // of a string
	}
	*f = append(*f, text...)
}

func (f flat) bytes() []byte { return append(f, '}') }

// eachOf calls visit with the entries of one, with some perhaps twice, and says
// whether it is one. What is not as flat writes it, or has escapes, is left to
// encoding/json, which alone says what JSON is.
func eachOf(data []byte, visit func(key, value string)) bool {
	if eachPlain(string(data), visit) {
		return true
	}
	var m map[string]string
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	for key, value := range m {
		visit(key, value)
	}
	return true
}

// eachPlain is eachOf where every byte of every value stands for itself.
func eachPlain(rest string, visit func(key, value string)) bool {
	if !plain(rest) {
		return false
	}
	for before := `{"`; ; before = `,"` {
		entry, is := strings.CutPrefix(rest, before)
		if !is {
			return rest == "}" && before != `{"`
		}
		key, entry, is := strings.Cut(entry, `":"`)
		if !is || strings.Contains(key, `"`) {
			return false
		}
		value, after, is := strings.Cut(entry, `"`)
		if !is {
			return false
		}
		visit(key, value)
		rest = after
	}
}

// plain says whether a text stands in JSON as it is, its quotes aside: it is
// printable ASCII without backslashes.
func plain(text string) bool {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b >= utf8.RuneSelf || b == '\\' {
			return false
		}
	}
	return true
}
