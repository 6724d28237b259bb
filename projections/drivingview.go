package projections

import (
	"slices"

	"decklog/events"
)

// DriverView is who drives a thread, and the events that decide it, in order.
type DriverView struct {
	Thread events.ThreadID `json:"thread"`
	Driver DriverShown     `json:"driver"`
	Why    []Because       `json:"why"`
	Amend  *Amend          `json:"amend"` // the content map: null when there is nothing to suggest
	At     events.Position `json:"at"`
}

// Amend suggests to send such roots to the seat to which a person moved one.
type Amend struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// AckShown is an ack on a message of the thread.
type AckShown struct {
	Message events.MessageID `json:"message"`
	AckOf
}

// StickerShown is a mark that lies on the root.
type StickerShown struct {
	Seat    string             `json:"seat"`
	Sticker string             `json:"sticker"`
	Hand    events.Hand        `json:"hand"`
	By      events.Participant `json:"by"`
	Placed  events.Time        `json:"placed"`
}

// HandoffShown is a hand-off of the thread.
type HandoffShown struct {
	ID       events.HandoffID  `json:"id"`
	From     string            `json:"from"`
	To       string            `json:"to"`
	Reason   string            `json:"reason"`
	Answer   string            `json:"answer"` // why it was declined, if that was said
	Link     string            `json:"link"`
	State    HandoffState      `json:"state"`
	End      events.HandoffEnd `json:"end"`
	Offered  events.Time       `json:"offered"`
	Accepted *events.Time      `json:"accepted"`
}

// ReviewShown is a critique of one commit.
type ReviewShown struct {
	ID       events.ReviewID `json:"id"`
	Commit   string          `json:"commit"`
	Author   string          `json:"author"`
	Reviewer string          `json:"reviewer"`
	Asked    events.Time     `json:"asked"`
	Due      *events.Time    `json:"due"`
	Label    events.Label    `json:"label"` // empty: none yet
	Risk     events.Risk     `json:"risk"`
	Late     bool            `json:"late"`
	Clears   bool            `json:"clears"`
	Labelled *events.Time    `json:"labelled"`
}

// CardShown is the driver card of a thread.
type CardShown struct {
	Message events.MessageID  `json:"message"`
	Subject string            `json:"subject"`
	Driver  string            `json:"driver"`
	Work    string            `json:"work"`
	Status  events.CardStatus `json:"status"`
}

// showDriving fills in what driving adds to the thread view.
func (s *State) showDriving(v *ThreadView, t *Thread, bodies Bodies) {
	v.Driver = s.ShowDriver(t)
	v.Hops = t.Hops
	v.Acks, v.Reviews, v.Handoffs, v.Stickers = []AckShown{}, []ReviewShown{}, []HandoffShown{}, []StickerShown{}
	for _, st := range t.Stickers {
		v.Stickers = append(v.Stickers, StickerShown{Seat: st.Seat, Sticker: st.Sticker, Hand: st.Hand, By: st.By, Placed: st.Time})
	}
	for _, h := range t.Handoffs {
		shown := HandoffShown{
			ID: h.ID, From: h.From, To: h.To, Link: h.Link, State: h.State, End: h.End, Offered: h.Offered.Time,
			Reason: s.text(h.Event, bodies),
		}
		if h.Answer != "" {
			shown.Answer = s.text(h.Answer, bodies)
		}
		if h.Accepted != nil {
			shown.Accepted = &h.Accepted.Time
		}
		v.Handoffs = append(v.Handoffs, shown)
	}
	for _, r := range t.Reviews {
		v.Reviews = append(v.Reviews, ShowReview(r))
	}
	if len(v.Reviews) > 0 {
		v.Review = &v.Reviews[len(v.Reviews)-1]
	}
	if c := s.cardOf(t); c != nil {
		v.Card = &CardShown{Message: c.Message, Driver: c.Driver, Work: c.Work, Status: c.Status}
		if m := s.Message(c.Message); m != nil {
			v.Card.Subject = Preview(s.text(m.Event, bodies))
		}
	}
}

// cardOf is the card that a thread shows: that of the seat that drives, else the latest.
func (s *State) cardOf(t *Thread) *CardOf {
	if seat := s.Driver(t).Seat; seat != "" && t.Card(seat) != nil {
		return t.Card(seat)
	}
	return t.Card("")
}

func (s *State) text(e events.EventID, bodies Bodies) string {
	body, _, err := bodies.Body(e)
	s.fail(err)
	return string(body.Text)
}

// ShowReview shows a review.
func ShowReview(r Review) ReviewShown {
	v := ReviewShown{
		ID: r.ID, Commit: r.Commit, Author: r.Author, Reviewer: r.Reviewer, Asked: r.Asked.Time, Due: r.Due,
		Label: r.Label, Risk: r.Risk, Late: r.Late, Clears: r.Clears,
	}
	if r.Labelled != nil {
		v.Labelled = &r.Labelled.Time
	}
	return v
}

// Card is the latest card of a seat, or with "" of the thread, as long as it was
// not deleted; nil when there is none.
func (t *Thread) Card(seat string) *CardOf {
	for i := len(t.Cards) - 1; i >= 0; i-- {
		if seat == "" || t.Cards[i].Seat == seat {
			return &t.Cards[i]
		}
	}
	return nil
}

// ShowDriver shows who drives a thread.
func (s *State) ShowDriver(t *Thread) DriverShown { return show(s.Driver(t)) }

func show(d Driver) DriverShown {
	if d.Seat == "" {
		return DriverShown{}
	}
	source := string(d.Source)
	return DriverShown{Seat: &d.Seat, Source: &source, Detail: &d.Detail, Since: &d.Since}
}

// DriverView shows who drives a thread and why; false when there is no such thread.
func (s *State) DriverView(id events.ThreadID, at events.Position) (DriverView, bool) {
	t := s.Thread(id)
	if t == nil {
		return DriverView{}, false
	}
	d := s.Driver(t)
	v := DriverView{Thread: t.ID, Driver: show(d), Why: listed(d.Why), At: at}
	slices.SortStableFunc(v.Why, func(a, b Because) int { return int(a.Position - b.Position) })
	if from, to, differs := t.Amends(d); differs {
		v.Amend = &Amend{From: from, To: to}
	}
	return v, true
}
