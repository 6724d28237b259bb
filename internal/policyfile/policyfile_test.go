package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decklog/events"
)

const example = `# decklog.toml: all of it optional.
[limits]
body_bytes = 4000
refs = 10
session_rate = 30          # sends an hour
device_rate = 120
person_rate = 300
thread_rate = 8            # messages an hour in one thread
recipient_full = 50        # undelivered messages for one recipient
duplicate_window = "10m"
expires_after = "24h"
lease = "10s"
lease_attempts = 3
wait_final = "180s"
owner_window = "12s"
hops = 3
review_within = "30m"
owed_after = "30m"
resume_within = "10m"
absent_after = "30m"

[sessions]
ignore = []

[[seats]]
name = "smith"
stickers = ["driver-smith", "agent-smith"]
fallback = "robot_face"

[[seats]]
name = "trinity"
stickers = ["driver-trinity"]
fallback = "large_blue_circle"

[[persons]]
name = "owner-a"
os_user = "ana"
home = "smith"
roles = ["owner"]

[[areas]]
seat = "trinity"
priority = 10
match = ["agents/clara", "guest-card"]   # any of them
reason = "voice runtime; guest-card delivery"

[[alerts]]
channel = "#alerts"
triager = "smith"

[routing]
classifier = ["my-classifier", "--json"]
group = ["Agent Force"]
timeout = "10s"
`

func examplePolicy() events.Policy {
	p := events.DefaultPolicy()
	p.Seats = []events.Seat{
		{Name: "smith", Stickers: []string{"driver-smith", "agent-smith"}, Fallback: "robot_face"},
		{Name: "trinity", Stickers: []string{"driver-trinity"}, Fallback: "large_blue_circle"},
	}
	p.Persons = []events.Person{{Name: "owner-a", OSUser: "ana", Home: "smith", Roles: []string{"owner"}}}
	p.Areas = []events.Area{{Seat: "trinity", Priority: 10, Match: []string{"agents/clara", "guest-card"}, Reason: "voice runtime; guest-card delivery"}}
	p.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	p.Routing = &events.Routing{Classifier: []string{"my-classifier", "--json"}, Group: []string{"Agent Force"}, Timeout: events.Span(10 * time.Second)}
	return p
}

