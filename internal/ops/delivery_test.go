package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

const dave = "dddddddd-0000-4000-8000-000000000004"

// running joins a session from a process of its own, and gives it the instruction.
func (d *desk) running(id string, pid int, change ...func(*ops.JoinRequest)) {
	d.t.Helper()
	d.join(id, append([]func(*ops.JoinRequest){func(q *ops.JoinRequest) {
		q.Process = &events.Process{PID: pid, Start: uint64(pid) * 100, Boot: "boot"}
	}}, change...)...)
	d.take(id)
}

// confirms says whether a confirm of the lease is admitted, and demands that it
// is refused as stale otherwise.
func (d *desk) confirms(o ops.Offered) bool {
	d.t.Helper()
	_, r, err := d.Confirm(ops.Asker{}, o.ID)
	if r == nil && err == nil {
		return true
	}
	if r := d.told(commands.StaleLease, r, err); r.Lease != o.ID {
		d.t.Fatalf("the refusal names lease %q", r.Lease)
	}
	return false
}

func TestWhileALeaseRunsNobodyElseIsOfferedThatMailbox(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for i := range 8 {
		d.send(alice, inform(bob, fmt.Sprint("message ", i)))
	}
	first := d.lease(bob)
	if len(first.Messages) != 5 || *first.Until != d.now.Add(10*time.Second) {
		t.Fatalf("leased %+v", first)
	}
	before := d.end()
	d.after(10*time.Second - time.Microsecond)
	if second := d.lease(bob); second.ID != "" || second.Busy == nil || *second.Busy != *first.Until {
		t.Fatalf("a second run was offered %+v", second)
	}
	if d.end() != before {
		t.Fatalf("it recorded %+v", d.recorded(before))
	}
	d.confirm(first)
	if second := d.lease(bob); len(second.Messages) != 3 {
		t.Errorf("after the confirm offered %v", ids(second))
	}
}

// F1, F2: what was printed or not, without a confirm it comes again, marked.
func TestWhatIsNotConfirmedComesAgainAsTheNextAttempt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	one := d.send(alice, inform(bob, "one"))
	first := d.lease(bob)
	d.after(10 * time.Second)
	two := d.send(alice, inform(bob, "two"))
	second := d.lease(bob)
	d.offers(second, one.ID, two.ID)
	if second.ID == first.ID || second.Messages[0].Attempt != 2 || second.Messages[1].Attempt != 1 {
		t.Fatalf("offered %+v", second.Messages)
	}
	if !strings.Contains(second.Text, `attempt="2"`) {
		t.Errorf("the frame does not say so:\n%s", second.Text)
	}
	// By then somebody, here the sender, had seen that the lease ended.
	expired := d.recorded(0, events.TypeLeaseExpired)
	if len(expired) != 1 || expired[0].Event.(events.LeaseExpired).Lease != first.ID || expired[0].Actor != alice {
		t.Errorf("expired %+v", expired)
	}
	d.verified()
}

// F4
func TestAConfirmOfALeaseThatWasOvertakenIsStaleAndChangesNothing(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	one := d.send(alice, inform(bob, "one"))
	first := d.lease(bob)
	d.after(10 * time.Second)
	second := d.lease(bob)
	before := d.end()
	if d.confirms(first) {
		t.Fatal("the older lease was confirmed")
	}
	found := d.recorded(before)
	if len(found) != 1 || found[0].Type() != events.TypeCommandRefused || found[0].Event.(events.CommandRefused).Lease != first.ID {
		t.Errorf("recorded %+v", found)
	}
	d.stands(one.ID, events.StateLeased, "")
	if o := d.lease(bob); o.Busy == nil {
		t.Errorf("the newer lease does not stand: %+v", o)
	}
	d.confirm(second)
	d.stands(one.ID, events.StateDelivered, "")
	d.verified()
}

func TestALateConfirmCountsWhileNobodyElseWasOfferedAnyOfIt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	one := d.send(alice, inform(bob, "one"))
	first := d.lease(bob)
	d.after(time.Hour)
	d.send(alice, inform(bob, "two")) // records that the lease ended
	if len(d.recorded(0, events.TypeLeaseExpired)) != 1 {
		t.Fatal("nobody noticed that the lease ended")
	}
	if !d.confirms(first) {
		t.Fatal("the late confirm was refused")
	}
	d.stands(one.ID, events.StateDelivered, "")
	found := d.recorded(0, events.TypeMailboxConfirmed)
	if len(found) != 1 || !found[0].Event.(events.MailboxConfirmed).Late {
		t.Errorf("confirmed %+v", found)
	}
	view := d.thread(one.Thread)
	if got := view.Messages[0].Deliveries; len(got) != 1 || !got[0].Late || got[0].Confirmed == nil || got[0].Expired == nil {
		t.Errorf("the deliveries are %+v", got)
	}
	d.verified()
}

func TestAConfirmIsRefusedWholeWhenOneOfItsMessagesWasOfferedAgain(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	one := d.send(alice, inform(bob, "one "+strings.Repeat("x", 3000)))
	two := d.send(alice, inform(bob, "two "+strings.Repeat("x", 3000)))
	first := d.lease(bob)
	d.offers(first, one.ID, two.ID)
	d.after(10 * time.Second)
	o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}, Budget: 4000}) // only the first fits
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	d.offers(o, one.ID)
	if d.confirms(first) {
		t.Fatal("confirmed")
	}
	d.stands(two.ID, events.StateQueued, "")
	d.confirm(o)
	d.stands(one.ID, events.StateDelivered, "")
}

