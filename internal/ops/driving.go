package ops

import (
	"context"
	"encoding/json"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// DriverRequest asks who drives a thread.
type DriverRequest struct {
	ID string `json:"id,omitempty"` // of a thread or a message, or a prefix that one of them has
	At string `json:"at,omitempty"`
}

// Driver says who drives a thread, and which events decide it. It changes nothing.
func (o *Ops) Driver(q DriverRequest) (view projections.DriverView, refused *commands.Refusal, err error) {
	refused, err = caught(o.look(func(v *reading) error {
		t, r := commands.FindThread(v.s, q.ID)
		if r != nil {
			return refusal{r}
		}
		at, err := v.moment(q.At)
		if err != nil {
			return err
		}
		s := v.s
		if q.At != "" {
			if s, _, err = v.threadAt(t.ID, at); err != nil {
				return err
			}
		}
		var found bool
		if view, found = s.DriverView(t.ID, at); !found {
			return refusal{notBegun(t.ID, at)}
		}
		return s.Err()
	}))
	return view, refused, err
}

func notBegun(id events.ThreadID, at events.Position) *commands.Refusal {
	return commands.Refuse(commands.NotFound, "thread %s had not begun at position %d", id, at).
		Better("replay it to a later moment", "decklog thread "+string(id))
}

// StickerRequest is a mark on a thread's root.
type StickerRequest struct {
	Asker
	Thread string `json:"thread,omitempty"`
	Seat   string `json:"seat,omitempty"` // or the name of one of its stickers
}

// DrivingReceipt says what a command did to a thread, and who drives it now.
type DrivingReceipt struct {
	Receipt
	Thread events.ThreadID         `json:"thread"`
	Driver projections.DriverShown `json:"driver"`
	State  string                  `json:"state"` // of what was made
	Says   string                  `json:"says"`
	// Unchanged says that it was so already, and nothing was recorded.
	Unchanged bool `json:"unchanged"`
}

// PlaceSticker puts a mark on a thread's root that names a seat.
func (o *Ops) PlaceSticker(q StickerRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("sticker place", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Thread, commands.PlaceSticker{Call: u.call, Thread: q.Thread, Seat: q.Seat},
			events.TypeStickerPlaced, events.TypeRoutingUndone)
	})
	if receipt.State = "placed"; receipt.Unchanged {
		receipt.Says = "It lay there already, or what lies there stands above it; nothing changed."
	}
	return receipt, refused, err
}

// RemoveSticker takes a mark off a thread's root.
func (o *Ops) RemoveSticker(q StickerRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("sticker remove", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Thread, commands.RemoveSticker{Call: u.call, Thread: q.Thread, Seat: q.Seat},
			events.TypeStickerRemoved, events.TypeHandoffClosed) // an open offer lapses first
	})
	receipt.State = "removed"
	return receipt, refused, err
}

// drive runs a decider that changes who drives, and gives the receipt. What was
// made is of the first of the types that its events may begin with, and has the id
// of the hand-off that this event names, else the event's own.
func (u *unit) drive(receipt *DrivingReceipt, about string, d decider, begins ...events.Type) (*commands.Refusal, error) {
	recorded, r, err := u.runAbout(about, d, begins...)
	if r != nil || err != nil {
		return r, err
	}
	id, thread := "", about
	if len(recorded) > 0 {
		made := ofType(recorded, begins[0])
		id = string(made.ID)
		if h := projections.HandoffOf(made.Event); h != "" {
			id = string(h)
		}
		thread = string(made.Stream.Thread())
	}
	t, r := commands.FindThread(u.s, thread)
	if r != nil {
		return r, nil
	}
	receipt.Thread, receipt.Unchanged = t.ID, len(recorded) == 0
	receipt.Driver = u.s.ShowDriver(t)
	receipt.Receipt, err = u.receipt(id, recorded)
	return nil, err
}

// runAbout is run, for a command about a thread, or something in one: the same id
// again is the same command only from the same caller about the same thing.
func (u *unit) runAbout(id string, d decider, begins ...events.Type) ([]events.Recorded, *commands.Refusal, error) {
	wrote := len(u.wrote)
	recorded, r, err := u.run(d, begins...)
	if r != nil || err != nil || len(recorded) == 0 || len(u.wrote) > wrote {
		return recorded, r, err
	}
	if made := ofType(recorded, begins[0]); made.Actor != u.call.Caller.ID || !commands.IsAbout(u.s, id, made) {
		return nil, usedBefore(), nil
	}
	return recorded, nil, nil
}

// ofType is the first event of a type, which is what a command made; what merely
// went before it, such as a lapse, is not. Without one it is the first.
func ofType(recorded []events.Recorded, t events.Type) events.Recorded {
	for _, r := range recorded {
		if r.Type() == t {
			return r
		}
	}
	return recorded[0]
}

// OfferRequest offers the work of a thread to another seat.
type OfferRequest struct {
	Asker
	Thread string `json:"thread,omitempty"`
	To     string `json:"to,omitempty"`
	Reason Text   `json:"reason"`
	Link   string `json:"link,omitempty"`
}

// OfferHandoff offers the work of a thread to another seat.
func (o *Ops) OfferHandoff(q OfferRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("handoff offer", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Thread, commands.HandoffOffer{
			Call: u.call, Thread: q.Thread, To: q.To, Reason: q.Reason, Link: q.Link,
		}, events.TypeHandoffOffered)
	})
	receipt.State = string(projections.HandoffIsOffered)
	receipt.Says = "Offered. You drive the thread until it is accepted."
	return receipt, refused, err
}

// HandoffRequest answers or closes a hand-off.
type HandoffRequest struct {
	Asker
	Handoff string `json:"handoff,omitempty"`
	Reason  Text   `json:"reason"` // of declining; may be left out
}

