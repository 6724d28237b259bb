package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"decklog/commands"
	"decklog/internal/ops"
)

// object is a JSON object of the document.
type object = map[string]any

// OpenAPI is the document that describes the table, in OpenAPI 3.1, and what is
// served beside it.
func OpenAPI(version string) ([]byte, error) {
	d := document{schemas: schemas{}}
	paths := map[string]object{}
	for _, r := range table {
		operation, err := d.operation(r)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.Name, err)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = object{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = operation
	}
	for path, operations := range beside {
		paths[path] = operations
	}
	responses, err := d.responses()
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "decklog", "version": version, "summary": "The ledger's operations over HTTP.",
			"description": "Every request needs a token, which names who acts (decklog token create). A command that is sent again with the same `command` id happens once. " +
				"A refusal has the code, what to do instead, and an example; an error is the machine's. With `Accept: application/x-ndjson` long work tells how far it has come, one line of JSON at a time, and the last line is the answer: " +
				"its `receipt`, its `view`, a `refusal` or an `error`. Readers pass over fields that they do not know: later versions add some.",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []string{}}},
		"tags":     tags(),
		"paths":    paths,
		"components": object{
			"schemas":         d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "A token of `decklog token create`."}},
			"responses":       responses,
		},
	}, "", " ")
}

func tags() (all []any) {
	for _, g := range []struct{ name, about string }{
		{conversation, "Messages and threads."}, {driving, "Who drives a thread, and what is owed in it."},
		{delivery, "How mail reaches whom it went to. A lease offers it, and a confirm says that it was printed."},
		{presence, "Who is here."}, {audit, "The ledger itself: its events, its policy, how it stands."},
		{adapters, "What decklog's own hooks ask for."}, {server, "The server itself."},
	} {
		all = append(all, object{"name": g.name, "description": g.about})
	}
	return all
}

// server is the group of what no operation answers.
const server = "server"

type document struct{ schemas schemas }

// Faults are the codes of errors, by the status that each is answered with. They
// are those of a request that reached no operation.
var Faults = map[int][]string{
	400: {"bad_request", "bad_path", "beyond_end", "request_incomplete"},
	401: {"no_token", "bad_token", "revoked_token", "expired_token"},
	403: {"read_only_token", "machine_only", "cross_site"},
	404: {"not_found", "no_such_path"},
	409: {"conflict", "rebuilding"},
	429: {"too_many", "too_many_failures"},
}

// statuses are those that the document names one by one, and what they say.
var statuses = []struct {
	status      int
	name, about string
}{
	{400, "BadRequest", "The request was none, or a value in it is none that it may have. Nothing was recorded but the refusal."},
	{401, "Unauthorized", "There is no good token, or nobody can tell who acts."},
	{403, "Forbidden", "The one who acts may not do this."},
	{404, "NotFound", "What the request names is not there."},
	{409, "Conflict", "It cannot be done as things stand."},
	{429, "TooMany", "It was too much in too short a time. The refusal tells when there is room again; an error, in Retry-After, after how many seconds."},
}

// responses are the answers to what does not come to its end.
func (d *document) responses() (object, error) {
	refusal, err := d.schemas.of(reflect.TypeFor[commands.Refusal]())
	if err != nil {
		return nil, err
	}
	fault, err := d.schemas.of(reflect.TypeFor[Failure]())
	if err != nil {
		return nil, err
	}
	one := func(name string, is schema) object {
		return object{"type": "object", "required": []string{name}, "properties": object{name: is}}
	}
	answer := func(about string, forms ...any) object {
		return object{"description": about, "content": object{"application/json": object{"schema": object{"oneOf": forms}}}}
	}
	all := object{
		"Refused": answer("It was refused, and the refusal is recorded; or the request was none.", one("refusal", refusal), one("error", fault)),
		"Failed":  answer("The machine failed. Whether a command was recorded nobody can tell from this: send it again with the same command id.", one("error", fault)),
	}
	for _, s := range statuses {
		var refusals []string
		for _, code := range commands.Codes() {
			if code.Status() == s.status {
				refusals = append(refusals, string(code))
			}
		}
		about := s.about + " Codes of errors: " + strings.Join(Faults[s.status], ", ") + "."
		if len(refusals) > 0 {
			about += " Codes of refusals: " + strings.Join(refusals, ", ") + "."
		}
		all[s.name] = answer(about, one("refusal", refusal), one("error", fault))
	}
	return all, nil
}

