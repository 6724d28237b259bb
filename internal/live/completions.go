package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// completions is the wire of opencode's provider: OpenAI's Chat Completions.
type completions struct{}

func (completions) asks(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions")
}

func (completions) read(body []byte) (*request, error) {
	var in struct {
		Stream   bool
		Tools    []struct{ Function struct{ Name string } }
		Messages []struct {
			Role      string
			Content   json.RawMessage
			ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	q := &request{stream: in.Stream, agent: len(in.Tools) > 0}
	for _, t := range in.Tools {
		q.tools = append(q.tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		role := m.Role
		if role == "system" {
			role = "instructions"
		}
		text := ""
		if m.Content != nil {
			text = strand(m.Content)
		}
		q.texts = append(q.texts, said{role, text})
		for _, c := range m.ToolCalls {
			q.texts = append(q.texts, said{role, c.Function.Arguments})
		}
		if role == "user" {
			q.named(text)
		}
	}
	return q, nil
}

func (completions) write(w http.ResponseWriter, q *request, answer reply, number int) {
	message, reason := map[string]any{"role": "assistant", "content": answer.text}, "stop"
	if answer.tool != "" {
		arguments, err := json.Marshal(answer.input)
		if err != nil {
			panic(err) // made of strings
		}
		message, reason = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("call_live%d", number), "type": "function",
			"function": map[string]any{"name": answer.tool, "arguments": string(arguments)},
		}}}, "tool_calls"
	}
	base := func(object string, choice map[string]any) map[string]any {
		return map[string]any{"id": fmt.Sprintf("chatcmpl-live%d", number), "object": object, "created": 1_796_000_000, "model": modelName, "choices": []any{choice}}
	}
	usage := map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !q.stream {
		answer := base("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": reason})
		answer["usage"] = usage
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	last := base("chat.completion.chunk", map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason})
	last["usage"] = usage
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range []map[string]any{base("chat.completion.chunk", map[string]any{"index": 0, "delta": message, "finish_reason": nil}), last} {
		b, err := json.Marshal(chunk)
		if err != nil {
			panic(err) // made of strings and numbers
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
