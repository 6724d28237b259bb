package api

import "decklog/internal/ops"

// What the document says of a request's fields. They stand beside the table and
// not at the types, because one sentence is true of a field wherever it is; where
// it is not, the route has its own, under "route.field".
var asked = map[string]string{
	"as":      "Who acts: a session's id or its first 6 characters or more, @name of a seat or person, or bot:NAME. It must be one that the token may speak for. Left out, it is the one whom the token names.",
	"command": "The command's own UUID, which the client makes: version 7, so that it sorts by its time. The same one again happens once and gets the first receipt again. Left out, the server makes one, and a request that is sent twice happens twice.",
	"at":      "As it was at this moment: a position of the ledger, or a time as RFC 3339. Left out, as it is now.",
	AtLeast:   "The answer must see at least up to this position, such as that of a receipt which another machine's server gave: the server waits for it, 2 seconds at most, and then answers as things stand, with stale. Left out, as things stand.",
	"cursor":  "next_cursor of the page before, with the same question. Left out, the first page.",
	"thread":  "The thread's id, or that of a message in it.",
	"message": "The message's id.",
	"id":      "The id of the thread or of a message in it, or the first characters of one.",

	"send.to":       "Who gets it: a session's full id or a prefix of 6 characters or more, or @name of a seat or person. Left out, a reply goes to the author of what it answers, and what a person begins to the seat that will drive it.",
	"send.reply_to": "The id of the message that this answers.",
	"send.intent":   "request expects an answer; inform expects none; done expects none and closes the thread. Left out, it is inform.",
	"send.turn":     "working is a stub whose answer comes later as an edit of it; final is whole. Left out, it is final.",
	"send.key":      "The sender's own key for this message. The same key again with the same message sends once; it takes the place of command.",
	"send.body":     "The text, as it is to be read; the policy bounds its bytes. The first line is all that lists show.",
	"send.refs":     "Addresses of passages: file:PATH[:LINE], commit:SHA, or HARNESS:SESSION[/ORDINAL[:LINE]].",
	"send.over":     "Answer a person although another's answer is pending. It is recorded.",
	"edit.message":  "The id of the own message.",
	"edit.body":     "The new text. Left out or null, the text stays.",
	"edit.turn":     "final delivers a stub; a message that is final stays it.",

	"delete.message": "The id of the own message.",
	"alert.channel":  "The channel that the alert came from, as the policy names it.",
	"alert.body":     "What is wrong. The first line is all that lists show.",
	"alert.payload":  "What came with the alert, as it came.",
	"ack.ack":        "act: one acts on it; no_input: it needs nothing from one.",
	"turn.message":   "The message that would be answered. Left out, the latest that went to the caller.",
	"turn.block":     "Ack where that is due, wait until the caller may answer, and give the thread as it then is.",
	"within_us":      "How many microseconds the caller waits. Left out, as long as a request may.",

	"inbox.as":    "Whose inbox: a session's id or its first characters, @name of a seat or person. Left out, that of the one whom the token names.",
	"inbox.sent":  "What they sent, instead of what was sent to them.",
	"inbox.state": "Only messages in this state.",
	"limit":       "At most so many.",

	"threads.state":       "Only threads that are open, or done.",
	"threads.seat":        "Only threads that this seat drives, with or without its @.",
	"threads.participant": "Only threads in which this one takes part: a session's full id, @name, or bot:NAME.",
	"threads.text":        "Only threads whose first line holds this, whatever its case.",
	"threads.waiting":     "Only threads in which something is owed, or waits in a mailbox.",
	"refusals.code":       "Only refusals with this code.",
	"moment.at":           "A position of the ledger, or a time as RFC 3339. Left out, now.",
	"bodies.events":       "The ids of the events whose texts are asked for.",

	"placeSticker.seat":  "The seat, or the name of one of its stickers.",
	"removeSticker.seat": "The seat, or the name of one of its stickers.",
	"offerHandoff.to":    "The seat that is asked, without its @.",
	"reason":             "Why, in a line or two.",
	"offerHandoff.link":  "Where to read on.",
	"handoff":            "The hand-off's id, as the offer's receipt, the thread and what is owed show it.",
	"route.message":      "The id of the message in which a person mentions another seat.",
	"route.verdict":      "route moves the thread to that seat, stay leaves it, unavailable says that nobody could judge.",
	"judge.message":      "The id of the message that mentions another seat.",
	"card.subject":       "What the work is about. Left out, as the card says; a new card needs it.",
	"card.work":          "Whose work it is. Left out, as the card says; a new card needs it.",
	"card.status":        "Where the work stands.",
	"commit":             "The commit's hash, 7 to 64 hex digits.",
	"askReview.author":   "Who wrote the commit: a seat, @name or a short text.",
	"askReview.to":       "The seat that is asked. Left out, the next in order.",
	"review":             "The review's id.",
	"labelReview.label":  "root: it goes to the root; bandage: it does not. A word that is neither is recorded as no label, and the owners are called.",
	"labelReview.risk":   "The risk of merging it. Without one, or with a word that is none of these, it is recorded as no label.",
	"owed.by":            "Only what this one owes: me, a session's id, @seat or @person.",
	"owed.to":            "Only what is owed to this one: me, a session's id, @seat or @person.",
	"item":               "The id of the item, as what is owed shows it.",

	"harness":            "The harness that the session runs in, such as claude-code.",
	"hook":               "The harness's event that the hook run answers, as the harness calls it.",
	"max_bytes":          "How many bytes of text fit, as they count inside a JSON string. Left out, 9,000.",
	"markup":             "How messages are framed in the text. 0, which is meant where it is left out: tags in angle brackets; 1: lines behind a bar, for what would escape those.",
	"stopping":           "The session is about to end its turn: then only what is worth another one is leased.",
	"lease":              "The lease's id.",
	"lease.within_us":    "How many microseconds from now the lease is still of use: once they are over it leases nothing. Left out, any time.",
	"waits.within_us":    "As for a lease.",
	"wait.id":            "The message whose answer, or the thread in which anything, is waited for. Left out, anything for the caller.",
	"wait.for":           "reply: an answer; final: that it is final; any: anything new in the thread. Left out, it is reply.",
	"wait.since":         "Where the wait began, as the first line of one before told: what came since then counts. Left out, it begins now.",
	"wait.once":          "End with the first lease, also where what is waited for lies behind it.",
	"wake.told":          "The position up to which the session was told of what waits. Left out, it was told of nothing.",
	"session":            "The session's full id, as its harness gives it.",
	"join.session":       "The session's full id, as its harness gives it.",
	"join.cwd":           "The session's working directory.",
	"join.repo":          "The repository that this lies in.",
	"join.branch":        "The branch that is checked out there.",
	"join.title":         "What the session is called. It is no address.",
	"join.seat":          "The seat that it takes, without an @.",
	"join.source":        "Why it begins.",
	"join.process":       "The harness's process, by which others see whether the session lives.",
	"join.transcript":    "The file in which the harness keeps what was said.",
	"join.found_out":     "Directory, repository and branch are where the caller happens to be: a session that is known keeps its own.",
	"leave.session":      "The session that ends. Left out, the caller.",
	"leave.reason":       "Why it ends. Left out, because it says so.",
	"leave.frees_seat":   "Its seat is free at once, instead of being kept for a while.",
	"peers.session":      "Only sessions whose id begins so, the ended ones too.",
	"peers.repo":         "Only sessions on this repository.",
	"peers.harness":      "Only sessions of this harness, such as claude-code.",
	"events.from":        "The first position that is asked for. Left out, 1.",
	"events.thread":      "Only events that name this thread.",
	"events.type":        "Only events of this type.",
	"events.wait":        "false: the stream ends with the last event that is there. Left out, it goes on as events come.",
	"position.after":     "Wait until there is an event behind this position, or the bound of a request is over.",
	"adoptPolicy.policy": "The whole policy, as GET /v1/policy shows the one in force.",
	"standing.began":     "When the hook run began.",
	"note.busy":          "It is busy; else it is idle.",
	"read.transcript":    "The transcript's file.",
	"read.seen":          "What was found there.",
	"giveToken.for":      "Whom the token is to act for: @NAME, a session's id, or bot:NAME. Left out, a token is taken back.",
	"ignore.policy":      "The directories as the policy in force names them.",
	"ignore.roots":       "The same as they are on this machine.",
}

