package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"decklog/internal/api"
)

// described holds what a server says and is told against its own OpenAPI document:
// it stands between the server and its clients, and passes on.
type described struct {
	*httptest.Server
	check validator.Validator

	mu   sync.Mutex
	seen map[string]bool // operations
	// wrong is the first thing that is not as the document says; empty: nothing is.
	wrong string
}

// describe stands before a server.
func describe(at, secret string) (*described, error) {
	to, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, at+"/v1/openapi.json", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		return nil, fmt.Errorf("the document is none: %w", err)
	}
	d := &described{seen: map[string]bool{}}
	check, faults := validator.NewValidator(document)
	if len(faults) > 0 {
		return nil, fmt.Errorf("the document is none: %v", faults)
	}
	if valid, faults := check.ValidateDocument(); !valid {
		return nil, fmt.Errorf("the document is not one of OpenAPI 3.1: %v", faults[0])
	}
	d.check = check
	proxy := &httputil.ReverseProxy{
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: d.answered,
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if valid, faults := d.check.ValidateHttpRequestSync(r); !valid {
			r = r.WithContext(context.WithValue(r.Context(), undescribed{}, fmt.Sprintf("%.300s: %v", body, faults[0])))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	return d, d.besides(secret)
}

// besides asks for what is served beside the table, through the check.
func (d *described) besides(secret string) error {
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/healthz", ""}, {"GET", "/readyz", ""}, {"GET", "/metrics", ""}, {"GET", "/v1/openapi.json", ""},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	} {
		req, err := http.NewRequestWithContext(context.Background(), c.method, d.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		if c.body != "" {
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK && !(c.path == "/readyz" && res.StatusCode == http.StatusServiceUnavailable) {
			return fmt.Errorf("%s %s of the document: %s", c.method, c.path, res.Status)
		}
	}
	return nil
}

func (d *described) fault(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wrong == "" {
		d.wrong = fmt.Sprintf(format, args...)
	}
}

// undescribed is under what a request carries why the document forbids it. The
// server may refuse that, and not do it.
type undescribed struct{}

// lenient are the routes that do more than the document asks a client for: a label
// that cannot be read is recorded as none.
var lenient = []string{api.LabelReview.Name}

func routeOf(r *http.Request) *api.Route {
	for _, one := range api.Routes() {
		if one.Method == r.Method && matches(one.Path, r.URL.Path) {
			return one
		}
	}
	return nil
}

// answered looks at an answer that is one document. What comes in lines is the
// same documents, and is looked at by who reads it.
func (d *described) answered(res *http.Response) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if r := routeOf(res.Request); r != nil && res.StatusCode == http.StatusOK {
			d.saw(r)
		}
		return nil
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	copied := *res
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if valid, faults := d.check.ValidateHttpResponse(res.Request, &copied); !valid {
		d.fault("the answer to %s %s, %d %.300s: %v: %v", res.Request.Method, res.Request.URL, res.StatusCode, body, faults[0], faults[0].SchemaValidationErrors)
	}
	r := routeOf(res.Request)
	if why := res.Request.Context().Value(undescribed{}); why != nil && r == nil {
		d.fault("the document has no %s %s: %s", res.Request.Method, res.Request.URL, why)
	}
	if res.StatusCode != http.StatusOK || r == nil {
		return nil
	}
	if why := res.Request.Context().Value(undescribed{}); why != nil && !slices.Contains(lenient, r.Name) {
		d.fault("the request %s %s was taken: %s", res.Request.Method, res.Request.URL, why)
	}
	d.saw(r)
	return nil
}

func (d *described) saw(r *api.Route) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[r.Name] = true
}

// unasked are the operations that no short command asks for in a scenario: hooks,
// waiting programs and the doctor do. The document's examples are sent for each in
// the server's own tests.
var unasked = []string{api.Wake.Name, api.Position.Name, api.Give.Name, api.Silence.Name, api.Ignore.Name, api.Examine.Name}

func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], "{") {
			return false
		}
	}
	return true
}

// answeredEver are the operations that answered well in any scenario.
var answeredEver sync.Map

// everyOperationAnswered says which operations no scenario reached.
func everyOperationAnswered(t *testing.T) {
	for _, r := range api.Routes() {
		if _, seen := answeredEver.Load(r.Name); !seen && !r.Stream && !slices.Contains(unasked, r.Name) {
			t.Errorf("no scenario asks for %s %s", r.Method, r.Path)
		}
	}
}
