package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/ops"
)

// voyage is a ledger in which every kind of thing has happened that this version
// records: its file, once nobody holds it.
func voyage(t testing.TB) []byte {
	t.Helper()
	m := aboard(t)
	m.policy(`[[persons]]
name = "ana"
os_user = "` + osUser() + `"
`)
	m.join("alice-0001", "--harness", "claude-code", "--branch", "main", "--title", "the lease")
	m.join("bob-0002", "--seat", "smith")
	m.hook("codex", "SessionStart", "carol-0003")
	root := m.send("alice-0001", "bob-0002", "Which commit fixed the lease test?", "--intent", "request", "--key", "k1", "--ref", "commit:4f2a9c1")
	m.at(scenarioStart.Add(time.Minute))
	lease := told[receipt](m, "lease", "--as", "bob-0002").Receipt.ID
	m.done("confirm", lease)
	answer := told[receipt](m, "send", "--as", "bob-0002", "--reply-to", root, "--turn", "working", "--", "I am looking.").Receipt.ID
	m.done("edit", "--as", "bob-0002", answer, "--turn", "final", "--", "It was 4f2a9c1, of yesterday.")
	m.hook("claude-code", "UserPromptSubmit", "alice-0001")
	m.refuses("unknown_recipient", "send", "--as", "alice-0001", "--to", "nobody-9999", "--", "Is anybody there?")
	m.send("alice-0001", "@smith", "For whoever has the seat.")
	m.hook("codex", "PostToolUse", "bob-0002")
	m.send("carol-0003", "@ana", "For a person.", "--intent", "request")
	m.done("delete", "--as", "alice-0001", m.send("alice-0001", "carol-0003", "Not for you."))
	lost := m.send("bob-0002", "carol-0003", "This one expires.")
	for n := range 3 { // and this one is never confirmed
		m.at(scenarioStart.Add(time.Duration(2+n) * time.Minute))
		told[receipt](m, "lease", "--as", "carol-0003")
	}
	m.at(scenarioStart.Add(-time.Hour))
	m.send("alice-0001", "bob-0002", "When the clock was wrong.")
	m.at(scenarioStart.Add(6 * time.Minute))
	told[receipt](m, "send", "--as", "alice-0001", "--reply-to", answer, "--intent", "done", "--", "Thank you.")
	m.refuses("reply_to_done", "send", "--as", "bob-0002", "--reply-to", root, "--", "You are welcome.")
	m.join("dave-0004", "--seat", "helm")
	m.send("alice-0001", "@helm", "Taken, and given back.")
	told[receipt](m, "lease", "--as", "dave-0004")
	m.done("leave", "--session", "dave-0004")
	m.at(scenarioStart.Add(25 * time.Hour))
	m.hook("codex", "UserPromptSubmit", "bob-0002")
	if state := m.message(lost).State; state != events.StateUndelivered {
		t.Fatalf("the message that was never confirmed is %s", state)
	}
	m.verified()

	happened := map[events.Type]bool{}
	for _, e := range m.events() {
		happened[e.Type] = true
	}
	for _, all := range events.Types() {
		if !happened[all] {
			t.Errorf("nothing of the type %s happened", all)
		}
	}
	if _, err := os.Stat(m.file() + "-wal"); !os.IsNotExist(err) {
		t.Fatalf("the ledger's write-ahead log is still there: %v", err)
	}
	file, err := os.ReadFile(m.file())
	m.ok(err)
	return file
}

// damaged is a machine whose ledger is this file, changed by SQL behind
// decklog's back.
func damaged(t testing.TB, file []byte, change func(db *sqlite3.Conn) error) *machine {
	t.Helper()
	m := aboard(t)
	m.at(scenarioStart.Add(26 * time.Hour))
	m.ok(os.MkdirAll(filepath.Dir(m.file()), 0o700))
	m.ok(os.WriteFile(m.file(), file, 0o600))
	m.change(change)
	return m
}

// change runs SQL on the ledger, which no process may hold meanwhile.
func (m *machine) change(with func(db *sqlite3.Conn) error) {
	m.Helper()
	db, err := sqlite3.Open(m.file())
	m.ok(err)
	err = db.Exec(`PRAGMA foreign_keys = 0; DROP TRIGGER IF EXISTS events_never_change; DROP TRIGGER IF EXISTS events_never_go`)
	if err == nil {
		err = with(db)
	}
	m.ok(db.Close())
	m.ok(err)
}

// bind runs one statement with its arguments.
func bind(db *sqlite3.Conn, sql string, args ...any) error {
	s, _, err := db.Prepare(sql)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, arg := range args {
		switch v := arg.(type) {
		case int64:
			err = s.BindInt64(i+1, v)
		case string:
			err = s.BindText(i+1, v)
		case []byte:
			err = s.BindBlob(i+1, v)
		default:
			err = fmt.Errorf("bind a %T", arg)
		}
		if err != nil {
			return err
		}
	}
	return s.Exec()
}

