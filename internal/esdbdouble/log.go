package esdbdouble

import (
	"encoding/json"
	"math"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// tombstone is the number of the event that ends a stream for ever.
const tombstone = math.MaxInt64

// recordOverhead is what a record takes beside its name, type and contents. The
// number means nothing, but that no position can be guessed from another.
const recordOverhead = 79

// record is one entry of the log.
type record struct {
	position int64 // where its first byte lies
	end      int64 // where the next record lies
	id       uuid.UUID
	stream   string
	number   int64
	kind     string
	json     bool
	data     []byte
	metadata []byte
	created  time.Time

	// hidden records are not events of $all: what the server writes for itself,
	// and the rest of an append without events.
	hidden bool
	about  streamMetadata // what the event says, in a stream of metadata
}

func (r *record) place() place { return place{r.position, r.position} }

// Log is what a server keeps when its process ends. A cluster shares one.
type Log struct {
	now func() time.Time

	mu      sync.RWMutex
	records []*record
	streams map[string][]*record
	end     int64
	durable int64         // up to where it may be read
	grown   chan struct{} // closed when there is more to be read
	file    *file         // nil: the log is gone with its process
}

// LogOption makes a log differ from what suits most tests.
type LogOption func(*Log)

// Clock is what the log takes the time from: that of each event, and that by
// which $maxAge hides events.
func Clock(now func() time.Time) LogOption { return func(l *Log) { l.now = now } }

// NewLog is a log as a new server starts with: not empty, for the server has
// written events of its own. It is gone with its process; see [Durable].
func NewLog(options ...LogOption) *Log {
	l := newLog(options)
	l.found()
	return l
}

func newLog(options []LogOption) *Log {
	l := &Log{now: time.Now, streams: map[string][]*record{}, durable: always, grown: make(chan struct{})}
	for _, option := range options {
		option(l)
	}
	return l
}

// found writes what a new server does.
func (l *Log) found() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch()
	l.put(&record{stream: "$user-admin", kind: "$UserCreated", json: true, data: []byte(`{"loginName":"admin"}`)})
	l.put(&record{stream: "$users", kind: "$User", data: []byte("admin")})
	l.announce()
}

// put writes a record at the end of its stream. The caller holds the lock.
func (l *Log) put(r *record) *record {
	if r.id == uuid.Nil {
		r.id = uuid.New()
	}
	if r.number == 0 {
		r.number = l.last(r.stream, math.MaxInt64) + 1
	}
	r.created = l.now()
	l.add(r)
	if l.file != nil {
		l.file.keep(r)
	}
	return r
}

// add puts a record that is made at the end. The caller holds the lock.
func (l *Log) add(r *record) {
	r.position = l.end
	r.end = l.end + recordOverhead + int64(2*len(r.stream)+2*len(r.kind)+len(r.data)+len(r.metadata))
	l.end = r.end
	if of, is := strings.CutPrefix(r.stream, "$$"); is && of != "" {
		r.about = parseStreamMetadata(r.data)
	}
	l.records = append(l.records, r)
	l.streams[r.stream] = append(l.streams[r.stream], r)
}

// gap takes room in the log that no event fills. The caller holds the lock.
func (l *Log) gap() int64 {
	r := &record{position: l.end, end: l.end + recordOverhead, hidden: true}
	l.end = r.end
	l.records = append(l.records, r)
	if l.file != nil {
		l.file.keep(r)
	}
	return r.position
}

// epoch notes that a leader begins. The caller holds the lock.
func (l *Log) epoch() {
	l.put(&record{stream: "$epoch-information", kind: "$epoch-information", json: true, data: []byte(`{}`), hidden: true})
	l.announce()
}

// announce ends what was written together, and wakes those who wait for more, as
// soon as it may be read. The caller holds the lock.
func (l *Log) announce() {
	if l.file == nil || !l.file.seal() {
		l.tell()
	}
}

// tell wakes those who wait for more. The caller holds the lock.
func (l *Log) tell() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// seen is the part of a stream before a place in the log, which is all that a
// follower which lags behind knows. The caller holds the lock.
func (l *Log) seen(stream string, until int64) []*record {
	all := l.streams[stream]
	if until >= l.end {
		return all
	}
	return all[:sort.Search(len(all), func(i int) bool { return all[i].position >= until })]
}

// last is the number of a stream's last event: -1 when there is none, and
// [tombstone] when the stream has ended. The caller holds the lock.
func (l *Log) last(stream string, until int64) int64 {
	if of, is := strings.CutPrefix(stream, "$$"); is {
		if ended := l.seen(of, until); len(ended) > 0 && ended[len(ended)-1].number == tombstone {
			return tombstone
		}
	}
	seen := l.seen(stream, until)
	if len(seen) == 0 {
		return -1
	}
	return seen[len(seen)-1].number
}

// about is a stream's metadata. The caller holds the lock.
func (l *Log) about(stream string, until int64) streamMetadata {
	if strings.HasPrefix(stream, "$$") {
		one := int64(1)
		return streamMetadata{maxCount: &one}
	}
	said := l.seen("$$"+stream, until)
	if len(said) == 0 {
		return streamMetadata{}
	}
	return said[len(said)-1].about
}

// softDeleted says that a stream is hidden until it is appended to again. The
// caller holds the lock.
func (l *Log) softDeleted(stream string) bool {
	return l.about(stream, math.MaxInt64).before == tombstone
}

// streamMetadata is what of a stream's metadata the server itself obeys.
type streamMetadata struct {
	maxCount *int64
	maxAge   *time.Duration
	before   int64 // $tb: events below it are hidden
}

// parseStreamMetadata takes what cannot be read for no metadata.
func parseStreamMetadata(data []byte) streamMetadata {
	var read struct {
		MaxCount *int64 `json:"$maxCount"`
		MaxAge   *int64 `json:"$maxAge"`
		Before   *int64 `json:"$tb"`
	}
	if json.Unmarshal(data, &read) != nil {
		return streamMetadata{}
	}
	m := streamMetadata{maxCount: read.MaxCount}
	if read.MaxAge != nil {
		age := time.Duration(*read.MaxAge) * time.Second
		m.maxAge = &age
	}
	if read.Before != nil {
		m.before = *read.Before
	}
	return m
}

// Event is what the log holds of one event, for a test to compare with past all
// faults.
type Event struct {
	ID       uuid.UUID
	Stream   string
	Revision uint64
	Type     string
	Position uint64
	Data     []byte
	Metadata []byte
}

// Events are all events in the log of the streams whose names begin with prefix,
// in their order, those that reads hide among them.
func (l *Log) Events(prefix string) (events []Event) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, r := range l.records {
		if !r.hidden && r.end <= l.durable && strings.HasPrefix(r.stream, prefix) {
			events = append(events, Event{
				ID: r.id, Stream: r.stream, Revision: uint64(r.number), Type: r.kind, Position: uint64(r.position), Data: r.data, Metadata: r.metadata,
			})
		}
	}
	return events
}
