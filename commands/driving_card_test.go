package commands_test

import (
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

func (st *stage) card(as string, root *projections.Message, status string) commands.Card {
	return commands.Card{
		Call: st.call(as), Thread: string(root.Thread), Subject: []byte("the guest-card sync"), Work: "owner-a", Status: status,
		Text: func(id events.EventID) []byte { return []byte(st.bodies[id]) },
	}
}

func TestDrivingACardIsOneReplyEditedInPlace(t *testing.T) {
	t.Run("row 103: alert thread, no card yet", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.alert("bot:watch", "disk full")
		recorded := st.does(st.card(smithsSession, root, "investigating"))
		sent := recorded[0].Event.(events.MessageSent)
		if sent.Kind != events.KindCard || sent.ReplyTo != root.ID || sent.Thread != root.Thread || sent.Turn != events.Final {
			t.Errorf("posted %+v", sent)
		}
		if want := (events.Card{Driver: "smith", Work: "owner-a", Status: events.CardInvestigating}); recorded[1].Event != (events.CardPosted{Message: sent.Message, Thread: root.Thread, Card: want}) {
			t.Errorf("the card says %+v, want %+v", recorded[1].Event, want)
		}
	})

	t.Run("row 105: plain question answered", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "Which commit was it?")
		st.says(smithsSession, "4f2a9c1", replyTo(root))
		if cards := st.s.Thread(root.Thread).Cards; len(cards) != 0 {
			t.Errorf("an answer made cards: %+v", cards)
		}
	})

	t.Run("row 106: fix after the driver moved here, old driver's card exists", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "The sync fails.")
		old := st.does(st.card(smithsSession, root, "driving"))[0].Event.(events.MessageSent)
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "trinity"})
		own := st.does(st.card(trinitysSession, root, "driving"))[0].Event.(events.MessageSent)
		if own.Message == old.Message || own.ReplyTo != root.ID {
			t.Error("the new driver did not post its own card, as a reply")
		}
		st.refused(st.card(smithsSession, root, "blocked"), commands.NotDriver)
		closed := st.does(st.card(smithsSession, root, "done"))[0].Event.(events.MessageEdited)
		if closed.Message != old.Message || st.s.Thread(root.Thread).Card("smith").Status != events.CardDone {
			t.Errorf("the old card is not closed by its author: %+v", closed)
		}
		if shown := st.s.Thread(root.Thread).Card("trinity"); shown == nil || shown.Status != events.CardDriving {
			t.Errorf("the new driver's card is %+v", shown)
		}
	})

	t.Run("S23: driven work: investigating→planning→driving", func(t *testing.T) {
		policy := castPolicy()
		policy.Limits.ThreadRate = 1
		st := newStage(t, policy)
		root := st.alert("bot:watch", "disk full")
		st.says(smithsSession, "looking", replyTo(root)) // all that the thread's rate lets through
		posts, edits := 0, 0
		for _, status := range []string{"investigating", "investigating", "Planning", " driving "} {
			for _, r := range st.does(st.card(smithsSession, root, status)) {
				switch e := r.Event.(type) {
				case events.MessageSent:
					posts++
					if e.ReplyTo == "" {
						t.Error("a card at the top level")
					}
				case events.MessageEdited:
					edits++
				}
			}
		}
		thread := st.s.Thread(root.Thread)
		if posts != 1 || edits != 3 || len(thread.Cards) != 1 || thread.Cards[0].Status != events.CardDriving {
			t.Errorf("%d posts, %d edits, cards %+v", posts, edits, thread.Cards)
		}
	})

	t.Run("a seat that does not drive, a person and a session without a seat keep no card", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "The sync fails.")
		for _, as := range []string{trinitysSession, ownerA} {
			st.refused(st.card(as, root, "done"), commands.NotDriver)
		}
	})

	t.Run("a status that is none is refused with those that are", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "The sync fails.")
		r := st.refused(st.card(smithsSession, root, "thinking"), commands.BadRequest)
		for _, status := range []string{"investigating", "planning", "driving", "reviewing", "blocked", "done"} {
			if !strings.Contains(r.Message, status) {
				t.Errorf("the refusal does not name %s: %s", status, r.Message)
			}
		}
	})

	t.Run("an edit keeps what it leaves out; a new card leaves out nothing", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "The sync fails.")
		bare := func() commands.Card {
			c := st.card(smithsSession, root, "blocked")
			c.Subject, c.Work = nil, ""
			return c
		}
		st.refused(bare(), commands.BadRequest)
		st.does(st.card(smithsSession, root, "driving"))
		r := st.does(bare())[0]
		if card := st.s.Thread(root.Thread).Cards[0]; card.Work != "owner-a" || card.Status != events.CardBlocked || st.bodies[r.ID] != "the guest-card sync" {
			t.Errorf("the card says %+v, %q", card, st.bodies[r.ID])
		}
	})

	t.Run("a card answers nothing, is no real post, and calls nobody", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerB, "The sync fails.", func(s *commands.Send) { s.Intent = "request" })
		c := st.card(trinitysSession, root, "driving")
		c.Subject = []byte("with @smith")
		sent := st.does(c)[0].Event.(events.MessageSent)
		if _, open := st.s.Item(string(root.ID)); !open {
			t.Error("the card answered the question")
		}
		st.drivenBy(root, "trinity (author)")
		if len(sent.Mentions) > 0 || st.s.Message(sent.Message).IsReply {
			t.Error("the card mentions somebody, or is an answer")
		}
	})

	t.Run("a card that was deleted is none", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "The sync fails.")
		first := st.does(st.card(smithsSession, root, "driving"))[0].Event.(events.MessageSent)
		st.does(commands.Delete{Call: st.call(smithsSession), Message: string(first.Message)})
		if next, is := st.does(st.card(smithsSession, root, "driving"))[0].Event.(events.MessageSent); !is || next.Message == first.Message {
			t.Error("the deleted card was edited")
		}
	})
}

