package ops_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

func TestTheSameMessageWithinTenMinutesIsADuplicate(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	first := d.send(alice, inform(bob, "the tests pass\r\n"))
	d.after(10*time.Minute - time.Microsecond)
	// Another spelling of the same: what counts is what was kept.
	r := d.refused(alice, commands.Duplicate, inform(bob[:8], "the tests\x00 pass\n"))
	if r.MessageID != first.ID || r.Thread != first.Thread || !strings.Contains(r.Message, string(first.ID)) {
		t.Errorf("the refusal names %s: %s", r.MessageID, r.Message)
	}
	d.send(carol, inform(bob, "the tests pass\n")) // of another sender
	d.after(time.Microsecond)
	again := d.send(alice, inform(bob, "the tests pass\n"))
	if again.ResendOf != "" {
		t.Errorf("a copy that is on its way is said to be lost: %+v", again)
	}
	d.after(-time.Hour) // a clock that went back finds no duplicate that lies ahead
	d.send(alice, inform(bob, "the tests pass\n"))
	d.verified()
}

func TestAnotherIntentThreadRecipientOrRefIsNoDuplicate(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	one := d.send(bob, request(alice, "first question"))
	two := d.send(bob, request(alice, "second question"))
	const text = "see the log"
	d.send(alice, inform(bob, text))
	for what, q := range map[string]ops.SendRequest{
		"another recipient":  inform(carol, text),
		"another intent":     request(bob, text),
		"a ref":              {To: bob, Body: []byte(text), Refs: []string{"file:a.log"}},
		"another ref":        {To: bob, Body: []byte(text), Refs: []string{"file:b.log"}},
		"refs turned round":  {To: bob, Body: []byte(text), Refs: []string{"file:b.log", "file:a.log"}},
		"and back":           {To: bob, Body: []byte(text), Refs: []string{"file:a.log", "file:b.log"}},
		"one thread":         reply(one.ID, text), // F15
		"another thread":     reply(two.ID, text),
		"another word":       inform(bob, text+"."),
		"a person's address": inform("@ana", text),
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			d.send(alice, q)
			d.refused(alice, commands.Duplicate, q)
		})
	}
}

func TestACopyOfALostMessageIsAdmittedAndLinked(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	first := d.send(alice, inform(bob, "text"))
	d.leave(bob)
	d.after(10 * time.Minute)
	second := d.send(alice, inform(bob, "text")) // this send notices that the first was lost
	d.stands(first.ID, events.StateUndelivered, events.LostSessionEnded)
	if second.ResendOf != first.ID {
		t.Fatalf("it is linked to %q, not to %s", second.ResendOf, first.ID)
	}
	d.refused(alice, commands.Duplicate, inform(bob, "text"))
	d.after(25 * time.Hour)
	d.join(alice)
	third := d.send(alice, inform(bob, "text"))
	if third.ResendOf != second.ID {
		t.Errorf("it is linked to %q, not to %s", third.ResendOf, second.ID)
	}
	d.verified()
}

func TestACopyOfADeletedMessageIsNoDuplicate(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	first := d.send(alice, inform(bob, "text"))
	if _, r, err := d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: string(first.ID)}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if second := d.send(alice, inform(bob, "text")); second.ResendOf != "" {
		t.Errorf("a copy of what was deleted is linked to it: %+v", second)
	}
}

