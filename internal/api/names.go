package api

import (
	"reflect"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/projections"
)

// naming is a type as the document calls it, and what it is.
type naming struct{ name, about string }

// Failure is an error as it is answered.
type Failure struct {
	failure.Failure
	Example string `json:"example,omitempty"`
}

// named are the names of the document's types. They say nothing of Go, so that
// what is moved there changes no client.
var named = map[reflect.Type]naming{
	reflect.TypeFor[Failure]():              {"Error", "Why there is no answer: the request was none, or the machine failed."},
	reflect.TypeFor[commands.Refusal]():     {"Refusal", "Why a command was not admitted, what to do instead, and an example of that. Nothing failed: the same request may be sent again."},
	reflect.TypeFor[commands.Candidate]():   {"Candidate", "One of those whom an address may have meant."},
	reflect.TypeFor[None]():                 {"Done", "It was done, and there is nothing more to say."},
	reflect.TypeFor[Yes]():                  {"Yes", "The answer to a question of yes and no."},
	reflect.TypeFor[ops.Receipt]():          {"Receipt", "What was recorded, and where."},
	reflect.TypeFor[commands.SendReceipt](): {"SendReceipt", "What was sent, to whom, and what to expect of it. A receipt is no reply."},
	reflect.TypeFor[commands.ReceiptTo]():   {"Recipient", "Who gets a message, with the evidence of their presence."},
	reflect.TypeFor[events.Masked]():        {"Masked", "A kind of secret that was masked in a text before it was stored."},
	reflect.TypeFor[ops.EditReceipt]():      {"EditReceipt", "What an edit did."},
	reflect.TypeFor[ops.AckReceipt]():       {"AckReceipt", "The ack that lies on a message."},
	reflect.TypeFor[ops.DrivingReceipt]():   {"DrivingReceipt", "What a command did to a thread, and who drives it now."},
	reflect.TypeFor[Judged]():               {"JudgeReceipt", "A verdict on a mention, and whether anybody was asked for it."},
	reflect.TypeFor[ops.CardReceipt]():      {"CardReceipt", "What a thread's card says now."},
	reflect.TypeFor[ops.ReviewReceipt]():    {"ReviewReceipt", "Who was asked for a review, or that nobody could be."},
	reflect.TypeFor[ops.LabelReceipt]():     {"LabelReceipt", "What was recorded of a reviewer's word."},
	reflect.TypeFor[ops.JoinReceipt]():      {"JoinReceipt", "Who joined, and on which seat."},
	reflect.TypeFor[ops.TurnAnswer]():       {"Turn", "Whether the caller may answer in a thread, and when."},
	reflect.TypeFor[projections.Pending]():  {"Pending", "Somebody whose answer is not finished and is waited for."},

	reflect.TypeFor[projections.InboxView]():     {"Inbox", "A page of what went to somebody, or of what they sent."},
	reflect.TypeFor[projections.Shown]():         {"Message", "A message."},
	reflect.TypeFor[projections.ThreadView]():    {"Thread", "A thread with everything that happened in it."},
	reflect.TypeFor[projections.ShownInThread](): {"ThreadMessage", "A message of a thread, with its deliveries."},
	reflect.TypeFor[projections.DeliveryShown](): {"Delivery", "One time that a message was offered to a mailbox."},
	reflect.TypeFor[projections.RefusalShown]():  {"ThreadRefusal", "A command in a thread that was refused."},
	reflect.TypeFor[projections.AckShown]():      {"Ack", "An ack on a message."},
	reflect.TypeFor[projections.Closing]():       {"Closing", "What closed a thread."},
	reflect.TypeFor[projections.DriverShown]():   {"Driver", "The seat that drives a thread, and by what."},
	reflect.TypeFor[projections.OwedShown]():     {"OwedItem", "An open item: who owes what to whom."},
	reflect.TypeFor[projections.CardShown]():     {"Card", "A thread's card: where the work stands."},
	reflect.TypeFor[projections.ReviewShown]():   {"Review", "A review of one commit."},
	reflect.TypeFor[projections.HandoffShown]():  {"Handoff", "A hand-off of a thread's work from one seat to another."},
	reflect.TypeFor[projections.StickerShown]():  {"Sticker", "A seat's sticker on a thread."},

	reflect.TypeFor[projections.ThreadsView]():   {"Threads", "A page of the threads, the one in which something happened last first."},
	reflect.TypeFor[projections.ThreadLine]():    {"ThreadLine", "A thread as a list shows it."},
	reflect.TypeFor[projections.TurnShown]():     {"TurnState", "Who is writing in a thread and is waited for."},
	reflect.TypeFor[projections.HandoffOpen]():   {"OpenHandoff", "The hand-off of a thread that is offered or accepted."},
	reflect.TypeFor[projections.MailboxesView](): {"Mailboxes", "In whose mailboxes something waits, who sits on which seat, and the persons."},
	reflect.TypeFor[projections.MailboxLine]():   {"Mailbox", "A mailbox, and what is known of its owner."},
	reflect.TypeFor[projections.LeaseShown]():    {"OpenLease", "The lease that is open on a mailbox."},
	reflect.TypeFor[projections.SeatLine]():      {"SeatLine", "A seat, and who sits on it."},
	reflect.TypeFor[projections.Because]():       {"Because", "An event that decides something, and what it says of it."},
	reflect.TypeFor[projections.PersonLine]():    {"PersonLine", "A person, with the sessions that are theirs."},
	reflect.TypeFor[projections.RefusalsView]():  {"Refusals", "How often commands were refused, and a page of the refusals, the latest first."},
	reflect.TypeFor[projections.RefusalCount]():  {"RefusalCount", "How often there was a code."},
	reflect.TypeFor[projections.RefusalLine]():   {"RecordedRefusal", "A refusal as it was recorded."},
	reflect.TypeFor[projections.HealthView]():    {"Health", "How the ledger stands."},
	reflect.TypeFor[projections.ClusterView]():   {"Cluster", "How far a machine is behind the cluster that the ledger lies in."},
	reflect.TypeFor[projections.ThreadCounts]():  {"ThreadCounts", "How many threads there are."},
	reflect.TypeFor[projections.OwedCount]():     {"OwedCount", "How many items of a kind are open."},
	reflect.TypeFor[projections.PolicyPlace]():   {"PolicyPlace", "Where the policy in force was adopted."},
	reflect.TypeFor[projections.DriverView]():    {"ThreadDriver", "Who drives a thread, and which events decide it."},
	reflect.TypeFor[projections.Amend]():         {"Amend", "What the policy's areas suggest for a thread."},
	reflect.TypeFor[projections.OwedView]():      {"Owed", "The open items, oldest first."},
	reflect.TypeFor[projections.PeersView]():     {"Peers", "Who is here."},
	reflect.TypeFor[projections.Peer]():          {"Peer", "A session, with the evidence of its presence."},
	reflect.TypeFor[projections.Waiting]():       {"WaitingMail", "How many messages wait in a mailbox."},
	reflect.TypeFor[projections.Session]():       {"Session", "A session as the ledger knows it."},

	reflect.TypeFor[ops.MomentView]():     {"Moment", "The position that a moment has."},
	reflect.TypeFor[ops.BodiesView]():     {"Texts", "The texts beside events, in the order of the request."},
	reflect.TypeFor[ops.BodyShown]():      {"TextOfEvent", "The text beside an event."},
	reflect.TypeFor[ops.CheckView]():      {"ReviewCheck", "Whether a label clears a commit."},
	reflect.TypeFor[ops.Waited]():         {"Came", "What came to one who waits."},
	reflect.TypeFor[ops.LeasedMessage]():  {"LeasedMessage", "A message that a lease offers."},
	reflect.TypeFor[ops.LeasedNotice]():   {"LeasedNotice", "A notice that an own message was lost."},
	reflect.TypeFor[ops.LeasedCall]():     {"LeasedCall", "Something that happened and calls on the caller, without being a message."},
	reflect.TypeFor[ops.WaitingView]():    {"Waiting", "What waits for the caller, without anything that anybody wrote."},
	reflect.TypeFor[ops.WaitingCall]():    {"WaitingCall", "A call that waits."},
	reflect.TypeFor[ops.WaitingMessage](): {"WaitingMessage", "A message that its recipient does not see by itself."},
	reflect.TypeFor[ops.StatusView]():     {"Status", "What a status line tells of a participant."},
	reflect.TypeFor[ops.EventShown]():     {"Event", "A recorded event."},
	reflect.TypeFor[events.Cause]():       {"Cause", "The command, and the event, that an event follows from."},
	reflect.TypeFor[ops.PolicyInForce]():  {"PolicyInForce", "The policy in force, and where it was adopted."},
	reflect.TypeFor[ops.Audited]():        {"Audit", "Whether the ledger is as it was written."},
	reflect.TypeFor[ops.Fault]():          {"Fault", "One thing that is not as it was written."},
	reflect.TypeFor[ops.Rebuilt]():        {"Rebuilt", "What the views are, folded anew."},
	reflect.TypeFor[ops.Examined]():       {"Examined", "What a look at the end of the ledger tells of its health. For decklog doctor."},
	reflect.TypeFor[ops.Heard]():          {"Heard", "When a harness was last heard of."},
	reflect.TypeFor[commands.Caller]():    {"Caller", "Who asks, as decklog found out."},
	reflect.TypeFor[commands.Sought]():    {"Sought", "What a hook printed and nobody found in the transcript yet."},
	reflect.TypeFor[commands.Seen]():      {"Seen", "A message that was found in a transcript."},
	reflect.TypeFor[events.Leased]():      {"LeasedItem", "One thing that a lease offers."},
	reflect.TypeFor[events.Process]():     {"Process", "A process of a machine, told apart from a later one with its number."},

	reflect.TypeFor[Leased]():       {"Lease", "A lease: what to print, and what to quote when it is printed. An empty id says that there is nothing."},
	reflect.TypeFor[WaitLine]():     {"WaitLine", "One line of a wait: what came, or how it ended."},
	reflect.TypeFor[Woken]():        {"Woken", "What waits for an idle session."},
	reflect.TypeFor[PositionView](): {"Position", "The position of the last event."},
	reflect.TypeFor[StandingView](): {"Standing", "How a session stands, and the policy in force."},
	reflect.TypeFor[GiveView]():     {"MayGive", "Whom a token is to name that may be given out."},
	reflect.TypeFor[SoughtView]():   {"SoughtList", "What is sought in a session's transcript."},

	reflect.TypeFor[events.Policy]():   {"Policy", "What a ledger's people agreed on: seats, persons, areas and limits."},
	reflect.TypeFor[events.Limits]():   {"PolicyLimits", "The policy's bounds."},
	reflect.TypeFor[events.Sessions](): {"PolicySessions", "Which sessions take no part."},
	reflect.TypeFor[events.Seat]():     {"PolicySeat", "A seat of the policy."},
	reflect.TypeFor[events.Person]():   {"PolicyPerson", "A person of the policy."},
	reflect.TypeFor[events.Area]():     {"PolicyArea", "Words by which a thread belongs to a seat."},
	reflect.TypeFor[events.Alert]():    {"PolicyAlert", "A channel of alerts, and who triages it."},
	reflect.TypeFor[events.Routing]():  {"PolicyRouting", "Who judges whether a mention moves a thread."},
}

