package ops_test

import (
	"slices"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// witness reads what was recorded, event by event, and holds it against the
// promises of the design, stated here a second time: it knows the fold no more
// than the fold knows it. A model that is the code cannot find the code's faults.
type witness struct {
	*history
	now      events.Recorded
	streams  map[events.Stream]events.Recorded // each one's last event
	ids      map[events.EventID]bool
	messages map[events.MessageID]*utterance
	threads  map[events.ThreadID]*talk
	leases   map[events.LeaseID]*offer
	running  map[events.Participant]*offer // the mailbox's last lease that nobody saw end
	sessions map[events.SessionID]*attendance
	seats    map[string]events.SessionID
	absent   map[string]bool // seats that are passed over
	handoffs map[events.HandoffID]*passing
	labelled map[events.ReviewID]bool
	read     map[string]bool // lease and message
	calls    map[calling]*ringing
	together map[events.CommandID][]events.Recorded // what each command recorded
	fold     *projections.State                     // of what was read so far
	policies int
}

type utterance struct {
	sent     events.MessageSent
	position events.Position
	time     events.Time
	working  bool
	deleted  bool
	judged   bool
	copies   []*copied
}

// copied is one delivery of a message.
type copied struct {
	to, at      events.Participant // at: whose mailbox it lies in, or was taken from last
	hold        *events.Time       // until when it is held for those who come first
	waits       bool
	dropped     bool
	along       bool // its taker had the message by another copy
	lost        events.LostReason
	attempts    int // leases
	unconfirmed int // of them, since it was last confirmed
	offeredBy   events.LeaseID
	asStub      bool // some run may have shown it as a stub
	pending     int  // confirms as a stub
	confirmed   int  // confirms as it is

	told            bool // its sender was told of its loss, or that was given up
	lostAt          events.Position
	noticeAttempts  int
	noticeUnheard   int
	noticeOfferedBy events.LeaseID
}

// calling is a call in a mailbox: the telling of an event that is no message.
type calling struct {
	event   events.EventID
	mailbox events.Participant
}

type ringing struct {
	attempts, unheard int
	told              bool
}

type talk struct {
	asker    events.Author
	kind     events.MessageKind
	area     string
	done     bool
	before   string // who drove before its last message
	seats    map[string]bool
	posted   map[string]bool
	messages []events.MessageID
	marks    []mark
	passings []*passing
	move     *moving
	debts    map[string]debt
	hops     int
}

type offer struct {
	id          events.LeaseID
	mailbox     events.Participant
	leased      events.Time
	until       events.Time
	items       []events.Leased
	instruction bool
	confirmed   bool
	expired     bool
}

func (o *offer) runs(t events.Time) bool {
	return o != nil && !o.confirmed && !o.expired && o.leased <= t && t < o.until
}

type attendance struct {
	here       bool
	left       events.Time
	person     string
	owed       bool // the instruction
	instructed bool // it had it once
	lease      events.LeaseID
}

// keepsPromises reads the whole ledger.
func (h *history) keepsPromises() {
	h.t.Helper()
	w := &witness{
		history: h, streams: map[events.Stream]events.Recorded{}, ids: map[events.EventID]bool{}, messages: map[events.MessageID]*utterance{},
		threads: map[events.ThreadID]*talk{}, leases: map[events.LeaseID]*offer{}, running: map[events.Participant]*offer{},
		sessions: map[events.SessionID]*attendance{}, seats: map[string]events.SessionID{}, absent: map[string]bool{},
		handoffs: map[events.HandoffID]*passing{}, labelled: map[events.ReviewID]bool{}, read: map[string]bool{}, calls: map[calling]*ringing{}, together: map[events.CommandID][]events.Recorded{},
		fold: projections.On(rows.New()),
	}
	recorded := h.recorded(0)
	for _, r := range recorded {
		w.together[r.Cause.Command] = append(w.together[r.Cause.Command], r)
	}
	for i, r := range recorded {
		w.now = r
		w.place(i)
		w.event(r)
		w.fold.Apply(r)
		w.drivenAlike(r)
		if all := w.together[r.Cause.Command]; all[len(all)-1].Position == r.Position {
			w.settled(r.Cause.Command)
		}
	}
	w.agrees()
	w.overviewAgrees(recorded)
}

func (w *witness) holds(promise bool, what string) {
	w.t.Helper()
	if !promise {
		w.fail("broken at position %d, %s of %s: %s\n%s", w.now.Position, w.now.Type(), w.now.Time, what, w.now.Data)
	}
}

// place: positions and revisions have no gaps, digests chain, ids are new.
func (w *witness) place(i int) {
	r := w.now
	before, known := w.streams[r.Stream]
	revision := events.Revision(0)
	if known {
		revision = before.Revision + 1
	}
	w.holds(r.Position == events.Position(i+1), "positions have no gaps")
	w.holds(r.Revision == revision, "revisions have no gaps")
	w.holds(r.Digest == r.Chain(before.Digest), "each digest is that of the event and of the one before it in its stream")
	w.holds(!w.ids[r.ID], "an event's id is its own")
	w.holds(r.Cause.Command != "" && r.Actor != "", "an event says who and why")
	w.holds(r.Policy > 0 || r.Type() == events.TypePolicyAdopted, "an event names the policy that it was decided under")
	w.streams[r.Stream], w.ids[r.ID] = r, true
}

func (w *witness) in(streams ...events.Stream) {
	w.t.Helper()
	w.holds(slices.Contains(streams, w.now.Stream), "an event lies in the stream of what it is about")
}

func (w *witness) message(id events.MessageID) *utterance {
	w.t.Helper()
	m := w.messages[id]
	w.holds(m != nil, "nothing is said of a message that was not sent")
	return m
}

func (w *witness) event(r events.Recorded) {
	t := r.Time
	switch e := r.Event.(type) {
	case events.PolicyAdopted:
		w.policies++
		w.holds(w.policies == 1, "the policy is adopted once")
	case events.SessionJoined:
		w.in(events.SessionStream(e.Session))
		a := w.sessions[e.Session]
		if a == nil {
			a = &attendance{owed: true}
			w.sessions[e.Session] = a
		}
		a.here, a.person = true, e.Person
		if a.instructed && (e.Source == events.SourceCompact || e.Source == events.SourceClear) {
			a.owed, a.lease = true, ""
		}
	case events.SessionLeft:
		w.in(events.SessionStream(e.Session))
		a := w.sessions[e.Session]
		w.holds(a != nil && a.here, "a session ends once for each time it joined")
		a.here, a.left = false, t
	case events.SeatTaken:
		w.in(events.SeatStream(e.Seat))
		was := w.seats[e.Seat]
		w.holds(was != e.Session, "a seat is not taken by who has it")
		if was != "" && w.sessions[was].here {
			w.holds(e.From == was, "a seat passes on from the one who had it")
		}
		for seat, who := range w.seats {
			if who == e.Session {
				w.seats[seat] = ""
			}
		}
		w.seats[e.Seat] = e.Session
	case events.SeatLeft:
		w.in(events.SeatStream(e.Seat))
		w.holds(w.seats[e.Seat] == e.Session, "a seat is left by who has it")
		w.seats[e.Seat] = ""
	case events.CommandRefused:
		prefix, _, _ := strings.Cut(string(r.Stream), "-")
		w.holds(slices.Contains([]string{"session", "seat", "person", "device"}, prefix), "refusals move no thread and no mailbox")
	case events.MessageSent:
		w.sent(e, t)
	case events.MessageEdited:
		w.in(events.ThreadStream(e.Thread))
		m := w.message(e.Message)
		w.holds(!m.deleted && w.wrote(m), "only the author edits, and not what was deleted")
	case events.TurnFlipped:
		w.in(events.ThreadStream(e.Thread))
		m := w.message(e.Message)
		w.holds(m.working && !m.deleted && e.Turn == events.Final && w.wrote(m), "only the author makes a stub final, once")
		m.working = false
		for _, c := range m.copies {
			if c.pending > 0 && !c.waits && c.lost == "" {
				c.waits, c.unconfirmed = true, 0 // once more, as edited
			}
		}
		w.answers(w.threads[e.Thread], m.sent)
	case events.MessageDeleted:
		w.in(events.ThreadStream(e.Thread))
		m := w.message(e.Message)
		w.holds(!m.deleted && w.wrote(m), "only the author deletes, once")
		m.deleted = true
		for _, c := range m.copies {
			c.waits = false
		}
		delete(w.threads[e.Thread].debts, string(e.Message))
	case events.ThreadDone:
		w.in(events.ThreadStream(e.Thread))
		th := w.threads[e.Thread]
		by := w.message(e.Message).sent.Author
		w.holds(by.Kind == events.KindPerson || projections.Same(by, th.asker) || by.Seat != "" && by.Seat == th.before, "a thread is closed by its asker, its driver or a person")
		th.done = true
		for id, d := range th.debts {
			if d.kind == projections.OwedReply {
				delete(th.debts, id)
			}
		}
	case events.MailboxTaken:
		w.in(events.MailboxStream(e.Mailbox))
		w.takes(e)
	case events.MailboxReturned:
		w.in(events.MailboxStream(e.Mailbox))
		for _, it := range e.Items {
			c := w.message(it.Message).copyAt(events.Participant(e.Session))
			w.holds(c != nil && c.waits && c.to == e.Mailbox, "what goes back waits with who took it")
			c.at, c.offeredBy = e.Mailbox, ""
		}
	case events.InstructionLeased:
		w.in(events.MailboxStream(e.Mailbox))
		a := w.sessions[e.Mailbox.Session()]
		w.holds(a != nil && a.here && a.owed, "the instruction is offered to a session that is owed it")
		w.holds((e.Form == events.FormShort) == a.instructed, "it is short for one that had it")
		a.lease = e.Lease
		w.opens(&offer{id: e.Lease, mailbox: e.Mailbox, leased: t, until: e.Until, instruction: true})
	case events.MailboxLeased:
		w.in(events.MailboxStream(e.Mailbox))
		w.leased(e, t)
	case events.InstructionConfirmed:
		w.in(events.MailboxStream(e.Mailbox))
		a := w.sessions[e.Mailbox.Session()]
		w.holds(a.owed && a.lease == e.Lease, "the instruction is confirmed by the last lease of it since it is owed")
		w.confirms(e.Lease, e.Mailbox)
		a.owed, a.instructed = false, true
	case events.MailboxConfirmed:
		w.in(events.MailboxStream(e.Mailbox))
		w.confirmed(e, t)
	case events.LeaseExpired:
		w.in(events.MailboxStream(e.Mailbox))
		w.leaseExpired(e, t)
	case events.MessageExpired:
		w.in(events.MailboxStream(e.Mailbox))
		m := w.message(e.Message)
		c := m.copyAt(e.Mailbox)
		w.holds(c != nil && c.waits && t >= m.sent.Expires, "a message expires that waits past its time")
		w.holds(!w.leases[c.offeredBy].runs(t), "it does not expire while a lease of it runs")
		w.loses(m, c, events.LostExpired)
	case events.MessageUndelivered:
		w.in(events.MailboxStream(e.Mailbox))
		w.undelivered(e, t)
	case events.MessageRead:
		w.in(events.MailboxStream(e.Mailbox))
		w.holds(w.wasConfirmed(e), "what is read was confirmed, by that lease and as that attempt")
	default:
		w.holds(w.drives(r), "an event is of a type that this test knows")
	}
}

// copyAt is the copy that lies in a mailbox, or was taken out of it; nil when
// none did.
func (m *utterance) copyAt(at events.Participant) *copied {
	for _, c := range m.copies {
		if c.at == at {
			return c
		}
	}
	return nil
}

// copyTo is the copy that goes to somebody; nil when none does.
func (m *utterance) copyTo(to events.Participant) *copied {
	for _, c := range m.copies {
		if c.to == to {
			return c
		}
	}
	return nil
}

// wrote says whether the event's actor may act as the message's author: it is
// the same one, or occupies the seat that this occupied.
func (w *witness) wrote(m *utterance) bool {
	seat := m.sent.Author.Seat
	return w.now.Actor == m.sent.Author.ID || seat != "" && w.seats[seat] == w.now.Actor.Session()
}

func (w *witness) sent(e events.MessageSent, t events.Time) {
	w.in(events.ThreadStream(e.Thread))
	w.holds(w.messages[e.Message] == nil, "a message is sent once")
	w.holds(e.To.ID != e.Author.ID && (e.Author.Seat == "" || e.To.ID != events.Named(e.Author.Seat)), "nobody writes to oneself")
	if a := w.sessions[e.Author.ID.Session()]; e.Author.Kind == events.KindSession {
		w.holds(a != nil && a.here, "a sender takes part")
	}
	th := w.threads[e.Thread]
	if e.ReplyTo == "" {
		w.holds(th == nil, "a message that answers none begins a thread")
		th = &talk{asker: e.Author, kind: e.Kind, seats: map[string]bool{}, posted: map[string]bool{}, debts: map[string]debt{}}
		w.holds(e.Area != nil, "a root has its area")
		th.area = e.Area.Seat
		w.threads[e.Thread] = th
	} else {
		w.holds(w.message(e.ReplyTo).sent.Thread == e.Thread, "an answer lies in the thread of what it answers")
		w.holds(!th.done, "nobody answers in a closed thread")
		w.holds(w.message(e.ReplyTo).sent.Intent != events.Done, "nobody answers a done")
	}
	m := &utterance{sent: e, position: w.now.Position, time: t, working: e.Turn == events.Working}
	w.messages[e.Message] = m
	for _, d := range e.Deliveries {
		w.copies(m, d)
	}
	w.holds(m.copyTo(e.To.ID) != nil || e.To.Kind == events.KindBot, "a message is delivered to the one it is addressed to")
	th.before = w.driver(th)
	w.says(th, m)
	w.reaches(th, m)
}

// copies: besides the one that it is addressed to, a message goes to seats, to
// each once and never to its sender; a copy is held of a person's message alone.
func (w *witness) copies(m *utterance, d events.Delivery) {
	e := m.sent
	w.holds(m.copyTo(d.To) == nil, "nobody gets two copies")
	w.holds(d.To == e.To.ID || slices.Contains(offices, d.To.Name()), "a copy goes to a seat")
	w.holds(d.To != e.Author.ID && (e.Author.Seat == "" || d.To != events.Named(e.Author.Seat)), "the sender gets no copy")
	if d.Hold != nil {
		w.holds(e.Author.Kind == events.KindPerson && len(e.Mentions) == 0 && !e.Group && d.To != e.To.ID, "what mentions nobody is held for the seats that come later")
		window := d.Hold.Sub(w.now.Time)
		w.holds(window > 0 && window%(12*time.Second) == 0, "the k-th holds k times the owner window")
	}
	m.copies = append(m.copies, &copied{to: d.To, at: d.To, hold: d.Hold, waits: true})
}

func (w *witness) takes(e events.MailboxTaken) {
	a := w.sessions[e.Session]
	name := e.Mailbox.Name()
	w.holds(a != nil && a.here && (a.person == name || w.seats[name] == e.Session), "a session takes for its person or for the seat that it occupies")
	w.holds(!w.running[e.Mailbox].runs(w.now.Time), "nothing is taken from a mailbox while a lease of it runs")
	for _, it := range e.Items {
		m := w.message(it.Message)
		c, own := m.copyAt(e.Mailbox), m.copyAt(events.Participant(e.Session))
		w.holds(c != nil && c.waits, "what is taken waits there: one session takes it")
		w.holds(m.sent.Author.ID != events.Participant(e.Session), "nobody takes what they wrote")
		if own != nil { // it prints the message by that one
			c.waits, c.along = false, true
			continue
		}
		c.at = events.Participant(e.Session)
	}
}

// opens: no two leases of one mailbox run at once, and each has its own id.
func (w *witness) opens(o *offer) {
	w.holds(!w.running[o.mailbox].runs(o.leased), "no two leases of one mailbox run at once")
	w.holds(w.running[o.mailbox] == nil, "that a lease ended is recorded before the next begins")
	w.holds(w.leases[o.id] == nil, "a lease's id is its own")
	w.holds(o.until == o.leased.Add(10*time.Second), "a lease runs for ten seconds")
	w.leases[o.id], w.running[o.mailbox] = o, o
}

func (w *witness) leased(e events.MailboxLeased, t events.Time) {
	if o := w.leases[e.Lease]; o != nil && o.instruction && o.items == nil && o.mailbox == e.Mailbox && w.running[e.Mailbox] == o {
		o.items = e.Items // one lease, the instruction first
	} else {
		if a := w.sessions[e.Mailbox.Session()]; a != nil {
			w.holds(!a.owed, "no message overtakes the instruction")
		}
		w.opens(&offer{id: e.Lease, mailbox: e.Mailbox, leased: t, until: e.Until, items: e.Items})
	}
	if session := e.Mailbox.Session(); session != "" {
		w.holds(w.sessions[session] != nil && w.sessions[session].here, "a lease is of one who takes part")
	}
	w.holds(len(e.Items) >= 1 && len(e.Items) <= 5, "a lease holds from one to five items")
	last := events.Position(0)
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			w.called(e, it)
			continue
		}
		m := w.message(it.Message)
		if it.Kind == events.ItemNotice {
			c := m.copyTo(it.To)
			w.holds(c != nil && c.lost == it.Reason && it.Reason != "" && !c.told && !m.deleted, "a loss is told that happened, and once")
			w.holds(m.sent.Author.ID == e.Mailbox, "it is told to the sender")
			w.holds(it.Attempt == c.noticeAttempts+1, "no attempt of a notice is counted twice")
			w.holds(c.noticeUnheard < 3, "a notice is given up after three")
			w.holds(c.lostAt > last, "the oldest come first")
			c.noticeAttempts, c.noticeOfferedBy, last = it.Attempt, e.Lease, c.lostAt
			continue
		}
		c := m.copyAt(e.Mailbox)
		w.holds(c != nil && c.waits && !m.deleted && c.lost == "", "only what waits there is leased")
		w.holds(m.sent.Author.ID != e.Mailbox, "nobody is offered what they wrote")
		w.holds(it.Attempt == c.attempts+1, "no attempt is counted twice, and none left out")
		w.holds(c.unconfirmed < 3, "a message is given up after three unconfirmed leases")
		w.holds(t < m.sent.Expires, "what expired is not leased")
		w.holds(it.Pending == m.working, "a stub is offered as pending, and nothing else is")
		w.holds(!m.working || t < m.time || t >= *m.sent.FinalBy, "a stub is not leased while it is waited for")
		w.holds(c.hold == nil || t < m.time || t >= *c.hold, "a copy is not leased while it is held")
		w.holds(it.Edited == (c.asStub && !m.working), "what may have been seen as a stub is marked when it is final")
		w.holds(m.position > last, "the oldest come first")
		w.holds(c.pending == 0 && c.confirmed == 0 || c.pending == 1 && c.confirmed == 0 && !m.working, "what was confirmed is not offered again, but a stub once it is final")
		c.attempts, c.offeredBy, last = it.Attempt, e.Lease, m.position
		c.asStub = c.asStub || it.Pending
	}
}

