package main

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// generate is the wire of Gemini CLI: Google's generateContent.
type generate struct{}

func (generate) asks(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(strings.ToLower(r.URL.Path), "generatecontent")
}

// streams says whether the answer is wanted as it comes: the path says so, which
// is not part of the body.
func (generate) streams(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
}

// content is what one side said.
type content struct {
	Role  string
	Parts []struct {
		Text             string
		FunctionCall     *struct{ Args json.RawMessage }
		FunctionResponse *struct {
			ID       string
			Response json.RawMessage
		}
	}
}

func (generate) read(body []byte) (*request, error) {
	var in struct {
		SystemInstruction content
		Tools             []struct{ FunctionDeclarations []struct{ Name string } }
		Contents          []content
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	q := &request{size: len(body)}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			q.tools = append(q.tools, f.Name)
		}
	}
	q.agent = len(q.tools) > 0
	for _, p := range in.SystemInstruction.Parts {
		q.texts = append(q.texts, said{"instructions", p.Text})
	}
	for _, c := range in.Contents {
		given := map[string]bool{}
		for _, p := range c.Parts {
			switch {
			case p.FunctionResponse != nil && given[p.FunctionResponse.ID]:
				// A resumed session has what each of its tools gave twice in a row.
			case p.FunctionCall != nil:
				q.texts = append(q.texts, said{"assistant", string(p.FunctionCall.Args)})
			case p.FunctionResponse != nil:
				given[p.FunctionResponse.ID] = p.FunctionResponse.ID != ""
				q.texts = append(q.texts, said{"tool", outputOf(p.FunctionResponse.Response)})
			default:
				q.texts = append(q.texts, said{c.Role, p.Text})
				if c.Role == "user" {
					q.named(p.Text)
				}
			}
		}
	}
	return q, nil
}

// outputOf is what a tool gave: Gemini wraps it in an object of one field.
func outputOf(response json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(response, &fields) != nil {
		return string(response)
	}
	var all []string
	for _, value := range fields {
		all = append(all, fmt.Sprint(value))
	}
	return html.UnescapeString(strings.Join(all, "\n"))
}

func (generate) write(w http.ResponseWriter, q *request, answer reply, _ int) {
	part := map[string]any{"text": answer.text}
	if answer.tool != "" {
		part = map[string]any{"functionCall": map[string]any{"name": answer.tool, "args": answer.input}}
	}
	b, err := json.Marshal(map[string]any{
		"candidates": []any{map[string]any{
			"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0,
		}},
		"usageMetadata": map[string]any{"promptTokenCount": q.size / 4, "candidatesTokenCount": 5, "totalTokenCount": q.size/4 + 5},
		"modelVersion":  modelName,
	})
	if err != nil {
		panic(err) // made of strings and numbers
	}
	if !q.stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\r\n\r\n", b)
}
