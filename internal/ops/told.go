package ops

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/failure"
	"decklog/projections"
)

// The home of a session, and of its mailbox, is the machine on which it joined. Only
// there can be seen whether its process runs, whether it is in a turn, and when it was
// seen last. Where several machines share a ledger, each tells the others what it sees
// of its sessions, beside the events. What is told decides nothing of what a replay
// shows: a message names the evidence that its receipt relied on.

// How often a machine tells what it sees.
const (
	TellEvery  = 30 * time.Second // at most: who is in a turn, and was seen when
	NewsEvery  = 5 * time.Second  // at most: that a process is there, or is gone
	PromiseMin = 2 * time.Minute  // within which it tells again, when things change
	PromiseMax = 16 * time.Minute // and when they have not for long
	// renewedBefore is how long before its promise ends a machine tells again.
	renewedBefore = time.Minute
)

// The bounds of what a machine tells: its sessions that were seen last.
const (
	ToldMax      = 2000
	toldBytesMax = 512 << 10
)

// Telling is what a machine tells of the sessions whose home it is, and that have not
// left. Fields are added and optional.
//
//	{"device":"deck-a","boot":"6f1c…","run":"9b2e…","at":"2026-11-30T09:00:30.000000Z","until":"2026-11-30T09:02:30.000000Z",
//	 "sessions":[{"session":"5d0c…","joins":1,"process":"runs","busy":true,"seen":"2026-11-30T09:00:28.000000Z"}]}
type Telling struct {
	Device   string      `json:"device"`
	Boot     string      `json:"boot,omitempty"` // of its system, as its processes name it
	Run      string      `json:"run,omitempty"`  // of what serves there: another each time that it is started
	At       events.Time `json:"at"`
	Until    events.Time `json:"until"` // it tells again before; what it told is old then
	Sessions []Told      `json:"sessions"`
}

// Told is what a machine tells of a session.
type Told struct {
	Session events.SessionID `json:"session"`
	Joins   int              `json:"joins"`             // which of its joinings it is about; what was told of another is void
	Process string           `json:"process,omitempty"` // runs, or gone; empty: none is recorded, or it cannot be seen
	Busy    bool             `json:"busy,omitempty"`
	Seen    *events.Time     `json:"seen,omitempty"` // nil: no hook run was
}

// What is told of processes. One that is gone never comes back.
const (
	runs = "runs"
	gone = "gone"
)

// Fleet is what a machine knows of the sessions of a ledger that it shares with other
// machines.
type Fleet struct {
	// World is this machine's: its name, its processes, the notes of its hooks.
	World World
	// Boot is its system's present boot, as its processes name it; empty: unknown.
	Boot string
	// Publish brings what this machine tells to all of them.
	Publish func(context.Context, []byte) error
	// Behind says that what other machines told may not have come. Nil: it never is.
	Behind func() bool

	last  Telling // of this machine
	run   string  // of this process
	named bool    // another machine of this name was heard at the last telling

	mu    sync.Mutex
	told  map[string]heard // by machine
	began events.Time      // when this one first told
}

type heard struct {
	Telling
	of map[events.SessionID]Told
}

// Hear takes what a machine told last; nil has it forgotten. What cannot be read is
// of a program that this one does not know, and tells nothing.
func (f *Fleet) Hear(machine string, said []byte) {
	h := heard{of: map[events.SessionID]Told{}}
	if said != nil && json.Unmarshal(said, &h.Telling) != nil {
		return
	}
	for _, t := range h.Sessions {
		h.of[t.Session] = t
	}
	h.Sessions = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == nil {
		f.told = map[string]heard{}
	}
	f.told[machine] = h
	if said == nil {
		delete(f.told, machine)
	}
}

// heard is what the machines told.
func (f *Fleet) heard() []heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.told))
}