func TestAConfirmOfWhatWasGivenUpIsStale(t *testing.T) {
	t.Run("undelivered", func(t *testing.T) {
		d := newDesk(t)
		d.ready(alice, bob)
		one := d.send(alice, inform(bob, "one"))
		var last ops.Offered
		for range 3 {
			last = d.lease(bob)
			d.after(10 * time.Second)
		}
		d.send(alice, inform(bob, "two"))
		d.stands(one.ID, events.StateUndelivered, events.LostUnconfirmed)
		if d.confirms(last) {
			t.Error("confirmed")
		}
		d.stands(one.ID, events.StateUndelivered, events.LostUnconfirmed)
	})
	t.Run("expired", func(t *testing.T) {
		d := newDesk(t)
		d.running(alice, 1)
		d.running(bob, 2)
		one := d.send(alice, inform(bob, "one"))
		d.after(24*time.Hour - time.Second)
		last := d.lease(bob)
		d.after(10*time.Second - time.Microsecond)
		d.send(alice, inform(bob, "two"))
		d.stands(one.ID, events.StateLeased, "") // the lease still runs
		d.after(time.Microsecond)
		d.send(alice, inform(bob, "three"))
		d.stands(one.ID, events.StateExpired, events.LostExpired)
		if d.confirms(last) {
			t.Error("confirmed, though its sender is told that it expired")
		}
	})
}

func TestAConfirmOfAnotherSessionsLeaseIsRefused(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	one := d.send(alice, inform(bob, "one"))
	o := d.lease(bob)
	_, r, err := d.Confirm(ops.Asker{As: carol}, o.ID)
	d.told(commands.NotYours, r, err)
	d.stands(one.ID, events.StateLeased, "")
	if _, r, err := d.Confirm(ops.Asker{As: bob}, o.ID); r != nil || err != nil {
		t.Fatal(r, err)
	}
	// Nor does it get the receipt of the one whose it was.
	_, r, err = d.Confirm(ops.Asker{As: carol}, o.ID)
	d.told(commands.NotYours, r, err)
	_, r, err = d.Confirm(ops.Asker{As: bob}, "no-such-lease")
	d.told(commands.NotFound, r, err)
}

func TestARepeatedConfirmGetsItsFirstReceipt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.send(alice, inform(bob, "one"))
	o := d.lease(bob)
	first, r, err := d.Confirm(ops.Asker{As: bob}, o.ID)
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	d.after(time.Hour)
	d.send(alice, inform(bob, "two"))
	end := d.end()
	again, r, err := d.Confirm(ops.Asker{As: bob}, o.ID)
	if r != nil || err != nil || again != first || d.end() != end {
		t.Errorf("first %+v, then %+v %+v %v", first, again, r, err)
	}
	_, r, err = d.Confirm(ops.Asker{As: bob, Command: d.NewCommand()}, o.ID)
	d.told(commands.StaleLease, r, err)
}

// F5
func TestAfterThreeUnconfirmedLeasesAMessageIsUndeliveredAndItsSenderHearsOfIt(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	one := d.send(alice, inform(bob, "one "+strings.Repeat("x", 3990)))
	two := d.send(alice, inform(bob, "two "+strings.Repeat("x", 3990)))
	for attempt := 1; attempt <= 3; attempt++ {
		o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}, Budget: 4500})
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
		d.offers(o, one.ID)
		if o.Messages[0].Attempt != attempt {
			t.Fatalf("attempt %d is called %d", attempt, o.Messages[0].Attempt)
		}
		d.after(10 * time.Second)
	}
	d.offers(d.take(bob), two.ID)
	d.stands(one.ID, events.StateUndelivered, events.LostUnconfirmed)
	o := d.lease(alice)
	if len(o.Messages) != 0 || len(o.Notices) != 1 {
		t.Fatalf("alice was offered %+v", o)
	}
	if n := o.Notices[0]; n.Message != one.ID || n.Thread != one.Thread || n.To != bob || n.Reason != events.LostUnconfirmed || n.Attempt != 1 {
		t.Errorf("the notice is %+v", n)
	}
	if !strings.Contains(o.Text, string(one.ID)) {
		t.Errorf("the text does not name it:\n%s", o.Text)
	}
	d.confirm(o)
	if o := d.lease(alice); o.ID != "" {
		t.Errorf("told twice: %+v", o)
	}
	d.verified()
}

func TestANoticeIsGivenUpAfterThreeLeasesAndTellsNobody(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.send(alice, inform(bob, "one"))
	for range 3 {
		d.lease(bob)
		d.after(10 * time.Second)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		o := d.lease(alice)
		if len(o.Notices) != 1 || o.Notices[0].Attempt != attempt {
			t.Fatalf("attempt %d offers %+v", attempt, o.Notices)
		}
		d.after(10 * time.Second)
	}
	before := d.end()
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("a fourth time: %+v", o)
	}
	found := d.recorded(before, events.TypeMessageUndelivered)
	if len(found) != 1 || found[0].Event.(events.MessageUndelivered).Kind != events.ItemNotice {
		t.Errorf("recorded %+v", found)
	}
	for _, who := range []string{alice, bob, "@ana"} {
		if o := d.take(who); o.ID != "" {
			t.Errorf("%s is offered %+v", who, o)
		}
	}
	d.verified()
}

// F6
func TestNoAttemptIsCountedWithoutAHookRun(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.running(bob, 2)
	one := d.send(alice, inform(bob, "one"))
	for range 30 {
		d.after(4 * time.Minute)
		if waits, err := d.Waits(ops.LeaseRequest{Asker: ops.Asker{As: bob}}); err != nil || !waits {
			t.Fatal(waits, err)
		}
		d.lease(alice)
		if n := len(d.recorded(0, events.TypeMailboxLeased)); n != 0 {
			t.Fatalf("%d leases", n)
		}
	}
	o := d.lease(bob)
	d.offers(o, one.ID)
	if o.Messages[0].Attempt != 1 {
		t.Errorf("the first attempt is called %d", o.Messages[0].Attempt)
	}
}