func TestAKeyAnsweredOnceIsAnsweredTheSameAgain(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	asked := d.send(bob, request(alice, "question"))
	for what, q := range map[string]ops.SendRequest{
		"a root":           {To: bob, Body: []byte("with a key"), Key: "k1", Intent: "request", Refs: []string{"commit:4f2a9c1"}},
		"a reply":          {ReplyTo: string(asked.ID), Body: []byte("with a key"), Key: "k2"},
		"by a prefix":      {ReplyTo: string(asked.ID)[:8], To: bob[:8], Body: []byte("once more"), Key: "k3"},
		"one that closes":  {To: carol, Body: []byte("all done"), Key: "k4", Intent: "done"},
		"one with masks":   {To: bob, Body: []byte("token ghp_" + strings.Repeat("a1B2c3", 6)), Key: "k5"},
		"one that is held": {To: bob, Body: []byte("on it"), Key: "k6", Turn: "working"},
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			first := d.send(alice, q)
			end := d.end()
			d.busy[bob] = d.now // what is observed now is another matter
			d.after(time.Minute)
			for range 3 {
				if again := d.send(alice, q); !reflect.DeepEqual(again, first) {
					t.Fatalf("answered\n%+v\nthen\n%+v", first, again)
				}
			}
			if d.end() != end {
				t.Errorf("repeating recorded %d events", d.end()-end)
			}
		})
	}
	d.t = t
	d.verified()
}

func TestAKeyForSomethingElseIsRefusedAndTheFirstStands(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	q := ops.SendRequest{To: bob, Body: []byte("text"), Key: "k", Refs: []string{"file:a"}}
	first := d.send(alice, q)
	other := d.send(bob, request(alice, "question"))
	for what, change := range map[string]func(*ops.SendRequest){
		"another body":      func(q *ops.SendRequest) { q.Body = []byte("texT") },
		"another recipient": func(q *ops.SendRequest) { q.To = carol },
		"another intent":    func(q *ops.SendRequest) { q.Intent = "request" },
		"another turn":      func(q *ops.SendRequest) { q.Turn = "working" },
		"other refs":        func(q *ops.SendRequest) { q.Refs = nil },
		"a parent":          func(q *ops.SendRequest) { q.ReplyTo = string(other.ID) },
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			changed := q
			change(&changed)
			if r := d.refused(alice, commands.KeyReused, changed); r.MessageID != first.ID || !strings.Contains(r.Message, `"k"`) {
				t.Errorf("the refusal is %+v", r)
			}
			if again := d.send(alice, q); !reflect.DeepEqual(again, first) {
				t.Errorf("the first receipt became %+v", again)
			}
		})
	}
	d.t = t
	if theirs := d.send(carol, q); theirs.ID == first.ID {
		t.Error("the key of another sender is the same key")
	}
}

func TestAKeyIsFreeAfterARefusalAndHoldsAfterAnEdit(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.refused(alice, commands.UnknownRecipient, ops.SendRequest{To: "carol-is-not-here", Body: []byte("text"), Key: "k"})
	q := ops.SendRequest{To: bob, Body: []byte("another text"), Key: "k"}
	first := d.send(alice, q)
	if _, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(first.ID), Body: []byte("edited")}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if again := d.send(alice, q); !reflect.DeepEqual(again, first) {
		t.Errorf("after an edit the receipt is %+v, and was %+v", again, first)
	}
	d.refused(alice, commands.KeyReused, ops.SendRequest{To: bob, Body: []byte("edited"), Key: "k"})
	if _, r, err := d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: string(first.ID)}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if again := d.send(alice, q); !reflect.DeepEqual(again, first) {
		t.Errorf("after the deletion the receipt is %+v, and was %+v", again, first)
	}
	d.refused(alice, commands.KeyReused, ops.SendRequest{To: bob, Body: []byte("something longer than it was"), Key: "k"})
}

