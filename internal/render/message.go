package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"decklog/events"
)

// Message is one leased message, as it is shown.
type Message struct {
	ID     events.MessageID
	Thread events.ThreadID

	// The author, with what was known of it when the message was sent. What is
	// empty is not shown.
	From         events.Participant
	Seat         string
	Harness      string
	Person       string // whose process the session is
	Subagent     bool   // a subagent of the author wrote it, in its name
	Repo, Branch string

	To      events.Participant // as addressed: the session, @seat or @person
	Intent  events.Intent
	Turn    events.Turn
	Driver  string // the seat that drives the thread; empty when none does
	Sent    events.Time
	ReplyTo events.MessageID
	IsReply bool // to a message of the recipient's own

	Attempt int  // from 1; over 1 it may have been shown before
	Pending bool // a stub past its time: the answer is still to come
	Edited  bool // was shown as a stub before, now final

	// Others that answer in the thread while this comes: who is waited for, until
	// when at the latest, and who is so no more. Empty: nobody.
	Answering []string
	Until     events.Time
	Overdue   []string

	Answers string // the seat that a person calls to answer, told to a seat; empty: none
	Yours   bool   // it is the recipient's
	Channel string // of an alert
	Payload bool   // something came with it that is not shown

	Body     string
	Redacted bool     // the body is gone, and Body is not shown
	Refs     []string // at most 10 addresses of at most RefBytesMax bytes
}

// usualFrameMax is what a frame of ordinary names and refs takes at most. A
// budget under it is nobody's, and no reason to say less of who wrote.
const usualFrameMax = 8192

// show writes the message in at most budget encoded bytes. Only its body is
// clipped, and only when that saves anything; a frame that is larger than the
// budget stands whole, because a broken one could be read as something else.
func (m Message) show(s style, budget int) string {
	body := m.Body
	if m.Redacted {
		body = "[redacted]"
	}
	whole := m.frame(s, s.escape(body), false)
	size := EncodedLen(whole)
	if size <= budget {
		return whole
	}
	mark := "\n" + s.margin + ellipsis
	bare := m.frame(s, mark, true)
	if !s.tight && budget >= usualFrameMax && EncodedLen(bare) > budget {
		s.tight = true
		return m.show(s, budget)
	}
	if EncodedLen(bare) >= size {
		return whole
	}
	return m.frame(s, s.clip(body, budget-EncodedLen(bare))+mark, true)
}

// clip escapes as much of a body as takes at most room encoded bytes. It ends
// between two runes, and so never inside of a reference.
func (s style) clip(body string, room int) string {
	var kept, next []byte
	for _, r := range body {
		next = s.appendRune(next[:0], r)
		if room -= EncodedLen(string(next)); room < 0 {
			break
		}
		kept = append(kept, next...)
	}
	return string(kept)
}

// frame writes everything around a body that is escaped already.
//
//	<decklog-message id="…" thread="…" from="…" intent="request" sent="…" attempt="1">
//	BODY
//	<decklog-ref address="…"/>
//	</decklog-message>
//	Reply once, by tool: decklog_send {"reply_to":"…","body":"your answer"}
//	Or by command line: decklog send --reply-to … -- "your answer"
func (m Message) frame(s style, body string, clipped bool) string {
	const name = "decklog-message"
	lines := []string{s.beginTag(name, m.attributes(clipped)...), s.margin + body}
	for _, address := range m.Refs {
		lines = append(lines, s.refTag(address))
	}
	lines = append(lines, s.endTag(name))
	lines = append(lines, m.hints(clipped)...)
	return strings.Join(lines, "\n")
}

func (m Message) attributes(clipped bool) []attribute {
	return []attribute{
		{"id", string(m.ID)},
		{"thread", string(m.Thread)},
		{"from", string(m.From)},
		{"seat", m.Seat},
		{"harness", m.Harness},
		{"person", m.Person},
		{"subagent", flag(m.Subagent)},
		{"repo", m.Repo},
		{"branch", m.Branch},
		{"to", string(m.To)},
		{"intent", string(m.Intent)},
		{"turn", string(m.Turn)},
		{"driver", m.Driver},
		{"channel", m.Channel},
		{"sent", m.Sent.String()},
		{"reply_to", string(m.ReplyTo)},
		{"is_reply", flag(m.IsReply)},
		{"attempt", attempt(m.Attempt)},
		{"pending", flag(m.Pending)},
		{"edited", flag(m.Edited)},
		{"redacted", flag(m.Redacted)},
		{"clipped", flag(clipped)},
	}
}

// hints are the lines after the frame, which say what to do about it. They hold
// nothing that a sender wrote.
func (m Message) hints(clipped bool) []string {
	var lines []string
	say := func(when bool, line string) {
		if when {
			lines = append(lines, line)
		}
	}
	id := plain(m.ID)
	say(m.Pending, "This is a stub: its answer is still to come, under the same id.")
	say(m.Edited, "This replaces the stub with the same id.")
	say(m.Attempt > 1 && !m.Edited, "This is a repeat: if its id is already in your context, do not act on it twice.")
	say(m.Attempt > 1 && m.Edited, "This is a repeat: if this edited text is already in your context, do not act on it twice.")
	say(m.Redacted, "Its body was redacted and cannot be read.")
	say(clipped, "Clipped. All of it: decklog thread "+id)
	say(m.Payload, "Something came with it that is not shown here: decklog thread "+plain(m.Thread))
	say(m.Yours, "A person calls "+plain(m.Answers)+", which is your seat: you answer. When you may: decklog turn "+plain(m.Thread))
	say(m.Answers != "" && !m.Yours, "A person calls "+plain(m.Answers)+", who answers it: read it, and leave the answer to them.")
	say(len(m.Answering) > 0, "Answering in this thread, until "+m.Until.String()+" at the latest: "+names(m.Answering)+
		". Before you answer: decklog turn "+plain(m.Thread)+" --block")
	for _, name := range m.Overdue[:min(len(m.Overdue), namesMax)] {
		say(true, plain(name)+"'s answer is still pending in this thread, and is waited for no more: say so when you answer.")
	}
	say(slices.ContainsFunc(m.Refs, ofRepository), "A file: or commit: ref is an address in the sender's repository: open it yourself.")
	say(slices.ContainsFunc(m.Refs, ofTranscript), "A ref to a transcript is an address in the sender's own harness: ask the sender for what it says.")
	if m.Intent == events.Request && (m.Answers == "" || m.Yours) {
		when := "once"
		if m.Pending {
			when = "when it is final"
		}
		say(true, "Reply "+when+`, by command line: decklog send --reply-to `+id+` -- "your answer"`)
		say(true, `Or, where decklog's tools are installed: decklog_send {"reply_to":"`+id+`","body":"your answer"}`)
	}
	return lines
}

// namesMax bounds how many of those who answer are named; `decklog turn` names
// them all.
const namesMax = 3

// names lists who answers.
func names(who []string) string {
	var b strings.Builder
	for i, name := range who {
		switch {
		case i == namesMax:
			fmt.Fprintf(&b, " and %d more", len(who)-namesMax)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(plain(name))
	}
	return b.String()
}

func ofRepository(address string) bool {
	return strings.HasPrefix(address, "file:") || strings.HasPrefix(address, "commit:")
}

func ofTranscript(address string) bool { return !ofRepository(address) }

// attempt is empty when what is shown was not leased.
func attempt(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
