package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"decklog/events"
)

// ThreadsView is a page of the threads, the one in which something happened last
// first.
type ThreadsView struct {
	Threads []ThreadLine `json:"threads"`
	// NextCursor goes on behind the page; empty: this is the last one. A page may
	// hold fewer threads than were asked for and yet not be the last: a filter
	// passes over at most ThreadsScanMax threads at a time.
	NextCursor string          `json:"next_cursor"`
	At         events.Position `json:"at"`
}

// ThreadLine is a thread in a line.
type ThreadLine struct {
	Thread       events.ThreadID      `json:"thread"`
	State        string               `json:"state"` // open or done
	ClosedBy     *Closing             `json:"closed_by"`
	Root         events.MessageID     `json:"root"`
	Kind         events.MessageKind   `json:"kind"`    // of the root: message, alert, ...
	Channel      string               `json:"channel"` // of an alert
	Preview      string               `json:"preview"` // the root's first line
	Redacted     bool                 `json:"redacted"`
	OpenedBy     events.Participant   `json:"opened_by"`
	OpenedSeat   string               `json:"opened_seat"` // that who opened it occupied
	Participants []events.Participant `json:"participants"`
	Driver       DriverShown          `json:"driver"`
	// Sticker is the mark of the driving seat that lies on the root; empty when it
	// drives by another rule.
	Sticker     string       `json:"sticker"`
	Turn        TurnShown    `json:"turn"`
	Messages    int          `json:"messages"`    // that were sent, those deleted since included
	Waiting     int          `json:"waiting"`     // copies of them that lie in a mailbox
	Undelivered int          `json:"undelivered"` // copies that were lost: expired, or undelivered
	Owed        int          `json:"owed"`        // open items
	Overdue     int          `json:"overdue"`     // of these, those that are due
	Handoff     *HandoffOpen `json:"handoff"`     // null: none is open
	Review      *ReviewShown `json:"review"`      // the latest; null: none was asked
	Hops        int          `json:"hops"`
	Opened      events.Time  `json:"opened"`
	// Last is when something happened last in the thread, and LastPosition where.
	// A delivery or a refusal happens elsewhere and is not counted.
	Last         events.Time     `json:"last"`
	LastPosition events.Position `json:"last_position"`
}

// TurnShown says whether the thread's agents have finished what they began to say.
type TurnShown struct {
	State   string    `json:"state"`   // working while one of them is waited for, else final
	Pending []Pending `json:"pending"` // who is waited for, and until when
}

// HandoffOpen is a hand-off that is offered, or accepted and not closed.
type HandoffOpen struct {
	ID      events.HandoffID `json:"id"`
	From    string           `json:"from"`
	To      string           `json:"to"`
	State   HandoffState     `json:"state"` // offered or accepted
	Offered events.Time      `json:"offered"`
}

// MailboxesView is who has mail, who takes part, and who sits where.
type MailboxesView struct {
	// Mailboxes are those in which something waits, the oldest first, and then
	// those of the live sessions, by id; at most MailboxesMax.
	Mailboxes []MailboxLine   `json:"mailboxes"`
	Seats     []SeatLine      `json:"seats"`   // those of the policy in its order, then others that were taken once
	Persons   []PersonLine    `json:"persons"` // by name
	More      bool            `json:"more"`    // there are more mailboxes than these
	At        events.Position `json:"at"`
}

// MailboxLine is a participant's mailbox in a line.
type MailboxLine struct {
	Participant events.Participant     `json:"participant"`
	Kind        events.ParticipantKind `json:"kind"` // session, seat or person
	Seat        string                 `json:"seat"` // that the session occupies
	Person      string                 `json:"person"`
	Harness     string                 `json:"harness"`
	Title       string                 `json:"title"`
	Repo        string                 `json:"repo"`
	Branch      string                 `json:"branch"`
	// Presence is busy or idle for a live session, gone for another, and empty for
	// a seat or a person, which are nowhere themselves.
	Presence      string       `json:"presence"`
	Live          bool         `json:"live"`
	Busy          bool         `json:"busy"`
	Evidence      string       `json:"evidence"`
	EvidenceAgeMS *int64       `json:"evidence_age_ms"`
	Waiting       int          `json:"waiting"` // messages
	Oldest        *events.Time `json:"oldest"`  // when the first of them was sent; null: none waits
	Lease         *LeaseShown  `json:"lease"`   // null: none is open
	// Undelivered counts the messages that were lost out of this mailbox ever, and
	// UndeliveredLast says when the last one was; null: never.
	Undelivered     int          `json:"undelivered"`
	UndeliveredLast *events.Time `json:"undelivered_last"`
	Joined          *events.Time `json:"joined"` // of a session, last
	Left            *events.Time `json:"left"`
}

