//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// smallEvents is how many events the ledger has beside which the large one is
// measured.
const smallEvents = 1000

// made is a ledger that was made for the bench, always the same for as many
// events. It is a plausible history: sessions join; some hundred threads are
// open at a time, in each of which two sessions talk for about twenty events;
// who has mail takes it in leases of up to five; most requests are answered.
type made struct {
	path     string
	ledger   *sqlite.Ledger
	ops      *ops.Ops
	end      events.Position
	messages int
	threads  int

	// What the queries ask about is alike in every ledger: a thread of exactly
	// hundred events, and a session that owes hundred answers and has three
	// messages waiting.
	hundred events.ThreadID
	probe   events.SessionID
}

const (
	batch       = 20_000 // events in one transaction
	threadSize  = 20     // events of a thread, about
	openThreads = 400    // at a time, at most
	hundred     = 100
	owedByProbe = 100
)

// ledger makes the ledger of so many events, or gives the one that was made.
func (b *bench) ledger(count int) (*made, error) {
	if m := b.ledgers[count]; m != nil {
		return m, nil
	}
	m := &made{path: filepath.Join(b.folder, fmt.Sprintf("events-%d", count), "ledger.db")}
	began := time.Now()
	// The views come afterwards, in one go.
	none := func(events.Rows, []events.Recorded) error { return nil }
	ledger, err := sqlite.Open(m.path, none)
	if err != nil {
		return nil, err
	}
	g := newWriter(count)
	for g.done < count {
		if err := ledger.Update(g.write); err != nil {
			return nil, err
		}
		if n := g.done / batch; n%5 == 0 {
			b.progress("make ledger", events.Position(n*batch), events.Position(count))
		}
	}
	if err := ledger.Close(); err != nil {
		return nil, err
	}
	if g.done != count {
		return nil, fmt.Errorf("the ledger has %d events, not %d", g.done, count)
	}
	m.end, m.messages, m.threads, m.hundred, m.probe = events.Position(g.done), g.messages, g.threads, g.hundred, g.sessions[0].id
	if m.ledger, err = sqlite.Open(m.path, projections.Project); err != nil {
		return nil, err
	}
	now := g.now.Add(time.Second)
	m.ops = operations(m.ledger, func() events.Time { return now })
	m.ops.World.Progress = b.progress
	if _, err := m.ops.Rebuild(); err != nil {
		return nil, err
	}
	info, err := os.Stat(m.path)
	if err != nil {
		return nil, err
	}
	b.say("  a ledger of %d events (%d bytes of JSON on average): %d messages in %d threads, %d MB, made in %.0f s",
		g.done, g.bytes/g.done, g.messages, g.threads, info.Size()>>20, time.Since(began).Seconds())
	b.ledgers[count] = m
	return m, nil
}

// writer writes the history, a batch at a time.
type writer struct {
	count    int
	numbers  *rand.Rand
	now      events.Time
	tx       events.Tx
	heads    map[events.Stream]events.Revision // of each stream that has events
	sessions []*mailbox
	open     []*talk
	hundred  events.ThreadID
	policy   events.Policy
	err      error

	done, messages, threads, bytes int
}

// mailbox is a session with what waits for it.
type mailbox struct {
	id      events.SessionID
	waiting []events.Leased
}

// talk is an open thread.
type talk struct {
	id     events.ThreadID
	sides  [2]*mailbox
	root   events.MessageID
	last   events.MessageID // what the next answers
	turn   int              // whose turn it is: an index of sides
	events int
	size   int
	open   bool // its requests stay open
	over   bool
}

func newWriter(count int) *writer {
	return &writer{
		count: count, numbers: rand.New(rand.NewPCG(20261130, uint64(count))), heads: map[events.Stream]events.Revision{},
		now: events.At(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)), policy: policy(),
	}
}

// write is one transaction of it.
func (w *writer) write(tx events.Tx) error {
	w.tx = tx
	if w.done == 0 {
		w.begin()
	}
	closing := 3*owedByProbe + 2*w.openMax() // events, at most
	for until := min(w.done+batch, w.count-closing); w.done < until && w.err == nil; {
		w.step()
	}
	if w.err == nil && w.done >= w.count-closing {
		w.finish()
	}
	return w.err
}

