package install

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite what the homes are compared with")

// home is a user's folder under test.
type home struct {
	*testing.T
	dir     string
	harness *Harness
	place   Place
}

func newHome(t *testing.T, harness string, environ map[string]string) *home {
	t.Helper()
	h := &home{T: t, dir: t.TempDir(), harness: Find(harness)}
	if h.harness == nil {
		t.Fatalf("there is no harness %q", harness)
	}
	h.place = Place{
		Home: filepath.Join(h.dir, "home"), Ledger: "/ledgers/of ana", Version: "1.2.3",
		Skill: []byte("---\nname: decklog\n---\nthe skill\n"), OpencodePlugin: []byte("// runs decklog-hook opencode\n"),
		Environ: func(name string) string {
			if v := environ[name]; v != "" {
				return filepath.Join(h.dir, v)
			}
			return ""
		},
	}
	if err := os.Mkdir(h.place.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *home) record() *Record { return OpenRecord(filepath.Join(h.dir, "state")) }

func (h *home) install() Plan {
	h.Helper()
	plan, err := h.harness.Install(h.place)
	if err == nil {
		err = plan.Apply(h.record(), false)
	}
	if err != nil {
		h.Fatal(err)
	}
	return plan
}

func (h *home) remove() Plan {
	h.Helper()
	log := h.record()
	plan, err := h.harness.Remove(h.place, log)
	if err == nil {
		err = plan.Apply(log, true)
	}
	if err != nil {
		h.Fatal(err)
	}
	return plan
}

func (h *home) write(files map[string]string) {
	h.Helper()
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
			h.Fatal(err)
		}
	}
}

// tree is everything in the home, with its mode; of folders only the mode.
func (h *home) tree() map[string]string {
	h.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(h.dir, path)
		info, err := e.Info()
		if err != nil || e.IsDir() {
			all[name] = info.Mode().String()
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			all[name] = "→ " + to
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = info.Mode().String() + "\n" + string(text)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return name == "state" })
	return all
}

func (h *home) files() map[string]string {
	all := map[string]string{}
	for name, what := range h.tree() {
		if mode, text, is := strings.Cut(what, "\n"); is && strings.HasPrefix(mode, "-") && !strings.HasPrefix(name, "state") {
			all[name] = text
		}
	}
	return all
}

func under(a *txtar.Archive, folder string) map[string]string {
	files := map[string]string{}
	for _, f := range a.Files {
		if name, is := strings.CutPrefix(f.Name, folder+"/"); is {
			files[name] = strings.ReplaceAll(string(f.Data), "␍", "\r")
		}
	}
	return files
}

// Each archive has a harness in its first line, and variables in the next; files
// under before/, as they are found, and under after/, as an installation leaves
// them; and perhaps what its user writes then, under later/, and what a removal
// leaves of that, under left/.
func TestWhatIsThereStaysAndARemovalRestoresItToTheByte(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) < 10 {
		t.Fatalf("found %d archives: %v", len(archives), err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first, rest, _ := strings.Cut(string(a.Comment), "\n")
			environ := map[string]string{}
			for line := range strings.Lines(rest) {
				if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is {
					environ[name] = value
				}
			}
			h := newHome(t, first, environ)
			if environ["project"] != "" {
				h.place.Project = filepath.Join(h.dir, "repo")
			}
			h.write(under(a, "before"))
			before := h.tree()

			h.install()
			if *update {
				rewrite(t, path, a, h.files())
			} else if d := cmp.Diff(under(a, "after"), h.files()); d != "" {
				t.Fatalf("installed (-want +got):\n%s", d)
			}
			after := h.tree()
			if plan := h.install(); len(plan.Changes) > 0 {
				t.Errorf("a second installation changes %v", plan.Changes)
			}
			if d := cmp.Diff(after, h.tree()); d != "" {
				t.Errorf("after a second installation:\n%s", d)
			}
			if later := under(a, "later"); len(later) > 0 {
				h.write(later)
				h.remove()
				left := h.files()
				for name, want := range under(a, "left") {
					if d := cmp.Diff(want, left[name]); d != "" {
						t.Errorf("%s, changed by its user, is left as (-want +got):\n%s", name, d)
					}
				}
				return
			}
			h.remove()
			if d := cmp.Diff(before, h.tree()); d != "" {
				t.Errorf("removed, it is not as it was (-before +now):\n%s", d)
			}
			if plan := h.remove(); len(plan.Changes) > 0 && environ["byhand"] == "" {
				t.Errorf("a second removal changes %v", plan.Changes)
			}
			for name, text := range h.files() {
				if strings.Contains(text, "decklog") {
					t.Errorf("%s still holds %s", name, text)
				}
			}
		})
	}
}

