package transcript

import "encoding/json"

// claudeCode reads a line of ~/.claude/projects/DIRECTORY/SESSION.jsonl. What a
// hook brought stands in an attachment of its own, at Stop too:
//
//	{"type":"attachment","sessionId":"…","uuid":"…","isSidechain":false,
//	 "attachment":{"type":"hook_additional_context","hookEvent":"PostToolUse","content":["TEXT"]}}
//
// What the hook printed is there besides, as a hook_success, and is no sign that
// it was taken. So is what the model's request held, which quotes everything.
func claudeCode(session string) func(line []byte) []Context {
	return func(line []byte) (found []Context) {
		var said struct {
			Type        string
			UUID        string
			SessionID   string
			IsSidechain bool // a subagent's
			Attachment  struct {
				Type      string
				HookEvent string
				Content   texts
			}
		}
		if json.Unmarshal(line, &said) != nil || said.Type != "attachment" || said.SessionID != session || said.IsSidechain ||
			said.Attachment.Type != "hook_additional_context" {
			return nil
		}
		for _, text := range said.Attachment.Content {
			found = append(found, Context{Text: text, Hook: said.Attachment.HookEvent, Record: said.UUID})
		}
		return found
	}
}

// texts is a text, or a list of some. What is neither is none.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	var many []json.RawMessage
	switch {
	case json.Unmarshal(b, &one) == nil:
		*t = texts{one}
	case json.Unmarshal(b, &many) == nil:
		for _, each := range many {
			if json.Unmarshal(each, &one) == nil {
				*t = append(*t, one)
			}
		}
	}
	return nil
}