// observe is what is seen of a session here, or else what its home told.
func (f *Fleet) observe(s *projections.Session, now events.Time) commands.Observation {
	told := f.heard()
	o, home := f.seen(s, told), f.isHome(s, told)
	var last *events.Time
	silent := true
	for _, h := range told {
		t, has := h.of[s.ID]
		has = has && t.Joins == s.Joins
		mine := h.Device == f.World.Device && h.Boot == f.Boot
		if !has && (h.Device != s.Device || mine && !home) {
			continue
		}
		silent = silent && now > h.Until
		if !has {
			continue
		}
		if last == nil || h.At > *last {
			last = &h.At
		}
		o.Gone = o.Gone || t.Process == gone
		if t.Seen != nil && (o.Seen == nil || *t.Seen > *o.Seen) {
			o.Seen, o.Busy = t.Seen, t.Busy
		}
	}
	if !home {
		deaf := f.Behind != nil && f.Behind()
		o.Home = &commands.Home{Device: s.Device, Told: last, Silent: silent && !deaf, Deaf: deaf}
	}
	return o
}

// seen is what is seen of a session on this machine: of its own ones, and of those
// that no machine speaks for, such as one that reaches the ledger through this one.
func (f *Fleet) seen(s *projections.Session, told []heard) (o commands.Observation) {
	home := f.isHome(s, told)
	if home && s.Process != nil {
		o.Gone = !f.World.Alive(*s.Process)
	}
	if !home && spokenFor(s, told) {
		return o // it was here once
	}
	if busy, at, known := f.World.Seen(s.ID); known && (home || at >= s.Joined) {
		o.Busy, o.Seen = busy, &at
	}
	return o
}

// isHome says whether this machine is a session's home. That is told by the machine's
// name; and where two machines have one name, by the boot of the session's process,
// which no two have. A session of a system under another name, of this very boot, is
// of this machine as long as nobody else speaks for it.
func (f *Fleet) isHome(s *projections.Session, told []heard) bool {
	boot := ""
	if s.Process != nil {
		boot = s.Process.Boot
	}
	if s.Device != f.World.Device {
		return boot != "" && boot == f.Boot && !spokenFor(s, told)
	}
	return boot == f.Boot || boot == "" || !slices.ContainsFunc(told, func(h heard) bool { return h.Boot == boot })
}

// spokenFor says whether a machine of the session's own name tells what it sees.
func spokenFor(s *projections.Session, told []heard) bool {
	return slices.ContainsFunc(told, func(h heard) bool { return h.Device == s.Device })
}

// Run tells the other machines what is seen of the sessions here, for as long as the
// context lives. failed is told when that fails, and of what is wrong among the
// machines, each once; with nil when all is well again.
func (f *Fleet) Run(ctx context.Context, o *Ops, failed func(error)) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	said := ""
	for {
		err := f.Tell(ctx, o)
		if ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = err.Error()
		}
		if now != said {
			failed(err)
		}
		said = now
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// lookEvery is how often a machine looks after its sessions.
const lookEvery = 5 * time.Second