// answering are the fields of answers, each by its name, or by "Type.name" where a
// type's own differs.
var answering = map[string]string{
	"at": "The position of the ledger up to which this is so.", "position": "The position in the ledger, counted from 1.", "next_cursor": "cursor of the next page; empty: this is the last.",
	"id": "Its id.", "thread": "The thread's id.", "message": "The message's id.", "lease": "The lease's id.", "session": "The session's id.", "event": "The event's id.",
	"seat": "The seat's name, without its @.", "from": "Who sent it.", "to": "Who it went to.", "from_seat": "The seat that its author occupied.",
	"says": "What this means, in a sentence or two for the caller.", "sent": "When it was sent.", "expires": "When it expires, if nobody takes it until then.",
	"state": "Where it stands.", "turn": "working: its author is still writing it; final: it is whole.", "intent": "What its author expects: request an answer, inform none, done closes.",
	"kind": "What it is.", "reply_to": "The message that it answers; empty: none.", "is_reply": "It answers a message of its recipient.",
	"preview": "The first line of its text.", "body": "Its text; empty where that is gone.", "refs": "Addresses of passages.", "mentions": "The seats that it mentions.",
	"channel": "Of an alert: where it came from.", "redacted": "Its text was taken back.", "subagent": "A subagent of its session sent it.", "harness": "The harness of the session.",
	"attempt": "How often it was offered, this time included.", "deleted": "When it was taken back; null: it was not.", "edited": "When it was edited last; null: never.",
	"resend_of": "The message that was lost and is sent again with this one.", "answered_over": "Whose pending answers it was sent over.",
	"reason": "Why.", "verdict": "The verdict on its mention; empty: nobody judged.", "masked": "What was masked in the text before it was stored.",
	"time": "When it was recorded.", "by": "Who did it.", "why": "Why it is so.", "driver": "Who drives the thread.", "commit": "The commit's hash.", "label": "The reviewer's word; empty: none yet.",
	"risk": "The risk of merging it; empty: none was given.", "due": "When it is due; null: never.", "paged": "The owners who were called.",
	"live": "It is there, as far as the evidence says.", "busy": "It is at work.", "evidence": "What shows whether it is there.", "evidence_age_ms": "How old the evidence is, in milliseconds; null: there is none.",
	"code": "What kind of refusal or failure it is. Codes are part of the API; the words around them are not.", "status": "The HTTP status that the code has.", "fix": "What to do instead.",
	"example": "What that may look like.", "counted": "How many more it stands for; 0: it is one.", "total": "Of all that were recorded, and of those that were only counted.",
	"type": "The event's type.", "version": "The version of the event's form.", "stream": "The stream that it lies in.", "revision": "Its place in its stream.", "actor": "Who did it.", "data": "What happened, in the form of its type.",
	"digest": "SHA-256, in hex.", "pending": "Whose answers are not finished and are waited for.", "until": "Until when.", "debtor": "Who owes it.", "creditor": "To whom it is owed.", "since": "Since when it is so.",
	"age_ms": "How long it is open, in milliseconds.", "nudges": "How often its debtor was reminded.", "nudged": "When its debtor was reminded last; null: never.",
	"waiting": "How many messages wait in the mailbox.", "owed": "What is owed.", "undelivered": "How many copies were lost.", "overdue": "How many of these are past their time.",
	"open": "How many are open.", "done": "How many are done.", "count": "How often.", "text": "The text.", "gone": "It was taken back, or there never was one.",
	"participants": "Who takes part.", "MayGive.participant": "Whom it is to name; empty where one is taken back.", "person": "The person, without an @.", "occupant": "The session that sits on it; empty: none.", "known": "The policy in force has it.",
	"Refusal.message": "What is wrong.", "Error.message": "What is wrong.", "ThreadRefusal.message": "What was wrong.", "RecordedRefusal.message": "What was wrong.",
	"Refusal.count": "How many there are, where a bound was reached.", "limit": "The bound.", "free": "When it is worth trying again.", "candidates": "Whom the address may have meant.", "message_id": "The message that it is about.",
	"Card.status": "Where the work stands.", "CardReceipt.status": "Where the work stands.", "Card.driver": "The seat that the card names.", "work": "Whose work it is.", "subject": "What the work is about.", "posted": "The card is new; else it was edited.",
	"SendReceipt.to": "Who gets it, with the evidence of their presence.", "arrives": "When the recipient will see it.", "next": "Of a request: what to do now; else empty.", "closes": "It closes the thread.",
	"Turn.verdict": "answer: do; wait: for what is pending; hold: for those who come first; judge: answer if it needs one; stay_out: do not.", "whether": "The same without regard to pending answers.",
	"Turn.ack": "An ack goes on the message before the wait.", "tell": "Whose answer is pending and waited for no more; empty: nobody's.", "reread": "With block: the thread as the verdict found it.",
	"clear": "The label clears the commit.", "clears": "The label clears the commit.", "late": "It came after its time.", "reviewer": "The seat that is asked; empty: none is left.",
	"Lease.id": "The lease's id, to be quoted when it was printed; empty: there is nothing to lease.", "Lease.text": "What is to be printed.", "busy_until": "Another lease runs until then.",
	"began": "Where the wait began: since of who asks again.", "came": "What came.", "WaitLine.ended": "How the wait ended.", "timed_out": "It did not come in time.", "Came.lease": "What to confirm once it was printed; empty: nothing.",
	"ok": "It is as it was written.", "checked": "How many events were read.", "faults": "What is not; at most 100.", "Audit.digest": "SHA-256 of all rows of the views, in hex, as a rebuild gives it; empty when they could not all be compared.", "Audit.events": "SHA-256 of all events with their places, in hex.", "unchanged": "It was so already, and nothing was recorded.",
	"ack": "act: they act on it; no_input: it needs nothing from them.", "ThreadMessage.payload": "What came with an alert.", "deliveries": "How it was offered, and what came of it.", "messages": "The messages.",
	"ThreadLine.messages": "How many were sent.", "ThreadLine.owed": "How many items are open.", "Status.owed": "How many items they owe.", "Status.due": "How many of these are past their time.", "Status.waiting": "How many messages their inbox lists as queued.",
	"again": "The bound of a request was over before anything came: ask again.", "asked": "When it was asked for.", "JudgeReceipt.asked": "Somebody was asked.", "yes": "Yes, or no.",
	"Standing.standing": "0: it is here; 1: it has to join again; 2: it ended since; 3: it has to join, and never did.",
	"Candidate.session": "The session's full id, or @name.", "Receipt.id": "The id of what it is about.", "directory": "The session's working directory.", "branch": "The branch that is checked out there.",
	"title": "What the session is called. It is no address.", "cwd": "The session's working directory.", "repo": "The repository that this lies in.",
}

// aboutAnswer is what the document says of an answer's field; empty: nothing.
func aboutAnswer(of, name string) string {
	if says := answering[of+"."+name]; says != "" {
		return says
	}
	return answering[name]
}