// called: a call is offered to one session at a time, until it was printed.
func (w *witness) called(e events.MailboxLeased, it events.Leased) {
	at := calling{it.Call, projections.Mailboxed(it, e.Mailbox)}
	c := w.calls[at]
	if c == nil {
		c = &ringing{}
		w.calls[at] = c
	}
	w.holds(w.ids[it.Call], "a call tells of an event")
	w.holds(!c.told && it.Attempt == c.attempts+1 && c.unheard < 3, "a call is told once, or given up after three unconfirmed leases")
	if session := e.Mailbox.Session(); session != "" && at.mailbox != e.Mailbox {
		name := at.mailbox.Name()
		w.holds(w.seats[name] == session || w.sessions[session].person == name, "a call is told to the session of its seat or person")
	}
	c.attempts = it.Attempt
}

func (w *witness) confirms(id events.LeaseID, mailbox events.Participant) *offer {
	o := w.leases[id]
	w.holds(o != nil && o.mailbox == mailbox, "what is confirmed was leased")
	o.confirmed = true
	if w.running[mailbox] == o {
		delete(w.running, mailbox)
	}
	return o
}

// wasConfirmed says whether what was read was confirmed before, and not read yet.
func (w *witness) wasConfirmed(e events.MessageRead) bool {
	o := w.leases[e.Lease]
	return o != nil && o.confirmed && o.mailbox == e.Mailbox && slices.ContainsFunc(o.items, func(it events.Leased) bool {
		return it.Kind == events.ItemMessage && it.Message == e.Message && it.Thread == e.Thread && it.Attempt == e.Attempt
	}) && !w.readAgain(e)
}

