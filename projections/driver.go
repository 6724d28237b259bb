package projections

import (
	"fmt"
	"slices"
	"strings"

	"decklog/events"
)

// Source is the rule that names a driver.
type Source string

// The sources, in the order in which they apply.
const (
	SourcePerson  Source = "person"
	SourceHandoff Source = "handoff"
	SourceSolo    Source = "solo"
	SourceSticker Source = "sticker"
	SourceMirror  Source = "mirror"
	SourceArea    Source = "area"
)

// Driver is who drives a thread, by which rule, and the events that decide. The
// zero value is of a thread that nobody drives.
type Driver struct {
	Seat   string
	Source Source
	// Detail tells the cases of a rule apart: human, human-last, human-area,
	// human-order; sticker, sticker-tie; author, map, default.
	Detail string
	Since  events.Time
	Why    []Because
}

// Because is an event that decides who drives, and what it says.
type Because struct {
	Position events.Position    `json:"position"`
	Type     events.Type        `json:"type"`
	Time     events.Time        `json:"time"`
	By       events.Participant `json:"by"`
	Says     string             `json:"says"`
}

// Roster is the seats in their order, and which of them are absent.
type Roster struct {
	Order  []string
	Absent map[string]Because // why a seat is passed over
}

// present drops the absent seats; where all are absent nobody is passed over.
func (r Roster) present() []string {
	var here []string
	for _, seat := range r.Order {
		if _, absent := r.Absent[seat]; !absent {
			here = append(here, seat)
		}
	}
	if len(here) == 0 {
		return r.Order
	}
	return here
}

// first is that of the seats which comes first in an order; empty when none of
// them is in it.
func first(order, of []string) string {
	for _, seat := range order {
		if slices.Contains(of, seat) {
			return seat
		}
	}
	return ""
}

// Driver says who drives a thread (R7): the same for the live view, a decision,
// a replay and an earlier moment.
func (s *State) Driver(t *Thread) Driver {
	roster := s.Roster(t)
	d := t.driver(roster)
	d.Since = t.since(d, roster)
	return d
}

// DriverNow says who drives a thread under the policy in force: for a decision,
// which a policy adopted since the thread's last event already binds.
func (s *State) DriverNow(t *Thread) Driver {
	roster := s.RosterNow()
	d := t.driver(roster)
	d.Since = t.since(d, roster)
	return d
}

// RosterNow is the seats of the policy in force, and those of them that are absent.
func (s *State) RosterNow() Roster { return s.rosterOf(s.Policy()) }

// Roster is the seats in the order of the policy that the thread's last event
// was decided under, and those that are absent now.
func (s *State) Roster(t *Thread) Roster {
	return s.rosterOf(s.policyAt(t.Policy))
}

func (s *State) rosterOf(p *Adopted) (r Roster) {
	if p == nil {
		return r
	}
	for _, seat := range p.Policy.Seats {
		r.Order = append(r.Order, seat.Name)
		if row := s.Seat(seat.Name); row != nil && row.Absent != nil {
			if r.Absent == nil {
				r.Absent = map[string]Because{}
			}
			r.Absent[seat.Name] = *row.Absent
		}
	}
	return r
}

// Present is the roster of the policy in force without the absent seats, in order.
func (s *State) Present() []string { return s.RosterNow().present() }

// driven says whether the thread is one that has a driver, once there are seats.
func (t *Thread) driven() bool {
	return len(t.Seats) > 0 || t.Group || t.Kind == events.KindAlert ||
		t.Asker.Kind == events.KindPerson || t.Asker.Kind == events.KindBot
}

// driver goes through the rules; the first that applies names the seat.
func (t *Thread) driver(r Roster) Driver {
	if len(r.Order) == 0 || !t.driven() {
		return Driver{}
	}
	present := r.present()
	for _, rule := range []func(Roster, []string) (Driver, bool){t.byPerson, t.byHandoff, t.bySolo, t.bySticker, t.byMirror, t.byArea} {
		if d, applies := rule(r, present); applies {
			d.Why = append(d.Why, passedOver(r, present, t)...)
			d.Why = append(d.Why, t.onItsWay(d)...)
			return d
		}
	}
	return Driver{}
}

