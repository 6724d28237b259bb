package ops_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// peeks looks at everything that can be looked at, as of the present or of a
// position.
func (d *desk) peeks(who string, thread events.ThreadID, at string) {
	d.t.Helper()
	for what, look := range map[string]func() (*commands.Refusal, error){
		"inbox": func() (*commands.Refusal, error) {
			_, r, err := d.Inbox(ops.InboxRequest{As: who, At: at})
			return r, err
		},
		"sent": func() (*commands.Refusal, error) {
			_, r, err := d.Inbox(ops.InboxRequest{As: who, At: at, Sent: true})
			return r, err
		},
		"peers":  func() (*commands.Refusal, error) { _, r, err := d.Peers(ops.PeersRequest{At: at}); return r, err },
		"owed":   func() (*commands.Refusal, error) { _, r, err := d.Owed(ops.OwedRequest{At: at}); return r, err },
		"policy": func() (*commands.Refusal, error) { _, err := d.Policy(); return nil, err },
		"events": func() (*commands.Refusal, error) {
			_, r, err := d.Events(ops.EventsRequest{From: 1}, func(events.Recorded) error { return nil })
			return r, err
		},
		"events of a thread": func() (*commands.Refusal, error) {
			_, r, err := d.Events(ops.EventsRequest{Thread: string(thread)}, func(events.Recorded) error { return nil })
			return r, err
		},
		"waits": func() (*commands.Refusal, error) {
			_, err := d.Waits(ops.LeaseRequest{Asker: ops.Asker{As: who}})
			return nil, err
		},
		"standing": func() (*commands.Refusal, error) {
			_, _, err := d.Standing(events.SessionID(who), d.now)
			return nil, err
		},
	} {
		// Somebody may not have been there yet.
		if r, err := look(); err != nil || r != nil && (at == "" || r.Code != commands.NotFound) {
			d.t.Errorf("%s of %s at %q: %+v %v", what, who, at, r, err)
		}
	}
	_, r, err := d.Thread(ops.ThreadRequest{ID: string(thread), At: at})
	if err != nil || r != nil && (at == "" || r.Code != commands.NotFound) {
		d.t.Errorf("thread %s at %q: %+v %v", thread, at, r, err)
	}
}

// F9
func TestLookingChangesNothing(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.send(alice, request("@smith", "for nobody yet"))
	d.refused(bob, commands.UnknownRecipient, inform("nobody-here", "x"))
	d.lease(bob)
	d.after(time.Minute) // a lease has ended, and nobody said so
	d.send("@ana", inform(bob, "one more"))
	d.after(25 * time.Hour) // everything is due
	before := d.end()
	rows := d.rows()
	for at := range int(before) + 1 {
		d.peeks(alice, asked.Thread, strconv.Itoa(at))
	}
	for range 3 {
		for _, who := range []string{alice, bob, "@smith", "@ana"} {
			d.peeks(who, asked.Thread, "")
		}
	}
	d.peeks(bob, asked.Thread, d.now.Add(-time.Hour).String())
	for what, r := range map[string]*commands.Refusal{
		"a damaged cursor":  second(d.Inbox(ops.InboxRequest{As: bob, Cursor: "zz"})),
		"an unknown thread": second(d.Thread(ops.ThreadRequest{ID: "no-such-thread"})),
		"a later position":  second(d.Owed(ops.OwedRequest{At: "100000"})),
		"no position":       second(d.Peers(ops.PeersRequest{At: "yesterday"})),
	} {
		if r == nil {
			t.Errorf("%s is not refused", what)
		}
	}
	if d.end() != before {
		t.Errorf("looking recorded %+v", d.recorded(before))
	}
	if !slices.Equal(d.rows(), rows) {
		t.Error("looking changed the rows")
	}
}

func second[T any](_ T, r *commands.Refusal, _ error) *commands.Refusal { return r }

