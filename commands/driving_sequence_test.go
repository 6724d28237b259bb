package commands_test

import (
	"slices"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

func TestDrivingASurfaceFollowsWhatWasDecided(t *testing.T) {
	accepted := func(t *testing.T) (*stage, *projections.Message, *projections.Thread, *projections.Handoff) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		id := st.handsOver(root, "smith", "trinity")
		thread := st.s.Thread(root.Thread)
		return st, root, thread, thread.Handoff(id)
	}
	t.Run("row 62: remove own, stamp trinity, one unmarked line with link", func(t *testing.T) {
		st, _, thread, h := accepted(t)
		steps := commands.StepsOfHandoff(thread, h, st.s.RosterNow(), commands.OnSurface{Own: true})
		wantSteps(t, steps, commands.StepRemoveOwn, commands.StepStamp, commands.StepLine)
	})
	t.Run("row 63: nothing", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")})
		thread := st.s.Thread(root.Thread)
		wantSteps(t, commands.StepsOfHandoff(thread, thread.Handoff(offered[0].Event.(events.HandoffOffered).Handoff), st.s.RosterNow(), commands.OnSurface{Own: true}))
	})
	t.Run("row 65: own stamp still in flight", func(t *testing.T) {
		st, _, thread, h := accepted(t)
		steps := commands.StepsOfHandoff(thread, h, st.s.RosterNow(), commands.OnSurface{StampInFlight: true})
		wantSteps(t, steps, commands.StepAwaitStamp, commands.StepRemoveOwn, commands.StepStamp, commands.StepLine)
	})
	t.Run("a person's sticker lies: only the line", func(t *testing.T) {
		st, root, _, h := accepted(t)
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
		wantSteps(t, commands.StepsOfHandoff(st.s.Thread(root.Thread), h, st.s.RosterNow(), commands.OnSurface{Own: true}), commands.StepLine)
	})
	t.Run("S11: the process dies after handoff.accepted, before the line: the next run writes exactly one", func(t *testing.T) {
		st, _, thread, h := accepted(t)
		wantSteps(t, commands.StepsOfHandoff(thread, h, st.s.RosterNow(), commands.OnSurface{Other: true}), commands.StepLine)
		wantSteps(t, commands.StepsOfHandoff(thread, h, st.s.RosterNow(), commands.OnSurface{Other: true, Line: true}))
	})
	t.Run("S12: routing verdict while own stamp is in flight: it completes, then remove and stamp", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.moves(root)
		thread := st.s.Thread(root.Thread)
		wantSteps(t, commands.StepsOfMove(thread, st.s.RosterNow(), commands.OnSurface{StampInFlight: true}), commands.StepAwaitStamp, commands.StepRemoveOwn, commands.StepStamp)
		same(t, st.stickers(root), "trinity by seat") // exactly one
	})
	t.Run("S26: a surface delivers the same event again: one ledger event", func(t *testing.T) {
		plays(t)
		one, two := commands.FromSurface("C1", "1764493200.000100", "message"), commands.FromSurface("C1", "1764493200.000100", "message")
		if one != two || one == commands.FromSurface("C1", "1764493200.000100", "reaction") || one == commands.FromSurface("C2", "1764493200.000100", "message") {
			t.Error("what is the same and what is not are mixed up")
		}
	})
}

func wantSteps(t *testing.T, got []commands.Step, want ...commands.Step) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

// request is a question that a seat owes the answer of.
func request(s *commands.Send) { s.Intent = "request" }

// owed lists the open items of a thread as "kind: debtor to creditor".
func (st *stage) owed(m *projections.Message) (items []string) {
	for _, o := range st.s.Thread(m.Thread).Owed {
		items = append(items, string(o.Kind)+": "+string(o.Debtor)+" to "+string(o.Creditor))
	}
	return items
}