// readAgain says whether the event is the second of its lease and message.
func (w *witness) readAgain(e events.MessageRead) bool {
	at := string(e.Lease) + " " + string(e.Message)
	again := w.read[at]
	w.read[at] = true
	return again
}

func (w *witness) confirmed(e events.MailboxConfirmed, t events.Time) {
	o := w.leases[e.Lease]
	late := o == nil || o.expired || t < o.leased || t >= o.until
	o = w.confirms(e.Lease, e.Mailbox)
	w.holds(slices.Equal(o.items, e.Items), "a confirm is of what was leased")
	o.items = append(o.items, events.Leased{}) // a second confirm would not be
	w.holds(e.Late == late, "a confirm says whether it was late")
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			c := w.calls[calling{it.Call, projections.Mailboxed(it, e.Mailbox)}]
			w.holds(c != nil && it.Attempt == c.attempts && !c.told, "a call is told once, by the last lease of it")
			c.told = true
			continue
		}
		m := w.message(it.Message)
		if it.Kind == events.ItemNotice {
			c := m.copyTo(it.To)
			w.holds(it.Attempt == c.noticeAttempts && (!c.told || m.deleted), "a loss is told once, by the last lease of it")
			c.told = true
			continue
		}
		c := m.copyAt(e.Mailbox)
		w.holds(c != nil && it.Attempt == c.attempts, "a confirm of what was leased again is stale")
		w.holds(c.lost == "", "a confirm of what was given up is stale")
		if it.Pending {
			c.pending++
		} else {
			c.confirmed++
		}
		w.holds(c.pending <= 1 && c.confirmed <= 1, "no message is confirmed twice")
		if c.waits {
			c.waits = it.Pending && !m.working // it turned final while the stub was printed
			if c.waits {
				c.unconfirmed = 0
			}
		}
		c.offeredBy = ""
	}
}

