package ops_test

import (
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// A process that died is noticed by whoever runs while something waits for its
// seat; from then on the seat has had no live session, and half an hour later it
// is absent. Before, nobody knows since when it is empty.
func TestASeatWhoseProcessDiedIsAbsentHalfAnHourAfterThatWasNoticed(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = []events.Seat{{Name: "smith"}}
	d.ready(alice)
	d.join(bob, func(q *ops.JoinRequest) { q.Seat, q.Process = "smith", &events.Process{PID: 7, Start: 1, Boot: "b"} })
	d.take(bob)
	d.send(alice, request("@smith", "Is anybody there?"))
	d.after(time.Hour)
	before := d.end()
	d.lease(alice)
	if found := d.recorded(before, events.TypeSeatAbsent, events.TypeSessionLeft); len(found) > 0 {
		t.Fatalf("a live session: %+v", found)
	}
	d.dead[7] = true
	d.lease(alice)
	noticed := d.now
	d.after(30*time.Minute - time.Microsecond)
	d.lease(alice)
	left := d.recorded(before, events.TypeSessionLeft)
	if len(left) != 1 || left[0].Event.(events.SessionLeft).Reason != events.EndProcessGone || len(d.recorded(before, events.TypeSeatAbsent)) > 0 {
		t.Fatalf("left %+v, absent %+v", left, d.recorded(before, events.TypeSeatAbsent))
	}
	d.after(time.Microsecond)
	d.lease(alice)
	d.lease(alice)
	absent := d.recorded(before, events.TypeSeatAbsent)
	if len(absent) != 1 || absent[0].Event.(events.SeatAbsent).Since != noticed {
		t.Fatalf("absent %+v, noticed %s", absent, noticed)
	}
	d.verified()
}

// What an owner is called for lies in the person's mailbox: one of the person's
// sessions takes it, and while that one has it no other is offered it.
func TestACallToAPersonIsOfferedToOneOfTheirSessionsAtATime(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.policy.Limits.AbsentAfter = 0
	d.policy.Persons[0].Roles = []string{commands.RoleOwner}
	owner := d.policy.Persons[0]
	d.of(owner.OSUser, alice)
	d.of(owner.OSUser, carol)
	d.of(d.policy.Persons[1].OSUser, bob)
	d.send(alice, request(bob, "When?"))
	d.take(bob)
	for range 4 {
		d.after(30 * time.Minute)
		d.take(bob)
	}
	first := d.lease(alice)
	if len(first.Calls) != 1 || first.Calls[0].What != events.TypeOwedPaged || first.Calls[0].To != events.Named(owner.Name) {
		t.Fatalf("the one is offered %+v", first.Calls)
	}
	if second := d.lease(carol); len(second.Calls) != 0 {
		t.Fatalf("the other is offered %+v meanwhile", second.Calls)
	}
	d.after(11 * time.Second)
	second := d.lease(carol)
	if len(second.Calls) != 1 || second.Calls[0].Attempt != 2 {
		t.Fatalf("the other is offered %+v", second.Calls)
	}
	_, r, err := d.Confirm(ops.Asker{}, first.ID)
	d.told(commands.StaleLease, r, err)
	d.confirm(second)
	d.after(time.Minute)
	for _, who := range []string{alice, carol} {
		if again := d.take(who); len(again.Calls) != 0 {
			t.Errorf("%s is offered it again: %+v", who, again.Calls)
		}
	}
	d.verified()
}
