package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"decklog/commands"
	"decklog/internal/notes"
	"decklog/internal/ops"
)

// WakeCode is the exit code by which a listener starts a turn of its idle session.
const WakeCode = 2

// WakeMax is how long a listener listens, unless it is told otherwise: a little
// less than the time that its harness gives it (86,400 s).
const WakeMax = 24*time.Hour - 5*time.Minute

// Wakes are the harnesses whose idle sessions can be woken.
func Wakes() []string { return []string{"claude-code", "codex", "opencode"} }

// Wake listens for the mail of one session, which its user asked for by
// installing it, and starts a turn of the session while that is idle. It delivers
// nothing: it says how much waits, and the hook of the turn that then begins
// brings it.
type Wake struct {
	*Run
	Session string // whose mail it is; empty: the one that the harness's input names
	For     time.Duration
	// Unattended listens for a session without a person too. Claude Code, run for
	// one prompt, does not end while a hook of its runs.
	Unattended bool
	Wakes      *notes.Notes // keeps who listens, and what the session was told of
	// Queue hands a line to a harness that has a program for it; nil: the line goes
	// to standard error, and the exit code says that it is there.
	Queue func(ctx context.Context, session, line string) error
	// Detach goes on in a process of its own; nil: the harness lets this one stay.
	Detach func(session string, span time.Duration) error
}

// Do listens, and gives the exit code: WakeCode after one line on standard error,
// which starts a turn, else 0. Whatever goes wrong starts none.
func (w *Wake) Do() (code int) {
	if strings.EqualFold(w.Environ("DECKLOG"), "off") {
		return 0
	}
	v := &visit{Run: w.Run}
	defer func() {
		if p := recover(); p != nil { // its own exit code is WakeCode
			v.tell(fault{"panic", fmt.Sprint(p)})
			code = 0
		}
	}()
	v.now = w.Now()
	line, err := w.listen(v)
	if err != nil {
		v.tell(w.faultOf(err))
		return 0
	}
	if line == "" {
		return 0
	}
	if _, err := fmt.Fprintln(w.Stderr, line); err != nil {
		return 0
	}
	return WakeCode
}

// listen gives the line that starts a turn; empty: there is no reason for one.
func (w *Wake) listen(v *visit) (line string, err error) {
	switch ours, err := w.hear(v); {
	case err != nil:
		return "", err
	case !ours || v.Bells.Ignores(v.in.Session, v.in.Cwd) || !w.attended():
		return "", nil
	case w.Detach != nil && w.Session == "":
		return "", w.Detach(v.in.Session, w.For)
	}
	listener, err := w.Wakes.Listen(v.session())
	if err != nil {
		return "", fault{"notes", err.Error()}
	}
	if listener == nil {
		return "", nil // another listens
	}
	defer listener.Close()
	stirred, end := w.Wakes.Watch(v.session())
	defer end()
	if v.ops, v.notes, err = v.Open(); err != nil {
		return "", err
	}
	defer v.ops.Close()
	ctx, cancel := context.WithTimeout(context.Background(), w.For)
	defer cancel()
	for {
		post, err := v.ops.Wake(ctx, ops.WakeRequest{Session: v.session(), Told: listener.Told(), Stirred: stirred})
		if err != nil {
			return "", err
		}
		if post.Newest == 0 {
			if ctx.Err() == nil {
				_ = listener.Gone() // else the file is left, and of no use
			}
			return "", nil
		}
		if err := listener.Tell(post.Newest); err != nil {
			return "", fault{"notes", err.Error()}
		}
		if w.Queue == nil {
			return wakeLine(post), nil
		}
		if err := w.Queue(ctx, v.in.Session, wakeLine(post)); err != nil {
			v.tell(fault{"wake", err.Error()}) // what comes later is told of again
		}
	}
}

// hear finds out whose mail it is. Only a session's start and the end of its turn
// begin a listening.
func (w *Wake) hear(v *visit) (ours bool, err error) {
	if !slices.Contains(Wakes(), w.Run.Harness) {
		return false, fault{"cannot_wake", fmt.Sprintf("no idle session of %q can be woken; of %s some can", w.Run.Harness, strings.Join(Wakes(), ", "))}
	}
	if w.Session == "" {
		err = v.hear()
		return v.moment == start || v.moment == stop, err
	}
	v.in.Session = w.Session
	if what := commands.CheckSessionID(w.Session); what != "" {
		return false, fault{"bad_input", what}
	}
	return true, nil
}

// attended says whether somebody sits before the session, as far as its harness says.
func (w *Wake) attended() bool {
	return w.Unattended || w.Session != "" || w.Environ("CLAUDE_CODE_SESSION_ATTENDED") != "0"
}

// wakeLine says what waits, and nothing of what anybody wrote. To some harnesses
// it is their user's own word, so it says whose it is.
func wakeLine(p commands.Post) string {
	waits := "1 message waits"
	switch {
	case p.Waits >= commands.ItemsMax:
		waits = fmt.Sprintf("at least %d messages wait", commands.ItemsMax)
	case p.Waits > 1:
		waits = fmt.Sprintf("%d messages wait", p.Waits)
	}
	return "[decklog] " + waits + " for this session; decklog's hook brings them with this turn. This line is decklog's notice, not your user's request."
}
