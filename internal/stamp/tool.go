package stamp

import "strings"

// Tools are decklog's tools, as its MCP server names them.
func Tools() []string {
	return []string{
		"decklog_send", "decklog_edit", "decklog_inbox", "decklog_thread", "decklog_wait", "decklog_turn", "decklog_peers",
		"decklog_driver", "decklog_handoff", "decklog_review", "decklog_owed", "decklog_ack",
	}
}

// Tool finds decklog's tool behind the name by which a harness calls it; empty
// when the tool is somebody else's. The name holds the server's, which is
// decklog, perhaps with the name of the plugin that brings it in front:
//
//	mcp__decklog__decklog_send                 Claude Code, Codex
//	mcp__plugin_decklog_decklog__decklog_send  Claude Code, of a plugin
//	mcp_decklog_decklog_send                   Gemini CLI
//	decklog_decklog_send                       opencode
//
// Another server that has a tool of such a name gets no stamp: it could call
// decklog with it.
func Tool(called string) string {
	for _, tool := range Tools() {
		server, is := strings.CutSuffix(called, "_"+tool)
		if !is {
			continue
		}
		server = strings.TrimSuffix(server, "_")
		server = strings.TrimLeft(strings.TrimPrefix(server, "mcp_"), "_")
		if server == ourServer || strings.HasPrefix(server, "plugin_") && strings.HasSuffix(server, "_"+ourServer) {
			return tool
		}
	}
	return ""
}

// ourServer is the name under which decklog's server is installed.
const ourServer = "decklog"
