package ops_test

import (
	"reflect"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

func from(pid int, start uint64) func(*ops.JoinRequest) {
	return func(q *ops.JoinRequest) { q.Process = &events.Process{PID: pid, Start: start, Boot: "boot"} }
}

func by(source events.Source) func(*ops.JoinRequest) {
	return func(q *ops.JoinRequest) { q.Source = source }
}

func on(seat string) func(*ops.JoinRequest) { return func(q *ops.JoinRequest) { q.Seat = seat } }

func (d *desk) session(id string) (row projections.Session) {
	d.t.Helper()
	d.see(func(s *projections.State) {
		if found := s.Session(events.SessionID(id)); found != nil {
			row = *found
		}
	})
	return row
}

func (d *desk) occupant(seat string) (id events.SessionID) {
	d.t.Helper()
	d.see(func(s *projections.State) {
		if row := s.Seat(seat); row != nil {
			id = row.Occupant
		}
	})
	return id
}

func TestJoiningAsOneIsChangesNothing(t *testing.T) {
	d := newDesk(t)
	d.join(alice, from(1, 10), on("smith"))
	before := d.end()
	d.join(alice, from(1, 10), on("smith"))
	d.join(alice, from(1, 10))
	d.join(alice, from(1, 10), by(events.SourceResume))
	if _, r, err := d.Join(ops.JoinRequest{Session: alice}); r != nil || err != nil { // by hand, saying less
		t.Fatal(r, err)
	}
	if d.end() != before {
		t.Errorf("recorded %+v", d.recorded(before))
	}
	d.join(alice, from(1, 10), func(q *ops.JoinRequest) { q.Branch = "other" })
	if row := d.session(alice); row.Branch != "other" || row.Joins != 2 || row.Seat != "smith" {
		t.Errorf("the session is %+v", row)
	}
}

// F36: a harness may say anything; what is not text is shown as such, and a
// session that says the same again is not another.
func TestWhatIsNoTextInASessionsAttributesIsReplacedOnce(t *testing.T) {
	d := newDesk(t)
	odd := func(q *ops.JoinRequest) { q.Cwd, q.Title = "/w/caf\xe9", "a\xff\xfeb \"quoted\"\nline" }
	d.join(alice, odd)
	before := d.end()
	d.join(alice, odd)
	if d.end() != before {
		t.Errorf("recorded again: %+v", d.recorded(before))
	}
	if row := d.session(alice); row.Cwd != "/w/caf\ufffd" || row.Title != "a\ufffdb \"quoted\"\nline" {
		t.Errorf("the session is %+v", row)
	}
}

// F20
func TestASeatIsTakenByOneAndTheOtherIsNamedTheWinner(t *testing.T) {
	d := newDesk(t)
	d.join(alice, from(1, 10), on("smith"))
	_, r, err := d.Join(ops.JoinRequest{Session: bob, Seat: "smith", Harness: "codex"})
	d.told(commands.SeatIsTaken, r, err)
	if len(r.Candidates) != 1 || r.Candidates[0].Session != alice || !r.Candidates[0].Live {
		t.Errorf("the refusal names %+v", r.Candidates)
	}
	if row := d.session(bob); row.Joins != 0 {
		t.Errorf("who was refused joined: %+v", row)
	}
	d.dead[1] = true
	d.join(bob, from(2, 20), on("smith"))
	if d.occupant("smith") != bob {
		t.Errorf("the seat is %s's", d.occupant("smith"))
	}
	taken := d.recorded(0, events.TypeSeatTaken)
	if len(taken) != 2 || taken[1].Event.(events.SeatTaken).From != alice || taken[1].Event.(events.SeatTaken).Protocol != events.Protocol {
		t.Errorf("taken %+v", taken)
	}
	if row := d.session(alice); row.Seat != "" || row.Left == nil || row.Reason != events.EndProcessGone {
		t.Errorf("who had it is %+v", row)
	}
	d.join(alice, from(3, 30))
	if d.occupant("smith") != bob {
		t.Error("it comes back with its former occupant")
	}
	d.verified()
}

func TestASeatIsKeptUntilItsSessionLeavesItOrAnotherComes(t *testing.T) {
	d := newDesk(t)
	d.join(alice, from(1, 10), on("smith"))
	d.leave(alice)
	if d.occupant("smith") != alice {
		t.Error("a session that ended lost its seat")
	}
	d.join(alice, from(2, 20), by(events.SourceResume))
	if row := d.session(alice); row.Seat != "smith" {
		t.Errorf("resumed it is %+v", row)
	}
	if _, r, err := d.Leave(ops.LeaveRequest{Session: alice, Reason: events.EndLeft, FreesSeat: true}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if d.occupant("smith") != "" {
		t.Error("a session that left its seat has it")
	}
	d.join(alice, on("smith"))
	d.join(alice, on("trinity"))
	if d.occupant("smith") != "" || d.occupant("trinity") != alice {
		t.Errorf("two seats are %q's and %q's", d.occupant("smith"), d.occupant("trinity"))
	}
	d.verified()
}

func TestARosterSaysWhichSeatsThereAre(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	_, r, err := d.Join(ops.JoinRequest{Session: alice, Seat: "trinity"})
	d.told(commands.NoSuchSeat, r, err)
	d.join(alice, on("smith"))
	for _, bad := range []string{"a b", "@smith", "a/b", "a\nb"} {
		_, r, err = d.Join(ops.JoinRequest{Session: bob, Seat: bad})
		d.told(commands.BadRequest, r, err)
	}
}

// F26
func TestASeatPassesToWhoFollowsInTheSameProcess(t *testing.T) {
	for _, c := range []struct {
		what   string
		before func(*desk)
		change func(*ops.JoinRequest)
		passes bool
		ended  events.EndReason
	}{
		{"cleared", func(*desk) {}, by(events.SourceClear), true, events.EndCleared},
		{"ended first, then started", func(d *desk) { d.leave(alice) }, by(events.SourceStartup), true, events.EndLeft},
		{"another session of one process", func(*desk) {}, by(events.SourceStartup), false, ""},
		{"a fork", func(d *desk) { d.leave(alice) }, by(events.SourceFork), false, events.EndLeft},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			d.join(alice, from(1, 10), on("smith"))
			c.before(d)
			d.join(bob, from(1, 10), c.change)
			if passed := d.occupant("smith") == bob; passed != c.passes {
				t.Errorf("the seat is %s's", d.occupant("smith"))
			}
			if row := d.session(alice); row.Reason != c.ended || (row.Left == nil) != (c.ended == "") {
				t.Errorf("the one before is %+v", row)
			}
			d.verified()
		})
	}
	t.Run("a pid that was used again", func(t *testing.T) { // F28
		d := newDesk(t)
		d.join(alice, from(1, 10), on("smith"))
		d.leave(alice)
		d.join(bob, from(1, 99), by(events.SourceClear))
		if d.occupant("smith") != alice || d.session(bob).Seat != "" {
			t.Error("the seat passed on to a process that only has the same number")
		}
	})
}