// LeaseShown is a mailbox's open lease.
type LeaseShown struct {
	Lease    events.LeaseID `json:"lease"`
	Until    events.Time    `json:"until"`
	Runs     bool           `json:"runs"`     // false: its time is over, and nobody recorded that yet
	Attempt  int            `json:"attempt"`  // the highest of what it holds
	Messages int            `json:"messages"` // that it holds
}

// SeatLine is a seat and who sits on it.
type SeatLine struct {
	Seat     string           `json:"seat"`
	Known    bool             `json:"known"`    // the policy in force has it
	Occupant events.SessionID `json:"occupant"` // empty: nobody
	Since    *events.Time     `json:"since"`    // it is so
	Absent   *Because         `json:"absent"`   // why it is passed over; null: it is not
	Waiting  int              `json:"waiting"`  // messages in its own mailbox
}

// PersonLine is a person and what waits for them.
type PersonLine struct {
	Person   string   `json:"person"`
	Known    bool     `json:"known"` // the policy in force has them
	Roles    []string `json:"roles"`
	Sessions int      `json:"sessions"` // theirs that have not left
	Waiting  int      `json:"waiting"`  // messages in their own mailbox
}

// RefusalsView is how often commands were refused, and a page of the refusals, the
// latest first.
type RefusalsView struct {
	Total      int             `json:"total"`  // of all that were recorded, and of those only counted
	Counts     []RefusalCount  `json:"counts"` // the most frequent first
	Refusals   []RefusalLine   `json:"refusals"`
	NextCursor string          `json:"next_cursor"` // empty: this is the last page; see ThreadsView
	At         events.Position `json:"at"`
}

// RefusalCount is how often commands were refused with one code.
type RefusalCount struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// RefusalLine is a command that was refused.
type RefusalLine struct {
	RefusalShown
	Thread    events.ThreadID  `json:"thread"` // that it was about; empty: none
	MessageID events.MessageID `json:"message_id"`
	To        string           `json:"to"`      // the address as it was given
	Counted   int              `json:"counted"` // how many more it stands for; 0: it is one
}

// HealthView is how the ledger stands.
type HealthView struct {
	Position events.Position `json:"position"` // of the last event
	Events   int64           `json:"events"`
	Last     *events.Time    `json:"last"` // the last event's; null: the ledger is empty
	Fold     int             `json:"fold"` // the version of the folds
	Threads  ThreadCounts    `json:"threads"`
	Messages int             `json:"messages"`
	// Waiting counts the copies of messages that lie in mailboxes, and Undelivered
	// those that were lost ever.
	Waiting     int          `json:"waiting"`
	Undelivered int          `json:"undelivered"`
	Sessions    int          `json:"sessions"` // that joined and have not left
	Owed        []OwedCount  `json:"owed"`     // reply, handoff, review
	OwedOldest  *events.Time `json:"owed_oldest"`
	Refusals    int          `json:"refusals"`
	// Policy is the place of the policy in force; null: none was adopted yet.
	Policy *PolicyPlace `json:"policy"`
	// SizeBytes is what the ledger takes where it is stored, and Journal how its
	// store makes commits durable; null and empty where the ledger cannot tell, and
	// of an earlier moment.
	SizeBytes *int64 `json:"size_bytes"`
	Journal   string `json:"journal"`
	// Cluster is how this machine's part of a ledger stands that lies in a cluster;
	// null for any other, and of an earlier moment.
	Cluster *ClusterView    `json:"cluster"`
	At      events.Position `json:"at"`
}

// ClusterView is how far what one machine shows is behind the cluster that the ledger
// lies in, as far as it knows.
type ClusterView struct {
	Live bool   `json:"live"` // it had everything moments ago, and is told of what comes
	Code string `json:"code"` // what is the matter while it is not; empty: nothing
	Says string `json:"says"`
	Fix  string `json:"fix"`
	// BehindMS is how long ago it was last known to have everything, 0 while it is
	// live, and HeardMS how long ago the cluster last said anything; null: never yet.
	BehindMS   *int64 `json:"behind_ms"`
	HeardMS    *int64 `json:"heard_ms"`
	Waiting    int    `json:"waiting"`    // events that came and are not shown yet
	Unsent     int    `json:"unsent"`     // commands of which a part is still to be sent
	Undropped  int    `json:"undropped"`  // texts that no event names any more, or ever did, and that the cluster still has
	Rebuilding bool   `json:"rebuilding"` // the views are being made anew
}

