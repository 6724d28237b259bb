package projections

import (
	"fmt"
	"slices"
	"testing"

	"decklog/events"
	"decklog/internal/rows"
)

// A State that lets go of what it holds, however often, makes the same rows.
func TestAStateThatHoldsLittleMakesTheSameRows(t *testing.T) {
	before := heldMax
	defer func() { heldMax = before }()
	fold := func(most int) (list []string) {
		heldMax = most
		r := rows.New()
		s := On(r)
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
	whole := fold(before)
	for _, most := range []int{0, 1, 7, 40} {
		if got := fold(most); !slices.Equal(got, whole) {
			t.Errorf("holding %d rows it makes\n%q\nand not\n%q", most, got, whole)
		}
	}
}
