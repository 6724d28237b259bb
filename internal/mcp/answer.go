package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"decklog/commands"
	"decklog/internal/failure"
	"decklog/internal/render"
)

// AnswerBytesMax bounds an answer: its text, as it counts inside a JSON string,
// with the data beside it. It is under what every harness shows whole.
const AnswerBytesMax = 24_000

// answer is what a tool answers. Some harnesses show a model the text, some the
// data in its place: so data that is there says all that the text says, and where
// the words of others are in an answer there is none.
type answer struct {
	text     string
	data     any
	isError  bool
	delivery string // a token by which the answer is known once it was written; empty: nobody waits for that
}

// room is how much of an answer is left.
func room(said ...string) int {
	left := AnswerBytesMax - 200 // for what stands around it
	for _, s := range said {
		left -= render.EncodedLen(s)
	}
	return left
}

// deliveryKey marks a result that something is confirmed by, once it was written.
const deliveryKey = "decklog/delivery"

func (a answer) result() *mcp.CallToolResult {
	r := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.text}}, StructuredContent: a.data, IsError: a.isError}
	if a.delivery != "" {
		r.Meta = mcp.Meta{deliveryKey: a.delivery}
	}
	return r
}

// refusal is a refusal as a tool tells it: in terms of tools.
type refusal struct {
	commands.Refusal
	Fix     string `json:"fix"`
	Example string `json:"example"`
}

func refuse(r *commands.Refusal) answer {
	v := refusal{*r, inTools(r.Fix), inTools(r.Example)}
	v.Message = inTools(r.Message)
	for i := range v.Candidates { // what a branch or a directory is called is its owner's word
		c := &v.Candidates[i]
		c.Directory, c.Branch = render.Terminal(c.Directory), render.Terminal(c.Branch)
	}
	text := fmt.Sprintf("refused: %s: %s\n", v.Code, render.Terminal(v.Message))
	for _, c := range r.Candidates {
		text += tag("decklog-candidate", "session", c.Session, "harness", c.Harness, "directory", c.Directory, "branch", c.Branch, "live", flag(c.Live)) + "\n"
	}
	text += "Fix: " + render.Terminal(v.Fix) + "\nExample: " + render.Terminal(v.Example)
	return fitting(answer{text: text, data: map[string]any{"refusal": v}, isError: true})
}

// fail is what the machine failed at.
func fail(code, message, fix string) answer {
	f := failure.Failure{Code: code, Message: inTools(message), Fix: inTools(fix)}
	if better := failureFixes[code]; better != "" {
		f.Fix = better
	}
	text := render.Terminal(fmt.Sprintf("failed: %s: %s\nFix: %s", f.Code, f.Message, f.Fix))
	return fitting(answer{text: text, data: map[string]any{"error": f}, isError: true})
}

// failureFixes say what to do where a command line's word on it would mislead
// who calls a tool.
var failureFixes = map[string]string{
	"unknown_outcome":  "nobody can tell whether it was recorded: make the same call again with the same key, and it happens once; without a key look first with decklog_inbox {\"sent\":true}",
	"recorded_unseen":  "it is recorded: make the same call again with the same key for its receipt, and it happens once; without a key do not make it again, and look with decklog_inbox {\"sent\":true}",
	"ledger_newer":     "a newer decklog wrote this ledger: the person who runs this harness installs that one, and begins the session anew",
	"ledger_read_only": "the ledger's file and its folder have to be writable: tell the person who runs this harness; nothing was recorded",
	"not_supported":    "DECKLOG_LEDGER of this server has to name a ledger in a file, sqlite:PATH: tell the person who runs this harness",
	"bad_ledger":       "DECKLOG_LEDGER of this server has to name a ledger in a file, sqlite:PATH: tell the person who runs this harness",
	"file":             "the ledger cannot be reached at its place: tell the person who runs this harness to run `decklog doctor`",
}

// fitting drops the data of an answer that is too large with it, and cuts a text
// that is too large alone: a refusal may quote what it was asked.
func fitting(a answer) answer {
	data, err := json.Marshal(a.data)
	if err != nil || room(a.text)-len(data) < 0 {
		a.data = nil
	}
	if room(a.text) < 0 {
		end := 0
		for left := room(" […]"); end < len(a.text); {
			_, size := nextRune(a.text[end:])
			if left -= render.EncodedLen(a.text[end : end+size]); left < 0 {
				break
			}
			end += size
		}
		a.text = a.text[:end] + " […]"
	}
	return a
}
