package mcp

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"decklog/internal/wording"
)

// inTools writes a text in terms of tools: each command in it as the call of a
// tool where there is one, and flags that are left as the fields that they are.
func inTools(text string) string { return toolDoor.Text(text) }

var toolDoor = wording.Door{
	Forms: map[string]wording.Form{
		"send":            {Call: "decklog_send", Body: "body"},
		"edit":            {Call: "decklog_edit", Words: []string{"message"}, Body: "body"},
		"inbox":           {Call: "decklog_inbox"},
		"thread":          {Call: "decklog_thread", Words: []string{"id"}},
		"wait":            {Call: "decklog_wait", Words: []string{"id"}},
		"turn":            {Call: "decklog_turn", Words: []string{"thread"}},
		"peers":           {Call: "decklog_peers"},
		"driver":          {Call: "decklog_driver", Words: []string{"thread"}},
		"handoff offer":   {Call: "decklog_handoff", Given: does("offer"), Words: []string{"thread"}},
		"handoff accept":  {Call: "decklog_handoff", Given: does("accept"), Words: []string{"handoff"}},
		"handoff decline": {Call: "decklog_handoff", Given: does("decline"), Words: []string{"handoff"}},
		"handoff close":   {Call: "decklog_handoff", Given: does("close"), Words: []string{"handoff"}},
		"review ask":      {Call: "decklog_review", Given: does("ask"), Words: []string{"thread"}},
		"review check":    {Call: "decklog_review", Given: does("check"), Words: []string{"thread"}},
		"review label":    {Call: "decklog_review", Given: does("label"), Words: []string{"review", "label", "risk"}},
		"owed":            {Call: "decklog_owed"},
		"ack":             {Call: "decklog_ack", Words: []string{"message", "ack"}},
	},
	// No tool takes an as: it is the server's.
	Flags: map[string]string{"as": "", "timeout": "timeout_seconds", "ref": "refs"},
	Value: func(field, text string) (any, bool) {
		switch field {
		case "refs":
			return []string{text}, true
		case "limit":
			return wording.Number(text)
		case "timeout_seconds":
			d, err := time.ParseDuration(text)
			return min(int(d.Seconds()), waitSecondsMax), err == nil
		}
		return nil, false
	},
	Write: func(tool string, fields []wording.Field) (string, bool) {
		var written []string
		for _, f := range fields {
			text, err := json.Marshal(f.Value)
			if err != nil {
				return "", false
			}
			written = append(written, quoted(f.Name)+":"+string(text))
		}
		return tool + " {" + strings.Join(written, ",") + "}", true
	},
	Elsewhere: "in a shell: ",
}

func does(what string) []wording.Field { return []wording.Field{{Name: "do", Value: what}} }

func nextRune(s string) (rune, int) { return utf8.DecodeRuneInString(s) }