// F30
func TestNoJumpOfTheClockLocksAMailboxOrLosesAMessage(t *testing.T) {
	for what, jump := range map[string]time.Duration{"back an hour": -time.Hour, "back a little": -time.Second, "forward a day": 24*time.Hour - time.Minute} {
		t.Run(what, func(t *testing.T) {
			d := newDesk(t)
			d.running(alice, 1)
			d.running(bob, 2)
			d.after(time.Minute)
			one := d.send(alice, inform(bob, "one"))
			first := d.lease(bob)
			d.offers(first, one.ID)
			d.after(jump)
			second := d.lease(bob)
			d.offers(second, one.ID)
			if second.Messages[0].Attempt != 2 {
				t.Errorf("attempt %d", second.Messages[0].Attempt)
			}
			if d.confirms(first) {
				t.Error("the older lease was confirmed")
			}
			d.confirm(second)
			d.stands(one.ID, events.StateDelivered, "")
			d.verified()
		})
	}
}

func TestWhatExpiredBehindWhatDidNotIsNotOffered(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.running(bob, 2)
	first := d.send(alice, inform(bob, "before the clock went back"))
	d.after(-time.Hour)
	second := d.send(alice, inform(bob, "after that"))
	d.after(24 * time.Hour)
	d.offers(d.take(bob), first.ID)
	d.lease(alice)
	d.stands(second.ID, events.StateExpired, events.LostExpired)
	d.verified()
}

func TestAStubFromAheadOfTheClockIsNotHeldBackForEver(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("looking")})
	d.after(-time.Hour)
	if o := d.lease(bob); len(o.Messages) != 1 || !o.Messages[0].Pending {
		t.Errorf("offered %+v", o)
	}
}

func TestTheInstructionComesFirstAndAgainUntilItIsConfirmed(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	d.take(alice)
	d.join(bob)
	one := d.send(alice, inform(bob, "one"))
	for attempt := 1; attempt <= 5; attempt++ { // however often it fails
		o := d.lease(bob)
		if o.Instruction != events.FormFull {
			t.Fatalf("attempt %d: the instruction is %q, messages %v", attempt, o.Instruction, ids(o))
		}
		if attempt <= 3 {
			d.offers(o, one.ID)
			if strings.Index(o.Text, "decklog-instruction") > strings.Index(o.Text, string(one.ID)) {
				t.Errorf("a message comes before it:\n%s", o.Text)
			}
		}
		d.after(10 * time.Second)
	}
	d.take(bob)
	two := d.send(alice, inform(bob, "two"))
	o := d.lease(bob)
	if d.offers(o, two.ID); o.Instruction != "" {
		t.Errorf("it is owed again: %+v", o)
	}
	d.verified()
}

func TestTheInstructionIsOwedAgainInShortAfterTheContextIsLost(t *testing.T) {
	for _, source := range []events.Source{events.SourceCompact, events.SourceClear} {
		t.Run(string(source), func(t *testing.T) {
			d := newDesk(t)
			d.ready(alice, bob)
			again := func(q *ops.JoinRequest) { q.Source = source }
			d.join(bob, again)
			one := d.send(alice, inform(bob, "one"))
			o := d.lease(bob)
			d.offers(o, one.ID)
			if o.Instruction != events.FormShort || !strings.Contains(o.Text, "version 1") {
				t.Fatalf("leased %+v", o)
			}
			d.confirm(o)
			if o := d.lease(bob); o.ID != "" {
				t.Errorf("owed once more: %+v", o)
			}
			for _, kept := range []events.Source{events.SourceResume, events.SourceManual, events.SourceStartup} {
				d.join(bob, func(q *ops.JoinRequest) { q.Source = kept })
				if o := d.lease(bob); o.ID != "" {
					t.Errorf("owed after %s: %+v", kept, o)
				}
			}
			d.verified()
		})
	}
}

// A confirm from before the context was lost says nothing of the one after.
func TestAConfirmFromBeforeTheContextWasLostDoesNotSettleTheInstruction(t *testing.T) {
	for _, leasedAgain := range []bool{false, true} {
		d := newDesk(t)
		d.ready(alice, bob)
		compact := func(q *ops.JoinRequest) { q.Source = events.SourceCompact }
		d.join(bob, compact)
		before := d.lease(bob)
		d.after(time.Second)
		d.join(bob, compact)
		if leasedAgain {
			d.after(10 * time.Second)
			if o := d.lease(bob); o.Instruction != events.FormShort {
				t.Fatalf("leased %+v", o)
			}
		}
		if d.confirms(before) {
			t.Errorf("leased again %t: the confirm from before counts", leasedAgain)
		}
		d.after(10 * time.Second)
		if o := d.take(bob); o.Instruction != events.FormShort {
			t.Errorf("leased again %t: afterwards it is owed %q", leasedAgain, o.Instruction)
		}
		d.verified()
	}
}

func TestAStubIsHeldUntilItIsFinal(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.take(bob)
	working := d.send(bob, stub(asked.ID, "looking"))
	if working.State != events.StateHeld || working.Arrives != events.ArrivesWhenFinal {
		t.Errorf("receipt %+v", working)
	}
	d.stands(working.ID, events.StateHeld, "")
	d.after(179 * time.Second)
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("leased %+v", o)
	}
	d.edit(bob, working.ID, "4f2a9c1", "final")
	d.stands(working.ID, events.StateQueued, "")
	o := d.take(alice)
	d.offers(o, working.ID)
	if m := o.Messages[0]; m.Body != "4f2a9c1" || m.Pending || m.IsEdited || m.Turn != events.Final || m.Attempt != 1 {
		t.Errorf("offered %+v", m)
	}
	if o := d.lease(alice); o.ID != "" {
		t.Errorf("offered twice: %+v", o)
	}
	d.verified()
}