func (w *witness) leaseExpired(e events.LeaseExpired, t events.Time) {
	o := w.leases[e.Lease]
	w.holds(o != nil && o.mailbox == e.Mailbox && !o.confirmed && !o.expired, "a lease ends once, and not after its confirm")
	w.holds(!o.runs(t), "a lease is not ended while it runs")
	w.holds(slices.Equal(o.items, e.Items) && o.instruction == e.Instruction, "what ends is what was leased")
	o.expired = true
	delete(w.running, e.Mailbox)
	for _, it := range e.Items {
		if it.Kind == events.ItemCall {
			if c := w.calls[calling{it.Call, projections.Mailboxed(it, e.Mailbox)}]; c.attempts == it.Attempt && !c.told {
				c.unheard++
			}
			continue
		}
		m := w.message(it.Message)
		if it.Kind == events.ItemNotice {
			if c := m.copyTo(it.To); c.noticeOfferedBy == e.Lease && !c.told {
				c.noticeUnheard++
			}
			continue
		}
		if c := m.copyAt(e.Mailbox); c != nil && c.offeredBy == e.Lease && c.waits {
			c.unconfirmed++
			c.offeredBy = ""
		}
	}
}

func (w *witness) loses(m *utterance, c *copied, reason events.LostReason) {
	w.holds(c.lost == "" && !m.deleted, "a message is lost once")
	c.lost, c.waits, c.lostAt = reason, false, w.now.Position
}

