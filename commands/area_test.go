package commands_test

import (
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
)

// lanes is the policy of the decided cases: seats in order, persons with and
// without a home, and the content map.
func lanes() events.Policy {
	p := events.DefaultPolicy()
	p.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}, {Name: "oracle"}}
	p.Persons = []events.Person{{Name: "owner-a", Home: "smith"}, {Name: "owner-b", Home: "trinity"}, {Name: "guest"}}
	p.Areas = []events.Area{
		{Seat: "trinity", Priority: 10, Match: []string{"agents/clara", "AppFolio sync lambda", "PMS delivery", "guest-card"}, Reason: "voice runtime; guest-card delivery"},
		{Seat: "oracle", Priority: 20, Match: []string{"forecast", "C++", "客户"}, Reason: "forecasts"},
		{Seat: "smith", Priority: 5, Match: []string{"guest-card printer"}},
	}
	return p
}

func TestTheAreaOfARoot(t *testing.T) {
	person := func(name string) events.Author {
		return events.Author{ID: events.Named(name), Kind: events.KindPerson}
	}
	bot := events.Author{ID: "bot:pager", Kind: events.KindBot}
	session := events.Author{ID: "session-1", Kind: events.KindSession, Seat: "smith", Person: "owner-b"}
	for _, c := range []struct {
		what          string
		author        events.Author
		kind          events.MessageKind
		text, payload string
		seat          string
		reason        events.AreaReason
	}{
		{"a person with a home", person("owner-a"), events.KindMessage, "hello", "", "smith", events.AreaAuthor},
		{"a person with a home, whatever the text says", person("owner-a"), events.KindMessage, "guest-card", "", "smith", events.AreaAuthor},
		{"a person without a home", person("guest"), events.KindMessage, "hello", "", "smith", events.AreaDefault},
		{"a person without a home, by the map", person("guest"), events.KindMessage, "the forecast", "", "oracle", events.AreaMap},
		{"a person who is not on the roster", person("neo"), events.KindMessage, "guest-card", "", "trinity", events.AreaMap},
		{"an alert goes by the map, whoever sent it", person("owner-a"), events.KindAlert, "guest-card", "", "trinity", events.AreaMap},
		{"an alert without a match", person("owner-b"), events.KindAlert, "disk full", "", "smith", events.AreaDefault},
		{"a bot", bot, events.KindMessage, "guest-card", "", "trinity", events.AreaMap},
		{"a session, whoever its person is", session, events.KindMessage, "hello", "", "smith", events.AreaDefault},

		{"in any case", bot, events.KindAlert, "The APPFOLIO Sync Lambda failed", "", "trinity", events.AreaMap},
		{"over a line's end", bot, events.KindAlert, "the AppFolio\n  sync lambda failed", "", "trinity", events.AreaMap},
		{"as part of a path", bot, events.KindAlert, "src/agents/clara/voice.go:7", "", "trinity", events.AreaMap},
		{"between signs", bot, events.KindAlert, "(guest-card)", "", "trinity", events.AreaMap},
		{"not at the beginning of a word", bot, events.KindAlert, "guest-cards", "", "smith", events.AreaDefault},
		{"not at the end of a word", bot, events.KindAlert, "noguest-card", "", "smith", events.AreaDefault},
		{"not inside a longer word", bot, events.KindAlert, "reforecasts", "", "smith", events.AreaDefault},
		{"not beside an underscore", bot, events.KindAlert, "forecast_id", "", "smith", events.AreaDefault},
		{"not in another spelling", bot, events.KindAlert, "guest card", "", "smith", events.AreaDefault},
		{"a later place in the text, whole", bot, events.KindAlert, "forecasts, and a forecast", "", "oracle", events.AreaMap},
		{"not beside a letter beyond ASCII", bot, events.KindAlert, "forecasté", "", "smith", events.AreaDefault},
		{"a phrase that ends in a sign", bot, events.KindAlert, "written in c++", "", "oracle", events.AreaMap},
		{"a phrase that ends in a sign goes on", bot, events.KindAlert, "c++17", "", "oracle", events.AreaMap},
		{"in text without blanks", bot, events.KindAlert, "新客户很多", "", "oracle", events.AreaMap},

		{"the lowest number wins", bot, events.KindAlert, "forecast of guest-card", "", "trinity", events.AreaMap},
		{"the lowest number wins, wherever it stands", bot, events.KindAlert, "the guest-card printer", "", "smith", events.AreaMap},

		{"in the payload", bot, events.KindAlert, "failed", `{"service":"PMS delivery"}`, "trinity", events.AreaMap},
		{"in the name of a payload's field", bot, events.KindAlert, "failed", `{"guest-card":{"n":[1,null,true]}}`, "trinity", events.AreaMap},
		{"behind an escape of the payload", bot, events.KindAlert, "failed", `{"text":"failed:\nguest-card\tagain"}`, "trinity", events.AreaMap},
		{"with an escape of the payload", bot, events.KindAlert, "failed", `{"path":"agents\/clara\/x"}`, "trinity", events.AreaMap},
		{"over two fields of the payload is none", bot, events.KindAlert, "failed", `{"a":"xguest-card","b":"guest-cardx"}`, "smith", events.AreaDefault},
		{"a payload that is no JSON", bot, events.KindAlert, "failed", "service=guest-card\n{", "trinity", events.AreaMap},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := commands.AreaOf(c.author, c.kind, c.text, c.payload, lanes())
			if got == nil || got.Seat != c.seat || got.Reason != c.reason {
				t.Fatalf("it goes to %+v, want %s by %s", got, c.seat, c.reason)
			}
			if fromMap := c.reason == events.AreaMap && c.seat != "smith"; fromMap != (got.Says != "") {
				t.Errorf("the map's reason is %q", got.Says)
			}
		})
	}
}

func TestWithoutSeatsARootHasNoArea(t *testing.T) {
	p := lanes()
	p.Seats = nil
	if got := commands.AreaOf(events.Author{ID: "bot:pager", Kind: events.KindBot}, events.KindAlert, "guest-card", "", p); got != nil {
		t.Errorf("it goes to %+v", got)
	}
}

// FuzzTheAreaIsOneOfTheRoster: whatever the text and the payload, a root goes to
// a seat of the roster, the same each time; and a phrase between blanks is found.
func FuzzTheAreaIsOneOfTheRoster(f *testing.F) {
	f.Add("guest-card", `{"a":"\u0041"}`)
	f.Add("\xffAppFolio  sync\u00a0lambda", "[1e400")
	f.Add("客户İ", "\x00")
	p := lanes()
	bot := events.Author{ID: "bot:pager", Kind: events.KindBot}
	f.Fuzz(func(t *testing.T, text, payload string) {
		got := commands.AreaOf(bot, events.KindAlert, text, payload, p)
		again := commands.AreaOf(bot, events.KindAlert, strings.ToUpper(strings.ToLower(text)), payload, p)
		if got == nil || got.Seat != "smith" && got.Seat != "trinity" && got.Seat != "oracle" {
			t.Fatalf("it goes to %+v", got)
		}
		if isASCII(text) && again.Seat != got.Seat {
			t.Errorf("in upper case it goes to %s, and not to %s", again.Seat, got.Seat)
		}
		for _, named := range []*events.AreaOf{
			commands.AreaOf(bot, events.KindAlert, text+" guest-card printer ", payload, p),
			commands.AreaOf(bot, events.KindAlert, "guest-card printer\n"+text, payload, p),
		} {
			if named.Seat != "smith" || named.Reason != events.AreaMap {
				t.Errorf("with a phrase beside it, it goes to %+v", named)
			}
		}
	})
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 })
}