func TestAStubPastItsTimeIsOfferedAsPendingAndOnceMoreWhenItIsFinal(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.take(bob)
	working := d.send(bob, stub(asked.ID, "looking"))
	d.after(180 * time.Second)
	o := d.take(alice)
	d.offers(o, working.ID)
	if m := o.Messages[0]; !m.Pending || m.IsEdited || m.Attempt != 1 {
		t.Fatalf("offered %+v", m)
	}
	d.stands(working.ID, events.StateDelivered, "")
	d.after(time.Hour)
	d.edit(bob, working.ID, "still looking", "") // an edit that leaves the turn is not delivered
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("offered %+v", o)
	}
	d.edit(bob, working.ID, "4f2a9c1", "final")
	o = d.lease(alice)
	d.offers(o, working.ID)
	if m := o.Messages[0]; m.Pending || !m.IsEdited || m.Attempt != 2 || m.Body != "4f2a9c1" {
		t.Fatalf("offered %+v", m)
	}
	if !strings.Contains(o.Text, "edited") {
		t.Errorf("the frame does not say that it was edited:\n%s", o.Text)
	}
	d.after(10 * time.Second)
	o = d.take(alice) // that run never confirmed: still as edited
	if m := o.Messages[0]; !m.IsEdited || m.Attempt != 3 {
		t.Fatalf("offered %+v", m)
	}
	d.edit(bob, working.ID, "4f2a9c1, I am sure", "")
	if o := d.lease(alice); o.ID != "" {
		t.Errorf("a later edit was delivered: %+v", o)
	}
	d.verified()
}

// Whether it was printed as a stub nobody knows when the confirm is missing. The
// recipient may hold the stub, so the answer must not look like a mere repeat.
func TestAStubThatTurnsFinalBeforeItsConfirmComesAsEdited(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		t.Run(fmt.Sprintf("confirmed %t", confirmed), func(t *testing.T) {
			d := newDesk(t)
			d.ready(alice, bob)
			asked := d.send(alice, request(bob, "question"))
			d.take(bob)
			working := d.send(bob, stub(asked.ID, "looking"))
			d.after(180 * time.Second)
			pending := d.lease(alice)
			if d.offers(pending, working.ID); !pending.Messages[0].Pending {
				t.Fatalf("offered %+v", pending.Messages[0])
			}
			d.edit(bob, working.ID, "4f2a9c1", "final")
			if confirmed {
				d.confirm(pending)
			} else {
				d.after(10 * time.Second)
			}
			for attempt := 2; attempt <= 3; attempt++ {
				o := d.lease(alice)
				d.offers(o, working.ID)
				if m := o.Messages[0]; !m.IsEdited || m.Pending || m.Attempt != attempt || m.Body != "4f2a9c1" {
					t.Fatalf("offered %+v", m)
				}
				if attempt == 3 {
					d.confirm(o)
				}
				d.after(10 * time.Second)
			}
			d.stands(working.ID, events.StateDelivered, "")
			if o := d.lease(alice); o.ID != "" {
				t.Errorf("offered once too often: %+v", o)
			}
			d.verified()
		})
	}
}

// An answer that turned final can be lost like any message, and is told like any.
func TestWhatIsOfferedOnceMoreIsToldWhenItIsLost(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.take(bob)
	working := d.send(bob, stub(asked.ID, "looking"))
	d.after(180 * time.Second)
	d.take(alice)
	d.leave(alice)
	d.edit(bob, working.ID, "4f2a9c1", "final")
	d.stands(working.ID, events.StateQueued, "")
	d.after(10 * time.Minute)
	o := d.take(bob)
	d.stands(working.ID, events.StateUndelivered, events.LostSessionEnded)
	if len(o.Notices) != 1 || o.Notices[0].Message != working.ID {
		t.Errorf("bob was offered %+v", o)
	}
	d.verified()
}

func TestWhatIsOfferedOnceMoreToASeatGoesToWhoOccupiesItNow(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(bob)
	d.join(alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.take(alice)
	working := d.send(bob, ops.SendRequest{To: "@smith", Turn: "working", Body: []byte("looking")})
	d.after(180 * time.Second)
	d.offers(d.take(alice), working.ID)
	d.leave(alice)
	d.edit(bob, working.ID, "4f2a9c1", "final")
	d.join(carol, func(q *ops.JoinRequest) { q.Seat = "smith" })
	o := d.take(carol)
	d.offers(o, working.ID)
	d.verified()
}

func TestASeatsMailIsHeldUntilASessionOccupiesIt(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(alice, bob)
	held := d.send(alice, request("@smith", "question"))
	if held.State != events.StateHeld || held.Arrives != events.ArrivesNextSession || held.To.Live {
		t.Errorf("receipt %+v", held)
	}
	if o := d.lease(bob); o.ID != "" {
		t.Fatalf("somebody else was offered %+v", o)
	}
	d.join(bob, func(q *ops.JoinRequest) { q.Seat = "smith" })
	o := d.lease(bob)
	d.offers(o, held.ID)
	taken := d.recorded(0, events.TypeMailboxTaken)
	if len(taken) != 1 || taken[0].Stream != "mailbox-@smith" || taken[0].Event.(events.MailboxTaken).Session != bob {
		t.Errorf("taken %+v", taken)
	}
	if second := d.send(alice, inform("@smith", "more")); second.State != events.StateQueued || second.To.Session != bob {
		t.Errorf("receipt %+v", second)
	}
}

func TestWhatAnEndedSessionHadTakenGoesToTheNext(t *testing.T) {
	for what, end := range map[string]func(d *desk){
		"it left":             func(d *desk) { d.leave(bob) },
		"its process is gone": func(d *desk) { d.dead[2] = true },
		"it was cleared": func(d *desk) {
			d.join(dave, func(q *ops.JoinRequest) {
				q.Source, q.Process = events.SourceClear, &events.Process{PID: 2, Start: 200, Boot: "boot"}
			})
		},
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, its lease runs %t", what, running), func(t *testing.T) {
				d := newDesk(t)
				d.policy.Seats = seats("smith")
				d.running(alice, 1)
				d.running(bob, 2, func(q *ops.JoinRequest) { q.Seat = "smith" })
				sent := d.send(alice, request("@smith", "question"))
				first := d.lease(bob)
				d.offers(first, sent.ID)
				if !running {
					d.after(10 * time.Second)
				}
				end(d)
				next := carol
				if what == "it was cleared" {
					next = dave
				} else {
					d.join(carol, func(q *ops.JoinRequest) { q.Seat = "smith" })
				}
				o := d.lease(next)
				d.offers(o, sent.ID)
				if o.Messages[0].Attempt != 2 {
					t.Errorf("attempt %d", o.Messages[0].Attempt)
				}
				if d.confirms(first) {
					t.Error("the ended session's confirm counts")
				}
				d.confirm(o)
				d.stands(sent.ID, events.StateDelivered, "")
				if n := len(d.recorded(0, events.TypeMailboxReturned)); n != 1 {
					t.Errorf("returned %d times", n)
				}
				d.verified()
			})
		}
	}
}