func (w *witness) undelivered(e events.MessageUndelivered, t events.Time) {
	if e.Kind == events.ItemCall {
		c := w.calls[calling{e.Call, e.Mailbox}]
		w.holds(c != nil && !c.told && c.unheard == 3 && e.Reason == events.LostUnconfirmed, "a call is given up after three unconfirmed leases")
		c.told = true
		return
	}
	m := w.message(e.Message)
	if e.Kind == events.ItemNotice {
		c := m.copyTo(e.To)
		if e.To == "" {
			c = m.copyTo(m.sent.To.ID)
		}
		w.holds(c != nil && c.lost != "" && m.sent.Author.ID == e.Mailbox && !c.told, "a notice is given up that waits")
		w.holds(c.noticeUnheard == 3 && e.Reason == events.LostUnconfirmed, "a notice is given up after three unconfirmed leases")
		c.told = true
		return
	}
	c := m.copyAt(e.Mailbox)
	w.holds(c != nil && c.waits, "a message is given up that waits")
	switch e.Reason {
	case events.LostUnconfirmed:
		w.holds(c.unconfirmed == 3, "it is given up after three unconfirmed leases")
	case events.LostSessionEnded:
		a := w.sessions[e.Mailbox.Session()]
		w.holds(c.to.Session() != "" && a != nil && !a.here, "only what is for an ended session is lost by its end")
		w.holds(t.Sub(max(a.left, m.time)) >= 10*time.Minute, "it waits ten minutes for a resume, from its sending or the end")
	default:
		w.holds(false, "it says why")
	}
	w.loses(m, c, e.Reason)
}