// passedOver says which seats would have counted, were they not absent.
func passedOver(r Roster, present []string, t *Thread) (why []Because) {
	for _, seat := range r.Order {
		if !slices.Contains(present, seat) && (slices.Contains(t.Seats, seat) || t.Area != nil && t.Area.Seat == seat) {
			why = append(why, r.Absent[seat])
		}
	}
	return why
}

// onItsWay tells of a move that is not in force yet, and so does not decide.
func (t *Thread) onItsWay(d Driver) []Because {
	if t.Move == nil || t.Move.InForce != nil {
		return nil
	}
	return []Because{t.Move.Judged.because(events.TypeRoutingJudged, "the thread goes to %s with its first post; until then %s drives", t.Move.To, d.Seat)}
}

// byPerson: a sticker that a person placed stands above everything, also while
// its seat is absent.
func (t *Thread) byPerson(r Roster, _ []string) (Driver, bool) {
	var seats []string
	unordered := false
	var lie []Sticker
	for _, st := range t.Stickers {
		if st.Hand != events.HandPerson || !slices.Contains(r.Order, st.Seat) {
			continue
		}
		lie = append(lie, st)
		unordered = unordered || st.Unordered
		if !slices.Contains(seats, st.Seat) {
			seats = append(seats, st.Seat)
		}
	}
	if len(lie) == 0 {
		return Driver{}, false
	}
	d := Driver{Source: SourcePerson}
	switch latest := lie[len(lie)-1].Seat; {
	case len(seats) == 1:
		d.Seat, d.Detail = latest, "human"
	case !unordered:
		d.Seat, d.Detail = latest, "human-last"
	case t.Area != nil && slices.Contains(seats, t.Area.Seat):
		d.Seat, d.Detail = t.Area.Seat, "human-area"
	default:
		d.Seat, d.Detail = first(r.Order, seats), "human-order"
	}
	for _, st := range lie {
		d.Why = append(d.Why, st.because())
	}
	return d, true
}

// byHandoff: the latest accepted hand-off to a seat that is there, while no move
// in force came after it.
func (t *Thread) byHandoff(_ Roster, present []string) (Driver, bool) {
	if t.Move != nil && t.Move.InForce != nil {
		return Driver{}, false
	}
	var latest *Handoff
	for i := range t.Handoffs {
		h := &t.Handoffs[i]
		if h.Accepted != nil && slices.Contains(present, h.To) && (latest == nil || h.Accepted.Position > latest.Accepted.Position) {
			latest = h
		}
	}
	if latest == nil {
		return Driver{}, false
	}
	return Driver{Seat: latest.To, Source: SourceHandoff, Detail: "handoff", Why: []Because{
		latest.Offered.because(events.TypeHandoffOffered, "%s offered the thread to %s", latest.From, latest.To),
		latest.Accepted.because(events.TypeHandoffAccepted, "%s accepted it", latest.To),
	}}, true
}

// moved says whether the latest act by intent is a move in force to a seat that is there.
func (t *Thread) moved(present []string) bool {
	return t.Move != nil && t.Move.InForce != nil && slices.Contains(present, t.Move.To)
}

// bySolo: one seat has real posts, and no move in force took the thread from it.
func (t *Thread) bySolo(_ Roster, present []string) (Driver, bool) {
	if t.moved(present) {
		return Driver{}, false
	}
	seat, post := only(t.Posts, present)
	if seat == "" {
		return Driver{}, false
	}
	return Driver{Seat: seat, Source: SourceSolo, Detail: "solo", Why: []Because{
		post.because(events.TypeMessageSent, "%s is the only seat that has posted", seat),
	}}, true
}

// only is the one seat of those that are there which has posts, with its first.
func only(posts []Post, present []string) (string, Act) {
	var seat string
	var at Act
	for _, p := range posts {
		if !slices.Contains(present, p.Seat) {
			continue
		}
		if seat != "" {
			return "", Act{}
		}
		seat, at = p.Seat, p.Act
	}
	return seat, at
}

