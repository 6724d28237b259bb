package esdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"decklog/events"
	"decklog/internal/sqlite"
)

// Beside the events each machine has a stream in which it tells the others what it
// observes. The ledger carries that and does not look into it. What is told gets no
// position, and no digest holds it: it decides nothing that anybody replays.
//
// Only the last that a machine told counts, so of such a stream the cluster gives
// that alone ($maxCount, which no stream of events ever has), and what went before
// goes with the next scavenge. The mirror never resumes from where something was
// told, since it may be gone by then. It notes the last of each machine instead,
// before it comes to the events behind it: who resumes knows it, or is told again.
const (
	toldMark = "presence-" // and the machine's id
	toldType = "presence"
	toldKey  = "presence/" // of the mirror's notes
	lastOnly = `{"$maxCount":1}`
)

// machinesMax is of how many machines the last that they told is kept, of those that
// told it last: machines come, and nobody says when one went for good.
const machinesMax = 1000

// telling is what a machine told, as the mirror notes it.
type telling struct {
	At   place  `json:"at"`
	Said []byte `json:"said"`
}

// hearing is what this process has heard of the machines.
type hearing struct {
	call func(machine string, said []byte)
	mu   sync.Mutex
	last map[string]place
}

// Hear has a function told what each machine told last, this one too: what the mirror
// knows before [Open] returns, then what comes. Machines go by ids that say nothing
// else. With nil a machine is to be forgotten.
func Hear(call func(machine string, said []byte)) Option {
	return func(l *Ledger) { l.hearing.call = call }
}

// hear passes on what a machine told, unless it told something since.
func (l *Ledger) hear(machine string, t telling) {
	h := &l.hearing
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, known := h.last[machine]; known && !t.At.after(last) {
		return
	}
	if h.last == nil {
		h.last = map[string]place{}
	}
	h.last[machine] = t.At
	if h.call != nil {
		h.call(machine, t.Said)
	}
}

// unhear forgets what machines told, unless they told something since.
func (l *Ledger) unhear(forgotten map[string]place) {
	h := &l.hearing
	h.mu.Lock()
	defer h.mu.Unlock()
	for machine, at := range forgotten {
		if last, known := h.last[machine]; !known || last.after(at) {
			continue
		}
		delete(h.last, machine)
		if h.call != nil {
			h.call(machine, nil)
		}
	}
}

// recall passes on what the mirror knows already.
func (l *Ledger) recall() error {
	noted, err := l.notes(toldKey)
	if err != nil {
		return fmt.Errorf("read what machines told: %w", err)
	}
	for key, value := range noted {
		var t telling
		if json.Unmarshal(value, &t) == nil { // else it is told again, soon enough
			l.hear(key[len(toldKey):], t)
		}
	}
	return nil
}

// tells takes what a machine told.
func (p *projector) tells(machine string, t telling) {
	if p.told == nil {
		p.told = map[string]telling{}
	}
	p.told[machine] = t
}

// bringTold notes what machines told, and passes it on. It comes before the events
// that came with it: the place up to which the mirror has those is behind it.
func (p *projector) bringTold() error {
	if len(p.told) == 0 {
		return nil
	}
	var forgotten map[string]place
	err := p.write(func(m sqlite.Mirror) error {
		for machine, t := range p.told {
			noted, err := json.Marshal(t)
			if err == nil {
				err = m.Note(toldKey+machine, noted)
			}
			if err != nil {
				return err
			}
		}
		var err error
		forgotten, err = forget(m)
		return err
	})
	if err != nil {
		return fmt.Errorf("note what machines told: %w", err)
	}
	for machine, t := range p.told {
		p.l.hear(machine, t)
	}
	p.l.unhear(forgotten)
	p.told = nil
	return nil
}

// forget takes the notes away of those that told nothing for longest, where there are
// too many.
func forget(m sqlite.Mirror) (forgotten map[string]place, err error) {
	all := map[string]place{}
	forgotten = map[string]place{}
	err = m.Notes(toldKey, func(key string, value []byte) {
		var t telling
		_ = json.Unmarshal(value, &t) // what cannot be read is the oldest
		all[key[len(toldKey):]] = t.At
	})
	for err == nil && len(all) > machinesMax {
		oldest := ""
		for machine, at := range all {
			if oldest == "" || all[oldest].after(at) {
				oldest = machine
			}
		}
		err = m.Note(toldKey+oldest, nil)
		forgotten[oldest] = all[oldest]
		delete(all, oldest)
	}
	return forgotten, err
}

