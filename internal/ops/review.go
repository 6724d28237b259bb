package ops

import (
	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// ReviewRequest asks for a critique of one commit.
type ReviewRequest struct {
	Asker
	Thread string `json:"thread,omitempty"`
	Commit string `json:"commit,omitempty"`
	Author string `json:"author,omitempty"` // of the commit; may be left out
	To     string `json:"to,omitempty"`     // the seat that is asked; empty: the next in order
}

// ReviewReceipt says who was asked, or that nobody could be.
type ReviewReceipt struct {
	Receipt
	Thread   events.ThreadID      `json:"thread"`
	Message  events.MessageID     `json:"message"` // that carries the questions; empty: none
	Commit   string               `json:"commit"`
	Reviewer string               `json:"reviewer"` // empty: none is left, and the owners are called
	Due      *events.Time         `json:"due"`
	Paged    []events.Participant `json:"paged"`
	Says     string               `json:"says"`
}

// AskReview asks another seat for a critique of one commit.
func (o *Ops) AskReview(q ReviewRequest) (receipt ReviewReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("review ask", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if err := u.sweep(u.call.Caller.ID); err != nil {
			return nil, err
		}
		recorded, r, err := u.runAbout(q.Thread, commands.ReviewAsk{
			Call: u.call, Thread: q.Thread, Commit: q.Commit, Author: q.Author, To: q.To,
		}, events.TypeMessageSent, events.TypeReviewAsked)
		if r != nil || err != nil {
			return r, err
		}
		receipt = ReviewReceipt{Paged: []events.Participant{}}
		for _, rec := range recorded {
			switch e := rec.Event.(type) {
			case events.MessageSent:
				receipt.Message = e.Message
			case events.ReviewAsked:
				receipt.ID, receipt.Thread, receipt.Commit, receipt.Reviewer, receipt.Due = string(e.Review), e.Thread, e.Commit, e.Reviewer, e.Due
			case events.OwedPaged:
				receipt.Paged = append(receipt.Paged, e.Owners...)
			}
		}
		if receipt.ID == "" {
			return usedBefore(), nil
		}
		if receipt.Says = "Asked. The label comes into your context by itself; do not merge before it clears the commit."; receipt.Reviewer == "" {
			receipt.Says = "No seat is left that could review it: the owners are called. Do not merge before one of them says so."
		}
		receipt.Receipt, err = u.receipt(receipt.ID, recorded)
		return nil, err
	})
	return receipt, refused, err
}

// LabelRequest is a reviewer's word on a commit.
type LabelRequest struct {
	Asker
	Review string `json:"review,omitempty"`
	Label  string `json:"label,omitempty"`
	Risk   string `json:"risk,omitempty"`
}

// LabelReceipt says what was recorded. Without a label what was given could not
// be read, and the review stays open.
type LabelReceipt struct {
	Receipt
	Thread events.ThreadID      `json:"thread"`
	Label  events.Label         `json:"label"`
	Risk   events.Risk          `json:"risk"`
	Late   bool                 `json:"late"`
	Clears bool                 `json:"clears"`
	Paged  []events.Participant `json:"paged"`
	Says   string               `json:"says"`
}

// LabelReview records a reviewer's word on a commit.
func (o *Ops) LabelReview(q LabelRequest) (receipt LabelReceipt, refused *commands.Refusal, err error) {
	refused, err = o.update("review label", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if err := u.sweep(u.call.Caller.ID); err != nil {
			return nil, err
		}
		recorded, r, err := u.runAbout(q.Review, commands.ReviewLabel{
			Call: u.call, Review: q.Review, Label: q.Label, Risk: q.Risk,
		}, events.TypeReviewLabelled, events.TypeOwedPaged)
		if r != nil || err != nil {
			return r, err
		}
		id := commands.WholeReview(u.s, q.Review)
		receipt = LabelReceipt{Thread: u.s.ThreadOfReview(id), Paged: []events.Participant{}}
		for _, rec := range recorded {
			switch e := rec.Event.(type) {
			case events.ReviewLabelled:
				receipt.Label, receipt.Risk, receipt.Late, receipt.Clears = e.Label, e.Risk, e.Late, e.Clears
			case events.OwedPaged:
				receipt.Paged = append(receipt.Paged, e.Owners...)
			}
		}
		receipt.Says = saysLabel(receipt)
		receipt.Receipt, err = u.receipt(string(id), recorded)
		return nil, err
	})
	return receipt, refused, err
}

func saysLabel(r LabelReceipt) string {
	switch {
	case r.Label == "":
		return "This is no label: root or bandage, then low, med or high. The owners are called, and the review stays open; label it again."
	case r.Clears:
		return "Recorded. It clears the merge of this commit, and of no other."
	}
	return "Recorded. It does not clear the commit: the owners are called."
}

// CheckRequest asks whether a commit may be merged.
type CheckRequest struct {
	Thread string `json:"thread,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// CheckView answers a merge tool. The right to merge is the present driver's.
type CheckView struct {
	Thread events.ThreadID          `json:"thread"`
	Commit string                   `json:"commit"`
	Clear  bool                     `json:"clear"`
	Why    string                   `json:"why"`
	Review *projections.ReviewShown `json:"review"`
	Driver projections.DriverShown  `json:"driver"`
	At     events.Position          `json:"at"`
}

// CheckReview says whether a label in a thread clears a commit. It changes nothing.
func (o *Ops) CheckReview(q CheckRequest) (view CheckView, refused *commands.Refusal, err error) {
	refused, err = caught(o.look(func(v *reading) error {
		t, r := commands.FindThread(v.s, q.Thread)
		if r != nil {
			return refusal{r}
		}
		c, r := commands.ReviewCheck(t, q.Commit)
		if r != nil {
			return refusal{r}
		}
		view = CheckView{Thread: t.ID, Commit: q.Commit, Clear: c.Clear, Why: c.Why, Driver: v.s.ShowDriver(t), At: v.s.Position()}
		if c.Review != nil {
			shown := projections.ShowReview(*c.Review)
			view.Review = &shown
		}
		return nil
	}))
	return view, refused, err
}
