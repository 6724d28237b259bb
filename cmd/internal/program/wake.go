package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"decklog/cmd/internal/surroundings"
	"decklog/internal/cli"
	"decklog/internal/hook"
	"decklog/internal/notes"
)

// Wake listens for the mail of one idle session, and gives the exit code.
func Wake(env *cli.Env, q cli.WakeRequest) int {
	ignoreClosedPipes()
	w := &hook.Wake{
		Run: NewHook(env, q.Harness), Session: q.Session, For: q.For, Unattended: q.Unattended,
		Wakes: notes.Open(surroundings.Folder(env.Environ("DECKLOG_LEDGER"))),
	}
	if q.Harness == "codex" {
		w.Queue = queueInCodex
		w.Detach = func(session string, span time.Duration) error { return detach(env, session, span) }
	}
	return w.Do()
}

// detach goes on listening in a process of its own. Codex lets no hook stay when
// its event is over.
func detach(env *cli.Env, session string, span time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "wake", "codex", "--session", session, "--for", span.String())
	if ledger := env.Environ("DECKLOG_LEDGER"); ledger != "" {
		cmd.Env = append(os.Environ(), "DECKLOG_LEDGER="+ledger)
	}
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("listen in a process of its own: %w", err)
	}
	return cmd.Process.Release()
}

// queueMax is how long Codex may take to put a line into its queue.
const queueMax = 30 * time.Second

// queueInCodex gives a line to Codex, which says it to the idle session as if its
// user had.
func queueInCodex(ctx context.Context, session, line string) error {
	ctx, cancel := context.WithTimeout(ctx, queueMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, "codex", "queue", "--thread", session, "--message", line)
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("codex is not on PATH, so nobody can give its queue a line")
	}
	last := strings.TrimSpace(string(said))
	if i := strings.LastIndexByte(last, '\n'); i >= 0 {
		last = last[i+1:]
	}
	return fmt.Errorf("codex queue: %w: %.200s", err, last)
}
