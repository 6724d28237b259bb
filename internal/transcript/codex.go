package transcript

import (
	"encoding/json"
	"strings"
)

// codexIs says whether a rollout is that of a session. Its first line names its
// own thread, also in one that was forked and begins with another's history:
//
//	{"type":"session_meta","payload":{"id":"…"}}
func codexIs(session string) func(first []byte) bool {
	return func(first []byte) bool {
		var meta struct {
			Type    string
			Payload struct{ ID string }
		}
		return json.Unmarshal(first, &meta) == nil && meta.Type == "session_meta" && meta.Payload.ID == session
	}
}

// codex reads a line of ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-SESSION.jsonl.
// Beside each part of a message stands whence it came:
//
//	{"type":"response_item","payload":{"type":"message","id":"…","role":"developer","content":[{"type":"input_text","text":"TEXT"}],
//	 "internal_chat_message_metadata_passthrough":{"content_item_kinds":["hooks.additional_context"],
//	  "content_item_metadata":[{"provenance":{"type":"harness","hook":true}}]}}}
//
// What holds a stop comes as a user's message of kind "unknown" with that same
// provenance, its markup escaped:
//
//	<hook_prompt hook_run_id="stop:…">TEXT</hook_prompt>
func codex(line []byte) (found []Context) {
	var said struct {
		Type    string
		Payload struct {
			Type    string
			ID      string
			Content []struct{ Text string }
			Origin  struct {
				Kinds    []string `json:"content_item_kinds"`
				Metadata []struct {
					Provenance struct {
						Type string
						Hook bool
					}
				} `json:"content_item_metadata"`
			} `json:"internal_chat_message_metadata_passthrough"`
		}
	}
	if json.Unmarshal(line, &said) != nil || said.Type != "response_item" || said.Payload.Type != "message" {
		return nil
	}
	origin := said.Payload.Origin
	for i, part := range said.Payload.Content {
		c := Context{Text: part.Text, Record: said.Payload.ID}
		switch {
		case i < len(origin.Kinds) && origin.Kinds[i] == "hooks.additional_context":
		case i < len(origin.Metadata) && origin.Metadata[i].Provenance.Type == "harness" && origin.Metadata[i].Provenance.Hook:
			text, is := prompted(part.Text)
			if !is {
				continue
			}
			c.Text, c.Hook = text, "Stop"
		default:
			continue
		}
		found = append(found, c)
	}
	return found
}

// prompted takes a text out of a hook_prompt.
func prompted(text string) (string, bool) {
	text, is := strings.CutPrefix(text, `<hook_prompt hook_run_id="stop:`)
	if !is {
		return "", false
	}
	_, text, is = strings.Cut(text, `">`)
	if !is {
		return "", false
	}
	text, is = strings.CutSuffix(text, "</hook_prompt>")
	return unescape.Replace(text), is
}

var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&amp;", "&")
