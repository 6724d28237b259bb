package cli

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"decklog/internal/install"
	"decklog/internal/kit"
	"decklog/internal/workdir"
)

func installs() *Command {
	return &Command{
		Name: "install", Group: "set-up", Usage: strings.Join(install.Names(), "|") + " [--check|--remove] [--wake] [--project] [--plugin DIR] [--dry-run] [--yes]",
		Short: "tell a harness of decklog: hooks, MCP server, skill",
		Long: `Writes what a harness needs into its own configuration: the hooks that register its
sessions and bring them their mail, the MCP server, and the skill. It shows the change
first, as a diff; on a terminal it asks. What is there stays as it is: a file is edited
in place, and --remove restores it byte for byte, or, where somebody has changed it
since, takes out decklog's own entries. A second installation changes nothing. A file
that cannot be read is left alone, and then nothing is written at all.

The user's own configuration is meant, wherever the harness's own variables put it
(CLAUDE_CONFIG_DIR, CODEX_HOME, GEMINI_CLI_HOME, XDG_CONFIG_HOME); with --project that
of the repository around the current directory, which everybody who works in it shares.
With --plugin DIR a folder is written instead, as a plugin of Claude Code or Codex or an
extension of Gemini CLI, and no configuration is touched.

With --wake a request, or an answer that was asked for, starts a turn of the session that
it waits for, while that is idle; the line that does it holds nothing of what was
written. Without it nothing ever starts a turn. What was installed with --wake stays so
until --remove.

Some harnesses run a hook only after their user has approved it. That is never done
here; what is left to do is printed at the end.`,
		Examples: []string{
			`decklog install claude-code --dry-run     # only show what would change`,
			`decklog install codex`,
			`decklog install gemini --check            # is it as it would be written? exit code 0 or 1`,
			`decklog install claude-code --remove`,
			`decklog install claude-code --plugin ~/decklog-plugin`,
		},
		Words: install.Names(),
		Flags: func(f *flag.FlagSet, r *run) {
			r.toggle("check", "only say whether all is as it would be written; exit code 1 when it is not")
			r.toggle("remove", "take it out again")
			r.toggle("dry-run", "only show what would change")
			r.toggle("yes", "do not ask")
			r.toggle("wake", "also let mail that waits for an answer start a turn of an idle session")
			r.toggle("project", "the repository's configuration instead of the user's")
			r.text("plugin", "", "write a plugin's folder `DIR` instead")
		},
		Run: (*run).install,
	}
}

// InstallFile is a file as an installation leaves it.
type InstallFile struct {
	Path   string   `json:"path"`
	Action string   `json:"action"` // created, changed, removed, unchanged
	Does   []string `json:"does"`
	Diff   string   `json:"diff"`
}

// InstallReceipt says what an installation, a removal or a check found and did.
type InstallReceipt struct {
	ID      string        `json:"id"` // the harness
	Scope   string        `json:"scope"`
	Written bool          `json:"written"`
	Files   []InstallFile `json:"files"`
	Next    []string      `json:"next"` // what only the user can do
}

func (r *run) install() error {
	if err := r.want(1, 1, "the harness: "+strings.Join(install.Names(), ", ")); err != nil {
		return err
	}
	h := install.Find(r.args[0])
	if h == nil {
		return misused("there is no harness %q; there are %s", r.args[0], strings.Join(install.Names(), ", "))
	}
	if r.on("check") && (r.on("remove") || r.on("dry-run")) {
		return misused("--check changes nothing anyway")
	}
	if r.on("project") && r.str("plugin") != "" {
		return misused("--project and --plugin name two places")
	}
	if r.str("plugin") != "" && !h.HasPlugin() {
		return misused("%s knows no such plugin", h.Name)
	}
	if r.on("wake") && (!h.CanWake() || r.str("plugin") != "") {
		return misused("idle sessions are woken in the configuration of claude-code, codex and opencode only")
	}
	place, err := r.place()
	if err != nil {
		return err
	}
	log := install.OpenRecord(r.stateFolder(place.Home))
	plan, err := h.Install(place)
	if r.on("remove") {
		plan, err = h.Remove(place, log)
	}
	if err != nil {
		return badConfig(err)
	}
	receipt := r.installReceipt(plan, place)
	if r.on("check") {
		return r.checked(receipt)
	}
	return r.carryOut(plan, place, receipt, log)
}

// place finds out where the configuration lies.
func (r *run) place() (install.Place, error) {
	p := install.Place{
		Home: r.Environ("HOME"), Environ: r.Environ, Version: r.Version.Version, Skill: kit.Skill(), OpencodePlugin: kit.OpencodePlugin(), OpencodeWake: kit.OpencodeWake(), Wake: r.on("wake"),
	}
	if !filepath.IsAbs(p.Home) {
		return p, Failed("no_home", "set HOME to the user's folder", errors.New("find the configuration: HOME is no absolute path"))
	}
	cwd, err := r.Getwd()
	if err != nil {
		return p, err
	}
	if r.on("project") {
		if p.Project = workdir.Root(cwd); p.Project == "" {
			p.Project = cwd
		}
	}
	if p.Plugin = r.str("plugin"); p.Plugin != "" && !filepath.IsAbs(p.Plugin) {
		p.Plugin = filepath.Join(cwd, p.Plugin)
	}
	p.Ledger, err = r.ledgerFolder()
	return p, err
}

// ledgerFolder is the folder of the ledger that is meant, without opening it.
func (r *run) ledgerFolder() (string, error) {
	return r.Folder(r.address())
}

