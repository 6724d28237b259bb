package install

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
)

const describes = "Ask other coding agents for work, get their answers, and see who owes what"

// manifest writes a document of a plugin as people would.
func manifest(v any) []byte {
	b, _ := json.MarshalIndent(v, "", "  ")
	return append(b, '\n')
}

type named struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	License     string `json:"license,omitempty"`
}

func (p Place) named() named {
	version := strings.TrimPrefix(p.Version, "v")
	if !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(version) {
		version = "0.0.0" // a build between releases
	}
	return named{"decklog", version, describes, "Apache-2.0"}
}

// hooksFile is the file of the hooks of a plugin.
func hooksFile(all []hookEntry, description string) []byte {
	type document struct {
		Description string                       `json:"description,omitempty"`
		Hooks       map[string][]json.RawMessage `json:"hooks"`
	}
	d := document{description, map[string][]json.RawMessage{}}
	for _, h := range all {
		d.Hooks[h.event] = append(d.Hooks[h.event], json.RawMessage(h.raw))
	}
	return manifest(d)
}

func serversFile(raw string) []byte {
	return manifest(map[string]any{"mcpServers": map[string]any{"decklog": json.RawMessage(raw)}})
}

func (p Place) own(content []byte, path ...string) file {
	return file{path: filepath.Join(append([]string{p.Plugin}, path...)...), own: true, whole: content, wanted: true}
}

// claudePlugin is a plugin, and a marketplace that holds it.
func claudePlugin(p Place) []file {
	type owner struct {
		Name string `json:"name"`
	}
	type source struct {
		Name        string `json:"name"`
		Source      string `json:"source"`
		Description string `json:"description"`
	}
	market := struct {
		Name    string   `json:"name"`
		Owner   owner    `json:"owner"`
		Plugins []source `json:"plugins"`
	}{"decklog", owner{"decklog"}, []source{{"decklog", "./", describes}}}
	return []file{
		p.own(manifest(p.named()), ".claude-plugin", "plugin.json"),
		p.own(manifest(market), ".claude-plugin", "marketplace.json"),
		// Of a plugin's server Claude Code names the tools otherwise.
		p.own(hooksFile(claudeHooks("mcp__plugin_decklog_decklog__.*"), describes), "hooks", "hooks.json"),
		p.own(serversFile(stdioServer), ".mcp.json"),
		p.own(p.Skill, "skills", "decklog", "SKILL.md"),
	}
}

// codexPlugin is a marketplace with a plugin in a folder below it, where Codex
// wants it.
func codexPlugin(p Place) []file {
	type shown struct {
		DisplayName string `json:"displayName"`
	}
	plugin := struct {
		named
		Skills     string `json:"skills"`
		MCPServers string `json:"mcpServers"`
		Hooks      string `json:"hooks"`
		Interface  shown  `json:"interface"`
	}{p.named(), "./skills/", "./.mcp.json", "./hooks/hooks.json", shown{"decklog"}}
	market := map[string]any{
		"name": "decklog", "interface": shown{"decklog"},
		"plugins": []any{map[string]any{
			"name": "decklog", "source": map[string]any{"source": "local", "path": "./plugins/decklog"},
			"policy": map[string]any{"installation": "AVAILABLE", "authentication": "ON_INSTALL"}, "category": "Productivity",
		}},
	}
	at := func(content []byte, path ...string) file {
		return p.own(content, append([]string{"plugins", "decklog"}, path...)...)
	}
	return []file{
		p.own(manifest(market), ".agents", "plugins", "marketplace.json"),
		at(manifest(plugin), ".codex-plugin", "plugin.json"),
		at(hooksFile(codexHooks(), ""), "hooks", "hooks.json"),
		at(serversFile(codexPluginServer), ".mcp.json"),
		at(p.Skill, "skills", "decklog", "SKILL.md"),
	}
}

// geminiExtension is an extension of Gemini CLI.
func geminiExtension(p Place) []file {
	extension := struct {
		Name        string                     `json:"name"`
		Version     string                     `json:"version"`
		Description string                     `json:"description"`
		MCPServers  map[string]json.RawMessage `json:"mcpServers"`
	}{"decklog", p.named().Version, describes, map[string]json.RawMessage{"decklog": json.RawMessage(geminiServer)}}
	return []file{
		p.own(manifest(extension), "gemini-extension.json"),
		p.own(hooksFile(geminiHooks(), ""), "hooks", "hooks.json"),
		p.own(p.Skill, "skills", "decklog", "SKILL.md"),
	}
}
