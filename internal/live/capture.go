package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// captureHooks adds to a file of hooks, beside decklog's own, one for each of
// these events that keeps what the harness says.
func captureHooks(file string, timeout int, events ...string) func(*stage) error {
	return func(s *stage) error {
		b, err := os.ReadFile(filepath.Join(s.home, file))
		if err != nil {
			return err
		}
		var settings map[string]any
		if err := json.Unmarshal(b, &settings); err != nil {
			return err
		}
		hooks, _ := settings["hooks"].(map[string]any)
		for _, event := range events {
			groups, _ := hooks[event].([]any)
			hooks[event] = append(groups, map[string]any{"hooks": []any{map[string]any{"type": "command", "command": s.keeps(), "timeout": timeout}}})
		}
		return s.writeJSON(file, settings)
	}
}

// keeps is a command that keeps its input.
func (s *stage) keeps() string {
	return fmt.Sprintf(`f=$(date +%%s%%N)-$$; cat > "%[1]s/.$f" && mv "%[1]s/.$f" "%[1]s/$f.json"`, s.capture)
}

// captureOpencode keeps what opencode's plugin tells the hook program: it finds
// this one by its name.
func captureOpencode(s *stage) error {
	name := filepath.Join(s.bin(), "decklog-hook")
	real, err := os.Readlink(name)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\n%s\nexec %s \"$@\" < \"%s/$f.json\"\n", s.keeps(), real, s.capture)
	return os.WriteFile(name, []byte(script), 0o700)
}

// keepCaptured writes the first input of each kind into a folder, as
// EVENT[-VARIANT].json, without what is of this machine and this moment.
func (s *stage) keepCaptured(folder string, taken map[string]bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(s.capture, "*.json")) // named by their time
	if err != nil {
		return err
	}
	inside := false // of a subagent of Gemini's, which nothing else tells
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var said map[string]any
		if err := json.Unmarshal(b, &said); err != nil {
			return fmt.Errorf("read what %s said to a hook: %w", s.label, err)
		}
		inside = inside && !(said["hook_event_name"] == "AfterTool" && said["tool_name"] == "invoke_agent")
		name := filepath.Join(folder, kindOf(said, inside)+".json")
		inside = inside || said["hook_event_name"] == "BeforeTool" && said["tool_name"] == "invoke_agent"
		if taken[name] {
			continue
		}
		taken[name] = true
		var clean bytes.Buffer
		if err := json.Indent(&clean, s.scrub(b, fmt.Sprint(said["session_id"])), "", "  "); err != nil {
			return err
		}
		if err := os.WriteFile(name, append(clean.Bytes(), '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kindOf names an input by its event, and by what a hook could tell it by; for
// one in a subagent, also by when it came.
func kindOf(said map[string]any, inside bool) string {
	name := kebab(fmt.Sprint(said["hook_event_name"]))
	for _, field := range []string{"source", "reason"} {
		if value, is := said[field].(string); is && value != "" {
			name += "-" + kebab(value)
		}
	}
	if tool, is := said["tool_name"].(string); is && !slices.Contains([]string{"Bash", "run_shell_command", "bash"}, tool) {
		name += "-of-" + kebab(tool)
	}
	if said["stop_hook_active"] == true {
		name += "-active"
	}
	if (inside || said["agent_id"] != nil) && !strings.HasPrefix(name, "subagent-") {
		name += "-in-a-subagent"
	}
	return name
}

func kebab(name string) string {
	var b strings.Builder
	for n, r := range name {
		switch {
		case unicode.IsUpper(r):
			if n > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(r))
		case unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return b.String()
}

var (
	uuid       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	agentHex   = regexp.MustCompile(`\b(agent-)?a[0-9a-f]{16}\b`)
	calls      = regexp.MustCompile(`\b(toolu|call|msg)_live\d+`)
	moments    = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	rollouts   = regexp.MustCompile(`sessions/\d{4}/\d\d/\d\d/rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d`)
	lasted     = regexp.MustCompile(`"(duration_ms|totalDurationMs|seconds_since_last_response)":\s*[\d.]+`)
	opencodeID = regexp.MustCompile(`ses_[0-9A-Za-z]{26}`)
	chats      = regexp.MustCompile(`chats/session-\d{4}-\d\d-\d\dT\d\d-\d\d-`)
	nickname   = regexp.MustCompile(`(nickname\\?":\\?")\w+`)
	groups     = regexp.MustCompile(`PGID: \d+`)
	stamps     = regexp.MustCompile(`\bv1\.[\w-]{20,}\.[\w-]{20,}`)
	slug       = regexp.MustCompile(`[^a-zA-Z0-9]`)
)

// scrub puts names that are the same in every run in the place of this
// machine's paths, of ids and of moments.
func (s *stage) scrub(said []byte, session string) []byte {
	paths := map[string]string{
		s.home: "/home/ana", s.work: "/w/demo", filepath.Join(s.folder, "tmp"): "/tmp", s.folder: "/w",
		slug.ReplaceAllString(s.work, "-"): "-w-demo", slug.ReplaceAllString(s.folder, "-"): "-w",
	}
	// The longest first: one path begins another.
	for _, path := range slices.SortedFunc(maps.Keys(paths), func(a, b string) int { return len(b) - len(a) }) {
		said = bytes.ReplaceAll(said, []byte(path), []byte(paths[path]))
	}
	ids := map[string]string{session: "ses_1111000000000000000000000a"}
	if uuid.MatchString(session) {
		ids[session] = "11110000-0000-" + session[14:15] + "000-8000-000000000001"
		said = bytes.ReplaceAll(said, []byte("-"+session[:8]+".jsonl"), []byte("-11110000.jsonl")) // Gemini's transcript
	}
	numbered := func(form string) func([]byte) []byte {
		return func(found []byte) []byte {
			if ids[string(found)] == "" {
				ids[string(found)] = fmt.Sprintf(form, len(ids)+1)
			}
			return []byte(ids[string(found)])
		}
	}
	said = uuid.ReplaceAllFunc(said, func(found []byte) []byte {
		return numbered("22220000-0000-" + string(found[14:15]) + "000-8000-%012d")(found)
	})
	said = agentHex.ReplaceAllFunc(said, func(found []byte) []byte {
		if bare, is := bytes.CutPrefix(found, []byte("agent-")); is {
			return append([]byte("agent-"), numbered("a%016d")(bare)...)
		}
		return numbered("a%016d")(found)
	})
	said = opencodeID.ReplaceAllFunc(said, numbered("ses_22220000000000000000%06d"))
	said = calls.ReplaceAll(said, []byte("${1}_x1"))
	said = moments.ReplaceAll(said, []byte("2026-11-30T09:00:00.000000Z"))
	said = rollouts.ReplaceAll(said, []byte("sessions/2026/11/30/rollout-2026-11-30T09-00-00"))
	said = groups.ReplaceAll(said, []byte("PGID: 12"))
	said = stamps.ReplaceAll(said, []byte("v1.e30.AAAA"))
	said = chats.ReplaceAll(said, []byte("chats/session-2026-11-30T09-00-"))
	said = nickname.ReplaceAll(said, []byte("${1}Ada"))
	return lasted.ReplaceAll(said, []byte(`"$1":12`))
}
