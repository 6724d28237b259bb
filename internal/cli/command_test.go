package cli

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"decklog/internal/ops"
)

// The line that leads to the next page means the same to a shell as the one before.
func TestTheNextPageIsAskedForAsThisOneWas(t *testing.T) {
	args := []string{"--state", "open", "--text", "it's $HOME; true", "--with", "@ana", "--waiting", "--limit=2"}
	names := []string{"state", "seat", "with", "text", "waiting", "limit", "at"}
	first := threads().begin(&Env{})
	if err := first.parse(args); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+first.again(names...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	next := threads().begin(&Env{})
	if err := next.parse(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := next.given(names...), first.given(names...); !slices.Equal(got, want) || len(want) != 5 {
		t.Errorf("it was asked for with %q, and the next page with %q", want, got)
	}
	for line, want := range map[string]string{"--text true": "--text true ", "--waiting=false": "--waiting=false "} {
		r := threads().begin(&Env{})
		if err := r.parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		if got := r.again(names...); got != want {
			t.Errorf("%s is %q again", line, got)
		}
	}
}

// What is looked up before the line is read is what is found when it is.
func TestTheLedgerOfALineIsTheOneThatItsFlagsName(t *testing.T) {
	for _, line := range []string{
		"peers", "peers --ledger unix:/a", "--ledger=unix:/a peers", "--ledger sqlite:/a peers --ledger unix:/b", "peers --ledger unix:/a -ledger=sqlite:/b",
		"peers --ledger=", "send --to x -- --ledger unix:/a",
	} {
		environ := func(name string) string { return map[string]string{"DECKLOG_LEDGER": "unix:/environ"}[name] }
		args := strings.Fields(line)
		meant := ""
		Main(&Env{Args: args, Environ: environ, Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Open: func(url string, _ *Env) (ops.Operations, Beside, error) {
			meant = url
			return nil, Beside{}, errors.New("it is enough to know which")
		}})
		if got := LedgerOf(args, environ); got != meant || meant == "" {
			t.Errorf("%s: %q is looked up, and %q opened", line, got, meant)
		}
	}
}