// needs are the fields of a request without which it is none, besides those in its
// path.
var needs = map[string][]string{
	"send": {"body"}, "alert": {"channel", "body"}, "ack": {"ack"}, "offerHandoff": {"to", "reason"}, "route": {"message", "verdict"}, "card": {"status"},
	"askReview": {"commit"}, "labelReview": {"label", "risk"}, "closeOwed": {"reason"}, "bodies": {"events"}, "join": {"session"}, "adoptPolicy": {"policy"},
	"standing": {"began"}, "note": {"busy"}, "ignore": {"policy", "roots"}, "read": {"seen"},
}

// either are the fields of which a request needs one or more.
var either = map[string][]string{"edit": {"body", "turn"}}

// bounds are those of numbers.
var bounds = map[string]struct{ least, most, usual int64 }{
	AtLeast:       {least: 0},
	"inbox.limit": {1, ops.InboxMax, ops.InboxDefault}, "threads.limit": {1, ops.OverviewMax, ops.OverviewDefault}, "refusals.limit": {1, ops.OverviewMax, ops.OverviewDefault},
	"events.from": {least: 0}, "position.after": {least: 0}, "lease.max_bytes": {least: 0, usual: ops.BudgetDefault}, "waits.max_bytes": {least: 0, usual: ops.BudgetDefault},
	"turn.within_us": {least: 0}, "wait.within_us": {least: 0}, "wait.since": {least: 0},
}

// aboutField is what the document says of a request's field; empty: nothing.
func aboutField(route, name string) string {
	if says := asked[route+"."+name]; says != "" {
		return says
	}
	return asked[name]
}