func TestThePolicyOfTheManualIsReadWhole(t *testing.T) {
	got, faults := Parse("decklog.toml", []byte(example))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff(examplePolicy(), got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAPolicyLeavesOutIsAsInTheDefaultPolicy(t *testing.T) {
	changed := func(change func(*events.Policy)) events.Policy {
		p := events.DefaultPolicy()
		change(&p)
		return p
	}
	for _, c := range []struct {
		what, text string
		want       events.Policy
	}{
		{"nothing", "", events.DefaultPolicy()},
		{"comments, blanks and a byte order mark", "\uFEFF# hello\n\n", events.DefaultPolicy()},
		{"lines that end in CRLF", "[limits]\r\nrefs = 5\r\n", changed(func(p *events.Policy) { p.Limits.Refs = 5 })},
		{"one limit", "[limits]\nthread_rate = 20\n", changed(func(p *events.Policy) { p.Limits.ThreadRate = 20 })},
		{"no limits", "[limits]\nrefs = 0\nexpires_after = \"0s\"\nowed_after = 0\n", changed(func(p *events.Policy) {
			p.Limits.Refs, p.Limits.ExpiresAfter, p.Limits.OwedAfter = 0, 0, 0
		})},
		{"a dotted key", "limits.refs = 1_000\n", changed(func(p *events.Policy) { p.Limits.Refs = 1000 })},
		{"tables written inline", `seats = [{name = "a", stickers = ["s"]}, {name = "b", stickers = ["t"]}]`, changed(func(p *events.Policy) {
			p.Seats = []events.Seat{{Name: "a", Stickers: []string{"s"}}, {Name: "b", Stickers: []string{"t"}}}
		})},
		{"a classifier that is an address", "[routing]\nclassifier = \"https://judge.example/v1\"\n", changed(func(p *events.Policy) {
			p.Routing = &events.Routing{Classifier: []string{"https://judge.example/v1"}, Timeout: events.Span(RoutingTimeout)}
		})},
		{"a classifier whose words repeat", "[routing]\nclassifier = [\"x\", \"-v\", \"-v\"]\ntimeout = \"1m\"", changed(func(p *events.Policy) {
			p.Routing = &events.Routing{Classifier: []string{"x", "-v", "-v"}, Timeout: events.Span(time.Minute)}
		})},
		{"routing without a classifier", "[routing]\n", changed(func(p *events.Policy) {
			p.Routing = &events.Routing{Timeout: events.Span(RoutingTimeout)}
		})},
		{"an area whose phrase stands in another's, and which comes first", "[[seats]]\nname='a'\n[[seats]]\nname='b'\n[[areas]]\nseat='a'\nmatch=['card printer']\n[[areas]]\nseat='b'\npriority=1\nmatch=['card','cardinal']", changed(func(p *events.Policy) {
			p.Seats = []events.Seat{{Name: "a"}, {Name: "b"}}
			p.Areas = []events.Area{{Seat: "a", Match: []string{"card printer"}}, {Seat: "b", Priority: 1, Match: []string{"card", "cardinal"}}}
		})},
		{"groups", "[routing]\ngroup = [\"Agent Force\", \"équipe 2\", \"all-of.us\"]\n", changed(func(p *events.Policy) {
			p.Routing = &events.Routing{Group: []string{"Agent Force", "équipe 2", "all-of.us"}, Timeout: events.Span(RoutingTimeout)}
		})},
		{"a sticker that is called like its seat", "[[seats]]\nname='a'\nstickers=['a']\n", changed(func(p *events.Policy) {
			p.Seats = []events.Seat{{Name: "a", Stickers: []string{"a"}}}
		})},
		{"directories", "[sessions]\nignore = [\"/srv/x\", \"~/scratch\"]", changed(func(p *events.Policy) {
			p.Sessions.Ignore = []string{"/srv/x", "~/scratch"}
		})},
		{"two areas of one seat that share a word", "[[seats]]\nname='a'\n[[areas]]\nseat='a'\nmatch=['x']\n[[areas]]\nseat='a'\npriority=-1\nmatch=['X']", changed(func(p *events.Policy) {
			p.Seats = []events.Seat{{Name: "a"}}
			p.Areas = []events.Area{{Seat: "a", Match: []string{"x"}}, {Seat: "a", Priority: -1, Match: []string{"X"}}}
		})},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, faults := Parse("p", []byte(c.text))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// at makes what a fault is compared by: where it stands, and what it is about.
func at(line, column int, key string) string { return fmt.Sprintf("%d:%d %s", line, column, key) }

func TestEachFaultIsToldWithItsPlaceAndItsFix(t *testing.T) {
	const seats = "[[seats]]\nname = 'smith'\n[[seats]]\nname = 'trinity'\n"
	for _, c := range []struct {
		what, text string
		want       string
		says, fix  string // parts of it
	}{
		{"a length of time without quotes", "[limits]\nlease = 10s\n", at(2, 11, ""), "TOML", "quotes"},
		{"a key without a value", "[limits]\nlease\n", at(2, 6, ""), "TOML", "="},
		{"a header that is not closed", "[limits\nrefs = 1\n", at(1, 8, ""), "TOML", "[limits]"},
		{"a list that is not closed", "[sessions]\nignore = [\"/a\"\n[limits]\n", at(3, 1, ""), "TOML", "close"},
		{"text that is not closed", "[sessions]\nignore = [\"/a]\n", at(2, 15, ""), "TOML", "close"},
		{"bytes that are no UTF-8", "[[seats]]\nname = \"\xff\"\n", at(2, 9, ""), "UTF-8", "TOML"},
		{"two keys in a line", "[limits]\nrefs = 1 hops = 2\n", at(2, 10, ""), "newline", "one key"},

		{"an unknown key near a known one", "[limits]\nsesion_rate = 3\n", at(2, 1, "limits.sesion_rate"), "no such key", "write session_rate"},
		{"an unknown key near none", "[limits]\nzzzzzz = 3\n", at(2, 1, "limits.zzzzzz"), "no such key", "known here are body_bytes"},
		{"a limit outside of its section", "refs = 3\n", at(1, 1, "refs"), "no such key", "under [limits]"},
		{"an unknown section", "[limit]\nrefs = 3\n", at(1, 2, "limit"), "no such key", "write limits"},
		{"an unknown key of a seat", "[[seats]]\nname = 'a'\nsticker = []\n", at(3, 1, "seats.sticker"), "no such key", "write stickers"},

		{"a list where a table belongs", "[[limits]]\nrefs = 3\n", at(1, 3, "limits"), "not a list", "[limits]"},
		{"a table where a list belongs", "[seats]\nname = 'a'\n", at(1, 2, "seats"), "not a table", "[[seats]]"},
		{"text where a list of tables belongs", "seats = 'a'\n", at(1, 9, "seats"), "text", "[[seats]]"},
		{"a number where a table belongs", "limits = 3\n", at(1, 10, "limits"), "a whole number", "table"},
		{"a list of texts where tables belong", "seats = ['a']\n", at(1, 10, "seats"), "text, and not a table", "keys and values"},
		{"text where a number belongs", "[limits]\nrefs = '3'\n", at(2, 8, "limits.refs"), "text", "from 0 to 1000"},
		{"a broken number", "[limits]\nrefs = 3.5\n", at(2, 8, "limits.refs"), "broken number", "whole"},
		{"a date", "[limits]\nrefs = 2026-01-01\n", at(2, 8, "limits.refs"), "date", "whole"},
		{"a truth value where text belongs", "[[seats]]\nname = true\n", at(2, 8, "seats.name"), "true", "quotes"},
		{"text where a list belongs", "[[seats]]\nname = 'a'\nstickers = 's'\n", at(3, 12, "seats.stickers"), "text, and not a list", `["..."]`},
		{"a number in a list of texts", "[[seats]]\nname = 'a'\nstickers = ['s', 3]\n", at(3, 18, "seats.stickers"), "whole number", "quotes"},

		{"a count below zero", "[limits]\nrefs = -1\n", at(2, 8, "limits.refs"), "below zero", "from 0"},
		{"a count far below zero", "[limits]\nrefs = -99999999999999999999\n", at(2, 8, "limits.refs"), "below zero", "from 0"},
		{"an absurd count", "[limits]\nrefs = 100000\n", at(2, 8, "limits.refs"), "out of bounds", "to 1000"},
		{"a count that no machine holds", "[limits]\nrefs = 99999999999999999999\n", at(2, 8, "limits.refs"), "out of bounds", "to 1000"},
		{"a bad length of time", "[limits]\nlease = \"ten\"\n", at(2, 9, "limits.lease"), "no length of time", `"1s" to "10m"`},
		{"days, which have no unit", "[limits]\nexpires_after = \"1d\"\n", at(2, 17, "limits.expires_after"), "no length of time", "h, m, s"},
		{"a length of time below zero", "[limits]\nlease = \"-10s\"\n", at(2, 9, "limits.lease"), "below zero", `"1s"`},
		{"a lease that is too short", "[limits]\nlease = \"10ms\"\n", at(2, 9, "limits.lease"), "out of bounds", `"1s" to "10m"`},
		{"a lease that is too long", "[limits]\nlease = \"11m\"\n", at(2, 9, "limits.lease"), "out of bounds", `"1s" to "10m"`},
		{"a lease without end", "[limits]\nlease = \"0s\"\n", at(2, 9, "limits.lease"), "out of bounds", `"1s" to "10m"`},
		{"a length of time without a unit", "[limits]\nwait_final = 180\n", at(2, 14, "limits.wait_final"), "a number", `"180s"`},
		{"an absurd length of time", "[limits]\nowner_window = \"1ms\"\n", at(2, 16, "limits.owner_window"), "out of bounds", `"100ms" to "1h"`},
		{"a classifier's time without end", "[routing]\ntimeout = 0\n", at(2, 11, "routing.timeout"), "a number", `"100ms" to "10m"`},

		{"a seat without a name", "[[seats]]\nstickers = ['s']\n", at(1, 3, "seats.name"), "missing", "add name"},
		{"a name with other letters", "[[seats]]\nname = 'Smith'\n", at(2, 8, "seats.name"), `"Smith" is no name`, "a-z"},
		{"a name that begins with a dot", "[[seats]]\nname = '.x'\n", at(2, 8, "seats.name"), "no name", "begin with"},
		{"a name with the sign of an address", "[[persons]]\nname = '@ana'\n", at(2, 8, "persons.name"), "no name", "a-z"},
		{"a name that is too long", "[[seats]]\nname = '" + strings.Repeat("a", 65) + "'\n", at(2, 8, "seats.name"), "longer", "64"},
		{"a blank name", "[[seats]]\nname = ' '\n", at(2, 8, "seats.name"), "blank", "write"},
		{"a seat twice", seats + "[[seats]]\nname = 'smith'\n", at(6, 8, "seats.name"), `seat "smith" is here twice; the first is in line 2`, "own name"},
		{"a person twice", "[[persons]]\nname = 'ana'\n[[persons]]\nname = 'ana'\n", at(4, 8, "persons.name"), "twice", "own name"},
		{"an operating system's user twice", "[[persons]]\nname = 'a'\nos_user = 'ana'\n[[persons]]\nname = 'b'\nos_user = 'ana'\n", at(6, 11, "persons.os_user"), "another person's (line 3)", "one person"},
		{"a home that is not on the roster", seats + "[[persons]]\nname = 'ana'\nhome = 'smitth'\n", at(7, 8, "persons.home"), "not on the roster", `write "smith"`},
		{"a triager that is not on the roster", seats + "[[alerts]]\nchannel = '#a'\ntriager = 'neo'\n", at(7, 11, "alerts.triager"), "not on the roster", "one of smith, trinity"},
		{"an area's seat without a roster", "[[areas]]\nseat = 'neo'\nmatch = ['x']\n", at(2, 8, "areas.seat"), "not on the roster", `add [[seats]] with name = "neo"`},
		{"two areas that share a word, in another case", seats + "[[areas]]\nseat = 'smith'\nmatch = ['a', 'Card']\n[[areas]]\nseat = 'trinity'\npriority = 1\nmatch = ['b', 'card']\n", at(11, 15, "areas.match"), `"card" is of seat smith (line 7) and of seat trinity`, "one of them"},
		{"a priority of two seats' areas", seats + "[[areas]]\nseat = 'smith'\npriority = 7\nmatch = ['a']\n[[areas]]\nseat = 'smith'\npriority = 7\nmatch = ['c']\n[[areas]]\nseat = 'trinity'\npriority = 7\nmatch = ['b']\n", at(15, 12, "areas.priority"), "7 is also the priority of an area of seat smith (line 7)", "of their own"},
		{"a priority that two seats' areas leave out", seats + "[[areas]]\nseat = 'smith'\nmatch = ['a']\n[[areas]]\nseat = 'trinity'\nmatch = ['b']\n", at(8, 3, "areas.priority"), "0 is also the priority of an area of seat smith (line 5)", "of their own"},
		{"a priority that is out of bounds clashes with none", seats + "[[areas]]\nseat = 'smith'\nmatch = ['a']\n[[areas]]\nseat = 'trinity'\npriority = 1_000_001\nmatch = ['b']\n", at(10, 12, "areas.priority"), "out of bounds", "from -1000000"},
		{"a phrase that another seat's always wins", seats + "[[areas]]\nseat = 'smith'\npriority = 2\nmatch = ['new', 'Guest-Card printer']\n[[areas]]\nseat = 'trinity'\npriority = 1\nmatch = ['guest-card']\n", at(8, 17, "areas.match"), `sends nothing to seat smith: "guest-card" stands in it, is of seat trinity (line 12)`, "below 1"},
		{"an area without words", seats + "[[areas]]\nseat = 'smith'\nmatch = []\n", at(7, 1, "areas.match"), "empty", "at least one"},
		{"an area without a match", seats + "[[areas]]\nseat = 'smith'\n", at(5, 3, "areas.match"), "missing", "add match"},
		{"a blank word of an area", seats + "[[areas]]\nseat = 'smith'\nmatch = ['x', '']\n", at(7, 15, "areas.match"), "blank", "write"},
		{"a channel that is too long", seats + "[[alerts]]\nchannel = '#" + strings.Repeat("a", 256) + "'\ntriager = 'smith'\n", at(6, 11, "alerts.channel"), "257 bytes", "256"},
		{"a triager without a roster", "[[alerts]]\nchannel = '#a'\ntriager = 'neo'\n", at(3, 11, "alerts.triager"), "not on the roster", `add [[seats]] with name = "neo"`},
		{"a home without a roster", "[[persons]]\nname = 'ana'\nhome = 'neo'\n", at(3, 8, "persons.home"), "not on the roster", `add [[seats]] with name = "neo"`},
		{"an alert without a triager", "[[alerts]]\nchannel = '#a'\n", at(1, 3, "alerts.triager"), "missing", "add triager"},
		{"two triagers for a channel", seats + "[[alerts]]\nchannel = '#a'\ntriager = 'smith'\n[[alerts]]\nchannel = '#a'\ntriager = 'trinity'\n", at(9, 11, "alerts.channel"), "a triager already (line 6)", "one triager"},
		{"a sticker of two seats", "[[seats]]\nname = 'a'\nstickers = ['x', 's']\n[[seats]]\nname = 'b'\nstickers = ['s']\n", at(6, 13, "seats.stickers"), "another seat (line 3)", "of its own"},
		{"a sticker that is another seat's name", "[[seats]]\nname = 'a'\nstickers = ['a', 'b']\n[[seats]]\nname = 'b'\n", at(3, 18, "seats.stickers"), `"b" is the name of another seat (line 5)`, "another name"},
		{"a fallback that is another seat's name", "[[seats]]\nname = 'a'\n[[seats]]\nname = 'b'\nfallback = 'a'\n", at(5, 12, "seats.fallback"), "another seat (line 2)", "another name"},
		{"a seat that is called like all of them", "[[seats]]\nname = 'seats'\n", at(2, 8, "seats.name"), "all seats at once, and so no seat", "another name"},
		{"a person who is called like all seats", "[[persons]]\nname = 'seats'\n", at(2, 8, "persons.name"), "and so no person", "another name"},
		{"a group that is called like a seat", seats + "[routing]\ngroup = ['all', 'Trinity']\n", at(6, 17, "routing.group"), `"trinity" is the name of a seat (line 4)`, "something else"},
		{"a group that is called like a person", "[routing]\ngroup = ['ANA']\n[[persons]]\nname = 'ana'\n", at(2, 10, "routing.group"), "the name of a person (line 4)", "something else"},
		{"a group twice, in another case", "[routing]\ngroup = ['Agent Force', 'agent force']\n", at(2, 25, "routing.group"), "twice, whatever the case", "one of them"},
		{"a group that there is without the policy", "[routing]\ngroup = ['Seats']\n", at(2, 10, "routing.group"), "under every policy", "take it away"},
		{"a group with the sign of a mention", "[routing]\ngroup = ['@all']\n", at(2, 10, "routing.group"), "no name", "without the @"},
		{"a group with two blanks", "[routing]\ngroup = ['agent  force']\n", at(2, 10, "routing.group"), "no name", "one blank"},
		{"a group that ends in a blank", "[routing]\ngroup = ['all ']\n", at(2, 10, "routing.group"), "no name", "letters"},
		{"a group whose name is too long", "[routing]\ngroup = ['" + strings.Repeat("a", 65) + "']\n", at(2, 10, "routing.group"), "longer", "64"},
		{"a group as text", "[routing]\ngroup = 'all'\n", at(2, 9, "routing.group"), "text, and not a list", `["..."]`},
		{"a fallback that is another's sticker", "[[seats]]\nname = 'a'\nstickers = ['s']\n[[seats]]\nname = 'b'\nfallback = 's'\n", at(6, 12, "seats.fallback"), "another seat", "of its own"},
		{"a sticker twice", "[[seats]]\nname = 'a'\nstickers = ['s', 's']\n", at(3, 18, "seats.stickers"), "twice", "one of them"},
		{"a sticker with a blank", "[[seats]]\nname = 'a'\nstickers = ['a b']\n", at(3, 13, "seats.stickers"), "blank", "one word"},
		{"a directory that depends on where one is", "[sessions]\nignore = ['x']\n", at(2, 11, "sessions.ignore"), "depends", "whole path"},
		{"text of two lines", "[[seats]]\nname = 'a'\n[[areas]]\nseat = 'a'\nmatch = ['x']\nreason = \"a\\nb\"\n", at(6, 10, "areas.reason"), "control", "one line"},
		{"text that is too long", "[[seats]]\nname = 'a'\nfallback = '" + strings.Repeat("a", 1001) + "'\n", at(3, 12, "seats.fallback"), "1001 bytes", "1000"},
		{"a classifier that is a command as text", "[routing]\nclassifier = 'judge --json'\n", at(2, 14, "routing.classifier"), "no address", "as a list"},
		{"a classifier of no words", "[routing]\nclassifier = []\n", at(2, 1, "routing.classifier"), "empty", "as a list"},
		{"an address with arguments", "[routing]\nclassifier = ['https://x', '-v']\n", at(2, 15, "routing.classifier"), "no arguments", "as a list"},
		{"a classifier that is a number", "[routing]\nclassifier = 3\n", at(2, 14, "routing.classifier"), "whole number", "as a list"},

		{"a key twice", "[limits]\nrefs = 1\nrefs = 2\n", at(3, 1, "refs"), "second time; the first is in line 2", "one of the two"},
		{"a section twice", "[limits]\nrefs = 1\n[limits]\nhops = 2\n", at(3, 2, "limits"), "second time; the first is in line 1", "under one [limits]"},
		{"a list that is a table further on", "[[seats]]\nname = 'a'\n[seats]\nname = 'b'\n", at(3, 2, "seats"), "a list", "[[seats]]"},
		{"a section in a value", "limits = {refs = 1}\n[limits]\nhops = 2\n", at(2, 2, "limits"), "a value already, in line 1", "one of the two"},
		{"a key under a value", "limits.refs = 1\nlimits.refs.x = 2\n", at(2, 8, "limits.refs"), "a value already, in line 1", "one of the two"},
		{"what only the library knows to be wrong", "limits.refs = 1\n[limits]\nhops = 2\n", at(2, 2, ""), "TOML", "TOML"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, faults := Parse("decklog.toml", []byte(c.text))
			if len(faults) != 1 {
				t.Fatalf("want one fault, got %q", faults)
			}
			f := faults[0]
			if got := at(f.Line, f.Column, f.Key); got != c.want {
				t.Errorf("it is at %s, want %s: %s", got, c.want, f)
			}
			if !strings.Contains(f.Says, c.says) || !strings.Contains(f.Fix, c.fix) {
				t.Errorf("it says %q, fix %q; want %q and %q", f.Says, f.Fix, c.says, c.fix)
			}
			if f.File != "decklog.toml" {
				t.Errorf("its file is %q", f.File)
			}
		})
	}
}

func TestOneFaultHidesNoOther(t *testing.T) {
	const text = `refs = 3
[limits]
lease = 10s
hops = -1
session_rte = 30
[[seats]]
name = "Smith"
stickers = ["s"]
[[seats]
name = "left unread, as nobody knows where it belongs"
[[seats]]
name = "trinity"
stickers = ["s", 3]
[sessions]
ignore = ["/a", "/b"
[[alerts]]
channel = "#a"
triager = "nobody, but the roster is not whole"
[routing]
timeout = "1y"
`
	_, faults := Parse("p", []byte(text))
	var got []string
	for _, f := range faults {
		got = append(got, at(f.Line, f.Column, f.Key))
	}
	want := []string{
		at(1, 1, "refs"), at(3, 11, ""), at(4, 8, "limits.hops"), at(5, 1, "limits.session_rte"),
		at(7, 8, "seats.name"), at(9, 8, ""), at(13, 13, "seats.stickers"), at(13, 18, "seats.stickers"),
		at(16, 1, ""), at(18, 11, "alerts.triager"), at(20, 11, "routing.timeout"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%q", diff, faults)
	}
}

func TestAFaultIsOneLineAsCompilersWriteIt(t *testing.T) {
	_, faults := Parse("decklog.toml", []byte("[limits]\n\tsesion_rate = 3\n"))
	if len(faults) != 1 {
		t.Fatal(faults)
	}
	const want = "decklog.toml:2:2: limits.sesion_rate: there is no such key. Fix: write session_rate"
	if got := faults[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestColumnsCountCharacters(t *testing.T) {
	_, faults := Parse("p", []byte("seats = [{name = 'é'}, {nme = 'b'}]"))
	var got []string
	for _, f := range faults {
		got = append(got, at(f.Line, f.Column, f.Key))
	}
	if diff := cmp.Diff([]string{at(1, 18, "seats.name"), at(1, 24, "seats.name"), at(1, 25, "seats.nme")}, got); diff != "" {
		t.Errorf("%s\n%q", diff, faults)
	}
}

func TestLoadTellsAMissingAFaultyAndATooLargeFileApart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "decklog.toml")
	if _, _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(example)
	if p, faults, err := Load(path); err != nil || len(faults) > 0 || !cmp.Equal(p, examplePolicy()) {
		t.Errorf("of the manual's: %v %v", faults, err)
	}
	write("[limits]\nrefs = 'x'\n")
	if _, faults, err := Load(path); err != nil || len(faults) != 1 || faults[0].File != path {
		t.Errorf("of a faulty file: %v %v", faults, err)
	}
	write(strings.Repeat("#", FileBytesMax+1))
	if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("of a large file: %v", err)
	}
}

func TestRenderWritesWhatAPersonWouldWrite(t *testing.T) {
	text := string(Render(examplePolicy()))
	for _, line := range []string{
		`duplicate_window = "10m"   # in which the same text is sent once`,
		`expires_after = "24h"      # a message that nobody took`,
		`wait_final = "3m"          # how long an answer that is being worked on is waited for`,
		`ignore = []                # directories whose sessions take no part`,
		`name = "smith"             # the first is the default seat`,
		`stickers = ["driver-smith", "agent-smith"] # the first that exists is used`,
		`classifier = ["my-classifier", "--json"]`,
		`group = ["Agent Force"]    # mention all seats at once, as @seats does`,
	} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

// policies draws policies without a fault.
func policies() *rapid.Generator[events.Policy] {
	return rapid.Custom(func(t *rapid.T) events.Policy {
		p := events.DefaultPolicy()
		for _, l := range limits() {
			if l.count != nil {
				*l.count(&p.Limits) = rapid.IntRange(0, l.countMax).Draw(t, l.name)
				continue
			}
			length := rapid.Int64Range(int64(l.spanMin), int64(l.spanMax)).Draw(t, l.name)
			if !l.always && rapid.Bool().Draw(t, l.name+" is none") {
				length = 0
			}
			*l.span(&p.Limits) = events.Span(length)
		}
		words := func(label string, least int, gen *rapid.Generator[string]) []string {
			all := rapid.SliceOfNDistinct(gen, least, 3, strings.ToLower).Draw(t, label)
			if len(all) == 0 {
				return nil
			}
			return all
		}
		name := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,63}`)
		word := rapid.StringMatching(`[#:"'\\\pL]{1,20}`)
		text := rapid.StringMatching(`\pL[\pL\pN "'\\#={}\[\]\x{1F468}\x{200D}]{0,40}`)
		p.Sessions.Ignore = words("ignore", 0, rapid.StringMatching(`(/|~/)[\pL "'\\]{0,20}\pL`))

		names := rapid.SliceOfNDistinct(name, 0, 6, rapid.ID).Draw(t, "names")
		seats := names[:rapid.IntRange(0, len(names)).Draw(t, "seats")]
		for i, n := range seats {
			s := events.Seat{Name: n}
			for j := range rapid.IntRange(0, 3).Draw(t, "stickers") {
				s.Stickers = append(s.Stickers, fmt.Sprintf("%s-%d-%d", word.Draw(t, "sticker"), i, j))
			}
			if rapid.Bool().Draw(t, "has a fallback") {
				s.Fallback = fmt.Sprintf("fallback-%d", i)
			}
			p.Seats = append(p.Seats, s)
		}
		for i, n := range names[len(seats):] {
			person := events.Person{Name: n, Roles: words("roles", 0, word)}
			if rapid.Bool().Draw(t, "has a user") {
				person.OSUser = fmt.Sprintf("user-%d", i)
			}
			if len(seats) > 0 && rapid.Bool().Draw(t, "has a home") {
				person.Home = rapid.SampledFrom(seats).Draw(t, "home")
			}
			p.Persons = append(p.Persons, person)
		}
		if len(seats) > 0 {
			for i := range rapid.IntRange(0, 3).Draw(t, "areas") {
				match := words("match", 1, text)
				for j := range match {
					match[j] = fmt.Sprintf("%d %s", i, match[j])
				}
				at := rapid.IntRange(-1_000_000/3, 1_000_000/3-1).Draw(t, "priority")
				a := events.Area{Seat: rapid.SampledFrom(seats).Draw(t, "seat"), Priority: 3*at + i, Match: match} // no two share one
				if rapid.Bool().Draw(t, "has a reason") {
					a.Reason = text.Draw(t, "reason")
				}
				p.Areas = append(p.Areas, a)
			}
			for _, channel := range words("channels", 0, word) {
				p.Alerts = append(p.Alerts, events.Alert{Channel: channel, Triager: rapid.SampledFrom(seats).Draw(t, "triager")})
			}
		}
		if rapid.Bool().Draw(t, "has routing") {
			p.Routing = &events.Routing{Timeout: events.Span(rapid.Int64Range(int64(100*time.Millisecond), int64(10*time.Minute)).Draw(t, "timeout"))}
			switch rapid.IntRange(0, 2).Draw(t, "classifier") {
			case 0:
				p.Routing.Classifier = []string{"https://" + rapid.StringMatching(`[a-z]{1,9}(/[a-z?=]{0,9})?`).Draw(t, "address")}
			case 1:
				p.Routing.Classifier = rapid.SliceOfN(text, 1, 4).Draw(t, "command")
			}
			for i := range rapid.IntRange(0, 2).Draw(t, "groups") {
				p.Routing.Group = append(p.Routing.Group, fmt.Sprintf("%s %d", rapid.StringMatching(`\pL{1,6}( \pL{1,6})?`).Draw(t, "group"), i))
			}
		}
		return p
	})
}

func TestARenderedPolicyReadsBackAsTheSamePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policies().Draw(t, "policy")
		text := Render(want)
		got, faults := Parse("p", text)
		if len(faults) > 0 {
			t.Fatalf("%v in\n%s", faults, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s from\n%s", diff, text)
		}
	})
}

func FuzzParseTellsEveryFaultItsPlace(f *testing.F) {
	f.Add(example)
	f.Add("[limits]\nlease = 10s\n[[seats]\nname = '''\n")
	f.Add("seats = [{name = 'a', stickers = [['x'], {y = 1}]}]\n[seats.x]\n[[seats.name]]\n")
	f.Add("a.b.c = [\n[limits]\n]\n\"\" = \"\\uD800\"\n\xff = 1979-05-27T07:32:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		p, faults := Parse("p", []byte(text))
		lines := strings.Count(text, "\n") + 1
		last := 0
		for _, fault := range faults {
			if fault.Line < max(1, last) || fault.Line > lines || fault.Column < 0 || fault.Says == "" || fault.Fix == "" {
				t.Errorf("of %d lines: %+v after line %d", lines, fault, last)
			}
			last = fault.Line
		}
		if len(faults) > 0 {
			return
		}
		again, faults := Parse("p", Render(p))
		if len(faults) > 0 || !cmp.Equal(p, again) {
			t.Errorf("%v; it was read back as another: %s", faults, cmp.Diff(p, again))
		}
	})
}

func TestASeatAndAPersonMayShareAName(t *testing.T) {
	p, faults := Parse("decklog.toml", []byte("[[seats]]\nname = 'ana'\n[[persons]]\nname = 'ana'\n"))
	if len(faults) > 0 || len(p.Seats) != 1 || len(p.Persons) != 1 {
		t.Errorf("got %+v, %q; who writes to @ana is told that it is both", p, faults)
	}
}