func TestDrivingAnAlertGoesToItsOneTriager(t *testing.T) {
	alert := func(st *stage, as, channel, body, payload string) commands.Send {
		return commands.Send{Call: st.call(as), Kind: events.KindAlert, Channel: channel, Body: []byte(body), Payload: []byte(payload)}
	}

	for _, c := range []struct {
		row, channel, seat string
		decides            bool
	}{
		{"59: top-level alert, Smith's seat evaluates", "#alerts", "smith", true},
		{"60: top-level alert, Trinity's seat evaluates the same shared rule", "#alerts", "trinity", false},
		{"61: any other channel, Smith's seat", "#general", "smith", false},
	} {
		t.Run("row "+c.row, func(t *testing.T) {
			triager, known := commands.TriagerOf(castPolicy(), c.channel)
			if decides := known && triager == c.seat; decides != c.decides {
				t.Errorf("decides: %t, want %t", decides, c.decides)
			}
		})
	}

	t.Run("by the content map over body and payload it is driven elsewhere", func(t *testing.T) {
		for _, c := range []struct{ as, body, payload string }{
			{"bot:pager", "the AppFolio sync lambda times out", ""},
			{"bot:pager", "a lambda times out", `{"name":"AppFolio sync lambda"}`},
			{ownerA, "a lambda times out", `{"name":"AppFolio sync lambda"}`},
		} {
			st := newStage(t, castPolicy())
			recorded := st.does(alert(st, c.as, "#alerts", c.body, c.payload))
			e := recorded[0].Event.(events.MessageSent)
			if e.To.ID != "@smith" || e.ReplyTo != "" || e.Channel != "#alerts" || e.Area.Seat != "trinity" || e.Area.Reason != events.AreaMap {
				t.Errorf("%s: sent %+v", c.as, e)
			}
			if len(e.Deliveries) != 2 || e.Deliveries[1].To != "@trinity" {
				t.Errorf("%s: delivered %+v", c.as, e.Deliveries)
			}
			if c.payload != "" && (recorded[1].Type() != events.TypePayloadAttached || st.bodies[recorded[1].ID] != c.payload) {
				t.Errorf("%s: the payload is %q", c.as, st.bodies[recorded[1].ID])
			}
			st.drivenBy(st.s.Message(e.Message), "trinity (map)")
		}
	})

	t.Run("everybody concerned can answer it, also where only the bot is left", func(t *testing.T) {
		st := newStage(t, castPolicy())
		lambda := st.alert("bot:pager", "the AppFolio sync lambda times out")
		if m := st.says(smithsSession, "yours, I think", replyTo(lambda)); m.To.ID != "@trinity" {
			t.Errorf("the triager's answer goes to %s, and not to the driver", m.To.ID)
		}
		if m := st.says(trinitysSession, "mine", replyTo(lambda)); m.To.ID != "@smith" {
			t.Errorf("the driver's answer goes to %s, and not to the triager", m.To.ID)
		}
		disk := st.alert("bot:pager", "disk full")
		m := st.says(smithsSession, "cleaned", replyTo(disk))
		if m.To.ID != "bot:pager" || len(m.Deliveries) != 0 || m.State() != events.StateDelivered {
			t.Errorf("the answer goes to %s, delivered %+v, %s", m.To.ID, m.Deliveries, m.State())
		}
		st.refused(commands.Send{Call: st.call(smithsSession), ReplyTo: string(disk.ID), Intent: "request", Body: []byte("why?")}, commands.BadRequest)
	})

	t.Run("the same alert again is a duplicate; with another payload it is not", func(t *testing.T) {
		st := newStage(t, castPolicy())
		first := st.does(alert(st, "bot:pager", "#alerts", "failing", "one"))
		again := func(payload string) commands.Send {
			c := alert(st, "bot:pager", "#alerts", "failing", payload)
			c.Alike = func(events.Fingerprint) (events.MessageID, bool) {
				return first[0].Event.(events.MessageSent).Message, true
			}
			c.PayloadOf = func(events.MessageID) []byte { return []byte(st.bodies[first[1].ID]) }
			return c
		}
		st.refused(again("one"), commands.Duplicate)
		st.does(again("two"))
	})

	t.Run("what is no alert", func(t *testing.T) {
		st := newStage(t, castPolicy())
		for _, c := range []struct {
			send commands.Send
			want commands.Code
			says string
		}{
			{alert(st, "bot:pager", "#nowhere", "x", ""), commands.NotFound, "#alerts"},
			{alert(st, "bot:pager", "", "x", ""), commands.BadRequest, "channel"},
			{alert(st, "bot:pager", "#alerts", "x", strings.Repeat("x", 64<<10+1)), commands.BadRequest, "65537 bytes"},
			{alert(st, "bot:pager", "#alerts", "x", "\xff"), commands.BadRequest, "UTF-8"},
			{alert(st, "bot:pager", "#alerts", " ", "x"), commands.BadRequest, "blank"},
			{alert(st, smithsSession, "#alerts", "x", ""), commands.PersonOnly, "session-of-smith"},
			{commands.Send{Call: st.call("bot:pager"), To: "@smith", Body: []byte("x")}, commands.SenderNotLive, "bot:pager"},
		} {
			if r := st.refused(c.send, c.want); !strings.Contains(r.Message, c.says) {
				t.Errorf("%s does not say %q: %s", c.want, c.says, r.Message)
			}
		}
		bare := castPolicy()
		bare.Alerts = nil
		st = newStage(t, bare)
		if r := st.refused(alert(st, "bot:pager", "#alerts", "x", ""), commands.NotFound); !strings.Contains(r.Message, "no alert channels") {
			t.Errorf("it does not say that there are none: %s", r.Message)
		}
	})

	t.Run("a machine's rate counts its bots' alerts", func(t *testing.T) {
		policy := castPolicy()
		policy.Limits.DeviceRate = 1
		st := newStage(t, policy)
		st.does(alert(st, "bot:pager", "#alerts", "one", ""))
		st.refused(alert(st, "bot:other", "#alerts", "two", ""), commands.DeviceRate)
	})

	t.Run("with an alert its payload goes", func(t *testing.T) {
		st := newStage(t, castPolicy())
		recorded := st.does(alert(st, ownerA, "#alerts", "failing", "one"))
		deleted := st.does(commands.Delete{Call: st.call(ownerA), Message: string(recorded[0].Event.(events.MessageSent).Message)})
		if bodies := deleted[0].Event.(events.MessageDeleted).Bodies; len(bodies) != 2 || bodies[1] != recorded[1].ID {
			t.Errorf("the bodies that went are %v", bodies)
		}
	})
}
