package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

const (
	commitA = "4f2a9c1d00aa4f2a9c1d00aa4f2a9c1d00aa0001"
	commitB = "4f2a9c1e00aa4f2a9c1d00aa4f2a9c1d00aa0001"
)

// asks has the driver ask for a review, and gives its id.
func (st *stage) asks(as string, root *projections.Message, commit string, more ...func(*commands.ReviewAsk)) events.ReviewAsked {
	st.t.Helper()
	ask := commands.ReviewAsk{Call: st.call(as), Thread: string(root.Thread), Commit: commit}
	for _, m := range more {
		m(&ask)
	}
	for _, r := range st.does(ask) {
		if e, is := r.Event.(events.ReviewAsked); is {
			return e
		}
	}
	st.t.Fatal("no review was asked")
	return events.ReviewAsked{}
}

func (st *stage) labels(as string, review events.ReviewID, label, risk string) []events.Recorded {
	st.t.Helper()
	return st.does(commands.ReviewLabel{Call: st.call(as), Review: string(review), Label: label, Risk: risk})
}

// paged lists why the owners were called, and that they are the owners.
func (st *stage) paged(recorded []events.Recorded) (why []events.PageReason) {
	st.t.Helper()
	for _, r := range recorded {
		if e, is := r.Event.(events.OwedPaged); is {
			if fmt.Sprint(e.Owners) != "[@owner-a @owner-b]" {
				st.t.Errorf("paged %v, and not the owners", e.Owners)
			}
			why = append(why, e.Reason)
		}
	}
	return why
}

// cleared is whether a commit may be merged.
func (st *stage) cleared(root *projections.Message, commit string) bool {
	st.t.Helper()
	c, r := commands.ReviewCheck(st.s.Thread(root.Thread), commit)
	if r != nil {
		st.t.Fatalf("the check is refused: %s", r.Message)
	}
	if c.Why == "" {
		st.t.Error("the check does not say why")
	}
	return c.Clear
}

func TestDrivingAReviewClearsItsCommitOrCallsTheOwners(t *testing.T) {
	for _, c := range []struct {
		row, label, risk string
		clear            bool
		page             events.PageReason
		open             bool // afterwards
	}{
		{row: "88: ROOT, low", label: "ROOT", risk: "low", clear: true},
		{row: "89: ROOT, med", label: "ROOT", risk: "med", clear: true},
		{row: "90: ROOT, high", label: "ROOT", risk: "high", page: events.PageVerdict},
		{row: "not a number of the table: BANDAGE, low", label: "BANDAGE", risk: "low", page: events.PageVerdict},
		{row: "92: ROOT without a risk word", label: "ROOT", page: events.PageUnread, open: true},
		{row: "92: a risk that is none", label: "root", risk: "lowish", page: events.PageUnread, open: true},
		{row: "92: a label that is none", label: "lgtm", risk: "low", page: events.PageUnread, open: true},
	} {
		t.Run("row "+c.row, func(t *testing.T) {
			st := newStage(t, castPolicy())
			root := st.says(ownerA, "please look")
			asked := st.asks(smithsSession, root, commitA)
			recorded := st.labels(trinitysSession, asked.Review, c.label, c.risk)
			if got := st.cleared(root, commitA); got != c.clear {
				t.Errorf("cleared: %t, want %t", got, c.clear)
			}
			var want []events.PageReason
			if c.page != "" {
				want = append(want, c.page)
			}
			if got := st.paged(recorded); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the owners are called for %v, want %v", got, want)
			}
			if _, open := st.s.Item(string(asked.Review)); open != c.open {
				t.Errorf("the review is open: %t, want %t", open, c.open)
			}
		})
	}

	t.Run("row 93: no label in time", func(t *testing.T) {
		st := newStage(t, castPolicy())
		root := st.says(ownerA, "please look")
		asked := st.asks(smithsSession, root, commitA)
		item, _ := st.s.Item(string(asked.Review))
		next, bounded := commands.NextReminder(item, st.policy.Limits, st.now)
		if !bounded || next.Page != events.PageLate || next.At != stageStart.Add(30*time.Minute) {
			t.Errorf("next is %+v; want the owners called after 30 min", next)
		}
		if st.cleared(root, commitA) {
			t.Error("a commit without a label is cleared")
		}
	})
}

