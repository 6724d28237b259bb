package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// Send asks for a message to be sent.
type Send struct {
	Call
	To      string // as the sender wrote it; empty in a reply: the parent's author
	ReplyTo string // the parent's id, or a unique prefix of it
	Intent  string // empty: inform
	Turn    string // empty: final
	Body    []byte
	Refs    []string
	Key     string
	Over    bool // answer although another's answer is pending

	// What only other commands than send give: an alert, a card, a review.
	Kind    events.MessageKind // empty: a message
	Channel string             // of an alert
	Payload []byte             // of an alert
	// Earlier is the message that this command's id sent before, with its body
	// where that is still there. Nil: it sent none.
	Earlier     *events.MessageSent
	EarlierBody *events.Body
	// EarlierPayload is what came with it, of an alert; nil: it is gone.
	EarlierPayload *events.Body
	// Alike finds the latest message whose body has this fingerprint.
	Alike func(events.Fingerprint) (events.MessageID, bool)
	// PayloadOf gives what came with an earlier alert.
	PayloadOf func(events.MessageID) []byte
}

// The bounds on what identifies a message.
const (
	RefBytesMax = 512
	KeyBytesMax = 200
	ToBytesMax  = 256
)

// expiresNever stands for no bound: a hundred years.
const expiresNever = 100 * 365 * 24 * time.Hour

// rateWindow is the time that every rate counts over.
const rateWindow = time.Hour

// Decide admits the message or refuses it. The checks stand in the order of the
// design, and the first that fails is the refusal. An admitted command that was
// admitted before answers with no events: its first receipt stands.
func (c Send) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d := draft{Send: c, s: s, now: now, policy: p}
	if c.Earlier != nil {
		d.read()
		return nil, d.keyReused()
	}
	for _, check := range []func() *Refusal{
		d.badRequest, d.noCaller, d.senderNotLive, d.recipient, d.parent, d.notParticipant, d.replyToDone,
		d.pending, d.hopLimit, d.duplicate, d.rates, d.threadRate, d.recipientFull,
	} {
		if r := check(); r != nil {
			if r.Thread == "" && d.above != nil {
				r.Thread = d.above.Thread
			}
			return nil, r
		}
	}
	return d.events(), nil
}

// draft is a message on its way through the checks; each leaves there what the
// next ones need.
type draft struct {
	Send
	s      *projections.State
	now    events.Time
	policy events.Policy

	intent   events.Intent
	turn     events.Turn
	body     []byte
	payload  []byte // of an alert
	refs     []string
	masked   []events.Masked
	from     events.Author
	live     bool
	to       resolved
	above    *projections.Message // the parent
	thread   *projections.Thread  // nil: a new one
	resendOf events.MessageID
	driver   projections.Driver // of the thread as it is; of a root, as it will be
	area     *events.AreaOf     // of a root
	mentions []string
	group    bool
	over     []events.MessageID // that are pending
}

// read takes the message in: cleaned, masked, its words in lower case.
func (d *draft) read() {
	d.intent = events.Intent(strings.ToLower(strings.TrimSpace(or(d.Intent, string(events.Inform)))))
	d.turn = events.Turn(strings.ToLower(strings.TrimSpace(or(d.Turn, string(events.Final)))))
	if utf8.Valid(d.Body) {
		d.body = Clean(d.Body)
		if !hopeless(d.body, d.policy.Limits.BodyBytes) {
			d.body, d.masked = Mask(d.body)
		}
	}
	d.refs = nil
	for _, ref := range d.Refs {
		clean, masked := Mask(Clean([]byte(ref)))
		d.refs = append(d.refs, strings.TrimSpace(string(clean)))
		d.masked = addMasked(d.masked, masked)
	}
	d.ReplyTo = strings.TrimSpace(d.ReplyTo)
	d.To = strings.TrimSpace(d.To)
	d.Kind = events.MessageKind(or(string(d.Kind), string(events.KindMessage)))
	if d.Kind == events.KindMessage || d.Kind == events.KindAlert {
		d.mentions, d.group = Mentions(string(d.body), d.policy) // a card or a review calls nobody
	}
	if d.payload = nil; len(d.Payload) <= PayloadBytesMax && utf8.Valid(d.Payload) {
		var masked []events.Masked
		d.payload, masked = Mask(Clean(d.Payload))
		d.masked = addMasked(d.masked, masked)
	}
	d.Channel = strings.TrimSpace(d.Channel)
}

