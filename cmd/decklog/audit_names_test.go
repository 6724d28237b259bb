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

	"decklog/cmd/internal/surroundings"
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
os_user = "` + surroundings.OSUser() + `"

[[seats]]
name = "smith"

[[seats]]
name = "trinity"

[[seats]]
name = "helm"

[[alerts]]
channel = "#alerts"
triager = "smith"
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
	m.takesDown("alice-0001", "UserPromptSubmit", contextOf(t, "UserPromptSubmit", m.hook("claude-code", "UserPromptSubmit", "alice-0001")))
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
	driven(m)
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

// driven is what happens to threads besides messages: an alert that is driven,
// handed over and reviewed, a person who moves a thread and thinks better of it,
// what nobody answers, and a seat that stays away.
func driven(m *machine) {
	m.Helper()
	const smith, trinity, ana = "bob-0002", "frank-0006", "@ana"
	id := func(args ...string) string { return told[receipt](m, args...).Receipt.ID }
	m.at(scenarioStart.Add(10 * time.Minute))
	m.join(trinity, "--seat", "trinity")
	payload := filepath.Join(m.TempDir(), "alert.json")
	m.ok(os.WriteFile(payload, []byte(`{"service":"guest-card"}`), 0o600))
	alert := id("alert", "#alerts", "--as", "bot:pager", "--payload", payload, "--", "The delivery failed.")
	m.done("ack", "--as", smith, alert, "act")
	id("send", "--as", smith, "--reply-to", alert, "--", "I am looking.")
	m.done("card", "--as", smith, alert, "--subject", "the delivery", "--work", "smith", "--status", "investigating")
	review := id("review", "ask", "--as", smith, alert, "--commit", "4f2a9c1")
	m.done("review", "label", "--as", trinity, review, "root", "low")
	id("review", "ask", "--as", smith, alert, "--commit", "77b353d") // which nobody labels
	m.done("card", "--as", smith, alert, "--status", "reviewing")
	offer := func() string {
		return id("handoff", "offer", "--as", smith, alert, "--to", "trinity", "--reason", "It is of your lane.")
	}
	m.done("handoff", "decline", "--as", trinity, offer(), "--reason", "Not today.")
	accepted := offer()
	m.done("handoff", "accept", "--as", trinity, accepted)
	m.done("handoff", "close", "--as", trinity, accepted)

	asked := id("send", "--as", ana, "--intent", "request", "--", "Which commit broke it?")
	id("send", "--as", smith, "--reply-to", asked, "--intent", "request", "--", "Broke what?")
	moves := id("send", "--as", ana, "--reply-to", asked, "--", "@trinity please take this over.")
	m.done("route", "--as", ana, asked, moves, "route")
	id("send", "--as", ana, "--reply-to", asked, "--", "@smith keep it after all.")
	m.done("owed", "close", "--as", ana, asked, "--reason", "Settled by word of mouth.")

	id("send", "--as", smith, "--to", "alice-0001", "--intent", "request", "--", "Nobody answers this.")
	for n := range 5 { // reminded three times, and then the owners are called
		m.at(scenarioStart.Add(time.Duration(45+31*n) * time.Minute))
		m.hook("codex", "PostToolUse", smith)
	}
	m.join("grace-0007", "--seat", "helm")
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

// F22: an event that is taken out of the middle, two that change places, one
// that nobody decided, and a body that goes without an event.
func TestF22WhatIsTakenOutMovedOrPutInIsNamed(t *testing.T) {
	file := voyage(t)
	all := damaged(t, file, func(*sqlite3.Conn) error { return nil }).events()
	end := all[len(all)-1].Position
	r := rand.New(rand.NewPCG(22, 2027))
	const each = 8

	// deletedAt is the message whose text an event took away.
	deletedAt := events.Position(0)
	for i, e := range all {
		if e.Type == events.TypeMessageDeleted {
			deletedAt = all[i-1].Position
		}
	}
	middle := func() int64 { return 1 + r.Int64N(int64(end)-1) }
	expect := func(t *testing.T, what string, first ops.Fault, want events.Position) {
		t.Helper()
		if first.Position != want {
			t.Errorf("%s: named is position %d, %s; want %d", what, first.Position, first.What, want)
		}
	}
	t.Run("taken out", func(t *testing.T) {
		for range each {
			at := middle()
			m := damaged(t, file, func(db *sqlite3.Conn) error { return bind(db, "DELETE FROM events WHERE position = ?", at) })
			want := events.Position(at)
			if all[at-1].Type == events.TypeMessageDeleted {
				want = deletedAt // its text is gone, and nothing says why any more
			}
			expect(t, fmt.Sprint("event ", at), m.named()[0], want)
		}
	})
	t.Run("taken out, and the gap closed", func(t *testing.T) {
		for range each {
			at := middle()
			m := damaged(t, file, func(db *sqlite3.Conn) error {
				err := bind(db, "DELETE FROM events WHERE position = ?", at)
				for p := at + 1; err == nil && p <= int64(end); p++ {
					err = bind(db, "UPDATE events SET position = position - 1 WHERE position = ?", p)
				}
				return err
			})
			want := events.Position(at)
			if all[at-1].Type == events.TypeMessageDeleted {
				want = deletedAt
			}
			expect(t, fmt.Sprint("event ", at), m.named()[0], want)
		}
	})
	t.Run("moved", func(t *testing.T) {
		for range each {
			a, b := middle(), middle()
			if a == b {
				b = a + 1
			}
			m := damaged(t, file, func(db *sqlite3.Conn) error {
				for _, to := range [][2]int64{{a, -1}, {b, a}, {-1, b}} {
					if err := bind(db, "UPDATE events SET position = ? WHERE position = ?", to[1], to[0]); err != nil {
						return err
					}
				}
				return nil
			})
			expect(t, fmt.Sprintf("events %d and %d", a, b), m.named()[0], events.Position(min(a, b)))
		}
	})
	t.Run("moved within a stream, revisions too", func(t *testing.T) {
		found := 0
		for i := range all {
			for j := i + 1; j < len(all); j++ {
				if all[i].Stream != all[j].Stream || all[j].Revision != all[i].Revision+1 || r.IntN(3) > 0 {
					continue
				}
				found++
				a, b := int64(all[i].Position), int64(all[j].Position)
				m := damaged(t, file, func(db *sqlite3.Conn) error {
					for _, to := range [][4]int64{{-1, -1, a}, {a, int64(all[i].Revision), b}, {b, int64(all[j].Revision), -1}} {
						if err := bind(db, "UPDATE events SET position = ?, revision = ? WHERE position = ?", to[0], to[1], to[2]); err != nil {
							return err
						}
					}
					return nil
				})
				expect(t, fmt.Sprintf("events %d and %d", a, b), m.named()[0], events.Position(a))
			}
		}
		if found == 0 {
			t.Error("nothing was injected")
		}
	})
	t.Run("put in", func(t *testing.T) {
		m := damaged(t, file, func(db *sqlite3.Conn) error {
			return db.Exec(`INSERT INTO events SELECT position + 1, stream, revision + 1, 'forged', type, version, time, high, actor, command,
				caused_by, policy, data, digest FROM events ORDER BY position DESC LIMIT 1`)
		})
		expect(t, "an event at the end", m.named()[0], end+1)
	})
	t.Run("a body that goes", func(t *testing.T) {
		for range each {
			var at int64
			m := damaged(t, file, func(db *sqlite3.Conn) error {
				keys, _, err := column(db, "bodies", "position", "position")
				if err != nil {
					return err
				}
				at = keys[r.IntN(len(keys))].(int64)
				return bind(db, "DELETE FROM bodies WHERE position = ?", at)
			})
			first := m.named()[0]
			expect(t, fmt.Sprint("the body of event ", at), first, events.Position(at))
			if !strings.Contains(first.What, "body") {
				t.Errorf("it says %q", first.What)
			}
		}
	})
	t.Run("two bodies that change places", func(t *testing.T) {
		m := damaged(t, file, func(db *sqlite3.Conn) error {
			return db.Exec(`UPDATE bodies SET position = -1 WHERE position = (SELECT min(position) FROM bodies);
				UPDATE bodies SET position = (SELECT position FROM events WHERE type = 'message.sent' ORDER BY position LIMIT 1)
				WHERE position = (SELECT max(position) FROM bodies);
				UPDATE bodies SET position = (SELECT position FROM events WHERE type = 'message.sent' ORDER BY position DESC LIMIT 1)
				WHERE position = -1`)
		})
		for _, e := range all {
			if e.Type == events.TypeMessageSent {
				expect(t, "the first body", m.named()[0], e.Position)
				break
			}
		}
	})
	t.Run("a view without rows", func(t *testing.T) {
		m := damaged(t, file, func(db *sqlite3.Conn) error { return db.Exec(`DELETE FROM rows`) })
		expect(t, "the views", m.named()[0], end)
	})
	t.Run("all of it", func(t *testing.T) {
		m := damaged(t, file, func(db *sqlite3.Conn) error {
			return db.Exec(`UPDATE events SET actor = 'somebody'; UPDATE bodies SET body = x'00'; DELETE FROM rows`)
		})
		faults := m.named()
		expect(t, "everything", faults[0], 1)
		if len(faults) > ops.FaultsMax {
			t.Errorf("%d faults are named", len(faults))
		}
	})
}

// A view that was damaged is no harm for long: whoever meets it is told what to
// do, no harness is troubled, and a rebuild makes it as it was.
func TestF22ADamagedViewIsToldAndARebuildMendsIt(t *testing.T) {
	file := voyage(t)
	whole := damaged(t, file, func(*sqlite3.Conn) error { return nil })
	before := whole.run(nil, "inbox", "--as", "bob-0002", "--json", "--limit", "200")
	want := told[built](whole, "rebuild").Receipt

	m := damaged(t, file, func(db *sqlite3.Conn) error { return db.Exec(`UPDATE rows SET value = CAST('{' || value AS BLOB)`) })
	m.named()
	for _, args := range [][]string{
		{"inbox", "--as", "bob-0002"}, {"peers"}, {"owed"}, {"policy", "show"}, {"lease", "--as", "bob-0002"},
		{"send", "--as", "bob-0002", "--to", "alice-0001", "--", "text"}, {"join", "--session", "eve-0005"},
	} {
		m.fails("ledger_damaged", args...)
	}
	for _, harness := range hooked {
		expectFault(t, m, "damaged views", "ledger_damaged", harness, strings.NewReader(stdinOf("UserPromptSubmit", "bob-0002", nil)))
	}
	if got := told[built](m, "rebuild").Receipt; got != want {
		t.Errorf("the rebuild made %+v, want %+v", got, want)
	}
	m.verified()
	if after := m.run(nil, "inbox", "--as", "bob-0002", "--json", "--limit", "200"); after.String() != before.String() {
		t.Errorf("the inbox is %s, was %s", after, before)
	}
}

// An event that was damaged is still shown, and stops nobody.
func TestF22ADamagedEventIsShownAndStopsNobody(t *testing.T) {
	file := voyage(t)
	m := damaged(t, file, func(db *sqlite3.Conn) error {
		return db.Exec(`UPDATE events SET data = CAST('{"message":' || x'ff' || x'00' AS BLOB) WHERE type = 'message.sent'`)
	})
	shown := 0
	for _, e := range m.events() {
		if e.Type == events.TypeMessageSent {
			shown++
			if text := read[string](t, e.Data); !strings.HasPrefix(text, `{"message":`) {
				t.Errorf("event %d is shown as %s", e.Position, e.Data)
			}
		}
	}
	if shown == 0 {
		t.Error("no damaged event is shown")
	}
	if r := m.run(nil, "rebuild"); r.code != 0 {
		t.Errorf("rebuild: %s", r)
	}
	for _, harness := range hooked {
		m.hook(harness, "UserPromptSubmit", "bob-0002")
	}
	m.hook("codex", "SessionStart", "eve-0005")
	m.send("eve-0005", "bob-0002", "It goes on.")
	m.named()
}
