package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/projections"
)

// attributes makes a tag's attributes of names and values.
func attributes(pairs ...string) (list []render.Attribute) {
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, render.Attribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func tag(name string, pairs ...string) string { return render.Tags.Tag(name, attributes(pairs...)) }

func flag(is bool) string {
	if is {
		return "true"
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func moment(t *events.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func due(t *events.Time) string {
	if t == nil {
		return ""
	}
	return ", due " + t.String()
}

func seatOr(name string) string {
	if name == "" {
		return "nobody"
	}
	return "@" + name
}

func driven(d projections.DriverShown) string {
	if d.Seat == nil {
		return "driven by no seat"
	}
	by := *d.Source
	if *d.Detail != by {
		by += ", " + *d.Detail
	}
	return fmt.Sprintf("driven by @%s (%s) since %s", *d.Seat, by, *d.Since)
}

func masked(kinds []events.Masked) (says string) {
	for _, m := range kinds {
		says += fmt.Sprintf("\nmasked: %d × %s", m.Count, m.Kind)
	}
	return says
}

func (c *call) sayReceipt(s commands.SendReceipt) string {
	to := string(s.To.ID)
	if s.To.Session != "" {
		to += " (session " + string(s.To.Session) + ")"
	}
	text := fmt.Sprintf("%s: message %s in thread %s, from %s\nto %s: %s\narrives: %s; expires %s%s\n",
		s.State, s.ID, s.Thread, s.From, to, s.To.Evidence, strings.ReplaceAll(string(s.Arrives), "_", " "), s.Expires, masked(s.Masked))
	if c.claims.Subagent {
		text += subagentNote + "\n"
	}
	if s.ResendOf != "" {
		text += fmt.Sprintf("resend of %s, which was lost\n", s.ResendOf)
	}
	text += s.Says
	if s.Next != "" {
		text += "\nnext: " + s.Next
	}
	return render.Terminal(text)
}

const subagentNote = "You are a subagent: it went out as the session that runs you, and says so; the answer comes to that session."

// previewBytesMax is how much of a message a list shows.
const previewBytesMax = 240

func who(m projections.Shown) []string {
	return []string{"id", string(m.ID), "from", string(m.From), "subagent", flag(m.Subagent), "seat", m.FromSeat, "to", string(m.To), "intent", string(m.Intent), "turn", string(m.Turn), "state", string(m.State), "sent", m.Sent.String()}
}

// gone says why a text is not there; empty when it is.
func gone(m projections.Shown) string {
	switch {
	case m.Deleted != nil:
		return "deleted"
	case m.Redacted:
		return "redacted"
	}
	return ""
}

// sayInbox shows a page, and how many of its messages fit.
func sayInbox(v projections.InboxView, in inboxInput) (text string, shown int) {
	in.Cursor = v.NextCursor
	tail := ""
	if v.NextCursor != "" {
		tail = "\nmore: " + again("decklog_inbox", in)(v.NextCursor)
	}
	whose := "to " + string(v.Participant)
	if in.Sent {
		whose = "from " + string(v.Participant)
	}
	text = fmt.Sprintf("%s %s, newest first, as of position %d; the first line of each\n", plural(len(v.Messages), "message"), whose, v.At)
	left := room(text, tail)
	for _, m := range v.Messages {
		pairs := append(who(m), "thread", string(m.Thread), "reply_to", string(m.ReplyTo), "reason", string(m.Reason), "gone", gone(m))
		line, _ := render.Tags.Shown("decklog-shown", attributes(pairs...), m.Preview, 0, 1200)
		if len(m.Preview) > previewBytesMax {
			line, _ = render.Tags.Shown("decklog-shown", attributes(pairs...), cut(m.Preview, previewBytesMax), 0, 2400)
		}
		if left -= render.EncodedLen(line + "\n"); left < 0 && shown > 0 {
			return text + tail, shown
		}
		text += line + "\n"
		shown++
	}
	return strings.TrimSuffix(text, "\n") + tail, shown
}

// cut shortens a text on a rune.
func cut(s string, bytesMax int) string {
	if len(s) <= bytesMax {
		return s
	}
	return strings.ToValidUTF8(s[:bytesMax], "") + "…"
}

// listMax bounds what a thread lists beside its messages.
const listMax = 12

// sayThread shows a thread in so much room: all of it where that fits; else its
// root and the newest, or from where a cursor or the id of a message says. A
// cursor is a message's id, and the byte of its text to begin with.
func sayThread(v projections.ThreadView, in threadInput, left int) (string, *commands.Refusal) {
	head, tail := sayAround(v)
	left -= render.EncodedLen(head) + render.EncodedLen(tail) + 600 // for how to read on
	on := func(cursor string) string { return again("decklog_thread", in)(cursor) }
	first, from, refused := begin(v, in)
	if refused != nil {
		return "", refused
	}
	var lines []string
	say := func(m projections.ShownInThread, from int) (next int, fits bool) {
		line, next := sayMessage(m, from, left)
		if render.EncodedLen(line) > left || next == from {
			return from, false
		}
		left -= render.EncodedLen(line) + 2
		lines = append(lines, line)
		return next, true
	}
	more := ""
	if first < 0 { // from the root to the newest, what is between left out
		if next, fits := say(v.Messages[0], 0); !fits || next >= 0 {
			first, lines, left = 0, nil, left+render.EncodedLen(strings.Join(lines, ""))
		} else if first = newest(v.Messages, left); first > 1 {
			lines = append(lines, fmt.Sprintf("[%s left out here. Read on: %s]", plural(first-1, "message"), on(string(v.Messages[1].ID))))
		}
	}
	for i := first; i < len(v.Messages); i++ {
		next, fits := say(v.Messages[i], from)
		if !fits || next >= 0 {
			more = string(v.Messages[i].ID)
			if at := max(next, from); at > 0 {
				more += ":" + strconv.Itoa(at)
			}
			more = fmt.Sprintf("\n\n[%s not shown. Read on: %s]", rest(len(v.Messages)-i, at(more)), on(more))
			break
		}
		from = 0
	}
	return head + "\n" + strings.Join(lines, "\n") + more + tail, nil
}

func at(cursor string) bool { return strings.Contains(cursor, ":") }

func rest(n int, part bool) string {
	switch {
	case part && n == 1:
		return "the rest of this message is"
	case part:
		return "the rest of this message and " + plural(n-1, "more") + " are"
	}
	return plural(n, "message") + " are"
}

// begin is the message with which to begin, and the byte of its text; below 0:
// at the root, and then the newest.
func begin(v projections.ThreadView, in threadInput) (first, from int, refused *commands.Refusal) {
	id, place, part := strings.Cut(in.Cursor, ":")
	if in.Cursor == "" {
		for i, m := range v.Messages {
			if i > 0 && string(m.ID) == in.ID && newest(v.Messages, room()-4000) > i {
				return i, 0, nil
			}
		}
		return -1, 0, nil
	}
	if part {
		n, err := strconv.Atoi(place)
		if err != nil || n < 0 {
			return 0, 0, badCursor(in.Cursor)
		}
		from = n
	}
	for i, m := range v.Messages {
		if string(m.ID) == id && from <= len(m.Body) {
			return i, from, nil
		}
	}
	return 0, 0, badCursor(in.Cursor)
}

func badCursor(cursor string) *commands.Refusal {
	return commands.Refuse(commands.BadRequest, "the cursor %.80q names no place here", cursor).
		Better("take the cursor from the answer before, for the same question; or begin without one", "decklog_thread {\"id\":\"THREAD\"}")
}

// newest is the first of the newest messages that fit.
func newest(messages []projections.ShownInThread, left int) int {
	i := len(messages)
	for ; i > 1; i-- {
		line, next := sayMessage(messages[i-1], 0, left)
		if left -= render.EncodedLen(line) + 2; left < 0 || next >= 0 {
			break
		}
	}
	return min(max(i, 1), max(1, len(messages)-1))
}

// sayMessage shows a message from a byte of its text on.
func sayMessage(m projections.ShownInThread, from, left int) (line string, next int) {
	pairs := append(who(m.Shown), "reply_to", string(m.ReplyTo), "edited", moment(m.Edited), "channel", m.Channel, "gone", gone(m.Shown))
	if from > 0 {
		pairs = append(pairs, "from_byte", strconv.Itoa(from))
	}
	after := ""
	for _, ref := range m.Refs {
		after += "\n" + tag("decklog-ref", "address", ref)
	}
	if m.Payload != "" {
		after += "\nSomething came with it: in a shell: decklog thread " + string(m.Thread) + " --json"
	}
	body := m.Body
	if gone(m.Shown) != "" {
		body = ""
	}
	frame, next := render.Tags.Shown("decklog-shown", attributes(pairs...), body, from, left-render.EncodedLen(after))
	return frame + after, next
}

// sayAround is what is said of a thread before and behind its messages.
func sayAround(v projections.ThreadView) (head, tail string) {
	head = fmt.Sprintf("thread %s: %s, %s, as of position %d; %s", v.Thread, v.State, plural(len(v.Messages), "message"), v.At, driven(v.Driver))
	if v.ClosedBy != nil {
		head += fmt.Sprintf("\nclosed by %s with %s at %s", v.ClosedBy.By, v.ClosedBy.Message, v.ClosedBy.Time)
	}
	var lines []string
	for _, h := range v.Handoffs {
		said, _ := render.Tags.Shown("decklog-handoff", attributes("id", string(h.ID), "from", h.From, "to", h.To, "state", string(h.State), "link", h.Link), cut(h.Reason, 400), 0, 1500)
		lines = append(lines, said)
	}
	for _, r := range v.Reviews {
		lines = append(lines, tag("decklog-review", "id", string(r.ID), "commit", r.Commit, "reviewer", r.Reviewer, "label", string(r.Label), "risk", string(r.Risk), "clears", flag(r.Clears)))
	}
	if v.Card != nil {
		lines = append(lines, tag("decklog-card", "message", string(v.Card.Message), "driver", v.Card.Driver, "work", v.Card.Work, "status", string(v.Card.Status), "subject", v.Card.Subject))
	}
	for _, a := range v.Acks {
		lines = append(lines, tag("decklog-ack", "message", string(a.Message), "by", string(a.By), "ack", string(a.Ack)))
	}
	for _, p := range v.Pending {
		lines = append(lines, "pending: "+render.Terminal(p.Who())+" is writing "+string(p.Message)+", waited for until "+p.Until.String())
	}
	for _, o := range v.Owed {
		lines = append(lines, owedTag(o))
	}
	if n := len(v.Refusals); n > 0 {
		lines = append(lines, plural(n, "command")+" in this thread refused, the last: "+v.Refusals[n-1].Code+" of "+string(v.Refusals[n-1].By))
	}
	if len(lines) > listMax {
		lines = append(lines[:listMax], fmt.Sprintf("[%d more of hand-offs, reviews, acks and what is owed: in a shell: decklog thread %s]", len(lines)-listMax, v.Thread))
	}
	if len(lines) > 0 {
		tail = "\n\n" + strings.Join(lines, "\n")
	}
	return head, tail
}

func (c *call) sayWaited(w ops.Waited, in waitInput) string {
	if !c.believed && strings.HasPrefix(w.Text, "<decklog-instruction") {
		w.Text = "[What the instruction says is brought to you, you fetch with decklog_wait.]\n" + w.Text
	}
	switch {
	case w.TimedOut && !c.believed:
		return "still pending: it did not come within " + plural(in.Seconds, "second") + ". Go on with other work, and call this again later."
	case w.TimedOut:
		return "still pending: it did not come within " + plural(in.Seconds, "second") + ". Go on with other work, since it will come by itself; or wait again."
	case w.Text != "" && len(w.Messages)+len(w.Notices)+len(w.Calls) == 0:
		return w.Text + "\n\nNothing else yet: call decklog_wait again."
	case w.Text != "":
		return w.Text
	}
	text := plural(len(w.Messages), "message")
	if len(w.Messages) == 0 {
		return "it is so already; nothing new came"
	}
	left := room(text) - 300
	for _, m := range w.Messages {
		line, next := sayMessage(projections.ShownInThread{Shown: m}, 0, left)
		if left -= render.EncodedLen(line) + 2; left < 0 || next >= 0 {
			return text + "\n[There is more. Read on: " + `decklog_thread {"id":` + quoted(string(m.ID)) + "}]"
		}
		text += "\n" + line
	}
	return text
}

func sayTurn(t ops.TurnAnswer, in turnInput) string {
	text := strings.ReplaceAll(string(t.Verdict), "_", " ")
	if t.Until != nil {
		text += " until " + t.Until.String()
	}
	text += ": " + inTools(t.Says)
	for i, p := range t.Pending {
		if i == listMax {
			text += fmt.Sprintf("\n%d more are pending", len(t.Pending)-i)
			break
		}
		text += fmt.Sprintf("\npending: %s is writing %s, waited for until %s", p.Who(), p.Message, p.Until)
	}
	if t.Tell != "" {
		text += "\ntell: " + t.Tell
	}
	if t.Waits() {
		text += "\nnext: " + `decklog_turn {"thread":` + quoted(string(t.Thread)) + `,"block":true}`
	}
	return render.Terminal(text)
}

func sayDriver(v projections.DriverView, why bool) string {
	text := fmt.Sprintf("thread %s: %s", v.Thread, driven(v.Driver))
	if why {
		for _, w := range v.Why {
			text += fmt.Sprintf("\n  %d  %s  %s by %s: %s", w.Position, w.Time, w.Type, w.By, w.Says)
		}
	}
	if v.Amend != nil {
		text += fmt.Sprintf("\nThe area rule said %s, and a person %s: perhaps the content map should send such roots there.", v.Amend.From, v.Amend.To)
	}
	return render.Terminal(text)
}

// entry is one line of a list, under the id by which one reads on behind it.
type entry struct {
	id, line string
	data     any
}

// listing is a list of which as much is shown as fits.
type listing struct {
	head    string
	name    string // of the data
	at      events.Position
	entries []entry
}

func sayPeers(v projections.PeersView) listing {
	l := listing{head: fmt.Sprintf("%s, as of position %d", plural(len(v.Peers), "session"), v.At)}
	for _, p := range v.Peers {
		presence := "gone"
		if p.Live {
			presence = "live, idle"
			if p.Busy {
				presence = "live, busy"
			}
		}
		l.entries = append(l.entries, entry{id: string(p.Session), line: tag("decklog-peer", "session", string(p.Session), "seat", seatName(p.Seat), "person", p.Person,
			"harness", p.Harness, "presence", presence, "repo", p.Repo, "cwd", p.Cwd, "branch", p.Branch, "title", p.Title, "machine", p.Device, "waiting", strconv.Itoa(p.Waiting), "evidence", p.Evidence)})
	}
	return l
}

func seatName(name string) string {
	if name == "" {
		return ""
	}
	return "@" + name
}

func sayOwed(v projections.OwedView) listing {
	l := listing{head: fmt.Sprintf("%s, oldest first, as of position %d", plural(len(v.Items), "open item"), v.At), name: "items", at: v.At}
	for _, o := range v.Items {
		l.entries = append(l.entries, entry{id: o.ID, line: owedTag(o), data: o})
	}
	return l
}

func owedTag(o projections.OwedShown) string {
	nudges := ""
	if o.Nudges > 0 {
		nudges = strconv.Itoa(o.Nudges)
	}
	old := (time.Duration(o.Age) * time.Millisecond).Truncate(time.Second).String()
	return tag("decklog-owed", "id", o.ID, "kind", string(o.Kind), "thread", string(o.Thread), "debtor", string(o.Debtor), "creditor", string(o.Creditor),
		"since", o.Since.String(), "age", old, "due", moment(o.Due), "nudges", nudges, "paged", moment(o.Paged), "state", o.State)
}

// list shows a list behind a cursor.
func list(l listing, cursor string, on func(string) string) (answer, error) {
	from := 0
	if cursor != "" {
		for from = 1; from <= len(l.entries) && l.entries[from-1].id != cursor; from++ {
		}
		if from > len(l.entries) {
			return refuse(badCursor(cursor)), nil
		}
	}
	text, data := l.head, []any{}
	left := room(text) - 400 // for how to read on, and what is around the data
	for i, e := range l.entries[from:] {
		taken := render.EncodedLen("\n" + e.line)
		if l.name != "" {
			item, _ := json.Marshal(e.data)
			taken += len(item) + 1
		}
		if left -= taken; left < 0 {
			next := l.entries[from+i-1].id
			text += fmt.Sprintf("\n[%d more. Read on: %s]", len(l.entries)-from-i, on(next))
			return l.answer(text, data, next), nil
		}
		text += "\n" + e.line
		data = append(data, e.data)
	}
	return l.answer(text, data, ""), nil
}

func (l listing) answer(text string, data []any, next string) answer {
	if l.name == "" {
		return answer{text: text}
	}
	return answer{text: text, data: map[string]any{l.name: data, "at": l.at, "next_cursor": next}}
}

// again writes the call that reads on: the same input, with another cursor.
func again(tool string, in any) func(cursor string) string {
	return func(cursor string) string {
		var fields []string
		v := reflect.ValueOf(in)
		for i, f := range fieldsOf(v.Type()) {
			value := v.Field(i)
			switch {
			case f.name == "cursor":
				fields = append(fields, quoted(f.name)+":"+quoted(cursor))
			case !value.IsZero():
				text, _ := json.Marshal(value.Interface())
				fields = append(fields, quoted(f.name)+":"+string(text))
			}
		}
		return tool + " {" + strings.Join(fields, ",") + "}"
	}
}
