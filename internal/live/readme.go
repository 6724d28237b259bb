package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// hooksOf reads the hooks that README.md tells its reader to write for Claude
// Code, so that what is tried is what is told. For Codex it says: the same
// shape, with the other harness's name and a shorter time for SessionEnd.
func (s *stage) hooksOf(harness string) (hooks map[string]any, err error) {
	b, err := os.ReadFile(s.readme)
	if err != nil {
		return nil, err
	}
	begin := bytes.Index(b, []byte(`{"hooks": {`))
	if begin < 0 {
		return nil, fmt.Errorf("%s gives no hooks", s.readme)
	}
	var settings struct {
		Hooks map[string][]struct {
			Matcher string           `json:"matcher,omitempty"`
			Hooks   []map[string]any `json:"hooks"`
		}
	}
	if err := json.NewDecoder(bytes.NewReader(b[begin:])).Decode(&settings); err != nil {
		return nil, fmt.Errorf("read the hooks in %s: %w", s.readme, err)
	}
	hooks = map[string]any{}
	for event, groups := range settings.Hooks {
		var all []any
		for _, g := range groups {
			for _, h := range g.Hooks {
				h["command"] = strings.ReplaceAll(fmt.Sprint(h["command"]), "claude-code", harness)
				if harness == "codex" && event == "SessionEnd" {
					h["timeout"] = 3
				}
			}
			all = append(all, g)
		}
		hooks[event] = all
	}
	return hooks, nil
}
