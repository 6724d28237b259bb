package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// completed are the words that a real bash offers behind a command line.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	script := bashCompletion() + `
COMP_WORDS=(decklog "$@")
COMP_CWORD=$#
_decklog
printf '%s\n' "${COMPREPLY[@]}"
`
	out, err := exec.Command(bash, append([]string{"--norc", "-c", script, "bash"}, words...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("bash: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

func TestBashOffersTheWordsOfTheCommandAtHand(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"threads --state ", "open done"},
		{"inbox --state ", "queued held leased delivered read expired undelivered deleted"},
		{"wait --for ", "reply final any"},
		{"send --intent in", "inform"},
		{"token --scope ", "read write"},
		{"top --", "--ledger --once"},
		{"token ", "create list revoke --as --command --expires --for --json --label --ledger --scope"},
		{"help he", "health help"},
	} {
		words := strings.Split(c.line, " ")
		if got := completed(t, words...); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("behind %q it offers %v, not %s", c.line, got, c.want)
		}
	}
}

// A choice of one command is asked for before that of any, in every shell that asks
// in order.
func TestAChoiceOfOneCommandStandsBeforeThatOfAny(t *testing.T) {
	for name := range choices {
		_, flag, of := strings.Cut(name, " ")
		if !of || choices[flag] == "" {
			continue
		}
		for shell, script := range map[string]string{"bash": bashCompletion(), "zsh": zshCompletion()} {
			if own, any := strings.Index(script, afterFlag(name)+")"), strings.Index(script, afterFlag(flag)+")"); own < 0 || any < own {
				t.Errorf("%s asks for %q at %d, and for any --%s at %d", shell, name, own, flag, any)
			}
		}
	}
}