// publishing is what is known of this machine's own stream.
type publishing struct {
	mu      sync.Mutex
	machine string             // its id; empty: not looked up yet
	looked  bool               // the rest is so
	end     events.Revision    // of the stream
	own     map[uuid.UUID]bool // what lies there last is one of these; nil: it may be of an earlier process
}

// Publish tells all machines of the ledger something, this one too, in place of what
// it told before. After an error it is told or not, and what is told next lies behind
// it. The data must be JSON.
//
// The stream is this mirror's own, so each append is exactly at its end. Where
// somebody else has appended, the mirror's folder was copied: this machine then gives
// itself another id.
func (l *Ledger) Publish(ctx context.Context, said []byte) error {
	select {
	case <-l.checked:
	default: // it may be another ledger's cluster that answers
		return unreachable(errors.New("the cluster has not answered yet"))
	}
	e := client.EventData{EventID: uuid.New(), EventType: toldType, ContentType: client.ContentTypeJson, Data: said}
	if err := fits(sizeOf(e), "what this machine tells"); err != nil {
		return err
	}
	p := &l.publishing
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.bounds.send)
	defer cancel()
	err := errMoved
	for tries := 0; tries < triesMax && errors.Is(err, errMoved); tries++ {
		if err = l.lookUp(ctx); err != nil {
			break
		}
		if p.own == nil {
			p.own = map[uuid.UUID]bool{}
		}
		p.own[e.EventID] = true
		if err = l.tell(ctx, l.address.Prefix+toldMark+p.machine, p.end, e); err != nil {
			p.looked = false
		}
	}
	if err != nil {
		return fmt.Errorf("tell the other machines: %w", err)
	}
	p.end, p.own = p.end+1, map[uuid.UUID]bool{e.EventID: true}
	return nil
}

// tell is one append, tried once.
func (l *Ledger) tell(ctx context.Context, stream string, after events.Revision, e client.EventData) error {
	attempt, cancel := context.WithTimeout(ctx, l.bounds.attempt)
	defer cancel()
	err := l.fence.appendTo(attempt, stream, expectation(after), []client.EventData{e})
	switch kindOf(err) {
	case client.ErrorCodeWrongExpectedVersion, client.ErrorCodeStreamDeleted:
		return fmt.Errorf("append to %s: %w", stream, errMoved)
	}
	return err
}

// lookUp finds the stream's end, and makes sure that the cluster keeps no more of it.
func (l *Ledger) lookUp(ctx context.Context) (err error) {
	p := &l.publishing
	for !p.looked {
		if p.machine == "" {
			if p.machine, err = l.machineID(); err != nil {
				return err
			}
		}
		stream := l.address.Prefix + toldMark + p.machine
		keep := client.EventData{
			EventID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(stream)), EventType: "$metadata", ContentType: client.ContentTypeJson, Data: []byte(lastOnly),
		}
		if err := l.tell(ctx, "$$"+stream, events.NoStream, keep); err != nil && !errors.Is(err, errMoved) { // moved: it is said already
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, l.bounds.attempt)
		last, err := l.fence.last(attempt, stream)
		cancel()
		switch {
		case err != nil:
			return err
		case last == nil && p.own == nil:
			p.end = events.NoStream
		case last != nil && (p.own == nil || p.own[last.EventID]):
			p.end = events.Revision(last.EventNumber)
		default:
			if p.machine, err = l.newMachineID(); err != nil {
				return err
			}
			p.own = nil
			continue
		}
		p.looked = true
	}
	return nil
}

// machineID is what this machine goes by. It lies in the file that is locked while the
// mirror is in use, so that no two processes read the same.
func (l *Ledger) machineID() (string, error) {
	noted := make([]byte, len(uuid.Nil.String()))
	n, _ := l.owner.ReadAt(noted, 0)
	if id, err := uuid.ParseBytes(noted[:n]); err == nil {
		return id.String(), nil
	}
	return l.newMachineID()
}

func (l *Ledger) newMachineID() (string, error) {
	id := uuid.NewString()
	if _, err := l.owner.WriteAt([]byte(id), 0); err != nil {
		return "", fmt.Errorf("note this machine's id: %w", err)
	}
	return id, nil
}
