package mcp

import (
	"context"
	"strings"
	"time"

	"decklog/commands"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/internal/workdir"
)

// tools are decklog's tools, in the order in which a newcomer needs them.
func tools() []tool {
	return []tool{
		define(tool{
			name: "decklog_peers", title: "Who is there", readOnly: true,
			about:   "List the sessions that take part, with their seats, directories and branches, and whether each is live and busy. Address a message to a session's full id, or to @seat or @person; a title or branch is no address. The answer is text alone.",
			example: `decklog_peers {"repo":"."}`,
		}, (*call).peers),
		define(tool{
			name: "decklog_send", title: "Send a message", needed: true,
			about:   "Send a message to another session, a seat or a person, or answer one. The first line is all that lists show: put the point there, and write for somebody who knows nothing of your work. The receipt is no reply; the answer comes into your context by itself.",
			away:    "Send a message to another session, a seat or a person, or answer one. The first line is all that lists show: put the point there, and write for somebody who knows nothing of your work. The receipt is no reply; decklog_wait fetches the answer.",
			example: `decklog_send {"to":"SESSION","intent":"request","body":"Which commit fixed the lease test?"}`,
		}, (*call).send),
		define(tool{
			name: "decklog_edit", title: "Edit an own message", idempotent: true,
			about:   "Give an own message another text, or make a stub that you sent with turn working final, which delivers it. A final message stays final, and whoever read the old text is not told.",
			example: `decklog_edit {"message":"MESSAGE","turn":"final","body":"The answer: it was the clock."}`,
		}, (*call).edit),
		define(tool{
			name: "decklog_inbox", title: "Look at the inbox", readOnly: true,
			about:   "List what was sent to you, or with sent what you sent, newest first, with the state of each. Looking takes nothing and marks nothing as read; mail comes by itself, so use this to check a state or find something again. decklog_thread shows whole texts. The answer is text alone.",
			away:    "List what was sent to you, or with sent what you sent, newest first, with the state of each. Looking takes nothing and marks nothing as read: decklog_wait takes what is queued, and this checks a state or finds something again. decklog_thread shows whole texts. The answer is text alone.",
			example: `decklog_inbox {"sent":true}`,
		}, (*call).inbox),
		define(tool{
			name: "decklog_thread", title: "Read a thread", readOnly: true,
			about:   "Show a thread with the whole texts of its messages, who drives it, who is still writing, and what is owed in it. A long one begins with its root and ends with the newest; the answer says how to read what is between. It is text alone.",
			example: `decklog_thread {"id":"MESSAGE"}`,
		}, (*call).thread),
		define(tool{
			name: "decklog_wait", title: "Wait for an answer",
			about:   "Block until an answer comes, or anything for you, and read it: what comes is delivered by this. Only worth it when you have nothing else to do and the receipt said that the recipient is at work. Ends after timeout_seconds; call it again to wait longer.",
			away:    "Take your mail, or with id wait for an answer: blocks until something comes, and delivers it by this. What is there already it gives at once, the oldest first; call it again for the rest. Ends after timeout_seconds.",
			example: `decklog_wait {"id":"MESSAGE"}`,
		}, (*call).wait),
		define(tool{
			name: "decklog_ack", title: "Acknowledge", idempotent: true,
			about:   "Say without a word that you will act on a message, or that it needs nothing from you. An ack is no answer.",
			example: `decklog_ack {"message":"MESSAGE","ack":"act"}`,
		}, (*call).ack),
		define(tool{
			name: "decklog_turn", title: "May I answer?", idempotent: true, weighs: true,
			about:   "Ask whether you may answer in a thread, and when: others may come first, or be writing. With block it acks where that is due, waits, and gives the thread as it then is: read it before you write.",
			example: `decklog_turn {"thread":"THREAD","block":true}`,
		}, (*call).turn),
		define(tool{
			name: "decklog_driver", title: "Who drives", readOnly: true,
			about:   "Say which seat drives a thread, that is, who answers its people and owes its work; with why the events that decide it.",
			example: `decklog_driver {"thread":"THREAD","why":true}`,
		}, (*call).driver),
		define(tool{
			name: "decklog_handoff", title: "Hand work over",
			about:   "Hand the work of a thread to another seat: offer it (only the driver does), accept or decline an offer made to your seat, or close one whose work is done. Nothing moves until it is accepted.",
			example: `decklog_handoff {"do":"offer","thread":"THREAD","to":"trinity","reason":"guest-card delivery is yours"}`,
		}, (*call).handoff),
		define(tool{
			name: "decklog_review", title: "Review a commit",
			about:   "Cross review before a merge: ask another seat for a critique of one commit (the driver does), label one that you were asked for, or check whether a commit is cleared. Only root with low or med clears it.",
			example: `decklog_review {"do":"label","review":"REVIEW","label":"root","risk":"low"}`,
		}, (*call).review),
		define(tool{
			name: "decklog_owed", title: "What is owed", readOnly: true,
			about:   "List open requests, hand-offs and reviews, oldest first, with who owes each to whom, since when, and when it is due. An answer closes a request; silence closes nothing.",
			example: `decklog_owed {"by":"me"}`,
		}, (*call).owed),
	}
}

