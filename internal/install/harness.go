package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Place is where a harness's configuration lies, and what it has to know.
type Place struct {
	Home    string // the user's
	Environ func(string) string
	// Project is the root of a repository whose configuration is meant, which
	// whoever works in it shares; empty: the user's own.
	Project string
	// Plugin is a folder that becomes a plugin, or an extension, instead of any
	// configuration; empty: none.
	Plugin string
	// Ledger is the folder of the ledger's file; empty: it has none.
	Ledger string
	// Version is decklog's own.
	Version string
	// Wake says that idle sessions are to be woken, which their user has to ask for.
	Wake bool
	// Skill, OpencodePlugin and OpencodeWake are the files that decklog brings along.
	Skill, OpencodePlugin, OpencodeWake []byte
}

// Harness is how one harness is configured.
type Harness struct {
	Name    string // as decklog calls it
	Program string // the harness's own, to be found on PATH
	// Experimental says that it was never tried on the real program.
	Experimental bool
	files        func(Place) []file
	// plugin are the files of a folder that the harness can be pointed at instead.
	plugin func(Place) []file
	next   func(Place) []string
	// pluginNext says it for a plugin's folder.
	pluginNext func(folder string) []string
	// enabled says whether decklog's plugin is installed in the harness.
	enabled func(Place) bool
}

// Harnesses are those that can be configured.
func Harnesses() []*Harness {
	return []*Harness{claudeCode(), codex(), gemini(), opencode(), cursor()}
}

// Names are their names.
func Names() (names []string) {
	for _, h := range Harnesses() {
		names = append(names, h.Name)
	}
	return names
}