// column lists the keys of a table's rows, with one of their values each.
func column(db *sqlite3.Conn, table, key, name string) (keys, values []any, err error) {
	s, _, err := db.Prepare("SELECT " + key + ", " + name + " FROM " + table + " ORDER BY 1")
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	value := func(n int) any {
		switch s.ColumnType(n) {
		case sqlite3.INTEGER:
			return s.ColumnInt64(n)
		case sqlite3.TEXT:
			return s.ColumnText(n)
		}
		return bytes.Clone(s.ColumnRawBlob(n))
	}
	for s.Step() {
		keys, values = append(keys, value(0)), append(values, value(1))
	}
	return keys, values, s.Err()
}

// flipped is a value with one bit changed; the same when it has none.
func flipped(r *rand.Rand, value any) any {
	switch v := value.(type) {
	case int64:
		return v ^ 1<<r.IntN(64)
	case string:
		return string(flipped(r, []byte(v)).([]byte))
	case []byte:
		v = bytes.Clone(v)
		if len(v) > 0 {
			v[r.IntN(len(v))] ^= 1 << r.IntN(8)
		}
		return v
	}
	return value
}

var lastLine = regexp.MustCompile(`\nverify: first fault at position (\d+)\n$`)

// named runs an audit that must find something, and gives what it found, the
// first first. As text and as JSON it must say the same.
func (m *machine) named() []ops.Fault {
	m.Helper()
	r := m.run(nil, "verify", "--json")
	if r.code != 1 {
		m.Fatalf("verify: %s", r)
	}
	audited := read[ops.Audited](m, r.stdout)
	if audited.OK || len(audited.Faults) == 0 {
		m.Fatalf("verify: %s", r)
	}
	for i, f := range audited.Faults {
		if f.What == "" || i > 0 && f.Position < audited.Faults[i-1].Position {
			m.Fatalf("verify: fault %d of %+v", i, audited.Faults)
		}
	}
	r = m.run(nil, "verify")
	line := lastLine.FindSubmatch(r.stdout)
	if r.code != 1 || line == nil || string(line[1]) != fmt.Sprint(audited.Faults[0].Position) {
		m.Fatalf("verify: %s; want position %d", r, audited.Faults[0].Position)
	}
	return audited.Faults
}

// F22: of the bits of everything that the ledger keeps, none can be changed
// without being named in its place.
func TestF22AFlippedBitIsNamedInItsPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some hundred processes, two for each of the places that are changed")
	}
	const each = 12 // places of each column
	file := voyage(t)
	r := rand.New(rand.NewPCG(22, 2026))
	injected := 0
	for _, c := range []struct{ table, key, columns string }{
		{"events", "position", "data data data type actor time stream revision id version command caused_by policy digest high position"},
		{"bodies", "position", "body salt fingerprint position"},
		{"rows", "key", "value value value key"},
	} {
		for _, name := range strings.Fields(c.columns) {
			t.Run(c.table+"."+name, func(t *testing.T) {
				for range each {
					var key, was, is any
					var end events.Position
					m := damaged(t, file, func(db *sqlite3.Conn) error {
						positions, _, err := column(db, "events", "position", "position")
						if err != nil {
							return err
						}
						end = events.Position(positions[len(positions)-1].(int64))
						keys, values, err := column(db, c.table, c.key, name)
						if err != nil {
							return err
						}
						for tries := 0; ; tries++ {
							n := r.IntN(len(keys))
							key, was, is = keys[n], values[n], flipped(r, values[n])
							if fmt.Sprint(was) == fmt.Sprint(is) {
								continue // there is no bit in it
							}
							err := bind(db, "UPDATE "+c.table+" SET "+name+" = ? WHERE "+c.key+" = ?", is, key)
							if err == nil || tries > 100 {
								return err // else it would be a second one of its kind, which SQLite sees
							}
						}
					})
					injected++
					what := fmt.Sprintf("%s.%s of %v: %.60q is %.60q", c.table, name, key, was, is)
					first := m.named()[0]
					want := end // a view's row is of the whole ledger
					if at, is := key.(int64); is {
						want = events.Position(at)
					}
					// The last event that is moved before the first is a tail that is cut.
					moved, _ := is.(int64)
					if name == "position" && c.table == "events" && want == end && moved < int64(end) {
						want--
					}
					if first.Position != want {
						t.Errorf("%s: named is position %d, %s", what, first.Position, first.What)
					}
				}
			})
		}
	}
	t.Logf("%d bits were flipped, each in a ledger of its own", injected)
	if injected == 0 {
		t.Error("nothing was injected")
	}
}
