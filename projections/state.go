package projections

import (
	"encoding/json"
	"fmt"
	"slices"

	"decklog/events"
)

// FoldVersion changes whenever the same events make other rows. A ledger whose
// rows were made by another version is rebuilt before it is used.
const FoldVersion = 5

// State is the folded ledger, loaded row by row as it is asked for. What an
// event changes stays in memory until Flush writes each changed row once: after
// one append for a live view, after the whole ledger for a rebuild, and in
// between whenever that has grown large.
//
// A State that failed to read or write a row remembers the first failure and
// answers with nothing from then on; Err gives it. The zero value of every row
// is its state before its first event.
type State struct {
	rows events.Rows
	err  error

	position events.Position // of the last event applied
	moved    bool            // since the last flush

	threads   table[Thread]
	messages  table[Message]
	mailboxes table[Mailbox]
	leases    table[Lease]
	sessions  table[Session]
	seats     table[Seat]
	policies  table[Adopted]
	calls     table[Call]

	marks map[string][]byte // index rows to write; nil removes one
}

// On gives the state that lies in rows.
func On(rows events.Rows) *State {
	s := &State{
		rows:      rows,
		threads:   newTable[Thread]("thread"),
		messages:  newTable[Message]("message"),
		mailboxes: newTable[Mailbox]("mailbox"),
		leases:    newTable[Lease]("lease"),
		sessions:  newTable[Session]("session"),
		seats:     newTable[Seat]("seat"),
		policies:  newTable[Adopted]("policy"),
		calls:     newTable[Call]("call"),
		marks:     map[string][]byte{},
	}
	s.position = s.checkpoint().Position
	return s
}

// Project is the projector that a ledger calls for what it appends.
func Project(rows events.Rows, recorded []events.Recorded) error {
	s := On(rows)
	for _, r := range recorded {
		s.Apply(r)
	}
	return s.Flush()
}

// Err is the first failure to read or write a row.
func (s *State) Err() error { return s.err }

func (s *State) fail(err error) {
	if s.err == nil && err != nil {
		s.err = err
	}
}

// Checkpoint says up to where, and by which fold, the rows were made.
type Checkpoint struct {
	Position events.Position `json:"position"`
	Fold     int             `json:"fold"`
}

const checkpointKey = "checkpoint"

func (s *State) checkpoint() (c Checkpoint) {
	data := s.get(checkpointKey)
	if data == nil {
		return c
	}
	if err := json.Unmarshal(data, &c); err != nil {
		s.fail(fmt.Errorf("decode row %q: %w: %w", checkpointKey, events.ErrDamaged, err))
	}
	return c
}

// ReadCheckpoint gives the checkpoint in rows; the zero value when there is none.
func ReadCheckpoint(rows events.Rows) (Checkpoint, error) {
	s := State{rows: rows}
	return s.checkpoint(), s.err
}

// Flush writes every changed row, and the checkpoint with them.
func (s *State) Flush() error {
	if s.err != nil {
		return s.err
	}
	writes := s.marks
	s.marks = map[string][]byte{}
	s.threads.collect(s, writes)
	s.messages.collect(s, writes)
	s.mailboxes.collect(s, writes)
	s.leases.collect(s, writes)
	s.sessions.collect(s, writes)
	s.seats.collect(s, writes)
	s.policies.collect(s, writes)
	s.calls.collect(s, writes)
	if s.moved {
		writes[checkpointKey] = s.encode(checkpointKey, Checkpoint{Position: s.position, Fold: FoldVersion})
		s.moved = false
	}
	keys := make([]string, 0, len(writes))
	for k := range writes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if s.err != nil {
			return s.err
		}
		if err := s.rows.Put(k, writes[k]); err != nil {
			s.fail(fmt.Errorf("write row %q: %w", k, err))
		}
	}
	return s.err
}

// heldMax bounds the index rows that a State holds before it writes them, and so
// the memory that a rebuild takes, however large the ledger is. A variable for
// the tests.
var heldMax = 100_000

// forget lets go of the rows that are held, all of which were written.
func (s *State) forget() {
	clear(s.threads.held)
	clear(s.messages.held)
	clear(s.mailboxes.held)
	clear(s.leases.held)
	clear(s.sessions.held)
	clear(s.seats.held)
	clear(s.policies.held)
	clear(s.calls.held)
}

func (s *State) get(key string) []byte {
	if s.err != nil {
		return nil
	}
	if v, marked := s.marks[key]; marked {
		return v
	}
	v, err := s.rows.Get(key)
	if err != nil {
		s.fail(fmt.Errorf("read row %q: %w", key, err))
	}
	return v
}

// mark writes an index row; what it says is in its key, and a little in its value.
func (s *State) mark(key, value string) { s.marks[key] = []byte(value) }

func (s *State) unmark(key string) { s.marks[key] = nil }

// scan visits the rows of a prefix. Only queries scan, on rows that were flushed.
func (s *State) scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) {
	if s.err != nil {
		return
	}
	if err := s.rows.Scan(prefix, after, backward, visit); err != nil {
		s.fail(fmt.Errorf("scan rows %q: %w", prefix, err))
	}
}

func (s *State) encode(key string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		s.fail(fmt.Errorf("encode row %q: %w", key, err))
	}
	return data
}

// shortened is what is not written to its row whole.
type shortened interface {
	brief() any                      // what is written
	complete(id string) (whole bool) // makes it whole again, unless more is missing than was left out
}

// table holds the rows of one kind that were loaded, and knows which changed.
type table[T any] struct {
	kind    string
	held    map[string]*T // nil: known to be absent
	changed map[string]bool
}

func newTable[T any](kind string) table[T] {
	return table[T]{kind: kind, held: map[string]*T{}, changed: map[string]bool{}}
}

// find loads a row; nil when there is none. Nothing has the empty id, which
// stands for nothing in many places.
func (t *table[T]) find(s *State, id string) *T {
	if id == "" {
		return nil
	}
	if row, held := t.held[id]; held {
		return row
	}
	var row *T
	if data := s.get(key(t.kind, id)); data != nil {
		row = new(T)
		if err := json.Unmarshal(data, row); err != nil {
			s.fail(fmt.Errorf("decode row %s %q: %w: %w", t.kind, id, events.ErrDamaged, err))
			return nil
		}
	}
	if short, is := any(row).(shortened); is && row != nil && !short.complete(id) {
		s.fail(fmt.Errorf("decode row %s %q: %w: it is not whole", t.kind, id, events.ErrDamaged))
		return nil
	}
	t.held[id] = row
	return row
}

// begin replaces a row, whatever it was, and remembers to write it.
func (t *table[T]) begin(id string, row T) *T {
	t.held[id] = &row
	t.changed[id] = true
	return &row
}

// change loads a row, or begins it, and remembers to write it.
func (t *table[T]) change(s *State, id string) *T {
	row := t.find(s, id)
	if row == nil {
		row = new(T)
		t.held[id] = row
	}
	t.changed[id] = true
	return row
}

func (t *table[T]) collect(s *State, writes map[string][]byte) {
	for id := range t.changed {
		k := key(t.kind, id)
		var row any = t.held[id]
		if short, is := row.(shortened); is {
			row = short.brief()
		}
		writes[k] = s.encode(k, row)
	}
	clear(t.changed)
}
