package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"decklog/commands"
	"decklog/internal/ops"
)

// Access is what a caller's token must be good for.
type Access string

// The accesses.
const (
	Read    Access = "read"    // it looks
	Write   Access = "write"   // it changes something
	Machine Access = "machine" // what hooks and adapters of the ledger's own machine do
)

// Route is one line of the table.
type Route struct {
	Name   string // of the operation, as OpenAPI has it
	Method string
	Path   string // names in braces are fields of the request
	Group  string
	Does   string
	Access Access
	// Receipt says that what changed is answered as {"receipt": ...}; else the
	// answer is the view itself.
	Receipt bool
	// Weighs says that the answer is a view, although something may be changed for it:
	// who goes by it must be told where it is stale.
	Weighs bool
	// Stream says that the answer is a stream: of server-sent events or of lines.
	Stream  bool
	In, Out reflect.Type
	// Do asks for the operation with a request of type In, given as JSON.
	Do func(ctx context.Context, desk ops.Operations, in json.RawMessage) (any, *commands.Refusal, error)
}

// Call is a route with its types.
type Call[Q, A any] struct{ Route }

// Routes lists the table, in its order.
func Routes() []*Route { return slices.Clone(table) }

var table []*Route

// enter puts a route into the table.
func enter[Q, A any](r Route, do func(context.Context, ops.Operations, Q) (A, *commands.Refusal, error)) *Call[Q, A] {
	r.In, r.Out = reflect.TypeFor[Q](), reflect.TypeFor[A]()
	c := &Call[Q, A]{r}
	c.Do = func(ctx context.Context, desk ops.Operations, in json.RawMessage) (any, *commands.Refusal, error) {
		q, err := Decode[Q](in)
		if err != nil {
			return nil, nil, err
		}
		return boxed(do(ctx, desk, q))
	}
	table = append(table, &c.Route)
	return c
}

func boxed[A any](a A, r *commands.Refusal, err error) (any, *commands.Refusal, error) {
	return a, r, err
}

// changes is a route that changes something.
func changes[Q, A any](method, path, name, group, does string, do func(ops.Operations, Q) (A, *commands.Refusal, error)) *Call[Q, A] {
	return enter(Route{Name: name, Method: method, Path: path, Group: group, Does: does, Access: Write, Receipt: true},
		func(_ context.Context, desk ops.Operations, q Q) (A, *commands.Refusal, error) { return do(desk, q) })
}

// shows is a route that shows a view.
func shows[Q, A any](path, name, group, does string, do func(ops.Operations, Q) (A, *commands.Refusal, error)) *Call[Q, A] {
	return enter(Route{Name: name, Method: "GET", Path: path, Group: group, Does: does, Access: Read},
		func(_ context.Context, desk ops.Operations, q Q) (A, *commands.Refusal, error) { return do(desk, q) })
}

// BadRequest is a request that is none of its route.
type BadRequest struct{ What string }

func (b BadRequest) Error() string { return b.What }

// Decode reads a request. What is no field of it is an error, so that a misspelt
// one does not go unseen.
func Decode[Q any](in json.RawMessage) (q Q, err error) {
	if err := exact(reflect.TypeFor[Q](), in, ""); err != nil {
		return q, err
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, BadRequest{strings.TrimPrefix(err.Error(), "json: ")}
	}
	return q, nil
}

// exact refuses names of fields that are not written as they are: encoding/json
// takes one in other letters, such as TO or \u017Fend, for the same.
func exact(t reflect.Type, in json.RawMessage, within string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil // it reads itself
	}
	switch t.Kind() {
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(in, &fields) != nil {
			return nil // it is no object, which is said when it is read
		}
		known := map[string]reflect.Type{}
		eachField(t, func(name string, f reflect.StructField) { known[name] = f.Type })
		for name, value := range fields {
			of, is := known[name]
			if !is {
				return BadRequest{fmt.Sprintf("there is no %q here; there are %s", within+name, strings.Join(Names(t), ", "))}
			}
			if err := exact(of, value, within+name+"."); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		var items []json.RawMessage
		if !holdsFields(t.Elem()) || json.Unmarshal(in, &items) != nil {
			return nil
		}
		for _, item := range items {
			if err := exact(t.Elem(), item, within); err != nil {
				return err
			}
		}
	case reflect.Map:
		var items map[string]json.RawMessage
		if !holdsFields(t.Elem()) || json.Unmarshal(in, &items) != nil {
			return nil
		}
		for _, item := range items {
			if err := exact(t.Elem(), item, within); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdsFields says whether there may be names of fields in a type's JSON.
func holdsFields(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsFields(t.Elem())
	}
	return t.Kind() == reflect.Struct
}

// Whole says whether JSON holds text as it was written: what is no UTF-8, and half
// a character that is spelled out, would be read as a question mark.
func Whole(in []byte) error {
	if !utf8.Valid(in) {
		return BadRequest{"the body is not UTF-8; a text that is not goes as {\"base64\": \"...\"}, where a text may"}
	}
	for rest := in; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 >= len(rest) {
			return nil
		}
		rest = rest[at:]
		unit, is := escaped(rest)
		switch {
		case !is:
			rest = rest[2:]
		case !utf16.IsSurrogate(unit):
			rest = rest[6:]
		default:
			low, pair := escaped(rest[6:])
			if !pair || utf16.DecodeRune(unit, low) == utf8.RuneError {
				return BadRequest{fmt.Sprintf("%s in the body is half a character", rest[:6])}
			}
			rest = rest[12:]
		}
	}
}

// escaped is the unit that is spelled out as \uXXXX at the beginning of a text.
func escaped(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(in[2:6]), 16, 16)
	return rune(n), err == nil
}

