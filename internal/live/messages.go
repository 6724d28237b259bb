package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// messages is the wire of Claude Code: Anthropic's Messages.
type messages struct{}

func (messages) asks(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v1/messages")
}

func (messages) read(body []byte) (*request, error) {
	var in struct {
		Stream   bool
		System   json.RawMessage
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	q := &request{stream: in.Stream, agent: len(in.Tools) > 0}
	for _, t := range in.Tools {
		q.tools = append(q.tools, t.Name)
	}
	if in.System != nil {
		q.texts = append(q.texts, said{"instructions", strand(in.System)})
	}
	for _, m := range in.Messages {
		var blocks []struct {
			Type    string
			Text    string
			Content json.RawMessage
			Input   json.RawMessage
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			text := strand(m.Content)
			q.texts = append(q.texts, said{m.Role, text})
			if m.Role == "user" {
				q.named(text)
			}
			continue
		}
		for _, b := range blocks {
			switch b.Type {
			case "text":
				q.texts = append(q.texts, said{m.Role, b.Text})
				if m.Role == "user" {
					q.named(b.Text)
				}
			case "tool_result":
				q.texts = append(q.texts, said{"tool", strand(b.Content)})
			case "tool_use":
				q.texts = append(q.texts, said{m.Role, string(b.Input)})
			}
		}
	}
	return q, nil
}

func (messages) write(w http.ResponseWriter, q *request, answer reply, number int) {
	block, reason := map[string]any{"type": "text", "text": ""}, "end_turn"
	delta := map[string]any{"type": "text_delta", "text": answer.text}
	if answer.tool != "" {
		input, err := json.Marshal(answer.input)
		if err != nil {
			panic(err) // made of strings
		}
		block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_live%d", number), "name": answer.tool, "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
		reason = "tool_use"
	}
	usage := map[string]any{"input_tokens": 10, "output_tokens": 5}
	message := map[string]any{
		"id": fmt.Sprintf("msg_live%d", number), "type": "message", "role": "assistant", "model": modelName,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}
	if !q.stream {
		if answer.tool != "" {
			block["input"] = answer.input
		} else {
			block["text"] = answer.text
		}
		message["content"], message["stop_reason"] = []any{block}, reason
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	s := newStream(w)
	s.send("message_start", map[string]any{"message": message})
	s.send("content_block_start", map[string]any{"index": 0, "content_block": block})
	s.send("content_block_delta", map[string]any{"index": 0, "delta": delta})
	s.send("content_block_stop", map[string]any{"index": 0})
	s.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": usage})
	s.send("message_stop", map[string]any{})
}