// rows gives every row of the views.
func (d *desk) rows() (rows []string) {
	d.t.Helper()
	err := d.Ledger.View(func(r events.Reader) error {
		return r.Rows().Scan("", "", false, func(k string, v []byte) bool {
			rows = append(rows, k+" "+string(v))
			return true
		})
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return rows
}

// waiting is the count that a status line shows, and how many the inbox lists as
// waiting in that mailbox. F10: they are one number.
func (d *desk) waiting(who events.Participant) (count, listed int) {
	d.t.Helper()
	d.see(func(s *projections.State) { count = s.Mailbox(who).Waiting })
	for _, state := range []events.DeliveryState{events.StateQueued, events.StateHeld, events.StateLeased} {
		view, r, err := d.Inbox(ops.InboxRequest{As: string(who), State: string(state), Limit: ops.InboxMax})
		if r != nil || err != nil {
			d.t.Fatal(r, err)
		}
		listed += len(view.Messages)
	}
	return count, listed
}

func TestTheCountIsTheNumberOfTheListed(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith")
	d.ready(alice, bob)
	same := func(who events.Participant, want int) {
		t.Helper()
		if count, listed := d.waiting(who); count != want || listed != want {
			t.Fatalf("for %s the count is %d and %d are listed, want %d", who, count, listed, want)
		}
	}
	same(bob, 0)
	first := d.send(alice, inform(bob, "1"))
	d.send(alice, inform(bob, "2"))
	working := d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("3")})
	same(bob, 3)
	o := d.lease(bob)
	same(bob, 3)
	d.delete(alice, first.ID)
	same(bob, 2)
	d.confirm(o)
	same(bob, 1)
	d.after(180 * time.Second)
	d.take(bob)
	same(bob, 0)
	d.edit(alice, working.ID, "three", "final")
	same(bob, 1)
	d.take(bob)
	same(bob, 0)
	d.send(alice, inform("@smith", "4"))
	same("@smith", 1)
	d.join(bob, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.lease(bob)
	same(bob, 1)
	d.leave(bob)
	same("@smith", 1)
	d.see(func(s *projections.State) {
		if n := s.Mailbox(bob).Waiting; n != 0 {
			t.Errorf("%d wait for the one who left", n)
		}
	})
	d.after(25 * time.Hour)
	d.join(alice)
	d.lease(alice)
	d.see(func(s *projections.State) {
		if n := s.Mailbox("@smith").Waiting; n != 0 {
			t.Errorf("%d wait for the seat after a day", n)
		}
	})
	d.verified()
}

func TestPagesHoldEveryMessageOnceWhileOthersArrive(t *testing.T) {
	d := newDesk(t)
	persons(d)
	l := &d.policy.Limits
	l.SessionRate, l.DeviceRate, l.PersonRate, l.RecipientFull = 0, 0, 0, 0
	d.policy.Seats = seats("smith")
	d.of("ben", bob)
	d.of("ana", alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	var want []events.MessageID
	for i := range 23 {
		to := []string{alice, "@smith", "@ana"}[i%3]
		want = append(want, d.send(bob, inform(to, fmt.Sprint("message ", i))).ID)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 2, 5, 22, 23, 24} {
		var got []events.MessageID
		cursor := ""
		for page := 0; ; page++ {
			view, r, err := d.Inbox(ops.InboxRequest{As: alice, Limit: limit, Cursor: cursor})
			if r != nil || err != nil {
				t.Fatal(r, err)
			}
			if len(view.Messages) > limit {
				t.Fatalf("a page of %d holds %d", limit, len(view.Messages))
			}
			for _, m := range view.Messages {
				got = append(got, m.ID)
			}
			// Between the pages others arrive, and some are taken.
			d.send(bob, inform([]string{alice, "@smith", "@ana"}[page%3], fmt.Sprint("between ", limit, page)))
			if page == 1 {
				d.take(alice)
			}
			if cursor = view.NextCursor; cursor == "" {
				break
			}
		}
		if page := got; limit > 22 {
			got = page[max(0, len(page)-23):] // the newer ones came before
		}
		if got = onlyOf(want, got); !slices.Equal(got, want) {
			t.Errorf("in pages of %d:\n%v\nwant\n%v", limit, got, want)
		}
	}
}

// onlyOf leaves out what is not among the wanted: what arrived since.
func onlyOf(want, got []events.MessageID) (kept []events.MessageID) {
	for _, id := range got {
		if slices.Contains(want, id) {
			kept = append(kept, id)
		}
	}
	return kept
}

func TestAPageOfWhatWasSentHoldsOnlyTheSendersOwn(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	byPerson := d.send("@ana", inform(bob, "by hand"))
	bySession := d.send(alice, inform(bob, "by her session"))
	for who, want := range map[string]events.MessageID{"@ana": byPerson.ID, alice: bySession.ID} {
		view, r, err := d.Inbox(ops.InboxRequest{As: who, Sent: true})
		if r != nil || err != nil || len(view.Messages) != 1 || view.Messages[0].ID != want || view.NextCursor != "" {
			t.Errorf("%s sent %+v, %v %v", who, view.Messages, r, err)
		}
	}
}

// F18
func TestADamagedCursorIsRefused(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for i := range 5 {
		d.send(alice, inform(bob, fmt.Sprint(i)))
	}
	page := func(q ops.InboxRequest) (projections.InboxView, *commands.Refusal) {
		t.Helper()
		view, r, err := d.Inbox(q)
		if err != nil {
			t.Fatal(err)
		}
		return view, r
	}
	first, _ := page(ops.InboxRequest{As: bob, Limit: 2})
	cursor := first.NextCursor
	if cursor == "" {
		t.Fatal("there is no next page")
	}
	if _, r := page(ops.InboxRequest{As: bob, Limit: 2, Cursor: cursor}); r != nil {
		t.Fatalf("the cursor itself is refused: %+v", r)
	}
	bad := []string{cursor[1:], cursor + "0", cursor[:len(cursor)-1], "1" + cursor, strings.ToUpper(cursor), " " + cursor, cursor + " ", "-" + cursor, "+" + cursor, "zz", "-", "0-" + cursor[strings.Index(cursor, "-")+1:]}
	for i := range cursor {
		other := []byte(cursor)
		other[i] ^= 1
		bad = append(bad, string(other))
	}
	for _, c := range bad {
		if view, r := page(ops.InboxRequest{As: bob, Limit: 2, Cursor: c}); r == nil {
			t.Errorf("%q is taken for %q and gives %d messages", c, cursor, len(view.Messages))
		} else {
			d.told(commands.BadRequest, r, nil)
		}
	}
	for what, q := range map[string]ops.InboxRequest{
		"of somebody else": {As: alice, Cursor: cursor}, "of what was sent": {As: bob, Sent: true, Cursor: cursor}, "of a state": {As: bob, State: "queued", Cursor: cursor},
	} {
		if _, r := page(q); r == nil {
			t.Errorf("the cursor is taken for one %s", what)
		}
	}
	for _, q := range []ops.InboxRequest{{As: bob, Limit: -1}, {As: bob, Limit: ops.InboxMax + 1}, {As: bob, State: "lost"}} {
		_, r := page(q)
		d.told(commands.BadRequest, r, nil)
	}
}

// At a position, what time alone changes is judged at the time of that position,
// whichever thread the event there was about.
func TestAThreadIsShownAsItWasAtThatMoment(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	asked := d.send(alice, request(bob, "question"))
	working := d.send(bob, stub(asked.ID, "looking"))
	at := func(p events.Position) projections.ThreadView {
		t.Helper()
		view, r, err := d.Thread(ops.ThreadRequest{ID: string(asked.Thread), At: strconv.FormatInt(int64(p), 10)})
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
		return view
	}
	if view := at(d.end()); len(view.Pending) != 1 || view.Pending[0].Message != working.ID {
		t.Fatalf("pending %+v", view.Pending)
	}
	d.after(181 * time.Second)
	d.send(alice, inform(carol, "elsewhere"))
	if view := at(d.end()); len(view.Pending) != 0 {
		t.Errorf("three minutes later, by an event of another thread, pending are %+v", view.Pending)
	}
	if view := at(d.end() - 1); len(view.Pending) != 1 {
		t.Errorf("before that, pending are %+v", view.Pending)
	}
	_, r, err := d.Thread(ops.ThreadRequest{ID: string(asked.Thread), At: "2"})
	d.told(commands.NotFound, r, err)
}
