package projections

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"decklog/events"
)

// attic keeps the packed rows of one kind in memory: for a replay, which has no
// ledger's rows to write to, and for a rebuild until it writes them. Nearly all of
// a replay's memory is here, so it holds few pointers and no spare room: one row
// behind the other in large chunks, found by the bytes of its id.
type attic struct {
	packer packer
	ids    map[[16]byte]shelf
	others map[string]shelf // by ids that are no UUID
	chunks [][]byte
}

// shelf is where a row lies: its chunk, and its place there.
type shelf struct{ chunk, at uint32 }

const chunkBytes = 1 << 18

func newAttic() *attic {
	return &attic{packer: packer{shared: &sharedTexts{numbers: map[string]int{}}}, ids: map[[16]byte]shelf{}, others: map[string]shelf{}}
}

// put keeps a row. What was kept under the id is lost, and its room with it: that
// is little, because a State packs a row only when it lets go of it.
func (a *attic) put(id string, row []byte) {
	last := len(a.chunks) - 1
	if last < 0 || cap(a.chunks[last])-len(a.chunks[last]) < binary.MaxVarintLen64+len(row) {
		a.chunks = append(a.chunks, make([]byte, 0, max(chunkBytes, binary.MaxVarintLen64+len(row))))
		last++
	}
	at := shelf{chunk: uint32(last), at: uint32(len(a.chunks[last]))}
	a.chunks[last] = append(binary.AppendUvarint(a.chunks[last], uint64(len(row))), row...)
	if u, is := events.ParseUUID(id); is {
		a.ids[u] = at
	} else {
		a.others[id] = at
	}
}

// get gives the row that is kept under the id; nil when there is none.
func (a *attic) get(id string) []byte {
	var at shelf
	var there bool
	if u, is := events.ParseUUID(id); is {
		at, there = a.ids[u]
	} else {
		at, there = a.others[id]
	}
	if !there {
		return nil
	}
	rest := a.chunks[at.chunk][at.at:]
	size, length := binary.Uvarint(rest)
	return rest[length : length+int(size)]
}

// bytes is about how much memory it takes.
func (a *attic) bytes() int { return len(a.chunks)*chunkBytes + len(a.ids)*32 + len(a.others)*100 }

// atticBytesMax bounds the attics of a rebuild, and so its memory, however large
// the ledger is. A variable for the tests.
var atticBytesMax = 64 << 20

// all visits the rows in the order of their ids, which for UUIDs is that of their
// texts.
func (a *attic) all() func(yield func(id string, row []byte) bool) {
	return func(yield func(string, []byte) bool) {
		ids := slices.SortedFunc(maps.Keys(a.ids), func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
		others := slices.Sorted(maps.Keys(a.others))
		for len(ids) > 0 || len(others) > 0 {
			var id string
			if len(ids) > 0 {
				id = events.UUID(ids[0])
			}
			if len(others) > 0 && (id == "" || others[0] < id) {
				id, others = others[0], others[1:]
			} else {
				ids = ids[1:]
			}
			if !yield(id, a.get(id)) {
				return
			}
		}
	}
}

// sharedTexts are texts that many rows of one attic hold, each of them once.
type sharedTexts struct {
	texts   []string
	numbers map[string]int
}

const sharedTextsMax = 20_000

// number is that of a text; false when it is too late for another.
func (s *sharedTexts) number(t string) (int, bool) {
	n, known := s.numbers[t]
	if !known && len(s.texts) < sharedTextsMax {
		n, known = len(s.texts), true
		s.texts, s.numbers[t] = append(s.texts, t), n
	}
	return n, known
}