func TestMailFollowsAResumeAndNotAFork(t *testing.T) {
	d := newDesk(t)
	d.ready(alice)
	d.join(bob, from(1, 10))
	sent := d.send(alice, inform(bob, "for bob"))
	d.join(carol, from(1, 10), by(events.SourceFork))
	d.take(carol)
	d.stands(sent.ID, events.StateQueued, "")
	d.leave(bob)
	d.after(time.Minute)
	d.join(bob, from(2, 20), by(events.SourceResume))
	d.take(bob)
	d.stands(sent.ID, events.StateDelivered, "")
}

func TestOnlyAPersonAdoptsAPolicyAndTheSameChangesNothing(t *testing.T) {
	d := newDesk(t)
	d.ready(alice)
	changed := d.policy
	changed.Limits.Refs = 3
	_, r, err := d.AdoptPolicy(ops.Asker{As: alice}, changed)
	d.told(commands.PersonOnly, r, err)
	_, r, err = d.AdoptPolicy(ops.Asker{As: "@nobody"}, changed)
	d.told(commands.SenderNotLive, r, err)
	before := d.end()
	same := d.policy
	same.Seats, same.Sessions.Ignore = []events.Seat{}, []string{} // as a reader of a file may have it
	if _, r, err := d.AdoptPolicy(ops.Asker{As: "@ana"}, same); r != nil || err != nil || d.end() != before {
		t.Errorf("the policy in force was adopted again: %+v %v, %+v", r, err, d.recorded(before))
	}
	if _, r, err := d.AdoptPolicy(ops.Asker{As: "@ana"}, changed); r != nil || err != nil {
		t.Fatal(r, err)
	}
	in, err := d.Policy()
	if err != nil || !reflect.DeepEqual(in.Policy, changed) || in.Position != before+1 {
		t.Errorf("in force is %+v, %v", in, err)
	}
	// What follows names the policy that it was decided under.
	d.join(bob)
	found := d.recorded(before + 1)
	if found[0].Policy != before+1 {
		t.Errorf("the next event was decided under policy %d", found[0].Policy)
	}
	d.verified()
}

func TestTheFirstCommandOfAnEmptyLedgerAdoptsThePolicyOfTheFile(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.Refs = 7
	if in, err := d.Policy(); err != nil || in.Position != 0 || in.Policy.Limits.Refs != 7 || d.end() != 0 {
		t.Errorf("before it, in force is %+v, %v", in, err)
	}
	d.refused(alice, commands.SenderNotLive, inform(bob, "x"))
	found := d.recorded(0)
	if len(found) != 2 || found[0].Type() != events.TypePolicyAdopted || found[0].Stream != events.PolicyStream || found[0].Policy != 0 || found[1].Policy != 1 {
		t.Errorf("recorded %+v", found)
	}
	d.policy.Limits.Refs = 9 // a file that changes later changes nothing
	if in, err := d.Policy(); err != nil || in.Policy.Limits.Refs != 7 {
		t.Errorf("in force is %+v, %v", in, err)
	}
}
