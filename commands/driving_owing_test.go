package commands_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// sweeps records what somebody notices, until nothing more is due, and says it.
func (st *stage) sweeps(as string) (noticed []string) {
	st.t.Helper()
	for {
		c := st.call(as)
		var fresh []events.Proposed
		for _, p := range commands.Due(st.s, c, c.Caller.ID, st.now, st.policy) {
			if !slices.ContainsFunc(st.log, func(r events.Recorded) bool { return r.ID == p.ID }) {
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 {
			return noticed
		}
		for _, r := range st.append(fresh...) {
			noticed = append(noticed, said(r.Event))
		}
		if len(noticed) > 100 {
			st.t.Fatalf("it does not end: %q", noticed)
		}
	}
}

// said is what was noticed, in a few words.
func said(e events.Event) string {
	switch e := e.(type) {
	case events.OwedNudged:
		return fmt.Sprintf("nudge %d to %s", e.Nudge, e.Debtor)
	case events.OwedPaged:
		return fmt.Sprintf("page %v: %s holds it: %s", e.Owners, e.Debtor, e.Reason)
	case events.SeatAbsent:
		return fmt.Sprintf("%s is absent since %s", e.Seat, time.Duration(e.Since-stageStart)*time.Microsecond)
	}
	return string(e.EventType())
}

// waits lists what waits in a session's mailboxes that is no message, as it would
// be offered.
func (st *stage) waits(session string) (calls []string) {
	offer := commands.Taking{Call: st.call(session), Who: events.Participant(session)}.Offer(st.s, st.now)
	for _, it := range offer.Items {
		if it.Kind == events.ItemCall {
			calls = append(calls, string(it.Call.Type))
		}
	}
	return calls
}

const minute = 60

func TestDrivingWhatIsOwedIsRemindedThreeTimesAndThenPaged(t *testing.T) {
	question := func(t *testing.T) (*stage, *projections.Message) {
		policy := castPolicy()
		policy.Limits.AbsentAfter = 0
		st := newStage(t, policy)
		return st, st.says(ownerB, "when will it be done?", to("@smith"), request)
	}
	paged := "page [@owner-a @owner-b]: @smith holds it: reminded"

	t.Run("past due: nudges as often again as the due time is long, at most three, then one page", func(t *testing.T) {
		st, _ := question(t)
		same(t, st.at(30*minute-1).sweeps(smithsSession))
		same(t, st.at(30*minute).sweeps(smithsSession), "nudge 1 to @smith")
		same(t, st.at(60*minute-1).sweeps(smithsSession))
		same(t, st.at(60*minute).sweeps(smithsSession), "nudge 2 to @smith")
		same(t, st.at(95*minute).sweeps(smithsSession), "nudge 3 to @smith")
		same(t, st.at(125*minute-1).sweeps(smithsSession))
		same(t, st.at(125*minute).sweeps(smithsSession), paged)
		same(t, st.at(1000*minute).sweeps(smithsSession))
		if o := st.s.OwedItems(nil, nil, 0); len(o) != 1 {
			t.Errorf("silence closed it: %+v", o)
		}
	})
	t.Run("nobody ran for days: one step at a time", func(t *testing.T) {
		st, _ := question(t)
		same(t, st.at(5000*minute).sweeps(ownerA), "nudge 1 to @smith")
		same(t, st.sweeps(ownerA))
	})
	t.Run("noticed by debtor, creditor and owners, and by nobody else", func(t *testing.T) {
		st, _ := question(t)
		st.at(31 * minute)
		same(t, st.sweeps(trinitysSession))
		same(t, st.sweeps(third))
		same(t, st.sweeps(ownerB), "nudge 1 to @smith") // the creditor
		st.at(62 * minute)
		same(t, st.sweeps(ownerA), "nudge 2 to @smith") // an owner, whom it does not concern
	})
	t.Run("an answer overtakes the nudge that waits, and ends them all", func(t *testing.T) {
		st, root := question(t)
		same(t, st.at(31*minute).sweeps(ownerB), "nudge 1 to @smith")
		same(t, st.waits(smithsSession), "owed.nudged")
		st.says(smithsSession, "tomorrow", replyTo(root))
		same(t, st.waits(smithsSession))
		same(t, st.at(500*minute).sweeps(ownerA))
	})
	t.Run("one nudge lies in the mailbox at a time, and the debtor who notices it is told as well", func(t *testing.T) {
		st, _ := question(t)
		st.at(31 * minute).sweeps(smithsSession)
		st.at(62 * minute).sweeps(smithsSession)
		same(t, st.waits(smithsSession), "owed.nudged")
	})
	t.Run("under a policy without the bound nobody is reminded", func(t *testing.T) {
		policy := castPolicy()
		policy.Limits.OwedAfter, policy.Limits.AbsentAfter = 0, 0
		st := newStage(t, policy)
		st.says(ownerB, "when will it be done?", to("@smith"), request)
		same(t, st.at(5000*minute).sweeps(ownerA))
	})
	t.Run("a review without a label pages at its due time, with no nudge before", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", to("@smith"))
		st.says(smithsSession, "on it", replyTo(root))
		st.asks(smithsSession, root, "4f2a9c1")
		same(t, st.at(30*minute-1).sweeps(ownerA))
		same(t, st.at(30*minute).sweeps(ownerA), "review.timed_out", "page [@owner-a @owner-b]: @trinity holds it: no_label")
		same(t, st.at(500*minute).sweeps(ownerA))
	})
	t.Run("an accepted hand-off is owed anew, with nudges of its own", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", to("@smith"))
		offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")})
		h := offered[0].Event.(events.HandoffOffered).Handoff
		same(t, st.waits(trinitysSession), "handoff.offered")
		same(t, st.at(31*minute).sweeps(smithsSession), "nudge 1 to @trinity")
		same(t, st.waits(trinitysSession), "owed.nudged") // it stands for the offer, which it replaces
		st.at(32 * minute).does(commands.HandoffAccept{Call: st.call(trinitysSession), Handoff: string(h)})
		same(t, st.waits(trinitysSession))
		same(t, st.at(61*minute).sweeps(smithsSession))
		same(t, st.at(62*minute).sweeps(smithsSession), "nudge 1 to @trinity")
	})
	t.Run("S15: the route moves and the new driver never posts: nudges to the new seat, then a page that names it", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		st.says(ownerA, "until when?", replyTo(root), request)
		st.routes(root, ownerA, "@trinity take it", "route")
		st.drivenBy(root, "smith (solo)")
		same(t, st.waits(trinitysSession), "owed.passed")
		for n := range 3 {
			same(t, st.at(float64(30*(n+1))*minute).sweeps(ownerA), fmt.Sprintf("nudge %d to @trinity", n+1))
			same(t, st.waits(trinitysSession), "owed.nudged")
		}
		same(t, st.waits(smithsSession), "routing.judged")
		same(t, st.at(120*minute).sweeps(ownerA), "page [@owner-a @owner-b]: @trinity holds it: reminded")
	})
}

