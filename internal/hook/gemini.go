package hook

// gemini is Gemini CLI. It wraps a text in <hook_context> and escapes the angle
// brackets in it; the reason that holds the end of a turn becomes a prompt as it
// is, and has none either.
//
// At its start it puts a text before its user's prompt, as if the user had
// written it: then a slash command is none any more, and each @path is read from
// the disk; and after /clear it drops the text. BeforeAgent follows at the first
// turn and takes one as it should.
func gemini() *harness {
	return &harness{
		name:    "gemini",
		stamped: stampedInGemini,
		events: names(map[string]moment{
			"SessionStart": start, "BeforeAgent": prompt, "BeforeTool": before, "AfterTool": tool, "AfterAgent": stop, "SessionEnd": end,
		}, `BeforeModel AfterModel BeforeToolSelection PreCompress Notification`),
		budget: 9000, // it knows no cap, and a model no more than another
		answer: func(event string, m moment, text string) any {
			if m == stop {
				return block{"deny", text}
			}
			return hookOutput{specific{event, text}}
		},
		deaf:      []moment{start},
		escapes:   []moment{prompt, tool, stop},
		delegates: "invoke_agent",
	}
}
