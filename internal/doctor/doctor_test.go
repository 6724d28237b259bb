package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/install"
	"decklog/internal/memory"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/projections"
)

const t0 = events.Time(1_796_029_200_000_000)

// bed is a patient's surroundings: a home, and programs that say what they are.
type bed struct {
	*testing.T
	Patient
	dir    string
	ledger *memory.Ledger
	now    events.Time
	notes  *notes.Notes
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{T: t, dir: dir, ledger: memory.New(projections.Project), now: t0, notes: notes.InMemory()}
	environ := map[string]string{"PATH": filepath.Join(dir, "bin")}
	b.Patient = Patient{
		Place: install.Place{
			Home: filepath.Join(dir, "home"), Environ: func(name string) string { return environ[name] }, Ledger: filepath.Join(dir, "ledger"),
			Skill: []byte("---\nname: decklog\n---\n"), OpencodePlugin: []byte("// decklog-hook opencode\n"),
		},
		Environ: func(name string) string { return environ[name] },
		Now:     func() events.Time { return b.now }, PolicyName: "decklog.toml", LedgerFile: filepath.Join(dir, "ledger", "ledger.db"),
		Explain: func(err error) (string, string) { return err.Error(), "mend it" },
		Open:    func() (ops.Operations, Notes, error) { return b.ops(), b.notes, nil },
	}
	for _, folder := range []string{"bin", "home", "ledger"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.file("ledger/ledger.db", "its ledger is in memory; this is looked at from outside", 0o600)
	for _, name := range []string{"decklog", "decklog-hook", "decklogd"} {
		b.program(name, "exit 0")
	}
	return b
}

func (b *bed) file(name, text string, mode os.FileMode) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) program(name, script string) { b.file("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o700) }

func (b *bed) ops() *ops.Ops {
	random := byte(0)
	return &ops.Ops{Ledger: b.ledger, World: ops.World{
		Now: func() events.Time { return b.now }, Random: func(p []byte) {
			for i := range p {
				random++
				p[i] = random
			}
		},
		Alive: func(events.Process) bool { return true }, Device: "host", OSUser: "ana",
		Seen: func(id events.SessionID) (bool, events.Time, bool) {
			o := b.notes.Seen(id)
			return o.Busy, o.At, o.Known
		},
		Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return events.DefaultPolicy(), nil },
	}}
}

func (b *bed) install(harness string) {
	b.Helper()
	plan, err := install.Find(harness).Install(b.Place)
	if err == nil {
		err = plan.Apply(install.OpenRecord(filepath.Join(b.dir, "state")), false)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) join(session, harness string) {
	b.Helper()
	_, refused, err := b.ops().Join(ops.JoinRequest{Session: session, Harness: harness, Source: events.SourceStartup})
	b.must(refused, err)
}

func (b *bed) must(refused *commands.Refusal, err error) {
	b.Helper()
	if refused != nil || err != nil {
		b.Fatal(refused, err)
	}
}

// says asserts that a line is of this level and says this.
func (b *bed) says(r Report, about, check string, level Level, text string) {
	b.Helper()
	for _, l := range r.Lines {
		if l.About != about || l.Check != check {
			continue
		}
		if l.Level != level || !strings.Contains(l.Says, text) {
			b.Errorf("%s, %s: %s: %s; want %s: %s", about, check, l.Level, l.Says, level, text)
		}
		if (l.Level != OK) != (l.Fix != "") {
			b.Errorf("%s, %s: its fix is %q", about, check, l.Fix)
		}
		return
	}
	b.Errorf("nothing is said of %s, %s", about, check)
}

func TestAHealthySetUpIsWell(t *testing.T) {
	b := newBed(t)
	b.program("claude", `echo "2.1.332 (Claude Code)"`)
	b.install("claude-code")
	b.join("a-0001", "claude-code")
	b.now += events.Time(time.Minute / time.Microsecond)
	if err := b.notes.Busy("a-0001", b.now); err != nil {
		t.Fatal(err)
	}
	r := Examine(t.Context(), b.Patient)
	for _, l := range r.Lines {
		if l.Level != OK {
			t.Errorf("%s, %s: %s: %s", l.About, l.Check, l.Level, l.Says)
		}
	}
	if !r.OK || r.Faults+r.Warnings > 0 {
		t.Errorf("the report is %t, %d faults, %d warnings", r.OK, r.Faults, r.Warnings)
	}
	b.says(r, "claude-code", "found", OK, "bin/claude, version 2.1.332")
	b.says(r, "claude-code", "last hook run", OK, "0s ago; live sessions: 1")
	b.says(r, "codex", "found", OK, "not on this machine")
	b.says(r, "caller", "now", OK, "@ana")
}

func TestCodexIsAskedWhichHooksItsUserApproved(t *testing.T) {
	recorded, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	// It answers as the real one did, each question when it is asked.
	answers := func(file string) string {
		return `case "$1" in --version) echo codex-cli 0.171.0; exit;; esac
while read -r line; do case "$line" in
*'"method":"initialize"'*) sed -n '/"id":1,/p' "` + recorded + `/` + file + `";;
*'"method":"hooks/list"'*) sed '/"id":1,/d' "` + recorded + `/` + file + `";;
esac; done`
	}
	for _, c := range []struct {
		name, script string
		level        Level
		says         string
	}{
		{"approved", answers("codex-trusted.jsonl"), OK, "all 6 hooks"},
		{"not approved", answers("codex-untrusted.jsonl"), Fault, "codex runs none of these: postToolUse is untrusted, preToolUse is untrusted,"},
		{"it ends", "exit 3", Warning, "did not say: it ended without an answer"},
		{"it says nonsense", `echo '{"id":1,"result":{}}'; echo '{"id":2,"result":{"data":7}}'; cat > /dev/null`, Warning, "did not say"},
		{"it knows no hooks", `echo '{"id":1,"result":{}}'; echo '{"id":2,"error":{"code":-32601,"message":"no such method"}}'; cat > /dev/null`, Warning, "no such method"},
		{"it has none of decklog's", `echo '{"id":1,"result":{}}'; echo '{"id":2,"result":{"data":[{"hooks":[{"command":"mine","trustStatus":"trusted"}]}]}}'; cat > /dev/null`, Fault, "codex finds no hook of decklog's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			environ := b.Environ
			b.Environ = func(name string) string { // the fake needs a few of the system's programs
				if name == "PATH" {
					return environ(name) + ":/usr/bin:/bin"
				}
				return environ(name)
			}
			b.program("codex", c.script)
			b.install("codex")
			b.says(Examine(t.Context(), b.Patient), "codex", "trusted", c.level, c.says)
		})
	}
}

// The patience is what ends it: the program would go on for ever.
func TestAProgramThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	b := newBed(t)
	b.Patience = 100 * time.Millisecond
	b.program("codex", "while :; do :; done")
	b.install("codex")
	r := Examine(t.Context(), b.Patient)
	b.says(r, "codex", "found", OK, "did not say its version within 100ms")
	b.says(r, "codex", "trusted", Warning, "no answer within 100ms")
}

func TestWhatIsDamagedIsNamedWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name         string
		damage       func(*bed)
		about, check string
		level        Level
		says         string
	}{
		{"no hook program", func(b *bed) { _ = os.Remove(filepath.Join(b.dir, "bin", "decklog-hook")) }, "programs", "decklog-hook", Fault, "not on PATH"},
		{"no daemon", func(b *bed) { _ = os.Remove(filepath.Join(b.dir, "bin", "decklogd")) }, "programs", "decklogd", Fault, "not found"},
		{"the harness went", func(b *bed) { _ = os.Remove(filepath.Join(b.dir, "bin", "claude")) }, "claude-code", "found", Warning, "not on PATH, and decklog is installed"},
		{"settings that are no JSON", func(b *bed) { b.file("home/.claude/settings.json", "{", 0o600) }, "claude-code", "installed", Fault, "no JSON"},
		{"a skill that is another", func(b *bed) { b.file("home/.claude/skills/decklog/SKILL.md", "---\nname: decklog\n---\nold\n", 0o600) }, "claude-code", "installed", Warning, "SKILL.md (the file as this decklog has it)"},
		{"a fault that nothing followed", func(b *bed) {
			_ = b.notes.Fault(b.now+1, "claude-code", "Stop", "a-0001", "ledger_locked", "it is locked")
		}, "claude-code", "last fault", Warning, "at Stop: ledger_locked: it is locked"},
		{"a ledger that others read", func(b *bed) { b.file("ledger/ledger.db", "x", 0o644) }, "ledger", "file", Warning, "mode is 0644"},
		{"a folder that others write", func(b *bed) { _ = os.Chmod(filepath.Join(b.dir, "ledger"), 0o777) }, "ledger", "folder", Warning, "mode is 0777"},
		{"a large log", func(b *bed) {
			b.file("ledger/ledger.db-wal", "", 0o600)
			_ = os.Truncate(filepath.Join(b.dir, "ledger", "ledger.db-wal"), walBytesMax+1)
		}, "ledger", "log", Warning, "64 MiB"},
		{"a ledger that does not open", func(b *bed) {
			b.Open = func() (ops.Operations, Notes, error) { return nil, b.notes, events.ErrDamaged }
		}, "ledger", "opens", Fault, events.ErrDamaged.Error()},
		{"no address", func(b *bed) { b.LedgerFile, b.LedgerErr = "", errors.New("no such kind of ledger") }, "ledger", "address", Fault, "no such kind"},
		{"a policy that nobody adopted", func(b *bed) { b.file("ledger/decklog.toml", "[limits]\nbody_bytes = 5\n", 0o600) }, "policy", "file", Warning, "differs from the policy in force"},
		{"a policy with a fault", func(b *bed) { b.file("ledger/decklog.toml", "[limit]\n", 0o600) }, "policy", "file", Fault, "the first: "},
		{"a clock that went back", func(b *bed) { b.now -= events.Time(time.Hour / time.Microsecond) }, "clock", "now", Warning, "the farthest by 1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.program("claude", "echo 2.1.332")
			b.install("claude-code")
			b.join("a-0001", "claude-code")
			if r := Examine(t.Context(), b.Patient); !r.OK {
				t.Fatalf("it was not well before: %+v", r)
			}
			c.damage(b)
			r := Examine(context.Background(), b.Patient)
			b.says(r, c.about, c.check, c.level, c.says)
			if r.OK {
				t.Error("the report says that all is well")
			}
		})
	}
}

