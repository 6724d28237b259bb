package ops

import (
	"errors"
	"strconv"
	"strings"

	"decklog/commands"
	"decklog/events"
)

// MomentRequest names a moment: a position, or a time as RFC 3339.
type MomentRequest struct {
	At string `json:"at,omitempty"` // empty: now
}

// MomentView is the position that a moment has.
type MomentView struct {
	At events.Position `json:"at"`
}

// Moment gives the position that a moment has: of a time, the last one whose
// running maximum of times is not later. It changes nothing.
func (o *Ops) Moment(q MomentRequest) (view MomentView, refused *commands.Refusal, err error) {
	refused, err = caught(o.look(func(v *reading) (err error) {
		view.At, err = v.moment(q.At)
		return err
	}))
	return view, refused, err
}

// BodiesMax bounds how many texts one request asks for.
const BodiesMax = 200

// BodiesRequest asks for the texts that lie beside events.
type BodiesRequest struct {
	Events []events.EventID `json:"events,omitempty"` // at most BodiesMax
}

// BodiesView holds them in the order of the request.
type BodiesView struct {
	Bodies []BodyShown `json:"bodies"`
}

// BodyShown is the text beside an event.
type BodyShown struct {
	Event events.EventID `json:"event"`
	Text  string         `json:"text"`
	Gone  bool           `json:"gone"` // it was taken back, or there never was one
}

// Bodies gives the texts beside events, as far as they are there. It changes nothing.
func (o *Ops) Bodies(q BodiesRequest) (view BodiesView, refused *commands.Refusal, err error) {
	view.Bodies = []BodyShown{}
	if len(q.Events) > BodiesMax {
		return view, commands.Refuse(commands.BadRequest, "%d texts are asked for at once, and at most %d are given", len(q.Events), BodiesMax).
			Better("ask for fewer at a time", "decklog export --format cloudevents --bodies"), nil
	}
	err = o.look(func(v *reading) error {
		for _, id := range q.Events {
			body, there, err := v.r.Body(id)
			if err != nil {
				return err
			}
			view.Bodies = append(view.Bodies, BodyShown{Event: id, Text: string(body.Text), Gone: !there})
		}
		return nil
	})
	return view, nil, err
}

// First is the ledger's first event; false when there is none.
func First(o Operations) (first events.Recorded, there bool, err error) {
	_, _, err = o.Events(EventsRequest{From: 1}, func(r events.Recorded) error {
		first, there = r, true
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return first, there, err
}

// ExportRequest says which part of a ledger is exported.
type ExportRequest struct {
	From   string // a moment, included; empty: the first event
	To     string // a moment, included; empty: the last event there is when it begins
	Bodies bool   // with the texts beside the events
}

// Exported is an event of an export.
type Exported struct {
	events.Recorded
	Body *BodyShown      // nil: it has none, or none was asked for
	To   events.Position // the last position of the export
}

var errEnough = errors.New("what was asked for has been read")

// later says whether one time is after another; false where one of them is none.
func later(a, b string) bool {
	from, err := events.ParseTime(strings.TrimSpace(a))
	to, err2 := events.ParseTime(strings.TrimSpace(b))
	return err == nil && err2 == nil && from > to
}

// Export visits the events of a part of a ledger in their order, wherever the
// ledger is. It holds as many events in memory as BodiesMax.
func Export(o Operations, q ExportRequest, visit func(Exported) error) (*commands.Refusal, error) {
	from := MomentView{At: 1}
	if q.From != "" {
		var refused *commands.Refusal
		var err error
		if from, refused, err = o.Moment(MomentRequest{At: q.From}); refused != nil || err != nil {
			return refused, err
		}
	}
	to, refused, err := o.Moment(MomentRequest{At: q.To})
	if refused != nil || err != nil {
		return refused, err
	}
	switch {
	case q.From == "" && from.At > to.At:
		return nil, nil // it ends before the first event
	case from.At > to.At && q.To != "", later(q.From, q.To):
		return commands.Refuse(commands.BadRequest, "it would begin at %s, behind %s where it ends", cut(q.From), cut(q.To)).
			Better("begin at a moment that is not after the last", "decklog export --format cloudevents --from 1 --to "+strconv.FormatInt(int64(max(1, to.At)), 10)), nil
	}
	held := make([]Exported, 0, BodiesMax)
	release := func() error {
		var ids []events.EventID
		for _, e := range held {
			if _, holds := events.TextOf(e.Event); holds && q.Bodies {
				ids = append(ids, e.ID)
			}
		}
		if len(ids) > 0 {
			view, r, err := o.Bodies(BodiesRequest{Events: ids})
			if err != nil {
				return err
			}
			if r != nil {
				return refusal{r}
			}
			found := map[events.EventID]*BodyShown{}
			for i := range view.Bodies {
				found[view.Bodies[i].Event] = &view.Bodies[i]
			}
			for i := range held {
				held[i].Body = found[held[i].ID]
			}
		}
		for _, e := range held {
			if err := visit(e); err != nil {
				return err
			}
		}
		held = held[:0]
		return nil
	}
	_, refused, err = o.Events(EventsRequest{From: from.At}, func(r events.Recorded) error {
		if r.Position > to.At {
			return errEnough
		}
		if held = append(held, Exported{Recorded: r, To: to.At}); len(held) < BodiesMax && r.Position < to.At {
			return nil
		}
		if err := release(); err != nil {
			return err
		}
		if r.Position == to.At {
			return errEnough
		}
		return nil
	})
	if refused != nil {
		return refused, nil
	}
	if err != nil && !errors.Is(err, errEnough) {
		return caught(err)
	}
	return caught(release())
}