// hopeless says whether a body is so far over its bound that it is refused with
// its size without a look for secrets, which costs more the longer it is.
func hopeless(body []byte, max int) bool { return max > 0 && len(body) > 16*max }

func addMasked(a, b []events.Masked) []events.Masked {
next:
	for _, m := range b {
		for i := range a {
			if a[i].Kind == m.Kind {
				a[i].Count += m.Count
				continue next
			}
		}
		a = append(a, m)
	}
	slices.SortFunc(a, func(x, y events.Masked) int { return strings.Compare(x.Kind, y.Kind) })
	return a
}

func (d *draft) keyReused() *Refusal {
	e := d.Earlier
	same := d.To == e.Addressed && d.intent == e.Intent && d.turn == e.Turn && slices.Equal(d.refs, e.Refs) &&
		(d.ReplyTo == string(e.ReplyTo) || d.ReplyTo != "" && strings.HasPrefix(string(e.ReplyTo), d.ReplyTo))
	// What the message says now may be an edit of it; the first body, while it is
	// there, settles it. Of what was deleted only the length is left.
	same = same && e.Body.Bytes == len(d.body)
	if same && d.EarlierBody != nil {
		same = string(d.EarlierBody.Text) == string(d.body)
	}
	same = same && e.Kind == d.Kind && e.Channel == d.Channel
	if same && d.EarlierPayload != nil {
		same = string(d.EarlierPayload.Text) == string(d.payload)
	}
	if same {
		return nil
	}
	what := "this command's id"
	if e.Key != "" {
		what = fmt.Sprintf("the key %q", e.Key)
	}
	return refuse(KeyReused, "%s was used before, for message %s, which says something else or goes to somebody else", what, e.Message).
		naming(e.Message, e.Thread)
}

func (d *draft) badRequest() *Refusal {
	d.read()
	l := d.policy.Limits
	bad := func(format string, args ...any) *Refusal { return refuse(BadRequest, format, args...) }
	switch d.intent {
	case events.Request, events.Inform, events.Done:
	default:
		return bad("the intent %q is none of request, inform, done", d.Intent).
			fix("use request when you expect an answer, inform when you do not, done to close the thread")
	}
	switch d.turn {
	case events.Final:
	case events.Working:
		if d.intent == events.Done {
			return bad("the message says done, and is working").fix("say done when nothing more is to come; a stub has the intent of its answer")
		}
	default:
		return bad("the turn %q is none of working, final", d.Turn).
			fix("use working for a stub whose answer is to come, final (or nothing) for everything else")
	}
	switch {
	case len(d.To) > ToBytesMax || !utf8.ValidString(d.To):
		return bad("the recipient takes %d bytes; at most %d, of UTF-8", len(d.To), ToBytesMax)
	case len(d.ReplyTo) > ToBytesMax:
		return bad("the id replied to takes %d bytes; at most %d", len(d.ReplyTo), ToBytesMax)
	case d.To == "" && d.ReplyTo == "" && d.Kind != events.KindAlert && !d.toTheDriver():
		return bad("the message names neither a recipient nor a message that it replies to").
			fix("name the recipient with --to, or what you answer with --reply-to")
	case d.ReplyTo != "" && len(d.ReplyTo) < PrefixMin:
		return bad("%q is too short for a message's id: at least %d characters", d.ReplyTo, PrefixMin).
			fix("use the full message id, as the frame and the inbox show it")
	case len(d.Key) > KeyBytesMax || !utf8.ValidString(d.Key) || strings.ContainsAny(d.Key, "\n\t"):
		return bad("the key is longer than %d bytes, or holds a tab, a line feed or bytes that are not UTF-8", KeyBytesMax)
	case !utf8.Valid(d.Body):
		return bad("the body has bytes that are not UTF-8, the first at byte %d", firstInvalid(d.Body)).
			fix("send text; put a file's address into a ref instead of its bytes")
	case strings.TrimSpace(string(d.body)) == "":
		return bad("the body is blank").fix("write what the recipient has to know after --, or give it on standard input with -")
	case l.BodyBytes > 0 && len(d.body) > l.BodyBytes:
		return bad("the body takes %d bytes; at most %d", len(d.body), l.BodyBytes).
			fix("keep what must be acted on, and attach the rest as refs; nothing was sent").
			example(`decklog send --to %s --ref file:report.md:12 -- "the point in one line"`, or(safeWord(d.To), "SESSION"))
	case l.Refs > 0 && len(d.refs) > l.Refs:
		return bad("the message has %d refs; at most %d", len(d.refs), l.Refs).fix("keep the refs that the recipient needs first")
	}
	for i, ref := range d.refs {
		switch {
		case len(ref) == 0 || len(ref) > RefBytesMax:
			return bad("ref %d takes %d bytes; from 1 to %d", i+1, len(ref), RefBytesMax)
		case !utf8.ValidString(ref) || !isAddress(ref) || !shownWhole(ref):
			return bad("ref %d, %q, is no address", i+1, ref).
				fix(`a ref is HARNESS:SESSION[/ORDINAL[:LINE]], file:PATH[:LINE] or commit:SHA, without any of " < >`).
				example(`decklog send --to SESSION --ref file:lease/lease.go:42 --ref commit:4f2a9c1 -- "text"`)
		}
	}
	if d.Kind == events.KindAlert {
		if r := d.badAlert(); r != nil {
			return r
		}
	}
	return d.toOneself()
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// safeWord gives back a word that can stand in a command line as it is; else nothing.
func safeWord(s string) string {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:@-", r)) {
			return ""
		}
	}
	return s
}

