package ops

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"decklog/events"
	"decklog/projections"
)

// Hub wakes those who wait for something in particular, in a process where many
// do. It reads what is appended once for all of them, by whichever process, and
// wakes only whom it concerns: so a commit costs the ten thousandth session that
// waits nothing. Without a hub each waiter is woken by every commit, and looks.
//
// Whom an event concerns is what the bells are rung by. What only time brings
// about is not here: a waiter looks by itself at its time.
type Hub struct {
	ledger Ledger

	mu      sync.Mutex
	at      events.Position // up to here everybody was told
	recent  []concern       // of the last events, in order
	begins  events.Position // those after this one are in recent
	waiting map[string]map[*hearer]struct{}
	down    error // why it tells nobody at present
	ended   bool
}

// While the ledger cannot be read the hub tries again, after a pause that grows
// from the first to the second.
const (
	hubPause    = 50 * time.Millisecond
	hubPauseMax = 5 * time.Second
)

// concern is whom an event concerns.
type concern struct {
	position events.Position
	of       []string
}

// recentMax bounds how far back a hub knows whom an event concerned. Who was away
// for longer looks at once.
const recentMax = 4096

// hearer is one who waits. It takes itself out when it has heard.
type hearer struct{ heard chan struct{} }

func (w *hearer) hear() {
	select {
	case w.heard <- struct{}{}:
	default: // it was told already
	}
}

// NewHub makes a hub. Until it runs, who waits is woken by nothing.
func NewHub(l Ledger) *Hub {
	return &Hub{ledger: l, waiting: map[string]map[*hearer]struct{}{}}
}

// Run tells what is appended, until the context ends. Where the ledger cannot be
// read it tries again, from where it was, and until it can it wakes everybody each
// time, so that they look by themselves. failed, which may be nil, is told when
// that begins, and with nil when it is over.
func (h *Hub) Run(ctx context.Context, failed func(error)) {
	pause, begun := hubPause, false
	for ctx.Err() == nil {
		err := h.step(ctx, &begun)
		if ctx.Err() != nil {
			break
		}
		if was := h.stands(err); failed != nil && (was == nil) != (err == nil) {
			failed(err)
		}
		if err == nil {
			pause = hubPause
			continue
		}
		h.wakeAll()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, hubPauseMax)
	}
	h.mu.Lock()
	h.down, h.ended = fmt.Errorf("hear what is appended: %w", context.Canceled), true
	h.mu.Unlock()
	h.wakeAll()
}

// step finds out where the ledger ends, at first, and then tells what comes next.
func (h *Hub) step(ctx context.Context, begun *bool) error {
	if *begun {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if h.Down() != nil { // there may be something already, and nothing to come
			wait, cancel = context.WithTimeout(ctx, hubPause)
		}
		defer cancel()
		if err := h.ledger.Wait(wait, h.At()); err != nil && wait.Err() == nil {
			return err
		}
		return h.read()
	}
	var end events.Position
	if err := h.ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err }); err != nil {
		return err
	}
	*begun = true
	h.mu.Lock()
	h.at, h.begins = end, end
	h.mu.Unlock()
	h.wakeAll()
	return nil
}

// stands notes whether the hub tells what is appended, and gives what it was.
func (h *Hub) stands(err error) (was error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was = h.down
	if h.down = err; err != nil {
		h.down = fmt.Errorf("hear what is appended: %w", err)
	}
	return was
}

// Down is why nobody is told of what is appended; nil while all is well.
func (h *Hub) Down() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// At is the position up to which everybody was told.
func (h *Hub) At() events.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// read reads what came, and wakes whom it concerns.
func (h *Hub) read() error {
	for {
		var found []concern
		err := h.ledger.View(func(r events.Reader) error {
			recorded, err := r.All(h.At()+1, page)
			if err != nil || len(recorded) == 0 {
				return err
			}
			s := projections.On(r.Rows())
			policy := events.Policy{}
			if adopted := s.Policy(); adopted != nil {
				policy = adopted.Policy
			}
			for _, e := range recorded {
				found = append(found, concern{e.Position, concerned(s, e.Event, policy)})
			}
			return s.Err()
		})
		if err != nil || len(found) == 0 {
			return err
		}
		h.tell(found)
	}
}

// roster concerns whoever waits for a verdict that hangs on who sits where.
const roster = "roster"

// concerned lists whom an event concerns: sessions, threads, the roster.
func concerned(s *projections.State, e events.Event, p events.Policy) (of []string) {
	for _, id := range stirs(s, e, p) {
		of = append(of, "session "+string(id))
	}
	for _, id := range events.ThreadsOf(e) {
		of = append(of, "thread "+string(id))
	}
	switch e.(type) {
	case events.SessionJoined, events.SessionLeft, events.SeatTaken, events.SeatLeft, events.SeatAbsent, events.SeatReturned, events.PolicyAdopted:
		of = append(of, roster)
	}
	return of
}

func (h *Hub) tell(found []concern) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range found {
		for _, of := range c.of {
			for w := range h.waiting[of] {
				w.hear()
			}
		}
	}
	h.at = found[len(found)-1].position
	h.recent = append(h.recent, found...)
	if over := len(h.recent) - recentMax; over > 0 {
		h.begins = h.recent[over-1].position
		h.recent = append(h.recent[:0], h.recent[over:]...)
	}
}

func (h *Hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.waiting {
		for w := range all {
			w.hear()
		}
	}
}

// Wait returns nil as soon as an event after this position concerns any of these.
// It may also return without a reason.
func (h *Hub) Wait(ctx context.Context, after events.Position, of ...string) error {
	w, err := h.enter(after, of)
	if w == nil || err != nil {
		return err
	}
	defer h.leave(w, of)
	select {
	case <-w.heard:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter puts a waiter in; none, when there is something for it already.
func (h *Hub) enter(after events.Position, of []string) (*hearer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil, h.down
	}
	if after < h.begins {
		return nil, nil
	}
	for i := len(h.recent) - 1; i >= 0 && h.recent[i].position > after; i-- {
		if slices.ContainsFunc(h.recent[i].of, func(one string) bool { return slices.Contains(of, one) }) {
			return nil, nil
		}
	}
	w := &hearer{heard: make(chan struct{}, 1)}
	for _, key := range of {
		if h.waiting[key] == nil {
			h.waiting[key] = map[*hearer]struct{}{}
		}
		h.waiting[key][w] = struct{}{}
	}
	return w, nil
}

func (h *Hub) leave(w *hearer, of []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range of {
		delete(h.waiting[key], w)
		if len(h.waiting[key]) == 0 {
			delete(h.waiting, key)
		}
	}
}

// stirred waits until something is appended after this position that may concern
// the participant, the thread if there is one, or these: with a hub only that,
// else anything.
func (o *Ops) stirred(ctx context.Context, after events.Position, who events.Participant, thread events.ThreadID, more ...string) error {
	if o.Hub == nil || who.Session() == "" {
		return o.Ledger.Wait(ctx, after)
	}
	of := append(more, "session "+string(who.Session()))
	if thread != "" {
		of = append(of, "thread "+string(thread))
	}
	return o.Hub.Wait(ctx, after, of...)
}