// persons gives the policy two, of whom ana's sessions work in several places.
func persons(d *desk) {
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "ben", OSUser: "ben"}}
}

func (d *desk) joinOf(user, session string, change ...func(*ops.JoinRequest)) {
	d.t.Helper()
	was := d.World.OSUser
	d.World.OSUser = user
	d.join(session, change...)
	d.World.OSUser = was
}

// of joins a session of a user's, and gives it the instruction.
func (d *desk) of(user, session string, change ...func(*ops.JoinRequest)) {
	d.t.Helper()
	d.joinOf(user, session, change...)
	d.take(session)
}

func TestAPersonsMailIsTakenByOneOfTheirSessions(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.of("ben", bob)
	d.of("ana", alice)
	d.of("ana", carol)
	one := d.send(bob, inform("@ana", "one"))
	first, second := d.lease(carol), d.lease(alice)
	d.offers(first, one.ID)
	if second.ID != "" {
		t.Fatalf("two were offered it: %+v", second)
	}
	two := d.send(bob, inform("@ana", "two"))
	d.offers(d.take(alice), two.ID) // what carol did not take is free
	d.leave(carol)
	d.offers(d.take(alice), one.ID)
	if taken := d.recorded(0, events.TypeMailboxTaken); len(taken) != 3 {
		t.Errorf("taken %+v", taken)
	}
	d.verified()
}

func TestAPersonsMailGoesToTheirSessionOnTheSendersRepository(t *testing.T) {
	d := newDesk(t)
	persons(d)
	in := func(repo string) func(*ops.JoinRequest) { return func(q *ops.JoinRequest) { q.Repo = repo } }
	d.of("ben", bob, in("/w/two"))
	d.of("ana", alice, in("/w/one"))
	d.of("ana", carol, in("/w/two"))
	receipt := d.send(bob, inform("@ana", "one"))
	if receipt.To.Session != carol {
		t.Errorf("the receipt speaks of %s", receipt.To.Session)
	}
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("the session on another repository was offered %+v", o)
	}
	d.offers(d.take(carol), receipt.ID)
	two := d.send(bob, inform("@ana", "two"))
	d.leave(carol)
	d.offers(d.take(alice), two.ID) // else any
	d.leave(alice)
	three := d.send(bob, inform("@ana", "three"))
	if three.State != events.StateHeld || three.Arrives != events.ArrivesNextSession {
		t.Errorf("receipt %+v", three)
	}
	d.of("ana", dave, in("/w/three"))
	if view, r, err := d.Inbox(ops.InboxRequest{As: dave}); r != nil || err != nil || len(view.Messages) != 1 {
		t.Errorf("dave's inbox is %+v, %v %v", view, r, err)
	}
	if m, _ := d.state(three.ID); m != events.StateDelivered {
		t.Errorf("the next session was not offered it: %s", m)
	}
	d.verified()
}

func TestABusySessionOfAPersonIsNamedFirst(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.of("ben", bob)
	d.of("ana", alice)
	d.of("ana", carol)
	d.busy[carol] = d.now
	if receipt := d.send(bob, inform("@ana", "one")); receipt.To.Session != carol || !receipt.To.Busy || receipt.Arrives != events.ArrivesNextToolCall {
		t.Errorf("receipt %+v", receipt)
	}
}