// stateFolder is where the user's programs keep what may be lost.
func (r *run) stateFolder(home string) string {
	if dir := r.Environ("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "decklog")
	}
	return filepath.Join(home, ".local", "state", "decklog")
}

func badConfig(err error) error {
	var broken *install.Broken
	if !errors.As(err, &broken) {
		return err
	}
	fix := "mend the file by hand, or move it away, and run it again; nothing was written"
	switch {
	case errors.Is(err, install.ErrReadOnly):
		fix = "make the file writable (chmod u+w), or write into it by hand what --dry-run shows on a copy; nothing was written"
	case errors.Is(err, os.ErrPermission):
		fix = "make the file readable and writable for you; nothing was written"
	}
	return Failed("bad_config", fix, broken)
}

func (r *run) installReceipt(plan install.Plan, place install.Place) InstallReceipt {
	receipt := InstallReceipt{ID: plan.Harness.Name, Scope: "user", Files: []InstallFile{}, Next: []string{}}
	switch {
	case place.Plugin != "":
		receipt.Scope = "plugin"
	case place.Project != "":
		receipt.Scope = "project"
	}
	for _, c := range plan.Changes {
		receipt.Files = append(receipt.Files, InstallFile{Path: c.Path, Action: c.Action(), Does: c.Says, Diff: string(c.Diff())})
	}
	for _, c := range plan.Unchanged {
		receipt.Files = append(receipt.Files, InstallFile{Path: c.Path, Action: "unchanged", Does: []string{}})
	}
	if !r.on("remove") {
		receipt.Next = append(receipt.Next, r.missingPrograms()...)
		receipt.Next = append(receipt.Next, plan.Harness.Afterwards(place)...)
	}
	return receipt
}

// programs are those that a harness has to find by their names.
var programs = []string{"decklog", "decklog-hook"}

func (r *run) missingPrograms() (says []string) {
	for _, name := range programs {
		if lookPath(name, r.Environ("PATH")) == "" {
			says = append(says, fmt.Sprintf("put %s on the PATH that the harness is started with: it is not on this one", name))
		}
	}
	return says
}

// lookPath finds a program on a PATH; empty when it is not there.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// checked answers --check.
func (r *run) checked(receipt InstallReceipt) error {
	differs := false
	for _, f := range receipt.Files {
		differs = differs || f.Action != "unchanged"
	}
	if differs {
		r.code = ExitFailed
	}
	return r.show(map[string]any{"ok": !differs, "harness": receipt.ID, "scope": receipt.Scope, "files": receipt.Files}, nil, nil, func() error {
		for _, f := range receipt.Files {
			for _, what := range f.Does {
				if err := r.printf("%s: %s is missing, or is not as it would be written\n", f.Path, what); err != nil {
					return err
				}
			}
		}
		if differs {
			return r.printf("%s: not installed as this decklog would. See the changes: decklog install %s --dry-run\n", receipt.ID, receipt.ID)
		}
		return r.printf("%s: installed\n", receipt.ID)
	})
}

// carryOut shows the changes and makes them.
func (r *run) carryOut(plan install.Plan, place install.Place, receipt InstallReceipt, log *install.Record) error {
	if !r.json {
		if err := r.showChanges(receipt); err != nil {
			return err
		}
	}
	if len(plan.Changes) > 0 && !r.on("dry-run") && r.agreed() {
		if err := plan.Apply(log, r.on("remove")); err != nil {
			return Failed("not_written", "run it again: what is done already stays, and is not done twice", err)
		}
		receipt.Written = true
		if again, err := plan.Harness.Remove(place, log); r.on("remove") && err == nil && len(again.Changes) > 0 {
			receipt.Next = append(receipt.Next, "what somebody wrote or changed by hand is left; to take that out too, run it once more")
		}
	}
	return r.answer(receipt, nil, nil, func() string { return r.sayInstalled(plan, receipt) })
}

func (r *run) showChanges(receipt InstallReceipt) error {
	for _, f := range receipt.Files {
		if f.Action == "unchanged" {
			continue
		}
		if err := r.printf("%s %s: %s\n%s\n", f.Action, f.Path, strings.Join(f.Does, ", "), f.Diff); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) sayInstalled(plan install.Plan, receipt InstallReceipt) string {
	var lines []string
	switch {
	case len(plan.Changes) == 0 && r.on("remove"):
		return receipt.ID + ": nothing of decklog is installed; nothing was changed"
	case len(plan.Changes) == 0:
		lines = []string{receipt.ID + ": installed already; nothing was changed"}
	case !receipt.Written:
		return receipt.ID + ": nothing was written"
	case r.on("remove"):
		return strings.Join(append([]string{receipt.ID + ": removed"}, receipt.Next...), "\n")
	default:
		lines = []string{receipt.ID + ": installed"}
	}
	if len(receipt.Next) > 0 {
		lines = append(lines, "Left for you:")
	}
	for _, next := range receipt.Next {
		lines = append(lines, "  - "+next)
	}
	return strings.Join(append(lines, "Look whether all is well: decklog doctor"), "\n")
}

// agreed asks whoever sits at the terminal. Where nobody does, the command was
// the answer.
func (r *run) agreed() bool {
	if r.on("yes") || r.json || !terminal(r.Stdin) {
		return true
	}
	_, _ = fmt.Fprint(r.Stderr, "Write this? [y/N] ")
	answer, _ := bufio.NewReader(io.LimitReader(r.Stdin, 100)).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// terminal says whether somebody sits in front of an input.
func terminal(in io.Reader) bool {
	f, is := in.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