func TestDrivingTheOwnersAreThoseWhoCanDecide(t *testing.T) {
	person := func(name string, roles ...string) events.Person { return events.Person{Name: name, Roles: roles} }
	for what, c := range map[string]struct {
		persons []events.Person
		want    string
	}{
		"the persons with the role":        {[]events.Person{person("a"), person("b", "lead", "owner")}, "[@b]"},
		"all persons, where nobody has it": {[]events.Person{person("a"), person("b")}, "[@a @b]"},
		"without persons nobody":           {nil, "[]"},
	} {
		if got := fmt.Sprint(commands.Owners(events.Policy{Persons: c.persons})); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func TestDrivingASeatIsAbsentWhileItIsEmptyAndSomethingWaits(t *testing.T) {
	leaves := func(st *stage, session string) {
		st.does(commands.Leave{Call: st.call(session), Session: session, Reason: events.EndLeft, FreesSeat: true})
	}
	t.Run("mail waits: half an hour after its session left, once", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		leaves(st.at(60), smithsSession)
		same(t, st.at(31*minute-1).sweeps(trinitysSession))
		same(t, st.at(31*minute).sweeps(trinitysSession), "smith is absent since 1m0s")
		same(t, st.at(90*minute).sweeps(trinitysSession))
		st.drivenBy(root, "trinity (author)") // the area rule goes to the next seat
	})
	t.Run("nothing waits: never", func(t *testing.T) {
		st := newStage(t, castPolicy())
		leaves(st, smithsSession)
		same(t, st.at(9000*minute).sweeps(trinitysSession))
	})
	t.Run("an item that it owes waits, although its mail was taken", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(trinitysSession, "do you know?", to("@smith"), request)
		st.does(commands.Lease{Taking: commands.Taking{Call: st.call(smithsSession), Who: smithsSession}, Take: 1})
		lease := st.s.Current(smithsSession)
		st.does(commands.Confirm{Call: st.call(smithsSession), Lease: lease.ID})
		leaves(st, smithsSession)
		same(t, st.at(30*minute).sweeps(third), "smith is absent since 0s")
		st.says(trinitysSession, "never mind", replyTo(root), func(s *commands.Send) { s.Intent = "done" })
	})
	t.Run("a session that is live, however idle, holds its seat", func(t *testing.T) {
		st := newStage(t, castPolicy())
		st.says(ownerA, "please look")
		same(t, st.at(11*60*minute).sweeps(third))
	})
	t.Run("one without a process is gone twelve hours after it was seen", func(t *testing.T) {
		st := newStage(t, castPolicy())
		st.says(ownerB, "please look", to("@trinity"))
		same(t, st.at((12*60+30)*minute-1).sweeps(third))
		same(t, st.at((12*60+30)*minute).sweeps(third), "trinity is absent since 12h0m0s")
	})
	t.Run("a seat that nobody ever took is absent since it is on the roster", func(t *testing.T) {
		st := newStage(t, castPolicy())
		policy := castPolicy("oracle")
		st.at(60).record(events.PolicyStream, "device:test", events.PolicyAdopted{Policy: policy})
		st.policy = policy
		st.says(ownerA, "please look", to("@oracle"))
		same(t, st.at(31*minute-1).sweeps(ownerB))
		same(t, st.at(31*minute).sweeps(ownerB), "oracle is absent since 1m0s")
	})
	t.Run("the same session joins again: returned", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.at(11*60*minute).join(trinitysSession, "trinity")
		same(t, st.at((12*60+30)*minute).sweeps(trinitysSession), "smith is absent since 12h0m0s")
		st.drivenBy(root, "trinity (author)")
		var joined []string
		for _, r := range st.does(commands.Join{Call: st.call(smithsSession), Session: smithsSession}) {
			joined = append(joined, string(r.Type()))
		}
		same(t, joined, "session.joined", "seat.returned")
		st.drivenBy(root, "smith (author)")
	})
	t.Run("another session takes it: returned", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		leaves(st, smithsSession)
		st.at(30 * minute).sweeps(trinitysSession)
		st.drivenBy(root, "trinity (author)")
		var joined []string
		for _, r := range st.does(commands.Join{Call: st.call("session-9"), Session: "session-9", Seat: "smith"}) {
			joined = append(joined, string(r.Type()))
		}
		same(t, joined, "seat.taken", "session.joined", "seat.returned")
		st.drivenBy(root, "smith (author)")
	})
}

