package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// rowsMax bounds how many of the last parts of all sessions one look reads.
const rowsMax = 20_000

// opencode reads a session's parts in opencode's database. What the plugin added
// to a prompt is a text that is marked as nobody's, and what it added to a tool's
// output stands beside that too, where no tool writes:
//
//	message.data {"role":"user"}, part.data {"type":"text","text":"TEXT","synthetic":true}
//	message.data {"role":"assistant"}, part.data {"type":"tool","state":{"output":"…\n\nTEXT","metadata":{"decklog":"TEXT"}}}
//
// The database is opened to be read, waits for nobody's lock, and a writer waits
// for no reader of its log.
func (s Source) opencode(from Mark, visit func(Context)) (to Mark, err error) {
	if _, err := os.Stat(s.File); err != nil {
		return from, err
	}
	db, err := sqlite3.OpenFlags("file:"+strings.ReplaceAll(url.QueryEscape(s.File), "+", "%20")+"?mode=ro", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return from, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Exec("PRAGMA busy_timeout=0; PRAGMA query_only=1"); err != nil {
		return from, err
	}
	last, err := s.lastPart(db)
	if err != nil {
		return from, err
	}
	if last < from.Offset {
		from.Offset = 0 // it was made anew
	}
	q, _, err := db.Prepare(`SELECT p.rowid, p.id, p.data, m.data FROM part p JOIN message m ON m.id = p.message_id
		WHERE p.rowid > ? AND p.rowid <= ? AND p.session_id = ? AND m.session_id = p.session_id AND instr(p.data, 'decklog-message') > 0 ORDER BY p.rowid`)
	if err != nil {
		return from, err
	}
	defer q.Close()
	if err := errors.Join(q.BindInt64(1, max(from.Offset, last-rowsMax)), q.BindInt64(2, last), q.BindText(3, s.Session)); err != nil {
		return from, err
	}
	for q.Step() {
		if text, is := added(q.ColumnRawText(2), q.ColumnRawText(3)); is {
			visit(Context{Text: text, Offset: q.ColumnInt64(0), Record: q.ColumnText(1)})
		}
	}
	if err := q.Err(); err != nil {
		return from, fmt.Errorf("read parts: %w", err)
	}
	from.Offset = last
	return from, nil
}

func (s Source) lastPart(db *sqlite3.Conn) (last int64, err error) {
	q, _, err := db.Prepare("SELECT ifnull(max(rowid), 0) FROM part")
	if err != nil {
		return 0, err
	}
	defer q.Close()
	if q.Step() {
		last = q.ColumnInt64(0)
	}
	return last, q.Err()
}

// added is the text that was added to a user's message, or to a tool's output.
func added(part, message []byte) (string, bool) {
	var text struct {
		Type, Text string
		Synthetic  bool
		State      struct {
			Output   string
			Metadata struct{ Decklog string }
		}
	}
	var of struct{ Role string }
	if json.Unmarshal(part, &text) != nil || json.Unmarshal(message, &of) != nil {
		return "", false
	}
	if text.Type == "tool" {
		beside := text.State.Metadata.Decklog
		return beside, beside != "" && of.Role == "assistant" && strings.HasSuffix(text.State.Output, "\n\n"+beside)
	}
	return text.Text, text.Type == "text" && text.Synthetic && of.Role == "user"
}
