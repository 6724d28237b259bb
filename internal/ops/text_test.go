package ops_test

import (
	"encoding/json"
	"testing"

	"decklog/internal/ops"
)

func TestATextIsAStringAndNothingOfItIsLost(t *testing.T) {
	for in, want := range map[string]string{
		`"a <b> & c"`: "a <b> & c", `""`: "", `{"base64":"/w=="}`: "\xff", `{"base64":""}`: "",
	} {
		var got ops.Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || got == nil || string(got) != want {
			t.Errorf("%s is read as %q, %v", in, got, err)
		}
	}
	var none ops.Text
	if err := json.Unmarshal([]byte(`null`), &none); err != nil || none != nil {
		t.Errorf("null is read as %q, %v", none, err)
	}
	for _, in := range []string{`{"sev":2}`, `{"base64":"/w==","sev":2}`, `{}`, `{"base64":null}`, `{"base64":"%"}`, `["a"]`, `3`, `true`} {
		got := ops.Text("as it was")
		if err := json.Unmarshal([]byte(in), &got); err == nil || string(got) != "as it was" {
			t.Errorf("%s is read as %q, without an error", in, got)
		}
	}
}
