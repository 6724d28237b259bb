package projections

import (
	"fmt"
	"slices"
	"testing"

	"decklog/events"
	"decklog/internal/rows"
)

// A replay finds what it packed away.
func TestAReplayThatHoldsLittleFindsTheSameMessages(t *testing.T) {
	before := heldMax
	defer func() { heldMax = before }()
	for _, heldMax = range []int{0, 9, 100, before} {
		s := Replay(rows.New(), 0)
		for i := range events.Position(40) {
			id := events.MessageID(fmt.Sprint("m", i/2))
			r := events.Recorded{Position: i + 1, ID: events.EventID(fmt.Sprint("e", i)), Time: events.Time(i)}
			if r.Event = events.Event(events.MessageEdited{Message: id, Thread: "t"}); i%2 == 0 {
				r.Event = events.MessageSent{Message: id, Thread: "t", Author: events.Author{ID: "s9"}, To: events.Recipient{ID: "s1"}}
			}
			s.Apply(r)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			m := s.Message(events.MessageID(fmt.Sprint("m", i)))
			if m == nil || m.Position != events.Position(2*i+1) || m.Edited == nil || len(m.Bodies) != 2 {
				t.Fatalf("holding %d rows it has message %d as %+v, %v", heldMax, i, m, s.Err())
			}
		}
	}
}

// A State that lets go of what it holds, however often, makes the same rows; and
// so does a rebuild, which packs them away first.
func TestAStateThatHoldsLittleMakesTheSameRows(t *testing.T) {
	before, beforeAttic := heldMax, atticBytesMax
	defer func() { heldMax, atticBytesMax = before, beforeAttic }()
	fold := func(most int, begin func(events.Rows) *State) (list []string) {
		heldMax = most
		r := rows.New()
		s := begin(r)
		var position events.Position
		apply := func(e events.Event) {
			position++
			s.Apply(events.Recorded{Position: position, ID: events.EventID(fmt.Sprint("e", position)), Time: events.Time(position), Event: e})
		}
		for i := range 20 {
			m, lease := events.MessageID(fmt.Sprint("m", i)), events.LeaseID(fmt.Sprint("l", i))
			to := events.Participant(fmt.Sprint("s", i%3))
			apply(events.MessageSent{
				Message: m, Thread: "t", Author: events.Author{ID: "s9", Kind: events.KindSession, Device: "d"}, To: events.Recipient{ID: to},
				ReplyTo: events.MessageID(fmt.Sprint("m", i-1)), Intent: events.Request, Deliveries: []events.Delivery{{To: to, State: events.StateQueued}},
			})
			items := []events.Leased{{Kind: events.ItemMessage, Message: m, Thread: "t", Attempt: 1}}
			if i%4 == 1 {
				apply(events.MailboxTaken{Mailbox: to, Session: "s8", Items: []events.Moved{{Message: m, Thread: "t"}}})
				to = "s8"
			}
			apply(events.MailboxLeased{Lease: lease, Mailbox: to, Items: items})
			if i%2 == 0 {
				apply(events.MailboxConfirmed{Lease: lease, Mailbox: to, Items: items})
			}
			if i%5 == 0 {
				apply(events.MessageEdited{Message: m, Thread: "t"})
			}
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := r.Scan("", "", false, func(k string, v []byte) bool { list = append(list, k+" "+string(v)); return true }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	whole := fold(before, On)
	for _, most := range []int{0, 1, 7, 40, 400, before} {
		for _, atticBytesMax = range []int{0, 10_000, beforeAttic} {
			for how, begin := range map[string]func(events.Rows) *State{"on": On, "anew": Anew} {
				if got := fold(most, begin); !slices.Equal(got, whole) {
					t.Errorf("holding %d rows, %s, it makes\n%q\nand not\n%q", most, how, got, whole)
				}
			}
		}
	}
}
