package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"decklog/internal/esdbdouble"
)

// TestScripts runs what is specified in testdata/scripts, with the programs
// themselves and a cluster at $CLUSTER, which is another for each script. It has, in
// its second address $ELSEWHERE, a cluster that knows nothing of the first; nobody
// listens at $NOBODY, and $LOCKED wants a user. The commands beside testscript's own:
//
//	decklog ARG...          runs the program, which must exit 0
//	exits N decklog ARG...  the same, with this exit code
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each line of each script")
	}
	programs, err := built()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts", RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			for name, config := range map[string]esdbdouble.Config{
				"CLUSTER": {}, "ELSEWHERE": {}, "NOBODY": {}, "LOCKED": {Users: []esdbdouble.User{{Name: "ops", Password: "secret", Admin: true}}},
			} {
				server, err := esdbdouble.Start(esdbdouble.NewLog(), config)
				if err != nil {
					return err
				}
				e.Setenv(name, server.URL())
				e.Defer(server.Stop)
				if name == "NOBODY" {
					server.Stop()
				}
			}
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, "data"))
			e.Setenv("PATH", programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"decklog": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg {
					ts.Fatalf("say with which code: exits N decklog ARG...")
				}
				exitsWith(ts, 0, args)
			},
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 || args[1] != "decklog" {
					ts.Fatalf("usage: exits N decklog ARG...")
				}
				code, err := strconv.Atoi(args[0])
				ts.Check(err)
				exitsWith(ts, code, args[2:])
			},
		},
	})
}

// exitsWith runs the program, which must exit with this code.
func exitsWith(ts *testscript.TestScript, want int, args []string) {
	var exit *exec.ExitError
	code := 0
	if err := ts.Exec("decklog", args...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("decklog %s exited with %d, not %d", strings.Join(args, " "), code, want)
	}
}
