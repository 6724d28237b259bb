package projections

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"decklog/events"
)

// FoldVersion changes whenever the same events make other rows. A ledger whose
// rows were made by another version is rebuilt before it is used.
const FoldVersion = 7

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
	fold     int             // that made the rows; 0: there were none

	threads   table[Thread, *Thread]
	messages  table[Message, *Message]
	mailboxes table[Mailbox, *Mailbox]
	leases    table[Lease, *Lease]
	sessions  table[Session, *Session]
	seats     table[Seat, *Seat]
	policies  table[Adopted, *Adopted]
	calls     table[Call, *Call]
	counts    table[Counts, *Counts]

	packer packer // whose memory serves one row after the other

	before Checkpoint // of the last unit of work that was not undone
	unsure bool       // it does not know any more what changed since

	marks   map[string]mark // by their keys
	without Kind            // the rows that are not made
	fresh   bool            // its attics are to be moved out
}

// On gives the state that lies in rows: in one unit of work the same one each
// time, and in the next one again if nobody wrote in between, so that what it has
// read it reads once. The rows that it gives are its own: nobody changes them, the
// next event does, and who needs one as it was, or for longer, copies it.
func On(rows events.Rows) *State {
	keeper, keeps := rows.(events.Keeper)
	if keeps {
		if s, is := keeper.Kept().(*State); is && s.goesOn(rows) {
			return s
		}
	}
	s := newState(rows)
	if keeps {
		keeper.Keep(s)
	}
	return s
}

func newState(rows events.Rows) *State {
	s := &State{
		rows:      rows,
		threads:   newTable[Thread]("thread"),
		messages:  newTable[Message]("message"),
		mailboxes: newTable[Mailbox]("box"),
		leases:    newTable[Lease]("lease"),
		sessions:  newTable[Session]("session"),
		seats:     newTable[Seat]("seat"),
		policies:  newTable[Adopted]("policy"),
		calls:     newTable[Call]("call"),
		counts:    newTable[Counts]("count"),
		marks:     map[string]mark{},
	}
	s.mailboxes.part = "mailbox"
	s.before = s.checkpoint()
	s.position, s.fold = s.before.Position, s.before.Fold
	return s
}

// keptMax bounds the rows that a State holds from one unit of work to the next.
const keptMax = 10_000

// goesOn says whether a State that was kept is still that of rows, and makes it
// so. Rows are what the fold made of the events up to their checkpoint, so where
// the checkpoint is the one that it wrote, so are all of them.
func (s *State) goesOn(rows events.Rows) bool {
	if s.rows == rows {
		return true
	}
	if s.err != nil || s.moved || len(s.messages.held)+len(s.threads.held)+len(s.leases.held) > keptMax {
		return false
	}
	s.rows = rows
	mine := Checkpoint{Position: s.position, Fold: FoldVersion}
	return string(s.get(checkpointKey)) == string(mine.row()) && s.err == nil
}

// Ended says how a unit of work ended. Behind one that was undone the rows are as
// they were, so the State forgets those that it changed.
func (s *State) Ended(undone bool) (goesOn bool) {
	if s.err != nil || undone && (s.unsure || s.fresh) {
		return false
	}
	s.threads.ended(undone)
	s.messages.ended(undone)
	s.mailboxes.ended(undone)
	s.leases.ended(undone)
	s.sessions.ended(undone)
	s.seats.ended(undone)
	s.policies.ended(undone)
	s.calls.ended(undone)
	s.counts.ended(undone)
	s.unsure = false
	if undone {
		clear(s.marks)
		s.position, s.fold, s.moved = s.before.Position, s.before.Fold, false
		return true
	}
	s.before = Checkpoint{Position: s.position, Fold: s.fold}
	return true
}

// Fold is the version of the fold that made the rows; 0 when there are none.
func (s *State) Fold() int { return s.fold }

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

// checkpointRow is how it is written. Every command reads it and every commit
// writes it, and encoding/json prepares itself for longer than either takes.
const checkpointRow = `{"position":%d,"fold":%d}`

func (c Checkpoint) row() []byte {
	b := append(make([]byte, 0, 48), `{"position":`...)
	b = append(strconv.AppendInt(b, int64(c.Position), 10), `,"fold":`...)
	return append(strconv.AppendInt(b, int64(c.Fold), 10), '}')
}

func (s *State) checkpoint() (c Checkpoint) {
	data := s.get(checkpointKey)
	if data == nil {
		return c
	}
	if _, err := fmt.Sscanf(string(data), checkpointRow, &c.Position, &c.Fold); err == nil && string(c.row()) == string(data) {
		return c
	}
	c = Checkpoint{} // a later fold may say more
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
	s.spill()
	if s.fresh {
		s.moveOut()
	}
	return s.err
}

