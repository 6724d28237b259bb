package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"decklog/events"
	"decklog/internal/ops"
)

func statusline() *Command {
	return &Command{
		Name: "statusline", Group: "set-up", Usage: "",
		Short: "one short line on what waits, for a harness's status line",
		Long: `Prints one line: the seat, the messages that wait, and what is owed and due; nothing
when there is nothing. The count is that of the inbox's queued messages. It reads what the
harness gives its status line on standard input (a JSON object with a session_id), or
none; without one whoever runs it is meant. It changes nothing, and a status line never
shows an error: then it prints nothing and says why on standard error.

In Claude Code's settings.json:
  "statusLine": {"type": "command", "command": "decklog statusline"}`,
		Examples: []string{`echo '{"session_id":"5d0c33e1"}' | decklog statusline`, `decklog statusline --as @ana`},
		Harmless: true,
		Flags:    func(*flag.FlagSet, *run) {},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			view, err := r.status()
			if err != nil {
				complain(r.Stderr, "decklog statusline: %v\n", err)
			}
			if err == nil {
				r.sees()
			}
			if r.json {
				return r.document(ops.Seen(struct {
					ops.StatusView
					Line string `json:"line"`
				}{view, statusLine(view)}, r.stale))
			}
			if line := statusLine(view); line != "" {
				return r.printf("%s\n", line)
			}
			return nil
		},
	}
}

// statusInputMax bounds what is read of a harness's JSON.
const statusInputMax = 1 << 20

// status looks at the ledger, if there is one.
func (r *run) status() (view ops.StatusView, err error) {
	as := r.named()
	if as == "" {
		as = r.statusSession()
	}
	file, err := r.LedgerFile(r.address())
	if err != nil {
		return view, err
	}
	if _, err := os.Stat(file); file != "" && os.IsNotExist(err) {
		return view, nil // it would be made
	}
	if err := r.open(); err != nil {
		return view, err
	}
	return r.ops.Status(ops.Asker{As: as})
}

// statusSession is the session that the harness names on standard input.
func (r *run) statusSession() string {
	if terminal(r.Stdin) {
		return ""
	}
	var in struct {
		Session string `json:"session_id"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Stdin, statusInputMax))
	if err != nil || json.Unmarshal(text, &in) != nil {
		return ""
	}
	return in.Session
}

// statusLine says a view in one short line; empty when it says nothing.
func statusLine(v ops.StatusView) string {
	var parts []string
	if v.Waiting > 0 {
		says := fmt.Sprintf("%d waiting", v.Waiting)
		var others []string
		for _, w := range v.Mailboxes {
			if w.Mailbox != v.Participant && w.Messages > 0 {
				others = append(others, fmt.Sprintf("%d for %s", w.Messages, w.Mailbox))
			}
		}
		if len(others) > 0 {
			says += " (" + strings.Join(others, ", ") + ")"
		}
		parts = append(parts, says)
	}
	if v.Owed > 0 {
		says := fmt.Sprintf("%d owed", v.Owed)
		if v.Due > 0 {
			says += fmt.Sprintf(" (%d due)", v.Due)
		}
		parts = append(parts, says)
	}
	seat := ""
	if v.Seat != "" {
		seat = " " + string(events.Named(v.Seat))
	}
	if len(parts) == 0 && seat == "" {
		return ""
	}
	line := "decklog" + seat
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}