// ThreadCounts is how many threads are open, and how many are done.
type ThreadCounts struct {
	Open int `json:"open"`
	Done int `json:"done"`
}

// OwedCount is how many items of one kind are open, and how many of them are due.
type OwedCount struct {
	Kind OwedKind `json:"kind"`
	Open int      `json:"open"`
	// Overdue is looked for among the oldest OverdueScanMax open items of any kind.
	Overdue int `json:"overdue"`
}

// PolicyPlace is where the policy in force was adopted, and when.
type PolicyPlace struct {
	Position events.Position `json:"position"`
	Time     events.Time     `json:"time"`
}

// The bounds of the overview.
const (
	ThreadsScanMax  = 500  // threads that one page of the threads passes over
	RefusalsScanMax = 2000 // refusals that one page of the refusals passes over
	MailboxesMax    = 500  // mailboxes shown
	OverdueScanMax  = 1000 // open items looked at for those that are due
)

// ThreadsQuery says which threads.
type ThreadsQuery struct {
	State       string             // open or done; empty: both
	Seat        string             // that drives
	Participant events.Participant // that takes part
	Text        string             // in the preview, whatever its case
	Waiting     bool               // something in it is owed, or waits in a mailbox
	Before      events.Position    // 0: from the latest
	Limit       int
}

// Cursor names the place behind a page of the threads.
func (q ThreadsQuery) Cursor(at events.Position) string { return cursor(q.asked(), at) }

// Resume reads a cursor; false when it is none of this query.
func (q ThreadsQuery) Resume(text string) (events.Position, bool) { return resume(q.asked(), text) }

func (q ThreadsQuery) asked() string {
	return fmt.Sprintf("decklog cursor v1\nthreads v1 %q %q %q %q %t", q.State, q.Seat, q.Participant, q.Text, q.Waiting)
}

// Threads gives a page of the threads.
func (s *State) Threads(q ThreadsQuery, bodies Bodies, now events.Time) ThreadsView {
	s.asks(OverviewRows)
	v := ThreadsView{Threads: []ThreadLine{}, At: s.position}
	groups := []bool{false, true} // done
	switch q.State {
	case "open":
		groups = groups[:1]
	case "done":
		groups = groups[1:]
	}
	// Each group gives its latest, one more than may be passed over; the latest of
	// them all are looked at.
	type entry struct {
		at events.Position
		id events.ThreadID
	}
	var found []entry
	for _, done := range groups {
		prefix, after, n := currentKey(done, ""), "", 0
		if q.Before > 0 {
			after = prefix + back(q.Before)
		}
		s.scan(prefix, after, false, func(k string, value []byte) bool {
			found = append(found, entry{backOf(last(k)), events.ThreadID(value)})
			n++
			return n <= min(ThreadsScanMax, q.most())
		})
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(b.at, a.at) })
	for n, e := range found {
		if n == ThreadsScanMax || len(v.Threads) == q.Limit {
			v.NextCursor = q.Cursor(found[n-1].at)
			break
		}
		if t := s.Thread(e.id); t != nil {
			if line := s.threadLine(t, bodies, now); q.takes(&line) {
				v.Threads = append(v.Threads, line)
			}
		}
	}
	return v
}

// most is how many threads a page looks at: without a filter, no more than it shows.
func (q ThreadsQuery) most() int {
	if q.Seat == "" && q.Participant == "" && q.Text == "" && !q.Waiting {
		return q.Limit
	}
	return ThreadsScanMax
}

func (q ThreadsQuery) takes(l *ThreadLine) bool {
	return (q.Seat == "" || l.Driver.Seat != nil && *l.Driver.Seat == q.Seat) &&
		(q.Participant == "" || slices.Contains(l.Participants, q.Participant)) &&
		(!q.Waiting || l.Owed > 0 || l.Waiting > 0) &&
		(q.Text == "" || strings.Contains(strings.ToLower(l.Preview), strings.ToLower(q.Text)))
}

