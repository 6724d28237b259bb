package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"decklog/events"
	"decklog/internal/ops"
)

// schema is a JSON schema as the document holds it.
type schema map[string]any

// written are the types that JSON has in another form than Go.
var written = map[reflect.Type]schema{
	reflect.TypeFor[events.Time]():     {"type": "string", "format": "date-time", "description": "RFC 3339, UTC, with microseconds"},
	reflect.TypeFor[events.Span]():     {"type": "string", "description": "a span of time, such as 30m"},
	reflect.TypeFor[json.RawMessage](): {},
}

// text is a text as a caller wrote it.
var text = schema{
	"type": []string{"string", "object"}, "properties": schema{"base64": schema{"type": "string", "contentEncoding": "base64"}},
	"required": []string{"base64"}, "description": `A text. One that is no UTF-8 is {"base64": "..."}, so that it can be refused for what it is.`,
}

func (s schema) clone() schema { return maps.Clone(s) }

// schemas are the document's own types by their names.
type schemas map[string]schema

// of describes a type. What has a name of its own is a reference to it among the
// components. A word may be empty, where there is nothing to say.
func (s schemas) of(t reflect.Type) (schema, error) {
	if is, known := written[t]; known {
		return is.clone(), nil
	}
	if t == reflect.TypeFor[ops.Text]() {
		return orNull(text.clone()), nil
	}
	if all := words[t]; all != nil && t != reflect.TypeFor[events.Type]() { // a newer program writes other events
		return schema{"type": "string", "enum": append(slices.Clone(all), "")}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		is, err := s.of(t.Elem())
		return orNull(is), err
	case reflect.String:
		return schema{"type": "string"}, nil
	case reflect.Bool:
		return schema{"type": "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		return schema{"type": "integer"}, nil
	case reflect.Int64:
		return schema{"type": "integer", "format": "int64"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}, nil
	case reflect.Slice:
		items, err := s.of(t.Elem())
		return schema{"type": []string{"array", "null"}, "items": items}, err
	case reflect.Map:
		values, err := s.of(t.Elem())
		return schema{"type": []string{"object", "null"}, "additionalProperties": values}, err
	case reflect.Struct:
		return s.ref(t)
	}
	return nil, fmt.Errorf("%s has no form in JSON", t)
}

// orNull lets null stand for what is not there.
func orNull(is schema) schema {
	switch of := is["type"].(type) {
	case string:
		is["type"] = []string{of, "null"}
		return is
	case []string:
		if !slices.Contains(of, "null") {
			is["type"] = append(slices.Clone(of), "null")
		}
		return is
	}
	return schema{"anyOf": []any{is, schema{"type": "null"}}}
}

// ref describes a struct among the components, and points to it.
func (s schemas) ref(t reflect.Type) (schema, error) {
	called, known := named[t]
	if !known {
		return nil, fmt.Errorf("%s has no name in the document: give it one in the table beside this", t)
	}
	to := schema{"$ref": "#/components/schemas/" + called.name}
	if s[called.name] != nil {
		return to, nil
	}
	is := schema{"type": "object", "description": called.about}
	s[called.name] = is // first, since a type may hold itself
	properties, required := schema{}, []string{}
	for _, f := range shown(t) {
		of, err := s.of(f.of)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.name, err)
		}
		if says := aboutAnswer(called.name, f.name); says != "" {
			of["description"] = says
		}
		properties[f.name] = of
		if !f.omitted {
			required = append(required, f.name)
		}
	}
	if len(properties) > 0 {
		is["properties"] = properties
	}
	if len(required) > 0 {
		is["required"] = required
	}
	return to, nil
}

// shownField is a field as JSON has it.
type shownField struct {
	name    string
	of      reflect.Type
	omitted bool // where it is empty
}

// shown lists the fields of a struct, those of what is embedded in it as its own.
func shown(t reflect.Type) (fields []shownField) {
	eachField(t, func(name string, f reflect.StructField) {
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, shownField{name, f.Type, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")})
	})
	return fields
}