// F17: what refused a message binds nothing once it is gone.
func TestARefusalPoisonsNothing(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate = 3
	d.ready(alice, bob)
	command := d.NewCommand()
	q := ops.SendRequest{Asker: ops.Asker{Command: command}, To: carol, Body: []byte("welcome")}
	for range 5 {
		d.refused(alice, commands.UnknownRecipient, q)
	}
	d.join(carol)
	receipt := d.send(alice, q)
	if again := d.send(alice, q); again.ID != receipt.ID {
		t.Errorf("the same command sent %s and %s", receipt.ID, again.ID)
	}
	d.send(alice, inform(bob, "2"))
	d.send(alice, inform(bob, "3"))
	d.refused(alice, commands.SessionRate, inform(bob, "4")) // five refusals were no sends
	refusals := d.recorded(0, events.TypeCommandRefused)
	if len(refusals) != 6 {
		t.Errorf("%d refusals are recorded", len(refusals))
	}
	for i, r := range refusals {
		e := r.Event.(events.CommandRefused)
		if r.Stream != events.SessionStream(alice) || r.Actor != alice || e.By != alice || e.Command != "send" || e.Says == "" || e.Status != commands.Code(e.Code).Status() {
			t.Errorf("refusal %d in %s is %+v", i, r.Stream, e)
		}
		if i < 5 && (r.Cause.Command != command || e.To != carol) {
			t.Errorf("refusal %d is of command %s to %q", i, r.Cause.Command, e.To)
		}
	}
	d.verified()
}

// A command whose sender was not known yet is refused in the machine's stream,
// and refused again, for another reason, in the sender's own: two events, also
// when they have the same revision in their streams.
func TestACommandMayBeRefusedInTwoStreams(t *testing.T) {
	d := newDesk(t)
	q := ops.SendRequest{Asker: ops.Asker{Command: d.NewCommand()}, To: "nobody-here", Body: []byte("text")}
	d.refused("somebody", commands.SenderNotLive, inform(alice, "text"))
	d.refused(alice, commands.SenderNotLive, q)
	d.join(alice)
	d.refused(alice, commands.UnknownRecipient, q)
	found := d.recorded(0, events.TypeCommandRefused)
	if len(found) != 3 || found[1].Revision != found[2].Revision || found[1].Stream == found[2].Stream {
		t.Fatalf("recorded %+v", found)
	}
	d.verified()
}

func TestARefusalLiesWhereItsCallerIsKnown(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}}
	d.ready(alice, bob)
	d.leave(bob)
	for _, c := range []struct {
		from, stream string
		code         commands.Code
	}{
		{alice, "session-" + alice, commands.UnknownRecipient},
		{bob, "session-" + bob, commands.SenderNotLive},
		{"@smith", "seat-smith", commands.SenderNotLive},
		{"@ana", "person-ana", commands.UnknownRecipient},
		{"", "person-ana", commands.UnknownRecipient},
		{"@nobody", "device-deck", commands.SenderNotLive},
		{"who-is-this", "device-deck", commands.SenderNotLive},
		{"bot:ci", "device-deck", commands.NoCaller},
	} {
		before := d.end()
		d.refused(c.from, c.code, inform("nobody-here", "text"))
		found := d.recorded(before)
		if len(found) != 1 || string(found[0].Stream) != c.stream {
			t.Errorf("the refusal of %q is recorded as %+v, want one in %s", c.from, found, c.stream)
		}
	}
}

func TestOfManyRefusalsAMinuteSixtyAreRecordedAndTheRestIsOneEvent(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	before := d.end()
	bad := inform("nobody-here", "text")
	for range 60 {
		d.refused(alice, commands.UnknownRecipient, bad)
	}
	if n := len(d.recorded(before)); n != 60 {
		t.Fatalf("of 60 refusals %d are recorded", n)
	}
	flooded := d.end()
	for range 40 {
		d.after(time.Second)
		if r := d.refused(alice, commands.UnknownRecipient, bad); r.Message == "" {
			t.Fatal("one beyond is not answered")
		}
	}
	if d.end() != flooded {
		t.Fatalf("%d refusals beyond the bound are recorded", d.end()-flooded)
	}
	d.refused(bob, commands.UnknownRecipient, bad) // another's are recorded
	d.send(alice, inform(bob, "an admitted one"))
	if n := len(d.recorded(flooded, events.TypeCommandRefused)); n != 1 {
		t.Fatalf("within the minute %d events were recorded", n)
	}
	flooded = d.end()
	d.after(21 * time.Second) // a minute since the first that was counted
	d.send(alice, inform(bob, "another admitted one"))
	found := d.recorded(flooded, events.TypeCommandRefused)
	if len(found) != 1 || found[0].Stream != events.SessionStream(alice) || found[0].Event.(events.CommandRefused).Counted != 40 {
		t.Fatalf("when the minute is over %+v is recorded", found)
	}
	flooded = d.end()
	d.after(2 * time.Minute)
	d.refused(alice, commands.UnknownRecipient, bad)
	if n := len(d.recorded(flooded)); n != 1 {
		t.Errorf("later a refusal is recorded as %d events", n)
	}
	d.verified()
}

