package commands_test

import (
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
)

// A ledger of several machines takes one stream after the other, and the seat's is
// the first: who looks between the two must not take the seat for a dead one's.
func TestASeatIsKeptForTheSessionThatTookItAndIsAboutToJoin(t *testing.T) {
	const comes, other = "comes-0001", "other-0001"
	take := events.SeatTaken{Seat: "smith", Session: comes, Protocol: events.Protocol}
	for name, before := range map[string]func(*stage){
		"for the first time": func(*stage) {},
		"again": func(st *stage) {
			st.join(comes, "")
			st.record(events.SessionStream(comes), comes, events.SessionLeft{Session: comes, Reason: events.EndLeft})
			st.now = st.now.Add(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, events.DefaultPolicy())
			before(st)
			st.record(events.SeatStream("smith"), comes, take)
			taken := st.now
			for _, c := range []struct {
				after time.Duration
				kept  bool
			}{{0, true}, {-9 * time.Second, true}, {9 * time.Second, true}, {10 * time.Second, false}, {-time.Minute, false}} {
				_, r := commands.Join{Call: st.call(other), Session: other, Seat: "smith"}.Decide(st.s, taken.Add(c.after), events.DefaultPolicy())
				if kept := r != nil && r.Code == commands.SeatIsTaken; kept != c.kept {
					t.Errorf("%s after it was taken: %v", c.after, r)
				}
			}
			st.record(events.SessionStream(comes), comes, events.SessionJoined{Session: comes, Source: events.SourceManual, Device: "test"})
			st.record(events.SessionStream(comes), comes, events.SessionLeft{Session: comes, Reason: events.EndLeft})
			if _, r := (commands.Join{Call: st.call(other), Session: other, Seat: "smith"}).Decide(st.s, taken.Add(time.Second), events.DefaultPolicy()); r != nil {
				t.Errorf("once it joined and left: %v", r)
			}
		})
	}
}
