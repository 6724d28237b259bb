package events_test

import (
	"testing"

	"decklog/events"
)

func TestAParticipantIsASessionANameOrABot(t *testing.T) {
	for p, want := range map[events.Participant]struct {
		session events.SessionID
		name    string
	}{
		"5d0c33e1": {session: "5d0c33e1"}, "@ana": {name: "ana"}, "bot:ci": {}, "": {}, "@": {}, "bot:": {}, "bottom": {session: "bottom"}, "a@b": {session: "a@b"},
	} {
		if p.Session() != want.session || p.Name() != want.name {
			t.Errorf("%q is the session %q and the name %q", p, p.Session(), p.Name())
		}
	}
	if events.Named("ana") != "@ana" {
		t.Errorf("ana is %s", events.Named("ana"))
	}
}

func TestEveryStreamHasAPrefixOfItsOwn(t *testing.T) {
	seen := map[events.Stream]bool{}
	for _, s := range []events.Stream{
		events.PolicyStream, events.ThreadStream("x"), events.MailboxStream("x"), events.MailboxStream("@x"), events.SessionStream("x"),
		events.SeatStream("x"), events.PersonStream("x"), events.DeviceStream("x"),
	} {
		if seen[s] {
			t.Errorf("two streams are called %s", s)
		}
		seen[s] = true
	}
}