func TestDrivingACallIsLeasedLikeAMessage(t *testing.T) {
	offer := func(t *testing.T) (*stage, *projections.Message) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", to("@smith"))
		st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")})
		return st, root
	}
	lease := func(st *stage) *projections.Lease {
		st.does(commands.Lease{Taking: commands.Taking{Call: st.call(trinitysSession), Who: trinitysSession}, Take: commands.ItemsMax})
		return st.s.Current(trinitysSession)
	}
	t.Run("while its lease runs nobody is offered it; confirmed, it is told", func(t *testing.T) {
		st, _ := offer(t)
		l := lease(st)
		if len(l.Items) != 1 || l.Items[0].Kind != events.ItemCall || l.Items[0].To != "@trinity" {
			t.Fatalf("leased %+v", l.Items)
		}
		same(t, st.waits("@trinity"))
		st.does(commands.Confirm{Call: st.call(trinitysSession), Lease: l.ID})
		same(t, st.waits(trinitysSession))
	})
	t.Run("unconfirmed it comes again, and the earlier lease is stale", func(t *testing.T) {
		st, _ := offer(t)
		first := lease(st).ID
		st.at(10).sweeps(trinitysSession)
		second := lease(st)
		if second.Items[0].Attempt != 2 {
			t.Errorf("attempt %d", second.Items[0].Attempt)
		}
		st.refused(commands.Confirm{Call: st.call(trinitysSession), Lease: first}, commands.StaleLease)
		st.does(commands.Confirm{Call: st.call(trinitysSession), Lease: second.ID})
	})
	t.Run("one that was overtaken after it was leased may still be confirmed", func(t *testing.T) {
		st, root := offer(t)
		l := lease(st)
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "trinity"}) // the offer lapses
		st.does(commands.Confirm{Call: st.call(trinitysSession), Lease: l.ID})
	})
	t.Run("while a session stops, an offer holds it once, and nothing else does", func(t *testing.T) {
		st, _ := offer(t)
		stopping := func() int {
			return len(commands.Taking{Call: st.call(trinitysSession), Who: trinitysSession, Stopping: true}.Offer(st.s, st.now).Items)
		}
		if n := stopping(); n != 1 {
			t.Errorf("held for %d", n)
		}
		lease(st)
		st.at(10).sweeps(trinitysSession)
		if n := stopping(); n != 0 {
			t.Errorf("held again for %d", n)
		}
		st.at(31 * minute).sweeps(trinitysSession) // a nudge takes its place
		if n := stopping(); n != 0 {
			t.Errorf("held for %d nudges", n)
		}
	})
}

