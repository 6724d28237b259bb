// Package classifier asks the program that the policy names whether a person's
// mention of a seat moves a thread. It knows nothing of threads: a question goes
// in as JSON, one word comes out. Whatever else comes out, or does not, is no
// answer.
package classifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"decklog/events"
)

// AnswerBytesMax bounds what is read of an answer: one word and a line's end.
const AnswerBytesMax = 64

// Daemon is the program that asks a classifier behind an address, so that short
// commands need not hold what HTTP needs.
const Daemon = "decklogd"

// Ask puts a question to the classifier and gives its word: `route` or `stay`.
// The error says why there is none: no classifier, one that fails, takes longer
// than its time, or says anything else. A classifier is run as it is written,
// never by a shell; what it prints to standard error is not looked at.
func Ask(ctx context.Context, routing *events.Routing, question []byte) (events.Verdict, error) {
	if routing == nil || len(routing.Classifier) == 0 {
		return "", errors.New("the policy names no classifier")
	}
	ctx, cancel := context.WithTimeout(ctx, routing.Timeout.Std())
	defer cancel()
	words := routing.Classifier
	if strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://") {
		words = []string{Beside(Daemon), "classify", words[0]}
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = bytes.NewReader(question)
	var said limited
	cmd.Stdout = &said
	together(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // for what it started and left behind
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the classifier took longer than %s", routing.Timeout.Std())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("the classifier failed: %w", err)
	}
	return Word(said.text)
}

// Word reads an answer: exactly one of the words that answer, in any case, with
// or without a line's end.
func Word(answer []byte) (events.Verdict, error) {
	switch v := events.Verdict(strings.ToLower(strings.TrimSpace(string(answer)))); v {
	case events.VerdictRoute, events.VerdictStay:
		return v, nil
	case events.VerdictUnavailable, "":
		return "", errors.New("the classifier gave no answer")
	}
	return "", errors.New("the classifier said something else than route or stay")
}

// limited takes an answer and no more: who says more is cut off, and so ends.
type limited struct{ text []byte }

var errTooMuch = errors.New("it says more than one word")

func (l *limited) Write(p []byte) (int, error) {
	if len(l.text)+len(p) > AnswerBytesMax {
		return 0, errTooMuch
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

// Beside finds another program of decklog: in this one's folder, else on PATH.
func Beside(name string) string {
	if self, err := os.Executable(); err == nil {
		if file := filepath.Join(filepath.Dir(self), name); executable(file) {
			return file
		}
	}
	return name
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}
