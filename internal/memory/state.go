package memory

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"

	"decklog/events"
	"decklog/internal/rows"
)

// state is all that a ledger holds at one moment. A copy costs the same for any
// size, and neither it nor its origin sees what the other does next. The slices
// are shared between copies: they are only ever appended to, and nobody looks
// past the length that he has.
type state struct {
	events  []events.Recorded
	streams btree.Map[events.Stream, []events.Position]
	ids     btree.Map[events.EventID, events.Position]
	bodies  btree.Map[events.Position, events.Body]
	alike   btree.Map[string, struct{}] // fingerprint and position of each body that is there
	tallies btree.Map[string, tally]
	rows    *rows.Rows
}

// tally is a counter, and the moment at which it began.
type tally struct {
	count int
	since events.Time
}

func (s *state) copy() *state {
	return &state{
		events:  s.events,
		streams: *s.streams.Copy(),
		ids:     *s.ids.Copy(),
		bodies:  *s.bodies.Copy(),
		alike:   *s.alike.Copy(),
		tallies: *s.tallies.Copy(),
		rows:    s.rows.Copy(),
	}
}

func (s *state) end() events.Position { return events.Position(len(s.events)) }

func (s *state) at(p events.Position) events.Recorded { return s.events[p-1] }

// head is the stream's last event; false when it has none.
func (s *state) head(stream events.Stream) (events.Recorded, bool) {
	positions, _ := s.streams.Get(stream)
	if len(positions) == 0 {
		return events.Recorded{}, false
	}
	return s.at(positions[len(positions)-1]), true
}

// add puts the event in its place, and gives it as it stands there.
func (s *state) add(r events.Recorded) events.Recorded {
	r.High = r.Time
	if n := len(s.events); n > 0 {
		r.High = max(r.High, s.events[n-1].High)
	}
	s.events = append(s.events, r)
	positions, _ := s.streams.Get(r.Stream)
	s.streams.Set(r.Stream, append(positions, r.Position))
	s.ids.Set(r.ID, r.Position)
	return r
}

func (s *state) keep(p events.Position, b events.Body) {
	b.Text = bytes.Clone(b.Text)
	s.bodies.Set(p, b)
	s.alike.Set(alikeKey(b.Fingerprint, p), struct{}{})
}

func (s *state) drop(id events.EventID) {
	p, _ := s.ids.Get(id)
	if b, there := s.bodies.Delete(p); there {
		s.alike.Delete(alikeKey(b.Fingerprint, p))
	}
}

// alikeKey sorts the bodies of one fingerprint by their position.
func alikeKey(f events.Fingerprint, p events.Position) string {
	return string(binary.BigEndian.AppendUint64(slices.Clone(f[:]), uint64(p)))
}

func positionOf(alikeKey string) events.Position {
	return events.Position(binary.BigEndian.Uint64([]byte(alikeKey[len(events.Fingerprint{}):])))
}
