package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"decklog/commands"
	"decklog/internal/stamp"
)

// A tool's input is a struct of its own. Its fields are described to the model
// by their tags: `json` names the field, `about` says what it is, `enum` lists
// what it may be, `min` and `max` bound a number, and `need` says that it may not
// be left out.

// schemaOf describes an input as a JSON schema, its fields in their order. Where
// decklog's hook stamps calls, the field of the stamp is in it, because some
// harnesses hold what their own hooks wrote into a call against the schema.
func schemaOf(in reflect.Type, stamped bool) json.RawMessage {
	var properties, needed []string
	for _, f := range fieldsOf(in) {
		properties = append(properties, quoted(f.name)+":"+f.schema())
		if f.needed {
			needed = append(needed, quoted(f.name))
		}
	}
	if stamped {
		properties = append(properties, quoted(stamp.Field)+`:{"type":"string","description":"Leave it out: decklog's own hook fills it in."}`)
	}
	required := ""
	if len(needed) > 0 {
		required = `,"required":[` + strings.Join(needed, ",") + `]`
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}` + required + `,"additionalProperties":false}`)
}

// field is a field of a tool's input.
type field struct {
	name, about string
	kind        reflect.Kind
	enum        []string
	min, max    string
	needed      bool
}

func fieldsOf(in reflect.Type) (fields []field) {
	for i := range in.NumField() {
		f := in.Field(i)
		tag := f.Tag.Get
		v := field{name: tag("json"), about: tag("about"), kind: f.Type.Kind(), min: tag("min"), max: tag("max"), needed: tag("need") != ""}
		if list := tag("enum"); list != "" {
			v.enum = strings.Split(list, ",")
		}
		fields = append(fields, v)
	}
	return fields
}

func (f field) schema() string {
	says := `"description":` + quoted(f.about)
	switch f.kind {
	case reflect.Bool:
		return `{"type":"boolean",` + says + `}`
	case reflect.Int:
		return `{"type":"integer","minimum":` + f.min + `,"maximum":` + f.max + `,` + says + `}`
	case reflect.Slice:
		return `{"type":"array","items":{"type":"string"},` + says + `}`
	}
	if f.enum == nil {
		return `{"type":"string",` + says + `}`
	}
	words, _ := json.Marshal(f.enum)
	return `{"type":"string","enum":` + string(words) + `,` + says + `}`
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// object takes a tool's arguments apart. None at all are an object without fields.
func object(arguments json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(arguments) == 0 || string(arguments) == "null" {
		return fields, nil
	}
	err := json.Unmarshal(arguments, &fields)
	return fields, err
}

// read fills a tool's input. The refusal says what is wrong in the model's
// terms: an unknown field, one that is missing, one of another type, or a value
// that is not among those that it may have.
func read[In any](tool string, given map[string]json.RawMessage) (in In, refused *commands.Refusal) {
	fields := fieldsOf(reflect.TypeFor[In]())
	known := map[string]bool{}
	var names []string
	for _, f := range fields {
		known[f.name] = true
		names = append(names, f.name)
	}
	for name := range given {
		if !known[name] {
			return in, misread(tool, "there is no field %.40q; %s takes %s", name, tool, strings.Join(names, ", "))
		}
	}
	for _, f := range fields {
		if text, there := given[f.name]; !there || string(text) == "null" {
			delete(given, f.name)
			if f.needed {
				return in, misread(tool, "%s is missing: %s", f.name, f.about)
			}
		}
	}
	text, err := json.Marshal(given)
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return in, misread(tool, "%s is a %s, and has to be a %s", wrong.Field, wrong.Value, kindOf(wrong.Type))
	}
	if err != nil {
		return in, misread(tool, "the input cannot be read: %v", err)
	}
	for i, f := range fields {
		if r := f.check(tool, reflect.ValueOf(in).Field(i), given[f.name] != nil); r != nil {
			return in, r
		}
	}
	return in, nil
}

// check holds a value against its bounds.
func (f field) check(tool string, v reflect.Value, there bool) *commands.Refusal {
	switch {
	case !there:
		return nil
	case f.enum != nil:
		for _, word := range f.enum {
			if v.String() == word {
				return nil
			}
		}
		return misread(tool, "%s is %.40q, and has to be one of %s", f.name, v.String(), strings.Join(f.enum, ", "))
	case f.kind == reflect.Int:
		least, _ := strconv.ParseInt(f.min, 10, 64)
		most, _ := strconv.ParseInt(f.max, 10, 64)
		if v.Int() < least || v.Int() > most {
			return misread(tool, "%s is %d, and has to be from %s to %s", f.name, v.Int(), f.min, f.max)
		}
	}
	return nil
}

func misread(tool, format string, args ...any) *commands.Refusal {
	return commands.Refuse(commands.BadRequest, format, args...).
		Better("correct the field that is named, and call "+tool+" again", exampleOf(tool))
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "whole number"
	case reflect.Slice:
		return "list of strings"
	case reflect.Struct, reflect.Map:
		return "JSON object"
	}
	return fmt.Sprint(t.Kind())
}