func TestAMessageIsNeverOfferedToItsAuthor(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.policy.Seats = seats("smith")
	d.of("ana", alice)
	mine := d.send(alice, inform("@ana", "to my person"))
	toSeat := d.send(alice, inform("@smith", "to a seat that I take later"))
	d.of("ana", alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("offered %+v", o)
	}
	if view, _, err := d.Inbox(ops.InboxRequest{As: alice}); err != nil || len(view.Messages) != 0 {
		t.Errorf("its inbox is %+v, %v", view.Messages, err)
	}
	d.of("ana", carol)
	if m, _ := d.state(mine.ID); m != events.StateDelivered {
		t.Errorf("the other session was not offered it: %s", m)
	}
	d.stands(toSeat.ID, events.StateHeld, "")
	d.leave(alice)
	d.of("ben", bob, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.stands(toSeat.ID, events.StateDelivered, "")
}

// While the person reads by hand, no session of theirs is offered the same.
func TestAPersonsOwnLeaseKeepsTheirSessionsOut(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.of("ben", bob)
	d.of("ana", alice)
	one := d.send(bob, inform("@ana", "one"))
	mine := d.lease("@ana")
	d.offers(mine, one.ID)
	before := d.end()
	if o := d.lease(alice); o.ID != "" {
		t.Fatalf("while the person's lease runs her session is offered %+v", o)
	}
	if d.end() != before {
		t.Errorf("recorded %+v", d.recorded(before))
	}
	own := d.send(bob, inform(alice, "to the session itself"))
	d.offers(d.take(alice), own.ID)
	d.after(10 * time.Second)
	o := d.take(alice)
	d.offers(o, one.ID)
	if o.Messages[0].Attempt != 2 {
		t.Errorf("attempt %d", o.Messages[0].Attempt)
	}
	if d.confirms(mine) {
		t.Error("the person's confirm counts though another took it")
	}
	d.verified()
}

// The loss of what a person sent is told to the person, once.
func TestAPersonIsToldOfALossOnce(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.of("ana", alice)
	d.of("ben", bob)
	lost := d.send("@ana", inform(bob, "one"))
	d.leave(bob)
	d.after(10 * time.Minute)
	told := 0
	for range 4 {
		for _, who := range []string{"@ana", alice} {
			if o := d.take(who); o.ID != "" {
				told += len(o.Notices)
			}
			d.after(time.Minute)
		}
	}
	d.stands(lost.ID, events.StateUndelivered, events.LostSessionEnded)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	d.verified()
}

func TestAStopIsHeldOnlyForRequestsAndAnswersToOwnRequests(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	told := d.send(alice, inform(bob, "told"))
	d.take(bob)
	stop := func(who string) ops.Offered {
		t.Helper()
		o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}, Stopping: true})
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
		return o
	}
	inf := d.send(bob, inform(alice, "an inform"))
	ack := d.send(bob, reply(told.ID, "an answer to an inform"))
	if o := stop(alice); o.ID != "" {
		t.Fatalf("held for %v", ids(o))
	}
	if waits, err := d.Waits(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Stopping: true}); waits || err != nil {
		t.Errorf("waits %t, %v", waits, err)
	}
	answer := d.send(bob, reply(asked.ID, "the answer"))
	question := d.send(bob, request(alice, "a request"))
	o := stop(alice)
	d.offers(o, answer.ID, question.ID)
	d.after(10 * time.Second) // not confirmed: it was offered, and holds no second stop
	if o := stop(alice); o.ID != "" {
		t.Errorf("held twice, for %v", ids(o))
	}
	d.offers(d.take(alice), inf.ID, ack.ID, answer.ID, question.ID)
	lost := d.send(alice, inform(bob, "to be lost"))
	d.leave(bob)
	d.after(10 * time.Minute)
	if o := stop(alice); o.ID != "" {
		t.Errorf("held for a notice: %+v", o.Notices)
	}
	d.stands(lost.ID, events.StateUndelivered, events.LostSessionEnded)
	if o := d.take(alice); len(o.Notices) != 1 {
		t.Errorf("the next run tells %+v", o)
	}
}

func TestAStopIsNotHeldForTheInstructionAlone(t *testing.T) {
	d := newDesk(t)
	d.join(alice)
	d.ready(bob)
	o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Stopping: true})
	if r != nil || err != nil || o.ID != "" {
		t.Fatalf("held for %+v, %v %v", o, r, err)
	}
	asked := d.send(bob, request(alice, "question"))
	o, r, err = d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: alice}, Stopping: true})
	if r != nil || err != nil || o.Instruction != events.FormFull {
		t.Fatalf("held for %+v, %v %v", o, r, err)
	}
	d.offers(o, asked.ID)
}

func TestALateRunLeasesNothing(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.send(alice, inform(bob, "one"))
	before := d.end()
	o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}, Late: func() bool { return true }})
	if r != nil || err != nil || o.ID != "" || o.Messages == nil || o.Notices == nil || d.end() != before {
		t.Errorf("leased %+v, %v %v", o, r, err)
	}
}

// F7
func TestWhatWasForAnEndedSessionIsLostTenMinutesLaterAndItsSenderIsTold(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.running(bob, 2)
	before := d.send(alice, inform(bob, "before the end"))
	d.dead[2] = true // and no hook says so
	d.after(time.Minute)
	after := d.send(alice, inform(bob, "after the end"))
	left := d.recorded(0, events.TypeSessionLeft)
	if len(left) != 1 || left[0].Event.(events.SessionLeft).Reason != events.EndProcessGone || left[0].Actor != alice {
		t.Fatalf("left %+v", left)
	}
	if after.Arrives != events.ArrivesOnlyIfResumed || after.To.Live || after.State != events.StateQueued {
		t.Errorf("receipt %+v", after)
	}
	d.after(time.Minute)
	last := d.send(alice, inform(bob, "a minute later"))
	d.after(9*time.Minute - time.Microsecond)
	d.lease(alice)
	d.stands(before.ID, events.StateQueued, "")
	d.after(time.Microsecond)
	o := d.take(alice)
	d.stands(before.ID, events.StateUndelivered, events.LostSessionEnded)
	d.stands(after.ID, events.StateUndelivered, events.LostSessionEnded)
	d.stands(last.ID, events.StateQueued, "") // it waits from its own sending
	if len(o.Notices) != 2 || o.Notices[0].Message != before.ID || o.Notices[1].Message != after.ID {
		t.Errorf("told %+v", o.Notices)
	}
	d.after(time.Minute)
	if o := d.take(alice); len(o.Notices) != 1 || o.Notices[0].Message != last.ID {
		t.Errorf("told %+v", o.Notices)
	}
	d.verified()
}

