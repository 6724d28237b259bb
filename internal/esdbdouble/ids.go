package esdbdouble

import "github.com/google/uuid"

// idsBytesMax is how much a server remembers of the events that it wrote.
const idsBytesMax = 8 << 20

// ids is a server's memory of where it wrote which event. It forgets the oldest
// first, and one id in two streams is the later one only. It lies in the process
// and not in the log.
type ids struct {
	bytesMax int
	bytes    int
	at       map[uuid.UUID]written
	order    []uuid.UUID
}

// written is where an event was written.
type written struct {
	stream string
	number int64
}

func newIDs(bytesMax int) *ids { return &ids{bytesMax: bytesMax, at: map[uuid.UUID]written{}} }

func (w written) bytes() int { return 28 + 2*len(w.stream) }

func (k *ids) put(id uuid.UUID, w written) {
	if old, there := k.at[id]; there {
		k.bytes -= old.bytes()
	} else {
		k.order = append(k.order, id)
	}
	k.at[id] = w
	k.bytes += w.bytes()
	for k.bytes > k.bytesMax && len(k.order) > 0 {
		k.bytes -= k.at[k.order[0]].bytes()
		delete(k.at, k.order[0])
		k.order = k.order[1:]
	}
}

// find says where an event was written, if that was in this stream.
func (k *ids) find(id uuid.UUID, stream string) (number int64, there bool) {
	w, there := k.at[id]
	return w.number, there && w.stream == stream
}
