// Command decklog-hook is what a harness runs at every prompt and every tool
// call: `decklog-hook HARNESS` is `decklog hook HARNESS`, made cheap for the case
// that nothing waits. It looks at one file, the session's bell, and only when
// that rings, or when anything is out of the ordinary, it hands over to the full
// program, which it becomes.
//
// It therefore imports next to nothing, decides no rule, and answers nothing by
// itself: all it can do alone is to be silent.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"decklog/internal/bell"
	"decklog/internal/runs"
)

func main() {
	// The exit code of a panic would forbid the harness to go on.
	defer func() {
		if p := recover(); p != nil {
			os.Stderr.WriteString("decklog-hook: it broke\n")
		}
	}()
	if strings.EqualFold(os.Getenv("DECKLOG"), "off") {
		return
	}
	input, err := readAll(os.Stdin)
	folder := ledgerFolder(os.Args[1:])
	var went runs.Outcome
	if err == nil {
		went = quiet(input, folder, os.Args[1:])
	}
	if went == "" {
		if handOver(input, os.Args[1:]) {
			return // the full program told how it went
		}
		went = runs.Failed
	}
	if folder != "" {
		runs.Tell(folder, runs.Told{Harness: os.Args[1], Outcome: went, Took: runs.Took(os.Getenv)})
	}
}

// quiet says how the run went when it has nothing to do, and notes what it saw of
// the session. Empty, also when in doubt: it has.
func quiet(input []byte, folder string, args []string) runs.Outcome {
	if folder == "" {
		return ""
	}
	in, whole := scan(input)
	if args[0] == "cursor" {
		in.session = in.conversation
	}
	if !whole || in.session == "" {
		return ""
	}
	busy := true
	switch in.event {
	case "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PostToolBatch", // of Claude Code and Codex
		"BeforeAgent", "AfterTool", // of Gemini CLI
		"chat.message", "tool.execute.after", // of opencode
		"beforeSubmitPrompt", "postToolUse": // of Cursor
	case "Stop", "AfterAgent", "session.idle", "stop":
		busy = false
	default:
		return "" // a session's start and end are never left out, nor what comes before a tool
	}
	if in.agent != "" || strings.Contains(in.transcript, "/subagents/agent-") {
		return runs.Passed // a subagent runs its parent's hooks, and takes nothing
	}
	if file := filepath.Base(in.transcript); strings.HasPrefix(file, "rollout-") && !strings.HasSuffix(file, "-"+in.session+".jsonl") {
		return "" // perhaps a subagent's too
	}
	now := now()
	bells := bell.Beside(folder)
	if bells.Rings(in.session, now) {
		if bells.Ignores(in.session, in.cwd) {
			return runs.Ignored
		}
		return ""
	}
	note := bell.NotePath(folder, bell.Name(in.session))
	if bell.Delegating(note) {
		return "" // what ends that must be noted
	}
	_ = bell.Note(note, busy, now) // worth no failure
	return runs.Nothing
}

// ledgerFolder is the folder of the ledger's file; empty when the ledger is not
// one, or cannot be told without the full program.
func ledgerFolder(args []string) string {
	if len(args) != 1 {
		return ""
	}
	url := os.Getenv("DECKLOG_LEDGER")
	if url == "" {
		data := os.Getenv("XDG_DATA_HOME")
		if !filepath.IsAbs(data) {
			home := os.Getenv("HOME")
			if home == "" {
				return ""
			}
			data = filepath.Join(home, ".local", "share")
		}
		return filepath.Join(data, "decklog")
	}
	// The bells lie beside the ledger's file, and as a rule beside the socket of who
	// serves it. Where they do not, none is there, and that is as if it rang.
	for _, scheme := range []string{"sqlite:", "unix:"} {
		if path, is := strings.CutPrefix(url, scheme); is && path != "" {
			return filepath.Dir(path)
		}
	}
	return ""
}
