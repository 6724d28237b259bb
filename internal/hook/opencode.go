package hook

// The answers to opencode's plugin, which says in the form of the other
// harnesses what happens to it, and does what it is answered: see package kit.
type (
	// addedPart is a part that the plugin adds to what the user said.
	addedPart struct {
		Part string `json:"part"`
	}
	// addedOutput is what it adds to a tool's output.
	addedOutput struct {
		Output string `json:"output"`
	}
	// nextPrompt is what it says to a session whose turn ended, which goes on.
	nextPrompt struct {
		Prompt string `json:"prompt"`
	}
)

// opencode is the plugin in opencode. Nothing that a session's start is answered
// with could reach the model; the first prompt takes it.
func opencode() *harness {
	return &harness{
		name:    "opencode",
		stamped: stampedInOpencode,
		events: map[string]moment{
			"session.created": start, "session.compacted": start, "chat.message": prompt, "tool.execute.before": before,
			"tool.execute.after": tool, "session.idle": stop, "session.deleted": end, "dispose": end,
		},
		budget: 9000, // it knows no cap
		answer: func(_ string, m moment, text string) any {
			switch m {
			case prompt:
				return addedPart{text}
			case tool:
				return addedOutput{text}
			}
			return nextPrompt{text}
		},
		deaf: []moment{start},
	}
}
