package projections_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
	"decklog/projections"
)

// A cursor of the overview belongs to one question, as that of an inbox does.
func TestACursorOfTheOverviewBelongsToItsQuestion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		query := rapid.Custom(func(t *rapid.T) projections.ThreadsQuery {
			text := rapid.SampledFrom([]string{"", "a", "a\n", "\na", "open"})
			return projections.ThreadsQuery{
				State: rapid.SampledFrom([]string{"", "open", "done"}).Draw(t, "state"), Seat: text.Draw(t, "seat"),
				Participant: events.Participant(text.Draw(t, "participant")), Text: text.Draw(t, "text"), Waiting: rapid.Bool().Draw(t, "waiting"),
			}
		})
		q, other := query.Draw(t, "query"), query.Draw(t, "another")
		at := events.Position(rapid.Int64Range(1, 1<<62).Draw(t, "position"))
		if got, ok := q.Resume(q.Cursor(at)); !ok || got != at {
			t.Fatalf("%d became %d, %t", at, got, ok)
		}
		if got, ok := other.Resume(q.Cursor(at)); ok && other != q {
			t.Fatalf("the cursor of %+v resumes %+v at %d", q, other, got)
		}
		if _, ok := (projections.RefusalsQuery{}).Resume(q.Cursor(at)); ok {
			t.Fatal("a cursor of threads resumes the refusals")
		}
	})
}

func FuzzCursorOfTheOverview(f *testing.F) {
	q := projections.ThreadsQuery{State: "open"}
	for _, at := range []events.Position{1, 35, 36, 1 << 40} {
		f.Add(q.Cursor(at))
	}
	f.Add("")
	f.Add("A-000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := q.Resume(text); ok && (at <= 0 || q.Cursor(at) != text) {
			t.Fatalf("%q is taken for %d, whose cursor is %q", text, at, q.Cursor(at))
		}
	})
}

// spoken is a history in which a message begins each thread, in order.
func spoken(n int) []events.Recorded {
	var es []events.Event
	for i := range n {
		es = append(es, events.MessageSent{
			Message: events.MessageID(fmt.Sprint("m", i)), Thread: events.ThreadID(fmt.Sprint("t", i)), Kind: events.KindMessage,
			Author: events.Author{ID: "s1", Kind: events.KindSession}, To: events.Recipient{ID: "s2", Kind: events.KindSession},
		})
	}
	recorded := placed(es...)
	for i := range recorded {
		recorded[i].Stream = events.Stream(fmt.Sprint("thread-t", i))
	}
	return recorded
}

// A filter that nothing passes ends each page after so many threads, and its
// cursors lead through all of them.
func TestAFilterPassesOverSoManyThreadsAtATime(t *testing.T) {
	n := 2*projections.ThreadsScanMax + 17
	s := projections.On(folded(t, spoken(n), func() int { return n }))
	for _, c := range []struct {
		text  string
		pages int
		found int
	}{{"nowhere", 3, 0}, {"", n/10 + 1, n}} {
		q := projections.ThreadsQuery{Text: c.text, Limit: 10}
		pages, found := 0, []events.ThreadID{}
		for more := true; more; pages++ {
			v := s.Threads(q, noBodies{}, 0)
			for _, l := range v.Threads {
				found = append(found, l.Thread)
			}
			if more = v.NextCursor != ""; more {
				q.Before, _ = q.Resume(v.NextCursor)
			}
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(found)
		if pages != c.pages || len(found) != c.found || c.found > 0 && (found[0] != "t0" || found[n-1] != events.ThreadID(fmt.Sprint("t", n-1))) {
			t.Errorf("for %q there are %d pages with %d threads", c.text, pages, len(found))
		}
	}
}

// One event may stand for many refusals of a flood.
func TestARefusalCountsForAsManyAsItStandsFor(t *testing.T) {
	s := projections.On(folded(t, placed(
		events.CommandRefused{By: "s1", Command: "send", Code: "pending"},
		events.CommandRefused{By: "s1", Command: "any", Code: "counted", Counted: 7},
	), func() int { return 1 }))
	if v := s.Refusals(projections.RefusalsQuery{}, nil); v.Total != 8 || len(v.Counts) != 2 || v.Counts[0] != (projections.RefusalCount{Code: "counted", Count: 7}) {
		t.Errorf("counted %+v", v)
	}
	if n := s.Counts().Refusals; n != 8 {
		t.Errorf("%d refusals", n)
	}
}