func TestNoLedgerIsMadeAndNothingIsTouched(t *testing.T) {
	b := newBed(t)
	b.Open = func() (ops.Operations, Notes, error) { t.Error("it was opened"); return nil, nil, errors.New("x") }
	for _, file := range []string{filepath.Join(b.dir, "nowhere", "ledger.db"), filepath.Join(b.dir, "ledger", "empty.db")} {
		b.LedgerFile = file
		if strings.Contains(file, "empty") {
			b.file("ledger/empty.db", "", 0o600)
		}
		if r := Examine(t.Context(), b.Patient); !r.OK {
			t.Errorf("%s: %+v", file, r)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "nowhere")); err == nil {
		t.Error("a folder was made")
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, "home")); err != nil || len(left) > 0 {
		t.Errorf("it left %v in the home", left)
	}
}

func TestAProgramOfAnotherBuildIsNamed(t *testing.T) {
	const ours, theirs = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b := newBed(t)
	b.Commit = ours
	b.program("decklog", "x\tvcs.revision=not this\nbuild\tvcs.revision="+ours+"\nbuild\tvcs.modified=true")
	b.program("decklog-hook", "build\tvcs.revision="+theirs+"\n")
	r := Examine(t.Context(), b.Patient)
	b.says(r, "programs", "decklog", OK, "bin/decklog")
	b.says(r, "programs", "decklog-hook", Warning, "was built from commit "+theirs+", and this decklog from commit "+ours)
}

func TestTheDoctorSaysHowALedgerStandsTowardsItsCluster(t *testing.T) {
	ms := int64(90_000)
	for _, c := range []struct {
		view  projections.ClusterView
		check string
		level Level
		says  string
	}{
		{projections.ClusterView{Live: true}, "cluster", OK, "live"},
		{projections.ClusterView{Says: "it is away", Fix: "start it", BehindMS: &ms}, "cluster", Fault, "by up to 1m30s: it is away"},
		{projections.ClusterView{Says: "it is away", Fix: "start it"}, "cluster", Fault, "nobody knows since when: it is away"},
		{projections.ClusterView{Says: "it is away", Fix: "start it", Undropped: 1}, "removed", Warning, "wait to be removed: they were taken back, or their messages were never recorded"},
		{projections.ClusterView{Live: true, Rebuilding: true}, "rebuild", OK, "anew"},
		{projections.ClusterView{Live: true, Unsent: 2}, "unsent", Warning, "2 commands"},
		{projections.ClusterView{Live: true, Undropped: 3}, "removed", Warning, "3 texts that no message has"},
	} {
		var lines part
		(&examination{}).cluster(&lines, &c.view)
		found := false
		for _, l := range lines {
			if l.Check == c.check {
				found = true
				if l.Level != c.level || !strings.Contains(l.Says, c.says) || l.Level != OK && l.Fix == "" {
					t.Errorf("of %+v it says %+v", c.view, l)
				}
			}
		}
		if !found {
			t.Errorf("of %+v it says %+v", c.view, lines)
		}
	}
	var none part
	if (&examination{}).cluster(&none, nil); len(none) > 0 {
		t.Errorf("of a ledger in no cluster it says %+v", none)
	}
}
