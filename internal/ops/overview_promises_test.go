package ops_test

import (
	"cmp"
	"slices"
	"strconv"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// overviewAgrees holds the overview against what the witness saw: every count is
// made here by counting.
func (w *witness) overviewAgrees(recorded []events.Recorded) {
	w.t.Helper()
	want := projections.Counts{}
	last := map[events.ThreadID]events.Recorded{}
	refusals := map[string]int{}
	var refused []events.Position
	for _, r := range recorded {
		if id := r.Stream.Thread(); id != "" {
			last[id] = r
		}
		if e, is := r.Event.(events.CommandRefused); is {
			refusals[e.Code] += max(1, e.Counted)
			want.Refusals += max(1, e.Counted)
			refused = append(refused, r.Position)
		}
	}
	slices.Reverse(refused)
	type thread struct{ messages, waiting, lost int }
	threads, lostFrom, mail := map[events.ThreadID]*thread{}, map[events.Participant]int{}, map[events.Participant]int{}
	for id, th := range w.threads {
		threads[id] = new(thread)
		want.Threads++
		if th.done {
			want.Done++
		}
	}
	for _, m := range w.messages {
		threads[m.sent.Thread].messages++
		want.Messages++
		for _, c := range m.copies {
			if c.waits {
				threads[m.sent.Thread].waiting++
				want.Waiting++
				mail[c.at]++
			}
			if c.lost != "" {
				threads[m.sent.Thread].lost++
				want.Lost++
				lostFrom[c.at]++
			}
		}
	}
	want.Boxes = len(mail)
	for _, a := range w.sessions {
		if a.here {
			want.Live++
		}
	}
	var order []events.ThreadID
	for id := range w.threads {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b events.ThreadID) int { return cmp.Compare(last[b].Position, last[a].Position) })

	err := w.Ledger.View(func(r events.Reader) error {
		s := projections.On(r.Rows())
		for _, o := range s.OwedItems(nil, nil, 0) {
			switch o.Kind {
			case projections.OwedReply:
				want.Replies++
			case projections.OwedHandoff:
				want.Handoffs++
			case projections.OwedReview:
				want.Reviews++
			}
		}
		if got := s.Counts(); got != want {
			w.fail("the fold counts %+v, the witness %+v", got, want)
		}
		for _, state := range []string{"", "open", "done"} {
			var got, shown []events.ThreadID
			for _, id := range order {
				if state == "" || (state == "done") == w.threads[id].done {
					shown = append(shown, id)
				}
			}
			q := projections.ThreadsQuery{State: state, Limit: 2}
			for more := true; more; {
				view := s.Threads(q, r, w.World.Now())
				for _, l := range view.Threads {
					got = append(got, l.Thread)
					counted := threads[l.Thread]
					if l.LastPosition != last[l.Thread].Position || l.Last != last[l.Thread].Time ||
						l.Messages != counted.messages || l.Waiting != counted.waiting || l.Undelivered != counted.lost {
						w.fail("of thread %s the fold says %+v, the witness %+v, and its last event is at %d", l.Thread, l, *counted, last[l.Thread].Position)
					}
				}
				if more = view.NextCursor != ""; more {
					var known bool
					if q.Before, known = q.Resume(view.NextCursor); !known || len(view.Threads) != 2 {
						w.fail("the page %+v ends with a cursor that leads nowhere", view)
					}
				}
			}
			if !slices.Equal(got, shown) {
				w.fail("the threads %q are listed as %v, and were last spoken in as %v", state, got, shown)
			}
		}
		counted := map[string]int{}
		var found []events.Position
		q := projections.RefusalsQuery{Limit: 3}
		for more := true; more; {
			view := s.Refusals(q, r)
			for _, l := range view.Refusals {
				found = append(found, l.Position)
			}
			for _, c := range view.Counts {
				counted[c.Code] = c.Count
			}
			if more = view.NextCursor != ""; more {
				q.Before, _ = q.Resume(view.NextCursor)
			}
		}
		if asJSON(counted) != asJSON(refusals) || !slices.Equal(found, refused) {
			w.fail("the refusals are counted as %v at %v, and were %v at %v", counted, found, refusals, refused)
		}
		withMail := s.WithMail()
		for who, n := range mail {
			a := w.sessions[who.Session()]
			if listed := slices.Contains(withMail, who); listed == (a != nil && a.here) {
				w.fail("%s has %d messages; as one with mail it is listed: %t", who, n, listed)
			}
		}
		for _, who := range withMail {
			if mail[who] == 0 {
				w.fail("%s has no mail, and is listed", who)
			}
		}
		for who, n := range lostFrom {
			if got := s.Mailbox(who).Lost; got != n {
				w.fail("of %s's mail %d messages were lost, and %d are counted", who, n, got)
			}
		}
		return s.Err()
	})
	if err != nil {
		w.fail("view: %v", err)
	}
}

// overviewAsOf compares the overview as of a position with that of a fold of
// everything up to there.
func (h *history) overviewAsOf(s *projections.State, at events.Recorded) {
	h.t.Helper()
	when := strconv.FormatInt(int64(at.Position), 10)
	same := func(what string, got, want any, refused any, err error) {
		h.t.Helper()
		if a, b := asJSON(got), asJSON(want); err != nil || a != b {
			h.fail("the %s at %s are\n%s\nand in a fold of all up to there\n%s\nrefused %+v, %v", what, when, a, b, refused, err)
		}
	}
	err := h.Ledger.View(func(r events.Reader) error {
		threads, refused, err := h.Threads(ops.ThreadsRequest{At: when})
		same("threads", threads, s.Threads(projections.ThreadsQuery{Limit: ops.OverviewDefault}, r, at.Time), refused, err)
		refusals, refused, err := h.Refusals(ops.RefusalsRequest{At: when})
		same("refusals", refusals, s.Refusals(projections.RefusalsQuery{Limit: ops.OverviewDefault}, r), refused, err)
		health, refused, err := h.Health(ops.HealthRequest{At: when})
		want := s.Health(at.Time)
		want.Last = &at.Time
		same("counts", health, want, refused, err)
		boxes, refused, err := h.Mailboxes(ops.MailboxesRequest{At: when})
		for _, l := range boxes.Mailboxes {
			want := s.MailboxLine(l.Participant, at.Time)
			want.Kind, want.Presence, want.Live, want.Busy, want.Evidence, want.EvidenceAgeMS = l.Kind, l.Presence, l.Live, l.Busy, l.Evidence, l.EvidenceAgeMS
			same("mailboxes", l, want, refused, err)
		}
		same("seats", boxes.Seats, s.SeatLines(), refused, err)
		return s.Err()
	})
	if err != nil {
		h.fail("view: %v", err)
	}
}