// notAnswered points to those answers.
func notAnswered() object {
	all := object{"4XX": object{"$ref": "#/components/responses/Refused"}, "5XX": object{"$ref": "#/components/responses/Failed"}}
	for _, s := range statuses {
		all[strconv.Itoa(s.status)] = object{"$ref": "#/components/responses/" + s.name}
	}
	return all
}

func (d *document) operation(r *Route) (object, error) {
	operation := object{"operationId": r.Name, "summary": r.Does, "tags": []string{r.Group}, "x-decklog-access": r.Access, "description": accesses[r.Access]}
	example, shows := exampleOf(r)
	var parameters []any
	inPath := map[string]bool{}
	parameter := func(name, in, about string, is schema) {
		p := object{"name": name, "in": in, "schema": is, "description": about}
		if in == "path" {
			p["required"] = true
		}
		if value, there := example[name]; there && (in == "path" || !inPath[name]) {
			p["example"] = value
		}
		parameters = append(parameters, p)
	}
	body := schema{"type": "object", "additionalProperties": false}
	properties, sent := schema{}, object{}
	required := slices.Clone(needs[r.Name])
	fields := r.fields()
	for _, name := range r.Parameters() {
		inPath[name] = true
		parameter(name, "path", aboutField(r.Name, name)+" - stands for what a path cannot hold, which is then in "+r.rest()+".", schema{"type": "string"})
	}
	for _, f := range fields {
		is, err := d.request(r, f)
		if err != nil {
			return nil, err
		}
		about := aboutField(r.Name, f.name)
		if inPath[f.name] {
			is, about = schema{"type": "string"}, "Only where the path has - in its place."
		}
		switch {
		case r.InQuery():
			parameter(f.name, "query", about, is)
		default:
			is["description"] = about
			properties[f.name] = is
			if value, there := example[f.name]; there && !inPath[f.name] {
				sent[f.name] = value
			}
		}
	}
	if r == &Events.Route {
		parameter("Last-Event-ID", "header", "The position of the last event that came: the stream goes on behind it.", schema{"type": "integer", "format": "int64", "minimum": 0})
	}
	if len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if !r.InQuery() {
		if len(properties) > 0 {
			body["properties"] = properties
		}
		if len(required) > 0 {
			body["required"] = required
		}
		var oneOf []schema
		for _, name := range either[r.Name] {
			oneOf = append(oneOf, schema{"required": []string{name}})
		}
		if oneOf != nil {
			body["anyOf"] = oneOf
		}
		content := object{"schema": body}
		if shows != "" {
			content["examples"] = object{"one": object{"summary": shows, "value": sent}}
		}
		operation["requestBody"] = object{"required": len(required)+len(oneOf) > 0, "content": object{"application/json": content}}
	}
	answers, err := d.answers(r)
	if err != nil {
		return nil, err
	}
	operation["responses"] = answers
	return operation, nil
}

// accesses say what a token must be good for.
var accesses = map[Access]string{
	Read:    "A token that may read is enough.",
	Write:   "It needs a token that may write.",
	Machine: "It needs the machine's own token, which decklog serve keeps beside the ledger.",
}

// rest is where stands what is not in the path.
func (r *Route) rest() string {
	if r.InQuery() {
		return "the query"
	}
	return "the body"
}

// request describes a field of a request.
func (d *document) request(r *Route, f shownField) (schema, error) {
	of := f.of
	pointer := of.Kind() == reflect.Pointer
	if pointer {
		of = of.Elem()
	}
	if all := wordsOf(r, f.name, of); all != nil {
		return schema{"type": "string", "enum": all}, nil
	}
	is, err := d.schemas.of(of)
	if err != nil {
		return nil, err
	}
	if of == reflect.TypeFor[ops.Text]() && slices.Contains(needs[r.Name], f.name) {
		return text.clone(), nil // null is as if it were not there
	}
	b, bounded := bounds[r.Name+"."+f.name]
	if !bounded {
		b, bounded = bounds[f.name]
	}
	if bounded {
		is["minimum"] = b.least
		if b.most > 0 {
			is["maximum"] = b.most
		}
		if b.usual > 0 {
			is["default"] = b.usual
		}
	}
	if f.name == "command" {
		is["format"] = "uuid"
	}
	if pointer && !r.InQuery() {
		is = orNull(is)
	}
	return is, nil
}

