package install

import (
	"bytes"
	"slices"
	"strings"
)

// remove plans what a removal does to a file: it becomes what it was before the
// installation, if nobody has changed it since, and else loses what is decklog's.
func (f file) remove(c *Change, log *Record) error {
	if !c.Was {
		return nil
	}
	before, was, all := log.undo(f.path, c.Before)
	if c.After, c.Gone = before, !was; c.Gone || !bytes.Equal(before, c.Before) {
		c.says("back to what it was")
	}
	if all || c.Gone {
		return nil
	}
	switch {
	case f.own:
		return f.removeWhole(c, log)
	case f.codex != nil:
		return f.codex.remove(c)
	}
	d, err := readJSON(c.After)
	if err != nil {
		return err
	}
	made, known := log.made(f.path)
	may := func(path []string) bool { return !known || slices.Contains(made, pointer(path)) }
	if f.servers != nil && d.find(f.servers.under, "decklog") != nil {
		c.says("the MCP server")
		if err := d.dropWith(may, f.servers.under, "decklog"); err != nil {
			return err
		}
	}
	if err := f.removeHooks(d, c, may); err != nil {
		return err
	}
	if d.edited {
		c.After = d.text
	}
	return nil
}

func (f file) removeHooks(d *jsonText, c *Change, may func([]string) bool) error {
	if f.hooksOf == "" {
		return nil
	}
	all, _ := d.value("hooks").(map[string]any)
	events := make([]string, 0, len(all))
	for event := range all {
		events = append(events, event)
	}
	slices.Sort(events)
	for _, event := range events {
		mine := f.ours(d, event, f.runsEither, func(any) bool { return false })
		for _, path := range slices.Backward(mine) {
			if err := d.dropWith(may, path...); err != nil {
				return err
			}
		}
		if len(mine) > 0 {
			c.says("the hook at %s", event)
		}
	}
	return nil
}

// dropWith takes out what lies at a place, and the containers above that are
// then empty, if they may go.
func (d *jsonText) dropWith(may func([]string) bool, path ...string) error {
	if err := d.drop(path...); err != nil {
		return err
	}
	for n := len(path) - 1; n > 0 && d.empty(path[:n]...) && may(path[:n]); n-- {
		if err := d.drop(path[:n]...); err != nil {
			return err
		}
	}
	return nil
}

// removeWhole takes away a file that is decklog's own, in this version or in
// another. One that its user changed since it was written stays, and so does one
// that was never decklog's.
func (f file) removeWhole(c *Change, log *Record) error {
	edits := log.Files[f.path]
	written := len(edits) == 0 && isOurs(f.path, c.After) ||
		slices.ContainsFunc(edits, func(e Edit) bool { return e.After == sum(c.After) })
	if written || bytes.Equal(c.After, f.whole) {
		c.Gone, c.After = true, nil
		c.says("the file")
	}
	return nil
}

// isOurs says whether a file of that name is decklog's in some version.
func isOurs(path string, text []byte) bool {
	if strings.HasSuffix(path, "SKILL.md") {
		return bytes.HasPrefix(text, []byte("---\n")) && bytes.Contains(text, []byte("\nname: decklog\n"))
	}
	return bytes.Contains(text, []byte(hookProgram)) || bytes.Contains(text, []byte("decklog wake")) || bytes.Contains(text, []byte(`"decklog"`))
}

func (x *codexConfig) remove(c *Change) error {
	d, err := readTOML(c.After)
	if err != nil {
		return err
	}
	if x.root != "" && x.writable(d) {
		if err := d.exclude(x.root, sandboxTable, rootsKey); err != nil {
			return err
		}
		c.says("the ledger's folder among those that tools in the sandbox may write to")
	}
	if d.value("mcp_servers", "decklog") != nil {
		if err := d.dropTable("mcp_servers", "decklog"); err != nil {
			return err
		}
		c.says("the MCP server")
	}
	c.After = d.text
	return nil
}
