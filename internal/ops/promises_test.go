package ops_test

import (
	"slices"
	"strings"
	"time"

	"decklog/events"
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
	policies int
}

type utterance struct {
	sent        events.MessageSent
	at          events.Participant // whose mailbox it lies in, or was taken from last
	position    events.Position
	time        events.Time
	waits       bool
	working     bool
	deleted     bool
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

type talk struct {
	asker events.Author
	done  bool
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
		sessions: map[events.SessionID]*attendance{}, seats: map[string]events.SessionID{},
	}
	recorded := h.recorded(0)
	for i, r := range recorded {
		w.now = r
		w.place(i)
		w.event(r)
	}
	w.agrees()
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
		if m.pending > 0 && !m.waits && m.lost == "" {
			m.waits, m.unconfirmed = true, 0 // once more, as edited
		}
	case events.MessageDeleted:
		w.in(events.ThreadStream(e.Thread))
		m := w.message(e.Message)
		w.holds(!m.deleted && w.wrote(m), "only the author deletes, once")
		m.deleted, m.waits = true, false
	case events.ThreadDone:
		w.in(events.ThreadStream(e.Thread))
		th := w.threads[e.Thread]
		by := w.message(e.Message).sent.Author
		w.holds(by.Kind == events.KindPerson || projections.Same(by, th.asker), "a thread is closed by its asker or a person")
		th.done = true
	case events.MailboxTaken:
		w.in(events.MailboxStream(e.Mailbox))
		w.takes(e)
	case events.MailboxReturned:
		w.in(events.MailboxStream(e.Mailbox))
		for _, it := range e.Items {
			m := w.message(it.Message)
			w.holds(m.waits && m.at == events.Participant(e.Session) && m.sent.To.ID == e.Mailbox, "what goes back waits with who took it")
			m.at, m.offeredBy = e.Mailbox, ""
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
		w.holds(m.waits && m.at == e.Mailbox && t >= m.sent.Expires, "a message expires that waits past its time")
		w.holds(!w.leases[m.offeredBy].runs(t), "it does not expire while a lease of it runs")
		w.loses(m, events.LostExpired)
	case events.MessageUndelivered:
		w.in(events.MailboxStream(e.Mailbox))
		w.undelivered(e, t)
	default:
		w.holds(false, "an event is of a type that this test knows")
	}
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
	w.holds(len(e.Deliveries) == 1 && e.Deliveries[0].To == e.To.ID, "a message is delivered to the one it is addressed to")
	w.holds(e.To.ID != e.Author.ID && (e.Author.Seat == "" || e.To.ID != events.Named(e.Author.Seat)), "nobody writes to oneself")
	if a := w.sessions[e.Author.ID.Session()]; e.Author.Kind == events.KindSession {
		w.holds(a != nil && a.here, "a sender takes part")
	}
	th := w.threads[e.Thread]
	if e.ReplyTo == "" {
		w.holds(th == nil, "a message that answers none begins a thread")
		w.threads[e.Thread] = &talk{asker: e.Author}
	} else {
		w.holds(w.message(e.ReplyTo).sent.Thread == e.Thread, "an answer lies in the thread of what it answers")
		w.holds(!th.done, "nobody answers in a closed thread")
		w.holds(w.message(e.ReplyTo).sent.Intent != events.Done, "nobody answers a done")
	}
	m := &utterance{sent: e, at: e.To.ID, position: w.now.Position, time: t, waits: true, working: e.Turn == events.Working}
	w.messages[e.Message] = m
}

