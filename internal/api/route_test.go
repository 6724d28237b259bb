package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/ops"
)

// fill draws a value of a type, with something in each field that JSON has. What
// only a process itself can hold stays empty.
func fill(t *rapid.T, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[events.Time]():
		v.SetInt(rapid.Int64Range(0, 4e15).Draw(t, "time"))
		return
	case v.Type() == reflect.TypeFor[events.Span]():
		v.SetInt(rapid.Int64Range(1, 1e5).Draw(t, "span") * 1e6)
		return
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
		return
	case v.Type() == reflect.TypeFor[ops.Text]():
		v.SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "text"))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.StringMatching(`[^\x00]{1,8}`).Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int8, reflect.Int16:
		v.SetInt(rapid.Int64Range(1, 100).Draw(t, "int"))
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(rapid.Uint64Range(1, 100).Draw(t, "uint"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	}
}

func drawn(t *rapid.T, of reflect.Type) reflect.Value {
	v := reflect.New(of)
	fill(t, v.Elem())
	return v
}

// A field that is lost on the way, or comes as another, would make a command mean
// something else than it does on a file.
func TestWhatIsAskedComesAsItWasWritten(t *testing.T) {
	for _, r := range api.Routes() {
		t.Run(r.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				q := drawn(t, r.In)
				target, body, err := r.Write(q.Interface())
				if err != nil {
					t.Fatal(err)
				}
				var gathered json.RawMessage
				mux := http.NewServeMux()
				mux.HandleFunc(r.Pattern(), func(_ http.ResponseWriter, req *http.Request) {
					gathered, err = r.Gather(req.PathValue, req.URL.Query(), body)
				})
				req := httptest.NewRequest(r.Method, "/", nil)
				if req.URL, err = url.Parse(target); err != nil {
					t.Fatalf("%s: %v", target, err)
				}
				mux.ServeHTTP(httptest.NewRecorder(), req)
				if err != nil || gathered == nil {
					t.Fatalf("gather %s %s: %v", target, body, err)
				}
				back := reflect.New(r.In)
				if err := json.Unmarshal(gathered, back.Interface()); err != nil {
					t.Fatalf("read %s: %v", gathered, err)
				}
				if !reflect.DeepEqual(back.Interface(), q.Interface()) {
					t.Fatalf("%s %s: asked %+v, came %+v", target, body, q.Elem(), back.Elem())
				}
			})
		})
	}
}

func TestWhatIsAnsweredComesAsItWasGiven(t *testing.T) {
	for _, r := range api.Routes() {
		t.Run(r.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a := drawn(t, r.Out)
				data, err := json.Marshal(a.Interface())
				if err != nil {
					t.Fatal(err)
				}
				back := reflect.New(r.Out)
				if err := json.Unmarshal(data, back.Interface()); err != nil {
					t.Fatalf("read %s: %v", data, err)
				}
				if !reflect.DeepEqual(back.Interface(), a.Interface()) {
					t.Fatalf("%s: given %+v, came %+v", data, a.Elem(), back.Elem())
				}
			})
		})
	}
}

func TestARequestWithWhatIsNoFieldOfItIsNone(t *testing.T) {
	in := func(string) string { return "x" }
	for name, ask := range map[string]func() (json.RawMessage, error){
		"misspelt in the body":   func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`{"too":"@smith"}`)) },
		"misspelt in the query":  func() (json.RawMessage, error) { return api.Inbox.Gather(in, url.Values{"limt": {"3"}}, nil) },
		"twice in the query":     func() (json.RawMessage, error) { return api.Inbox.Gather(in, url.Values{"limit": {"3", "4"}}, nil) },
		"no number":              func() (json.RawMessage, error) { return api.Inbox.Gather(in, url.Values{"limit": {"three"}}, nil) },
		"no yes or no":           func() (json.RawMessage, error) { return api.Inbox.Gather(in, url.Values{"sent": {"perhaps"}}, nil) },
		"in the query of a POST": func() (json.RawMessage, error) { return api.Send.Gather(in, url.Values{"to": {"@smith"}}, nil) },
		"a list":                 func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`[]`)) },
		"null":                   func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`null`)) },
		"half":                   func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`{"to":`)) },
		"two ids":                func() (json.RawMessage, error) { return api.Edit.Gather(in, nil, []byte(`{"message":"y"}`)) },
		"in capitals":            func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`{"To":"@smith"}`)) },
		"in letters that fold":   func() (json.RawMessage, error) { return api.Send.Gather(in, nil, []byte(`{"a\u017f":"@smith"}`)) },
		"no UTF-8 in the query":  func() (json.RawMessage, error) { return api.Inbox.Gather(in, url.Values{"as": {"\xff"}}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask()
			if err == nil {
				_, err = api.Decode[ops.SendRequest](got)
			}
			if err == nil || !strings.Contains(fmt.Sprintf("%T", err), "BadRequest") {
				t.Errorf("it was taken as %s: %v", got, err)
			}
		})
	}
}

func TestAFieldWithinAFieldIsWrittenAsItIs(t *testing.T) {
	if _, err := api.Decode[api.PolicyRequest](json.RawMessage(`{"policy":{"limits":{"hops":3}}}`)); err != nil {
		t.Error(err)
	}
	for _, in := range []string{`{"policy":{"limits":{"Hops":3}}}`, `{"policy":{"seats":[{"Name":"smith"}]}}`, `{"policy":{"\u017feats":[]}}`} {
		if q, err := api.Decode[api.PolicyRequest](json.RawMessage(in)); err == nil {
			t.Errorf("%s was taken as %+v", in, q)
		}
	}
}

// What would be read as a question mark is not what anybody wrote.
func TestATextThatWouldNotBeRecordedAsItWasWrittenIsRefused(t *testing.T) {
	in := func(string) string { return "x" }
	for body, whole := range map[string]bool{
		`{"to":"@smith","body":"Grüße \ud83d\ude00 \\ud800 \n \u00fc"}`: true, `{"body":"\\\\ud800"}`: true,
		"{\"body\":\"\xff\"}": false, "{\"body\":\"\xed\xa0\x80\"}": false, "{\"bo\xffdy\":\"\"}": false,
		`{"body":"\ud83d"}`: false, `{"body":"\uDE00\uD83D"}`: false, `{"body":"\\\ud83d."}`: false, `{"body":"\ud83d\n"}`: false, `{"body":"\ud83d\u0041"}`: false,
	} {
		if _, err := api.Send.Gather(in, nil, []byte(body)); (err == nil) != whole {
			t.Errorf("%q: %v", body, err)
		}
	}
}
