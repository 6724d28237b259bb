package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// What a viewer does is a form, sent once: its command's id was made with the page,
// so that a form sent twice happens once. After it the browser is sent to a page
// that can be loaded again; a refusal is shown beside the form, with what was typed.

// asker is who sent a form, and the command that it carries.
func (v *visit) asker() (ops.Asker, *commands.Refusal) {
	command := v.r.PostFormValue("command")
	if _, is := events.ParseUUID(command); !is {
		return ops.Asker{}, commands.Refuse(commands.BadRequest, "the form carries no command").
			Better("load the page again and send the form from there", "decklog serve")
	}
	return ops.Asker{As: string(v.Viewer.Name), Command: events.CommandID(command)}, nil
}

// field is a value of a form.
func (v *visit) field(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }

// body is a text of a form as it was typed: a browser sends its lines with CRLF.
func (v *visit) body(name string) ops.Text {
	return ops.Text(strings.ReplaceAll(v.r.PostFormValue(name), "\r\n", "\n"))
}

// typed keeps what was typed, for the page that says why it was refused.
func (v *visit) typed() map[string]string {
	kept := map[string]string{}
	for _, name := range []string{"body", "to", "intent", "reason", "seat", "over", "reply_to"} {
		kept[name] = v.r.PostFormValue(name)
	}
	return kept
}

// act does what a form asks for, as whoever sent it, and shows what came of it.
func (v *visit) act(where, about string, do func(ops.Asker) (key string, refused *commands.Refusal, err error)) error {
	asker, refused := v.asker()
	if refused != nil {
		return v.answered(where, about, "", refused, nil)
	}
	key, refused, err := do(asker)
	return v.answered(where, about, key, refused, err)
}

// answered shows the thread after a command: where it was refused beside the form,
// else by sending the browser there.
func (v *visit) answered(where, about, key string, refused *commands.Refusal, err error) error {
	thread := v.r.PathValue("id")
	board := v.field("from") == "owed"
	switch {
	case err != nil:
		return err
	case refused != nil:
		v.Trouble = &trouble{Where: where, About: about, Refusal: refused, Values: v.typed()}
		if v.Path = "/threads/" + thread; board {
			v.Path = "/owed"
			return v.owedBoard(refused.Status)
		}
		return v.threadPage(refused.Status, thread, "")
	}
	to := url.URL{Path: "/threads/" + thread, RawQuery: "did=" + key}
	if board {
		to.Path = "/owed"
	}
	if where == "write" {
		to.Fragment = "end"
	}
	http.Redirect(v.w, v.r, to.String(), http.StatusSeeOther)
	return nil
}

// write sends a message into the thread.
func (v *visit) write() error {
	return v.act("write", "", func(asker ops.Asker) (string, *commands.Refusal, error) {
		_, key, refused, err := v.send(ops.SendRequest{
			Asker: asker, To: v.field("to"), ReplyTo: v.field("reply_to"), Intent: v.field("intent"), Body: v.body("body"), Over: v.field("over") != "",
		})
		return key, refused, err
	})
}

// send sends a message and, as whoever appended a person's message does, asks the
// classifier about a mention that it may hold.
func (v *visit) send(q ops.SendRequest) (receipt commands.SendReceipt, key string, refused *commands.Refusal, err error) {
	receipt, refused, err = v.desk.Send(q)
	if err != nil || refused != nil {
		return receipt, "", refused, err
	}
	key = "sent"
	if receipt.Closes {
		key = "closed-thread"
	}
	if receipt.From.Name() != "" {
		// The message is recorded: whoever sent it need not stay for the verdict.
		verdict, asked, _, err := v.desk.JudgeRouting(context.WithoutCancel(v.r.Context()), receipt.ID)
		switch {
		case err != nil:
			v.failed(v.r, err)
		case asked && verdict.State == string(events.VerdictRoute):
			key = "routed"
		case asked:
			key = "not-routed"
		}
	}
	return receipt, key, nil, nil
}

// begin sends the first message of a new thread.
func (v *visit) begin() error {
	asker, refused := v.asker()
	if refused == nil {
		receipt, key, r, err := v.send(ops.SendRequest{Asker: asker, To: v.field("to"), Intent: v.field("intent"), Body: v.body("body")})
		if err != nil {
			return err
		}
		if refused = r; r == nil {
			http.Redirect(v.w, v.r, "/threads/"+string(receipt.Thread)+"?did="+key, http.StatusSeeOther)
			return nil
		}
	}
	v.Path = "/new"
	v.Trouble = &trouble{Where: "new", Refusal: refused, Values: v.typed()}
	return v.composing(refused.Status)
}

// sticker places a mark on the thread's root, or takes it off.
func (v *visit) sticker() error {
	return v.act("sticker", "", func(asker ops.Asker) (string, *commands.Refusal, error) {
		do, key := v.desk.PlaceSticker, "placed"
		if v.field("do") == "remove" {
			do, key = v.desk.RemoveSticker, "removed"
		}
		receipt, refused, err := do(ops.StickerRequest{Asker: asker, Thread: v.r.PathValue("id"), Seat: v.field("seat")})
		if receipt.Unchanged {
			key = "unchanged"
		}
		return key, refused, err
	})
}

// ack says something to a message without a word.
func (v *visit) ack() error {
	message := v.field("message")
	return v.act("ack", message, func(asker ops.Asker) (string, *commands.Refusal, error) {
		_, refused, err := v.desk.Ack(ops.AckRequest{Asker: asker, Message: message, Ack: v.field("ack")})
		return "acked", refused, err
	})
}

// handoff answers or closes a hand-off. Only the seat that was asked accepts or
// declines; a person, who has no seat, moves the thread with a sticker, which ends
// the offer, or ends the offer alone. Which of these the words accept and decline
// are is decided by who looks, and told on the button.
func (v *visit) handoff() error {
	id := v.field("handoff")
	return v.act("handoff", id, func(asker ops.Asker) (key string, refused *commands.Refusal, err error) {
		q := ops.HandoffRequest{Asker: asker, Handoff: id, Reason: v.body("reason")}
		switch do := v.field("do"); do {
		case "accept":
			key = "accepted"
			_, refused, err = v.desk.AcceptHandoff(q)
		case "give":
			key = "given"
			_, refused, err = v.desk.PlaceSticker(ops.StickerRequest{Asker: asker, Thread: v.r.PathValue("id"), Seat: v.field("seat")})
		case "decline":
			key = "declined"
			_, refused, err = v.desk.DeclineHandoff(q)
		case "close":
			key = "handoff-closed"
			_, refused, err = v.desk.CloseHandoff(q)
		default:
			refused = commands.Refuse(commands.BadRequest, "%q is nothing that is done to a hand-off", do).
				Better("accept, decline or close it", "decklog handoff close HANDOFF")
		}
		return key, refused, err
	})
}

// closeOwed closes an open item, for a person.
func (v *visit) closeOwed() error {
	item := v.field("item")
	return v.act("owed", item, func(asker ops.Asker) (string, *commands.Refusal, error) {
		_, refused, err := v.desk.CloseOwed(ops.CloseOwedRequest{Asker: asker, Item: item, Reason: v.body("reason")})
		return "owed-closed", refused, err
	})
}
