package api

import (
	"encoding/json"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/render"
)

// Example is a request of a route as the document shows it. Together they are one
// story, in this order, on a ledger whose policy is [ExamplePolicy]: a person asks
// a seat, and it works. A test sends them, each as the one who acts in it.
type Example struct {
	Route *Route
	As    events.Participant // whose token it is sent with
	Shows string             // what it does
	In    any                // a map, or a value of the route's own type
	// Refused is with what it is refused, in this story; empty: it works.
	Refused commands.Code
}

// ExampleSession is the session that takes the seat in the story, ExampleOther one
// that is there already, on the other seat.
const (
	ExampleSession = "5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90"
	ExampleOther   = "0b6c11d4-3a1e-4d6b-8a55-9d1b7f0e2c31"
)

// ExamplePolicy is the policy of the story.
func ExamplePolicy() events.Policy {
	p := events.DefaultPolicy()
	p.Persons = []events.Person{{Name: "ana", OSUser: "ana"}}
	p.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}}
	p.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	return p
}

// The commands of the story, from whose ids those of what they make follow.
const (
	asks    events.CommandID = "019ad4a0-1c00-7000-8000-000000000001"
	leases  events.CommandID = "019ad4a0-1c00-7000-8000-000000000002"
	reviews events.CommandID = "019ad4a0-1c00-7000-8000-000000000003"
	offers  events.CommandID = "019ad4a0-1c00-7000-8000-000000000004"
)

const exampleCommit = "4f2a9c1d00aa"

