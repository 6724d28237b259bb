// Package notify hands what waits for a person to a program that tells them: one
// of their own, or the notification of their desktop. It knows nothing of what
// waits, and runs no shell.
package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// RunMax is how long such a program may take.
const RunMax = 10 * time.Second

// Run gives a document to a program, as it is written, on its standard input;
// what it prints goes to out.
func Run(ctx context.Context, words []string, document []byte, out io.Writer) error {
	if len(words) == 0 {
		return errors.New("no program is named")
	}
	return run(ctx, words, document, out)
}

// Desktop shows a title and a text where there is a program for it; false when
// there is none. Both are for texts of decklog's own: what somebody else wrote
// might be read as markup.
func Desktop(ctx context.Context, title, text string, out io.Writer) (shown bool, err error) {
	for _, words := range [][]string{
		{"notify-send", "--app-name=decklog", title, text},
		{"osascript", "-e", fmt.Sprintf("display notification %q with title %q", text, title)},
	} {
		if _, err := exec.LookPath(words[0]); err == nil {
			return true, run(ctx, words, nil, out)
		}
	}
	return false, nil
}

func run(ctx context.Context, words []string, document []byte, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, RunMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(document), out, out
	cmd.WaitDelay = 100 * time.Millisecond // for what it started and left behind
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s took longer than %s", words[0], RunMax)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return fmt.Errorf("run %s: %w", words[0], err)
	}
	return nil
}