func TestARefusalOfTheUnknownIsCountedByMachine(t *testing.T) {
	d := newDesk(t)
	d.ready(alice)
	before := d.end()
	for i := range 70 {
		d.refused(fmt.Sprintf("unknown-%d", i), commands.SenderNotLive, inform(alice, "text"))
	}
	if n := len(d.recorded(before)); n != 60 {
		t.Errorf("of 70 refusals of nobody known %d are recorded", n)
	}
}

func TestWhatARefusalRecordsIsBounded(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	long := strings.Repeat("long ", 100_000)
	d.refused(alice, commands.BadRequest, ops.SendRequest{To: bob, Intent: long, Body: []byte("x")})
	d.refused(alice, commands.BadRequest, ops.SendRequest{To: bob, Turn: long, Body: []byte("x")})
	d.refused(alice, commands.BadRequest, ops.SendRequest{To: long, Body: []byte("x")})
	d.refused(alice, commands.BadRequest, ops.SendRequest{ReplyTo: long, Body: []byte("x")})
	d.refused("nobody "+long, commands.SenderNotLive, inform(bob, "x"))
	d.refused("bot:"+long, commands.NoCaller, inform(bob, "x"))
	_, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: long, Body: []byte("x")})
	d.told(commands.NotFound, r, err)
	_, r, err = d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: "a message", Turn: long})
	d.told(commands.BadRequest, r, err)
	_, r, err = d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: long})
	d.told(commands.NotFound, r, err)
	_, r, err = d.Confirm(ops.Asker{As: alice}, events.LeaseID(long))
	d.told(commands.NotFound, r, err)
	_, r, err = d.Leave(ops.LeaveRequest{Asker: ops.Asker{As: alice}, Session: long})
	d.told(commands.NotFound, r, err)
	_, r, err = d.Join(ops.JoinRequest{Session: "s-" + long})
	d.told(commands.BadRequest, r, err)
	_, r, err = d.Join(ops.JoinRequest{Session: "session", Seat: long})
	d.told(commands.BadRequest, r, err)
	refusals := d.recorded(0, events.TypeCommandRefused)
	if len(refusals) != 13 {
		t.Errorf("%d refusals are recorded", len(refusals))
	}
	for _, r := range refusals {
		if len(r.Data) > 4096 {
			t.Errorf("a refusal of %d bytes: %.200s", len(r.Data), r.Data)
		}
	}
}

