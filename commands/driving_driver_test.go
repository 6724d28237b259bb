package commands_test

import (
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

func TestDrivingAreaNamesADriverFromTheRootAlone(t *testing.T) {
	for _, c := range []struct {
		row, as, body string
		seats         []string
		alert         bool
		want          string
	}{
		{row: "24: root by owner-a, no sticker, no posts", as: ownerA, body: "please look", want: "smith (author)"},
		{row: "25: root by owner-b about Smith's things", as: ownerB, body: "smith, your build is red", want: "trinity (author)"},
		{row: "26: root by a third person, plain text", as: third, body: "good morning", want: "smith (default)"},
		{row: "28: alert root, no map match", as: "bot:watch", body: "disk full", alert: true, want: "smith (default)"},
		{row: "29: alert root, AppFolio sync lambda", as: "bot:watch", body: "the AppFolio sync lambda timed out", alert: true, want: "trinity (map)"},
		{row: "30: bot root, guest-card", as: "bot:watch", body: "Guest-Card delivery is late", alert: true, want: "trinity (map)"},
		{row: "32: N seats: third person with a home seat", as: third, seats: []string{"oracle"}, body: "agents/clara is down", want: "oracle (author)"},
	} {
		t.Run("row "+c.row, func(t *testing.T) {
			st := newStage(t, castPolicy(c.seats...))
			var root *projections.Message
			if c.alert {
				root = st.alert(c.as, c.body)
			} else {
				root = st.says(c.as, c.body)
			}
			st.drivenBy(root, c.want)
		})
	}
}

func TestDrivingTheFirstRuleThatAppliesNamesTheDriver(t *testing.T) {
	both := func(st *stage, root *projections.Message) {
		st.posts(root, "smith", events.KindMessage)
		st.posts(root, "trinity", events.KindMessage)
	}
	for _, c := range []struct {
		row, as string
		seats   []string
		happens func(*stage, *projections.Message)
		want    string
	}{
		{row: "34: Smith's sticker placed by Smith, root by owner-b, both seats posted", as: ownerB, want: "smith (sticker)", happens: func(st *stage, root *projections.Message) {
			both(st, root)
			st.sticks(root, "smith", "driver-smith", events.HandSeat, "@smith")
		}},
		{row: "35: human places Trinity's sticker over Smith's seat sticker", as: ownerA, want: "trinity (human)", happens: func(st *stage, root *projections.Message) {
			st.sticks(root, "smith", "driver-smith", events.HandSeat, "@smith")
			st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "trinity"})
		}},
		{row: "38: human removes the only sticker, no posts: back to the area rule", as: ownerB, want: "trinity (author)", happens: func(st *stage, root *projections.Message) {
			st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
			st.drivenBy(root, "smith (human)")
			st.does(commands.RemoveSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
		}},
		{row: "39: two seat stickers, both seats posted", as: ownerB, want: "smith (sticker-tie)", happens: func(st *stage, root *projections.Message) {
			both(st, root)
			st.sticks(root, "trinity", "driver-trinity", events.HandSeat, "@trinity")
			st.sticks(root, "smith", "driver-smith", events.HandSeat, "@smith")
		}},
		{row: "40: fallback emoji placed by the seat counts", as: ownerA, want: "trinity (sticker)", happens: func(st *stage, root *projections.Message) {
			seat, _ := commands.SeatOfSticker(st.policy, "large_blue_circle")
			st.sticks(root, seat.Name, "large_blue_circle", events.HandSeat, "@trinity")
		}},
		{row: "41: second configured name counts as Smith's", as: ownerB, want: "smith (sticker)", happens: func(st *stage, root *projections.Message) {
			seat, _ := commands.SeatOfSticker(st.policy, "agent-smith")
			st.sticks(root, seat.Name, "agent-smith", events.HandSeat, "@smith")
		}},
		{row: "43: sticker emoji put on by an unknown bot only", as: ownerA, want: "smith (author)", happens: func(st *stage, root *projections.Message) {
			st.sticks(root, "trinity", "driver-trinity", events.HandUnknown, "bot:somebody")
		}},
		{row: "44: Trinity's sticker stamped by Smith, both posted", as: ownerA, want: "trinity (sticker)", happens: func(st *stage, root *projections.Message) {
			both(st, root)
			st.sticks(root, "trinity", "driver-trinity", events.HandSeat, "@smith")
		}},
		{row: "46: two humans, two seats, ledger saw Trinity's last", as: ownerA, want: "trinity (human-last)", happens: func(st *stage, root *projections.Message) {
			st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
			st.does(commands.PlaceSticker{Call: st.call(ownerB), Thread: string(root.Thread), Seat: "trinity"})
		}},
		{row: "48: N seats: humans disagree, area seat not among them, order unknown", as: third, seats: []string{"oracle"}, want: "smith (human-order)", happens: func(st *stage, root *projections.Message) {
			for by, seat := range map[string]string{ownerA: "trinity", ownerB: "smith"} {
				st.record(events.ThreadStream(root.Thread), events.Participant(by), events.StickerPlaced{
					Thread: root.Thread, Seat: seat, Sticker: seat, Hand: events.HandPerson, By: events.Participant(by), Unordered: true,
				})
			}
		}},
		{row: "50: only Smith has posted, root by owner-b, no sticker", as: ownerB, want: "smith (solo)", happens: func(st *stage, root *projections.Message) {
			st.posts(root, "smith", events.KindMessage)
		}},
		{row: "51: only Smith has posted, root carries Trinity's seat sticker after a routing move (she has not posted)", as: ownerA, want: "smith (solo)", happens: func(st *stage, root *projections.Message) {
			st.moves(root)
		}},
		{row: "52: the same after her first post", as: ownerA, want: "trinity (sticker)", happens: func(st *stage, root *projections.Message) {
			st.moves(root)
			st.says(trinitysSession, "looking", replyTo(root))
		}},
		{row: "54: alert handed to Trinity, she has not posted yet", as: "bot:watch", want: "trinity (handoff)", happens: func(st *stage, root *projections.Message) {
			st.handsOver(root, "smith", "trinity")
		}},
		{row: "55: only seat post is Trinity's mirror card, no sticker, root by owner-a", as: ownerA, want: "trinity (mirror)", happens: func(st *stage, root *projections.Message) {
			st.posts(root, "trinity", events.KindMirror)
		}},
		{row: "56: only seat post is Trinity's mirror card, sticker names Smith", as: ownerA, want: "smith (sticker)", happens: func(st *stage, root *projections.Message) {
			st.posts(root, "trinity", events.KindMirror)
			st.sticks(root, "smith", "driver-smith", events.HandSeat, "@smith")
		}},
	} {
		t.Run("row "+c.row, func(t *testing.T) {
			st := newStage(t, castPolicy(c.seats...))
			var root *projections.Message
			if c.as == "bot:watch" {
				root = st.alert(c.as, "disk full")
			} else {
				root = st.says(c.as, "please look")
			}
			c.happens(st, root)
			st.drivenBy(root, c.want)
		})
	}
}

