package cli

import (
	"bytes"
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"

	"decklog/events"
	"decklog/projections"
)

// general are the flags that every command has, of which its usage need not speak.
var general = []string{"ledger", "json", "as", "command", "body-file"}

func TestEveryUsageNamesEveryFlagOfItsCommand(t *testing.T) {
	for _, c := range All() {
		c.eachFlag(func(f *flag.Flag) {
			if !slices.Contains(general, f.Name) && !strings.Contains(c.Usage, "--"+f.Name) {
				t.Errorf("the usage of %s says nothing of --%s: %s", c.Name, f.Name, c.Usage)
			}
		})
	}
}

func helped(args ...string) (code int, said string) {
	var out, complaint bytes.Buffer
	code = Main(&Env{Args: args, Stdout: &out, Stderr: &complaint, Environ: func(string) string { return "" }})
	return code, out.String() + complaint.String()
}

func TestHelpOffersNoFlagThatIsRefused(t *testing.T) {
	for _, args := range [][]string{{"top", "--help"}, {"help", "top"}} {
		code, said := helped(args...)
		if code != ExitDone || strings.Contains(said, "  --json") || !strings.Contains(said, "  --once") || !strings.Contains(said, "  --ledger") {
			t.Errorf("%v gave %d: %s", args, code, said)
		}
	}
	if code, said := helped("top", "--json"); code != ExitUsage || !strings.Contains(said, "--json is for the views") {
		t.Errorf("top --json gave %d: %s", code, said)
	}
	for name, script := range map[string]string{"bash": bashCompletion(), "zsh": zshCompletion()} {
		for line := range strings.Lines(script) {
			if strings.HasPrefix(strings.TrimSpace(line), "top)") && strings.Contains(line, "--json") {
				t.Errorf("%s completes top with --json: %s", name, line)
			}
		}
	}
}

func TestHelpHasAHelp(t *testing.T) {
	for _, args := range [][]string{{"help", "help"}, {"help", "--help"}, {"help", "-h"}} {
		if code, said := helped(args...); code != ExitDone || !strings.Contains(said, "Usage: decklog help [COMMAND]") || !strings.Contains(said, "  decklog help send") {
			t.Errorf("%v gave %d: %s", args, code, said)
		}
	}
	// Whatever completion offers behind help has one.
	for _, name := range commandNames() {
		if code, said := helped("help", name); code != ExitDone {
			t.Errorf("help %s gave %d: %s", name, code, said)
		}
	}
}

func TestTheHelpOfTokenSaysForWhomOneSpeaks(t *testing.T) {
	_, said := helped("help", "token")
	said = strings.Join(strings.Fields(said), " ")
	for _, want := range []string{
		"A person's token also speaks for that person's sessions.", "A session's token ends with its session.",
		"A seat's token acts as the session that occupies the seat.", "Who can read the file serve.token in the ledger's folder needs no other",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it lacks %q", want)
		}
	}
}

// What is said of every command is true of each, but for those that are named.
func TestTheOverviewNamesTheCommandsThatLackAFlagOfAll(t *testing.T) {
	var b strings.Builder
	overview(&b)
	_, says, _ := strings.Cut(b.String(), "Every command has --help. ")
	lacking := map[string][]string{}
	for _, m := range regexp.MustCompile(`[Aa]ll but ([^.;]*?) have --([a-z]+)`).FindAllStringSubmatch(strings.ReplaceAll(says, "\n", " "), -1) {
		names, _, _ := strings.Cut(m[1], ", which")
		lacking[m[2]] = strings.Split(strings.ReplaceAll(names, " and ", ", "), ", ")
	}
	for _, c := range All() {
		if c.Hidden {
			continue
		}
		for _, flag := range []string{"json", "ledger", "as"} {
			named := slices.Contains(lacking[flag], c.Name)
			if lacks := slices.Contains(c.Without, flag); lacks != named {
				t.Errorf("%s lacks --%s: %t; the overview says so: %t", c.Name, flag, lacks, named)
			}
		}
	}
}

// The evidence of a session is of a machine, and of some age, whether a process is
// recorded or not.
func TestThePeersTextNamesTheMachineAndTheAgeOfTheEvidence(t *testing.T) {
	age, left := int64(40_500), events.Time(1)
	for _, c := range []struct {
		p    projections.Peer
		says string
	}{
		{projections.Peer{Device: "deck-b", Evidence: "joined, no process recorded", EvidenceAgeMS: &age}, "on deck-b: joined, no process recorded; seen 40s ago"},
		{projections.Peer{Device: "deck-b", Evidence: "left: ended", EvidenceAgeMS: &age, Left: &left}, "on deck-b: left: ended 40s ago"},
		{projections.Peer{Evidence: "its process runs"}, "its process runs"},
	} {
		if got := evidence(c.p); got != c.says {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
}