// Examples lists the story.
func Examples() []Example {
	const ana, machine = "@ana", "machine"
	root, thread, review, handoff, lease := asks.Message(), asks.Thread(), reviews.Review(), offers.Handoff(), leases.Lease()
	return []Example{
		{&AdoptPolicy.Route, machine, "A person puts a policy in force.", object{"as": ana, "policy": ExamplePolicy()}, ""},
		{&Policy.Route, ana, "What is in force.", object{}, ""},
		{&Join.Route, ana, "A session takes a seat.", object{"session": ExampleSession, "harness": "claude-code", "cwd": "/home/ana/app", "seat": "smith"}, ""},
		{&Peers.Route, ana, "The sessions of one harness.", object{"harness": "claude-code"}, ""},
		{&Send.Route, ana, "A person asks a seat.", object{"command": asks, "to": "@smith", "intent": "request", "body": "The sync fails since noon. What changed?"}, ""},
		{&Inbox.Route, ExampleSession, "What waits for a seat.", object{"as": "@smith", "state": "queued", "limit": 50}, ""},
		{&Mailboxes.Route, ana, "In whose mailboxes something waits.", object{}, ""},
		{&Waits.Route, ExampleSession, "Whether there is anything to lease.", object{"harness": "claude-code", "hook": "PostToolUse"}, ""},
		{&Wake.Route, machine, "What waits for the session while it is idle.", object{"session": ExampleSession}, ""},
		{&Notify.Route, ana, "What waits for a person.", object{}, ""},
		{&Status.Route, ExampleSession, "What a status line tells of a session.", object{}, ""},
		{&Lease.Route, ExampleSession, "A hook takes what is to be printed.", object{"command": leases, "harness": "claude-code", "hook": "PostToolUse", "max_bytes": 9000, "markup": render.Tags}, ""},
		{&Confirm.Route, ExampleSession, "It was printed.", object{"lease": lease}, ""},
		{&Sought.Route, ExampleSession, "What is to be found in the transcript.", object{"session": ExampleSession}, ""},
		{&ReadBack.Route, ExampleSession, "Nothing of it was found yet.", object{"lease": lease, "harness": "claude-code", "seen": []commands.Seen{}}, ""},
		{&Wait.Route, ExampleSession, "One look whether anything new came.", object{"within_us": 0}, ""},
		{&Ack.Route, ExampleSession, "The seat acts on what it was asked.", object{"message": root, "ack": "act"}, ""},
		{&Turn.Route, ExampleSession, "May it answer?", object{"thread": thread}, ""},
		{&Thread.Route, ana, "The thread.", object{"id": thread}, ""},
		{&Threads.Route, ana, "The open threads in which something waits.", object{"state": "open", "waiting": true}, ""},
		{&PlaceSticker.Route, ana, "A person gives the thread to a seat.", object{"thread": thread, "seat": "smith"}, ""},
		{&Driver.Route, ana, "Who drives it.", object{"id": thread}, ""},
		{&Card.Route, ExampleSession, "The seat says where the work stands.", object{"thread": thread, "subject": "the sync fails", "work": ana, "status": "investigating"}, ""},
		{&AskReview.Route, ExampleSession, "It asks the other seat for a critique.", object{"command": reviews, "thread": thread, "commit": exampleCommit, "author": "@smith", "to": "trinity"}, ""},
		{&LabelReview.Route, ExampleOther, "The other seat's word.", object{"review": review, "label": "root", "risk": "low"}, ""},
		{&CheckReview.Route, ana, "Whether it clears the commit.", object{"thread": thread, "commit": exampleCommit}, ""},
		{&RemoveSticker.Route, ana, "The person takes the sticker off.", object{"thread": thread, "seat": "smith"}, ""},
		{&OfferHandoff.Route, ExampleSession, "The seat offers the work to another.", object{"command": offers, "thread": thread, "to": "trinity", "reason": "guest-card delivery is yours"}, ""},
		{&AcceptHandoff.Route, ExampleOther, "The other seat takes it.", object{"handoff": handoff}, ""},
		{&DeclineHandoff.Route, ExampleOther, "It cannot be declined any more.", object{"handoff": handoff, "reason": "my lane is another"}, commands.AlreadyDecided},
		{&CloseHandoff.Route, ExampleOther, "The work is done.", object{"handoff": handoff}, ""},
		{&RouteThread.Route, ana, "The message is the seat's to answer.", object{"thread": thread, "message": root, "verdict": "route"}, ""},
		{&Judge.Route, ana, "Nobody is asked about a message that mentions no seat.", object{"message": root}, ""},
		{&Owed.Route, ana, "What is owed to the caller.", object{"to": "me"}, ""},
		{&CloseOwed.Route, ana, "A person closes what is owed.", object{"item": root, "reason": "settled by word of mouth"}, ""},
		{&Edit.Route, ana, "The author gives an own message another text.", object{"message": root, "body": "The sync fails since noon. What changed at eleven?"}, ""},
		{&Bodies.Route, ana, "The text beside an event.", object{"events": []events.EventID{asks.Event(0)}}, ""},
		{&Delete.Route, ana, "The author takes the message back.", object{"message": root}, ""},
		{&Alert.Route, "bot:pager", "A bot raises an alert.", object{"channel": "#alerts", "body": "the sync is failing", "payload": `{"service":"sync"}`}, ""},
		{&Refusals.Route, ana, "The refusals with one code.", object{"code": commands.AlreadyDecided, "limit": 20}, ""},
		{&Events.Route, ana, "The events that are there, from the first on.", object{"from": 1, "wait": false}, ""},
		{&Position.Route, ana, "The position of the last event, behind the first.", object{"after": 1}, ""},
		{&Moment.Route, ana, "The position that a moment has.", object{"at": "2026-11-30T09:00:00Z"}, ""},
		{&Health.Route, ana, "How the ledger stood at a position.", object{"at": "1"}, ""},
		{&Verify.Route, ana, "Is the ledger as it was written?", object{}, ""},
		{&Examine.Route, ana, "A look at the end of the ledger.", object{}, ""},
		{&Standing.Route, ExampleSession, "How the session stands for a hook.", object{"session": ExampleSession, "began": "2026-11-30T09:00:00Z"}, ""},
		{&Note.Route, ExampleSession, "The session is at work.", object{"session": ExampleSession, "busy": true}, ""},
		{&Give.Route, machine, "May a token for the seat be given out?", object{"as": ana, "for": "@smith"}, ""},
		{&Silence.Route, machine, "Nothing waits for it, so that its bell need not ring.", object{"session": ExampleSession}, ""},
		{&Ignore.Route, machine, "Whose sessions take no part.", object{"policy": []string{}, "roots": []string{}}, ""},
		{&Rebuild.Route, machine, "The views are folded anew.", object{}, ""},
		{&Leave.Route, ExampleSession, "The session ends, and leaves its seat.", object{"session": ExampleSession, "reason": events.EndLeft, "frees_seat": true}, ""},
	}
}

// exampleOf is a route's example by its fields, and what it shows; nothing where
// there is none.
func exampleOf(r *Route) (fields map[string]json.RawMessage, shows string) {
	for _, e := range Examples() {
		if e.Route != r {
			continue
		}
		text, err := json.Marshal(e.In)
		if err != nil || json.Unmarshal(text, &fields) != nil {
			return nil, "" // a test sends each
		}
		shows = e.Shows
		if e.Refused != "" {
			shows += " Refused as " + string(e.Refused) + "."
		}
	}
	return fields, shows
}
