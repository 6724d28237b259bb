package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/ops"
)

// written are the types that JSON has in another form than Go.
var written = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[events.Time]():     {Type: "string", Format: "date-time", Description: "RFC 3339, UTC, with microseconds"},
	reflect.TypeFor[events.Span]():     {Type: "string", Description: "a span of time, such as 30m"},
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[ops.Text](): {Types: []string{"string", "null", "object"}, Description: "a text; what is no UTF-8 is {\"base64\": \"...\"}",
		Properties: map[string]*jsonschema.Schema{"base64": {Type: "string", ContentEncoding: "base64"}}},
}

// OpenAPI is the document that describes the table, in OpenAPI 3.1.
func OpenAPI(version string) ([]byte, error) {
	d := document{schemas: map[string]*jsonschema.Schema{}}
	paths := map[string]map[string]any{}
	for _, r := range table {
		operation, err := d.operation(r)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.Name, err)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]any{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = operation
	}
	refusal, err := d.ref(reflect.TypeFor[commands.Refusal]())
	if err != nil {
		return nil, err
	}
	fault, err := d.ref(reflect.TypeFor[failure.Failure]())
	if err != nil {
		return nil, err
	}
	answer := func(name string, schema any, about string) map[string]any {
		return map[string]any{"description": about, "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{
			"type": "object", "required": []string{name}, "properties": map[string]any{name: schema},
		}}}}
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "decklog", "version": version, "summary": "The ledger's operations over HTTP.",
			"description": "Every request needs a token, which names who acts (decklog token create). A command that is sent again with the same `command` id happens once. " +
				"A refusal has the code, what to do instead, and an example; an error is the machine's. With `Accept: application/x-ndjson` long work tells how far it has come, one line of JSON at a time, and the last line is the answer.",
			"license": map[string]any{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{map[string]any{"url": "/"}},
		"security": []any{map[string]any{"token": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas":         d.schemas,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
			"responses": map[string]any{
				"refusal": map[string]any{"description": "It was refused, and the refusal is recorded; or the request was none.", "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{
					"type": "object", "properties": map[string]any{"refusal": refusal, "error": fault},
				}}}},
				"error": answer("error", fault, "The machine failed, or the request was none."),
			},
		},
	}, "", " ")
}

type document struct{ schemas map[string]*jsonschema.Schema }

// ref describes a type among the components, and names it.
func (d *document) ref(t reflect.Type) (map[string]any, error) {
	name := nameOf(t)
	if d.schemas[name] == nil {
		s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: written})
		if err != nil {
			return nil, err
		}
		relax(s)
		d.schemas[name] = s
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}, nil
}

// relax lets more fields be added to an answer: readers pass over what they do
// not know.
func relax(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	for _, p := range s.Properties {
		relax(p)
	}
	if s.Items != nil {
		relax(s.Items)
	}
}

func nameOf(t reflect.Type) string {
	pkg := t.PkgPath()
	return pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + t.Name()
}

func (d *document) operation(r *Route) (map[string]any, error) {
	operation := map[string]any{"operationId": r.Name, "summary": r.Does, "tags": []string{r.Group}, "x-decklog-access": r.Access}
	in, err := jsonschema.ForType(r.In, &jsonschema.ForOptions{TypeSchemas: written})
	if err != nil {
		return nil, err
	}
	var parameters []any
	inPath := map[string]bool{}
	for _, name := range r.Parameters() {
		inPath[name] = true
		parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	in.Required = nil
	body := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, name := range Names(r.In) {
		switch p := in.Properties[name]; {
		case p == nil:
		case inPath[name] && r.InQuery():
			parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": p, "description": "where the path has - because it cannot hold it"})
		case inPath[name]:
			also := *p
			also.Description = "where the path has - because it cannot hold it"
			body.Properties[name] = &also
		case r.InQuery():
			parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": p})
		default:
			body.Properties[name] = p
		}
	}
	if len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if !r.InQuery() {
		operation["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": body}}}
	}
	out, err := d.ref(r.Out)
	if err != nil {
		return nil, err
	}
	var schema any = out
	if r.Receipt {
		schema = map[string]any{"type": "object", "required": []string{"receipt"}, "properties": map[string]any{"receipt": out}}
	}
	kind := "application/json"
	if r.Stream {
		kind = "application/x-ndjson"
		if r.InQuery() {
			kind = "text/event-stream"
		}
	}
	operation["responses"] = map[string]any{
		"200": map[string]any{"description": "As asked.", "content": map[string]any{kind: map[string]any{"schema": schema}}},
		"4XX": map[string]any{"$ref": "#/components/responses/refusal"},
		"5XX": map[string]any{"$ref": "#/components/responses/error"},
	}
	return operation, nil
}