func TestAResumeWithinTheTimeGetsTheMail(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	sent := d.send(alice, inform(bob, "one"))
	d.leave(bob)
	d.after(10*time.Minute - time.Microsecond)
	d.lease(alice)
	d.join(bob, func(q *ops.JoinRequest) { q.Source = events.SourceResume })
	d.after(time.Hour)
	d.lease(alice)
	d.offers(d.take(bob), sent.ID)
	d.stands(sent.ID, events.StateDelivered, "")
}

func TestWithoutABoundOnItAResumeIsWaitedForUntilTheMessageExpires(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.ResumeWithin = 0
	d.running(alice, 1)
	d.running(bob, 2)
	sent := d.send(alice, inform(bob, "one"))
	d.leave(bob)
	d.after(23 * time.Hour)
	d.lease(alice)
	d.stands(sent.ID, events.StateQueued, "")
	d.after(time.Hour)
	d.lease(alice)
	d.stands(sent.ID, events.StateExpired, events.LostExpired)
}

func TestASessionLongUnseenHasEnded(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.join(bob) // without a process
	d.take(bob)
	d.busy[bob] = d.now.Add(time.Hour)
	sent := d.send(alice, inform(bob, "one"))
	d.after(13*time.Hour - time.Microsecond)
	d.lease(alice)
	if n := len(d.recorded(0, events.TypeSessionLeft)); n != 0 {
		t.Fatal("it left too early")
	}
	d.after(time.Microsecond)
	d.lease(alice)
	left := d.recorded(0, events.TypeSessionLeft)
	if len(left) != 1 || left[0].Event.(events.SessionLeft).Reason != events.EndUnseen {
		t.Fatalf("left %+v", left)
	}
	d.after(10 * time.Minute)
	d.lease(alice)
	d.stands(sent.ID, events.StateUndelivered, events.LostSessionEnded)
}

// F8
func TestWhatNobodyTakesWithinADayExpiresAndItsSenderIsTold(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.running(alice, 1)
	d.running(bob, 2)
	toSession := d.send(alice, inform(bob, "to a session"))
	toSeat := d.send(alice, request("@smith", "to a seat"))
	d.after(24*time.Hour - time.Microsecond)
	d.lease(alice)
	d.stands(toSession.ID, events.StateQueued, "")
	d.after(time.Microsecond)
	if o := d.lease(bob); o.ID != "" {
		t.Errorf("what expired is offered: %+v", o)
	}
	o := d.take(alice)
	d.stands(toSession.ID, events.StateExpired, events.LostExpired)
	d.stands(toSeat.ID, events.StateExpired, events.LostExpired)
	if len(o.Notices) != 2 || o.Notices[0].Message != toSession.ID || o.Notices[1].Message != toSeat.ID || o.Notices[0].Reason != events.LostExpired {
		t.Errorf("told %+v", o.Notices)
	}
	d.owes(toSeat.ID) // silence closes nothing
	if view, _, _ := d.Owed(ops.OwedRequest{}); view.Items[0].State != "expired" {
		t.Errorf("owed %+v", view.Items)
	}
	d.verified()
}

// F11
func TestARunTakesFiveAtMostHoweverManyWait(t *testing.T) {
	d := newDesk(t)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate, l.RecipientFull = 0, 0, 0, 0
	d.running(alice, 1)
	d.running(bob, 2)
	var sent []events.MessageID
	for i := range 500 {
		sent = append(sent, d.send(alice, inform(bob, fmt.Sprint("message ", i))).ID)
	}
	d.see(func(s *projections.State) {
		if n := s.Mailbox(bob).Waiting; n != 500 {
			t.Errorf("%d wait", n)
		}
	})
	var got []events.MessageID
	for len(got) < 500 {
		o := d.take(bob)
		if len(o.Messages) != 5 || len(o.Text) > ops.BudgetDefault {
			t.Fatalf("a run was offered %d, in %d bytes", len(o.Messages), len(o.Text))
		}
		got = append(got, ids(o)...)
	}
	if !slices.Equal(got, sent) {
		t.Error("they did not come in order, each once")
	}
	if o := d.take(bob); o.ID != "" {
		t.Errorf("one more: %+v", o)
	}
}

func TestARunKeepsItsBudgetAndAlwaysTakesOne(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	var sent []events.MessageID
	for i := range 4 {
		sent = append(sent, d.send(alice, inform(bob, fmt.Sprint(i)+strings.Repeat("x", 3900))).ID)
	}
	lease := func(budget int) ops.Offered {
		t.Helper()
		o, r, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}, Budget: budget})
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
		d.confirm(o)
		return o
	}
	o := lease(9000)
	if d.offers(o, sent[:2]...); len(o.Text) > 9000 {
		t.Errorf("%d bytes", len(o.Text))
	}
	o = lease(1500)
	if d.offers(o, sent[2]); len(o.Text) > 1500 || !strings.Contains(o.Text, string(sent[2])) {
		t.Errorf("clipped to %d bytes:\n%s", len(o.Text), o.Text)
	}
	d.offers(lease(1), sent[3])
}

// Many notices for a person who never looks must not hide what is for them.
func TestANoticeThatIsForSomebodyElseHidesNothing(t *testing.T) {
	d := newDesk(t)
	persons(d)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate, l.RecipientFull = 0, 0, 0, 0
	d.of("ana", alice)
	d.of("ben", bob)
	for i := range projections.QueueScanMax + 10 {
		d.send("@ana", inform(bob, fmt.Sprint("message ", i)))
	}
	d.leave(bob)
	d.after(10 * time.Minute)
	for range 8 {
		d.send("@ana", inform(alice, fmt.Sprint(d.end()))) // each run notices some
	}
	for len(d.take(alice).Messages) > 0 {
	}
	d.see(func(s *projections.State) {
		n := 0
		s.Queue("@ana", func(projections.Queued) bool { n++; return true })
		if n < projections.QueueScanMax {
			t.Fatalf("only %d notices lie there", n)
		}
	})
	d.of("ben", carol)
	sent := d.send(carol, inform("@ana", "can you see me?"))
	d.offers(d.take(alice), sent.ID)
}