// begin adopts the policy, lets the sessions join, and writes the thread of
// hundred events.
func (w *writer) begin() {
	w.add(events.PolicyStream, w.command(), 0, "device:bench", events.PolicyAdopted{Policy: w.policy}, nil)
	for range min(300, max(10, w.count/1000)) {
		m := &mailbox{id: events.SessionID(w.command())}
		w.sessions = append(w.sessions, m)
		who, c := events.Participant(m.id), w.command()
		w.add(events.SessionStream(m.id), c, 0, who, events.SessionJoined{
			Session: m.id, Harness: "claude-code", Source: events.SourceStartup, Cwd: "/home/ana/shop", Repo: "/home/ana/shop", Branch: "main",
			Title: "fix the lease test", Person: "ana", Device: "bench", Transcript: "/home/ana/.claude/projects/shop/" + string(m.id) + ".jsonl",
		}, nil)
		c = w.command()
		w.add(events.MailboxStream(who), c, 0, who, events.InstructionLeased{
			Lease: c.Lease(), Mailbox: who, Version: 1, Form: events.FormFull, Attempt: 1, Until: w.now.Add(w.policy.Limits.Lease.Std()),
		}, nil)
		lease := c.Lease()
		w.add(events.MailboxStream(who), w.command(), 0, who, events.InstructionConfirmed{Lease: lease, Mailbox: who, Version: 1, Form: events.FormFull}, nil)
	}
	t := &talk{sides: [2]*mailbox{w.sessions[1], w.sessions[2]}, size: hundred - 5}
	for w.err == nil && !t.over {
		w.talk(t)
	}
	for w.err == nil && t.events < hundred {
		w.edit(t, t.sides[0])
	}
	w.hundred = t.id
}

func (w *writer) openMax() int { return min(openThreads, w.count/250) }

// step goes on with one of the open threads, or begins one.
func (w *writer) step() {
	for len(w.open) < w.openMax() {
		from := w.numbers.IntN(len(w.sessions))
		to := (from + 1 + w.numbers.IntN(len(w.sessions)-1)) % len(w.sessions)
		w.open = append(w.open, &talk{
			sides: [2]*mailbox{w.sessions[from], w.sessions[to]}, size: threadSize - 5 + w.numbers.IntN(11),
			open: w.threads%100 == 0 && from != 0 && to != 0,
		})
	}
	i := w.numbers.IntN(len(w.open))
	t := w.open[i]
	if w.talk(t); t.over {
		w.open = slices.Delete(w.open, i, i+1)
	}
}

// talk is what happens next in a thread: the one whose turn it is takes its
// mail, and speaks. The asker's last word is `done`.
func (w *writer) talk(t *talk) {
	me, other := t.sides[t.turn], t.sides[1-t.turn]
	if slices.ContainsFunc(me.waiting, func(l events.Leased) bool { return l.Thread == t.id }) {
		t.events += w.take(me, t.id)
		return
	}
	intent := events.Inform
	switch {
	case t.root == "" || t.open && w.numbers.IntN(3) == 0:
		intent = events.Request
	case t.turn == 0 && t.events >= t.size-4 && !t.open:
		intent = events.Done
	}
	w.speak(t, me, other, intent)
	t.turn = 1 - t.turn
	if intent == events.Done {
		t.events += w.take(other, t.id)
		t.over = true
	}
	t.over = t.over || t.open && t.events >= t.size
}

// speak sends a message of 300 bytes.
func (w *writer) speak(t *talk, from, to *mailbox, intent events.Intent) {
	c := w.command()
	me, other := events.Participant(from.id), events.Participant(to.id)
	body := events.Body{Text: []byte(text)}
	w.fill(body.Salt[:])
	age := int64(w.numbers.IntN(100_000))
	e := events.MessageSent{
		Message: c.Message(), Thread: t.id, Kind: events.KindMessage, Addressed: string(other), ReplyTo: t.last, Intent: intent, Turn: events.Final,
		Author: events.Author{ID: me, Kind: events.KindSession, Harness: "claude-code", Person: "ana", Repo: "/home/ana/shop", Branch: "main", Device: "bench"},
		To:     events.Recipient{ID: other, Kind: events.KindSession}, Body: body.Commit(),
		Expires:    w.now.Add(w.policy.Limits.ExpiresAfter.Std()),
		Deliveries: []events.Delivery{{To: other, State: events.StateQueued}}, Arrives: events.ArrivesNextToolCall,
		Evidence: events.Evidence{Live: true, Busy: true, Says: "joined, no process recorded; in a turn when last seen", AgeMS: &age},
	}
	if t.root == "" {
		t.id, t.root = c.Thread(), c.Message()
		e.Thread = t.id
		w.threads++
	}
	if w.numbers.IntN(3) == 0 {
		e.Refs = []string{"file:lease/lease.go:42"}
	}
	if intent == events.Request {
		due := w.now.Add(w.policy.Limits.OwedAfter.Std())
		e.Due = &due
	}
	body.Fingerprint = commands.Fingerprint(e, body.Text)
	w.add(events.ThreadStream(t.id), c, 0, me, e, &body)
	t.last = e.Message
	t.events++
	w.messages++
	to.waiting = append(to.waiting, events.Leased{Kind: events.ItemMessage, Message: e.Message, Thread: t.id, Attempt: 1})
	if intent == events.Done {
		w.add(events.ThreadStream(t.id), c, 1, me, events.ThreadDone{Thread: t.id, Message: e.Message, By: me}, nil)
		t.events++
	}
}

