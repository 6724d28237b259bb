package ops_test

import (
	"fmt"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// With a token nobody acts as anybody else, and who tried stands in the ledger.
func TestWithATokenNobodyActsAsSomebodyElse(t *testing.T) {
	d := newDesk(t)
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "bo", OSUser: "bo"}}
	d.policy.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	d.policy.Seats = []events.Seat{{Name: "smith"}}
	d.join(alice) // ana's, whose user this process runs as
	send := func(as string) ops.SendRequest {
		return ops.SendRequest{Asker: ops.Asker{As: as}, To: "@smith", Body: []byte("Is the sync up? Asked as " + as + ".")}
	}
	for _, try := range []struct {
		token, as, actor string
		refused          bool
	}{
		{"@ana", "", "@ana", false},
		{"@ana", alice, alice, false}, // whose person she is
		{"@bo", "", "@bo", false},
		{"@bo", "@ana", "@bo", true},
		{"@bo", alice, "@bo", true},
		{alice, "", alice, false},
		{alice, "@ana", alice, true},
		{"bot:pager", "", "bot:pager", true}, // it sends nothing but alerts
		{"bot:pager", "@ana", "bot:pager", true},
	} {
		desk := *d.Ops
		desk.World.Claims = &ops.Claims{Token: events.Participant(try.token)}
		_, r, err := desk.Send(send(try.as))
		if err != nil || (r != nil) != try.refused || r != nil && r.Code != commands.NoCaller {
			t.Errorf("with a token of %s, as %q: %+v, %v", try.token, try.as, r, err)
		}
		if last := d.last(); string(last.Actor) != try.actor {
			t.Errorf("with a token of %s, as %q: %s is recorded as the actor of %s", try.token, try.as, last.Actor, last.Type())
		}
	}
	desk := *d.Ops
	desk.World.Claims = &ops.Claims{Token: "bot:pager"}
	if _, r, err := desk.Alert(ops.AlertRequest{Channel: "#alerts", Body: []byte("The sync fails.")}); r != nil || err != nil {
		t.Errorf("a bot's alert: %v %v", r, err)
	}
	if _, r, err := desk.Alert(ops.AlertRequest{Asker: ops.Asker{As: "bot:other"}, Channel: "#alerts", Body: []byte("The sync fails again.")}); r == nil || err != nil {
		t.Errorf("a bot alerts as another: %v", err)
	}
	desk.World.Claims = &ops.Claims{Token: "@bo"}
	if _, r, err := desk.Join(ops.JoinRequest{Session: alice}); r == nil || err != nil {
		t.Errorf("bo registers a session of ana's: %v", err)
	}
	if receipt, r, err := desk.Join(ops.JoinRequest{Session: bob}); r != nil || err != nil || receipt.Person != "bo" {
		t.Errorf("bo's own session joins as %q's: %v %v", receipt.Person, r, err)
	}
}

// last is the event that was recorded last.
func (d *desk) last() (last events.Recorded) {
	d.t.Helper()
	if _, _, err := d.Events(ops.EventsRequest{}, func(e events.Recorded) error { last = e; return nil }); err != nil {
		d.t.Fatal(err)
	}
	return last
}

