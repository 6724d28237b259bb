package commands_test

import (
	"slices"
	"strings"
	"testing"

	"decklog/commands"
)

// The codes are API: a code that goes, or gets another status, breaks whoever
// reads them. What the design names is here with its status.
var statuses = map[commands.Code]int{
	commands.BadRequest: 400, commands.NoCaller: 401, commands.SenderNotLive: 403, commands.UnknownRecipient: 404, commands.AmbiguousRecipient: 409,
	commands.NotFound: 404, commands.NotParticipant: 403, commands.ReplyToDone: 409, commands.KeyReused: 409, commands.Duplicate: 409,
	commands.SessionRate: 429, commands.DeviceRate: 429, commands.PersonRate: 429, commands.ThreadRate: 429, commands.RecipientFull: 409,
	commands.StaleLease: 409, commands.TurnFinal: 409, commands.NotYours: 403, commands.SeatIsTaken: 409, commands.NoSuchSeat: 404, commands.PersonOnly: 403,
	commands.NotDriver: 403, commands.AlreadyDecided: 409, commands.HopLimit: 409, commands.IsPending: 409,
}

func TestEveryCodeHasItsStatusAFixAndAnExampleThatCanBeTyped(t *testing.T) {
	codes := commands.Codes()
	for _, c := range codes {
		if want, listed := statuses[c]; !listed || c.Status() != want {
			t.Errorf("%s has status %d; this table has %d", c, c.Status(), want)
		}
		r := commands.Refuse(c, "for the test")
		if r.Code != c || r.Status != c.Status() || r.Message != "for the test" || strings.TrimSpace(r.Fix) == "" {
			t.Errorf("a refusal of %s is %+v", c, r)
		}
		typed(t, string(c), r.Example)
		for _, part := range []string{string(c), r.Message, "Fix: " + r.Fix, "Example: " + r.Example} {
			if !strings.Contains(r.Text(), part) {
				t.Errorf("as text, %s leaves out %q", c, part)
			}
		}
	}
	if len(codes) != len(statuses) {
		t.Errorf("there are %d codes, and %d in this table", len(codes), len(statuses))
	}
	slices.Sort(codes)
	if len(slices.Compact(codes)) != len(statuses) {
		t.Error("a code is listed twice")
	}
}

// verbs are the commands that an example may show, with their flags.
var verbs = map[string][]string{
	"send":   {"--as", "--to", "--intent", "--reply-to", "--ref", "--turn", "--key"},
	"edit":   {"--turn"},
	"delete": nil,
	"inbox":  {"--sent"},
	"thread": nil,
	"wait":   {"--timeout"},
	"join":   {"--session", "--harness", "--seat"},
	"peers":  {"--session"},
	"lease":  {"--as"},
	"policy": {"--as", "--policy"},

	"ack":     {"--as"},
	"turn":    {"--block"},
	"driver":  {"--why"},
	"sticker": nil,
	"handoff": {"--to", "--reason", "--link"},
	"route":   nil,
	"card":    {"--subject", "--work", "--status"},
	"review":  {"--commit", "--author", "--to"},
	"alert":   {"--as", "--payload"},
	"owed":    {"--by", "--reason"},
}

// typed fails unless a shell reads the example as a command of decklog: quotes
// that close, a known verb, known flags, and a body of one word behind "--".
func typed(t testing.TB, of, example string) {
	t.Helper()
	words, ok := shellWords(example)
	if !ok || len(words) < 2 || words[0] != "decklog" {
		t.Errorf("the example of %s, %q, is no command line", of, example)
		return
	}
	flags, known := verbs[words[1]]
	if !known {
		t.Errorf("the example of %s, %q, calls no verb of decklog", of, example)
	}
	rest := words[2:]
	if at := slices.Index(rest, "--"); at >= 0 {
		if len(rest) != at+2 || rest[at+1] == "" {
			t.Errorf("the example of %s, %q, has not one body", of, example)
		}
		rest = rest[:at]
	} else if words[1] == "send" {
		t.Errorf("the example of %s, %q, sends nothing", of, example)
	}
	for _, w := range rest {
		if strings.HasPrefix(w, "-") && !slices.Contains(flags, w) {
			t.Errorf("the example of %s, %q, has an unknown flag %s", of, example, w)
		}
	}
}

// shellWords splits as a shell does, without its expansions; false for quotes
// that do not close or words that a shell would expand.
func shellWords(line string) (words []string, ok bool) {
	word, in, quote := "", false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			if quote == '"' && strings.ContainsRune("$`\\", c) {
				return nil, false
			}
			word += string(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ':
			if in {
				words = append(words, word)
			}
			word, in = "", false
		case strings.ContainsRune("$`\\|&;<>()*?[]#~!\n", c):
			return nil, false
		default:
			word, in = word+string(c), true
		}
	}
	if in {
		words = append(words, word)
	}
	return words, quote == 0
}

func TestTheWordsOfAnExampleAreSplitAsAShellSplitsThem(t *testing.T) {
	words, ok := shellWords(`decklog send --to @smith -- "May I take it's seat?" ''`)
	if want := []string{"decklog", "send", "--to", "@smith", "--", "May I take it's seat?", ""}; !ok || !slices.Equal(words, want) {
		t.Errorf("split as %q", words)
	}
	for _, bad := range []string{`decklog send -- "open`, `decklog send -- $(rm)`, `decklog send <MSG>`, `decklog "$HOME"`} {
		if _, ok := shellWords(bad); ok {
			t.Errorf("%q passes", bad)
		}
	}
}