func TestDrivingABellIsDueWhenTheNextReminderIs(t *testing.T) {
	st := newStage(t, castPolicy())
	for _, session := range []string{smithsSession, trinitysSession} {
		l := commands.Lease{Taking: commands.Taking{Call: st.call(session), Who: events.Participant(session)}, Take: 1, Version: 1}
		st.does(l)
		st.does(commands.Confirm{Call: st.call(session), Lease: st.s.Current(events.Participant(session)).ID})
	}
	quiet := func(session string) string {
		t.Helper()
		is, until := commands.Quiet(st.s, st.call(session), events.Participant(session), time.Minute, st.now, st.policy)
		switch {
		case !is:
			return "not quiet"
		case until == nil:
			return "until something happens"
		}
		return until.Sub(st.now).String()
	}
	want := func(session, want string) {
		t.Helper()
		if got := quiet(session); got != want {
			t.Errorf("%s at %s: quiet %s, want %s", session, time.Duration(st.now-stageStart)*time.Microsecond, got, want)
		}
	}
	root := st.says(ownerA, "please look", to("@smith"), request)
	st.does(commands.Lease{Taking: commands.Taking{Call: st.call(smithsSession), Who: smithsSession}, Take: 1})
	st.does(commands.Confirm{Call: st.call(smithsSession), Lease: st.s.Current(smithsSession).ID})
	want(smithsSession, "1m0s")
	want(trinitysSession, "until something happens") // it owes nothing, and is no owner's
	st.at(30*minute - 20)
	want(smithsSession, "20s")
	st.at(30 * minute)
	want(smithsSession, "not quiet")
	st.sweeps(ownerA)
	want(smithsSession, "not quiet") // the nudge waits
	st.says(smithsSession, "tomorrow", replyTo(root), func(s *commands.Send) { s.Intent = "done" })
	if got := quiet(smithsSession); strings.HasPrefix(got, "not") {
		t.Errorf("after the answer: %s", got)
	}
}

func TestDrivingOnlyAPersonClosesWhatIsOwed(t *testing.T) {
	st := newStage(t, castPolicy())
	root := st.says(ownerA, "when will it be done?", to("@smith"), request)
	ask := func(as, item, reason string) commands.OwedClose {
		return commands.OwedClose{Call: st.call(as), Item: item, Reason: []byte(reason)}
	}
	st.refused(ask(smithsSession, string(root.ID), "I do not know"), commands.PersonOnly)
	st.refused(ask("", string(root.ID), "nobody"), commands.NoCaller)
	st.refused(ask(ownerA, string(root.ID), " "), commands.BadRequest)
	st.refused(ask(ownerA, "nothing", "what?"), commands.NotFound)
	st.refused(ask("@nobody", string(root.ID), "who?"), commands.SenderNotLive)
	closed := st.does(ask(ownerA, string(root.ID), "settled by word of mouth"))
	if e := closed[0].Event.(events.OwedClosed); e.Why != events.OwedByPerson || e.By != ownerA || st.bodies[closed[0].ID] != "settled by word of mouth" {
		t.Errorf("closed %+v", e)
	}
	same(t, st.owed(root))
	same(t, st.waits(smithsSession), "owed.closed")
	st.refused(ask(ownerA, string(root.ID), "again"), commands.NotFound)

	offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")})
	h := offered[0].Event.(events.HandoffOffered).Handoff
	st.does(ask(ownerA, string(h), "not needed"))
	st.refused(commands.HandoffAccept{Call: st.call(trinitysSession), Handoff: string(h)}, commands.AlreadyDecided)
}