// readers are the tools that change nothing.
func readers() (names []string) {
	for _, t := range tools() {
		if t.readOnly {
			names = append(names, t.name)
		}
	}
	return names
}

func exampleOf(name string) string {
	for _, t := range tools() {
		if t.name == name {
			return t.example
		}
	}
	return name
}

type sendInput struct {
	To      string   `json:"to" about:"who gets it: a session's full id or a prefix of it of 6 characters or more, or @name of a seat or person; leave it out in a reply"`
	Body    string   `json:"body" need:"y" about:"the text, as it is to be read; mostly at most 4,000 bytes"`
	Intent  string   `json:"intent" enum:"request,inform,done" about:"request expects an answer; inform, the default, expects none; done closes the thread"`
	ReplyTo string   `json:"reply_to" about:"the id of the message that this answers"`
	Refs    []string `json:"refs" about:"up to 10 addresses of passages: file:PATH[:LINE], commit:SHA, or HARNESS:SESSION[/ORDINAL[:LINE]]"`
	Turn    string   `json:"turn" enum:"working,final" about:"working for a stub whose answer is to come by decklog_edit; final is the default"`
	Key     string   `json:"key" about:"your own key for this message: the same again is sent once"`
	Over    bool     `json:"over" about:"answer a person although another's answer is pending; it is recorded"`
}

func (c *call) send(in sendInput) (answer, error) {
	receipt, refused, err := c.ops.Send(ops.SendRequest{
		Asker: c.asker(), To: in.To, ReplyTo: in.ReplyTo, Intent: in.Intent, Turn: in.Turn, Key: in.Key, Body: []byte(in.Body), Refs: in.Refs, Over: in.Over,
	})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	receipt.Next, receipt.Says = c.says(receipt.Next), c.says(receipt.Says)
	data := map[string]any{"receipt": receipt}
	a := answer{text: c.sayReceipt(receipt), data: data}
	if c.claims.Subagent {
		data["note"] = subagentNote
	}
	if receipt.From.Name() == "" {
		return a, nil // only a person moves a thread by a mention
	}
	verdict, asked, refused, err := c.ops.JudgeRouting(context.WithoutCancel(c.ctx), receipt.ID)
	routing := strings.ReplaceAll(verdict.State, "_", " ") + "; " + driven(verdict.Driver)
	switch {
	case err != nil || !asked: // the message is sent; what became of its mention the thread shows
		return a, nil
	case refused != nil:
		routing = refused.Message
	}
	a.text += "\nrouting: " + render.Terminal(routing)
	data["routing"] = routing
	return a, nil
}

type editInput struct {
	Message string  `json:"message" need:"y" about:"the id of your message"`
	Body    *string `json:"body" about:"the new text; left out, the text stays"`
	Turn    string  `json:"turn" enum:"final" about:"final makes a stub final"`
}

