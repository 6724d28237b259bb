package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"decklog/cmd/internal/program"
	"decklog/cmd/internal/surroundings"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/esdb"
	"decklog/internal/failure"
	"decklog/internal/notes"
	"decklog/internal/ops"
	"decklog/internal/remote"
	"decklog/internal/token"
)

// commandLine is decklog's own command line, for a ledger that is served.
func commandLine(args []string) int {
	env := program.Env(release)
	env.Args, env.Open, env.Views = args, open, viewsOf
	return cli.Main(env)
}

// viewsOf is what this machine has of a ledger in a cluster.
func viewsOf(url string) (file, shown string, err error) {
	address, err := esdb.Parse(url)
	return address.Views, address.Shown(), err
}

// open gives the operations on the ledger at any address.
func open(url string, env *cli.Env) (ops.Operations, cli.Beside, error) {
	if !cli.Served(url) {
		return surroundings.Open(url, env)
	}
	folder := surroundings.Folder(url)
	beside := surroundings.Look(env, cli.Beside{Folder: folder, Notes: notes.Open(folder)})
	if folder == "" {
		// No folder of that machine is at hand: what a hook notes for its next run it
		// keeps here, and the server is told what it asks for.
		var err error
		if beside.Notes, err = notesOf(url); err != nil {
			return nil, beside, err
		}
	}
	secret := env.Environ("DECKLOG_TOKEN")
	if secret == "" && folder != "" {
		var err error
		secret, err = token.OfMachine(folder)
		switch {
		case errors.Is(err, token.ErrNoMachine) && missing(url):
			return nil, beside, failure.New("no_server", "start it: decklog serve; or name another ledger with --ledger", fmt.Errorf("reach the ledger at %s: there is no such socket", url))
		case errors.Is(err, token.ErrNoMachine):
			return nil, beside, failure.New("no_token", "set DECKLOG_TOKEN to a token of yours: decklog token create --for WHO", fmt.Errorf("reach the ledger at %s: no token is given, and none lies beside the socket", url))
		case err != nil:
			return nil, beside, err
		}
	}
	desk := remote.New(remote.Config{Server: url, Token: secret, World: env.World, Patience: env.Patience})
	if folder == "" {
		beside.Notes = beside.Notes.Telling(func(s events.SessionID, busy bool) error {
			refused, err := desk.Note(ops.NoteRequest{Session: s, Busy: busy})
			if refused != nil {
				return errors.New(refused.Message)
			}
			return err
		})
	}
	return desk, beside, nil
}

// notesOf are the notes that this machine keeps of a ledger elsewhere.
func notesOf(url string) (*notes.Notes, error) {
	state, err := notes.StateFolder()
	if err != nil {
		return notes.Open(""), err
	}
	sum := sha256.Sum256([]byte(url))
	folder := filepath.Join(state, "served", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return notes.Open(""), fmt.Errorf("keep notes of the ledger at %s: %w", url, err)
	}
	return notes.Open(folder), nil
}

// missing says whether there is no such socket.
func missing(url string) bool {
	_, err := os.Stat(url[len("unix:"):])
	return errors.Is(err, os.ErrNotExist)
}
