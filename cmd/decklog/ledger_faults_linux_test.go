package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/hook"
)

// manned is a machine on which a message waits for a session.
func manned(m *machine) (waiting string) {
	m.Helper()
	m.join("sender-01")
	for _, harness := range hooked {
		m.hook(harness, "SessionStart", "taker-"+harness)
	}
	for _, harness := range hooked {
		waiting = m.send("sender-01", "taker-"+harness, "still to come")
	}
	return waiting
}

// goesOn checks that after the trouble everything is as if there had been none:
// what waited comes, once, and the ledger is in order.
func (m *machine) goesOn() {
	m.Helper()
	for _, harness := range hooked {
		taker := "taker-" + harness
		if text := contextOf(m, "UserPromptSubmit", m.hook(harness, "UserPromptSubmit", taker)); !strings.Contains(text, "still to come") {
			m.Errorf("after the trouble the hook of %s brings %q", harness, text)
		}
		if text := m.hook(harness, "PostToolUse", taker); len(text) > 0 {
			m.Errorf("and then %q", text)
		}
	}
	m.send("sender-01", "taker-codex", "it goes on")
	m.verified()
}

// readers and writers are commands that only look, and commands that change.
var (
	readers = [][]string{{"inbox", "--as", "sender-01"}, {"peers"}, {"owed"}, {"events"}, {"verify"}, {"policy", "show"}}
	writers = [][]string{
		{"send", "--as", "sender-01", "--to", "taker-codex", "--", "text"}, {"join", "--session", "newcomer-03"},
		{"lease", "--as", "taker-codex"}, {"leave", "--session", "sender-01"}, {"rebuild"},
	}
)

// F43: a ledger that somebody holds on to. A hook gives up soon and troubles
// nobody; a command waits longer, and says who is in its way; a reader reads on,
// unless even that is barred.
func TestF43ALockedLedgerHoldsUpNoHarness(t *testing.T) {
	if testing.Short() {
		t.Skip("waits out the time that a command waits for its turn")
	}
	locks := map[string]func(m *machine) (release func()){
		"the ticket": func(m *machine) func() {
			f, err := os.OpenFile(strings.TrimSuffix(m.file(), ".db")+".lock", os.O_RDWR, 0)
			m.ok(err)
			m.ok(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
			return func() { f.Close() }
		},
		"writing":    func(m *machine) func() { return m.hold("BEGIN IMMEDIATE") },
		"everything": func(m *machine) func() { return m.hold("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE") },
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they only wait
			m := aboard(t)
			m.first = true
			manned(m)
			before := len(m.events())
			release := lock(m)
			released := false
			free := func() {
				if !released {
					released = true
					release()
				}
			}
			defer free()

			patient := [][]string{{"send", "--json", "--as", "sender-01", "--to", "taker-codex", "--", "text"}}
			if name == "everything" {
				patient = append(patient, []string{"inbox", "--json", "--as", "sender-01"})
			} else {
				for _, args := range readers {
					m.done(args...)
				}
			}
			waiting := make(chan ran)
			for _, args := range patient {
				go func() {
					r, err := finish(m.command(args...), nil)
					if err != nil {
						t.Error(err)
					}
					waiting <- r
				}()
			}
			for _, harness := range hooked {
				for _, event := range []string{"UserPromptSubmit", "SessionStart"} {
					began := time.Now()
					expectFault(t, m, event, "ledger_locked", harness, strings.NewReader(stdinOf(event, "taker-"+harness, nil)))
					if took := time.Since(began); took > hook.Patience+2*time.Second {
						t.Errorf("the hook of %s held its harness up for %s", harness, took)
					}
				}
			}
			for range patient {
				r := <-waiting
				if failure := read[failed](t, r.stdout).Error; r.code != 1 || failure.Code != "ledger_locked" || failure.Fix == "" {
					t.Errorf("a command waited, and then: %s", r)
				}
			}
			free()
			if after := len(m.events()); after != before {
				t.Errorf("%d events became %d", before, after)
			}
			m.goesOn()
		})
	}
}