func (c *call) edit(in editInput) (answer, error) {
	var body []byte
	if in.Body != nil {
		body = []byte(*in.Body)
	}
	receipt, refused, err := c.ops.Edit(ops.EditRequest{Asker: c.asker(), Message: in.Message, Body: body, Turn: in.Turn})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	return answer{text: "edited: message " + receipt.ID + " is " + string(receipt.Turn) + masked(receipt.Masked), data: map[string]any{"receipt": receipt}}, nil
}

type inboxInput struct {
	Sent   bool   `json:"sent" about:"what you sent, instead of what was sent to you"`
	State  string `json:"state" enum:"queued,held,leased,delivered,read,expired,undelivered,deleted" about:"only messages in this state"`
	Limit  int    `json:"limit" min:"1" max:"200" about:"at most so many; 20 unless you say otherwise, and never more than fit into one answer"`
	Cursor string `json:"cursor" about:"go on after the page that named this cursor, with the same sent and state"`
	At     string `json:"at" about:"as it was at this moment: a position of the ledger, or a time as RFC 3339"`
}

func (c *call) inbox(in inboxInput) (answer, error) {
	q := ops.InboxRequest{As: c.As, Claims: c.claims, Sent: in.Sent, State: in.State, Cursor: in.Cursor, Limit: in.Limit, At: in.At}
	for {
		view, refused, err := c.ops.Inbox(q)
		if refused != nil || err != nil {
			return told(refused, err)
		}
		text, shown := sayInbox(view, in)
		if shown == len(view.Messages) {
			return answer{text: text}, nil
		}
		q.Limit = max(1, shown) // the cursor is behind the last that is shown
	}
}

type threadInput struct {
	ID     string `json:"id" need:"y" about:"the id of the thread or of a message in it, or the first characters of one"`
	Cursor string `json:"cursor" about:"where an answer before said that one reads on"`
	At     string `json:"at" about:"as it was at this moment: a position of the ledger, or a time as RFC 3339"`
}

func (c *call) thread(in threadInput) (answer, error) {
	view, refused, err := c.ops.Thread(ops.ThreadRequest{ID: in.ID, At: in.At})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	text, refused := sayThread(view, in, room())
	if refused != nil {
		return refuse(refused), nil
	}
	return answer{text: text}, nil
}

type waitInput struct {
	ID      string `json:"id" about:"the message whose answer, or the thread in which anything, is waited for; left out: anything for you"`
	For     string `json:"for" enum:"reply,final,any" about:"reply, the default: an answer; final: that it is final; any: anything new in the thread"`
	Seconds int    `json:"timeout_seconds" min:"1" max:"55" about:"how long at most; 45 unless you say otherwise"`
}

func (c *call) wait(in waitInput) (answer, error) {
	if in.Seconds == 0 {
		in.Seconds = waitSeconds
	}
	came, err := c.await(ops.WaitRequest{Asker: c.asker(), ID: in.ID, For: ops.WaitFor(in.For), Once: true}, time.Duration(in.Seconds)*time.Second)
	if came.refused != nil || err != nil {
		return told(came.refused, err)
	}
	return answer{text: c.sayWaited(came.Waited, in), delivery: came.token}, nil
}

type ackInput struct {
	Message string `json:"message" need:"y" about:"the message's id"`
	Ack     string `json:"ack" need:"y" enum:"act,no_input" about:"act: you will act on it; no_input: it needs nothing from you"`
}

func (c *call) ack(in ackInput) (answer, error) {
	receipt, refused, err := c.ops.Ack(ops.AckRequest{Asker: c.asker(), Message: in.Message, Ack: in.Ack})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	says := "acked: you will act on message "
	if in.Ack != "act" {
		says = "acked: it needs nothing from you: message "
	}
	return answer{text: says + string(receipt.Message), data: map[string]any{"receipt": receipt}}, nil
}

type turnInput struct {
	Thread  string `json:"thread" need:"y" about:"the id of the thread, or of a message in it"`
	Message string `json:"message" about:"the message that you would answer; left out, the latest that went to you"`
	Block   bool   `json:"block" about:"ack where that is due, wait until you may, and give the thread as it then is"`
}