func TestDrivingAReviewIsOfOneCommitByAnotherSeat(t *testing.T) {
	begin := func(t *testing.T, more ...string) (*stage, *projections.Message) {
		st := newStage(t, castPolicy(more...))
		return st, st.says(ownerA, "please look")
	}

	t.Run("a later commit needs its own label", func(t *testing.T) {
		st, root := begin(t)
		st.labels(trinitysSession, st.asks(smithsSession, root, commitA).Review, "root", "low")
		if !st.cleared(root, commitA[:7]) || !st.cleared(root, strings.ToUpper(commitA)) {
			t.Error("the commit that was labelled is not cleared")
		}
		if st.cleared(root, commitB) {
			t.Error("a commit that nobody labelled is cleared")
		}
	})

	t.Run("a commit that is named too short to be one is not cleared", func(t *testing.T) {
		st, root := begin(t)
		twin := commitA[:12] + "ff"
		st.labels(trinitysSession, st.asks(smithsSession, root, commitA).Review, "root", "low")
		st.labels(trinitysSession, st.asks(smithsSession, root, twin).Review, "bandage", "low")
		if st.cleared(root, commitA[:7]) {
			t.Error("cleared, and may be either of two commits")
		}
		if !st.cleared(root, commitA) || st.cleared(root, twin) {
			t.Error("each of the two has its own label")
		}
		if _, r := commands.ReviewCheck(st.s.Thread(root.Thread), commitA[:6]); r == nil || r.Code != commands.BadRequest {
			t.Errorf("six digits are taken for a commit: %v", r)
		}
	})

	t.Run("of two labels on a commit the later counts", func(t *testing.T) {
		st, root := begin(t)
		st.labels(trinitysSession, st.asks(smithsSession, root, commitA).Review, "bandage", "low")
		second := st.asks(smithsSession, root, commitA)
		if st.cleared(root, commitA) {
			t.Error("asking again cleared a bandage")
		}
		st.labels(trinitysSession, second.Review, "root", "med")
		if !st.cleared(root, commitA) {
			t.Error("the later label does not count")
		}
	})

	t.Run("another seat's label does not outweigh one that calls the owners", func(t *testing.T) {
		st, root := begin(t, "oracle")
		st.labels(trinitysSession, st.asks(smithsSession, root, commitA).Review, "bandage", "low")
		again := st.does(commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commitA, To: "oracle"})
		for _, r := range again {
			if asked, is := r.Event.(events.ReviewAsked); is {
				st.labels(oraclesSession, asked.Review, "low", "root") // in either order
			}
		}
		if st.cleared(root, commitA) {
			t.Error("a bandage was cleared by asking somebody else")
		}
	})

	t.Run("a commit that was named short clears no longer name", func(t *testing.T) {
		st, root := begin(t)
		st.labels(trinitysSession, st.asks(smithsSession, root, commitA[:7]).Review, "root", "low")
		if !st.cleared(root, commitA[:7]) || st.cleared(root, commitA[:7]+"ffffffffff") {
			t.Error("seven digits are taken for a whole hash")
		}
	})

	for _, c := range []struct {
		what, by, author, to, absent string
		want                         string // the reviewer; or a refusal's code
	}{
		{what: "the next in order after the driver", by: smithsSession, want: "trinity"},
		{what: "round to the first after the last", by: oraclesSession, want: "smith"},
		{what: "the author is passed over", by: smithsSession, author: "@trinity", want: "oracle"},
		{what: "the author by another case", by: smithsSession, author: "Trinity", want: "oracle"},
		{what: "the author by a session", by: smithsSession, author: trinitysSession, want: "oracle"},
		{what: "an author who is no seat bars nobody", by: smithsSession, author: "a contractor", want: "trinity"},
		{what: "an absent seat is passed over", by: smithsSession, absent: "trinity", want: "oracle"},
		{what: "a named seat", by: smithsSession, to: "oracle", want: "oracle"},
		{what: "never the driver, though named", by: smithsSession, to: "smith", want: "bad_request"},
		{what: "never the author, though named", by: smithsSession, author: "oracle", to: "oracle", want: "bad_request"},
		{what: "no absent seat, though named", by: smithsSession, absent: "oracle", to: "oracle", want: "bad_request"},
		{what: "a seat that is none", by: smithsSession, to: "morpheus", want: "no_such_seat"},
		{what: "only the driver asks", by: trinitysSession, want: "not_driver"},
	} {
		t.Run("asks "+c.what, func(t *testing.T) {
			st, root := begin(t, "oracle")
			if c.by == oraclesSession {
				root = st.says(third, "please look")
			}
			if c.absent != "" {
				st.record(events.SeatStream(c.absent), "device:test", events.SeatAbsent{Seat: c.absent, Since: st.now})
			}
			ask := commands.ReviewAsk{Call: st.call(c.by), Thread: string(root.Thread), Commit: commitA, Author: c.author, To: c.to}
			if strings.Contains(c.want, "_") {
				st.refused(ask, commands.Code(c.want))
				return
			}
			recorded := st.does(ask)
			asked := recorded[1].Event.(events.ReviewAsked)
			if asked.Reviewer != c.want {
				t.Errorf("asked %s, want %s", asked.Reviewer, c.want)
			}
			sent := recorded[0].Event.(events.MessageSent)
			if sent.Kind != events.KindReview || sent.To.ID != events.Named(c.want) {
				t.Errorf("a %s went to %s", sent.Kind, sent.To.ID)
			}
			body := st.bodies[recorded[0].ID]
			for _, must := range []string{commitA, "bandage", "recur", "class", "decklog review label " + string(asked.Review) + " root low"} {
				if !strings.Contains(body, must) {
					t.Errorf("the request does not hold %q:\n%s", must, body)
				}
			}
			if len(sent.Mentions) > 0 || sent.Hop > 0 {
				t.Errorf("the request mentions %v and is hop %d", sent.Mentions, sent.Hop)
			}
		})
	}

	t.Run("no reviewer left: the owners are called at once, and one that comes back is asked", func(t *testing.T) {
		st, root := begin(t)
		st.record(events.SeatStream("trinity"), "device:test", events.SeatAbsent{Seat: "trinity", Since: st.now})
		ask := commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commitA}
		recorded := st.does(ask)
		asked := recorded[0].Event.(events.ReviewAsked)
		if got := st.paged(recorded); asked.Reviewer != "" || fmt.Sprint(got) != "[no_reviewer]" {
			t.Errorf("asked %q, called for %v", asked.Reviewer, got)
		}
		st.refused(commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commitA}, commands.Duplicate)
		st.refused(commands.ReviewLabel{Call: st.call(smithsSession), Review: string(asked.Review), Label: "root", Risk: "low"}, commands.NotYours)
		st.record(events.SeatStream("trinity"), "device:test", events.SeatReturned{Seat: "trinity", Session: trinitysSession})
		second := st.asks(smithsSession, root, commitA)
		if _, open := st.s.Item(string(asked.Review)); open || second.Reviewer != "trinity" {
			t.Errorf("the first is open: %t; asked %q", open, second.Reviewer)
		}
	})

	t.Run("one label a review, of the seat that was asked", func(t *testing.T) {
		st, root := begin(t, "oracle")
		asked := st.asks(smithsSession, root, commitA)
		for _, as := range []string{smithsSession, oraclesSession, ownerA} {
			st.refused(commands.ReviewLabel{Call: st.call(as), Review: string(asked.Review), Label: "root", Risk: "low"}, commands.NotYours)
		}
		st.refused(commands.ReviewLabel{Call: st.call(trinitysSession), Review: "none", Label: "root", Risk: "low"}, commands.NotFound)
		st.refused(commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commitA}, commands.Duplicate)
		st.labels(trinitysSession, asked.Review, "bandage", "high")
		st.refused(commands.ReviewLabel{Call: st.call(trinitysSession), Review: string(asked.Review), Label: "root", Risk: "low"}, commands.AlreadyDecided)
	})

	t.Run("what cannot be read calls the owners once, and the label may still come", func(t *testing.T) {
		st, root := begin(t)
		asked := st.asks(smithsSession, root, commitA)
		st.labels(trinitysSession, asked.Review, "root", "")
		if again := st.labels(trinitysSession, asked.Review, "root", "?"); len(again) != 0 {
			t.Errorf("called again: %v", again)
		}
		st.labels(trinitysSession, asked.Review, "root", "low")
		if !st.cleared(root, commitA) {
			t.Error("the label does not count")
		}
	})

	t.Run("a label after its time is recorded as late, and counts", func(t *testing.T) {
		for _, c := range []struct {
			at   float64
			late bool
		}{{1799, false}, {1800, true}, {4000, true}} {
			st, root := begin(t)
			asked := st.asks(smithsSession, root, commitA)
			st.at(c.at)
			e := st.labels(trinitysSession, asked.Review, "root", "low")[0].Event.(events.ReviewLabelled)
			if e.Late != c.late || !st.cleared(root, commitA) {
				t.Errorf("at %v s: late %t, cleared %t", c.at, e.Late, st.cleared(root, commitA))
			}
		}
	})

	t.Run("a review and its request are no messages of the thread's rate, nor an answer to what it hangs on", func(t *testing.T) {
		policy := castPolicy()
		policy.Limits.ThreadRate = 1
		st := newStage(t, policy)
		root := st.says(ownerA, "Why did it fail?", func(s *commands.Send) { s.Intent = "request" })
		st.at(4000).says(smithsSession, "I am on it.", replyTo(root), working)
		asked := st.asks(smithsSession, root, commitA)
		if _, open := st.s.Item(string(root.ID)); !open {
			t.Error("the request for a review answered the root")
		}
		if items := st.s.OwedItems(nil, nil, 0); len(items) != 2 || items[1].ID != string(asked.Review) {
			t.Errorf("owed: %+v", items)
		}
	})

	t.Run("S20: review asked, driver moved before the label", func(t *testing.T) {
		st, root := begin(t, "oracle")
		asked := st.asks(smithsSession, root, commitA)
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: string(root.Thread), Seat: "oracle"})
		st.labels(trinitysSession, asked.Review, "root", "low")
		if !st.cleared(root, commitA) {
			t.Error("the label does not stand for the commit")
		}
		st.drivenBy(root, "oracle (human)")
		told := 0
		for _, seat := range []string{"smith", "oracle"} {
			if st.s.Call(st.log[len(st.log)-1].ID, events.Named(seat)) != nil {
				told++
			}
		}
		if told != 2 {
			t.Error("the label is not told to who asked and to who drives")
		}
	})

	t.Run("a review that passes is labelled by the seat that owes it now", func(t *testing.T) {
		st, root := begin(t, "oracle")
		asked := st.asks(smithsSession, root, commitA)
		thread := string(root.Thread)
		st.does(commands.PlaceSticker{Call: st.call(ownerA), Thread: thread, Seat: "trinity"})
		st.does(commands.PlaceSticker{Call: st.call(ownerB), Thread: thread, Seat: "oracle"})
		item, _ := st.s.Item(string(asked.Review))
		if !item.OwedBy("oracle") {
			t.Fatalf("it is owed by %s", item.Debtor)
		}
		st.labels(oraclesSession, asked.Review, "root", "low")
		if !st.cleared(root, commitA) {
			t.Error("the label does not count")
		}
	})

	t.Run("a commit is 7 to 64 hex digits", func(t *testing.T) {
		st, root := begin(t)
		for _, commit := range []string{"", "4f2a9c", "4f2a9cg1", "4f2a9c1 x", strings.Repeat("a", 65)} {
			st.refused(commands.ReviewAsk{Call: st.call(smithsSession), Thread: string(root.Thread), Commit: commit}, commands.BadRequest)
		}
		for _, commit := range []string{"4F2A9C1", strings.Repeat("b", 64)} {
			if got := st.asks(smithsSession, root, commit).Commit; got != strings.ToLower(commit) {
				t.Errorf("%s is asked as %s", commit, got)
			}
		}
	})
}