// agrees holds the fold against what the witness saw.
func (w *witness) agrees() {
	w.t.Helper()
	waiting := map[events.Participant]int{}
	w.see(func(s *projections.State) {
		for id, m := range w.messages {
			row := s.Message(id)
			if row == nil {
				w.fail("the fold does not know message %s", id)
			}
			if m.deleted != (row.Deleted != nil) || m.working != (row.Turn == events.Working) || len(m.copies) != len(row.Deliveries) {
				w.fail("of message %s the witness says %+v, the fold %+v", id, *m, *row)
			}
			for i, c := range m.copies {
				w.copyAgrees(id, c, row, &row.Deliveries[i])
				if c.waits {
					waiting[c.at]++
				}
			}
		}
		for _, who := range slices.Concat(crew, people, desks) {
			p := events.Participant(who)
			queued := 0
			s.Queue(p, func(q projections.Queued) bool {
				if q.Kind == events.ItemMessage {
					queued++
				}
				return true
			})
			if n := s.Mailbox(p).Waiting; n != waiting[p] || n != queued {
				w.fail("for %s the count is %d, its queue has %d, and the witness saw %d", who, n, queued, waiting[p])
			}
		}
		for id, a := range w.sessions {
			row := s.Session(id)
			if (row.Left == nil) != a.here || (s.Mailbox(events.Participant(id)).Instruction.Owed != "") != a.owed {
				w.fail("of session %s the witness says %+v, the fold %+v and %+v", id, *a, *row, s.Mailbox(events.Participant(id)))
			}
		}
	})
}

func (w *witness) copyAgrees(id events.MessageID, c *copied, row *projections.Message, d *projections.Delivery) {
	w.t.Helper()
	lost := events.LostReason("")
	if d.State == events.StateExpired || d.State == events.StateUndelivered {
		lost = d.Reason
	}
	if c.waits != d.Waits() || c.to != d.To || c.at != d.At || c.attempts != d.Attempt || c.lost != lost || c.dropped != (d.State == events.StateDropped) {
		w.fail("of message %s the witness says %+v, the fold %+v", id, *c, *d)
	}
	if !c.waits {
		return
	}
	if a := w.sessions[c.at.Session()]; c.to.Name() != "" && a != nil && !a.here {
		w.fail("a copy of message %s is for %s, and waits with %s, who has ended", id, c.to, c.at)
	}
	if c.unconfirmed != d.Unconfirmed {
		w.fail("of message %s the witness counts %d unconfirmed leases, the fold %d", id, c.unconfirmed, d.Unconfirmed)
	}
}