// Several things may have fallen due before anybody ran. Each is judged on what
// those before it made of the message.
func TestWhatFellDueTogetherIsRecordedAsOneStory(t *testing.T) {
	taken := func(t *testing.T, leases int) (*desk, events.MessageID) {
		d := newDesk(t)
		d.policy.Seats = seats("smith")
		d.running(alice, 1)
		d.running(bob, 2, func(q *ops.JoinRequest) { q.Seat = "smith" })
		sent := d.send(alice, request("@smith", "question"))
		for range leases {
			d.offers(d.lease(bob), sent.ID)
			d.after(10 * time.Second)
		}
		d.dead[2] = true
		return d, sent.ID
	}
	t.Run("its taker died, and its time is over", func(t *testing.T) {
		d, id := taken(t, 1)
		d.after(25 * time.Hour)
		o := d.take(alice)
		d.stands(id, events.StateExpired, events.LostExpired)
		if len(o.Notices) != 1 {
			t.Errorf("told %+v", o.Notices)
		}
		expired := d.recorded(0, events.TypeMessageExpired)
		if len(expired) != 1 || expired[0].Stream != "mailbox-@smith" {
			t.Errorf("expired %+v", expired)
		}
		d.verified()
	})
	t.Run("its taker died over the third lease", func(t *testing.T) {
		d, id := taken(t, 3)
		o := d.take(alice)
		d.stands(id, events.StateUndelivered, events.LostUnconfirmed)
		if len(o.Notices) != 1 {
			t.Errorf("told %+v", o.Notices)
		}
		if returned := d.recorded(0, events.TypeMailboxReturned); len(returned) != 0 {
			t.Errorf("what was given up is said to be returned: %+v", returned)
		}
		d.verified()
	})
}

// However much of what a sender sent waits for others, it hears of a loss.
func TestALossIsToldHoweverMuchElseIsStillOnItsWay(t *testing.T) {
	d := newDesk(t)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate, l.RecipientFull = 0, 0, 0, 0
	d.running(alice, 1)
	d.running(bob, 2)
	d.running(carol, 3)
	for i := range 4 * commands.DueMax {
		d.send(alice, inform(bob, fmt.Sprint("message ", i)))
	}
	lost := d.send(alice, inform(carol, "the last"))
	d.dead[3] = true
	d.take(alice)
	d.after(10 * time.Minute)
	if o := d.take(alice); len(o.Notices) != 1 || o.Notices[0].Message != lost.ID {
		t.Errorf("told %+v", o.Notices)
	}
}

// A run records a bounded part of what is due, and the next ones the rest.
func TestARunRecordsABoundedPartOfWhatIsDue(t *testing.T) {
	d := newDesk(t)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate, l.RecipientFull = 0, 0, 0, 0
	d.running(alice, 1)
	d.running(bob, 2)
	const n = 1500
	for i := range n {
		d.send(alice, inform(bob, fmt.Sprint("message ", i)))
	}
	d.after(25 * time.Hour)
	runs := 0
	for {
		before := d.end()
		d.lease(bob)
		found := len(d.recorded(before, events.TypeMessageExpired))
		if found == 0 {
			break
		}
		if runs++; found > 4*commands.DueMax {
			t.Fatalf("one run recorded %d", found)
		}
	}
	if expired := d.recorded(0, events.TypeMessageExpired); len(expired) != n || runs < 3 {
		t.Errorf("%d expired, in %d runs", len(expired), runs)
	}
	d.verified()
}

func TestLossesAreToldTheOldestFirst(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.running(alice, 1)
	d.running(bob, 2)
	first := d.send(alice, inform(bob, "one"))
	second := d.send(alice, inform("@smith", "two"))
	third := d.send(alice, inform(bob, "three"))
	d.after(25 * time.Hour)
	var told []events.MessageID
	for _, n := range d.take(alice).Notices {
		told = append(told, n.Message)
	}
	if !slices.Equal(told, []events.MessageID{first.ID, second.ID, third.ID}) {
		t.Errorf("told %v", told)
	}
}

// Who is a seat's session and a person's at once has one context, and reads a
// message once that went to both.
func TestWhoIsSeatAndPersonAtOnceReadsAMessageOnce(t *testing.T) {
	d := newDesk(t)
	persons(d)
	d.policy.Seats = seats("smith", "trinity")
	d.of("ben", bob, on("trinity"))
	d.of("ana", alice, on("smith"))
	d.of("ana", carol)
	sent := d.send(bob, inform("@ana", "for you, and @smith has to know"))
	d.after(time.Second)
	d.offers(d.take(alice), sent.ID)
	d.after(11 * time.Second)
	d.offers(d.lease(alice))
	d.offers(d.lease(carol)) // nor does another of the person's sessions
	d.see(func(s *projections.State) {
		for _, copied := range s.Message(sent.ID).Deliveries {
			if copied.State != events.StateDelivered {
				t.Errorf("the copy for %s is %s", copied.To, copied.State)
			}
		}
		for _, box := range []events.Participant{"@ana", "@smith", alice} {
			if n := s.Mailbox(box).Waiting; n != 0 {
				t.Errorf("%d wait for %s", n, box)
			}
		}
	})
	d.verified()
}
