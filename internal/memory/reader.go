package memory

import (
	"fmt"
	"math"
	"sort"

	"decklog/events"
	"decklog/internal/rows"
)

// reader reads one state. Neither the data of an event nor the text of a body
// that it gives may be changed.
type reader struct{ *state }

func (r reader) End() (events.Position, error) { return r.end(), nil }

func (r reader) Head(stream events.Stream) (events.Revision, error) {
	if head, there := r.head(stream); there {
		return head.Revision, nil
	}
	return events.NoStream, nil
}

func (r reader) All(from events.Position, limit int) ([]events.Recorded, error) {
	var out []events.Recorded
	for p := max(from, 1); p <= r.end() && len(out) < limit; p++ {
		out = append(out, r.at(p))
	}
	return out, nil
}

func (r reader) Stream(stream events.Stream, from events.Revision, limit int) ([]events.Recorded, error) {
	positions, _ := r.streams.Get(stream)
	var out []events.Recorded
	for n := int(max(from, 0)); n < len(positions) && len(out) < limit; n++ {
		out = append(out, r.at(positions[n]))
	}
	return out, nil
}

func (r reader) Event(id events.EventID) (events.Recorded, bool, error) {
	p, there := r.ids.Get(id)
	if !there {
		return events.Recorded{}, false, nil
	}
	return r.at(p), true, nil
}

func (r reader) AsOf(t events.Time) (events.Position, error) {
	later := sort.Search(len(r.events), func(i int) bool { return r.events[i].High > t })
	return events.Position(later), nil
}

func (r reader) Body(id events.EventID) (events.Body, bool, error) {
	p, there := r.ids.Get(id)
	if !there {
		return events.Body{}, false, nil
	}
	b, there := r.bodies.Get(p)
	return b, there, nil
}

func (r reader) Alike(f events.Fingerprint) (id events.EventID, found bool, err error) {
	last := alikeKey(f, math.MaxInt64)
	r.alike.Descend(last, func(key string, _ struct{}) bool {
		if key[:len(f)] == last[:len(f)] {
			id, found = r.at(positionOf(key)).ID, true
		}
		return false
	})
	return id, found, nil
}

func (r reader) Rows() events.Rows { return readOnly{r.rows} }

// readOnly is the rows of a view.
type readOnly struct{ *rows.Rows }

func (readOnly) Put(string, []byte) error { return fmt.Errorf("put row: %w", errView) }
