// Package rows keeps the rows of the views in memory: for the memory ledger,
// for a replay, and for tests.
package rows

import (
	"bytes"
	"errors"

	"github.com/tidwall/btree"

	"decklog/events"
)

// ErrEmptyKey refuses the key "", which as the `after` of a scan means no key.
var ErrEmptyKey = errors.New("put row: the key is empty")

// Rows is an [events.Rows] in memory.
//
// Any number of goroutines may read one while nobody writes it; one of them may
// copy it.
type Rows struct {
	tree btree.Map[string, []byte]
	puts int // counts the changes, so that a scan notices one made under it
}

var _ events.Rows = (*Rows)(nil)

// New makes an empty set of rows.
func New() *Rows { return new(Rows) }

// Copy gives the same rows once more, and from then on the two go their own
// ways. It takes the same time for any number of rows: what they share is
// copied when one of them first changes it. A transaction works on a copy, and
// to roll it back is to forget the copy.
func (r *Rows) Copy() *Rows { return &Rows{tree: *r.tree.Copy()} }

// Len counts the rows.
func (r *Rows) Len() int { return r.tree.Len() }

// Clear removes every row.
func (r *Rows) Clear() {
	r.tree.Clear()
	r.puts++
}

// Get reads a row; nil when there is none. The value must not be changed.
func (r *Rows) Get(key string) ([]byte, error) {
	value, _ := r.tree.Get(key)
	return value, nil
}

// Put writes a copy of value; nil removes the row.
func (r *Rows) Put(key string, value []byte) error {
	if key == "" {
		return ErrEmptyKey
	}
	r.puts++
	if value == nil {
		r.tree.Delete(key)
		return nil
	}
	r.tree.Set(key, bytes.Clone(value))
	return nil
}

// Scan visits rows as [events.Rows] says. A row that visit puts or removes is
// seen as it then is if it lies ahead, so that a scan may clear what it visits.
func (r *Rows) Scan(prefix, after string, backward bool, visit func(key string, value []byte) bool) error {
	for {
		from, to := Bounds(prefix, after, backward)
		puts, changed := r.puts, false
		step := func(key string, value []byte) bool {
			switch {
			case backward && key == to: // where the way back begins
				return true
			case backward && key < from, !backward && to != "" && key >= to:
				return false
			case !visit(key, value):
				return false
			}
			after = key
			changed = r.puts != puts
			return !changed
		}
		switch {
		case !backward:
			r.tree.Ascend(from, step)
		case to == "":
			r.tree.Reverse(step)
		default:
			r.tree.Descend(to, step)
		}
		if !changed {
			return nil
		}
		// The tree may have been rebuilt under the walk: find the place again.
	}
}

// Bounds turns the arguments of a scan into a range of keys, whichever its
// direction: from is in it, to is the first one past it, and an empty to means
// that it has no end.
func Bounds(prefix, after string, backward bool) (from, to string) {
	from, to = prefix, pastPrefix(prefix)
	switch {
	case after == "":
	case backward && (to == "" || after < to):
		to = after
	case !backward && after >= from:
		from = after + "\x00" // the very next key there can be
	}
	return from, to
}

// pastPrefix is the first key after all that begin with prefix; empty when
// there is no such key.
func pastPrefix(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
