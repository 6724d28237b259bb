package mcp

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What the operations say is said for a command line. Here a command is written
// as the call of a tool, where there is one.

// form is how the words of a command become the fields of a tool.
type form struct {
	tool   string
	words  []string          // the fields of its arguments, in their order; "do" for one of its own commands
	fields map[string]string // those of its flags, where they differ
	body   string            // the field of what stands behind --
}

var forms = map[string]form{
	"send":    {tool: "decklog_send", fields: map[string]string{"ref": "refs"}, body: "body"},
	"edit":    {tool: "decklog_edit", words: []string{"message"}, body: "body"},
	"inbox":   {tool: "decklog_inbox"},
	"thread":  {tool: "decklog_thread", words: []string{"id"}},
	"wait":    {tool: "decklog_wait", words: []string{"id"}, fields: map[string]string{"timeout": "timeout_seconds"}},
	"turn":    {tool: "decklog_turn", words: []string{"thread"}},
	"peers":   {tool: "decklog_peers"},
	"driver":  {tool: "decklog_driver", words: []string{"thread"}},
	"handoff": {tool: "decklog_handoff", words: []string{"do", "handoff"}},
	"review":  {tool: "decklog_review", words: []string{"do", "review", "label", "risk"}},
	"owed":    {tool: "decklog_owed"},
	"ack":     {tool: "decklog_ack", words: []string{"message", "ack"}},
}

// switches are the flags that take no value.
var switches = map[string]bool{"over": true, "block": true, "why": true, "sent": true}

// command finds a command in a text: in backquotes, or a whole text that is one.
var command = regexp.MustCompile("`(decklog [^`]+)`")

// inTools writes a text in terms of tools: each command in it as the call of a
// tool where there is one, and flags that are left as the fields that they are.
func inTools(text string) string {
	if strings.HasPrefix(text, "decklog ") {
		return asCall(text)
	}
	text = bodies.Replace(text)
	text = command.ReplaceAllStringFunc(text, func(found string) string { return asCall(strings.Trim(found, "`")) })
	return flags.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimPrefix(found, "--")
		switch name {
		case "as":
			return found // no tool takes it: it is the server's
		case "timeout":
			return "timeout_seconds"
		}
		return strings.ReplaceAll(name, "-", "_")
	})
}

// bodies says where a body stands here.
var bodies = strings.NewReplacer("after --, or give it on standard input with -", "in body", "after --", "in body")

var flags = regexp.MustCompile(`--(to|intent|reply-to|ref|turn|key|over|block|why|sent|state|cursor|limit|message|commit|author|reason|link|for|timeout|by|at)\b`)

// asCall writes a command as the call of a tool; as it is, named as a command of
// the shell, where no tool does that.
func asCall(line string) string {
	words, ok := split(line)
	shell := "in a shell: " + line
	if !ok || len(words) < 2 {
		return shell
	}
	f, known := forms[words[1]]
	if !known || words[1] == "owed" && len(words) > 2 && words[2] == "close" {
		return shell
	}
	var fields []string
	var refs []string
	add := func(name string, value any) {
		if ref, is := value.([]string); is { // a flag that comes again is one list
			refs = append(refs, ref...)
			value = refs
			fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, quoted(name)+":") })
		}
		text, _ := json.Marshal(value)
		fields = append(fields, quoted(name)+":"+string(text))
	}
	names := f.words
	rest := words[2:]
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		name, isFlag := strings.CutPrefix(word, "--")
		switch {
		case word == "--":
			if f.body == "" {
				return shell
			}
			add(f.body, strings.Join(rest, " "))
			rest = nil
		case isFlag && switches[name]:
			add(name, true)
		case isFlag && len(rest) == 0:
			return shell
		case isFlag:
			if name == "as" { // who calls is known
				rest = rest[1:]
				continue
			}
			field := strings.ReplaceAll(name, "-", "_")
			if f.fields[name] != "" {
				field = f.fields[name]
			}
			add(field, flagValue(field, rest[0]))
			rest = rest[1:]
		case len(names) == 0:
			return shell
		default:
			name := names[0]
			if names = names[1:]; name == "do" && (word == "offer" || word == "ask" || word == "check") {
				names = []string{"thread"}
			}
			add(name, word)
		}
	}
	return f.tool + " {" + strings.Join(fields, ",") + "}"
}

func flagValue(field, text string) any {
	switch field {
	case "refs":
		return []string{text}
	case "limit":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case "timeout_seconds":
		if d, err := time.ParseDuration(text); err == nil {
			return min(int(d.Seconds()), waitSecondsMax)
		}
	}
	return text
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

func nextRune(s string) (rune, int) { return utf8.DecodeRuneInString(s) }