func (w *witness) takes(e events.MailboxTaken) {
	a := w.sessions[e.Session]
	name := e.Mailbox.Name()
	w.holds(a != nil && a.here && (a.person == name || w.seats[name] == e.Session), "a session takes for its person or for the seat that it occupies")
	w.holds(!w.running[e.Mailbox].runs(w.now.Time), "nothing is taken from a mailbox while a lease of it runs")
	for _, it := range e.Items {
		m := w.message(it.Message)
		w.holds(m.waits && m.at == e.Mailbox, "what is taken waits there: one session takes it")
		w.holds(m.sent.Author.ID != events.Participant(e.Session), "nobody takes what they wrote")
		m.at = events.Participant(e.Session)
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
		m := w.message(it.Message)
		if it.Kind == events.ItemNotice {
			w.holds(m.lost == it.Reason && it.Reason != "" && !m.told && !m.deleted, "a loss is told that happened, and once")
			w.holds(m.sent.Author.ID == e.Mailbox && it.To == m.sent.To.ID, "it is told to the sender")
			w.holds(it.Attempt == m.noticeAttempts+1, "no attempt of a notice is counted twice")
			w.holds(m.noticeUnheard < 3, "a notice is given up after three")
			w.holds(m.lostAt > last, "the oldest come first")
			m.noticeAttempts, m.noticeOfferedBy, last = it.Attempt, e.Lease, m.lostAt
			continue
		}
		w.holds(m.waits && m.at == e.Mailbox && !m.deleted && m.lost == "", "only what waits there is leased")
		w.holds(m.sent.Author.ID != e.Mailbox, "nobody is offered what they wrote")
		w.holds(it.Attempt == m.attempts+1, "no attempt is counted twice, and none left out")
		w.holds(m.unconfirmed < 3, "a message is given up after three unconfirmed leases")
		w.holds(t < m.sent.Expires, "what expired is not leased")
		w.holds(it.Pending == m.working, "a stub is offered as pending, and nothing else is")
		w.holds(!m.working || t < m.time || t >= *m.sent.FinalBy, "a stub is not leased while it is waited for")
		w.holds(it.Edited == (m.asStub && !m.working), "what may have been seen as a stub is marked when it is final")
		w.holds(m.position > last, "the oldest come first")
		w.holds(m.pending == 0 && m.confirmed == 0 || m.pending == 1 && m.confirmed == 0 && !m.working, "what was confirmed is not offered again, but a stub once it is final")
		m.attempts, m.offeredBy, last = it.Attempt, e.Lease, m.position
		m.asStub = m.asStub || it.Pending
	}
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

func (w *witness) confirmed(e events.MailboxConfirmed, t events.Time) {
	o := w.leases[e.Lease]
	late := o == nil || o.expired || t < o.leased || t >= o.until
	o = w.confirms(e.Lease, e.Mailbox)
	w.holds(slices.Equal(o.items, e.Items), "a confirm is of what was leased")
	o.items = append(o.items, events.Leased{}) // a second confirm would not be
	w.holds(e.Late == late, "a confirm says whether it was late")
	for _, it := range e.Items {
		m := w.message(it.Message)
		if it.Kind == events.ItemNotice {
			w.holds(it.Attempt == m.noticeAttempts && (!m.told || m.deleted), "a loss is told once, by the last lease of it")
			m.told = true
			continue
		}
		w.holds(it.Attempt == m.attempts && m.at == e.Mailbox, "a confirm of what was leased again is stale")
		w.holds(m.lost == "", "a confirm of what was given up is stale")
		if it.Pending {
			m.pending++
		} else {
			m.confirmed++
		}
		w.holds(m.pending <= 1 && m.confirmed <= 1, "no message is confirmed twice")
		if m.waits {
			m.waits = it.Pending && !m.working // it turned final while the stub was printed
			if m.waits {
				m.unconfirmed = 0
			}
		}
		m.offeredBy = ""
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
		m := w.message(it.Message)
		switch {
		case it.Kind == events.ItemNotice:
			if m.noticeOfferedBy == e.Lease && !m.told {
				m.noticeUnheard++
			}
		case m.offeredBy == e.Lease && m.waits:
			m.unconfirmed++
			m.offeredBy = ""
		}
	}
}

func (w *witness) loses(m *utterance, reason events.LostReason) {
	w.holds(m.lost == "" && !m.deleted, "a message is lost once")
	m.lost, m.waits, m.lostAt = reason, false, w.now.Position
}

func (w *witness) undelivered(e events.MessageUndelivered, t events.Time) {
	m := w.message(e.Message)
	if e.Kind == events.ItemNotice {
		w.holds(m.lost != "" && m.sent.Author.ID == e.Mailbox && !m.told, "a notice is given up that waits")
		w.holds(m.noticeUnheard == 3 && e.Reason == events.LostUnconfirmed, "a notice is given up after three unconfirmed leases")
		m.told = true
		return
	}
	w.holds(m.waits && m.at == e.Mailbox, "a message is given up that waits")
	switch e.Reason {
	case events.LostUnconfirmed:
		w.holds(m.unconfirmed == 3, "it is given up after three unconfirmed leases")
	case events.LostSessionEnded:
		a := w.sessions[e.Mailbox.Session()]
		w.holds(m.sent.To.Kind == events.KindSession && a != nil && !a.here, "only what is for an ended session is lost by its end")
		w.holds(t.Sub(max(a.left, m.time)) >= 10*time.Minute, "it waits ten minutes for a resume, from its sending or the end")
	default:
		w.holds(false, "it says why")
	}
	w.loses(m, e.Reason)
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
			d := row.Main()
			lost := events.LostReason("")
			if d.State == events.StateExpired || d.State == events.StateUndelivered {
				lost = d.Reason
			}
			if m.waits != d.Waits() || m.at != d.At || m.attempts != d.Attempt || m.lost != lost || m.deleted != (row.Deleted != nil) || m.working != (row.Turn == events.Working) {
				w.fail("of message %s the witness says %+v, the fold %+v", id, *m, *d)
			}
			if m.waits {
				waiting[m.at]++
				if a := w.sessions[m.at.Session()]; m.sent.To.ID.Name() != "" && a != nil && !a.here {
					w.fail("message %s is for %s, and waits with %s, who has ended", id, m.sent.To.ID, m.at)
				}
				if m.unconfirmed != d.Unconfirmed {
					w.fail("of message %s the witness counts %d unconfirmed leases, the fold %d", id, m.unconfirmed, d.Unconfirmed)
				}
			}
		}
		for _, who := range append(slices.Concat(crew, people), "@smith", "@trinity") {
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
