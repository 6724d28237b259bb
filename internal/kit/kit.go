// Package kit holds the files that decklog brings to a harness: the skill that
// tells an agent how to work with others, and the plugin through which opencode
// runs decklog's hook. Both are written out by `decklog install`.
package kit

import _ "embed"

var (
	//go:embed SKILL.md
	skill []byte
	//go:embed decklog.js
	opencodePlugin []byte
	//go:embed decklog-wake.js
	opencodeWake []byte
)

// Skill is the skill's file, which is called SKILL.md in a folder decklog.
func Skill() []byte { return skill }

// OpencodePlugin is the plugin's file.
func OpencodePlugin() []byte { return opencodePlugin }

// OpencodeWake is the file of the plugin that wakes idle sessions, for who asked
// for it.
func OpencodeWake() []byte { return opencodeWake }