// moves lets smith post and owner-a's mention route the thread to trinity.
func (st *stage) moves(root *projections.Message) *projections.Message {
	st.t.Helper()
	st.says(smithsSession, "on it", replyTo(root))
	return st.routes(root, ownerA, "@Trinity can you take this", "route")
}

// routes lets a person say something, and the classifier answer.
func (st *stage) routes(root *projections.Message, as, body, verdict string) *projections.Message {
	st.t.Helper()
	m := st.says(as, body, replyTo(root))
	if _, why := commands.Routing(st.s, m); why != "" {
		st.t.Fatalf("no question is asked of %q: %s", body, why)
	}
	st.does(commands.Route{Call: st.call(as), Thread: string(root.Thread), Message: string(m.ID), Verdict: verdict})
	return st.s.Message(m.ID)
}

// handsOver lets a seat offer the thread and another accept it.
func (st *stage) handsOver(root *projections.Message, from, to string) events.HandoffID {
	st.t.Helper()
	offered := st.does(commands.HandoffOffer{
		Call: st.call("session-of-" + from), Thread: string(root.Thread), To: to, Reason: []byte("it is of your lane"), Link: "https://example.org/alert/17",
	})
	id := offered[0].Event.(events.HandoffOffered).Handoff
	st.does(commands.HandoffAccept{Call: st.call("session-of-" + to), Handoff: string(id)})
	return id
}

