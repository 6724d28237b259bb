package projections

import (
	"fmt"

	"decklog/events"
)

// ThreadView is a thread with everything that was said, delivered and refused in it.
type ThreadView struct {
	Thread       events.ThreadID      `json:"thread"`
	State        string               `json:"state"` // open or done
	ClosedBy     *Closing             `json:"closed_by"`
	Root         events.MessageID     `json:"root"`
	Participants []events.Participant `json:"participants"`
	Driver       DriverShown          `json:"driver"`
	Messages     []ShownInThread      `json:"messages"`
	Refusals     []RefusalShown       `json:"refusals"`
	Pending      []Pending            `json:"pending"`
	Acks         []AckShown           `json:"acks"`
	Owed         []OwedShown          `json:"owed"`
	Hops         int                  `json:"hops"`
	Card         *CardShown           `json:"card"`
	Review       *ReviewShown         `json:"review"` // the latest
	Reviews      []ReviewShown        `json:"reviews"`
	Handoffs     []HandoffShown       `json:"handoffs"`
	Stickers     []StickerShown       `json:"stickers"`
	At           events.Position      `json:"at"`
	Time         *events.Time         `json:"time"` // of the last event that the view knows
}

// DriverShown is who drives; all null in a thread that nobody drives.
type DriverShown struct {
	Seat   *string      `json:"seat"`
	Source *string      `json:"source"`
	Detail *string      `json:"detail"` // of the source: which of its cases
	Since  *events.Time `json:"since"`
	Stale  bool         `json:"stale"`
}

// ShownInThread is a message with each time that it was offered to somebody.
type ShownInThread struct {
	Shown
	Payload    string          `json:"payload"` // that came with an alert
	Deliveries []DeliveryShown `json:"deliveries"`
}

// DeliveryShown is one time that a message was offered.
type DeliveryShown struct {
	Lease     events.LeaseID     `json:"lease"`
	To        events.Participant `json:"to"` // whose hook run
	Attempt   int                `json:"attempt"`
	Leased    events.Time        `json:"leased"`
	Confirmed *events.Time       `json:"confirmed"`
	Late      bool               `json:"late"`
	Expired   *events.Time       `json:"expired"`
	Read      *events.Time       `json:"read"`
}

// RefusalShown is a command that was refused in a thread.
type RefusalShown struct {
	Position events.Position    `json:"position"`
	Time     events.Time        `json:"time"`
	By       events.Participant `json:"by"`
	Command  string             `json:"command"`
	Code     string             `json:"code"`
	Status   int                `json:"status"`
	Message  string             `json:"message"`
}

// OwedShown is an open item.
type OwedShown struct {
	ID       string             `json:"id"`
	Kind     OwedKind           `json:"kind"`
	Thread   events.ThreadID    `json:"thread"`
	Debtor   events.Participant `json:"debtor"`
	Creditor events.Participant `json:"creditor"`
	Since    events.Time        `json:"since"`
	Age      int64              `json:"age_ms"` // milliseconds
	Due      *events.Time       `json:"due"`
	Nudges   int                `json:"nudges"`
	Nudged   *events.Time       `json:"nudged"` // last
	Paged    *events.Time       `json:"paged"`
	State    string             `json:"state"` // open; or what became of the request: undelivered, expired
}

// OwedView is what is owed, oldest first.
type OwedView struct {
	Items []OwedShown     `json:"items"`
	At    events.Position `json:"at"`
}

// Owing gives the owed view at a moment.
func (s *State) Owing(by, to []events.Participant, limit int, now events.Time) OwedView {
	v := OwedView{Items: []OwedShown{}, At: s.position}
	for _, o := range s.OwedItems(by, to, limit) {
		v.Items = append(v.Items, s.showOwed(o, now))
	}
	return v
}

func (s *State) showOwed(o Owed, now events.Time) OwedShown {
	v := OwedShown{
		ID: o.ID, Kind: o.Kind, Thread: o.Thread, Debtor: o.Debtor, Creditor: o.Creditor, Since: o.Since,
		Age: max(0, now.Sub(o.Since).Milliseconds()), Due: o.Due, Nudges: o.Nudges, Nudged: o.Nudged, Paged: o.Paged, State: "open",
	}
	if m := s.Message(events.MessageID(o.ID)); m != nil && m.Lost() {
		v.State = string(m.State())
	}
	return v
}