func TestDrivingItemsFollowTheDriverInTheSameAppend(t *testing.T) {
	t.Run("S14: the route moves; before the new driver's first post the old one drives, the item lies with the new seat", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", request)
		same(t, st.owed(root), "reply: @smith to @owner-a")
		st.says(smithsSession, "on it", replyTo(root), working)
		st.routes(root, ownerA, "@trinity take it", "route")
		st.drivenBy(root, "smith (solo)")
		same(t, st.owed(root), "reply: @trinity to @owner-a")
	})
	t.Run("'keep it' before the new seat's first post: as if it had never been moved", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", request)
		st.says(smithsSession, "on it", replyTo(root), working)
		st.routes(root, ownerA, "@trinity take it", "route")
		same(t, st.stickers(root), "trinity by seat")
		st.says(ownerA, "@smith keep it", replyTo(root))
		same(t, st.stickers(root), "smith by seat")
		same(t, st.owed(root), "reply: @smith to @owner-a")
		st.at(200) // the stub is waited for no more
		st.says(trinitysSession, "a hint", replyTo(root))
		st.drivenBy(root, "smith (sticker)")
	})
	t.Run("what would be owed to oneself closes", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		st.says(trinitysSession, "what do you see?", replyTo(root), to("@smith"), request)
		same(t, st.owed(root), "reply: @smith to "+trinitysSession)
		st.routes(root, ownerA, "@trinity take it", "route")
		same(t, st.owed(root))
		st.drivenBy(root, "trinity (sticker)")
	})
	t.Run("what a move closed is owed again when the move is undone", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerB, "please look")
		id := st.handsOver(root, "trinity", "smith")
		st.says(smithsSession, "on it", replyTo(root))
		same(t, st.owed(root), "handoff: @smith to @trinity")
		st.routes(root, ownerB, "@trinity take it back", "route")
		st.drivenBy(root, "smith (handoff)") // until her first post
		same(t, st.owed(root))
		st.says(ownerB, "@smith no, keep it", replyTo(root))
		same(t, st.owed(root), "handoff: @smith to @trinity")
		if h := st.s.Thread(root.Thread).Handoff(id); h.State != projections.HandoffIsAccepted {
			t.Errorf("the hand-off is %s", h.State)
		}
	})
	t.Run("an accepted hand-off passes what the offerer owed", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", request)
		st.handsOver(root, "smith", "trinity")
		same(t, st.owed(root), "reply: @trinity to @owner-a", "handoff: @trinity to @smith")
	})
	t.Run("a hand-off, then a routing mention back: the hand-off closes with its creditor", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look", request)
		id := st.handsOver(root, "smith", "trinity")
		st.drivenBy(root, "trinity (handoff)")
		st.routes(root, ownerA, "@smith take it back", "route")
		st.drivenBy(root, "smith (sticker)") // nobody has posted: in force at once
		same(t, st.owed(root), "reply: @smith to @owner-a")
		if h := st.s.Thread(root.Thread).Handoff(id); h.State != projections.HandoffIsClosed || h.End != events.HandoffCreditor {
			t.Errorf("the hand-off is %s (%s)", h.State, h.End)
		}
	})
	t.Run("S17: a person re-stickers by hand after a move: it wins at once, and the map may want a change", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.moves(root)
		st.says(ownerA, "and since when?", replyTo(root), request)
		same(t, st.owed(root), "reply: @smith to @owner-a")
		st.does(commands.PlaceSticker{Call: st.call(ownerB), Thread: string(root.Thread), Seat: "trinity"})
		st.drivenBy(root, "trinity (human)")
		thread := st.s.Thread(root.Thread)
		if from, to, differs := thread.Amends(st.s.Driver(thread)); !differs || from != "smith" || to != "trinity" {
			t.Errorf("suggests %s to %s: %t", from, to, differs)
		}
		same(t, st.owed(root), "reply: @trinity to @owner-a")
	})
	t.Run("S18: a person removes their sticker: seat sticker, solo, area again", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerB, "please look")
		place := func() {
			st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
			st.drivenBy(root, "smith (human)")
		}
		remove := func(want string) {
			st.does(commands.RemoveSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
			st.drivenBy(root, want)
		}
		place()
		remove("trinity (author)")
		st.says(trinitysSession, "on it", replyTo(root))
		place()
		remove("trinity (solo)")
		st.says(smithsSession, "a hint", replyTo(root))
		place()
		remove("trinity (sticker)")
	})
	t.Run("a person's sticker laid over a hand-off and taken off a day later", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.handsOver(root, "smith", "trinity")
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
		st.drivenBy(root, "smith (human)")
		st.at(86_400)
		st.does(commands.RemoveSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
		st.drivenBy(root, "trinity (handoff)")
	})
	t.Run("an offer that is accepted after a routing move has lapsed", func(t *testing.T) {
		st := newStage(t, castPolicy("oracle"))
		root := st.says(ownerA, "please look")
		offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "oracle", Reason: []byte("yours")})
		st.routes(root, ownerA, "@trinity take it", "route")
		st.refused(commands.HandoffAccept{
			Call: st.call(oraclesSession), Handoff: string(offered[0].Event.(events.HandoffOffered).Handoff),
		}, commands.AlreadyDecided)
		same(t, st.owed(root))
	})
	t.Run("a verdict that comes after a person's sticker, or after a hand-off", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		m := st.says(ownerA, "@trinity take it", replyTo(root))
		st.handsOver(root, "smith", "trinity")
		judged := st.does(commands.Route{Call: st.call(ownerA), Thread: string(root.Thread), Message: string(m.ID), Verdict: "route"})[0].Event.(events.RoutingJudged)
		if judged.Verdict != events.VerdictNoMove {
			t.Errorf("judged %s", judged.Verdict)
		}
		st.drivenBy(root, "trinity (handoff)")
	})
	t.Run("a routing move, the old driver answers once more, the new one posts", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.moves(root)
		st.says(smithsSession, "one more thing", replyTo(root))
		st.drivenBy(root, "smith (solo)")
		same(t, st.stickers(root), "trinity by seat") // the old driver stamps nothing
		st.says(trinitysSession, "mine", replyTo(root))
		st.drivenBy(root, "trinity (sticker)")
	})
	t.Run("a driver whose session died, alone in its thread: absent, the next seat drives", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		st.drivenBy(root, "smith (solo)")
		st.record(events.SeatStream("smith"), "device:test", events.SeatAbsent{Seat: "smith", Since: st.now})
		st.drivenBy(root, "trinity (author)") // the area rule goes to the next seat
		st.record(events.SeatStream("smith"), "device:test", events.SeatReturned{Seat: "smith", Session: smithsSession})
		st.drivenBy(root, "smith (solo)")
	})
}

