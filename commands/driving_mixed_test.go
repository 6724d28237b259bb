package commands_test

import (
	"slices"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// adopts puts a policy without these seats in force.
func (st *stage) adopts(without ...string) {
	st.policy.Seats = slices.DeleteFunc(slices.Clone(st.policy.Seats), func(s events.Seat) bool { return slices.Contains(without, s.Name) })
	st.record(events.PolicyStream, ownerA, events.PolicyAdopted{Policy: st.policy})
}

func (st *stage) offers(root *projections.Message, from, to string) string {
	st.t.Helper()
	offered := st.does(commands.HandoffOffer{Call: st.call("session-of-" + from), Thread: string(root.Thread), To: to, Reason: []byte("yours")})
	return string(offered[0].Event.(events.HandoffOffered).Handoff)
}

func (st *stage) sticker(as string, root *projections.Message, seat string) commands.PlaceSticker {
	return commands.PlaceSticker{Call: st.call(as), Thread: string(root.Thread), Seat: seat}
}

func (st *stage) peels(as string, root *projections.Message, seat string) commands.RemoveSticker {
	return commands.RemoveSticker{Call: st.call(as), Thread: string(root.Thread), Seat: seat}
}

// What one rule gives, another may have to take back. Each of these was once
// wrong.
func TestDrivingRulesHoldInCombination(t *testing.T) {
	play := func(what string, more []string, happens func(*testing.T, *stage)) {
		t.Run(what, func(t *testing.T) { happens(t, newStage(t, castPolicy(more...))) })
	}
	oracle := []string{"oracle"}

	play("a seat that is off the roster acts as none", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		id := st.offers(root, "smith", "oracle")
		st.adopts("oracle")
		st.refused(commands.HandoffAccept{Call: st.call(oraclesSession), Handoff: id}, commands.NotYours)
		st.adopts("smith")
		st.refused(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")}, commands.NotDriver)
	})
	play("a person's next word goes to who drives under the policy in force", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		st.adopts("smith")
		if m := st.says(ownerA, "still there?", replyTo(root)); m.To.ID != "@trinity" {
			t.Errorf("it goes to %s", m.To.ID)
		}
	})
	play("an undone move opens nothing that was settled meanwhile", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerB, "please look")
		asked := st.asks(trinitysSession, root, commitA) // of smith
		st.does(commands.HandoffClose{Call: st.call(smithsSession), Handoff: string(st.handsOver(root, "trinity", "smith"))})
		st.says(smithsSession, "on it", replyTo(root))
		st.routes(root, ownerB, "@trinity take this", "route")
		st.labels(smithsSession, asked.Review, "root", "low")
		st.says(ownerB, "@smith please go on", replyTo(root))
		same(t, st.owed(root))
	})
	play("a word to the new seat does not undo the move to it", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.moves(root)
		st.record(events.SeatStream("smith"), "device:test", events.SeatAbsent{Seat: "smith", Since: st.now})
		st.says(ownerA, "@trinity are you on it?", replyTo(root))
		if st.s.Thread(root.Thread).Move == nil {
			t.Error("the move was undone")
		}
	})
	play("no seat takes off the sticker that a move put on", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.moves(root)
		st.refused(st.peels(smithsSession, root, "trinity"), commands.NotYours)
		st.says(trinitysSession, "mine", replyTo(root))
		st.refused(st.peels(smithsSession, root, "trinity"), commands.NotYours)
		st.drivenBy(root, "trinity (sticker)")
	})
	play("what went with two verdicts goes back to where it first came from", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look", request)
		st.says(smithsSession, "since when?", replyTo(root), request)
		st.routes(root, ownerA, "@trinity yours", "route")
		st.routes(root, ownerA, "@trinity, or is it?", "route")
		st.routes(root, ownerB, "@oracle then", "route")
		st.says(ownerA, "@smith no, you keep it", replyTo(root))
		same(t, st.owed(root), "reply: @smith to @owner-a", "reply: @owner-a to "+smithsSession)
	})
	play("what the new seat owed on its own account stays with it", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "since when?", replyTo(root))
		st.says(ownerA, "and you, what do you see?", replyTo(root), to("@trinity"), request)
		st.routes(root, ownerA, "@trinity yours", "route")
		st.routes(root, ownerA, "@oracle yours", "route")
		same(t, st.owed(root), "reply: @trinity to @owner-a")
		st.does(st.sticker(ownerB, root, "smith"))
		same(t, st.owed(root), "reply: @trinity to @owner-a")
	})
	play("a sticker over a pending move takes all of it along", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerB, "please look")
		st.handsOver(root, "trinity", "smith")
		st.says(smithsSession, "on it", replyTo(root))
		st.routes(root, ownerB, "@trinity take it back", "route") // which closes the hand-off
		st.does(st.sticker(ownerA, root, "oracle"))
		same(t, st.owed(root), "handoff: @oracle to @trinity")
	})
	play("an offer lapses when a sticker's removal moves the driver", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.does(st.sticker(ownerA, root, "trinity"))
		id := st.offers(root, "trinity", "oracle")
		st.does(st.peels(ownerA, root, "trinity"))
		st.refused(commands.HandoffAccept{Call: st.call(oraclesSession), Handoff: id}, commands.AlreadyDecided)
	})
	play("a person's sticker that lay there forgets no move in force", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.handsOver(root, "smith", "oracle")
		st.routes(root, ownerA, "@trinity take it", "route")
		st.drivenBy(root, "trinity (sticker)")
		st.does(st.sticker(ownerA, root, "smith"))
		st.does(st.peels(ownerA, root, "smith"))
		st.drivenBy(root, "trinity (sticker)")
	})
	play("who passed a request on answers it no more", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look", request)
		st.handsOver(root, "smith", "trinity")
		st.says(smithsSession, "trinity has it", replyTo(root))
		same(t, st.owed(root), "reply: @trinity to @owner-a", "handoff: @trinity to @smith")
	})
	play("a sticker of a seat or a person of former days comes off, and binds nothing", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.does(st.sticker(ownerB, root, "oracle"))
		st.adopts("oracle")
		st.routes(root, ownerA, "@trinity take it", "route")
		st.drivenBy(root, "trinity (sticker)")
		st.policy.Persons = st.policy.Persons[:1]
		st.does(st.peels(ownerA, root, "oracle"))
		same(t, st.stickers(root), "trinity by seat")
	})
	play("a mention that was taken back, or in a closed thread, routes nothing", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		m := st.says(ownerA, "@trinity take it", replyTo(root))
		late := st.says(ownerA, "@trinity?", replyTo(root))
		st.does(commands.Delete{Call: st.call(ownerA), Message: string(m.ID)})
		route := func(m *projections.Message) events.Verdict {
			r := commands.Route{Call: st.call(smithsSession), Thread: string(root.Thread), Message: string(m.ID), Verdict: "route", ByHand: true}
			return st.does(r)[0].Event.(events.RoutingJudged).Verdict
		}
		if v := route(m); v != events.VerdictNoMove {
			t.Errorf("deleted: %s", v)
		}
		st.says(ownerA, "settled", replyTo(root), func(s *commands.Send) { s.Intent = "done" })
		if v := route(late); v != events.VerdictNoMove {
			t.Errorf("closed: %s", v)
		}
		st.refused(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")}, commands.ReplyToDone)
	})
	play("a clock that jumped ahead and back silences no reminder", nil, func(t *testing.T, st *stage) {
		st.says(ownerA, "please look", request)
		same(t, st.at(600*minute).sweeps(ownerA), "nudge 1 to @smith")
		same(t, st.at(60*minute).sweeps(ownerA), "nudge 2 to @smith")
		same(t, st.at(90*minute).sweeps(ownerA), "nudge 3 to @smith")
		same(t, st.at(120*minute).sweeps(ownerA), "page [@owner-a @owner-b]: @smith holds it: reminded")
	})
	play("what passed is reminded anew", nil, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look", request)
		for range 4 {
			st.at(float64(st.now.Sub(stageStart).Seconds()) + 30*minute).sweeps(ownerA)
		}
		st.does(st.sticker(ownerA, root, "trinity"))
		same(t, st.sweeps(ownerA), "nudge 1 to @trinity")
	})
	play("one seat's bandage is not outvoted", oracle, func(t *testing.T, st *stage) {
		root := st.says(ownerA, "please look")
		ask := func(to string) events.ReviewID {
			for _, r := range st.does(commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commitA, To: to}) {
				if asked, is := r.Event.(events.ReviewAsked); is {
					return asked.Review
				}
			}
			return ""
		}
		one, two := ask("trinity"), ask("oracle")
		st.labels(trinitysSession, one, "bandage", "high")
		st.labels(oraclesSession, two, "bandage", "low")
		st.labels(oraclesSession, ask("oracle"), "root", "low")
		if st.cleared(root, commitA) {
			t.Error("cleared")
		}
	})
}