// edit gives the last message of a thread another body.
func (w *writer) edit(t *talk, by *mailbox) {
	c := w.command()
	body := events.Body{Text: []byte(text)}
	w.fill(body.Salt[:])
	w.add(events.ThreadStream(t.id), c, 0, events.Participant(by.id), events.MessageEdited{Message: t.last, Thread: t.id, Body: body.Commit()}, &body)
	t.events++
}

// take delivers what waits for somebody, in leases of up to five, until nothing
// of a thread waits any more, and counts the events that name the thread.
func (w *writer) take(m *mailbox, thread events.ThreadID) (named int) {
	who := events.Participant(m.id)
	in := func(l events.Leased) bool { return l.Thread == thread }
	for slices.ContainsFunc(m.waiting, in) {
		c := w.command()
		items := slices.Clone(m.waiting[:min(5, len(m.waiting))])
		m.waiting = m.waiting[len(items):]
		w.add(events.MailboxStream(who), c, 0, who, events.MailboxLeased{
			Lease: c.Lease(), Mailbox: who, Harness: "claude-code", Hook: "PostToolUse", Until: w.now.Add(w.policy.Limits.Lease.Std()), Items: items,
		}, nil)
		w.add(events.MailboxStream(who), events.FollowUp(string(c.Lease()), "confirm"), 0, who, events.MailboxConfirmed{
			Lease: c.Lease(), Mailbox: who, Items: items,
		}, nil)
		if slices.ContainsFunc(items, in) {
			named += 2
		}
	}
	return named
}

// finish delivers what still waits, and makes the probe owe its answers, and
// those only.
func (w *writer) finish() {
	probe := w.sessions[0]
	for _, t := range w.open {
		if t.root != "" && t.sides[t.turn] == probe {
			w.talk(t) // takes
			w.talk(t) // answers
		}
	}
	for _, m := range w.sessions {
		for len(m.waiting) > 0 && w.err == nil {
			w.take(m, m.waiting[0].Thread)
		}
	}
	for i := 0; i < owedByProbe && w.err == nil; i++ {
		t := &talk{}
		w.speak(t, w.sessions[1+i%9], probe, events.Request)
		if left := owedByProbe - i; left == 4 || left > 4 && i%5 == 4 {
			w.take(probe, t.id)
		}
	}
	// What is left of the count is what an auditor sees most of: refusals.
	for w.done < w.count && w.err == nil {
		who := w.sessions[1+w.numbers.IntN(len(w.sessions)-1)]
		c := w.command()
		stream := events.SessionStream(who.id)
		w.add(stream, c, 0, events.Participant(who.id), events.CommandRefused{
			Command: "send", Code: "not_participant", Status: 403, Says: "session " + string(who.id) + " takes no part in this thread",
			By: events.Participant(who.id),
		}, nil)
	}
}

func (w *writer) command() events.CommandID {
	var random [10]byte
	w.fill(random[:])
	return events.CommandAt(w.now, random)
}

func (w *writer) fill(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, binary.LittleEndian.AppendUint64(nil, w.numbers.Uint64())):]
	}
}

// add appends one event, a fifth of a second after the last.
func (w *writer) add(stream events.Stream, c events.CommandID, n int, actor events.Participant, e events.Event, body *events.Body) {
	if w.err != nil {
		return
	}
	head, known := w.heads[stream]
	if !known {
		head = events.NoStream
	}
	w.now += events.Time(200 * time.Millisecond / time.Microsecond)
	recorded, err := w.tx.Append(events.Batch{
		Stream: stream, Expected: head, Time: w.now, Policy: min(1, events.Position(w.done)),
		Events: []events.Proposed{{Stream: stream, ID: c.Event(n), Actor: actor, Cause: events.Cause{Command: c}, Event: e, Body: body}},
	})
	if w.err = err; err != nil {
		return
	}
	w.heads[stream] = head + 1
	w.done++
	w.bytes += len(recorded[0].Data)
}
