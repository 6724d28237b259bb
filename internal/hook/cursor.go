package hook

type (
	// cursorContext is the form in which Cursor takes a text after a tool.
	cursorContext struct {
		AdditionalContext string `json:"additional_context"`
	}
	// followup is what it takes for its user's next message after a turn.
	followup struct {
		FollowupMessage string `json:"followup_message"`
	}
)

// cursor is Cursor, and experimental: it was never run here, and what is known
// of it is what its documents and others say. By these a text arrives after a
// tool and at the end of a turn. At a session's start it does in some versions
// and not in others, and at a prompt in a field that no document has; so nothing
// is delivered there. How to tell a subagent is not known.
func cursor() *harness {
	return &harness{
		name: "cursor",
		events: names(map[string]moment{
			"sessionStart": start, "beforeSubmitPrompt": prompt, "preToolUse": before, "postToolUse": tool, "stop": stop, "sessionEnd": end,
		}, `postToolUseFailure beforeShellExecution afterShellExecution beforeMCPExecution afterMCPExecution beforeReadFile
			afterFileEdit afterAgentResponse afterAgentThought subagentStart`),
		budget: 9000, // of 10,000 characters
		answer: func(_ string, m moment, text string) any {
			if m == stop {
				return followup{text}
			}
			return cursorContext{text}
		},
		deaf:  []moment{start, prompt},
		names: "conversation_id",
	}
}