// bySticker: what seats stamped; until a move is in force, as it lay before it.
func (t *Thread) bySticker(r Roster, present []string) (Driver, bool) {
	lie := t.Stickers
	if t.Move != nil && t.Move.InForce == nil {
		lie = t.Move.Before
	}
	var seats []string
	d := Driver{Source: SourceSticker, Detail: "sticker"}
	for _, st := range lie {
		if st.Hand != events.HandSeat || !slices.Contains(present, st.Seat) {
			continue
		}
		if !slices.Contains(seats, st.Seat) {
			seats = append(seats, st.Seat)
		}
		d.Why = append(d.Why, st.because())
	}
	if len(seats) == 0 {
		return Driver{}, false
	}
	if len(seats) > 1 {
		d.Detail = "sticker-tie"
	}
	d.Seat = first(r.Order, seats) // the default seat is the first of the order
	if m := t.Move; m != nil && m.InForce != nil && m.To == d.Seat {
		d.Why = append([]Because{m.Judged.because(events.TypeRoutingJudged, "a person's mention of %s moved the thread to it", m.To)}, d.Why...)
		if m.InForce.Position != m.Judged.Position {
			d.Why = append(d.Why, m.InForce.because(events.TypeMessageSent, "the move is in force since %s's first post", m.To))
		}
	}
	return d, true
}

// byMirror: all that seats posted are mirror cards of one seat.
func (t *Thread) byMirror(_ Roster, present []string) (Driver, bool) {
	if seat, _ := only(t.Posts, present); seat != "" {
		return Driver{}, false
	}
	seat, at := only(t.Mirrors, present)
	if seat == "" {
		return Driver{}, false
	}
	return Driver{Seat: seat, Source: SourceMirror, Detail: "mirror", Why: []Because{
		at.because(events.TypeMessageSent, "%s mirrored its work here", seat),
	}}, true
}

// byArea: the seat that the area rule gave the root when it was sent; while it is
// absent, the next in order.
func (t *Thread) byArea(r Roster, present []string) (Driver, bool) {
	d := Driver{Seat: r.Order[0], Source: SourceArea, Detail: string(events.AreaDefault)}
	says := "no seat is named by the root's author or text: the first of the roster"
	if t.Area != nil && slices.Contains(r.Order, t.Area.Seat) {
		d.Seat, d.Detail = t.Area.Seat, string(t.Area.Reason)
		switch t.Area.Reason {
		case events.AreaAuthor:
			says = fmt.Sprintf("%s is the home seat of %s, who wrote the root", t.Area.Seat, t.Asker.ID)
		case events.AreaMap:
			says = fmt.Sprintf("the content map sends the root to %s: %s", t.Area.Seat, t.Area.Says)
		}
	}
	d.Why = []Because{t.Began.because(events.TypeMessageSent, "%s", strings.TrimSuffix(says, ": "))}
	if !slices.Contains(present, d.Seat) {
		from := slices.Index(r.Order, d.Seat)
		for i := range r.Order {
			if seat := r.Order[(from+i)%len(r.Order)]; slices.Contains(present, seat) {
				d.Seat = seat
				break
			}
		}
	}
	return d, true
}

// since is from when on this seat has driven without a break: noted at each
// event of the thread, and moved on by what came from outside of it since.
func (t *Thread) since(d Driver, r Roster) events.Time {
	if d.Seat == "" {
		return 0
	}
	if t.Drove != nil && t.Drove.Seat == d.Seat {
		return t.Drove.Since
	}
	var latest events.Time
	for _, why := range d.Why {
		latest = max(latest, why.Time)
	}
	for _, away := range r.Absent {
		latest = max(latest, away.Time)
	}
	return latest
}

// Amends is what a person's sticker suggests for the content map: it differs
// from what the area rule said of the root. False when it does not, or there is none.
func (t *Thread) Amends(d Driver) (from, to string, differs bool) {
	if d.Source != SourcePerson || t.Area == nil || t.Area.Seat == d.Seat {
		return "", "", false
	}
	return t.Area.Seat, d.Seat, true
}