// AcceptHandoff takes the work of a thread over.
func (o *Ops) AcceptHandoff(q HandoffRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("handoff accept", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Handoff, commands.HandoffAccept{Call: u.call, Handoff: q.Handoff}, events.TypeHandoffAccepted)
	})
	receipt.State = string(projections.HandoffIsAccepted)
	receipt.Says = "Accepted. Close the hand-off when its work is done."
	return receipt, refused, err
}

// DeclineHandoff leaves the work where it is.
func (o *Ops) DeclineHandoff(q HandoffRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("handoff decline", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Handoff, commands.HandoffDecline{Call: u.call, Handoff: q.Handoff, Reason: q.Reason}, events.TypeHandoffDeclined)
	})
	receipt.State = string(projections.HandoffIsDeclined)
	receipt.Says = "Declined. Nothing moved."
	return receipt, refused, err
}

// CloseHandoff says that a hand-off is over. It changes no driver.
func (o *Ops) CloseHandoff(q HandoffRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("handoff close", q.Asker, func(u *unit) (*commands.Refusal, error) {
		return u.drive(&receipt, q.Handoff, commands.HandoffClose{Call: u.call, Handoff: q.Handoff}, events.TypeHandoffClosed)
	})
	receipt.State = string(projections.HandoffIsClosed)
	receipt.Says = "Closed. Who drives did not change."
	return receipt, refused, err
}

// RouteRequest is a verdict on a person's mention of a seat.
type RouteRequest struct {
	Asker
	Thread  string `json:"thread,omitempty"`
	Message string `json:"message,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	says    string // why a classifier gave none
	asked   bool   // a classifier, and not the one who calls
}

// Route records a verdict, and moves the thread where it is to route.
func (o *Ops) Route(q RouteRequest) (receipt DrivingReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("route", q.Asker, func(u *unit) (*commands.Refusal, error) {
		r, err := u.drive(&receipt, q.Thread, commands.Route{
			Call: u.call, Thread: q.Thread, Message: q.Message, Verdict: q.Verdict, Says: q.says, ByHand: !q.asked,
		}, events.TypeRoutingJudged, events.TypeHandoffClosed) // an open offer lapses first
		if r != nil || err != nil {
			return r, err
		}
		recorded, err := u.again()
		for _, e := range recorded {
			if judged, is := e.Event.(events.RoutingJudged); is {
				receipt.ID, receipt.State, receipt.Says = string(e.ID), string(judged.Verdict), judged.Says
				if judged.Verdict == events.VerdictRoute && receipt.Driver.Seat != nil && *receipt.Driver.Seat != judged.To {
					receipt.Says = judged.To + " drives from its first post on; what is owed lies with it already."
				}
			}
		}
		return nil, err
	})
	return receipt, refused, err
}

// RoutingQuestion is what a classifier is asked, as JSON: whether a person's
// message hands the thread to the seat that it mentions. The texts are other
// people's words.
type RoutingQuestion struct {
	Question string           `json:"question"`
	Thread   events.ThreadID  `json:"thread"`
	Driver   string           `json:"driver"`    // the seat that drives
	Mentions string           `json:"mentioned"` // the seat that is mentioned
	Root     RoutingText      `json:"root"`
	Message  RoutingText      `json:"message"`
	ID       events.MessageID `json:"id"`
}

// RoutingText is a message as a classifier sees it.
type RoutingText struct {
	From events.Participant `json:"from"`
	Body string             `json:"body"`
}

// JudgeRouting asks the classifier about a person's mention of a seat, where
// there is something to ask (R12), and records its verdict. It is called by the
// process that sent the message, after the receipt. asked is false when there is
// no question.
func (o *Ops) JudgeRouting(ctx context.Context, id events.MessageID) (receipt DrivingReceipt, asked bool, refused *commands.Refusal, err error) {
	var question RoutingQuestion
	var routing *events.Routing
	var by events.Participant
	err = o.look(func(v *reading) error {
		m := v.s.Message(id)
		if m == nil {
			return nil
		}
		q, why := commands.Routing(v.s, m)
		if asked = why == "" && m.Verdict == ""; !asked {
			return nil
		}
		policy, err := v.policy()
		if err != nil {
			return err
		}
		// A classifier is a program of the server's machine: only who wrote the message
		// has it run.
		if refused = o.touches(v.s, policy, Asker{}, m.Author.ID, v.now); refused != nil {
			return nil
		}
		routing, by = policy.Routing, m.Author.ID
		question = RoutingQuestion{
			Question: "Does the message hand the thread over to the seat that it mentions? Answer with one word: route, or stay.",
			Thread:   q.Thread.ID, Driver: q.From, Mentions: q.To, ID: m.ID, Message: RoutingText{From: m.Author.ID, Body: v.s.Show(m, nil, v.r).Body},
		}
		if root := v.s.Message(q.Thread.Root); root != nil {
			question.Root = RoutingText{From: root.Author.ID, Body: v.s.Show(root, nil, v.r).Body}
		}
		return nil
	})
	if err != nil || !asked || refused != nil {
		return receipt, false, refused, err
	}
	text, err := json.Marshal(question)
	if err != nil {
		return receipt, false, nil, err
	}
	says := ""
	verdict, unclear := o.World.Classify(ctx, routing, text)
	if unclear != nil {
		verdict, says = events.VerdictUnavailable, unclear.Error()
	}
	receipt, refused, err = o.Route(RouteRequest{
		Asker:  Asker{As: string(by), Command: events.FollowUp(string(id), "routing.judged")},
		Thread: string(question.Thread), Message: string(id), Verdict: string(verdict), says: says, asked: true,
	})
	return receipt, true, refused, err
}
