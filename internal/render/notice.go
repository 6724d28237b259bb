package render

import (
	"strings"

	"decklog/events"
)

// Notice tells a sender that its message was lost, as it is shown. It holds no
// word that anybody wrote.
type Notice struct {
	Message events.MessageID
	Thread  events.ThreadID
	To      events.Participant
	Reason  events.LostReason
	Sent    events.Time // when the lost message was
	Attempt int         // of the notice
}

// show writes the notice, whole whatever the budget.
//
//	<decklog-notice message="…" thread="…" to="…" reason="expired" sent="…" attempt="1"/>
//	Your message was not delivered: nobody took it within its time.
//	Its text: decklog thread …
//	If it still matters, send it again; the lost copy makes it no duplicate: decklog send --to … -- TEXT
func (n Notice) show(s style, _ int) string {
	reason, says := n.loss()
	id := plain(n.Message)
	lines := []string{
		s.emptyTag("decklog-notice",
			attribute{"message", string(n.Message)},
			attribute{"thread", string(n.Thread)},
			attribute{"to", string(n.To)},
			attribute{"reason", reason},
			attribute{"sent", n.Sent.String()},
			attribute{"attempt", attempt(n.Attempt)}),
		says,
		"Its text: decklog thread " + id,
		"If it still matters, send it again; the lost copy makes it no duplicate: decklog send --to " + plain(n.To) + " -- TEXT",
	}
	if n.Attempt > 1 {
		lines = append(lines, "This is a repeat: if you have acted on this notice already, do nothing.")
	}
	return strings.Join(lines, "\n")
}

// loss is the reason in the vocabulary of notices, and its sentence. A reason
// of a newer program is not repeated, so that nothing else can get in that way.
func (n Notice) loss() (reason, says string) {
	switch n.Reason {
	case events.LostUnconfirmed:
		return string(n.Reason), "Your message was offered to its recipient, and never confirmed as printed: it may have been seen all the same."
	case events.LostSessionEnded:
		return string(n.Reason), "Your message was not delivered: its recipient's session ended and was not resumed in time."
	case events.LostExpired:
		return string(n.Reason), "Your message was not delivered: nobody took it within its time."
	}
	return "undelivered", "Your message was not delivered."
}