// toOneself refuses a message whose sender is its recipient, and a prefix that
// is too short to be anybody's; both are told before it is asked who lives.
func (d *draft) toOneself() *Refusal {
	d.from, d.live = d.author(d.s, d.now, d.policy)
	if d.Caller.Kind == events.KindBot && d.Kind == events.KindAlert {
		d.live = true
	}
	if d.To == "" {
		return nil
	}
	to, r := d.resolve(d.s, d.To, d.now, d.policy, d.from)
	if r != nil {
		if r.Code == BadRequest {
			return r
		}
		return nil // told in its turn
	}
	if d.Caller.Known() && d.isOneself(to.Recipient) {
		return refuse(BadRequest, "%s is the sender", to.ID).fix("send to somebody else; a note to oneself is no message")
	}
	return nil
}

func (d *draft) isOneself(to events.Recipient) bool {
	return to.ID == d.from.ID || d.from.Seat != "" && to.ID == events.Named(d.from.Seat)
}

func (d *draft) noCaller() *Refusal {
	if d.Nobody != nil {
		return d.Nobody
	}
	if !d.Caller.Known() {
		return d.nobody("who is sending")
	}
	return nil
}

func (d *draft) senderNotLive() *Refusal {
	if !d.live {
		return NotLive(d.s, d.Call, d.now)
	}
	return d.noAlerter()
}

// NotLive refuses a caller who is no live session and no known person.
func NotLive(s *projections.State, c Call, now events.Time) *Refusal {
	switch c.Caller.Kind {
	case events.KindSession:
		row := s.Session(c.Caller.ID.Session())
		if row == nil {
			return refuse(SenderNotLive, "the session %s never joined", c.Caller.ID).
				fix("look whether its id is written right; one that is new joins first, with `decklog join --session %s`",
					or(safeWord(string(c.Caller.ID)), "SESSION")).
				example("decklog peers")
		}
		return refuse(SenderNotLive, "the session %s is not live: %s", c.Caller.ID, c.presence(row, now).Says).
			fix("join again with the same session, or act as one that is live").
			example("decklog join --session %s", or(safeWord(string(c.Caller.ID)), "SESSION"))
	case events.KindSeat:
		return refuse(SenderNotLive, "no live session occupies the seat %s", c.Caller.ID).
			example("decklog join --session SESSION --seat %s", or(safeWord(c.Caller.ID.Name()), "SEAT"))
	case events.KindPerson:
		return refuse(SenderNotLive, "%s is no person known here", c.Caller.ID).
			fix("add the person to the policy, or act as one who is in it").
			example("decklog policy show")
	}
	return refuse(SenderNotLive, "%s cannot send messages", c.Caller.ID)
}

func (d *draft) recipient() (r *Refusal) {
	if d.Kind == events.KindAlert {
		return d.triager()
	}
	if d.To == "" && d.ReplyTo == "" {
		d.root()
		d.to = d.resolveKnown(d.s, events.Recipient{ID: events.Named(d.driver.Seat), Kind: events.KindSeat}, d.now, d.from)
		return nil
	}
	if d.To == "" {
		return nil // of a reply: its parent tells
	}
	d.to, r = d.resolve(d.s, d.To, d.now, d.policy, d.from)
	return r
}

