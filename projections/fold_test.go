package projections_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// all lists rows as text.
func all(t rapid.TB, r events.Rows) (list []string) {
	t.Helper()
	if err := r.Scan("", "", false, func(k string, v []byte) bool {
		list = append(list, k+" "+string(v))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// placed gives events their places, as a ledger would.
func placed(es ...events.Event) (recorded []events.Recorded) {
	for i, e := range es {
		recorded = append(recorded, events.Recorded{
			Position: events.Position(i + 1), Stream: "any", Revision: events.Revision(i), ID: events.EventID(fmt.Sprint("e", i)),
			Time: events.Time(1_800_000_000_000_000 + i*1_000_000), Version: 1, Event: e,
		})
	}
	return recorded
}

// folded applies events in pages of these sizes, each page to what the one
// before it left in the rows.
func folded(t rapid.TB, recorded []events.Recorded, page func() int) *rows.Rows {
	t.Helper()
	r := rows.New()
	for from := 0; from < len(recorded); {
		to := min(from+page(), len(recorded))
		if err := projections.Project(r, recorded[from:to]); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	return r
}

// history draws events that no ledger of ours would hold: of messages that were
// never sent, of leases that nobody has, in any order. A fold is total.
func history(t *rapid.T) []events.Recorded {
	session := rapid.SampledFrom([]events.SessionID{"s1", "s2", "s3"})
	who := rapid.SampledFrom([]events.Participant{"s1", "s2", "s3", "@ana", "@smith", "bot:ci"})
	message := rapid.SampledFrom([]events.MessageID{"m0", "m1", "m2", "m3", "m4", "unknown"})
	thread := rapid.SampledFrom([]events.ThreadID{"t0", "t1", "unknown"})
	lease := rapid.SampledFrom([]events.LeaseID{"l0", "l1", "l2"})
	kind := rapid.SampledFrom([]events.ItemKind{events.ItemMessage, events.ItemNotice, "other"})
	until := rapid.Map(rapid.IntRange(-100, 100), func(n int) events.Time { return events.Time(1_800_000_000_000_000 + n*1_000_000) })
	items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.Leased {
		return events.Leased{
			Kind: kind.Draw(t, "kind"), Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread"), Attempt: rapid.IntRange(0, 4).Draw(t, "attempt"),
			Pending: rapid.Bool().Draw(t, "pending"), Edited: rapid.Bool().Draw(t, "edited"), To: who.Draw(t, "to"),
		}
	}), 0, 3)
	moved := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.Moved {
		return events.Moved{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread")}
	}), 0, 3)
	turn := rapid.SampledFrom([]events.Turn{events.Working, events.Final, ""})
	sent := 0
	event := rapid.Custom(func(t *rapid.T) events.Event {
		switch rapid.IntRange(0, 20).Draw(t, "type") {
		case 0, 1, 2, 3:
			// A ledger gives each message an id of its own.
			id := events.MessageID(fmt.Sprint("m", sent))
			sent++
			from, to := who.Draw(t, "from"), who.Draw(t, "to")
			e := events.MessageSent{
				Message: id, Thread: thread.Draw(t, "thread"), Kind: events.KindMessage,
				Author:  events.Author{ID: from, Kind: rapid.SampledFrom([]events.ParticipantKind{events.KindSession, events.KindPerson, events.KindBot}).Draw(t, "kind"), Seat: rapid.SampledFrom([]string{"", "smith"}).Draw(t, "seat"), Device: "d"},
				To:      events.Recipient{ID: to, Kind: events.KindSession},
				ReplyTo: message.Draw(t, "reply to"), Intent: rapid.SampledFrom([]events.Intent{events.Request, events.Inform, events.Done}).Draw(t, "intent"),
				Turn: turn.Draw(t, "turn"), Expires: until.Draw(t, "expires"),
				Deliveries: []events.Delivery{{To: to, State: rapid.SampledFrom([]events.DeliveryState{events.StateQueued, events.StateHeld}).Draw(t, "state")}},
			}
			if e.Turn == events.Working {
				by := until.Draw(t, "final by")
				e.FinalBy = &by
			}
			return e
		case 4:
			return events.MessageEdited{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread")}
		case 5:
			return events.MessageDeleted{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread")}
		case 6:
			return events.TurnFlipped{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread"), Turn: turn.Draw(t, "turn")}
		case 7:
			return events.MessageExpired{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread"), Mailbox: who.Draw(t, "mailbox")}
		case 8:
			return events.MessageUndelivered{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread"), Mailbox: who.Draw(t, "mailbox"), Kind: kind.Draw(t, "kind")}
		case 9:
			return events.MailboxLeased{Lease: lease.Draw(t, "lease"), Mailbox: who.Draw(t, "mailbox"), Harness: rapid.SampledFrom([]string{"", "codex"}).Draw(t, "harness"), Hook: "Stop", Until: until.Draw(t, "until"), Items: items.Draw(t, "items")}
		case 10:
			return events.MailboxConfirmed{Lease: lease.Draw(t, "lease"), Mailbox: who.Draw(t, "mailbox"), Items: items.Draw(t, "items")}
		case 11:
			return events.LeaseExpired{Lease: lease.Draw(t, "lease"), Mailbox: who.Draw(t, "mailbox"), Items: items.Draw(t, "items")}
		case 12:
			return events.MailboxTaken{Mailbox: who.Draw(t, "mailbox"), Session: session.Draw(t, "session"), Items: moved.Draw(t, "items")}
		case 13:
			return events.MailboxReturned{Mailbox: who.Draw(t, "mailbox"), Session: session.Draw(t, "session"), Items: moved.Draw(t, "items")}
		case 14:
			return events.InstructionLeased{Lease: lease.Draw(t, "lease"), Mailbox: who.Draw(t, "mailbox"), Attempt: 1, Until: until.Draw(t, "until")}
		case 15:
			return events.InstructionConfirmed{Lease: lease.Draw(t, "lease"), Mailbox: who.Draw(t, "mailbox"), Version: 1}
		case 16:
			return events.SessionJoined{Session: session.Draw(t, "session"), Person: rapid.SampledFrom([]string{"", "ana"}).Draw(t, "person"), Source: rapid.SampledFrom([]events.Source{events.SourceStartup, events.SourceCompact}).Draw(t, "source")}
		case 17:
			return events.SessionLeft{Session: session.Draw(t, "session")}
		case 19:
			return events.MessageRead{Message: message.Draw(t, "message"), Thread: thread.Draw(t, "thread"), Mailbox: who.Draw(t, "mailbox"), Lease: lease.Draw(t, "lease"), Attempt: 1}
		case 18:
			if rapid.Bool().Draw(t, "leaves") {
				return events.SeatLeft{Seat: "smith", Session: session.Draw(t, "session")}
			}
			return events.SeatTaken{Seat: rapid.SampledFrom([]string{"smith", "trinity"}).Draw(t, "seat"), Session: session.Draw(t, "session")}
		}
		switch rapid.IntRange(0, 3).Draw(t, "other") {
		case 0:
			return events.ThreadDone{Thread: thread.Draw(t, "thread"), Message: message.Draw(t, "message"), By: who.Draw(t, "by")}
		case 1:
			return events.CommandRefused{By: who.Draw(t, "by"), Thread: thread.Draw(t, "thread")}
		case 2:
			return events.PolicyAdopted{Policy: events.DefaultPolicy()}
		}
		return events.Unknown{Type: "sticker.placed", Version: 1, Data: []byte(`{}`)}
	})
	return placed(rapid.SliceOfN(event, 0, 60).Draw(t, "history")...)
}

func TestAnyHistoryFoldsToTheSameRowsInPagesOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := history(t)
		whole := all(t, folded(t, recorded, func() int { return len(recorded) }))
		single := all(t, folded(t, recorded, func() int { return 1 }))
		pages := all(t, folded(t, recorded, func() int { return rapid.IntRange(1, 7).Draw(t, "page") }))
		if !slices.Equal(whole, single) || !slices.Equal(whole, pages) {
			t.Fatalf("whole:\n%s\none by one:\n%s\nin pages:\n%s", strings.Join(whole, "\n"), strings.Join(single, "\n"), strings.Join(pages, "\n"))
		}
	})
}

func TestAnEventAppliedAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := history(t)
		r := folded(t, recorded, func() int { return len(recorded) })
		want := all(t, r)
		from := rapid.IntRange(0, len(recorded)).Draw(t, "from")
		if err := projections.Project(r, recorded[from:]); err != nil {
			t.Fatal(err)
		}
		if got := all(t, r); !slices.Equal(got, want) {
			t.Fatalf("the rows became\n%s\nand were\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		s := projections.On(r)
		for _, e := range recorded {
			s.Apply(e)
			s.Apply(e)
		}
		if err := s.Flush(); err != nil || !slices.Equal(all(t, r), want) {
			t.Fatalf("after all of them twice: %v", err)
		}
	})
}

// What a replay leaves out changes no view that does not ask for it.
func TestAReplayForAViewShowsWhatTheWholeFoldShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := history(t)
		whole := projections.On(folded(t, recorded, func() int { return len(recorded) }))
		replayed := projections.Replay(rows.New(), projections.InboxRows|projections.SentRows)
		bare := projections.Replay(rows.New(), 0)
		for _, s := range []*projections.State{replayed, bare} {
			for _, r := range recorded {
				s.Apply(r)
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		same := func(what string, a, b any) {
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("%s: %s", what, diff)
			}
		}
		for _, who := range []events.Participant{"s1", "s2", "s3", "@ana", "@smith", "bot:ci"} {
			for _, sent := range []bool{false, true} {
				q := projections.InboxQuery{Who: who, Sent: sent, Limit: 20}
				same("inbox", whole.Inbox(q, noBodies{}), replayed.Inbox(q, noBodies{}))
			}
			same("owed by", whole.Owing([]events.Participant{who}, nil, 0, 0), bare.Owing([]events.Participant{who}, nil, 0, 0))
			same("mailbox", whole.Mailbox(who), bare.Mailbox(who))
		}
		same("owed", whole.Owing(nil, nil, 0, 0), bare.Owing(nil, nil, 0, 0))
		same("live", whole.LiveSessions(), bare.LiveSessions())
		if err := errors.Join(whole.Err(), replayed.Err(), bare.Err()); err != nil {
			t.Fatal(err)
		}
	})
}