// Pattern is the route as [net/http.ServeMux] has it.
func (r *Route) Pattern() string { return r.Method + " " + r.Path }

// parameter is a name in braces in a path.
var parameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// Parameters lists the fields that stand in the path.
func (r *Route) Parameters() (names []string) {
	for _, m := range parameter.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, m[1])
	}
	return names
}

// Bound is how long a request may wait for something to happen before it is
// answered that nothing did; its client asks again.
const Bound = 4 * time.Minute

// Patient says whether nothing may be heard of an answer for long: it waits for
// something, which it does for [Bound] at most, or does long work. What reads the
// ledger up to a moment says meanwhile how far it has come.
func (r *Route) Patient() bool {
	return r.Stream || slices.Contains([]string{"turn", "wake", "position", "verify", "rebuild", "judge"}, r.Name)
}

// InQuery says whether what is not in the path is in the query: else it is the body.
func (r *Route) InQuery() bool { return r.Method == "GET" || r.Method == "DELETE" }

// Write puts a request where the route has it: the path with its query, and the body.
func (r *Route) Write(q any) (target string, body []byte, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return "", nil, fmt.Errorf("write the request: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return "", nil, fmt.Errorf("write the request: %w", err)
	}
	target = parameter.ReplaceAllStringFunc(r.Path, func(name string) string {
		name = strings.Trim(name, "{}")
		value := word(fields[name])
		if !plain.MatchString(value) || value == Nothing {
			return Nothing
		}
		delete(fields, name)
		return value
	})
	if !r.InQuery() {
		body, err = json.Marshal(fields)
		return target, body, err
	}
	query := url.Values{}
	for name, value := range fields {
		if s := word(value); s != "" {
			query.Set(name, s)
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return target, nil, nil
}

// Nothing stands in a path for what no path may hold, and what the caller left
// empty: it is refused by the operation, and not taken for another path. What it
// is then stands with the other fields.
const Nothing = "-"

// plain is what a path holds as it is: every id, seat and commit.
var plain = regexp.MustCompile(`^[0-9A-Za-z@:_-][0-9A-Za-z@:._-]*$`)

// word is a JSON value as it stands in a path or a query; empty for what is absent.
func word(v json.RawMessage) string {
	var s string
	switch {
	case len(v) == 0 || string(v) == "null":
		return ""
	case json.Unmarshal(v, &s) == nil:
		return s
	}
	return string(v)
}

// Gather puts a request together from the path, the query and the body. A field
// that stands in two places must be the same in both.
func (r *Route) Gather(inPath func(string) string, query url.Values, body []byte) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if !r.InQuery() && len(bytes.TrimSpace(body)) > 0 {
		if err := Whole(body); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, BadRequest{"the body is no JSON object: " + err.Error()}
		}
		if fields == nil {
			return nil, BadRequest{"the body is no JSON object"}
		}
	}
	known := Fields(r.In)
	if r.Reads() {
		known[AtLeast] = reflect.Int64
	}
	put := func(name, value string) error {
		kind, is := known[name]
		if !is {
			return BadRequest{fmt.Sprintf("there is no %q here; there are %s", name, strings.Join(r.Names(), ", "))}
		}
		encoded, err := literal(kind, value)
		if err != nil {
			return BadRequest{fmt.Sprintf("%s: %v", name, err)}
		}
		if was, there := fields[name]; there && word(was) != word(encoded) {
			return BadRequest{fmt.Sprintf("%s is %s in the path and %s elsewhere", name, value, was)}
		}
		fields[name] = encoded
		return nil
	}
	for name, values := range query {
		if !r.InQuery() {
			return nil, BadRequest{fmt.Sprintf("%q stands in the query; here it belongs into the JSON body", name)}
		}
		if len(values) != 1 {
			return nil, BadRequest{fmt.Sprintf("%q stands in the query %d times", name, len(values))}
		}
		if err := put(name, values[0]); err != nil {
			return nil, err
		}
	}
	for _, name := range r.Parameters() {
		value := inPath(name)
		if value == Nothing {
			if _, there := fields[name]; there {
				continue
			}
			value = ""
		}
		if err := put(name, value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// literal is a word of a path or a query as JSON.
func literal(kind reflect.Kind, value string) (json.RawMessage, error) {
	if !utf8.ValidString(value) {
		return nil, fmt.Errorf("%q is not UTF-8", value)
	}
	switch kind {
	case reflect.Bool:
		if _, err := strconv.ParseBool(value); err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", value)
		}
		return json.RawMessage(strconv.FormatBool(value == "true" || value == "1")), nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return nil, fmt.Errorf("%q is no whole number", value)
		}
		return json.RawMessage(value), nil
	}
	return json.Marshal(value)
}

// Fields gives the fields of a request by their names in JSON, and which kind
// each is: String for whatever is written as one.
func Fields(t reflect.Type) map[string]reflect.Kind {
	fields := map[string]reflect.Kind{}
	eachField(t, func(name string, f reflect.StructField) {
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		kind := of.Kind()
		if of.Implements(marshaler) || of.Implements(texter) {
			kind = reflect.String
		}
		fields[name] = kind
	})
	return fields
}

// Names lists the fields of a request in their order.
func Names(t reflect.Type) (names []string) {
	eachField(t, func(name string, _ reflect.StructField) { names = append(names, name) })
	return names
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	texter      = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
)

func eachField(t reflect.Type, visit func(string, reflect.StructField)) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		visit(name, f)
	}
}
