// Command decklogd holds what only long-running doors and the network need, so
// that the short commands of decklog need not carry it. It is run by decklog.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"decklog/cmd/internal/surroundings"
	"decklog/internal/classifier"
	"decklog/internal/cli"
	"decklog/internal/failure"
	"decklog/internal/render"
)

// release is the version that a release is built with.
var release = "dev"

const usage = `decklogd: it is run by decklog
Usage: decklogd mcp [--ledger URL] [--as WHO]
       decklogd serve [--ledger URL] [--listen ADDR] [--socket PATH]
       decklogd top [--ledger URL] [--once]
       decklogd engine-check [--json] URL
       decklogd copy [--json] FROM TO
       decklogd cli ARGUMENTS OF DECKLOG
       decklogd classify URL < QUESTION
`

// newEnv is the program's surroundings. Nothing tells there how far long work has
// come: standard error is a log, or behind a picture.
func newEnv() *cli.Env {
	env := surroundings.New(release)
	env.World.Progress = nil
	return env
}

// usageError is a command line that cannot be parsed.
type usageError struct{ error }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "cli" {
		os.Exit(commandLine(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, err := run(ctx, os.Args[1:])
	if err == nil {
		return
	}
	if errors.Is(err, errSaid) {
		os.Exit(1)
	}
	usageFault := errors.As(err, new(usageError))
	f := failure.Of(err)
	switch {
	case usageFault && name == "":
		fmt.Fprintf(os.Stderr, "decklogd: %v\n%s", err, usage)
	case usageFault:
		fmt.Fprint(os.Stderr, render.Terminal(fmt.Sprintf("decklog %s: %v\nSee: decklog help %s\n", name, err, name)))
	case slices.Contains(os.Args, "--json") || slices.Contains(os.Args, "--json=true"):
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"error": f})
	default:
		fmt.Fprint(os.Stderr, render.Terminal(fmt.Sprintf("decklog: %s: %s\nFix: %s\n", f.Code, f.Message, f.Fix)))
	}
	if usageFault {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string) (name string, err error) {
	switch {
	case len(args) == 2 && args[0] == "classify":
		return args[0], classify(ctx, args[1], os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == "mcp":
		return args[0], serveMCP(ctx, args[1:])
	case len(args) > 0 && args[0] == "top":
		return args[0], showTop(ctx, args[1:])
	case len(args) > 0 && args[0] == "serve":
		return args[0], serveLedger(ctx, args[1:])
	case len(args) > 0 && args[0] == "engine-check":
		return args[0], checkEngine(ctx, args[1:])
	case len(args) > 0 && args[0] == "copy":
		return args[0], copyLedger(ctx, args[1:])
	}
	return "", usageError{errors.New("it does nothing by itself")}
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