// makeRoom lets go of all that is held.
func (s *State) makeRoom() {
	s.unsure = true
	s.spill()
	s.threads.forget()
	s.messages.forget()
	s.mailboxes.forget()
	s.leases.forget()
	s.sessions.forget()
	s.seats.forget()
	s.policies.forget()
	s.calls.forget()
	s.counts.forget()
	if !s.fresh {
		return
	}
	threads, messages, leases := s.threads.attic.bytes(), s.messages.attic.bytes(), s.leases.attic.bytes()
	if threads+messages+leases <= atticBytesMax {
		return
	}
	switch max(threads, messages, leases) { // the fuller it is, the closer lie the keys that are written
	case threads:
		s.threads.moveOut(s)
	case messages:
		s.messages.moveOut(s)
	case leases:
		s.leases.moveOut(s)
	}
}

// moveOut writes what lies in the attics to the rows.
func (s *State) moveOut() {
	s.leases.moveOut(s)
	s.messages.moveOut(s)
	s.threads.moveOut(s)
}

// spill writes what is held to where it is kept: to the rows, or to the attics.
func (s *State) spill() {
	if s.err != nil {
		return
	}
	writes := make([]write, 0, len(s.marks)+64)
	for k, m := range s.marks {
		writes = append(writes, write{key: k, mark: m})
	}
	clear(s.marks)
	writes = s.threads.collect(writes)
	writes = s.messages.collect(writes)
	writes = s.mailboxes.collect(writes)
	if !s.makes(LeaseRows) {
		s.leases.forget()
	}
	writes = s.leases.collect(writes)
	writes = s.sessions.collect(writes)
	writes = s.seats.collect(writes)
	writes = s.policies.collect(writes)
	writes = s.calls.collect(writes)
	writes = s.counts.collect(writes)
	slices.SortFunc(writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
	for _, w := range writes {
		s.put(w.key, w.value(&s.packer))
	}
	if s.moved {
		s.put(checkpointKey, Checkpoint{Position: s.position, Fold: FoldVersion}.row())
		s.moved, s.fold = false, FoldVersion
	}
}

// write is a row to be written: an entity, or a row of an index.
type write struct {
	key    string
	entity entity
	mark   mark
}

// value is valid until the next one; nil removes the row.
func (w write) value(p *packer) []byte {
	switch {
	case w.entity != nil:
		return w.entity.value(p)
	case w.mark.gone:
		return nil
	}
	p.bytes = append(p.bytes[:0], w.mark.value...)
	return p.bytes
}

func (s *State) put(key string, value []byte) {
	if s.err != nil {
		return
	}
	if err := s.rows.Put(key, value); err != nil {
		s.fail(fmt.Errorf("write row %q: %w", key, err))
	}
}

// heldMax bounds what a State holds before it writes it, counted in index rows,
// and so the memory that a rebuild takes, however large the ledger is. A variable
// for the tests.
var heldMax = 150_000

// held is how much a State holds. An entity takes as much memory as some index rows.
func (s *State) held() int {
	const each = 12
	return len(s.marks) + each*(len(s.threads.held)+len(s.messages.held)+len(s.leases.held)+
		len(s.mailboxes.held)+len(s.sessions.held)+len(s.seats.held)+len(s.calls.held))
}

func (s *State) get(key string) []byte {
	if s.err != nil {
		return nil
	}
	if m, marked := s.marks[key]; marked {
		if m.gone {
			return nil
		}
		return []byte(m.value)
	}
	v, err := s.rows.Get(key)
	if err != nil {
		s.fail(fmt.Errorf("read row %q: %w", key, err))
	}
	return v
}

// mark is a row of an index to be written, or to be removed.
type mark struct {
	value string
	gone  bool
	new   bool // there is no such row yet: to remove it is to forget the mark
}

// mark writes an index row; what it says is in its key, and a little in its value.
func (s *State) mark(key, value string) { s.marks[key] = mark{value: value} }

func (s *State) unmark(key string) {
	if s.marks[key].new {
		delete(s.marks, key)
	} else {
		s.marks[key] = mark{gone: true}
	}
}

// markNew is mark, for a key that nothing had before this event.
func (s *State) markNew(key, value string) { s.marks[key] = mark{value: value, new: true} }

// scan visits the rows of a prefix. Only queries scan, on rows that were flushed.
func (s *State) scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) {
	if s.err != nil {
		return
	}
	if err := s.rows.Scan(prefix, after, backward, visit); err != nil {
		s.fail(fmt.Errorf("scan rows %q: %w", prefix, err))
	}
}