func (d *draft) parent() *Refusal {
	if d.ReplyTo == "" {
		d.root()
		return nil
	}
	parent, r := FindMessage(d.s, d.ReplyTo)
	if r != nil {
		return r
	}
	d.above = parent
	if d.thread = d.s.Thread(parent.Thread); d.thread == nil {
		return damagedView("the thread %s of message %s", parent.Thread, parent.ID)
	}
	d.driver = d.s.DriverNow(d.thread)
	if d.To != "" {
		return nil
	}
	to, driver := d.authorOf(parent), events.Recipient{ID: events.Named(d.driver.Seat), Kind: events.KindSeat}
	switch {
	case d.from.Kind == events.KindPerson && d.driver.Seat != "":
		to = driver // a person speaks to who drives
	case projections.Same(d.from, parent.Author):
		to = parent.To // a second word to the same one
	case to.Kind == events.KindBot && !d.isOneself(parent.To):
		to = parent.To // a bot reads nothing: who decides on its alert hears it
	case to.Kind == events.KindBot && d.driver.Seat != "" && !d.isOneself(driver):
		to = driver
	}
	if d.isOneself(to) {
		return refuse(BadRequest, "message %s was sent by you and to you", parent.ID).fix("name a recipient with --to")
	}
	if to.Kind == events.KindBot && d.intent == events.Request {
		return refuse(BadRequest, "%s is a bot, and answers nothing", to.ID).fix("name with --to whom you ask").
			example(`decklog send --reply-to %s --to @SEAT --intent request -- "text"`, parent.ID)
	}
	d.to = d.resolveKnown(d.s, to, d.now, d.from)
	return nil
}

// damagedView says that a row of a view names another that is not there, which
// only damage can bring about.
func damagedView(format string, args ...any) *Refusal {
	return refuse(NotFound, format+" is named by a view, and is not in it", args...).
		fix("run `decklog verify`; if only the views are damaged, `decklog rebuild` makes them anew").example("decklog verify")
}

// authorOf is whom an answer goes to: the session that wrote the message or,
// where that is live no more and wrote from a seat that somebody else occupies
// now, the seat.
func (d *draft) authorOf(m *projections.Message) events.Recipient {
	a := m.Author
	if seat := d.s.Seat(a.Seat); a.Seat != "" && seat != nil && events.Participant(seat.Occupant) != a.ID && !d.Call.live(d.s.Session(a.ID.Session()), d.now) {
		return events.Recipient{ID: events.Named(a.Seat), Kind: events.KindSeat}
	}
	return events.Recipient{ID: a.ID, Kind: a.Kind}
}

// FindMessage finds the message that a full id, or a prefix that one message
// has, names.
func FindMessage(s *projections.State, id string) (*projections.Message, *Refusal) {
	id = strings.TrimSpace(id)
	if m := s.Message(events.MessageID(id)); m != nil {
		return m, nil
	}
	if len(id) < PrefixMin {
		return nil, refuse(BadRequest, "%q is too short for a message's id: at least %d characters", id, PrefixMin).
			fix("use the full message id, as the frame and the inbox show it").example("decklog inbox")
	}
	_, found := s.Find(id, 2)
	switch len(found) {
	case 1:
		if m := s.Message(found[0]); m != nil {
			return m, nil
		}
		return nil, damagedView("message %s", found[0])
	case 0:
		return nil, refuse(NotFound, "no message's id is or begins with %q", id)
	}
	return nil, refuse(BadRequest, "%q begins the ids of several messages", id).fix("use the full message id").example("decklog inbox")
}

func (d *draft) notParticipant() *Refusal {
	if d.thread == nil {
		return nil
	}
	return partIn(d.s, d.thread, d.above, d.from, d.policy)
}

// partIn refuses who may not have a word in a thread: it is no person and no seat
// of the roster, takes no part in it, and took no message of it out of the
// mailbox of its seat or person. about is the message that it means.
func partIn(s *projections.State, t *projections.Thread, about *projections.Message, a events.Author, p events.Policy) *Refusal {
	ofRoster := onRoster(p, a.Seat)
	asked := a.Kind == events.KindBot && a.ID == t.Asker.ID
	if a.Kind == events.KindPerson || ofRoster || asked || t.TakesPart(a) || about.Delivery(a.ID) != nil {
		return nil
	}
	for _, m := range s.MessagesOf(t.ID) {
		if m.Delivery(a.ID) != nil {
			return nil
		}
	}
	return refuse(NotParticipant, "%s takes no part in thread %s", a.ID, t.ID).naming(about.ID, t.ID)
}

