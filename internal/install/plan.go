package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
)

// Plan is what has to change so that a harness's configuration is as decklog
// would have it, or so that nothing of decklog is left in it.
type Plan struct {
	Harness *Harness
	Changes []Change
	// Unchanged are the files that are as they should be.
	Unchanged []Change
}

// Change is what becomes of one file.
type Change struct {
	Path   string // as the harness names it
	Before []byte
	Was    bool // the file is there
	After  []byte
	Gone   bool     // the file goes
	Says   []string // what the change does, each in a few words
	made   []string // containers that had to be made
	shared bool     // whoever works in the repository reads the file
}

// Broken is a file that cannot be changed, and why.
type Broken struct {
	Path string
	Err  error
}

func (b *Broken) Error() string { return b.Path + ": " + b.Err.Error() }
func (b *Broken) Unwrap() error { return b.Err }

// read reads a file; nil and false when it is not there.
func read(path string) ([]byte, bool, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, false, &Broken{path, errors.New("it is a symbolic link to a file that is not there")}
		}
		return nil, false, nil
	}
	if err != nil {
		return nil, false, &Broken{path, err}
	}
	return text, true, nil
}

// settle lets a file be the one that the harness would read, where there may be
// several.
func (f file) settle() file {
	if filepath.Base(f.path) == "opencode.json" {
		if _, err := os.Stat(f.path + "c"); err == nil {
			f.path += "c"
		}
	}
	return f
}

// Install plans an installation.
func (h *Harness) Install(p Place) (Plan, error) {
	return h.plan(p, func(f file, c *Change) error { return f.install(c) })
}

// Remove plans a removal.
func (h *Harness) Remove(p Place, log *Record) (Plan, error) {
	plan, err := h.plan(p, func(f file, c *Change) error { return f.remove(c, log) })
	slices.Reverse(plan.Changes) // the hooks first: they act
	return plan, err
}

func (h *Harness) plan(p Place, change func(file, *Change) error) (Plan, error) {
	plan := Plan{Harness: h}
	files := h.files
	if p.Plugin != "" {
		files = h.plugin
	}
	for _, f := range files(p) {
		f = f.settle()
		text, was, err := read(f.path)
		if err != nil {
			return plan, err
		}
		c := Change{Path: f.path, Before: text, Was: was, After: text, shared: p.Project+p.Plugin != ""}
		if err := change(f, &c); err != nil {
			return plan, &Broken{f.path, err}
		}
		if len(c.Says) > 0 && (c.Gone || !c.Was || !bytes.Equal(c.After, c.Before)) {
			plan.Changes = append(plan.Changes, c)
		} else {
			plan.Unchanged = append(plan.Unchanged, c)
		}
	}
	for _, c := range plan.Changes {
		if err := c.possible(); err != nil {
			return plan, &Broken{c.Path, err}
		}
	}
	return plan, nil
}

// errNotPlain is of a file that its harness passes over as a whole: what would be
// written into it would do nothing, and look as if it were installed.
var errNotPlain = errors.New("it has comments or trailing commas, and its harness then reads none of it: take them out first")

// install plans what an installation does to a file.
func (f file) install(c *Change) error {
	switch {
	case f.own:
		return f.installWhole(c)
	case f.codex != nil:
		return f.codex.install(c)
	}
	d, err := readJSON(c.Before)
	if err != nil {
		return err
	}
	if f.plain && len(bytes.TrimSpace(c.Before)) > 0 && !json.Valid(c.Before) {
		return errNotPlain
	}
	said := len(c.Says)
	if f.version && d.find("version") == nil {
		if err := d.put("1", "version"); err != nil {
			return err
		}
		c.says("the version of the file's form")
	}
	if f.servers != nil {
		if err := f.servers.install(d, c); err != nil {
			return err
		}
	}
	if err := f.installHooks(d, c); err != nil {
		return err
	}
	if len(c.Says) > said {
		c.After, c.made = d.text, d.made
	}
	return nil
}

// Action is what becomes of the file, in one word.
func (c Change) Action() string {
	switch {
	case c.Gone:
		return "removed"
	case !c.Was:
		return "created"
	}
	return "changed"
}

func (c *Change) says(format string, args ...any) {
	c.Says = append(c.Says, fmt.Sprintf(format, args...))
}

func (f file) installWhole(c *Change) error {
	switch {
	case !c.Was && !f.wanted:
		return nil
	case !c.Was:
		c.says("the file")
	case bytes.Equal(c.Before, f.whole):
		return nil
	case !isOurs(f.path, c.Before):
		return errors.New("it is there, and not decklog's; move it away")
	default:
		c.says("the file as this decklog has it")
	}
	c.After = f.whole
	return nil
}

// install sees to it that the server is there. What its user added to it stays.
func (s *server) install(d *jsonText, c *Change) error {
	there := d.value(s.under, "decklog")
	if there != nil {
		if starts(there, s.raw) {
			return nil
		}
		if err := d.drop(s.under, "decklog"); err != nil {
			return err
		}
	}
	c.says("the MCP server `decklog mcp`")
	return d.put(s.raw, s.under, "decklog")
}