func (c *call) turn(in turnInput) (answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, waitSecondsMax*time.Second)
	defer cancel()
	verdict, refused, err := c.ops.Turn(ctx, ops.TurnRequest{Asker: c.asker(), Thread: in.Thread, Message: in.Message, Block: in.Block})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	text := sayTurn(verdict, in)
	if verdict.Reread == nil {
		return fitting(answer{text: text, data: verdict}), nil
	}
	again, refused := sayThread(*verdict.Reread, threadInput{ID: in.Thread}, room(text, "\n\n"))
	if refused != nil {
		return refuse(refused), nil
	}
	return answer{text: text + "\n\n" + again}, nil
}

type peersInput struct {
	Session string `json:"session" about:"only sessions whose id begins so, the ended ones too"`
	Repo    string `json:"repo" about:"only sessions on the repository of this directory"`
	Harness string `json:"harness" about:"only sessions of this harness, as claude-code or codex"`
	Cursor  string `json:"cursor" about:"where an answer before said that one reads on"`
	At      string `json:"at" about:"as it was at this moment: a position of the ledger, or a time as RFC 3339"`
}

func (c *call) peers(in peersInput) (answer, error) {
	repo := in.Repo
	if repo != "" {
		if place := workdir.Of(repo); place.Repo != "" {
			repo = place.Repo
		}
	}
	view, refused, err := c.ops.Peers(ops.PeersRequest{Session: in.Session, Repo: repo, Harness: in.Harness, At: in.At})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	return list(sayPeers(view), in.Cursor, again("decklog_peers", in))
}

type driverInput struct {
	Thread string `json:"thread" need:"y" about:"the id of the thread, or of a message in it"`
	Why    bool   `json:"why" about:"list the events that decide"`
	At     string `json:"at" about:"as it was at this moment: a position of the ledger, or a time as RFC 3339"`
}

func (c *call) driver(in driverInput) (answer, error) {
	view, refused, err := c.ops.Driver(ops.DriverRequest{ID: in.Thread, At: in.At})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	return fitting(answer{text: sayDriver(view, in.Why), data: map[string]any{"thread": view.Thread, "driver": view.Driver, "at": view.At}}), nil
}

type handoffInput struct {
	Do      string `json:"do" need:"y" enum:"offer,accept,decline,close" about:"what to do: offer takes thread, to and reason; the others take handoff"`
	Thread  string `json:"thread" about:"of an offer: the thread whose work is offered"`
	To      string `json:"to" about:"of an offer: the seat that is asked"`
	Reason  string `json:"reason" about:"of an offer, or why one is declined: a line or two"`
	Link    string `json:"link" about:"of an offer: where to read on"`
	Handoff string `json:"handoff" about:"the hand-off's id, to accept, decline or close it"`
}

func (c *call) handoff(in handoffInput) (answer, error) {
	one := ops.HandoffRequest{Asker: c.asker(), Handoff: in.Handoff, Reason: []byte(in.Reason)}
	var do func() (ops.DrivingReceipt, *commands.Refusal, error)
	switch {
	case in.Do == "offer" && (in.Thread == "" || in.To == ""):
		return refuse(misread("decklog_handoff", "an offer names the thread, and in to the seat that is asked")), nil
	case in.Do != "offer" && in.Handoff == "":
		return refuse(misread("decklog_handoff", "handoff is missing: the id of the hand-off to %s", in.Do)), nil
	case in.Do == "offer":
		do = func() (ops.DrivingReceipt, *commands.Refusal, error) {
			return c.ops.OfferHandoff(ops.OfferRequest{Asker: c.asker(), Thread: in.Thread, To: in.To, Reason: []byte(in.Reason), Link: in.Link})
		}
	case in.Do == "accept":
		do = func() (ops.DrivingReceipt, *commands.Refusal, error) { return c.ops.AcceptHandoff(one) }
	case in.Do == "decline":
		do = func() (ops.DrivingReceipt, *commands.Refusal, error) { return c.ops.DeclineHandoff(one) }
	default:
		do = func() (ops.DrivingReceipt, *commands.Refusal, error) { return c.ops.CloseHandoff(one) }
	}
	receipt, refused, err := do()
	if refused != nil || err != nil {
		return told(refused, err)
	}
	text := receipt.State + ": hand-off " + receipt.ID + " in thread " + string(receipt.Thread) + "\n" + driven(receipt.Driver) + "\n" + receipt.Says
	return answer{text: text, data: map[string]any{"receipt": receipt}}, nil
}