func TestDrivingHandoffsMoveTheThreadAtOnceOrNotAtAll(t *testing.T) {
	t.Run("row 62: Smith drives, hand-off to Trinity accepted", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		same(t, st.stickers(root), "smith by seat")
		st.handsOver(root, "smith", "trinity")
		same(t, st.stickers(root), "trinity by seat")
		st.drivenBy(root, "trinity (handoff)")
	})
	t.Run("row 63: hand-off refused or errors", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("yours")})
		id := string(offered[0].Event.(events.HandoffOffered).Handoff)
		st.does(commands.HandoffDecline{Call: st.call(trinitysSession), Handoff: id})
		same(t, st.stickers(root), "smith by seat")
		st.drivenBy(root, "smith (solo)")
		st.refused(commands.HandoffAccept{Call: st.call(trinitysSession), Handoff: id}, commands.AlreadyDecided)
	})
}

func TestDrivingASeatStampsItsOwnStickerWhereItDrives(t *testing.T) {
	smith, _ := commands.SeatOfSticker(castPolicy(), "smith")
	t.Run("row 67: Smith took a turn and drives, the list lacks the custom names", func(t *testing.T) {
		plays(t)
		if got := commands.StickerOf(smith, func(string) bool { return false }); got != "robot_face" {
			t.Errorf("stamps %s", got)
		}
	})
	t.Run("row 68: the custom name has been uploaded since", func(t *testing.T) {
		plays(t)
		if got := commands.StickerOf(smith, func(name string) bool { return name == "driver-smith" }); got != "driver-smith" {
			t.Errorf("stamps %s", got)
		}
	})
	t.Run("row 69: Trinity helped in Smith's thread", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		st.says(trinitysSession, "a hint", replyTo(root))
		same(t, st.stickers(root), "smith by seat")
	})
	t.Run("S9: fallback stamped, name uploaded, next stamp elsewhere uses it; the old thread still resolves", func(t *testing.T) {
		st := newStage(t, castPolicy())
		uploaded := map[string]bool{}
		stamp := func(root *projections.Message) string {
			name := commands.StickerOf(smith, func(n string) bool { return uploaded[n] })
			seat, _ := commands.SeatOfSticker(st.policy, name)
			st.sticks(root, seat.Name, name, events.HandSeat, "@smith")
			return name
		}
		one := st.says(ownerB, "please look")
		if name := stamp(one); name != "robot_face" {
			t.Errorf("stamped %s", name)
		}
		st.drivenBy(one, "smith (sticker)")
		uploaded["driver-smith"] = true
		two := st.says(ownerB, "and at this")
		if name := stamp(two); name != "driver-smith" {
			t.Errorf("stamped %s", name)
		}
		st.drivenBy(one, "smith (sticker)")
		st.drivenBy(two, "smith (sticker)")
	})
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("have %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("have %q, want %q", got, want)
		}
	}
}

