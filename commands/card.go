package commands

import (
	"slices"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// WorkBytesMax bounds whose work a card names.
const WorkBytesMax = 256

// cardStatuses are what a card can say of its work.
var cardStatuses = []string{
	string(events.CardInvestigating), string(events.CardPlanning), string(events.CardDriving),
	string(events.CardReviewing), string(events.CardBlocked), string(events.CardDone),
}

// Card shows where driven work stands (R13): one card for a thread and a seat, a
// reply to the root that is edited in place.
type Card struct {
	Call
	Thread  string
	Subject []byte // blank: as the card says
	Work    string // whose; blank: as the card says
	Status  string
	// Text gives the body that lies beside an event, while it is there.
	Text func(events.EventID) []byte
}

const cardExample = `decklog card THREAD --subject "guest-card sync fails" --work @ana --status investigating`

// Decide posts the card of the seat that drives, or edits it. A seat that drives
// no more can only close its own, which nobody else can edit.
func (c Card) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	bad := func(format string, args ...any) ([]events.Proposed, *Refusal) {
		return nil, refuse(BadRequest, format, args...).example(cardExample)
	}
	status := word(c.Status)
	if !slices.Contains(cardStatuses, status) {
		return bad("the status %q is none of %s", cut(c.Status, WorkBytesMax), strings.Join(cardStatuses, ", "))
	}
	if len(c.Work) > WorkBytesMax || !oneLine(c.Work) {
		return bad("whose work it is takes %d bytes, or more than one line; at most %d bytes", len(c.Work), WorkBytesMax)
	}
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	own := d.ownCard()
	if !d.drives() && (own == nil || status != string(events.CardDone)) {
		return nil, d.notDriver("keep the thread's card; a seat that drove closes its own with --status done")
	}
	work, _ := Mask([]byte(strings.TrimSpace(c.Work)))
	card := events.Card{Driver: d.from.Seat, Work: string(work), Status: events.CardStatus(status)}
	subject := c.Subject
	if own != nil {
		card.Work = or(card.Work, own.Work)
		if strings.TrimSpace(string(subject)) == "" && c.Text != nil {
			subject = c.Text(s.Message(own.Message).Event)
		}
	}
	switch {
	case card.Work == "":
		return bad("a new card does not say whose work it is")
	case strings.TrimSpace(string(subject)) == "":
		return bad("the card does not say what it is about")
	case own == nil:
		out, r := Send{Call: c.Call, Kind: events.KindCard, ReplyTo: string(d.t.Root), Body: subject}.Decide(s, now, p)
		return d.beside(out, events.CardPosted{Message: c.ID.Message(), Thread: d.t.ID, Card: card}), r
	}
	out, r := Edit{Call: c.Call, Message: string(own.Message), Body: subject}.Decide(s, now, p)
	return d.beside(out, events.CardUpdated{Message: own.Message, Thread: d.t.ID, Card: card}), r
}

// ownCard is the card of the seat that asks; nil: it has none in this thread.
func (d *inThread) ownCard() *projections.CardOf {
	if d.from.Seat == "" {
		return nil
	}
	return d.t.Card(d.from.Seat)
}

// beside adds an event to what was decided of the thread; nothing to nothing.
func (d *inThread) beside(out []events.Proposed, e events.Event) []events.Proposed {
	if len(out) == 0 {
		return out
	}
	d.out, d.cause = out, out[0].ID
	d.add(e, nil)
	return d.out
}
