package esdbdouble

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/google/uuid"
)

// What an append expects of its stream, beside a number.
const (
	expectNone   int64 = -1
	expectAny    int64 = -2
	expectExists int64 = -4
)

// proposed is one event of an append.
type proposed struct {
	id       uuid.UUID
	kind     string
	json     bool
	data     []byte
	metadata []byte
}

// size is what counts of an event against the most that an append may take.
func (p proposed) size() int { return len(p.data) + len(p.metadata) + 2*len(p.kind) }

// done is what an append or a delete is answered with: the stream's last event
// that is of it, and where that lies.
type done struct {
	last     int64
	position int64
}

// wrongVersion is the refusal of an append whose expectation was wrong. The
// server takes half a repeated append for one too.
type wrongVersion struct{ current int64 }

func (wrongVersion) Error() string { return "wrong expected version" }

// deleted is the refusal of an append to a stream that has ended.
type deleted struct{}

func (deleted) Error() string { return "stream deleted" }

// check decides whether events may be appended. One that repeats an earlier
// append is answered with what that one wrote (again is set). The rules are the
// server's, with their holes: at the current revision nothing is compared, and
// without a revision only what the process happens to remember.
//
// The caller holds the lock.
func (l *Log) check(stream string, expected int64, events []uuid.UUID, known *ids) (current int64, again *done, err error) {
	current = l.last(stream, math.MaxInt64)
	if current == tombstone {
		return current, nil, deleted{}
	}
	if expected == expectExists {
		if l.softDeleted(stream) {
			return current, nil, deleted{}
		}
		if current < 0 && l.last("$$"+stream, math.MaxInt64) < 0 {
			return current, nil, wrongVersion{current}
		}
	}

	switch {
	case expected == expectAny || expected == expectExists:
		end := int64(-1)
		for i, id := range events {
			number, there := known.find(id, stream)
			if !there && i == 0 {
				return current, nil, nil
			}
			if !there {
				return current, nil, wrongVersion{current}
			}
			end = number
		}
		if len(events) == 0 {
			return current, nil, nil
		}
		return current, &done{last: end, position: l.at(stream, end).position}, nil

	case expected < current:
		for i, id := range events {
			number := expected + 1 + int64(i)
			if r := l.at(stream, number); r != nil && r.id == id {
				continue
			}
			if i == 0 && expected == expectNone && l.softDeleted(stream) {
				return current, nil, nil
			}
			return current, nil, wrongVersion{current}
		}
		if len(events) == 0 {
			return current, nil, wrongVersion{current}
		}
		end := expected + int64(len(events))
		return current, &done{last: end, position: l.at(stream, end).position}, nil

	case expected > current:
		return current, nil, wrongVersion{current}
	}
	return current, nil, nil
}

// at is the event of a stream with a number, however hidden. The caller holds
// the lock.
func (l *Log) at(stream string, number int64) *record {
	if all := l.streams[stream]; number >= 0 && number < int64(len(all)) && all[number].number == number {
		return all[number]
	}
	return nil
}

// append writes events, or says why not. The caller holds the lock.
func (l *Log) append(stream string, expected int64, events []proposed, known *ids) (done, error) {
	asked := make([]uuid.UUID, len(events))
	for i, e := range events {
		asked[i] = e.id
	}
	current, again, err := l.check(stream, expected, asked, known)
	if err != nil {
		return done{}, err
	}
	if again != nil {
		return *again, nil
	}

	of, isMetadata := strings.CutPrefix(stream, "$$")
	revived := l.softDeleted(stream)
	revivedByMetadata := isMetadata && l.softDeleted(of)

	d := done{last: current}
	for _, e := range events {
		r := l.put(&record{id: e.id, stream: stream, kind: e.kind, json: e.json, data: e.data, metadata: e.metadata})
		known.put(e.id, written{stream, r.number})
		d = done{last: r.number, position: r.position}
	}
	if len(events) == 0 {
		d.position = l.gap()
	}
	if revived {
		l.revive(stream, current+1)
	}
	if revivedByMetadata {
		l.revive(of, l.last(of, math.MaxInt64)+1)
	}
	l.announce()
	return d, nil
}

// revive shows a deleted stream's events from a number on, by a change of its
// metadata, as the server does after the first event that is appended to it. The
// caller holds the lock.
func (l *Log) revive(stream string, from int64) {
	said := l.streams["$$"+stream]
	var all map[string]json.RawMessage
	if json.Unmarshal(said[len(said)-1].data, &all) != nil {
		return
	}
	all["$tb"], _ = json.Marshal(from)
	data, err := json.Marshal(all)
	if err != nil {
		return
	}
	l.put(&record{stream: "$$" + stream, kind: "$metadata", json: true, data: data})
}

// delete hides a stream, or ends it for ever. The caller holds the lock.
func (l *Log) delete(stream string, expected int64, forEver bool, known *ids) (done, error) {
	id := uuid.New()
	if _, _, err := l.check(stream, expected, []uuid.UUID{id}, known); err != nil {
		return done{}, err
	}
	r := &record{id: id, stream: stream, number: tombstone, kind: "$streamDeleted"}
	if !forEver {
		if l.last(stream, math.MaxInt64) < 0 && l.last("$$"+stream, math.MaxInt64) < 0 {
			return done{}, wrongVersion{-1}
		}
		r = &record{id: id, stream: "$$" + stream, kind: "$metadata", json: true, data: []byte(`{"$tb":9223372036854775807}`)}
	}
	l.put(r)
	known.put(r.id, written{r.stream, r.number})
	l.announce()
	return done{last: r.number, position: r.position}, nil
}
