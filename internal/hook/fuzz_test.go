package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzHookInput(f *testing.F) {
	for _, name := range inputs(f) {
		f.Add(harnessOfInput(name), []byte(given(f, name)))
	}
	real, err := filepath.Glob("testdata/real/*/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range real {
		input, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(filepath.Dir(file)), input)
	}
	for _, input := range []string{
		"", "null", "{}", "[]", "{", `{"hook_event_name":"Stop"}`, `{"hook_event_name":"Stop","session_id":"` + kay + `","stop_hook_active":"true"}`,
		`{"hook_event_name":"SessionStart","session_id":"` + ada + `","source":{"x":[1]},"cwd":7,"session_title":null}`,
		`{"hook_event_name":"SessionStart","session_id":"s","cwd":"` + strings.Repeat("/..", 100) + `","session_title":"\ud800\u0000"}`,
		"{\"hook_event_name\":\"UserPromptSubmit\",\"session_id\":\"\u65e5\u672c\",\"cwd\":\"a\\u0000b\"}",
	} {
		f.Add("claude-code", []byte(input))
		f.Add("codex", []byte(input))
		f.Add("gemini", []byte(input))
	}
	f.Fuzz(func(t *testing.T, harness string, input []byte) {
		s := newStage(t)
		s.join(ada)
		s.join(kay)
		s.request(ada, "Are <you> there?")
		s.request(kay, "Are \u300ayou\u300b there?")
		for range 2 {
			before := len(s.notes.Faults())
			a := s.hook(harness, string(input))
			faults := s.notes.Faults()[before:]
			for _, fault := range faults {
				if fault.Code == "panic" {
					t.Fatalf("panics: %+v", fault)
				}
			}
			if lines := strings.Count(a.stderr.String(), "\n"); lines != len(faults) || lines > 1 {
				t.Errorf("says %q, and notes %+v", a.stderr.String(), faults)
			}
			if a.stdout.Len() == 0 {
				continue
			}
			text, err := readAnswer(harness, a.event, a.stdout.String())
			if err != nil || len(faults) > 0 || size[harness](text) >= sizeMax {
				t.Errorf("%v, faults %+v, %d bytes in\n%s", err, faults, len(text), a.stdout.String())
			}
		}
	})
}