// ThreadView shows a thread at this moment; false when there is none with this
// id. at is the position that the view is as of: one replayed from the thread's
// own events does not know the last that was replayed of the others.
func (s *State) ThreadView(id events.ThreadID, r events.Reader, now events.Time, at events.Position) (ThreadView, bool) {
	t := s.Thread(id)
	if t == nil {
		return ThreadView{}, false
	}
	v := ThreadView{
		Thread: t.ID, State: "open", ClosedBy: t.ClosedBy, Root: t.Root, Participants: t.Participants,
		Messages: []ShownInThread{}, Refusals: []RefusalShown{}, Pending: []Pending{}, Owed: []OwedShown{}, At: at,
	}
	s.showDriving(&v, t, r)
	if t.Done {
		v.State = "done"
	}
	for _, m := range s.MessagesOf(id) {
		for _, ack := range m.Acks {
			v.Acks = append(v.Acks, AckShown{Message: m.ID, AckOf: ack})
		}
		shown := ShownInThread{Shown: s.Show(m, nil, r), Deliveries: []DeliveryShown{}}
		if m.Payload != "" {
			shown.Payload = s.text(m.Payload, r)
		}
		for _, d := range m.Deliveries {
			for _, l := range d.Leases {
				shown.Deliveries = append(shown.Deliveries, DeliveryShown{
					Lease: l.Lease, To: l.By, Attempt: l.Attempt, Leased: l.Leased,
					Confirmed: l.Confirmed, Late: l.Late, Expired: l.Expired, Read: l.Read,
				})
			}
		}
		v.Messages = append(v.Messages, shown)
	}
	awaited, _ := s.Pending(t, now)
	v.Pending = append(v.Pending, awaited...)
	for _, o := range t.Owed {
		v.Owed = append(v.Owed, s.showOwed(o, now))
	}
	for _, e := range s.Named(id, 0, 0) {
		if e.Type != events.TypeCommandRefused || e.Position > at {
			continue
		}
		found, err := r.All(e.Position, 1)
		if err != nil || len(found) == 0 {
			s.fail(fmt.Errorf("read event %d: %w", e.Position, err))
			continue
		}
		refused, is := found[0].Event.(events.CommandRefused)
		if !is {
			continue
		}
		v.Refusals = append(v.Refusals, RefusalShown{
			Position: e.Position, Time: found[0].Time, By: refused.By, Command: refused.Command,
			Code: refused.Code, Status: refused.Status, Message: refused.Says,
		})
	}
	return v, true
}

// PeersView is who takes part.
type PeersView struct {
	Peers []Peer          `json:"peers"`
	At    events.Position `json:"at"`
}

// Peer is a session, with the evidence of its presence and how old that is.
type Peer struct {
	Session       events.SessionID `json:"session"`
	Harness       string           `json:"harness"`
	Cwd           string           `json:"cwd"`
	Repo          string           `json:"repo"`
	Branch        string           `json:"branch"`
	Title         string           `json:"title"`
	Seat          string           `json:"seat"`
	Person        string           `json:"person"`
	Device        string           `json:"device"`
	Live          bool             `json:"live"`
	Busy          bool             `json:"busy"`
	Evidence      string           `json:"evidence"`
	EvidenceAgeMS *int64           `json:"evidence_age_ms"`
	Waiting       int              `json:"waiting"` // messages in its mailbox
	Joined        events.Time      `json:"joined"`
	Left          *events.Time     `json:"left"`
}

// Peer shows a session, without what was observed of it.
func (s *State) Peer(row *Session) Peer {
	p := Peer{
		Session: row.ID, Harness: row.Harness, Cwd: row.Cwd, Repo: row.Repo, Branch: row.Branch, Title: row.Title,
		Person: row.Person, Device: row.Device, Waiting: s.Mailbox(events.Participant(row.ID)).Waiting, Joined: row.Joined, Left: row.Left,
	}
	p.Seat = s.SeatOf(row)
	return p
}

// Position is that of the last event that the state knows.
func (s *State) Position() events.Position { return s.position }