func (d *draft) replyToDone() *Refusal {
	if d.above == nil {
		return nil
	}
	if d.thread.Done {
		return closedThread(d.thread)
	}
	if d.above.Intent == events.Done {
		return refuse(ReplyToDone, "message %s says done, and wants no answer", d.above.ID).naming(d.above.ID, d.thread.ID)
	}
	return nil
}

// Fingerprint is what makes two messages the same: who says what to whom, with
// which refs and intent, in which thread or channel; a root stands in none yet.
func Fingerprint(e events.MessageSent, text []byte) events.Fingerprint {
	thread := ""
	if e.ReplyTo != "" {
		thread = string(e.Thread)
	}
	parts := append([]string{string(e.Author.ID), string(e.To.ID), thread, string(e.Intent), string(text)}, e.Refs...)
	if e.Channel != "" {
		parts = append(parts, e.Channel)
	}
	return events.FingerprintOf(parts...)
}

func (d *draft) fingerprint() events.Fingerprint {
	e := events.MessageSent{Author: d.from, To: d.to.Recipient, Intent: d.intent, Refs: d.refs, Channel: d.Channel}
	if d.above != nil {
		e.ReplyTo, e.Thread = d.above.ID, d.above.Thread
	}
	return Fingerprint(e, d.body)
}

func (d *draft) duplicate() *Refusal {
	window := d.policy.Limits.DuplicateWindow.Std()
	if window == 0 || d.Alike == nil {
		return nil
	}
	id, found := d.Alike(d.fingerprint())
	if !found {
		return nil
	}
	first := d.s.Message(id)
	if first == nil || first.Deleted != nil || d.PayloadOf != nil && !bytes.Equal(d.PayloadOf(first.ID), d.payload) {
		return nil
	}
	if first.Lost() {
		d.resendOf = first.ID
		return nil
	}
	if age := d.now.Sub(first.Sent); age < 0 || age >= window {
		return nil
	}
	return refuse(Duplicate, "message %s said the same to %s at %s, and is %s", first.ID, d.to.ID, first.Sent, first.State()).
		naming(first.ID, first.Thread)
}

func (d *draft) rates() *Refusal {
	l := d.policy.Limits
	check := func(code Code, who events.Participant, whose string, limit int) *Refusal {
		if limit == 0 {
			return nil
		}
		n, earliest := d.s.SentSince(who, d.now, rateWindow, limit)
		if n < limit {
			return nil
		}
		free := earliest.Add(rateWindow)
		r := refuse(code, "%s sent %d messages within the hour, of at most %d; the next is free at %s", whose, n, limit, free)
		r.Count, r.Limit, r.Free = n, limit, &free
		return r
	}
	if d.from.Kind == events.KindSession {
		if r := check(SessionRate, d.from.ID, "this session", l.SessionRate); r != nil {
			return r
		}
	}
	if r := check(DeviceRate, projections.Device(d.from.Device), "this machine", l.DeviceRate); r != nil {
		return r
	}
	if d.from.Person != "" {
		return check(PersonRate, events.Named(d.from.Person), "this person's sessions", l.PersonRate)
	}
	return nil
}

func (d *draft) threadRate() *Refusal {
	limit := d.policy.Limits.ThreadRate
	if limit == 0 || d.thread == nil || d.from.Kind == events.KindPerson || d.intent == events.Done || d.Kind != events.KindMessage {
		return nil
	}
	n, person, earliest := d.s.Talk(d.thread.ID, d.now, rateWindow, limit)
	if person || n < limit {
		return nil
	}
	free := earliest.Add(rateWindow)
	r := refuse(ThreadRate, "agents sent %d messages in thread %s within the hour, of at most %d; the next is free at %s", n, d.thread.ID, limit, free).
		example("decklog thread %s", d.thread.ID)
	r.Count, r.Limit, r.Free, r.Thread = n, limit, &free, d.thread.ID
	return r
}