type reviewInput struct {
	Do     string `json:"do" need:"y" enum:"ask,label,check" about:"what to do: ask and check take thread and commit; label takes review, label and risk"`
	Thread string `json:"thread" about:"to ask or check: the thread of the work"`
	Commit string `json:"commit" about:"to ask or check: the commit's hash, 7 to 64 hex digits"`
	Author string `json:"author" about:"to ask: who wrote the commit, a seat, @name or any text"`
	To     string `json:"to" about:"to ask: the seat that is asked; left out, the next in order"`
	Review string `json:"review" about:"to label: the review's id"`
	Label  string `json:"label" enum:"root,bandage" about:"to label: does it mend the root, or is it a bandage"`
	Risk   string `json:"risk" enum:"low,med,high" about:"to label: the risk of merging it"`
}

func (c *call) review(in reviewInput) (answer, error) {
	switch {
	case in.Do == "label" && (in.Review == "" || in.Label == "" || in.Risk == ""):
		return refuse(misread("decklog_review", "a label takes review, label and risk")), nil
	case in.Do != "label" && (in.Thread == "" || in.Commit == ""):
		return refuse(misread("decklog_review", "to %s, thread and commit are needed", in.Do)), nil
	case in.Do == "ask":
		receipt, refused, err := c.ops.AskReview(ops.ReviewRequest{Asker: c.asker(), Thread: in.Thread, Commit: in.Commit, Author: in.Author, To: in.To})
		if refused != nil || err != nil {
			return told(refused, err)
		}
		receipt.Says = c.says(receipt.Says)
		text := "asked: review " + receipt.ID + " of commit " + receipt.Commit + " by " + seatOr(receipt.Reviewer) + due(receipt.Due) + "\n" + receipt.Says
		return answer{text: text, data: map[string]any{"receipt": receipt}}, nil
	case in.Do == "label":
		receipt, refused, err := c.ops.LabelReview(ops.LabelRequest{Asker: c.asker(), Review: in.Review, Label: in.Label, Risk: in.Risk})
		if refused != nil || err != nil {
			return told(refused, err)
		}
		text := "labelled: review " + receipt.ID + ": " + string(receipt.Label) + ", " + string(receipt.Risk) + "\n" + receipt.Says
		return answer{text: text, data: map[string]any{"receipt": receipt}}, nil
	}
	view, refused, err := c.ops.CheckReview(ops.CheckRequest{Thread: in.Thread, Commit: in.Commit})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	word := "not clear"
	if view.Clear {
		word = "clear"
	}
	return answer{text: word + ": " + view.Why + "; the thread is " + driven(view.Driver), data: map[string]any{"clear": view.Clear, "why": view.Why, "thread": view.Thread, "driver": view.Driver}}, nil
}

type owedInput struct {
	By     string `json:"by" about:"only what this one owes: me, a session's id, @seat or @person"`
	To     string `json:"to" about:"only what is owed to this one: me, a session's id, @seat or @person"`
	Cursor string `json:"cursor" about:"where an answer before said that one reads on"`
	At     string `json:"at" about:"as it was at this moment: a position of the ledger, or a time as RFC 3339"`
}

func (c *call) owed(in owedInput) (answer, error) {
	view, refused, err := c.ops.Owed(ops.OwedRequest{By: in.By, To: in.To, At: in.At, As: c.As, Claims: c.claims})
	if refused != nil || err != nil {
		return told(refused, err)
	}
	return list(sayOwed(view), in.Cursor, again("decklog_owed", in))
}

// told is the answer to what was refused, or failed.
func told(r *commands.Refusal, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return refuse(r), nil
}
