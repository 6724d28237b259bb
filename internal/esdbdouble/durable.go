package esdbdouble

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"time"

	"github.com/google/uuid"
)

// Durable is a log that outlives its process: it lies in a file, which is made
// when it is not there. What is appended to it is acknowledged, and shown to
// readers, only once it was written and synced. There is one writer, as in the
// real server, and what came while it synced goes under its next sync together.
// As in the real one, too, a conflict is answered at once, also one with what is not
// synced yet and cannot be read.
//
// What a process that died was writing when it did is cut from the end. A file
// whose other bytes are not as they were written is refused.
//
// [Server.Stop] does not stop the writer: what a server has taken by then is
// written, although nobody is told. [Log.Close] does.
func Durable(path string, options ...LogOption) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := newLog(options)
	if err := l.load(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	l.durable = l.end
	l.file = &file{File: f, wake: make(chan struct{}, 1), over: make(chan struct{})}
	go l.write()
	if l.end == 0 {
		l.found()
	}
	return l, l.settle(l.end)
}

// file is where a log lies. The log's lock guards its fields.
type file struct {
	*os.File
	taken  []kept // of the append that is being made
	lines  []byte // that are not written yet
	failed error  // why nothing is written any more
	closed bool
	wake   chan struct{}
	over   chan struct{} // closed when the writer has ended
}

// kept is a record as it lies in the file. An append is one line:
//
//	5f0e1c2a [{"at":79,"number":0,"id":"…","stream":"dl.thread-1","type":"message.sent","json":true,"data":"…","metadata":"…","created":1764500000000000000}]
//
// which begins with the CRC-32 of what follows the blank.
type kept struct {
	At       int64     `json:"at"`
	Number   int64     `json:"number"`
	ID       uuid.UUID `json:"id"`
	Stream   string    `json:"stream,omitempty"` // none: a gap
	Kind     string    `json:"type,omitempty"`
	JSON     bool      `json:"json,omitempty"`
	Data     []byte    `json:"data,omitempty"`
	Metadata []byte    `json:"metadata,omitempty"`
	Created  int64     `json:"created"`
	Hidden   bool      `json:"hidden,omitempty"`
}

// keep notes a record for the file. The caller holds the log's lock.
func (f *file) keep(r *record) {
	f.taken = append(f.taken, kept{
		At: r.position, Number: r.number, ID: r.id, Stream: r.stream, Kind: r.kind, JSON: r.json,
		Data: r.data, Metadata: r.metadata, Created: r.created.UnixNano(), Hidden: r.hidden,
	})
}

// seal makes one line of what was kept, which is there whole or not at all, and
// says whether there was anything. The caller holds the log's lock.
func (f *file) seal() bool {
	if len(f.taken) == 0 {
		return false
	}
	line, err := json.Marshal(f.taken)
	if err != nil {
		panic(err) // of records that were made here
	}
	f.lines = append(fmt.Appendf(f.lines, "%08x ", crc32.ChecksumIEEE(line)), line...)
	f.lines = append(f.lines, '\n')
	f.taken = f.taken[:0]
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return true
}

// write is the log's one writer.
func (l *Log) write() {
	f := l.file
	defer close(f.over)
	for range f.wake {
		l.mu.Lock()
		lines, end := f.lines, l.end
		f.lines = nil
		l.mu.Unlock()
		_, err := f.Write(lines)
		if err == nil {
			err = datasync(f.File)
		}
		l.mu.Lock()
		if err == nil {
			l.durable = end
		} else if f.failed == nil {
			f.failed = fmt.Errorf("write log: %w", err)
		}
		closed, failed := f.closed && len(f.lines) == 0, f.failed != nil
		l.tell()
		l.mu.Unlock()
		if closed || failed {
			return
		}
	}
}

// settle waits until the log is durable up to a place. Nobody knows what became
// of what could not be written.
func (l *Log) settle(end int64) error {
	for {
		l.mu.RLock()
		durable, grown := l.durable, l.grown
		var failed error
		if l.file != nil {
			failed = l.file.failed
		}
		l.mu.RUnlock()
		if durable >= end {
			return nil
		}
		if failed != nil {
			return failed
		}
		<-grown
	}
}

// Close ends the writer of a durable log once all is written. No server may run
// on it any more.
func (l *Log) Close() error {
	f := l.file
	if f == nil {
		return nil
	}
	l.mu.Lock()
	if f.closed {
		l.mu.Unlock()
		return nil
	}
	f.closed = true
	l.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // the writer looks once more
	}
	<-f.over
	return errors.Join(f.failed, f.File.Close())
}

// load reads what is in a file, and cuts off the line that was not finished.
func (l *Log) load(f *os.File) error {
	lines, whole := bufio.NewReaderSize(f, 1<<20), int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if err := f.Truncate(whole); err != nil {
				return err
			}
			_, err := f.Seek(whole, io.SeekStart)
			return err
		}
		if err != nil {
			return err
		}
		if err := l.take(line); err != nil {
			return fmt.Errorf("the line at byte %d: %w", whole, err)
		}
		whole += int64(len(line))
	}
}

// take puts the records of one line into the log.
func (l *Log) take(line []byte) error {
	const sumLen = len("5f0e1c2a ")
	if len(line) < sumLen {
		return errors.New("it is too short")
	}
	sum, records := line[:sumLen], line[sumLen:len(line)-1]
	if string(sum) != fmt.Sprintf("%08x ", crc32.ChecksumIEEE(records)) {
		return errors.New("it is not as it was written")
	}
	var all []kept
	if err := json.Unmarshal(records, &all); err != nil {
		return err
	}
	for _, k := range all {
		r := &record{
			id: k.ID, stream: k.Stream, number: k.Number, kind: k.Kind, json: k.JSON, data: k.Data, metadata: k.Metadata,
			created: time.Unix(0, k.Created), hidden: k.Hidden,
		}
		if k.Stream == "" {
			l.gap()
		} else {
			l.add(r)
		}
		if at := l.records[len(l.records)-1].position; at != k.At {
			return fmt.Errorf("its event lies at %d, and lay at %d", at, k.At)
		}
	}
	return nil
}

// always is how far a log is durable of which nobody expects that it is.
const always = math.MaxInt64
