package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"decklog/commands"
	"decklog/internal/ops"
	"decklog/internal/wording"
)

// InRequests writes a text that was said for a command line for who asks over
// HTTP: each command in it as the request that it is, where there is one, and each
// flag as the field.
func InRequests(text string) string { return door.Text(text) }

// Refused is a refusal in those terms.
func Refused(r *commands.Refusal) *commands.Refusal {
	if r == nil {
		return nil
	}
	said := *r
	said.Message, said.Fix, said.Example = InRequests(r.Message), InRequests(r.Fix), InRequests(r.Example)
	return &said
}

// Said is an answer in those terms: where a receipt says what to do next.
func Said(answer any) any {
	switch receipt := answer.(type) {
	case commands.SendReceipt:
		receipt.Next, receipt.Says = InRequests(receipt.Next), InRequests(receipt.Says)
		return receipt
	case ops.ReviewReceipt:
		receipt.Says = InRequests(receipt.Says)
		return receipt
	}
	return answer
}

var door wording.Door

// The forms name the routes of the table, which is made first.
func init() {
	of := func(r Route, words ...string) wording.Form {
		return wording.Form{Call: r.Name, Words: words, Body: "body"}
	}
	door = wording.Door{
		Forms: map[string]wording.Form{
			"send": of(Send.Route), "edit": of(Edit.Route, "message"), "delete": of(Delete.Route, "message"), "alert": of(Alert.Route, "channel"),
			"ack": of(Ack.Route, "message", "ack"), "turn": of(Turn.Route, "thread"), "inbox": of(Inbox.Route), "thread": of(Thread.Route, "id"),
			"threads": of(Threads.Route), "refusals": of(Refusals.Route), "driver": of(Driver.Route, "id"), "card": of(Card.Route, "thread"),
			"sticker place": of(PlaceSticker.Route, "thread", "seat"), "sticker remove": of(RemoveSticker.Route, "thread", "seat"),
			"handoff offer": of(OfferHandoff.Route, "thread"), "handoff accept": of(AcceptHandoff.Route, "handoff"),
			"handoff decline": of(DeclineHandoff.Route, "handoff"), "handoff close": of(CloseHandoff.Route, "handoff"),
			"route": of(RouteThread.Route, "thread", "message", "verdict"), "review ask": of(AskReview.Route, "thread"),
			"review check": of(CheckReview.Route, "thread"), "review label": of(LabelReview.Route, "review", "label", "risk"),
			"owed": of(Owed.Route), "owed close": of(CloseOwed.Route, "item"), "lease": of(Lease.Route), "confirm": of(Confirm.Route, "lease"),
			"wait": of(Wait.Route, "id"), "notify": of(Notify.Route), "status": of(Status.Route), "join": of(Join.Route), "leave": of(Leave.Route),
			"peers": of(Peers.Route), "events": of(Events.Route), "policy show": of(Policy.Route), "verify": of(Verify.Route), "rebuild": of(Rebuild.Route),
		},
		// An answer says why without being asked, and a payload is no file here.
		Flags: map[string]string{"why": "", "payload": "", "timeout": "within_us", "ref": "refs", "with": "participant"},
		Also: strings.NewReplacer("--as or DECKLOG_AS", "as", "--as and DECKLOG_AS", "as",
			"The answer comes into your context by itself", "Fetch the answer with POST /v1/wait", "The label comes into your context by itself", "Fetch the label with POST /v1/wait"),
		Value:     valueOf,
		Write:     asRequest,
		Elsewhere: "on the command line: ",
	}
}

func valueOf(field, text string) (any, bool) {
	switch field {
	case "refs":
		return []string{text}, true
	case "limit", "from":
		return wording.Number(text)
	case "within_us":
		d, err := time.ParseDuration(text)
		return d.Microseconds(), err == nil
	}
	return nil, false
}

// asRequest writes a request as its method, its path and its body; false where the
// route takes no such field.
func asRequest(name string, fields []wording.Field) (string, bool) {
	for _, r := range table {
		if r.Name != name {
			continue
		}
		in, known := map[string]any{}, Fields(r.In)
		for _, f := range fields {
			if kind, is := known[f.Name]; !is || kind == reflect.Bool && f.Value != true {
				return "", false
			}
			in[f.Name] = f.Value
		}
		target, body, err := r.Write(in)
		if err != nil {
			return "", false
		}
		if len(body) == 0 || string(body) == "{}" {
			return r.Method + " " + target, true
		}
		sent := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &sent); err != nil {
			return "", false
		}
		for name := range in {
			if _, is := sent[name]; !is {
				delete(in, name) // it stands in the path
			}
		}
		var said strings.Builder
		e := json.NewEncoder(&said)
		e.SetEscapeHTML(false) // it is to be read
		if err := e.Encode(in); err != nil {
			return "", false
		}
		return r.Method + " " + target + " " + strings.TrimSpace(said.String()), true
	}
	return "", false
}