func TestDrivingAtMostThreeHops(t *testing.T) {
	st := newStage(t, castPolicy())
	root := st.says(ownerA, "The sync fails.")
	hops := func(want int) {
		t.Helper()
		if got := st.s.Thread(root.Thread).Hops; got != want {
			t.Errorf("hop %d, want %d", got, want)
		}
	}
	mention := func(as, body string) commands.Send {
		other := "@smith"
		if as == smithsSession {
			other = "@trinity"
		}
		return commands.Send{Call: st.call(as), To: other, ReplyTo: string(root.ID), Body: []byte(body)}
	}
	t.Run("row 95: CC for a critique (stamped mention), count 0", func(t *testing.T) {
		plays(t)
		st.does(mention(smithsSession, "cc @trinity: is this the root?"))
		hops(1)
	})
	t.Run("row 96: critique comes back (stamped mention), count 1", func(t *testing.T) {
		plays(t)
		st.does(mention(trinitysSession, "@smith it is a bandage"))
		hops(2)
	})
	t.Run("row 97: third stamped mention", func(t *testing.T) {
		plays(t)
		st.does(mention(smithsSession, "@trinity why?"))
		hops(3)
	})
	t.Run("row 98: fourth stamped mention", func(t *testing.T) {
		plays(t)
		r := st.refused(mention(trinitysSession, "@smith because of the clock"), commands.HopLimit)
		if r.Limit != 3 || r.Count != 3 {
			t.Errorf("the refusal says %d of %d", r.Count, r.Limit)
		}
		hops(3)
	})
	t.Run("S22: CC (1), critique (2), counter-question (3), answer (4th stamp)", func(t *testing.T) {
		plays(t)
		st.does(mention(trinitysSession, "smith, because of the clock; `@smith` in code calls nobody"))
		hops(3)
	})
	t.Run("row 102: a person speaks", func(t *testing.T) {
		plays(t)
		st.says(ownerA, "Go on.", replyTo(root))
		hops(0)
		st.does(mention(trinitysSession, "@smith because of the clock"))
		hops(1)
	})
	t.Run("row 100: driver move (reactions and a ledger write)", func(t *testing.T) {
		plays(t)
		st.does(mention(smithsSession, "@trinity then take it"))
		hops(2)
		offered := st.does(commands.HandoffOffer{Call: st.call(smithsSession), Thread: string(root.Thread), To: "trinity", Reason: []byte("@trinity it is yours")})
		st.does(commands.HandoffAccept{Call: st.call(trinitysSession), Handoff: string(offered[0].Event.(events.HandoffOffered).Handoff)})
		hops(2)
		st.drivenBy(root, "trinity (handoff)")
	})
	t.Run("cards, reviews and edits are none", func(t *testing.T) {
		st.asks(trinitysSession, root, commitA)
		st.does(commands.Card{Call: st.call(trinitysSession), Thread: string(root.Thread), Subject: []byte("for @smith"), Work: "owner-a", Status: "planning"})
		sent := st.says(trinitysSession, "no call", replyTo(root), to("@smith"))
		st.does(commands.Edit{Call: st.call(trinitysSession), Message: string(sent.ID), Body: []byte("@smith, a call")})
		hops(2)
	})
}