// TestDrivingReplaysToTheSameDriverAtEveryPosition is S27 for what this file and
// its neighbours play: any prefix of the events gives the driver, the items and
// the stickers that were seen live at that position.
func TestDrivingReplaysToTheSameDriverAtEveryPosition(t *testing.T) {
	st := newStage(t, castPolicy("oracle"))
	root := st.says(ownerA, "please look", request)
	type seen struct {
		driver string
		owed   int
	}
	live := map[int]seen{}
	note := func() { live[len(st.log)] = seen{st.driver(root), len(st.owed(root))} }
	note()
	st.says(smithsSession, "on it", replyTo(root), working)
	note()
	st.routes(root, ownerA, "@trinity take it", "route")
	note()
	st.says(ownerA, "@smith keep it", replyTo(root))
	note()
	st.handsOver(root, "smith", "oracle")
	note()
	st.does(commands.PlaceSticker{Call: st.call(ownerB), Thread: string(root.Thread), Seat: "trinity"})
	note()
	st.record(events.SeatStream("oracle"), "device:test", events.SeatAbsent{Seat: "oracle", Since: st.now})
	st.does(commands.RemoveSticker{Call: st.call(ownerB), Thread: string(root.Thread), Seat: "trinity"})
	note()
	for n, want := range live {
		memory := rows.New()
		if err := projections.Project(memory, st.log[:n]); err != nil {
			t.Fatal(err)
		}
		again := &stage{t: t, s: projections.On(memory)}
		if got := (seen{again.driver(root), len(again.owed(root))}); got != want {
			t.Errorf("replayed to %d: %+v, live %+v", n, got, want)
		}
	}
}
