package ops

import (
	"context"
	"fmt"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// Operations are all that a door can ask for: of a ledger in the calling
// process, which is [Ops], or of a `decklog serve` that runs elsewhere. Who calls
// cannot tell the difference. What each does is said at the method of Ops.
type Operations interface {
	Send(SendRequest) (commands.SendReceipt, *commands.Refusal, error)
	Edit(EditRequest) (EditReceipt, *commands.Refusal, error)
	Delete(DeleteRequest) (Receipt, *commands.Refusal, error)
	Alert(AlertRequest) (commands.SendReceipt, *commands.Refusal, error)
	Ack(AckRequest) (AckReceipt, *commands.Refusal, error)
	Turn(context.Context, TurnRequest) (TurnAnswer, *commands.Refusal, error)

	Join(JoinRequest) (JoinReceipt, *commands.Refusal, error)
	Leave(LeaveRequest) (Receipt, *commands.Refusal, error)

	PlaceSticker(StickerRequest) (DrivingReceipt, *commands.Refusal, error)
	RemoveSticker(StickerRequest) (DrivingReceipt, *commands.Refusal, error)
	OfferHandoff(OfferRequest) (DrivingReceipt, *commands.Refusal, error)
	AcceptHandoff(HandoffRequest) (DrivingReceipt, *commands.Refusal, error)
	DeclineHandoff(HandoffRequest) (DrivingReceipt, *commands.Refusal, error)
	CloseHandoff(HandoffRequest) (DrivingReceipt, *commands.Refusal, error)
	Route(RouteRequest) (DrivingReceipt, *commands.Refusal, error)
	JudgeRouting(context.Context, events.MessageID) (receipt DrivingReceipt, asked bool, refused *commands.Refusal, err error)
	Card(CardRequest) (CardReceipt, *commands.Refusal, error)
	AskReview(ReviewRequest) (ReviewReceipt, *commands.Refusal, error)
	LabelReview(LabelRequest) (LabelReceipt, *commands.Refusal, error)
	CheckReview(CheckRequest) (CheckView, *commands.Refusal, error)
	CloseOwed(CloseOwedRequest) (Receipt, *commands.Refusal, error)

	Lease(LeaseRequest) (Offered, *commands.Refusal, error)
	Confirm(Asker, events.LeaseID) (Receipt, *commands.Refusal, error)
	Wait(ctx context.Context, q WaitRequest, print func(Waited) error) (Waited, *commands.Refusal, error)
	Waits(LeaseRequest) (bool, error)
	Wake(context.Context, WakeRequest) (commands.Post, error)
	Standing(id events.SessionID, began events.Time) (Standing, events.Policy, error)
	Silence(events.SessionID) error
	Ignore(IgnoreRequest) error
	Note(NoteRequest) (*commands.Refusal, error)
	Sought(events.SessionID) ([]commands.Sought, error)
	Read(ReadRequest) (*commands.Refusal, error)

	Inbox(InboxRequest) (projections.InboxView, *commands.Refusal, error)
	Thread(ThreadRequest) (projections.ThreadView, *commands.Refusal, error)
	Driver(DriverRequest) (projections.DriverView, *commands.Refusal, error)
	Owed(OwedRequest) (projections.OwedView, *commands.Refusal, error)
	Peers(PeersRequest) (projections.PeersView, *commands.Refusal, error)
	Threads(ThreadsRequest) (projections.ThreadsView, *commands.Refusal, error)
	Mailboxes(MailboxesRequest) (projections.MailboxesView, *commands.Refusal, error)
	Refusals(RefusalsRequest) (projections.RefusalsView, *commands.Refusal, error)
	Health(HealthRequest) (projections.HealthView, *commands.Refusal, error)
	Notify(Asker) (WaitingView, *commands.Refusal, error)
	Status(Asker) (StatusView, error)
	Events(q EventsRequest, visit func(events.Recorded) error) (events.Position, *commands.Refusal, error)
	Moment(MomentRequest) (MomentView, *commands.Refusal, error)
	Bodies(BodiesRequest) (BodiesView, *commands.Refusal, error)
	End() (events.Position, error)
	Past(ctx context.Context, after events.Position) error

	Policy() (PolicyInForce, error)
	AdoptPolicy(Asker, events.Policy) (Receipt, *commands.Refusal, error)
	Examine(Asker) (Examined, error)
	Verify() (Audited, error)
	Rebuild() (Rebuilt, error)
	NewCommand() events.CommandID
	// Close ends the use of the ledger.
	Close() error
}

var _ Operations = (*Ops)(nil)

// Close closes the ledger.
func (o *Ops) Close() error { return o.Ledger.Close() }

// End is the position of the ledger's last event; 0 when there is none.
func (o *Ops) End() (end events.Position, err error) {
	err = o.Ledger.View(func(r events.Reader) (err error) { end, err = r.End(); return err })
	if err != nil {
		return 0, fmt.Errorf("read the ledger's end: %w", err)
	}
	return end, nil
}

// Past returns nil as soon as the ledger has an event after this position, and
// the context's error when it ends before.
func (o *Ops) Past(ctx context.Context, after events.Position) error {
	return o.Ledger.Wait(ctx, after)
}