func rewrite(t *testing.T, path string, a *txtar.Archive, files map[string]string) {
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "after/") })
	at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "later/") })
	if at < 0 {
		at = len(a.Files)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		text := strings.ReplaceAll(files[name], "\r", "␍")
		a.Files = slices.Insert(a.Files, at, txtar.File{Name: "after/" + name, Data: []byte(text)})
	}
	if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Without the record a removal takes out what is decklog's all the same, and of
// what it finds in no odd form leaves exactly the rest.
func TestARemovalWithoutTheRecordLeavesWhatIsNotDecklogs(t *testing.T) {
	archives, _ := filepath.Glob("testdata/*-has-settings*.txtar")
	if len(archives) < 3 {
		t.Fatalf("found %d archives", len(archives))
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(a.Comment), "\n")
			h := newHome(t, first, nil)
			h.write(under(a, "before"))
			h.install()
			if err := os.RemoveAll(filepath.Join(h.dir, "state")); err != nil {
				t.Fatal(err)
			}
			h.remove()
			left := h.files()
			for name, want := range under(a, "before") {
				if d := cmp.Diff(want, left[name]); d != "" {
					t.Errorf("%s (-want +got):\n%s", name, d)
				}
			}
		})
	}
}

func TestAFileThatCannotBeReadIsLeftAloneAndSoAreTheOthers(t *testing.T) {
	for _, c := range []struct{ name, harness, file, text, says string }{
		{"comments, which Claude Code does not read", "claude-code", "home/.claude/settings.json", "{\n // mine\n \"model\": \"opus\"}\n", "comments or trailing commas"},
		{"no JSON", "claude-code", "home/.claude/settings.json", "{\"hooks\": {\n", "it is no JSON"},
		{"a list", "claude-code", "home/.claude/settings.json", "[]\n", "it holds no object"},
		{"hooks of another form", "claude-code", "home/.claude/settings.json", `{"hooks": []}`, "hooks is no object"},
		{"an event of another form", "codex", "home/.codex/hooks.json", `{"hooks": {"Stop": {}}}`, "hooks.Stop is no list"},
		{"servers of another form", "gemini", "home/.gemini/settings.json", `{"mcpServers": 1}`, "mcpServers is no object"},
		{"no TOML", "codex", "home/.codex/config.toml", "model = \"x\nother = 1\n", "it is no TOML: line 1"},
		{"roots of another form", "codex", "home/.codex/config.toml", "sandbox_workspace_write = { writable_roots = [\"/a\"] }\n", "only a person can change"},
		{"somebody else's skill", "codex", "home/.codex/skills/decklog/SKILL.md", "mine\n", "not decklog's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t, c.harness, nil)
			h.write(map[string]string{c.file: c.text})
			before := h.tree()
			plan, err := h.harness.Install(h.place)
			var broken *Broken
			if !errors.As(err, &broken) || !strings.HasSuffix(broken.Path, c.file) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("planned %d changes: %v", len(plan.Changes), err)
			}
			if d := cmp.Diff(before, h.tree()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestASymbolicLinkStaysOneAndItsFileKeepsItsMode(t *testing.T) {
	h := newHome(t, "claude-code", nil)
	h.write(map[string]string{"dotfiles/claude.json": "{\n\t\"model\": \"x\"\n}\n"})
	link := filepath.Join(h.place.Home, ".claude", "settings.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink("../../dotfiles/claude.json", link)); err != nil {
		t.Fatal(err)
	}
	before := h.tree()
	h.install()
	after := h.tree()
	if after["home/.claude/settings.json"] != before["home/.claude/settings.json"] {
		t.Errorf("the link is %s", after["home/.claude/settings.json"])
	}
	if text := after["dotfiles/claude.json"]; !strings.HasPrefix(text, "-rw-r-----\n{\n\t\"model\": \"x\",\n\t\"hooks\": {\n\t\t\"SessionStart\"") {
		t.Errorf("its file is %s", text)
	}
	h.remove()
	if d := cmp.Diff(before, h.tree()); d != "" {
		t.Error(d)
	}
}

func TestAFileThatIsReadOnlyIsNotWritten(t *testing.T) {
	h := newHome(t, "claude-code", nil)
	h.write(map[string]string{"home/.claude/settings.json": "{}\n"})
	path := filepath.Join(h.place.Home, ".claude", "settings.json")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	before := h.tree()
	if _, err := h.harness.Install(h.place); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), path) {
		t.Errorf("it says %v", err)
	}
	if d := cmp.Diff(before, h.tree()); d != "" {
		t.Error(d)
	}
}

func TestAFileThatChangesBetweenLookAndWriteIsNotOverwritten(t *testing.T) {
	h := newHome(t, "claude-code", nil)
	h.write(map[string]string{"home/.claude.json": "{}\n"})
	plan, err := h.harness.Install(h.place)
	if err != nil {
		t.Fatal(err)
	}
	h.write(map[string]string{"home/.claude.json": "{\"theirs\": 1}\n"})
	if err := plan.Apply(h.record(), false); !errors.Is(err, ErrChanged) {
		t.Errorf("it says %v", err)
	}
	if text := h.files()["home/.claude.json"]; text != "{\"theirs\": 1}\n" {
		t.Errorf("it holds %s", text)
	}
	h.install()
}

func TestNothingIsLeftBesideTheFiles(t *testing.T) {
	h := newHome(t, "gemini", nil)
	h.write(map[string]string{"home/.gemini/settings.json": "{}\n"})
	h.install()
	for name := range h.files() {
		if base := filepath.Base(name); base != "settings.json" && base != "SKILL.md" {
			t.Errorf("it left %s", name)
		}
	}
}

func TestAnOlderInstallationIsBroughtUpToDateAndStillRestored(t *testing.T) {
	h := newHome(t, "codex", nil)
	h.write(map[string]string{"home/.codex/hooks.json": "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]}}\n"})
	before := h.tree()
	h.install()
	h.place.Skill = []byte("---\nname: decklog\n---\nthe next skill\n")
	h.place.Ledger = "/elsewhere"
	if plan := h.install(); len(plan.Changes) != 2 {
		t.Errorf("it changes %v", plan.Changes)
	}
	h.remove()
	if d := cmp.Diff(before, h.tree()); d != "" {
		t.Error(d)
	}
}

func TestEveryPluginsFolderIsWrittenFoundAndTakenAway(t *testing.T) {
	for _, harness := range Harnesses() {
		if !harness.HasPlugin() {
			continue
		}
		t.Run(harness.Name, func(t *testing.T) {
			h := newHome(t, harness.Name, nil)
			h.place.Plugin = filepath.Join(h.dir, "made", "plugin")
			before := h.tree()
			h.install()
			for name, text := range h.files() {
				if !strings.HasPrefix(name, "made/plugin/") {
					t.Errorf("it wrote %s", name)
				}
				if strings.HasSuffix(name, ".json") {
					if _, err := readJSON([]byte(text)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			if plan := h.install(); len(plan.Changes) > 0 {
				t.Errorf("a second one changes %v", plan.Changes)
			}
			h.remove()
			if d := cmp.Diff(before, h.tree()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestACommandLineIsKnownAsDecklogsHook(t *testing.T) {
	for command, want := range map[string]bool{
		"decklog-hook codex": true, "/opt/x/decklog-hook codex": true, "decklog hook codex": true, "decklog-hook codex --wake": true,
		"decklog-hook claude-code": false, "decklog send codex": false, "my-decklog-hook codex": false, "": false, "decklog-hook": false,
	} {
		if RunsHook(command, "codex") != want {
			t.Errorf("%q: %t", command, !want)
		}
	}
}

func TestASkillThatItsUserChangedIsNotTakenAwayUnasked(t *testing.T) {
	h := newHome(t, "gemini", nil)
	h.install()
	const skill = "home/.gemini/skills/decklog/SKILL.md"
	h.write(map[string]string{skill: "---\nname: decklog\n---\nmy own words\n"})
	h.remove()
	if left := h.files(); len(left) != 1 || left[skill] == "" {
		t.Errorf("it left %v", left)
	}
	h.remove()
	if left := h.files(); len(left) != 0 {
		t.Errorf("asked again, it left %v", left)
	}
}
