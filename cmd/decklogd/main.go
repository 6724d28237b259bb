// Command decklogd holds what only long-running doors and the network need, so
// that the short commands of decklog need not carry it. It is run by decklog.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"decklog/internal/classifier"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 3 || os.Args[1] != "classify" {
		fmt.Fprintln(os.Stderr, "decklogd: it is run by decklog\nUsage: decklogd classify URL < QUESTION")
		os.Exit(2)
	}
	if err := classify(ctx, os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "decklogd classify:", err)
		os.Exit(1)
	}
}

// classify posts the question to an address and prints the answer. An address
// that sends its caller elsewhere is no answer: the question holds other
// people's words, and goes to the one place that the policy names.
func classify(ctx context.Context, url string, question io.Reader, answer io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, question)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/plain")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the classifier answered %s", response.Status)
	}
	_, err = io.Copy(answer, io.LimitReader(response.Body, classifier.AnswerBytesMax+1))
	return err
}
