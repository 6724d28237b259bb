package ops_test

import (
	"slices"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// What driving promises, stated a second time. The witness keeps of each thread
// what the rules speak of, names the driver by them in its own words, and holds
// the fold against that after every event.

// mark is a sticker that lies on a root.
type mark struct {
	seat, bySeat string
	by           events.Participant
	hand         events.Hand
}

// passing is a hand-off.
type passing struct {
	closed   bool // by somebody, and not because it came back to its creditor
	from, to string
	state    projections.HandoffState
	accepted events.Position
}

// moving is a routing move that was not replaced, undone or cancelled.
type moving struct {
	message events.MessageID
	to      string
	at      events.Position
	inForce bool
	before  []mark
	command events.CommandID
	closed  map[string]debt // that it closed
}

// debt is an open item.
type debt struct {
	kind                 projections.OwedKind
	debtor, creditor     events.Participant
	debtorSeat, credSeat string
	nudges               int
	nobodys              bool // a review that no seat is left for: who asked has to find somebody
}

func (d debt) owedBy(seat string) bool { return d.debtorSeat == seat || d.debtor == events.Named(seat) }
func (d debt) owedTo(seat string) bool { return d.credSeat == seat || d.creditor == events.Named(seat) }

// present are the seats that are not passed over, in their order.
func (w *witness) present() (here []string) {
	for _, seat := range offices {
		if !w.absent[seat] {
			here = append(here, seat)
		}
	}
	if here == nil {
		return offices
	}
	return here
}

// driver is who drives a thread, by R7.
func (w *witness) driver(th *talk) string {
	root := th.asker.Kind
	if len(th.seats) == 0 && th.kind != events.KindAlert && root != events.KindPerson && root != events.KindBot {
		return ""
	}
	for _, st := range slices.Backward(th.marks) { // the last that was placed wins
		if st.hand == events.HandPerson {
			return st.seat
		}
	}
	here := w.present()
	stands := th.move != nil && th.move.inForce
	if !stands {
		to, last := "", events.Position(0)
		for _, h := range th.passings {
			if h.accepted > last && slices.Contains(here, h.to) {
				to, last = h.to, h.accepted
			}
		}
		if to != "" {
			return to
		}
	}
	if !stands || !slices.Contains(here, th.move.to) {
		var posted []string
		for _, seat := range here {
			if th.posted[seat] {
				posted = append(posted, seat)
			}
		}
		if len(posted) == 1 {
			return posted[0]
		}
	}
	lie := th.marks
	if th.move != nil && !stands {
		lie = th.move.before
	}
	for _, seat := range here {
		if slices.ContainsFunc(lie, func(st mark) bool { return st.hand == events.HandSeat && st.seat == seat }) {
			return seat
		}
	}
	from := max(0, slices.Index(offices, th.area))
	for i := range offices {
		if seat := offices[(from+i)%len(offices)]; slices.Contains(here, seat) {
			return seat
		}
	}
	return ""
}

// occupies says whether the event's actor is the session on a seat.
func (w *witness) occupies(seat string) bool {
	return seat != "" && w.seats[seat] == w.now.Actor.Session()
}

func (w *witness) isPerson(p events.Participant) bool { return slices.Contains(people, string(p)) }

// personsMark says whether a person's sticker lies.
func (th *talk) personsMark() bool {
	return slices.ContainsFunc(th.marks, func(st mark) bool { return st.hand == events.HandPerson })
}

// did says whether the command of the event at hand recorded one of such a kind.
func did[E events.Event](w *witness, is func(E) bool) bool {
	for _, r := range w.together[w.now.Cause.Command] {
		if e, of := r.Event.(E); of && is(e) {
			return true
		}
	}
	return false
}

func (w *witness) thread(id events.ThreadID) *talk {
	w.in(events.ThreadStream(id))
	th := w.threads[id]
	w.holds(th != nil, "nothing is said of a thread that nobody began")
	return th
}

// drives folds an event of driving; false: it is of another kind.
func (w *witness) drives(r events.Recorded) bool {
	switch e := r.Event.(type) {
	case events.AckPlaced:
		th, m := w.thread(e.Thread), w.message(e.Message)
		w.holds(m.sent.Thread == e.Thread && !m.deleted && e.By == r.Actor, "an ack lies on a message of the thread")
		w.holds(e.Seat == "" || w.occupies(e.Seat), "an ack is of the seat that its session occupies")
		if e.Seat != "" {
			w.taken(th, m, e.Seat)
		}
	case events.StickerPlaced:
		w.placed(w.thread(e.Thread), e)
	case events.StickerRemoved:
		w.removed(w.thread(e.Thread), e)
	case events.HandoffOffered:
		th := w.thread(e.Thread)
		w.holds(w.driver(th) == e.From && w.occupies(e.From), "only the driver offers its thread")
		w.holds(e.To != e.From && slices.Contains(offices, e.To), "it is offered to another seat")
		for _, h := range th.passings {
			w.holds(h.state != projections.HandoffIsOffered, "one offer of a thread is open at a time")
		}
		th.seats[e.From], th.seats[e.To] = true, true
		th.passings = append(th.passings, &passing{from: e.From, to: e.To, state: projections.HandoffIsOffered})
		w.handoffs[e.Handoff] = th.passings[len(th.passings)-1]
		th.debts[string(e.Handoff)] = debt{
			kind: projections.OwedHandoff, debtor: events.Named(e.To), debtorSeat: e.To, creditor: events.Named(e.From),
		}
	case events.HandoffAccepted:
		th, h := w.thread(e.Thread), w.handoffs[e.Handoff]
		w.holds(h != nil && h.state == projections.HandoffIsOffered && w.occupies(h.to), "the seat that was asked accepts an open offer, once")
		h.state, h.accepted, th.move = projections.HandoffIsAccepted, r.Position, nil
		d := th.debts[string(e.Handoff)]
		d.nudges = 0
		th.debts[string(e.Handoff)] = d
	case events.HandoffDeclined:
		th, h := w.thread(e.Thread), w.handoffs[e.Handoff]
		w.holds(h != nil && h.state == projections.HandoffIsOffered && w.occupies(h.to), "the seat that was asked declines an open offer, once")
		h.state = projections.HandoffIsDeclined
		w.closes(th, string(e.Handoff))
	case events.HandoffClosed:
		th, h := w.thread(e.Thread), w.handoffs[e.Handoff]
		open := h != nil && (h.state == projections.HandoffIsOffered || h.state == projections.HandoffIsAccepted)
		w.holds(open, "a hand-off ends once")
		switch e.Reason {
		case events.HandoffLapsed:
			w.holds(h.state == projections.HandoffIsOffered, "only an offer lapses")
		case events.HandoffDone:
			d, owed := th.debts[string(e.Handoff)]
			w.holds(w.isPerson(r.Actor) || w.occupies(h.from) || w.occupies(h.to) || owed && w.occupies(d.debtorSeat), "a party or a person closes a hand-off")
		}
		h.state, h.closed = projections.HandoffIsClosed, e.Reason != events.HandoffCreditor
		w.closes(th, string(e.Handoff))
	case events.RoutingJudged:
		w.judged(w.thread(e.Thread), e)
	case events.RoutingUndone:
		th := w.thread(e.Thread)
		w.holds(th.move != nil && th.move.message == e.Message && !th.move.inForce, "only a move that is not in force is undone")
		for id, d := range th.move.closed {
			m := w.messages[events.MessageID(id)]
			h := w.handoffs[events.HandoffID(id)]
			if w.labelled[events.ReviewID(id)] || m != nil && (m.deleted || th.done) || h != nil && h.closed {
				continue // it was settled meanwhile
			}
			th.debts[id] = d
			if h != nil {
				h.state = projections.HandoffIsAccepted
			}
		}
		th.move = nil
	case events.OwedPassed:
		th := w.thread(e.Thread)
		for _, id := range e.Items {
			d, owed := th.debts[id]
			w.holds(owed && d.owedBy(e.From) && e.From != e.To, "what passes is owed by the seat that it passes from")
			d.debtor, d.debtorSeat, d.nudges = events.Named(e.To), e.To, 0
			th.debts[id] = d
		}
	case events.OwedClosed:
		th := w.thread(e.Thread)
		_, owed := th.debts[e.Item]
		w.holds(owed, "an item is closed that is owed")
		w.holds(e.Why != events.OwedByPerson || w.isPerson(r.Actor), "only a person closes what nobody answered")
		if h := w.handoffs[events.HandoffID(e.Item)]; h != nil {
			h.state = projections.HandoffIsClosed
		}
		w.closes(th, e.Item)
	case events.DriverMoved:
		th := w.thread(e.Thread)
		w.holds(e.From != e.To && w.driver(th) == e.To, "a move of the driver names the one who drives")
	case events.CardPosted, events.CardUpdated:
		w.holds(w.thread(events.ThreadOf(e)) != nil, "a card lies in a thread")
	case events.ReviewTimedOut:
		_, owed := w.thread(e.Thread).debts[string(e.Review)]
		w.holds(owed, "what times out has no label")
	case events.OwedNudged:
		th := w.thread(e.Thread)
		d, owed := th.debts[e.Item]
		w.holds(owed && e.Debtor == d.debtor, "who owes an item is reminded of it")
		w.holds(e.Nudge == d.nudges+1 && e.Nudge <= 3, "at most three times")
		d.nudges = e.Nudge
		th.debts[e.Item] = d
	case events.OwedPaged:
		th := w.thread(e.Thread)
		d, owed := th.debts[e.Item]
		w.holds(len(e.Owners) > 0, "somebody is called")
		if e.Reason == events.PageReminded {
			w.holds(owed && d.nudges == 3 && e.Debtor == d.debtor, "the owners are called after three reminders, and told who holds it")
		}
	case events.ReviewAsked:
		th := w.thread(e.Thread)
		w.holds(w.driver(th) == e.From && w.occupies(e.From), "only the driver asks for a review")
		w.holds(e.Reviewer != e.From && e.Reviewer != e.Author || e.Reviewer == "", "neither the driver nor the author reviews")
		debtor := e.From
		if e.Reviewer != "" {
			debtor = e.Reviewer
			th.seats[e.Reviewer] = true
		}
		th.debts[string(e.Review)] = debt{
			kind: projections.OwedReview, debtor: events.Named(debtor), debtorSeat: debtor, creditor: events.Named(e.From), nobodys: e.Reviewer == "",
		}
	case events.ReviewLabelled:
		th := w.thread(e.Thread)
		w.holds(!w.labelled[e.Review], "a review gets one label, be it late")
		w.labelled[e.Review] = true
		w.holds(e.Clears == (e.Label == events.LabelRoot && (e.Risk == events.RiskLow || e.Risk == events.RiskMed)), "root with low or med clears, and nothing else")
		w.closes(th, string(e.Review))
	case events.PayloadAttached:
		w.thread(e.Thread)
		w.holds(w.message(e.Message).sent.Kind == events.KindAlert, "a payload is of an alert")
	case events.SeatAbsent:
		w.in(events.SeatStream(e.Seat))
		w.holds(!w.absent[e.Seat], "a seat is absent once until it returns")
		w.holds(r.Time.Sub(e.Since) >= 30*time.Minute, "it is absent after half an hour")
		w.absent[e.Seat] = true
	case events.SeatReturned:
		w.in(events.SeatStream(e.Seat))
		w.holds(w.absent[e.Seat] && w.seats[e.Seat] == e.Session, "an absent seat returns with the session that takes it")
		w.absent[e.Seat] = false
	default:
		return false
	}
	return true
}

// placed: a person may place any; a seat its own where it drives. R11, R12 and
// the undoing of a move are the only doors through which another's is stamped.
func (w *witness) placed(th *talk, e events.StickerPlaced) {
	w.holds(slices.Contains(offices, e.Seat), "a sticker names a seat of the roster")
	switch e.Hand {
	case events.HandPerson:
		w.holds(w.isPerson(e.By) && e.By == w.now.Actor, "a person's hand is a person's")
		if th.move != nil && !th.move.inForce {
			th.move = nil
		}
	case events.HandSeat:
		w.holds(!th.personsMark(), "while a person's sticker lies no seat stamps")
		if e.By == w.now.Actor {
			w.holds(e.BySeat == e.Seat && w.occupies(e.Seat), "a seat stamps its own sticker")
			w.holds(w.driver(th) == e.Seat, "and where it drives")
			break
		}
		undoes := did(w, func(events.RoutingUndone) bool { return true })
		accepts := did(w, func(a events.HandoffAccepted) bool { return w.handoffs[a.Handoff].to == e.Seat })
		routes := did(w, func(j events.RoutingJudged) bool { return j.Verdict == events.VerdictRoute && j.To == e.Seat })
		w.holds(undoes || accepts || routes, "a sticker is another's only by a hand-off or a verdict")
	default:
		w.holds(false, "a sticker is of a person's or a seat's hand")
	}
	th.seats[e.Seat] = true
	th.marks = slices.DeleteFunc(th.marks, func(st mark) bool { return st.seat == e.Seat && st.by == e.By })
	th.marks = append(th.marks, mark{seat: e.Seat, bySeat: e.BySeat, by: e.By, hand: e.Hand})
}

func (w *witness) removed(th *talk, e events.StickerRemoved) {
	i := slices.IndexFunc(th.marks, func(st mark) bool { return st.seat == e.Seat && st.by == e.Of })
	w.holds(i >= 0, "a sticker comes off that lies there")
	st := th.marks[i]
	doors := did(w, func(events.RoutingUndone) bool { return true }) || did(w, func(events.HandoffAccepted) bool { return true }) ||
		did(w, func(j events.RoutingJudged) bool { return j.Verdict == events.VerdictRoute })
	switch {
	case e.Of == w.now.Actor:
	case st.hand == events.HandPerson:
		w.holds(false, "a person's sticker is taken off by that person alone")
	case w.isPerson(w.now.Actor) && !doors:
		w.holds(!slices.ContainsFunc(th.marks, func(own mark) bool { return own.seat == e.Seat && own.by == w.now.Actor }), "a person takes its own off first")
	case !doors:
		w.holds(w.occupies(st.bySeat), "a seat takes off what it placed")
	}
	th.marks = slices.Delete(th.marks, i, i+1)
}

func (w *witness) judged(th *talk, e events.RoutingJudged) {
	m := w.message(e.Message)
	w.holds(m.sent.Author.Kind == events.KindPerson && m.sent.Thread == e.Thread, "a person's message is judged")
	w.holds(w.isPerson(w.now.Actor) || w.occupies(w.driver(th)), "by the driver's seat or a person")
	w.holds(!m.judged, "a message gets one verdict")
	m.judged = e.Verdict != events.VerdictUnavailable || e.ByHand
	if e.Verdict != events.VerdictRoute {
		return
	}
	driver := w.driver(th)
	w.holds(driver == e.From && e.To != driver, "a verdict moves a thread away from its driver")
	w.holds(!th.personsMark() && !m.sent.Group, "and not where a person's sticker lies, nor for the group")
	th.seats[e.To] = true
	move := &moving{message: e.Message, to: e.To, at: w.now.Position, before: slices.Clone(th.marks), command: w.now.Cause.Command, closed: map[string]debt{}}
	if th.move != nil && !th.move.inForce {
		move.before, move.closed = th.move.before, th.move.closed
	}
	move.inForce = th.posted[e.To] || len(th.posted) == 0
	th.move = move
}

// closes closes an item, and notes it where a move does.
func (w *witness) closes(th *talk, id string) {
	if d, owed := th.debts[id]; owed && th.move != nil && th.move.command == w.now.Cause.Command {
		th.move.closed[id] = d
	}
	delete(th.debts, id)
}

// says folds what a message means for driving.
func (w *witness) says(th *talk, m *utterance) {
	e := m.sent
	seat := e.Author.Seat
	if seat != "" {
		th.seats[seat] = true
	}
	if e.To.Kind == events.KindSeat {
		th.seats[e.To.ID.Name()] = true
	}
	mentioned := e.Mentions
	if e.Group {
		mentioned = offices
	}
	for _, name := range mentioned {
		th.seats[name] = true
	}
	w.hops(th, e)
	if e.Kind != events.KindMessage {
		return
	}
	if seat != "" {
		th.posted[seat] = true
		if th.move != nil && th.move.to == seat {
			th.move.inForce = true
		}
		for _, id := range th.messages {
			w.taken(th, w.messages[id], seat)
		}
	}
	th.messages = append(th.messages, e.Message)
	if e.Intent == events.Request {
		toSeat := e.To.Seat
		if e.To.Kind == events.KindSeat {
			toSeat = e.To.ID.Name()
		}
		th.debts[string(e.Message)] = debt{kind: projections.OwedReply, debtor: e.To.ID, debtorSeat: toSeat, creditor: e.Author.ID, credSeat: seat}
	}
	if e.Turn == events.Final {
		w.answers(th, e)
	}
}

// reaches: where a seat takes part a message goes to the driver too, and in any
// case to each seat that it mentions; but not to who wrote it or has it anyway.
func (w *witness) reaches(th *talk, m *utterance) {
	e := m.sent
	if e.Kind != events.KindMessage && e.Kind != events.KindAlert {
		return
	}
	called := e.Mentions
	if e.Group {
		called = offices
	}
	driver := th.before
	if e.ReplyTo == "" {
		driver = w.driver(th)
	}
	if len(th.seats) > 0 && driver != "" || e.Kind == events.KindAlert {
		called = append(slices.Clone(called), driver)
	}
	for _, seat := range called {
		has := seat == e.Author.Seat || seat == e.To.Seat
		w.holds(has || m.copyTo(events.Named(seat)) != nil, "a message goes to the driver and to the seats that it mentions: "+seat)
	}
}

// hops: each newly mentioned other seat is one, and after three somebody else
// than a seat has to speak.
func (w *witness) hops(th *talk, e events.MessageSent) {
	if e.Author.Kind == events.KindPerson {
		th.hops = 0
	}
	if e.Author.Seat == "" || e.Kind != events.KindMessage {
		w.holds(e.Hop == 0, "only what a seat says is a hop")
		return
	}
	n := 0
	for _, seat := range offices {
		if seat != e.Author.Seat && (e.Group || slices.Contains(e.Mentions, seat)) {
			n++
		}
	}
	if n == 0 {
		w.holds(e.Hop == 0, "a message that mentions no other seat is no hop")
		return
	}
	th.hops += n
	w.holds(e.Hop == th.hops && th.hops <= 3, "there are at most three hops since a person spoke")
}

// answers: an answer of the debtor or of the driver closes the request, and so does
// anybody's done.
func (w *witness) answers(th *talk, e events.MessageSent) {
	id := string(e.ReplyTo)
	d, owed := th.debts[id]
	if !owed || d.kind != projections.OwedReply {
		return
	}
	debtor := d.debtor == e.Author.ID || e.Author.Seat != "" && d.debtor == events.Named(e.Author.Seat)
	if asked := w.messages[e.ReplyTo]; d.debtor == asked.sent.To.ID && len(asked.copies) > 0 && asked.copies[0].to == asked.sent.To.ID {
		debtor = debtor || asked.copies[0].at == e.Author.ID
	}
	drives := e.Author.Seat != "" && w.driver(th) == e.Author.Seat
	if e.Intent == events.Done || e.Intent != events.Request && (debtor || drives) {
		delete(th.debts, id)
	}
}

// taken: who comes before a seat took the person's message that it was held for.
func (w *witness) taken(th *talk, m *utterance, by string) {
	if m.sent.Author.Kind != events.KindPerson {
		return
	}
	driver := w.driver(th)
	for _, c := range m.copies {
		if c.hold == nil || !c.waits || w.now.Time >= *c.hold || c.to == events.Named(by) {
			continue
		}
		if by == driver || slices.Index(offices, by) < slices.Index(offices, c.to.Name()) {
			c.waits, c.dropped = false, true
		}
	}
}

// drivenAlike holds the fold against the witness, for the threads that an event
// can have changed.
func (w *witness) drivenAlike(r events.Recorded) {
	w.t.Helper()
	threads := r.Threads()
	switch r.Event.(type) {
	case events.SeatAbsent, events.SeatReturned:
		threads = nil
		for id := range w.threads {
			threads = append(threads, id)
		}
	}
	for _, id := range threads {
		th, row := w.threads[id], w.fold.Thread(id)
		if th == nil || row == nil {
			continue
		}
		got, want := w.fold.Driver(row), w.driver(th)
		if got.Seat != want {
			w.fail("at %d, after %s, thread %s is driven by %q (%s), and by the rules by %q", r.Position, r.Type(), id, got.Seat, got.Source, want)
		}
		w.holds((got.Seat != "") == (len(got.Why) > 0), "who drives has a reason")
		w.holds(!th.personsMark() || got.Source == projections.SourcePerson, "a person's sticker stands above everything")
		w.holds(row.Hops == th.hops, "the hops are counted alike")
		w.owedAlike(th, row)
	}
	if err := w.fold.Err(); err != nil {
		w.fail("fold: %v", err)
	}
}

// owedAlike: nothing that is owed vanishes or appears without an event that says so.
func (w *witness) owedAlike(th *talk, row *projections.Thread) {
	w.t.Helper()
	for _, o := range row.Owed {
		d, owed := th.debts[o.ID]
		if !owed || d.kind != o.Kind || d.debtor != o.Debtor || d.debtorSeat != o.DebtorSeat || d.creditor != o.Creditor || d.credSeat != o.CreditorSeat || d.nudges != o.Nudges {
			w.fail("at %d, after %s, %s is owed as %+v, and by the rules as %+v (%t)", w.now.Position, w.now.Type(), o.ID, o, d, owed)
		}
		w.holds(d.debtorSeat == "" || d.nobodys || !d.owedTo(d.debtorSeat), "nobody owes anything to itself")
	}
	for id, d := range th.debts {
		if !slices.ContainsFunc(row.Owed, func(o projections.Owed) bool { return o.ID == id }) {
			w.fail("at %d, after %s, %s is not owed any more: %+v", w.now.Position, w.now.Type(), id, d)
		}
	}
}

// settled looks at a thread when a command is through with it.
func (w *witness) settled(command events.CommandID) {
	w.t.Helper()
	for _, r := range w.together[command] {
		to := ""
		switch e := r.Event.(type) {
		case events.HandoffAccepted:
			to = w.handoffs[e.Handoff].to
		case events.RoutingJudged:
			if e.Verdict == events.VerdictRoute {
				to = e.To
			}
		}
		th := w.threads[events.ThreadOf(r.Event)]
		if to == "" || th == nil {
			continue
		}
		if !th.personsMark() {
			stamped := slices.DeleteFunc(slices.Clone(th.marks), func(st mark) bool { return st.hand != events.HandSeat })
			w.holds(len(stamped) == 1 && stamped[0].seat == to, "of the seats' stickers the one that the work went to lies there alone")
		}
		for id, d := range th.debts {
			w.holds(d.creditor != events.Named(to) && d.credSeat != to || !d.owedBy(to), "what would be owed to oneself is closed: "+id)
		}
	}
}

// gate asks the turn gate for a session, on a state, at a moment.
func gate(s *projections.State, thread events.ThreadID, as string, now events.Time, p events.Policy) any {
	call := commands.Call{Caller: commands.Caller{ID: events.Participant(as), Kind: events.KindSession}}
	turn, r := commands.AskTurn{Call: call, Thread: string(thread)}.Gate(s, now, p)
	if r != nil {
		return r.Code
	}
	return turn
}