// F10, whatever happened: the count is that of the index.
func TestTheCountOfAMailboxIsThatOfItsQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := history(t)
		r := folded(t, recorded, func() int { return 5 })
		counts := map[string]int{}
		if err := r.Scan("box\t", "", false, func(k string, _ []byte) bool {
			if parts := strings.Split(k, "\t"); parts[2] == "queue" && parts[4] == "m" {
				counts[parts[1]]++
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		s := projections.On(r)
		for _, who := range []string{"s1", "s2", "s3", "@ana", "@smith", "bot:ci"} {
			if got := s.Mailbox(events.Participant(who)).Waiting; got != counts[who] {
				t.Fatalf("%s has %d waiting, and %d in its queue", who, got, counts[who])
			}
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}

func TestEveryLookAtAnyHistoryIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recorded := history(t)
		s := projections.On(folded(t, recorded, func() int { return len(recorded) + 1 }))
		now := events.Time(1_800_000_000_000_000 + rapid.IntRange(-200, 200).Draw(t, "now")*1_000_000)
		for _, who := range []events.Participant{"s1", "s2", "@ana", "@smith", "nobody"} {
			s.Inbox(projections.InboxQuery{Who: who, Limit: 3, Sent: rapid.Bool().Draw(t, "sent")}, noBodies{})
			s.Current(who).Runs(now)
			s.Mailboxes(who)
			s.Queue(who, func(q projections.Queued) bool { return q.Call != nil || q.Message.Awaited(now) || q.Delivery.Waits() })
			s.OpenSends(who, func(m *projections.Message, d *projections.Delivery) bool { return m.Lost() || d.Waits() })
			s.SentSince(who, now, 1e9, 5)
			s.RefusedSince(who, now, 1e9, 5)
			s.OwedItems([]events.Participant{who}, nil, 0)
		}
		for _, id := range []events.ThreadID{"t0", "t1", "unknown", ""} {
			s.Talk(id, now, 1e12, 8)
			s.MessagesOf(id)
			s.Named(id, 0, 0)
		}
		s.Owing(nil, nil, 10, now)
		for _, row := range s.LiveSessions() {
			s.Peer(row)
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}

type noBodies struct{}

func (noBodies) Body(events.EventID) (events.Body, bool, error) { return events.Body{}, false, nil }

func TestAnUnknownEventMovesThePositionAndNothingElse(t *testing.T) {
	r := folded(t, placed(events.SessionJoined{Session: "s1"}), func() int { return 1 })
	before := all(t, r)
	unknown := placed(events.SessionJoined{}, events.Unknown{Type: "sticker.placed", Version: 1, Data: []byte(`{"thread":"t"}`)})[1]
	if err := projections.Project(r, []events.Recorded{unknown}); err != nil {
		t.Fatal(err)
	}
	after := all(t, r)
	if len(after) != len(before) || slices.Equal(after, before) {
		t.Errorf("the rows became\n%s", strings.Join(after, "\n"))
	}
	c, err := projections.ReadCheckpoint(r)
	if err != nil || c.Position != 2 || c.Fold != projections.FoldVersion {
		t.Errorf("the checkpoint is %+v, %v", c, err)
	}
}

func TestADamagedRowIsAnErrorAndNotAnEmptyState(t *testing.T) {
	r := folded(t, placed(events.SessionJoined{Session: "s1"}), func() int { return 1 })
	if err := r.Put("session\ts1", []byte("{")); err != nil {
		t.Fatal(err)
	}
	s := projections.On(r)
	if row := s.Session("s1"); row != nil || !errors.Is(s.Err(), events.ErrDamaged) {
		t.Errorf("read %+v, %v", row, s.Err())
	}
	if err := projections.Project(r, placed(events.SessionJoined{}, events.SessionLeft{Session: "s1"})[1:]); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("folding goes on over it: %v", err)
	}
}

// A prefix may be that of threads and of messages. Each kind is found, however
// many of the other come before it.
func TestAPrefixFindsThreadsAndMessagesApart(t *testing.T) {
	send := func(thread, message string) events.Event {
		return events.MessageSent{Message: events.MessageID(message), Thread: events.ThreadID(thread), Author: events.Author{ID: "s1"}, To: events.Recipient{ID: "s2"}}
	}
	s := projections.On(folded(t, placed(
		send("abcdef-1-thread", "abcdef-2-message"), send("abcdef-3-thread", "abcdef-4-message"), send("abcdef-3-thread", "zzzzzz"),
	), func() int { return 1 }))
	for prefix, want := range map[string][2]int{"abcdef": {2, 2}, "abcdef-1": {1, 0}, "abcdef-2": {0, 1}, "zzz": {0, 1}, "no": {0, 0}} {
		threads, messages := s.Find(prefix, 2)
		if len(threads) != want[0] || len(messages) != want[1] {
			t.Errorf("%s finds %v and %v", prefix, threads, messages)
		}
	}
}

func TestTheFirstLineThatIsNotBlankIsThePreview(t *testing.T) {
	for body, want := range map[string]string{"": "", "one": "one", "\n \n  two  \nthree": "two", "\t\n": "", "é\r\nx": "é"} {
		if got := projections.Preview(body); got != want {
			t.Errorf("%q is previewed as %q", body, got)
		}
	}
}

func TestACursorNamesThePlaceThatItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		query := rapid.Custom(func(t *rapid.T) projections.InboxQuery {
			return projections.InboxQuery{
				Who: events.Participant(rapid.String().Draw(t, "who")), Sent: rapid.Bool().Draw(t, "sent"),
				State: rapid.SampledFrom([]events.DeliveryState{"", events.StateQueued}).Draw(t, "state"),
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
	})
}

// FuzzCursor feeds any text: it is refused, or it is exactly the cursor of the
// place that it names.
func FuzzCursor(f *testing.F) {
	q := projections.InboxQuery{Who: "s1"}
	for _, at := range []events.Position{1, 35, 36, 1 << 40} {
		f.Add(q.Cursor(at))
	}
	f.Add("")
	f.Add("-")
	f.Add("1-")
	f.Add("0-000000000000")
	f.Add("9223372036854775808-ffffffffffff")
	f.Fuzz(func(t *testing.T, cursor string) {
		at, ok := q.Resume(cursor)
		if !ok && at != 0 {
			t.Fatalf("refused, and yet %d", at)
		}
		if ok && (at <= 0 || q.Cursor(at) != cursor) {
			t.Fatalf("%q is taken for %d, whose cursor is %q", cursor, at, q.Cursor(at))
		}
	})
}

// Found by a random history: what waits no more is not leased, whatever an event says.
func TestALeaseOfWhatWaitsNoMoreCountsNothing(t *testing.T) {
	items := []events.Leased{{Kind: events.ItemMessage, Message: "m", Thread: "t", Attempt: 1}}
	s := projections.On(folded(t, placed(
		events.MessageSent{Message: "m", Thread: "t", Author: events.Author{ID: "s1"}, To: events.Recipient{ID: "s2"}, Deliveries: []events.Delivery{{To: "s2", State: events.StateQueued}}},
		events.MessageDeleted{Message: "m", Thread: "t"},
		events.MailboxLeased{Lease: "l", Mailbox: "s2", Items: items},
		events.MessageDeleted{Message: "m", Thread: "t"},
	), func() int { return 1 }))
	if n := s.Mailbox("s2").Waiting; n != 0 {
		t.Errorf("%d wait", n)
	}
	if d := s.Message("m").Main(); d.Waits() || d.Attempt != 0 {
		t.Errorf("the delivery is %+v", d)
	}
}

// A sender's open messages are found mailbox by mailbox, so that many in one
// hide none in another.
func TestOpenSendsAreVisitedMailboxByMailbox(t *testing.T) {
	var es []events.Event
	send := func(id string, to events.Participant) {
		es = append(es, events.MessageSent{
			Message: events.MessageID(id), Thread: "t", Author: events.Author{ID: "s1", Kind: events.KindSession}, To: events.Recipient{ID: to},
			Deliveries: []events.Delivery{{To: to, State: events.StateQueued}},
		})
	}
	send("a1", "a")
	send("a2", "a")
	send("b1", "b")
	send("ab1", "ab")
	send("a3", "a")
	es = append(es, events.MailboxConfirmed{Mailbox: "a", Items: []events.Leased{{Kind: events.ItemMessage, Message: "a1"}}})
	send("n1", "@name")
	es = append(es, events.MailboxTaken{Mailbox: "@name", Session: "b", Items: []events.Moved{{Message: "n1"}}})
	s := projections.On(folded(t, placed(es...), func() int { return 3 }))
	visited := func(each int) (ids []string) {
		left := map[events.Participant]int{}
		s.OpenSends("s1", func(m *projections.Message, d *projections.Delivery) bool {
			ids = append(ids, string(d.At)+" "+string(m.ID))
			left[d.At]++
			return left[d.At] < each
		})
		return ids
	}
	if got := visited(10); !slices.Equal(got, []string{"a a2", "a a3", "ab ab1", "b b1", "b n1"}) {
		t.Errorf("visited %v", got)
	}
	if got := visited(1); !slices.Equal(got, []string{"a a2", "ab ab1", "b b1"}) {
		t.Errorf("visited, one in each, %v", got)
	}
}
