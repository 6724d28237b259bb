package main

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// responses is the wire of Codex: OpenAI's Responses.
type responses struct{}

func (responses) asks(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses")
}

func (responses) read(body []byte) (*request, error) {
	var in struct {
		Stream       bool
		Instructions string
		Tools        []struct{ Name, Type string }
		Input        []struct {
			Type      string
			Role      string
			Content   json.RawMessage
			Arguments string
			Input     string
			Output    json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	q := &request{stream: true, agent: len(in.Tools) > 0, texts: []said{{"instructions", in.Instructions}}}
	for _, t := range in.Tools {
		q.tools = append(q.tools, t.Name)
	}
	for _, item := range in.Input {
		switch item.Type {
		case "message", "":
			sent, role := strand(item.Content), item.Role
			text := unescape(sent)
			if text != sent {
				role += ", with its angle brackets escaped"
			}
			q.texts = append(q.texts, said{role, text})
			if item.Role == "user" {
				q.named(text)
			}
		case "function_call", "custom_tool_call":
			q.texts = append(q.texts, said{"assistant", item.Arguments + item.Input})
		default:
			if item.Output != nil {
				q.texts = append(q.texts, said{"tool", strand(item.Output)})
			}
			if item.Content != nil {
				q.texts = append(q.texts, said{item.Role, strand(item.Content)})
			}
		}
	}
	return q, nil
}

// unescape gives what decklog printed at a Stop: Codex wraps it in a tag of its
// own, and escapes the brackets in it.
func unescape(text string) string {
	if strings.HasPrefix(text, "<hook_prompt ") {
		return html.UnescapeString(text)
	}
	return text
}

func (responses) write(w http.ResponseWriter, q *request, answer reply, number int) {
	id := fmt.Sprintf("resp_live%d", number)
	item := map[string]any{
		"type": "message", "id": fmt.Sprintf("msg_live%d", number), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": answer.text, "annotations": []any{}}},
	}
	if answer.tool != "" {
		arguments, err := json.Marshal(answer.input)
		if err != nil {
			panic(err) // made of strings
		}
		item = map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_live%d", number), "call_id": fmt.Sprintf("call_live%d", number),
			"name": answer.tool, "arguments": string(arguments), "status": "completed",
		}
		if answer.space != "" {
			item["namespace"] = answer.space
		}
	}
	s := newStream(w)
	s.send("response.created", map[string]any{"response": map[string]any{"id": id}})
	s.send("response.output_item.added", map[string]any{"output_index": 0, "item": item})
	s.send("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	s.send("response.completed", map[string]any{"response": map[string]any{
		"id": id, "usage": map[string]any{
			"input_tokens": 10, "input_tokens_details": nil, "output_tokens": 5, "output_tokens_details": nil, "total_tokens": 15,
		},
	}})
}
