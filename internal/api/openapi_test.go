package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// described is the document as a client reads it.
type described struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Summary     string
		Parameters  []struct{ Name, In, Description string }
		RequestBody struct {
			Content map[string]struct {
				Schema struct {
					Required   []string
					Properties map[string]struct {
						Description string
						Enum        []string
					}
				}
				Examples map[string]struct{ Summary string }
			}
		}
		Responses map[string]any
	}
	Components struct {
		Schemas map[string]struct {
			Description string
			Properties  map[string]json.RawMessage
		}
	}
}

func readDocument(t *testing.T) (d described, text string) {
	t.Helper()
	data, err := OpenAPI("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(data)
}

// Who reads the document can write each request without reading anything else.
func TestEveryFieldOfARequestIsDescribed(t *testing.T) {
	d, _ := readDocument(t)
	for _, r := range Routes() {
		o := d.Paths[r.Path][strings.ToLower(r.Method)]
		if o.OperationID != r.Name || o.Summary == "" {
			t.Errorf("%s %s is described as %q: %q", r.Method, r.Path, o.OperationID, o.Summary)
		}
		has := map[string]string{}
		for _, p := range o.Parameters {
			if p.In == "path" || has[p.Name] == "" {
				has[p.Name] = p.Description
			}
		}
		body := o.RequestBody.Content["application/json"]
		for name, p := range body.Schema.Properties {
			if has[name] == "" {
				has[name] = p.Description
			}
		}
		for _, name := range r.Names() {
			if says := has[name]; says == "" || strings.HasPrefix(says, " ") {
				t.Errorf("%s of %s is described as %q", name, r.Name, says)
			}
		}
		if !r.InQuery() && len(body.Examples) != 1 {
			t.Errorf("%s has no example", r.Name)
		}
		for _, status := range []string{"200", "400", "401", "403", "404", "409", "429", "4XX", "5XX"} {
			if o.Responses[status] == nil {
				t.Errorf("%s does not say what %s is", r.Name, status)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/mcp", "/v1/openapi.json"} {
		if len(d.Paths[path]) != 1 {
			t.Errorf("%s is not described", path)
		}
	}
}

// A sentence for a field that is no more, or that every route overrides, would
// stay there for ever.
func TestNothingIsDescribedThatIsNotThere(t *testing.T) {
	used := map[string]bool{}
	for _, r := range Routes() {
		for _, name := range r.Names() {
			if asked[r.Name+"."+name] != "" {
				used[r.Name+"."+name] = true
			} else {
				used[name] = true
			}
		}
	}
	known := func(of string, key string) {
		route, name, _ := strings.Cut(key, ".")
		for _, r := range Routes() {
			if r.Name == route && (name == "" || slices.Contains(Names(r.In), name)) {
				return
			}
		}
		t.Errorf("%s of %s: there is no such field", of, key)
	}
	for key := range asked {
		if !used[key] {
			t.Errorf("what is said of %s is said of nothing", key)
		}
	}
	for key := range bounds {
		if key != AtLeast { // which is no route's own
			known("the bounds", key)
		}
	}
	for route, names := range needs {
		for _, name := range names {
			known("the need", route+"."+name)
		}
	}
	for route, names := range either {
		for _, name := range names {
			known("the need", route+"."+name)
		}
	}
	d, _ := readDocument(t)
	said := map[string]bool{}
	for name, s := range d.Components.Schemas {
		for field := range s.Properties {
			if answering[name+"."+field] != "" {
				said[name+"."+field] = true
			} else {
				said[field] = true
			}
		}
	}
	for key := range answering {
		if !said[key] {
			t.Errorf("what is said of the answers' %s is said of nothing", key)
		}
	}
}

func TestTheNamesOfTheDocumentAreItsOwn(t *testing.T) {
	d, text := readDocument(t)
	seen := map[string]reflect.Type{}
	for of, is := range named {
		if other, twice := seen[is.name]; twice {
			t.Errorf("%s is the name of %s and of %s", is.name, of, other)
		}
		seen[is.name] = of
		if !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(is.name) || !strings.HasSuffix(is.about, ".") {
			t.Errorf("%s is called %q: %q", of, is.name, is.about)
		}
		if d.Components.Schemas[is.name].Description == "" {
			t.Errorf("no answer and no request holds a %s", is.name)
		}
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if seen[m[1]] == nil {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// A word that is added to the source and not to the document would be one that no
// client sends.
func TestTheWordsAreThoseOfTheSource(t *testing.T) {
	source := map[string][]string{} // by package and type
	for _, dir := range []string{"events", "projections", "commands", "internal/ops"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				v, is := n.(*ast.ValueSpec)
				if !is || len(v.Values) != 1 {
					return true
				}
				of, typed := v.Type.(*ast.Ident)
				value, literal := v.Values[0].(*ast.BasicLit)
				if typed && literal && value.Kind == token.STRING {
					word, _ := strconv.Unquote(value.Value)
					key := filepath.Base(dir) + "." + of.Name
					source[key] = append(source[key], word)
				}
				return true
			})
		}
	}
	for of, all := range words {
		want := slices.Clone(source[of.String()])
		got := slices.Clone(all)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%s is one of %q, and here of %q", of, want, got)
		}
	}
	d, _ := readDocument(t)
	for _, c := range []struct{ path, method, field, want string }{
		{"/v1/messages", "post", "intent", "request inform done"},
		{"/v1/messages", "post", "turn", "working final"},
		{"/v1/messages/{message}/ack", "post", "ack", "act no_input"},
		{"/v1/threads/{thread}/route", "post", "verdict", "route stay unavailable"},
		{"/v1/reviews/{review}/label", "post", "label", "root bandage"},
		{"/v1/reviews/{review}/label", "post", "risk", "low med high"},
		{"/v1/threads/{thread}/card", "put", "status", "investigating planning driving reviewing blocked done"},
		{"/v1/wait", "post", "for", "reply final any"},
	} {
		if got := strings.Join(d.Paths[c.path][c.method].RequestBody.Content["application/json"].Schema.Properties[c.field].Enum, " "); got != c.want {
			t.Errorf("%s of %s is one of %q", c.field, c.path, got)
		}
	}
}
