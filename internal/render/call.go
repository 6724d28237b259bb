package render

import (
	"fmt"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// Call tells a participant of something that is no message: a hand-off, an item
// that it owes, a call to the owners. What somebody wrote is its text alone.
type Call struct {
	What    events.Type // of the event that it tells of
	Event   events.EventID
	Thread  events.ThreadID
	To      events.Participant // the mailbox that it lies in
	From    events.Participant // the other side: who offers, answered, drives now, or holds the item
	By      events.Participant // who acted; empty: time did
	Handoff events.HandoffID
	Link    string // of a hand-off
	Nudge   int    // of a reminder, from 1
	Reason  string // why the owners are called, or how a hand-off ended
	Review  events.ReviewID
	Commit  string
	Label   events.Label
	Risk    events.Risk
	Clears  bool
	Items   []CallItem // that are owed, and that it is about
	// Text is what somebody wrote of it; empty: nothing. Redacted: it is gone.
	Text     string
	Redacted bool
	Attempt  int
}

// CallItem is an open item that a call is about.
type CallItem struct {
	ID       string
	Kind     projections.OwedKind
	Offered  bool // of a hand-off: it is not answered yet
	Creditor events.Participant
	Since    events.Time
	Due      *events.Time
}

// callTextMax is how many encoded bytes of what somebody wrote a call shows: it
// is a short block, and what it is about can be read in the thread.
const callTextMax = 1600

// show writes the call, which is short whatever the budget.
//
//	<decklog-call what="handoff.offered" thread="…" handoff="…" from="@smith" due="…" attempt="1">
//	REASON
//	</decklog-call>
//	@smith drives this thread and offers you its work. Nothing moves until you accept.
//	decklog handoff accept …
//	decklog handoff decline … --reason "why"
//	decklog thread …
func (c Call) show(s style, _ int) string {
	const name = "decklog-call"
	text, clipped := s.escape(c.Text), false
	if EncodedLen(text) > callTextMax {
		text, clipped = s.clip(c.Text, callTextMax)+"\n"+s.margin+ellipsis, true
	}
	var lines []string
	switch attributes := c.attributes(clipped); {
	case c.Redacted:
		lines = append(lines, s.beginTag(name, attributes...), s.margin+"[redacted]", s.endTag(name))
	case text != "":
		lines = append(lines, s.beginTag(name, attributes...), s.margin+text, s.endTag(name))
	default:
		lines = append(lines, s.emptyTag(name, attributes...))
	}
	lines = append(lines, c.Says())
	lines = append(lines, c.Commands()...)
	if c.Attempt > 1 {
		lines = append(lines, "This is a repeat: if you have acted on it already, do nothing.")
	}
	return strings.Join(lines, "\n")
}

func (c Call) attributes(clipped bool) []attribute {
	item, kind, since := CallItem{}, "", ""
	due := (*events.Time)(nil)
	if len(c.Items) == 1 {
		item = c.Items[0]
		kind, since, due = string(item.Kind), item.Since.String(), item.Due
	}
	by := ""
	if due != nil {
		by = due.String()
	}
	nudge := ""
	if c.Nudge > 0 {
		nudge = fmt.Sprint(c.Nudge)
	}
	return []attribute{
		{"what", string(c.What)},
		{"thread", string(c.Thread)},
		{"to", string(c.To)},
		{"from", string(c.From)},
		{"by", string(c.By)},
		{"handoff", string(c.Handoff)},
		{"review", string(c.Review)},
		{"commit", c.Commit},
		{"item", item.ID},
		{"kind", kind},
		{"creditor", string(item.Creditor)},
		{"since", since},
		{"due", by},
		{"nudge", nudge},
		{"reason", c.Reason},
		{"link", c.Link},
		{"attempt", attempt(c.Attempt)},
		{"redacted", flag(c.Redacted)},
		{"clipped", flag(clipped)},
	}
}

// Says is the call in a sentence. It holds nothing that somebody wrote.
func (c Call) Says() string {
	from := plain(c.From)
	switch c.What {
	case events.TypeHandoffOffered:
		return from + " drives this thread and offers you its work. Nothing moves until you accept."
	case events.TypeHandoffAccepted:
		return from + " accepted the hand-off and drives this thread now. What you owed in it went along."
	case events.TypeHandoffDeclined:
		return from + " declined the hand-off: nothing moved."
	case events.TypeHandoffClosed:
		if c.Reason == string(events.HandoffLapsed) {
			return "The offer of a hand-off lapsed: another act moved the driver."
		}
		return "The hand-off is closed. That changes no driver."
	case events.TypeRoutingJudged:
		return "A person's mention moves this thread to " + from + ". What you owed in it went along."
	case events.TypeOwedPassed:
		return "What " + from + " owed in this thread you owe now."
	case events.TypeOwedNudged:
		return fmt.Sprintf("Reminder %d: you owe %s.", c.Nudge, c.owed())
	case events.TypeOwedPaged:
		return "The owners are called: " + c.paged() + " A person decides; an agent that reads this tells its user."
	case events.TypeOwedClosed:
		return plain(c.By) + " closed an item of this thread: it is owed no more."
	case events.TypeReviewLabelled:
		says := fmt.Sprintf("%s labelled commit %s: %s, %s. ", from, plain(c.Commit), plain(c.Label), plain(c.Risk))
		if c.Clears {
			return says + "That clears the merge of that commit."
		}
		return says + "That does not clear it: the owners are called."
	}
	return "Something changed in this thread."
}

// owed says what the items are, and to whom they are owed.
func (c Call) owed() string {
	if len(c.Items) == 0 {
		return "something in this thread"
	}
	i := c.Items[0]
	what := "an answer"
	switch {
	case i.Kind == projections.OwedHandoff && i.Offered:
		what = "an answer to a hand-off"
	case i.Kind == projections.OwedHandoff:
		what = "the work of a hand-off, until it is closed,"
	case i.Kind == projections.OwedReview:
		what = "a review"
	}
	return what + " to " + plain(i.Creditor) + " since " + i.Since.String()
}

// paged says why the owners are called, and which seat holds it.
func (c Call) paged() string {
	holds := plain(c.From) + " owes " + c.owed()
	switch events.PageReason(c.Reason) {
	case events.PageReminded:
		return holds + ", and reminders did not help."
	case events.PageLate:
		return holds + ", and no label came in time."
	case events.PageVerdict:
		return "a review by " + plain(c.From) + " does not clear its commit."
	case events.PageNobody:
		return "no seat is left that could review a commit of " + plain(c.From) + "."
	case events.PageUnread:
		return holds + ", and the label that was given cannot be read."
	}
	return holds + "."
}

// Commands are the command lines with which the recipient acts on the call, the
// last of which only looks. They can be copied as they are, save what stands in
// capitals or quotes.
func (c Call) Commands() (lines []string) {
	handoff := plain(c.Handoff)
	switch c.What {
	case events.TypeHandoffOffered:
		lines = append(lines, "decklog handoff accept "+handoff, "decklog handoff decline "+handoff+` --reason "why"`)
	case events.TypeOwedPassed, events.TypeOwedNudged:
		for _, i := range c.Items {
			lines = append(lines, i.commands()...)
		}
	case events.TypeOwedPaged:
		for _, i := range c.Items {
			lines = append(lines, "decklog sticker place "+plain(c.Thread)+" SEAT", "decklog owed close "+plain(i.ID)+` --reason "why"`)
		}
	case events.TypeRoutingJudged:
		lines = append(lines, "decklog driver "+plain(c.Thread)+" --why")
	case events.TypeReviewLabelled:
		lines = append(lines, "decklog review check "+plain(c.Thread)+" --commit "+plain(c.Commit))
	}
	return append(lines, "decklog thread "+plain(c.Thread))
}

// commands are those that close the item.
func (i CallItem) commands() []string {
	id := plain(i.ID)
	switch {
	case i.Kind == projections.OwedHandoff && i.Offered:
		return []string{"decklog handoff accept " + id, "decklog handoff decline " + id + ` --reason "why"`}
	case i.Kind == projections.OwedHandoff:
		return []string{"decklog handoff close " + id}
	case i.Kind == projections.OwedReview:
		return []string{"decklog review label " + id + " LABEL RISK"}
	}
	return []string{"decklog send --reply-to " + id + ` -- "your answer"`}
}
