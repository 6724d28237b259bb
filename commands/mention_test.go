package commands_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
)

// mentionable is a policy with names that begin alike, and a group of two words.
func mentionable() events.Policy {
	p := events.DefaultPolicy()
	for _, name := range []string{"smith", "trinity", "oracle", "smith-2", "smith.old"} {
		p.Seats = append(p.Seats, events.Seat{Name: name})
	}
	p.Persons = []events.Person{{Name: "owner-a"}}
	p.Routing = &events.Routing{Group: []string{"Agent Force", "Agent", "équipe"}}
	return p
}

// all is how a text that mentions all seats at once is written in these tables.
const all = "all"

func TestWhatATextMentions(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       string // the seats in order, and "all"
	}{
		{"one seat", "@trinity can you take this", "trinity"},
		{"at the end of a sentence", "I leave it to @trinity.", "trinity"},
		{"two, in the order of the text", "@trinity please ask @smith", "trinity smith"},
		{"one twice", "@smith and @smith", "smith"},
		{"in any case", "@Trinity, @SMITH", "trinity smith"},
		{"nobody", "ask trinity about it", ""},
		{"a person is no seat", "@owner-a", ""},
		{"a stranger", "@neo", ""},
		{"an empty text", "", ""},
		{"an @ alone", "@ smith, @", ""},

		{"the longest name first", "@smith-2 rather", "smith-2"},
		{"the longest name first, with a dot", "@smith.old", "smith.old"},
		{"a name that goes on", "@smith-3 @smiths @smith.x @smith_x @smith2", ""},
		{"a name that only ends in a sign", "@smith- @trinity_ @oracle...", "smith trinity oracle"},
		{"a name inside a word", "a@smith é@trinity 7@oracle _x_@smith", ""},
		{"a mail address", "write to neo@smith.example, smith@trinity and first.last@oracle", ""},
		{"behind a first @", "@@smith", "smith"},
		{"between signs", "(@smith) «@trinity» <@oracle>", "smith trinity oracle"},
		{"in emphasis", "*@smith* **@trinity** _@oracle_ ~~@smith-2~~", "smith trinity oracle smith-2"},
		{"with a genitive", "@smith's, @trinity’s", "smith trinity"},
		{"beside each other", "@smith,@trinity/@oracle", "smith trinity oracle"},
		{"behind an emoji", "👍@smith 👍🏽@trinity ❤️@oracle", "smith trinity oracle"},
		{"in text without blanks", "请@smith看，と@trinityへ", "smith trinity"},
		{"with an accent of its own", "@smithé @trinite\u0301 @smith\u0301", ""},
		{"a letter that only folds alike", "@ſmith", ""},

		{"the group", "@seats look", all},
		{"the group in any case, with its blank", "@agent force look", all},
		{"the group's longer name hides no shorter one", "@Agent look", all},
		{"the group's name that goes on", "@Agent Forces, @seatsx", all}, // @Agent
		{"the group with letters beyond ASCII", "@ÉQUIPE", all},
		{"the group and a seat", "@seats and @oracle", "oracle all"},
		{"the group's name without an @", "Agent Force, seats", ""},

		{"code in the line", "`@smith` but @trinity", "trinity"},
		{"code in two backticks", "``a ` @smith`` but @trinity", "trinity"},
		{"code over a line's end", "`a\n@smith` but @trinity", "trinity"},
		{"a backtick that closes nothing", "it`s @smith", "smith"},
		{"a backtick closes nothing beyond its paragraph", "a ` b\n\n@smith ` c", "smith"},
		{"nor beyond a blank line that has blanks", "a ` b\n  \n@smith ` c", "smith"},
		{"three backticks in a line", "```@smith``` but @trinity", "trinity"},
		{"a fence", "```\n@smith\n```\n@trinity", "trinity"},
		{"a fence with a language", "```sh\n@smith\n```\n@trinity", "trinity"},
		{"a fence of tildes", "~~~ a`b\n@smith\n```\n~~~\n@trinity", "trinity"},
		{"a fence that is not closed", "```\n@smith\n", ""},
		{"a fence in a longer fence", "````\n```\n@smith\n```\n@smith\n````\n@trinity", "trinity"},
		{"a fence is closed by nothing else in its line", "```\n@smith\n``` @smith\n```\n@trinity", "trinity"},
		{"a fence is closed by a longer one", "```\n@smith\n`````\n@trinity", "trinity"},
		{"a fence in a list", "1. ```\n   @smith\n   ```\n- @trinity", "trinity"},
		{"indented code", "so:\n\n    @smith\n    @oracle\n\n\t@smith\n\n@trinity", "trinity"},
		{"an indent in a paragraph is no code", "I ask\n    @smith", "smith"},
		{"an indent in a list is no code", "- I ask\n    @smith", "smith"},

		{"a quote", "> @smith take it\n\nNo, @trinity", "trinity"},
		{"a quote in a quote", ">> @smith\n> > @smith", ""},
		{"a quote that is indented", "  > @smith", ""},
		{"a quote in a list", "- > @smith\n* @trinity", "trinity"},
		{"a sign that begins no quote", "a > @smith", "smith"},

		{"an address", "https://example.org/@smith and @trinity", "trinity"},
		{"an address in angles", "<https://example.org/@smith> @trinity", "trinity"},
		{"an address without a scheme", "see www.example.org/@smith, @trinity", "trinity"},
		{"a link's target", "[this](https://example.org/@smith) @trinity", "trinity"},
		{"a link's target that is no address", "[this](@smith) @trinity", "trinity"},
		{"a link's text", "[@smith](https://example.org) @trinity", "trinity"},
		{"a link by reference", "[@smith][1] @trinity\n\n[1]: https://example.org/@smith", "trinity"},
		{"a picture", "![@smith](x.png) @trinity", "trinity"},
		{"brackets that are no link", "[@smith] (@trinity)", "smith trinity"},
		{"a link that is not closed", "[a](@smith\n@trinity", "smith trinity"},
	} {
		t.Run(c.what, func(t *testing.T) {
			seats, group := commands.Mentions(c.text, mentionable())
			if group {
				seats = append(seats, all)
			}
			if got := strings.Join(seats, " "); got != c.want {
				t.Errorf("%q mentions %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestWithoutSeatsNobodyIsMentioned(t *testing.T) {
	if seats, group := commands.Mentions("@seats, @smith", events.DefaultPolicy()); seats != nil || group {
		t.Errorf("it mentions %v, all %t", seats, group)
	}
}

// FuzzMentionsAreOfTheRosterAndWrittenInTheText: whatever the text, each seat
// that it mentions stands in it behind an @, once in the list; more text behind
// a blank line mentions no fewer; and the same text as code or as a quote
// mentions nobody.
func FuzzMentionsAreOfTheRosterAndWrittenInTheText(f *testing.F) {
	for _, text := range []string{"@smith-2, @Agent Force", "`@smith", "```\n@smith\n~~~", "> @oracle\n[x](@smith", "a@smith http://@trinity", "请@smith\u0301\xff@", "[[a][b](\n://"} {
		f.Add(text)
	}
	p := mentionable()
	f.Fuzz(func(t *testing.T, text string) {
		seats, group := commands.Mentions(text, p)
		for i, seat := range seats {
			if !slices.ContainsFunc(p.Seats, func(s events.Seat) bool { return s.Name == seat }) || slices.Contains(seats[:i], seat) {
				t.Errorf("%q mentions %v", text, seats)
			}
			if !strings.Contains(strings.ToLower(text), "@"+seat) {
				t.Errorf("%q mentions %s, which it does not name", text, seat)
			}
		}
		if group && !strings.Contains(text, "@") {
			t.Errorf("%q mentions all", text)
		}
		if before, _ := commands.Mentions("@trinity\n\n"+text, p); len(before) == 0 || before[0] != "trinity" {
			t.Errorf("what stands behind a blank line hides a mention before it: %q gives %v", text, before)
		}
		fence := strings.Repeat("`", longestRun(text)+3)
		for what, hidden := range map[string]string{
			"code":    fmt.Sprintf("%s\n%s\n%s\n", fence, text, fence),
			"a quote": "> " + strings.NewReplacer("\n", "\n> ", "\r", "\r> ").Replace(text),
		} {
			if seats, group := commands.Mentions(hidden, p); len(seats) > 0 || group {
				t.Errorf("as %s %q mentions %v, all %t", what, hidden, seats, group)
			}
		}
	})
}

func longestRun(text string) (longest int) {
	for n := 0; len(text) > 0; text = text[1:] {
		if n++; text[0] != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}