// answers describe what comes back.
func (d *document) answers(r *Route) (object, error) {
	out, err := d.schemas.of(r.Out)
	if err != nil {
		return nil, err
	}
	is := object(out)
	var headers object
	switch {
	case r.Receipt:
		is = object{"type": "object", "required": []string{"receipt"}, "properties": object{"receipt": out}}
	case r.Shows():
		is = object{"allOf": []any{out, object{"type": "object", "properties": object{"stale": object{"const": true, "description": stale}}}}}
		headers = object{StaleHeader: object{"description": stale, "schema": object{"const": true}}}
	}
	content := object{"application/json": object{"schema": is}}
	about := "As asked."
	switch {
	case r == &Events.Route:
		about = "As asked. Each event of the stream has its position as its id, its type as its event and itself as its data; the last, `end`, says why the stream ended, as `reason`. In lines, the last line is the position behind which more may come, as `last`."
		content = object{"text/event-stream": object{"schema": object{"type": "string"}}, "application/x-ndjson": object{"schema": out}}
	case r.Stream:
		content = object{"application/x-ndjson": object{"schema": out}}
	}
	answers := notAnswered()
	answered := object{"description": about, "content": content}
	if headers != nil {
		answered["headers"] = headers
	}
	answers["200"] = answered
	return answers, nil
}

// stale is what an answer says that does not see what it must.
const stale = "The ledger here has not reached " + AtLeast + " yet, or is behind the cluster that it lies in, or cannot tell. It is not there in any other answer."

// beside is what is served beside the table.
var beside = map[string]object{
	"/healthz": {"get": told("healthz", "Whether the server runs.", object{
		"200": said("It runs.", object{"type": "object", "required": []string{"ok"}, "properties": object{
			"ok": object{"type": "boolean"}, "stale": object{"const": true, "description": "What it shows may lack what the ledger's cluster has: its views can be read, and nothing appended."},
			"says": object{"type": "string", "description": "Why."},
		}}),
	})},
	"/readyz": {"get": told("readyz", "Whether the ledger can be relied on: it can be read, it is not behind the cluster that it lies in, and the latest audit found it as it was written.", object{
		"200": said("It can.", readiness), "503": said("It cannot, or nobody knows yet.", readiness),
	})},
	"/metrics": {"get": told("metrics", "The metrics, for Prometheus.", object{
		"200": object{"description": "As asked.", "content": object{"text/plain": object{"schema": object{"type": "string"}}}},
	})},
	"/v1/openapi.json": {"get": object{
		"operationId": "openapi", "summary": "This document.", "tags": []string{server}, "description": accesses[Read],
		"responses": besideAnswers(object{"200": said("As asked.", object{"type": "object"})}),
	}},
	"/mcp": {"post": object{
		"operationId": "mcp", "summary": "decklog's tools, in the Model Context Protocol's streamable HTTP: one message of JSON-RPC in a request, and its answer.", "tags": []string{server},
		"description": "A token that may read reaches the tools that only read; the others need one that may write. A client sends Accept: application/json, text/event-stream.",
		"requestBody": object{"required": true, "content": object{"application/json": object{
			"schema":   object{"description": "A message of JSON-RPC 2.0, or in old versions of the protocol several."},
			"examples": object{"one": object{"summary": "The tools that there are.", "value": object{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}},
		}}},
		"responses": besideAnswers(object{"200": said("The answer. A tool's refusal is one too, with isError.", object{}), "202": object{"description": "It was a notification."}}),
	}},
}

var readiness = object{"type": "object", "required": []string{"ready", "says", "position", "verify"}, "properties": object{
	"ready": object{"type": "boolean"}, "says": object{"type": "string", "description": "Why."},
	"position": object{"type": "integer", "format": "int64", "description": "Of the last event."},
	"verify": object{"type": []string{"object", "null"}, "description": "The latest audit; null while the first one runs.", "required": []string{"ok", "position", "time", "fault"}, "properties": object{
		"ok": object{"type": "boolean"}, "position": object{"type": "integer", "format": "int64", "description": "Up to which it looked."},
		"time": object{"type": "string", "format": "date-time"}, "fault": object{"type": "string", "description": "The first thing that was wrong; empty: nothing."},
	}},
}}

// told is a route that says how the server is, and nothing of what the ledger
// holds.
func told(name, does string, answers object) object {
	return object{
		"operationId": name, "summary": does, "tags": []string{server}, "description": "From the server's own machine it needs no token.",
		"security": []any{object{}, object{"token": []string{}}}, "responses": besideAnswers(answers),
	}
}

func said(about string, is object) object {
	return object{"description": about, "content": object{"application/json": object{"schema": is}}}
}

func besideAnswers(answers object) object {
	all := notAnswered()
	for status, is := range answers {
		all[status] = is
	}
	return all
}
