package dashboard

import (
	"strings"

	"decklog/events"
	"decklog/projections"
)

// entry is what a thread's timeline shows of one event: a message with all that
// became of it, or a line.
type entry struct {
	Position events.Position
	Time     events.Time
	Class    string // of the style: what kind of thing happened
	Message  *said  // nil: a line
	Line     []piece
	Quote    string // what somebody wrote of it
	NewDay   bool   // it is the first of its day
}

// said is a message in the timeline.
type said struct {
	projections.ShownInThread
	Seat    string // that its author occupied
	Shown   string // as much of the body as stands open
	Rest    string // and what unfolds
	Parent  *projections.ShownInThread
	Acks    []projections.AckShown
	Card    *events.Card
	Pending *projections.Pending
}

// piece is a part of a sentence in the timeline.
type piece struct {
	Text string
	Who  events.Participant // a participant, instead of a text
	Seat string             // a seat, instead of a text
	Code string             // a value, instead of a text
}

// sentence makes the pieces of a line: a string is text, a participant and a seat
// are shown as such.
func sentence(parts ...any) (line []piece) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			line = append(line, piece{Text: p})
		case events.Participant:
			line = append(line, piece{Who: p})
		case seatName:
			if p == "" {
				line = append(line, piece{Text: "nobody"})
				continue
			}
			line = append(line, piece{Seat: string(p)})
		case value:
			line = append(line, piece{Code: string(p)})
		}
	}
	return line
}

type (
	seatName string
	value    string
)

// step is an event of the thread, as the scrubber marks it.
type step struct {
	Position events.Position
	Time     events.Time
	Class    string
	Says     string
}

// tale is what happened in a thread, as its page tells it: the steps are all of its
// events, the entries those that the timeline shows up to a moment.
type tale struct {
	Steps   []step
	Entries []entry
}

// tell makes the timeline of a thread from the events that name it and from the
// view of it as of a position; 0 is now.
func tell(view projections.ThreadView, recorded []events.Recorded, at events.Position) tale {
	t := teller{messages: map[events.MessageID]*said{}, handoffs: map[events.HandoffID]projections.HandoffShown{}}
	for i := range view.Messages {
		m := &view.Messages[i]
		shown, rest := folded(m.Body)
		t.messages[m.ID] = &said{ShownInThread: *m, Seat: m.FromSeat, Shown: shown, Rest: rest}
	}
	for _, a := range view.Acks {
		if m := t.messages[a.Message]; m != nil {
			m.Acks = append(m.Acks, a)
		}
	}
	for i, p := range view.Pending {
		if m := t.messages[p.Message]; m != nil {
			m.Pending = &view.Pending[i]
		}
	}
	for _, h := range view.Handoffs {
		t.handoffs[h.ID] = h
	}
	for _, r := range recorded {
		class, says := classOf(r.Event)
		t.Steps = append(t.Steps, step{r.Position, r.Time, class, says})
		if at == 0 || r.Position <= at {
			t.entry(r, class)
		}
	}
	for i := range t.Entries {
		t.Entries[i].NewDay = i == 0 || day(t.Entries[i].Time) != day(t.Entries[i-1].Time)
	}
	return t.tale
}

// teller is a tale on its way.
type teller struct {
	tale
	messages map[events.MessageID]*said
	handoffs map[events.HandoffID]projections.HandoffShown
	last     events.MessageID // of the messages so far
	edited   events.MessageID // the last that was edited
}