func (s *State) threadLine(t *Thread, bodies Bodies, now events.Time) ThreadLine {
	l := ThreadLine{
		Thread: t.ID, State: "open", ClosedBy: t.ClosedBy, Root: t.Root, Kind: t.Kind, OpenedBy: t.Asker.ID, OpenedSeat: t.Asker.Seat,
		Participants: listed(t.Participants), Driver: s.ShowDriver(t), Turn: TurnShown{State: string(events.Final), Pending: []Pending{}},
		Messages: t.Messages, Waiting: t.Waiting, Undelivered: t.Lost, Owed: len(t.Owed), Hops: t.Hops,
		Opened: t.Began.Time, Last: t.Last, LastPosition: t.At,
	}
	if t.Done {
		l.State = "done"
	}
	if root := s.Message(t.Root); root != nil {
		body, there, err := bodies.Body(root.Event)
		s.fail(err)
		l.Channel, l.Preview, l.Redacted = root.Channel, Preview(string(body.Text)), !there
	}
	if l.Driver.Seat != nil {
		for _, st := range t.Stickers {
			if st.Seat == *l.Driver.Seat {
				l.Sticker = st.Sticker
			}
		}
	}
	if awaited, _ := s.Pending(t, now); len(awaited) > 0 {
		l.Turn = TurnShown{State: string(events.Working), Pending: awaited}
	}
	for _, o := range t.Owed {
		if o.overdue(now) {
			l.Overdue++
		}
	}
	for _, h := range t.Handoffs {
		if h.State == HandoffIsOffered || h.State == HandoffIsAccepted {
			l.Handoff = &HandoffOpen{ID: h.ID, From: h.From, To: h.To, State: h.State, Offered: h.Offered.Time}
		}
	}
	if n := len(t.Reviews); n > 0 {
		review := ShowReview(t.Reviews[n-1])
		l.Review = &review
	}
	return l
}

func (o Owed) overdue(now events.Time) bool { return o.Due != nil && *o.Due <= now }

// WithMail lists those in whose mailboxes something waits and who are no live
// session: seats, persons, sessions that ended.
func (s *State) WithMail() (found []events.Participant) {
	s.asks(OverviewRows)
	s.scan(key("waits", ""), "", false, func(k string, _ []byte) bool {
		found = append(found, events.Participant(last(k)))
		return true
	})
	return found
}

// MailboxLine shows a mailbox, without what was observed of its session.
func (s *State) MailboxLine(who events.Participant, now events.Time) MailboxLine {
	box := s.Mailbox(who)
	l := MailboxLine{Participant: who, Kind: events.KindSession, Waiting: box.Waiting, Undelivered: box.Lost}
	if box.Lost > 0 {
		l.UndeliveredLast = &box.LostAt
	}
	if row := s.Session(who.Session()); row != nil {
		l.Harness, l.Title, l.Repo, l.Branch, l.Person = row.Harness, row.Title, row.Repo, row.Branch, row.Person
		l.Seat, l.Joined, l.Left = s.SeatOf(row), &row.Joined, row.Left
	}
	if box.Waiting > 0 {
		s.QueuedMessages(who, func(q Queued) bool {
			sent := q.Message.Sent
			l.Oldest = &sent
			return false
		})
	}
	if lease := s.Current(who); lease != nil {
		l.Lease = &LeaseShown{Lease: lease.ID, Until: lease.Until, Runs: lease.Runs(now), Attempt: lease.Attempt}
		for _, it := range lease.Items {
			l.Lease.Attempt = max(l.Lease.Attempt, it.Attempt)
			if it.Kind != events.ItemNotice && it.Kind != events.ItemCall {
				l.Lease.Messages++
			}
		}
	}
	return l
}

// SeatLines lists the seats of the policy in force in its order, then those that
// were taken at some time, by name.
func (s *State) SeatLines() []SeatLine {
	lines := []SeatLine{}
	add := func(name string, known bool) {
		l := SeatLine{Seat: name, Known: known, Waiting: s.Mailbox(events.Named(name)).Waiting}
		if row := s.Seat(name); row != nil {
			l.Occupant, l.Absent = row.Occupant, row.Absent
			if row.Since != 0 {
				l.Since = &row.Since
			}
		}
		lines = append(lines, l)
	}
	if p := s.Policy(); p != nil {
		for _, seat := range p.Policy.Seats {
			add(seat.Name, true)
		}
	}
	for _, name := range s.SeatsWith("", MailboxesMax) {
		if !slices.ContainsFunc(lines, func(l SeatLine) bool { return l.Seat == name }) {
			add(name, false)
		}
	}
	return lines
}