// Tell tells what is seen of the sessions here, if it is time for that. Before a
// machine lets anybody in it should: nothing else tells it from another of its name.
func (f *Fleet) Tell(ctx context.Context, o *Ops) error {
	next, err := f.look(o)
	if err != nil {
		return fmt.Errorf("look after the sessions of this machine: %w", err)
	}
	// Another machine of this name hears by this one's next word that there are two,
	// which else may come in a quarter of an hour.
	named := f.namesake(next.At) != nil
	news := named && !f.named
	if next, is := next.after(f.last); is || news {
		data, err := next.encode()
		if err == nil {
			err = f.Publish(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("tell the other machines of the sessions here: %w", err)
		}
		f.last = next
		f.mu.Lock()
		if f.began == 0 {
			f.began = next.At
		}
		f.mu.Unlock()
	}
	f.named = named
	return f.namesake(next.At)
}

// look is what is seen of the sessions here now.
func (f *Fleet) look(o *Ops) (t Telling, err error) {
	if f.run == "" {
		word := make([]byte, 8)
		f.World.Random(word)
		f.mu.Lock()
		f.run = hex.EncodeToString(word)
		f.mu.Unlock()
	}
	told := f.heard()
	err = o.look(func(v *reading) error {
		t = Telling{Device: f.World.Device, Boot: f.Boot, Run: f.run, At: v.now, Sessions: []Told{}}
		for _, row := range v.s.LiveSessions() {
			home := f.isHome(row, told)
			seen := f.seen(row, told)
			if !home && seen.Seen == nil {
				continue
			}
			one := Told{Session: row.ID, Joins: row.Joins, Busy: seen.Busy, Seen: seen.Seen}
			switch {
			case row.Process == nil || !home:
			case seen.Gone:
				one.Process = gone
			default:
				one.Process = runs
			}
			t.Sessions = append(t.Sessions, one)
		}
		return nil
	})
	if over := len(t.Sessions) - ToldMax; over > 0 {
		slices.SortStableFunc(t.Sessions, func(a, b Told) int { return cmp.Compare(b.lastSeen(), a.lastSeen()) })
		t.Sessions = t.Sessions[:ToldMax]
		slices.SortFunc(t.Sessions, func(a, b Told) int { return strings.Compare(string(a.Session), string(b.Session)) })
	}
	return t, err
}

func (t Told) lastSeen() events.Time {
	if t.Seen == nil {
		return 0
	}
	return *t.Seen
}

// after is what is told after the last telling, and whether it is time for that. When
// nothing changed it is time before the promise ends, and the next promise is longer.
func (t Telling) after(last Telling) (Telling, bool) {
	since, promise := t.At.Sub(last.At), PromiseMin
	is := false
	switch {
	case last.At == 0, since < 0: // a clock that went back must not silence a machine
		is = true
	case !slices.EqualFunc(t.Sessions, last.Sessions, Told.equal):
		is = since >= TellEvery || since >= NewsEvery && t.hasNews(last)
	default:
		promise = min(2*last.Until.Sub(last.At), PromiseMax)
		is = t.At >= last.Until.Add(-renewedBefore)
	}
	t.Until = t.At.Add(promise)
	return t, is
}

func (t Told) equal(u Told) bool {
	return t.lastSeen() == u.lastSeen() && t.Session == u.Session && t.Joins == u.Joins && t.Process == u.Process && t.Busy == u.Busy
}

// hasNews says whether it tells of a process otherwise than the last telling.
func (t Telling) hasNews(last Telling) bool {
	was := map[Told]bool{}
	for _, one := range last.Sessions {
		was[one.process()] = true
	}
	return slices.ContainsFunc(t.Sessions, func(now Told) bool { return now.Process != "" && !was[now.process()] })
}

// process is what is told of a session's process alone.
func (t Told) process() Told { return Told{Session: t.Session, Joins: t.Joins, Process: t.Process} }

// encode writes a telling, without the last of its sessions if it would be too long.
func (t Telling) encode() ([]byte, error) {
	for {
		data, err := json.Marshal(t)
		if err != nil || len(data) <= toldBytesMax {
			return data, err
		}
		t.Sessions = t.Sessions[:len(t.Sessions)/2]
	}
}

// NamesakeFix is what to do where two machines of a ledger go by one name.
const NamesakeFix = "give each machine a name of its own, as its host name or in DECKLOG_DEVICE, and start decklog serve there again"

var errNamesake = errors.New("another machine has this one's name")

// namesake says that another machine of this name tells something, which is not this
// one before it was started anew. Their sessions are told apart by the boots of their
// processes; those without one are not, nor are those of two homes on one system.
func (f *Fleet) namesake(now events.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began == 0 {
		return nil
	}
	for _, h := range f.told {
		another := h.Boot != f.Boot || h.Run != "" && h.Run != f.run
		if h.Device == f.World.Device && another && h.At > f.began && now <= h.Until {
			return failure.New("same_name", NamesakeFix,
				fmt.Errorf("%w: %s", errNamesake, h.Device))
		}
	}
	return nil
}