func (d *draft) recipientFull() *Refusal {
	limit := d.policy.Limits.RecipientFull
	if limit == 0 {
		return nil
	}
	if n := d.s.Mailbox(d.to.ID).Waiting; n >= limit {
		r := refuse(RecipientFull, "%d messages wait for %s, of at most %d", n, d.to.ID, limit)
		r.Count, r.Limit = n, limit
		return r
	}
	return nil
}

func (d *draft) events() []events.Proposed {
	l := d.policy.Limits
	id := d.ID.Message()
	thread := d.ID.Thread()
	if d.thread != nil {
		thread = d.thread.ID
	}
	body := events.Body{Salt: d.Salt, Text: d.body, Fingerprint: d.fingerprint()}
	e := events.MessageSent{
		Message: id, Thread: thread, Kind: d.Kind, Author: d.from, To: d.to.Recipient, Addressed: d.To,
		Intent: d.intent, Turn: d.turn, Body: body.Commit(), Refs: d.refs,
		Expires: d.now.Add(l.ExpiresAfter.Std()), Evidence: d.evidence(), Masked: d.masked, ResendOf: d.resendOf, Key: d.Key,
		Mentions: d.mentions, Group: d.group, Area: d.area, Channel: d.Channel, AnsweredOver: d.over,
	}
	if n := d.hops(); n > 0 {
		e.Hop = d.before() + n
	}
	if l.ExpiresAfter == 0 {
		e.Expires = d.now.Add(expiresNever)
	}
	if d.above != nil {
		e.ReplyTo = d.above.ID
	}
	if d.intent == events.Request && d.Kind == events.KindMessage && l.OwedAfter > 0 {
		due := d.now.Add(l.OwedAfter.Std())
		e.Due = &due
	}
	if d.turn == events.Working && l.WaitFinal > 0 {
		by := d.now.Add(l.WaitFinal.Std())
		e.FinalBy = &by
	}
	e.Arrives = d.arrives(e.Evidence)
	state := events.StateQueued
	if e.Arrives == events.ArrivesWhenFinal || e.Arrives == events.ArrivesNextSession {
		state = events.StateHeld
	}
	e.Deliveries = []events.Delivery{}
	if d.to.Kind != events.KindBot { // which has no mailbox: what lies in the thread is all that it gets
		e.Deliveries = append(e.Deliveries, events.Delivery{To: d.to.ID, State: state})
	}
	e.Deliveries = append(e.Deliveries, d.copies()...)

	cause := events.Cause{Command: d.ID}
	if d.above != nil {
		cause.Event = d.above.Bodies[0]
	}
	stream := events.ThreadStream(thread)
	out := []events.Proposed{{Stream: stream, ID: d.ID.Event(0), Actor: d.from.ID, Cause: cause, Event: e, Body: &body}}
	out = d.attach(out, e)
	if d.closes() {
		out = append(out, events.Proposed{
			Stream: stream, ID: d.ID.Event(1), Actor: d.from.ID, Cause: events.Cause{Command: d.ID, Event: d.ID.Event(0)},
			Event: events.ThreadDone{Thread: thread, Message: id, By: d.from.ID},
		})
	}
	return d.driving(out, e)
}

// closes says whether the message closes its thread: a `done` by the asker or a
// person. Anybody else's closes only what it answers.
func (d *draft) closes() bool {
	if d.intent != events.Done {
		return false
	}
	return d.thread == nil || d.from.Kind == events.KindPerson || projections.Same(d.from, d.thread.Asker) ||
		d.from.Seat != "" && d.from.Seat == d.driver.Seat
}

func (d *draft) evidence() events.Evidence {
	if d.to.Kind == events.KindBot {
		return events.Evidence{Says: "a bot has no mailbox: the answer lies in the thread"}
	}
	if d.to.session == nil {
		return events.Evidence{Says: "no live session takes its mail now"}
	}
	p := d.presence(d.to.session, d.now)
	e := events.Evidence{Live: p.Live, Busy: p.Busy, Says: p.Says, AgeMS: p.Age}
	if d.to.Kind != events.KindSession {
		e.Session = d.to.session.ID
	}
	return e
}

func (d *draft) arrives(e events.Evidence) events.Arrival {
	switch {
	case d.turn == events.Working:
		return events.ArrivesWhenFinal
	case e.Live && e.Busy:
		return events.ArrivesNextToolCall
	case e.Live:
		return events.ArrivesNextPrompt
	case d.to.Kind == events.KindSession:
		return events.ArrivesOnlyIfResumed
	}
	return events.ArrivesNextSession
}