func TestDrivingAPersonsMentionMovesTheThread(t *testing.T) {
	for _, c := range []struct {
		row, body string
		verdict   string // empty: no question
		why       string // of no question
		answers   string // empty: the dispatcher picks, which is the driver if called
		moves     bool
		seats     []string
	}{
		{row: "72: '@Trinity can you take this', verdict route", body: "@Trinity can you take this", verdict: "route", answers: "trinity", moves: true},
		{row: "73: bare '@Trinity' below text that hands the work to her side, verdict route", body: "this is the voice side's to fix\n@Trinity", verdict: "route", answers: "trinity", moves: true},
		{row: "74: 'cc @Trinity', verdict stay", body: "cc @Trinity", verdict: "stay", answers: "trinity"},
		{row: "75: the model call errors or times out", body: "@Trinity FYI", verdict: "unavailable", answers: "trinity"},
		{row: "77: '@Smith please ask @Trinity'", body: "@Smith please ask @Trinity", why: "it mentions the driver", answers: "smith"},
		{row: "78: '@Agent Force look'", body: "@Agent Force look", why: "it mentions all seats", answers: "smith"},
		{row: "87: N seats: '@Trinity @Oracle' (two non-drivers)", body: "@Trinity @Oracle", why: "it mentions several seats", answers: "trinity", seats: []string{"oracle"}},
	} {
		t.Run("row "+c.row, func(t *testing.T) {
			st := newStage(t, castPolicy(c.seats...))
			root := st.says(ownerA, "please look")
			st.says(smithsSession, "on it", replyTo(root))
			m := st.says(ownerA, c.body, replyTo(root))
			if answers := commands.Answers(st.s, st.s.Thread(root.Thread), m); answers != c.answers {
				t.Errorf("%q answers, want %q", answers, c.answers)
			}
			_, why := commands.Routing(st.s, m)
			if why != c.why {
				t.Fatalf("no question because %q, want %q", why, c.why)
			}
			if c.verdict == "" {
				return
			}
			st.does(commands.Route{Call: st.call(ownerA), Thread: string(root.Thread), Message: string(m.ID), Verdict: c.verdict})
			if got := st.s.Message(m.ID).Verdict; string(got) != c.verdict {
				t.Errorf("recorded as %s", got)
			}
			if moved := st.s.Thread(root.Thread).Move != nil; moved != c.moves {
				t.Errorf("moved is %t", moved)
			}
			if c.moves {
				same(t, st.stickers(root), "trinity by seat")
				st.says(trinitysSession, "mine", replyTo(root))
				st.drivenBy(root, "trinity (sticker)")
			} else {
				st.drivenBy(root, "smith (solo)")
			}
			st.refused(commands.Route{Call: st.call(ownerA), Thread: string(root.Thread), Message: string(m.ID), Verdict: "route"}, commands.AlreadyDecided)
		})
	}

	t.Run("row 80: the mention comes from a seat, not a person", func(t *testing.T) {
		st := newStage(t, castPolicy("oracle"))
		root := st.says(ownerA, "please look")
		st.says(smithsSession, "on it", replyTo(root))
		m := st.says(oraclesSession, "@trinity look", replyTo(root))
		if _, why := commands.Routing(st.s, m); why != "no person wrote it" {
			t.Errorf("no question because %q", why)
		}
	})
	t.Run("row 82: a person's sticker is on the root", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "smith"})
		st.noMove(root, "human sticker")
	})
	t.Run("row 83: driver's seat runs protocol 4", func(t *testing.T) {
		st := newStage(t, castPolicy())
		st.record(events.SeatStream("smith"), smithsSession, events.SeatTaken{Seat: "smith", Session: smithsSession, Protocol: 4})
		root := st.says(ownerA, "please look")
		st.noMove(root, "driver below protocol 5")
	})
	t.Run("row 85: later '@Smith take it back' after Trinity posted", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		st.moves(root)
		st.says(trinitysSession, "mine", replyTo(root))
		back := st.routes(root, ownerA, "@Smith take it back", "route")
		if answers := commands.Answers(st.s, st.s.Thread(root.Thread), back); answers != "smith" {
			t.Errorf("%s answers", answers)
		}
		same(t, st.stickers(root), "smith by seat")
		st.drivenBy(root, "smith (sticker)")
	})
}

// noMove lets a person's mention meet a verdict to route whose conditions do not
// hold: it is recorded with the reason, moves nothing, and trinity answers.
func (st *stage) noMove(root *projections.Message, want string) {
	st.t.Helper()
	before := st.driver(root)
	m := st.says(ownerA, "@Trinity can you take this", replyTo(root))
	if _, why := commands.Routing(st.s, m); why != want {
		st.t.Errorf("no question because %q, want %q", why, want)
	}
	judged := st.does(commands.Route{Call: st.call(ownerA), Thread: string(root.Thread), Message: string(m.ID), Verdict: "route"})[0].Event.(events.RoutingJudged)
	if judged.Verdict != events.VerdictNoMove || judged.Says != want {
		st.t.Errorf("judged %s (%s)", judged.Verdict, judged.Says)
	}
	if answers := commands.Answers(st.s, st.s.Thread(root.Thread), m); answers != "trinity" {
		st.t.Errorf("%s answers", answers)
	}
	st.drivenBy(root, before)
}