// Find gives the harness of a name; nil when there is none.
func Find(name string) *Harness {
	for _, h := range Harnesses() {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// HasPlugin says whether the harness knows plugins of the kind that is made here.
func (h *Harness) HasPlugin() bool { return h.plugin != nil }

// ByPlugin says whether decklog is installed in the harness as a plugin.
func (h *Harness) ByPlugin(p Place) bool { return h.enabled != nil && h.enabled(p) }

// Afterwards says what only the user can do, once a plan was carried out.
func (h *Harness) Afterwards(p Place) []string {
	if p.Plugin != "" {
		return h.pluginNext(p.Plugin)
	}
	return h.next(p)
}

// file is a file of a harness, and what decklog wants in it. Some files have
// several kinds of wants.
type file struct {
	path string
	// own says that the file is decklog's own, and whole is then its content.
	own   bool
	whole []byte
	// wanted says that it is to be written where it is not there.
	wanted  bool
	servers *server // an MCP server in JSON
	hooks   []hookEntry
	plain   bool         // the harness reads no comments and no trailing commas
	hooksOf string       // the harness's name in the hooks' commands
	version bool         // the file has a version, which is 1 (Cursor)
	codex   *codexConfig // in Codex's config.toml
}

// server is decklog as an MCP server.
type server struct {
	under string // the key of the servers
	raw   string
}

// hookEntry is an element of the list of one event. It runs the hook, or listens
// in order to wake the session.
type hookEntry struct {
	event, raw string
	wakes      bool
}

// waking are the entries that wake idle sessions of a harness, where its user
// asked for that.
func (p Place) waking(harness, more string) []hookEntry {
	if !p.Wake {
		return nil
	}
	raw := group("", "decklog wake "+harness, more)
	return []hookEntry{{"SessionStart", raw, true}, {"Stop", raw, true}}
}

// codexConfig is what decklog wants in Codex's config.toml.
type codexConfig struct{ root string } // that the sandbox lets tools write to; empty: none

// The command lines never change: Codex ties a user's approval to them.
const (
	hookProgram = "decklog-hook"
	stdioServer = `{"type":"stdio","command":"decklog","args":["mcp"],"env":{}}`
	plainServer = `{"command":"decklog","args":["mcp"]}`
	// Codex gives a server no variables but those that are named.
	codexPluginServer = `{"command":"decklog","args":["mcp"],"env_vars":["DECKLOG_LEDGER","XDG_DATA_HOME"]}`
	geminiServer      = `{"command":"decklog","args":["mcp"],"env":{"DECKLOG_LEDGER":"$DECKLOG_LEDGER","XDG_DATA_HOME":"$XDG_DATA_HOME"}}`
)

// codexTable is the server in Codex, which gives its servers no variables but
// those that are named.
const codexTable = `[mcp_servers.decklog]
command = "decklog"
args = ["mcp"]
env_vars = ["DECKLOG_LEDGER", "XDG_DATA_HOME"]
`

// group is an element in the form that Claude Code, Codex and Gemini share.
func group(matcher, command, more string) string {
	if matcher != "" {
		matcher = `"matcher":` + quote(matcher) + `,`
	}
	return `{` + matcher + `"hooks":[{"type":"command","command":` + quote(command) + more + `}]}`
}

func (p Place) variable(name, otherwise string) string {
	if v := p.Environ(name); filepath.IsAbs(v) {
		return v
	}
	return otherwise
}

// skill is the skill's file in a folder of skills.
func (p Place) skill(folder ...string) file {
	return file{path: filepath.Join(append(folder, "decklog", "SKILL.md")...), own: true, whole: p.Skill, wanted: true}
}

func claudeHooks(tools string) []hookEntry {
	const command = hookProgram + " claude-code"
	return []hookEntry{
		{"SessionStart", group("", command, ""), false},
		{"UserPromptSubmit", group("", command, ""), false},
		{"PreToolUse", group(tools, command, ""), false},
		{"PostToolUse", group("*", command, ""), false},
		{"PostToolUseFailure", group("*", command, ""), false},
		{"Stop", group("", command, ""), false},
		{"SessionEnd", group("", command, `,"timeout":10`), false}, // by default it gets 1.5 s
	}
}

func claudeCode() *Harness {
	return &Harness{
		Name: "claude-code", Program: "claude",
		files: func(p Place) []file {
			settings, servers, folder := "", "", p.Project
			if folder != "" {
				settings, servers = filepath.Join(folder, ".claude"), filepath.Join(folder, ".mcp.json")
			} else {
				settings = p.variable("CLAUDE_CONFIG_DIR", filepath.Join(p.Home, ".claude"))
				servers = filepath.Join(p.variable("CLAUDE_CONFIG_DIR", p.Home), ".claude.json")
			}
			return []file{
				p.skill(settings, "skills"),
				{path: servers, servers: &server{"mcpServers", stdioServer}},
				{path: filepath.Join(settings, "settings.json"), plain: true, hooks: append(claudeHooks("mcp__decklog__.*"), p.waking("claude-code", `,"asyncRewake":true,"timeout":86400`)...), hooksOf: "claude-code"},
			}
		},
		plugin: claudePlugin,
		enabled: func(p Place) bool {
			text, err := os.ReadFile(filepath.Join(p.variable("CLAUDE_CONFIG_DIR", filepath.Join(p.Home, ".claude")), "settings.json"))
			if err != nil {
				return false
			}
			d, err := readJSON(text)
			return err == nil && d.value("enabledPlugins", "decklog@decklog") == true
		},
		next: func(p Place) []string {
			next := []string{"restart the sessions of Claude Code that run: they read their hooks at their start"}
			if p.Project != "" {
				next = append(next, "whoever works here is asked by Claude Code to trust the folder, and to approve the server in .mcp.json")
			}
			return next
		},
		pluginNext: func(folder string) []string {
			return []string{
				"claude --plugin-dir " + folder + " takes it for one session",
				"to keep it: claude plugin marketplace add " + folder + ", then claude plugin install decklog@decklog",
			}
		},
	}
}

func codexHooks() []hookEntry {
	const command = hookProgram + " codex"
	return []hookEntry{
		{"SessionStart", group("", command, ""), false},
		{"UserPromptSubmit", group("", command, ""), false},
		{"PreToolUse", group("mcp__decklog__.*", command, ""), false},
		{"PostToolUse", group("", command, ""), false},
		{"Stop", group("", command, ""), false},
		{"SessionEnd", group("", command, `,"timeout":3`), false}, // all that Codex gives
	}
}

func codex() *Harness {
	return &Harness{
		Name: "codex", Program: "codex",
		files: func(p Place) []file {
			home, skills, root := p.variable("CODEX_HOME", filepath.Join(p.Home, ".codex")), "", p.Ledger
			skills = filepath.Join(home, "skills")
			if p.Project != "" { // which is shared, so that no path of this machine goes into it
				home, skills, root = filepath.Join(p.Project, ".codex"), filepath.Join(p.Project, ".agents", "skills"), ""
			}
			return []file{
				p.skill(skills),
				{path: filepath.Join(home, "config.toml"), codex: &codexConfig{root}},
				{path: filepath.Join(home, "hooks.json"), hooks: append(codexHooks(), p.waking("codex", `,"timeout":10`)...), hooksOf: "codex"},
			}
		},
		plugin: codexPlugin,
		enabled: func(p Place) bool {
			text, err := os.ReadFile(filepath.Join(p.variable("CODEX_HOME", filepath.Join(p.Home, ".codex")), "config.toml"))
			if err != nil {
				return false
			}
			d, err := readTOML(text)
			return err == nil && d.value("plugins", "decklog@decklog", "enabled") == true
		},
		next: func(p Place) []string {
			next := []string{"approve the hooks: start codex, type /hooks, look at each that runs decklog-hook, and trust it; until then Codex passes over them without a word"}
			if p.Project != "" {
				next = append(next, "whoever works here must trust the folder, and needs the ledger's folder among sandbox_workspace_write.writable_roots in the user's own config.toml")
			}
			return next
		},
		pluginNext: func(folder string) []string {
			return []string{
				"codex plugin marketplace add " + folder + ", then codex plugin add decklog@decklog",
				"approve its hooks: start codex, type /hooks, and trust each that runs decklog-hook",
				"add the ledger's folder to sandbox_workspace_write.writable_roots in config.toml, or tools in the sandbox cannot send by the command line",
			}
		},
	}
}

func geminiHooks() []hookEntry {
	// A command that is not found would block each tool, and hold the end of each
	// turn, by its exit code of 127.
	const command, name = hookProgram + " gemini || exit 0", `,"name":"decklog"`
	return []hookEntry{
		{"SessionStart", group("", command, name), false},
		{"BeforeAgent", group("", command, name), false},
		{"BeforeTool", group("mcp_decklog_.*|invoke_agent", command, name), false}, // and a subagent's beginning, which looks like nothing else
		{"AfterTool", group("*", command, name), false},
		{"AfterAgent", group("", command, name), false},
		{"SessionEnd", group("", command, name), false},
	}
}

func gemini() *Harness {
	return &Harness{
		Name: "gemini", Program: "gemini",
		files: func(p Place) []file {
			home := filepath.Join(p.variable("GEMINI_CLI_HOME", p.Home), ".gemini")
			if p.Project != "" {
				home = filepath.Join(p.Project, ".gemini")
			}
			return []file{
				p.skill(home, "skills"),
				{path: filepath.Join(home, "settings.json"), servers: &server{"mcpServers", geminiServer}, hooks: geminiHooks(), hooksOf: "gemini"},
			}
		},
		plugin: geminiExtension,
		enabled: func(p Place) bool {
			info, err := os.Stat(filepath.Join(p.variable("GEMINI_CLI_HOME", p.Home), ".gemini", "extensions", "decklog"))
			return err == nil && info.IsDir()
		},
		next: func(p Place) []string {
			next := []string{"trust the folders that you work in (/permissions in gemini): in others it runs no MCP server"}
			if p.Project != "" {
				next = append(next, "whoever works here is warned by Gemini CLI of the project's hooks, and decides")
			}
			return append(next, "Gemini CLI asks before it runs decklog's tools, and before it reads the skill")
		},
		pluginNext: func(folder string) []string {
			return []string{"gemini extensions link " + folder + ", and confirm what it asks"}
		},
	}
}

func opencode() *Harness {
	return &Harness{
		Name: "opencode", Program: "opencode",
		files: func(p Place) []file {
			folder := filepath.Join(p.variable("XDG_CONFIG_HOME", filepath.Join(p.Home, ".config")), "opencode")
			config, parts := folder, folder
			if p.Project != "" {
				config, parts = p.Project, filepath.Join(p.Project, ".opencode")
			}
			wake := file{path: filepath.Join(parts, "plugin", "decklog-wake.js"), own: true, whole: p.OpencodeWake, wanted: p.Wake}
			return []file{
				p.skill(parts, "skill"),
				{path: filepath.Join(config, "opencode.json"), servers: &server{"mcp", `{"type":"local","command":["decklog","mcp"],"enabled":true}`}},
				{path: filepath.Join(parts, "plugin", "decklog.js"), own: true, whole: p.OpencodePlugin, wanted: true},
				wake,
			}
		},
		next: func(Place) []string {
			return []string{"restart opencode: it reads its plugins at its start"}
		},
	}
}

func cursor() *Harness {
	const command = hookProgram + " cursor"
	entry := func(event string) hookEntry {
		return hookEntry{event: event, raw: `{"command":` + quote(command) + `}`}
	}
	return &Harness{
		Name: "cursor", Program: "cursor-agent", Experimental: true,
		files: func(p Place) []file {
			home := filepath.Join(p.Home, ".cursor")
			if p.Project != "" {
				home = filepath.Join(p.Project, ".cursor")
			}
			return []file{
				p.skill(home, "skills"),
				{path: filepath.Join(home, "mcp.json"), servers: &server{"mcpServers", plainServer}},
				{
					path: filepath.Join(home, "hooks.json"), version: true, hooksOf: "cursor",
					hooks: []hookEntry{entry("sessionStart"), entry("beforeSubmitPrompt"), entry("postToolUse"), entry("stop"), entry("sessionEnd")},
				},
			}
		},
		next: func(Place) []string {
			return []string{"Cursor is experimental: what decklog does here is after its documents, and was not tried on the real program"}
		},
	}
}

// CanWake says whether idle sessions of the harness can be woken.
func (h *Harness) CanWake() bool {
	return slices.Contains([]string{"claude-code", "codex", "opencode"}, h.Name)
}

// runsWake says whether a command line is that of decklog's listener.
func runsWake(command, harness string) bool {
	words := strings.Fields(command)
	return len(words) > 2 && filepath.Base(words[0]) == "decklog" && words[1] == "wake" && words[2] == harness
}

// IsOurs says whether a command line is one that an installation wrote.
func IsOurs(command, harness string) bool {
	return RunsHook(command, harness) || runsWake(command, harness)
}

// RunsHook says whether a command line is that of decklog's hook for a harness,
// whichever way it was written.
func RunsHook(command, harness string) bool {
	words := strings.Fields(command)
	if len(words) == 0 {
		return false
	}
	program := strings.TrimSuffix(filepath.Base(words[0]), ".exe")
	return program == hookProgram && slices.Contains(words[1:], harness) ||
		program == "decklog" && len(words) > 2 && words[1] == "hook" && words[2] == harness
}