// starts says whether a server is started as it should be.
func starts(there any, raw string) bool {
	var want map[string]any
	_ = json.Unmarshal([]byte(raw), &want)
	has, is := there.(map[string]any)
	if !is {
		return false
	}
	if !reflect.DeepEqual(commandLine(has), commandLine(want)) {
		return false
	}
	return has["type"] == nil || has["type"] == want["type"] || want["type"] == nil && has["type"] == "stdio"
}

// commandLine is how a server is started, whichever folder its program is in.
func commandLine(server map[string]any) (words []any) {
	words, whole := server["command"].([]any)
	if !whole {
		args, _ := server["args"].([]any)
		words = append([]any{server["command"]}, args...)
	}
	if len(words) == 0 {
		return nil
	}
	if program, is := words[0].(string); is {
		words[0] = filepath.Base(program)
	}
	return words
}

// installHooks sees to it that each event has its entry, and none of decklog's
// that says something else.
func (f file) installHooks(d *jsonText, c *Change) error {
	for _, h := range f.hooks {
		var want any
		_ = json.Unmarshal([]byte(h.raw), &want)
		kept := false
		runs := f.runsHook
		if h.wakes {
			runs = f.runsWake
		}
		wrong := f.ours(d, h.event, runs, func(entry any) bool {
			same := reflect.DeepEqual(entry, want)
			first := same && !kept
			kept = kept || same
			return first
		})
		for _, path := range slices.Backward(wrong) {
			if err := d.drop(path...); err != nil {
				return err
			}
		}
		if len(wrong) > 0 || !kept {
			c.says("the %s at %s", map[bool]string{false: "hook", true: "listener that wakes"}[h.wakes], h.event)
		}
		if kept {
			continue
		}
		if err := d.push(h.raw, "hooks", h.event); err != nil {
			return err
		}
	}
	return nil
}

// ours are the places of decklog's handlers at an event, or of the whole entries
// where nobody else's are in them, except for entries that keep says to keep.
func (f file) ours(d *jsonText, event string, runs func(handler any) bool, keep func(entry any) bool) (paths [][]string) {
	entries, _ := d.value("hooks", event).([]any)
	for i, entry := range entries {
		at := []string{"hooks", event, strconv.Itoa(i)}
		if runs(entry) {
			if !keep(entry) {
				paths = append(paths, at)
			}
			continue
		}
		in, _ := entry.(map[string]any)
		handlers, _ := in["hooks"].([]any)
		var mine [][]string
		for j, handler := range handlers {
			if runs(handler) {
				mine = append(mine, append(slices.Clone(at), "hooks", strconv.Itoa(j)))
			}
		}
		switch {
		case len(mine) == 0:
		case len(mine) < len(handlers):
			paths = append(paths, mine...)
		case !keep(entry):
			paths = append(paths, at)
		}
	}
	return paths
}

// runsHook says whether a handler runs decklog's hook, runsWake whether it is
// decklog's listener, and runsEither whether it is decklog's at all.
func (f file) runsHook(handler any) bool   { return RunsHook(commandOf(handler), f.hooksOf) }
func (f file) runsWake(handler any) bool   { return runsWake(commandOf(handler), f.hooksOf) }
func (f file) runsEither(handler any) bool { return IsOurs(commandOf(handler), f.hooksOf) }

func commandOf(handler any) string {
	in, _ := handler.(map[string]any)
	command, _ := in["command"].(string)
	return command
}

func (x *codexConfig) install(c *Change) error {
	d, err := readTOML(c.Before)
	if err != nil {
		return err
	}
	if !x.starts(d) {
		if err := d.dropTable("mcp_servers", "decklog"); err != nil {
			return err
		}
		if err := d.append(codexTable); err != nil {
			return err
		}
		c.says("the MCP server `decklog mcp`")
	}
	if x.root != "" && !x.writable(d) {
		if err := d.include(x.root, sandboxTable, rootsKey); err != nil {
			return fmt.Errorf("add %s to %s.%s: %w", quote(x.root), sandboxTable, rootsKey, err)
		}
		c.says("the ledger's folder among those that tools in the sandbox may write to")
	}
	if len(c.Says) > 0 {
		c.After = d.text
	}
	return nil
}

const (
	sandboxTable = "sandbox_workspace_write"
	rootsKey     = "writable_roots"
)

func (x *codexConfig) starts(d *tomlText) bool {
	there, is := d.value("mcp_servers", "decklog").(map[string]any)
	return is && reflect.DeepEqual(commandLine(there), []any{"decklog", "mcp"})
}

func (x *codexConfig) writable(d *tomlText) bool {
	roots, _ := d.value(sandboxTable, rootsKey).([]any)
	return slices.Contains(roots, any(x.root))
}