func TestABodyNeverLiesInAnEventOrARow(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	const secret = "xyzzy-plugh"
	sent := d.send(alice, request(bob, secret))
	d.take(bob)
	d.refused(alice, commands.Duplicate, request(bob, secret))
	d.refused(alice, commands.BadRequest, ops.SendRequest{To: bob, Intent: "no such", Body: []byte(secret)})
	d.send(bob, reply(sent.ID, "answer "+secret))
	if _, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID), Body: []byte("edited " + secret)}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	err := d.Ledger.View(func(r events.Reader) error {
		all, err := r.All(1, 1000)
		for _, e := range all {
			if strings.Contains(string(e.Data), secret) {
				t.Errorf("event %d holds it: %s", e.Position, e.Data)
			}
		}
		if err != nil {
			return err
		}
		return r.Rows().Scan("", "", false, func(k string, v []byte) bool {
			if strings.Contains(k+string(v), secret) {
				t.Errorf("row %q holds it: %s", k, v)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACommandsIDIsNotUsedForAnotherCommand(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, inform(bob, "text"))
	asker := func() ops.Asker { return ops.Asker{As: alice, Command: d.NewCommand()} }

	used := asker()
	d.send(alice, ops.SendRequest{Asker: used, To: bob, Body: []byte("by that command")})
	used.As = alice
	_, r, err := d.Edit(ops.EditRequest{Asker: used, Message: string(sent.ID), Body: []byte("edited")})
	d.told(commands.KeyReused, r, err)
	_, r, err = d.Delete(ops.DeleteRequest{Asker: used, Message: string(sent.ID)})
	d.told(commands.KeyReused, r, err)
	_, r, err = d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob, Command: used.Command}})
	d.told(commands.KeyReused, r, err)
	_, r, err = d.Join(ops.JoinRequest{Asker: used, Session: carol})
	d.told(commands.KeyReused, r, err)
	_, r, err = d.Leave(ops.LeaveRequest{Asker: used, Session: alice})
	d.told(commands.KeyReused, r, err)
	other := d.policy
	other.Limits.Hops++
	_, r, err = d.AdoptPolicy(ops.Asker{As: "@ana", Command: used.Command}, other)
	d.told(commands.KeyReused, r, err)

	used = asker()
	if _, r, err := d.Edit(ops.EditRequest{Asker: used, Message: string(sent.ID), Body: []byte("edited")}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	d.refused(alice, commands.KeyReused, ops.SendRequest{Asker: used, To: bob, Body: []byte("text")})
	d.verified()
}

func TestEveryCommandAnswersTheSameIDWithTheSameReceipt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("text")})
	d.send(alice, inform(bob, "more"))
	twice := func(what string, run func(ops.Asker) (any, *commands.Refusal, error)) {
		t.Helper()
		a := ops.Asker{As: alice, Command: d.NewCommand()}
		first, r, err := run(a)
		if r != nil || err != nil {
			t.Fatalf("%s: %+v %v", what, r, err)
		}
		end := d.end()
		d.after(time.Second)
		again, r, err := run(a)
		if r != nil || err != nil || !reflect.DeepEqual(again, first) || d.end() != end {
			t.Errorf("%s answered\n%+v\nthen\n%+v, %+v, %v, and recorded %d events", what, first, again, r, err, d.end()-end)
		}
	}
	twice("edit", func(a ops.Asker) (any, *commands.Refusal, error) {
		return three(d.Edit(ops.EditRequest{Asker: a, Message: string(sent.ID), Body: []byte("token ghp_" + strings.Repeat("a1B2c3", 6)), Turn: "final"}))
	})
	twice("lease", func(a ops.Asker) (any, *commands.Refusal, error) {
		a.As = bob
		return three(d.Lease(ops.LeaseRequest{Asker: a}))
	})
	twice("delete", func(a ops.Asker) (any, *commands.Refusal, error) {
		return three(d.Delete(ops.DeleteRequest{Asker: a, Message: string(sent.ID)}))
	})
	twice("join", func(a ops.Asker) (any, *commands.Refusal, error) {
		return three(d.Join(ops.JoinRequest{Asker: a, Session: carol, Seat: "smith"}))
	})
	twice("leave", func(a ops.Asker) (any, *commands.Refusal, error) {
		a.As = carol
		return three(d.Leave(ops.LeaveRequest{Asker: a, Session: carol, Reason: events.EndLeft, FreesSeat: true}))
	})
	d.policy.Limits.Refs = 3
	twice("policy adopt", func(a ops.Asker) (any, *commands.Refusal, error) {
		a.As = "@ana"
		return three(d.AdoptPolicy(a, d.policy))
	})
	d.verified()
}

func three[T any](receipt T, r *commands.Refusal, err error) (any, *commands.Refusal, error) {
	return receipt, r, err
}
