package transcript

import (
	"encoding/json"
	"strings"
)

// geminiIs says whether a file is that of a session, by its first line.
func geminiIs(session string) func(first []byte) bool {
	return func(first []byte) bool {
		var meta struct{ SessionID string }
		return json.Unmarshal(first, &meta) == nil && meta.SessionID == session
	}
}

// gemini reads a line of ~/.gemini/tmp/PROJECT/chats/session-….jsonl. At a prompt
// a hook's text is a part of its own, behind what the user said:
//
//	{"id":"…","type":"user","content":[{"text":"PROMPT"},{"text":"<hook_context>TEXT</hook_context>"}]}
//
// At the start of a session it stands in one part with the first prompt, after a
// tool in the tool's own output, and at the end of a turn it is the next prompt.
// None of these can be told from what the user or the tool said, and so none counts.
func gemini(line []byte) (found []Context) {
	var said struct {
		ID      string
		Type    string
		Content parts
	}
	if json.Unmarshal(line, &said) != nil || said.Type != "user" {
		return nil
	}
	for i, part := range said.Content {
		text, is := strings.CutPrefix(part.Text, "<hook_context>")
		if !is || i == 0 {
			continue
		}
		// What a hook says has its angle brackets escaped, so that this is the first end.
		if text, rest, is := strings.Cut(text, "</hook_context>"); is && rest == "" {
			found = append(found, Context{Text: text, Hook: "BeforeAgent", Record: said.ID})
		}
	}
	return found
}

// parts are those of a message; one that is only a text has none.
type parts []struct{ Text string }

func (p *parts) UnmarshalJSON(b []byte) error {
	var all []struct{ Text string }
	if json.Unmarshal(b, &all) == nil {
		*p = all
	}
	return nil
}
