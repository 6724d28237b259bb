package cli

import (
	"flag"
	"strings"
	"time"

	hooks "decklog/internal/hook"
)

// WakeRequest says for whom to listen, and how long.
type WakeRequest struct {
	Harness string
	Session string // empty: the harness says it on standard input
	For     time.Duration
	// Unattended listens for a session without a person too.
	Unattended bool
}

func wake() *Command {
	return &Command{
		Name: "wake", Group: "delivery", Usage: strings.Join(hooks.Wakes(), "|") + " [--session ID] [--for 23h55m] [--unattended]",
		Short: "listen for an idle session's mail, and start its turn (opt-in)",
		Long: `Waits until a request, an answer to the session's own request or the offer of a
hand-off waits for a session that is idle, and then starts a turn of it; the session's
own hook brings the mail with that turn. The line that starts it says how many messages
wait and nothing of what is in them. An inform starts no turn, nothing does twice, and
while the session is in a turn its hooks bring what comes.

Nothing runs this by itself. decklog install HARNESS --wake puts it where the harness
starts it: for Claude Code as a hook with asyncRewake at SessionStart and Stop, which
wakes the session when it exits with 2; for Codex as a hook at the same events, which
goes on in the background and gives the line to codex queue; for opencode as a plugin.
One listener listens for a session, and a second one ends at once. A session of Claude
Code that nobody sits before (claude -p) is not listened for, since it would not end
while its hook runs. Whatever is wrong, it
exits 0 and starts no turn; the reason is in hook-faults.jsonl beside the ledger.`,
		Examples: []string{
			`decklog wake claude-code --session 5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90 --for 10m    # by hand: exits 2 when there is a reason`,
		},
		Words: hooks.Wakes(),
		// To a harness the exit code of a bad command line would say: start a turn.
		Harmless: true,
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("session", "", "the session's full `ID` (default: the harness says it on standard input)")
			r.text("for", hooks.WakeMax.String(), "listen for so `LONG`")
			r.toggle("unattended", "listen also for a session of Claude Code without a person; until this ends, claude -p does not")
		},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the harness: "+strings.Join(hooks.Wakes(), ", ")); err != nil {
				return err
			}
			span, err := time.ParseDuration(r.str("for"))
			if err != nil || span <= 0 {
				return misused("--for %q is no span of time, such as 10m", r.str("for"))
			}
			r.overrideLedger()
			r.code = r.Wake(r.Env, WakeRequest{Harness: r.args[0], Session: r.str("session"), For: span, Unattended: r.on("unattended")})
			return nil
		},
	}
}

// overrideLedger lets a program that looks for its ledger by itself find the one
// that was named.
func (r *run) overrideLedger() {
	if r.url == "" {
		return
	}
	environ := r.Environ
	r.Environ = func(name string) string {
		if name == "DECKLOG_LEDGER" {
			return r.url
		}
		return environ(name)
	}
}