// entry adds what the timeline shows of an event. Leases, confirms and acks are
// shown at their message, and have no line.
func (t *teller) entry(r events.Recorded, class string) {
	e := entry{Position: r.Position, Time: r.Time, Class: class}
	by := r.Actor
	switch v := r.Event.(type) {
	case events.MessageSent:
		if e.Message = t.messages[v.Message]; e.Message == nil {
			return
		}
		if p := t.messages[v.ReplyTo]; p != nil && v.ReplyTo != t.last { // what it answers stands right above it else
			e.Message.Parent = &p.ShownInThread
		}
		t.last = v.Message
	case events.MessageEdited:
		e.Line = sentence(by, " edited a message")
		t.edited = v.Message
	case events.TurnFlipped:
		// The edit that gave it its last text is one act with it, and one line.
		if n := len(t.Entries); n > 0 && t.edited == v.Message && t.Entries[n-1].Time == e.Time && t.Entries[n-1].Class == "small" {
			t.Entries = t.Entries[:n-1]
		}
		e.Line = sentence(by, " is done writing: the message is final")
	case events.MessageDeleted:
		e.Line = sentence(by, " took a message back; its text is gone")
	case events.MessageExpired:
		e.Line = sentence("A message to ", v.Mailbox, " expired: nobody took it in time")
	case events.MessageUndelivered:
		e.Line = sentence("Given up: what was for ", v.Mailbox, " did not arrive", because(spaced(v.Reason)))
	case events.ThreadDone:
		e.Line = sentence(v.By, " closed the thread")
	case events.CommandRefused:
		e.Line = sentence(v.By, " was refused ", value(v.Command), ": ", value(v.Code))
		if v.Counted > 0 {
			e.Line = append(e.Line, sentence(" (and "+number(v.Counted)+" more within a minute)")...)
		}
		e.Quote = v.Says
	case events.StickerPlaced:
		e.Line = sentence(by, " placed the sticker of ", seatName(v.Seat))
		if v.Hand == events.HandPerson {
			e.Line = append(e.Line, piece{Text: ": it wins while it lies"})
		}
	case events.StickerRemoved:
		e.Line = sentence(by, " took off the sticker of ", seatName(v.Seat))
	case events.DriverMoved:
		e.Line = sentence("The driver moved from ", seatName(v.From), " to ", seatName(v.To), because(sourceSays(v.Source, "")))
	case events.RoutingJudged:
		e.Line = sentence("The mention of ", seatName(v.To), ": ", value(v.Verdict))
		e.Quote = v.Says
	case events.RoutingUndone:
		e.Line = sentence(v.By, " undid the move before it came into force")
	case events.HandoffOffered:
		e.Line = sentence(by, " offered the work to ", seatName(v.To))
		e.Quote = t.handoffs[v.Handoff].Reason
	case events.HandoffAccepted:
		e.Line = sentence(by, " accepted the hand-off")
	case events.HandoffDeclined:
		e.Line = sentence(by, " declined the hand-off")
		e.Quote = t.handoffs[v.Handoff].Answer
	case events.HandoffClosed:
		e.Line = sentence(by, " closed the hand-off", because(handoffEnd(v.Reason)))
	case events.ReviewAsked:
		e.Line = sentence(by, " asked for a review of ", value(v.Commit))
		if v.Reviewer != "" {
			e.Line = append(e.Line, sentence(" by ", seatName(v.Reviewer))...)
		}
	case events.ReviewLabelled:
		e.Line = sentence(by, " labelled the commit ", value(string(v.Label)+", "+string(v.Risk)))
		if v.Clears {
			e.Line = append(e.Line, piece{Text: ": it may be merged"})
		}
		if v.Late {
			e.Line = append(e.Line, piece{Text: ", late"})
		}
	case events.ReviewTimedOut:
		e.Line = sentence("No label came in time")
	case events.CardPosted:
		if m := t.messages[v.Message]; m != nil {
			m.Card = &v.Card
			return
		}
	case events.CardUpdated:
		if m := t.messages[v.Message]; m != nil {
			m.Card = &v.Card
		}
		e.Line = sentence("The card of ", seatName(v.Card.Driver), " says ", value(v.Card.Status))
	case events.OwedPassed:
		e.Line = sentence(plural(len(v.Items), "item", "items")+" passed from ", seatName(v.From), " to ", seatName(v.To))
	case events.OwedClosed:
		e.Line = sentence(v.By, " closed an item", because(owedEnd(v.Why)))
	case events.OwedNudged:
		e.Line = sentence(v.Debtor, " was reminded of what it owes: reminder "+number(v.Nudge))
	case events.OwedPaged:
		e.Line = sentence("The owners were called", because(spaced(v.Reason)))
	case events.Unknown:
		e.Line = sentence("An event that this program does not know: ", value(v.Type))
	default:
		return
	}
	t.Entries = append(t.Entries, e)
}

func because[S ~string](why S) string {
	if why == "" {
		return ""
	}
	return " (" + string(why) + ")"
}

func handoffEnd(why events.HandoffEnd) string {
	switch why {
	case events.HandoffLapsed:
		return "another act moved the driver"
	case events.HandoffCreditor:
		return "its work passed to the one it was owed to"
	}
	return ""
}

func owedEnd(why events.OwedEnd) string {
	switch why {
	case events.OwedToOneself:
		return "it passed to the one it was owed to"
	case events.OwedSuperseded:
		return "superseded"
	}
	return ""
}

// classOf says what kind of thing an event is for the eye, and in two words for the ear.
func classOf(e events.Event) (class, says string) {
	switch e := e.(type) {
	case events.MessageSent:
		return "message", "message from " + short(e.Author.ID)
	case events.MessageExpired, events.MessageUndelivered, events.LeaseExpired:
		return "lost", spaced(strings.ReplaceAll(string(e.EventType()), ".", " "))
	case events.CommandRefused:
		return "refused", "refused: " + e.Code
	case events.StickerPlaced, events.StickerRemoved, events.DriverMoved, events.RoutingJudged, events.RoutingUndone,
		events.HandoffOffered, events.HandoffAccepted, events.HandoffDeclined, events.HandoffClosed, events.OwedPassed:
		return "driving", strings.ReplaceAll(string(e.EventType()), ".", " ")
	case events.OwedNudged, events.OwedPaged, events.OwedClosed, events.ReviewAsked, events.ReviewLabelled, events.ReviewTimedOut:
		return "owing", spaced(strings.ReplaceAll(string(e.EventType()), ".", " "))
	case events.ThreadDone:
		return "done", "thread done"
	case events.MailboxLeased, events.MailboxConfirmed, events.MessageRead, events.MailboxTaken, events.MailboxReturned:
		return "delivery", spaced(strings.ReplaceAll(string(e.EventType()), ".", " "))
	}
	return "small", spaced(strings.ReplaceAll(string(e.EventType()), ".", " "))
}