// hold keeps a lock of SQLite's on the ledger.
func (m *machine) hold(sql string) (release func()) {
	m.Helper()
	db, err := sqlite3.Open(m.file())
	m.ok(err)
	m.ok(db.Exec(sql))
	return func() {
		m.ok(db.Exec("ROLLBACK"))
		m.ok(db.Close())
	}
}

// F43: what lies where the ledger should lie is not a ledger, or not one for
// this version. It is left as it is.
func TestF43AFileThatIsNoLedgerOfOursIsLeftAlone(t *testing.T) {
	whole := voyage(t)
	sql := func(sql string) func(m *machine) {
		return func(m *machine) {
			m.ok(os.WriteFile(m.file(), whole, 0o600))
			db, err := sqlite3.Open(m.file())
			m.ok(err)
			m.ok(db.Exec(sql))
			m.ok(db.Close())
		}
	}
	file := func(content []byte) func(m *machine) {
		return func(m *machine) { m.ok(os.WriteFile(m.file(), content, 0o600)) }
	}
	for name, c := range map[string]struct {
		code string
		put  func(m *machine)
	}{
		"a newer format":         {"ledger_newer", sql("PRAGMA user_version = 99")},
		"newer folds":            {"ledger_newer", sql(`UPDATE rows SET value = CAST(replace(value, '"fold":', '"fold":9') AS BLOB) WHERE key = CAST('checkpoint' AS BLOB)`)},
		"text":                   {"ledger_damaged", file(bytes.Repeat([]byte("not a ledger\n"), 1000))},
		"a few bytes":            {"ledger_damaged", file([]byte("no"))},
		"zeroes":                 {"ledger_damaged", file(make([]byte, 100_000))},
		"a ledger's first bytes": {"ledger_damaged", file(whole[:1000])},
		"half a ledger":          {"ledger_damaged", file(whole[:len(whole)/2/4096*4096])},
		"another database":       {"ledger_damaged", sql("PRAGMA application_id = 7")},
		"a database of nobody":   {"ledger_damaged", sql("PRAGMA application_id = 0; PRAGMA user_version = 0")},
		"an older format":        {"ledger_damaged", sql("PRAGMA user_version = 0")},
		"a folder":               {"ledger_read_only", func(m *machine) { m.ok(os.Mkdir(m.file(), 0o700)) }},
		"a folder that is a file": {"ledger_read_only", func(m *machine) {
			m.ok(os.Remove(filepath.Dir(m.file())))
			m.ok(os.WriteFile(filepath.Dir(m.file()), nil, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := aboardAt(t, filepath.Join(t.TempDir(), "ledger"))
			m.first = true
			m.at(scenarioStart.Add(26 * time.Hour))
			m.ok(os.MkdirAll(filepath.Dir(m.file()), 0o700))
			c.put(m)
			before, _ := os.ReadFile(m.file())
			for _, args := range append(readers, writers...) {
				if name == "newer folds" && (args[0] == "verify" || args[0] == "rebuild") {
					continue // they look at the events, and need no views
				}
				m.fails(c.code, args...)
			}
			for _, harness := range hooked {
				for _, event := range []string{"SessionStart", "UserPromptSubmit", "SessionEnd"} {
					expectFault(t, m, event, c.code, harness, strings.NewReader(stdinOf(event, "taker-02", nil)))
				}
			}
			if after, _ := os.ReadFile(m.file()); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// F43: a ledger's folder that is not there is made; one that is named by nobody,
// in a way that this version does not reach, or where nobody serves it, is asked for.
func TestF43ALedgerThatIsNotThereIsMadeOrAskedFor(t *testing.T) {
	m := aboardAt(t, filepath.Join(t.TempDir(), "not", "there", "yet"))
	m.hook("codex", "SessionStart", "taker-02")
	m.verified()
	info, err := os.Stat(filepath.Dir(m.file()))
	m.ok(err)
	if mode := info.Mode().Perm(); mode != 0o700 {
		t.Errorf("its folder has the mode %o", mode)
	}
	for url, code := range map[string]string{
		"esdb://localhost:2113": "not_supported", "unix:" + filepath.Join(m.dir, "none.sock"): "no_server", "http://localhost:1": "no_server",
		"postgres://localhost": "bad_ledger", "sqlite:": "bad_ledger", "ledger.db": "bad_ledger",
	} {
		elsewhere := m.with()
		elsewhere.url = url
		elsewhere.fails(code, "inbox")
		elsewhere.fails(code, "join", "--session", "newcomer-03")
		for _, harness := range hooked {
			before := len(elsewhere.noted())
			r := elsewhere.run(strings.NewReader(stdinOf("SessionStart", "taker-02", nil)), "hook", harness)
			if r.code != 0 || len(r.stdout) > 0 || !bytes.Contains(r.stderr, []byte(code)) || len(elsewhere.noted()) != before+1 {
				t.Errorf("%s: %s", url, r)
			}
		}
	}
}

// tmpfs mounts a file system of its own.
func tmpfs(t testing.TB, size string) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs to mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// F43: a disk that is full. What was acknowledged is there, what is refused for
// want of space is not, nobody's harness is troubled, and once there is space
// everything goes on.
func TestF43AFullDiskLosesNothingAndGoesOnWhenThereIsSpace(t *testing.T) {
	folder := tmpfs(t, "2m")
	m := aboardAt(t, folder)
	m.policy(unbounded)
	manned(m)
	m.join("taker-03")
	filler := filepath.Join(folder, "filler")
	sent := map[string]string{}
	injected := 0
	for round, left := range []int{400 << 10, 128 << 10, 0} {
		m.fill(filler, left)
		for n := 0; ; n++ {
			if n == 500 {
				t.Fatal("the disk does not become full")
			}
			body := fmt.Sprintf("message %d of round %d, %s", n, round, strings.Repeat("x", 1000))
			r := m.run(nil, "send", "--json", "--as", "sender-01", "--to", "taker-03", "--key", fmt.Sprint(round, "-", n), "--", body)
			if r.code == 0 {
				sent[read[receipt](t, r.stdout).Receipt.ID] = body
				continue
			}
			if failure := read[failed](t, r.stdout).Error; r.code != 1 || failure.Code != "no_space" || failure.Fix == "" {
				t.Fatalf("send on a full disk: %s", r)
			}
			break
		}
		injected++
		m.fill(filler, 0) // what was left is too little for one and may be enough for another
		for _, args := range writers {
			m.fails("no_space", args...)
		}
		for _, harness := range hooked {
			expectFault(t, m, "full disk", "no_space", harness, strings.NewReader(stdinOf("SessionStart", fmt.Sprint("newcomer-", round), nil)))
		}
		m.ok(os.Remove(filler))
		m.verified()
	}
	t.Logf("the disk was full %d times; %d messages were acknowledged", injected, len(sent))
	if injected == 0 || len(sent) == 0 {
		t.Error("nothing was injected")
	}
	for id, body := range sent {
		if shown := m.message(id); shown.Body != body {
			t.Errorf("message %s says %.40q, want %.40q", id, shown.Body, body)
		}
	}
	m.goesOn()
}

// fill leaves so many bytes, and no more, on the file's file system.
func (m *machine) fill(file string, left int) {
	m.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	m.ok(err)
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	info, err := f.Stat()
	m.ok(err)
	m.ok(f.Truncate(info.Size() - int64(left)))
}

// F43: a folder that may only be read.
func TestF43AReadOnlyFolderIsToldAndTroublesNobody(t *testing.T) {
	folder := t.TempDir()
	m := aboardAt(t, folder)
	m.first = true
	manned(m)
	if err := unix.Mount(folder, folder, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs to mount a folder read-only: %v", err)
	}
	defer unix.Unmount(folder, unix.MNT_DETACH)
	m.ok(unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	for _, args := range append(readers, writers...) {
		m.fails("ledger_read_only", args...)
	}
	for _, harness := range hooked {
		for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"} {
			expectFault(t, m, event, "ledger_read_only", harness, strings.NewReader(stdinOf(event, "taker-"+harness, nil)))
		}
	}
	m.ok(unix.Unmount(folder, unix.MNT_DETACH))
	m.goesOn()
	if end := m.verified().Position; end < 1 || events.Position(len(m.events())) != end {
		t.Errorf("the ledger ends at %d", end)
	}
}