// What is asked for by an id alone is somebody's all the same.
func TestWithATokenNobodyTouchesWhatIsAnothers(t *testing.T) {
	d := newDesk(t)
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "bo", OSUser: "bo"}}
	d.policy.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}}
	d.join(alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.join(carol)
	d.send(carol, ops.SendRequest{To: alice, Body: []byte("Mail for alice.")})
	leased, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}})
	if r != nil || err != nil || leased.ID == "" {
		t.Fatal(r, err)
	}
	with := func(token string) *ops.Ops {
		desk := *d.Ops
		desk.World.Claims = &ops.Claims{Token: events.Participant(token)}
		return &desk
	}
	for _, token := range []string{"@bo", "@trinity", "@nobody", carol} {
		desk := with(token)
		if _, r, err := desk.Confirm(ops.Asker{}, leased.ID); r == nil || err != nil {
			t.Errorf("a token of %s confirms what alice was offered: %v", token, err)
		}
		if r, err := desk.Read(ops.ReadRequest{Lease: leased.ID}); r == nil || err != nil {
			t.Errorf("a token of %s says that alice read: %v", token, err)
		}
		if _, r, err := desk.Leave(ops.LeaveRequest{Session: alice, FreesSeat: true}); r == nil || err != nil {
			t.Errorf("a token of %s ends alice's session: %v", token, err)
		}
		if r, err := desk.Note(ops.NoteRequest{Session: alice, Busy: true}); r == nil || err != nil {
			t.Errorf("a token of %s notes something of alice: %v", token, err)
		}
		if _, r, err := desk.Join(ops.JoinRequest{Session: alice}); r == nil || err != nil {
			t.Errorf("a token of %s registers alice's session anew: %v", token, err)
		}
	}
	for _, token := range []string{"@smith", "@nobody"} {
		if _, r, err := with(token).Join(ops.JoinRequest{Session: bob}); r == nil || err != nil {
			t.Errorf("a token of %s, which is no person's, registers a session: %v", token, err)
		}
	}
	if _, r, err := with("@smith").Confirm(ops.Asker{}, leased.ID); r != nil || err != nil {
		t.Errorf("the token of the seat that alice sits on confirms her lease: %v %v", r, err)
	}
	if _, r, err := with("@ana").Leave(ops.LeaveRequest{Session: alice}); r != nil || err != nil {
		t.Errorf("alice's person ends her session: %v %v", r, err)
	}
}

// Who is a person of the policy no more acts as nobody, also not as one of their sessions.
func TestATokenOfWhoIsNoPersonAnyMoreActsAsNoneOfTheirSessions(t *testing.T) {
	d := newDesk(t)
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "bo", OSUser: "bo"}}
	d.join(alice) // ana's
	d.join(carol)
	send := func() *commands.Refusal {
		t.Helper()
		desk := *d.Ops
		desk.World.Claims = &ops.Claims{Token: "@ana"}
		_, r, err := desk.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, To: carol, Body: []byte("Number " + fmt.Sprint(d.end()))})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := send(); r != nil {
		t.Errorf("ana's token sends as alice: %v", r)
	}
	without := d.policy
	without.Persons = without.Persons[1:]
	if _, r, err := d.AdoptPolicy(ops.Asker{As: "@bo"}, without); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if r := send(); r == nil || r.Code != commands.NoCaller {
		t.Errorf("ana is gone, and her token sends as alice: %v", r)
	}
}

func TestAPolicyThatIsNoneIsNotAdopted(t *testing.T) {
	d := newDesk(t)
	before := d.end()
	bad := events.DefaultPolicy()
	bad.Limits.BodyBytes, bad.Limits.Lease = -1, 0
	if _, r, err := d.AdoptPolicy(ops.Asker{As: "@ana"}, bad); r == nil || r.Code != commands.BadRequest || err != nil {
		t.Errorf("a lease of no time and bodies of -1 bytes: %+v %v", r, err)
	}
	if in, err := d.Policy(); err != nil || in.Policy.Limits.BodyBytes != events.DefaultPolicy().Limits.BodyBytes {
		t.Errorf("it is in force: %+v %v, from position %d on", in, err, before)
	}
}

func TestACommandsIDIsAUUID(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	before := d.end()
	for _, id := range []string{"zz", "../../x", "a\x00b", string(make([]byte, 3<<20))} {
		_, r, err := d.Send(ops.SendRequest{Asker: ops.Asker{As: alice, Command: events.CommandID(id)}, To: "@ana", Body: []byte("x")})
		if r == nil || r.Code != commands.BadRequest || err != nil || d.end() != before {
			t.Errorf("the id %.20q: %v %v, and the ledger ends at %d", id, r, err, d.end())
		}
	}
}