// Persons lists those who have a session that has not left, by name.
func (s *State) Persons() (names []string) {
	for after := ""; ; {
		name := ""
		s.scan(key("of", ""), after, false, func(k string, _ []byte) bool {
			name = part(k, 1)
			return false
		})
		if name == "" {
			return names
		}
		names = append(names, name)
		after = key("of", name, "\xff") // behind their sessions
	}
}

// PersonLine shows a person.
func (s *State) PersonLine(name string) PersonLine {
	return PersonLine{Person: name, Roles: []string{}, Sessions: len(s.SessionsOf(name)), Waiting: s.Mailbox(events.Named(name)).Waiting}
}

// RefusalsQuery says which refusals.
type RefusalsQuery struct {
	Code   string          // empty: all
	Before events.Position // 0: from the latest
	Limit  int
}

// Cursor names the place behind a page of the refusals.
func (q RefusalsQuery) Cursor(at events.Position) string {
	return cursor(q.asked(), at)
}

// Resume reads a cursor; false when it is none of this query.
func (q RefusalsQuery) Resume(text string) (events.Position, bool) {
	return resume(q.asked(), text)
}

func (q RefusalsQuery) asked() string { return "decklog cursor v1\nrefusals v1\n" + q.Code }

// Refusals gives a page of the refusals, each as its event says it.
func (s *State) Refusals(q RefusalsQuery, r events.Reader) RefusalsView {
	s.asks(OverviewRows)
	v := RefusalsView{Counts: []RefusalCount{}, Refusals: []RefusalLine{}, At: s.position}
	s.scan(key("count", "refused", ""), "", false, func(k string, value []byte) bool {
		n, _ := strconv.Atoi(string(value))
		v.Counts = append(v.Counts, RefusalCount{Code: last(k), Count: n})
		v.Total += n
		return true
	})
	slices.SortStableFunc(v.Counts, func(a, b RefusalCount) int { return cmp.Compare(b.Count, a.Count) })
	prefix, after := key("refused", ""), ""
	if q.Before > 0 {
		after = prefix + place(q.Before)
	}
	var found []events.Position
	seen, passed := 0, events.Position(0)
	s.scan(prefix, after, true, func(k string, value []byte) bool {
		if len(found) == q.Limit || seen == RefusalsScanMax {
			v.NextCursor = q.Cursor(passed)
			return false
		}
		seen, passed = seen+1, placeOf(last(k))
		if q.Code == "" || q.Code == string(value) {
			found = append(found, passed)
		}
		return true
	})
	for _, at := range found {
		recorded, err := r.All(at, 1)
		if err != nil || len(recorded) == 0 {
			s.fail(fmt.Errorf("read event %d: %w", at, err))
			break
		}
		if e, is := recorded[0].Event.(events.CommandRefused); is {
			v.Refusals = append(v.Refusals, RefusalLine{
				RefusalShown: RefusalShown{
					Position: at, Time: recorded[0].Time, By: e.By, Command: e.Command, Code: e.Code, Status: e.Status, Message: e.Says,
				},
				Thread: e.Thread, MessageID: e.Message, To: e.To, Counted: e.Counted,
			})
		}
	}
	return v
}

// Health says how the ledger stands, as far as its rows tell.
func (s *State) Health(now events.Time) HealthView {
	n := s.Counts()
	v := HealthView{
		Position: s.position, Events: int64(s.position), Fold: FoldVersion, At: s.position,
		Threads: ThreadCounts{Open: n.Threads - n.Done, Done: n.Done}, Messages: n.Messages,
		Waiting: n.Waiting, Undelivered: n.Lost, Sessions: n.Live, Refusals: n.Refusals,
		Owed: []OwedCount{{Kind: OwedReply, Open: n.Replies}, {Kind: OwedHandoff, Open: n.Handoffs}, {Kind: OwedReview, Open: n.Reviews}},
	}
	if p := s.Policy(); p != nil {
		v.Policy = &PolicyPlace{Position: p.Position, Time: p.Time}
	}
	for _, o := range s.OwedItems(nil, nil, 1) {
		v.OwedOldest = &o.Since
	}
	seen := 0
	s.scan(key("owed", ""), "", false, func(_ string, value []byte) bool {
		due, err := strconv.ParseInt(word(value, 4), 10, 64)
		if err == nil && events.Time(due) <= now {
			for i := range v.Owed {
				if string(v.Owed[i].Kind) == word(value, 3) {
					v.Owed[i].Overdue++
				}
			}
		}
		seen++
		return seen < OverdueScanMax
	})
	return v
}