// table holds the rows of one kind that were loaded, and knows which changed.
type table[T any, R row[T]] struct {
	kind    string
	part    string // of the key, behind the id; most have none
	attic   *attic // where rows lie that are not in the State's rows, or not as they are; nil: nowhere
	moved   bool   // some were moved out of it
	held    map[string]*holding[T, R]
	changed []*holding[T, R]
	touched []*holding[T, R] // changed since the last unit of work ended, written or not
}

// holding is a row as it is held.
type holding[T any, R row[T]] struct {
	id      string
	row     R // nil: known to be absent
	changed bool
}

// entity is a holding of any kind.
type entity interface{ value(*packer) []byte }

func (h *holding[T, R]) value(p *packer) []byte { return pack(p, h.id, h.row) }

func newTable[T any, R row[T]](kind string) table[T, R] {
	return table[T, R]{kind: kind, held: map[string]*holding[T, R]{}}
}

func (t *table[T, R]) key(id string) string {
	if t.part != "" {
		return key(t.kind, id, t.part)
	}
	return key(t.kind, id)
}

// find loads a row; nil when there is none. Nothing has the empty id, which
// stands for nothing in many places.
func (t *table[T, R]) find(s *State, id string) R {
	if id == "" {
		return nil
	}
	return t.hold(s, id).row
}

func (t *table[T, R]) hold(s *State, id string) *holding[T, R] {
	if h := t.held[id]; h != nil {
		return h
	}
	h := &holding[T, R]{id: id}
	if data, shared := t.load(s, id); data != nil {
		row, err := unpack[T, R](id, data, shared)
		if err != nil {
			s.fail(fmt.Errorf("read row %s %q: %w: %w", t.kind, id, events.ErrDamaged, err))
			return h
		}
		h.row = row
	}
	t.held[id] = h
	return h
}

func (t *table[T, R]) load(s *State, id string) ([]byte, *sharedTexts) {
	if t.attic != nil {
		if data := t.attic.get(id); data != nil || !t.moved {
			return data, t.attic.packer.shared
		}
	}
	return s.get(t.key(id)), nil
}

// begin replaces a row, whatever it was, and remembers to write it.
func (t *table[T, R]) begin(id string, row R) R {
	h := t.held[id]
	if h == nil {
		h = &holding[T, R]{id: id}
		t.held[id] = h
	}
	h.row = row
	t.changes(h)
	return row
}

// change loads a row, or begins it, and remembers to write it.
func (t *table[T, R]) change(s *State, id string) R {
	h := t.hold(s, id)
	if h.row == nil {
		h.row = new(T)
	}
	t.changes(h)
	return h.row
}

// changeFound loads a row and remembers to write it; nil when there is none.
func (t *table[T, R]) changeFound(s *State, id string) R {
	if id == "" {
		return nil
	}
	h := t.hold(s, id)
	if h.row != nil {
		t.changes(h)
	}
	return h.row
}

func (t *table[T, R]) changes(h *holding[T, R]) {
	if !h.changed {
		h.changed = true
		t.changed = append(t.changed, h)
		t.touched = append(t.touched, h)
	}
}

func (t *table[T, R]) ended(undone bool) {
	for _, h := range t.touched {
		if undone && t.held[h.id] == h {
			delete(t.held, h.id)
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	if undone {
		t.changed = t.changed[:0]
	}
}

// collect adds the changed rows to writes, and counts them as written.
func (t *table[T, R]) collect(writes []write) []write {
	for _, h := range t.changed {
		h.changed = false
		if t.attic != nil {
			t.attic.put(h.id, pack(&t.attic.packer, h.id, h.row))
			continue
		}
		writes = append(writes, write{key: t.key(h.id), entity: h})
	}
	t.changed = t.changed[:0]
	return writes
}

func (t *table[T, R]) forget() {
	clear(t.held)
	t.changed, t.touched = t.changed[:0], t.touched[:0]
}

// moveOut writes the rows in the attic to the State's, in the order of their
// keys.
func (t *table[T, R]) moveOut(s *State) {
	for id, data := range t.attic.all() {
		row, err := unpack[T, R](id, data, t.attic.packer.shared)
		if err != nil {
			s.fail(fmt.Errorf("read packed %s %q: %w", t.kind, id, err))
		}
		if s.err != nil {
			return
		}
		s.put(t.key(id), pack(&s.packer, id, row))
	}
	t.attic, t.moved = newAttic(), true
}
