package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/api"
	"decklog/internal/bell"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/projections"
)

// named gives a command its id, by which it happens once however often it is sent.
func (c *Client) named(a *ops.Asker) {
	if a.Command == "" {
		a.Command = c.NewCommand()
	}
}

func (c *Client) Send(q ops.SendRequest) (commands.SendReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Send, q, q.Claims)
}

func (c *Client) Edit(q ops.EditRequest) (ops.EditReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Edit, q, q.Claims)
}

func (c *Client) Delete(q ops.DeleteRequest) (ops.Receipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Delete, q, q.Claims)
}

func (c *Client) Alert(q ops.AlertRequest) (commands.SendReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Alert, q, q.Claims)
}

func (c *Client) Ack(q ops.AckRequest) (ops.AckReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Ack, q, q.Claims)
}

// Turn asks again where the bound of a request was over before the verdict changed.
func (c *Client) Turn(ctx context.Context, q ops.TurnRequest) (ops.TurnAnswer, *commands.Refusal, error) {
	for {
		asking, within, end := patience(ctx)
		a, r, err := ask(c, asking, api.Turn, api.TurnRequest{TurnRequest: q, Within: within}, q.Claims)
		end()
		switch {
		case ctx.Err() != nil && isContext(err):
			return a, nil, nil
		case r != nil, err != nil, !q.Block, !a.Waits(), ctx.Err() != nil:
			return a, r, err
		}
	}
}

// graceMax is how long an answer may take that is given when the caller's time
// is over: the server looks once more, and what it shows is confirmed.
const graceMax = 10 * time.Second

// patience is the context of a request that waits as long as its caller does: the
// server is told how long that is, and answers then. It ends at once when the
// caller is interrupted.
func patience(ctx context.Context) (asking context.Context, within *int64, end func()) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			select {
			case <-time.After(graceMax):
			case <-asking.Done():
			}
		}
		cancel()
	})
	if deadline, has := ctx.Deadline(); has {
		left := max(0, time.Until(deadline).Microseconds())
		within = &left
	}
	return asking, within, func() { stop(); cancel() }
}

func (c *Client) Join(q ops.JoinRequest) (ops.JoinReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Join, q, q.Claims)
}

func (c *Client) Leave(q ops.LeaveRequest) (ops.Receipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Leave, q, q.Claims)
}

func (c *Client) PlaceSticker(q ops.StickerRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.PlaceSticker, q, q.Claims)
}

func (c *Client) RemoveSticker(q ops.StickerRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.RemoveSticker, q, q.Claims)
}

func (c *Client) OfferHandoff(q ops.OfferRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.OfferHandoff, q, q.Claims)
}

func (c *Client) AcceptHandoff(q ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.AcceptHandoff, q, q.Claims)
}

func (c *Client) DeclineHandoff(q ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.DeclineHandoff, q, q.Claims)
}

func (c *Client) CloseHandoff(q ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.CloseHandoff, q, q.Claims)
}

func (c *Client) Route(q ops.RouteRequest) (ops.DrivingReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.RouteThread, q, q.Claims)
}

func (c *Client) JudgeRouting(ctx context.Context, id events.MessageID) (ops.DrivingReceipt, bool, *commands.Refusal, error) {
	a, r, err := ask(c, ctx, api.Judge, api.JudgeRequest{Message: id}, ops.Claims{})
	return a.DrivingReceipt, a.Asked, r, err
}

func (c *Client) Card(q ops.CardRequest) (ops.CardReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.Card, q, q.Claims)
}

func (c *Client) AskReview(q ops.ReviewRequest) (ops.ReviewReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.AskReview, q, q.Claims)
}

func (c *Client) LabelReview(q ops.LabelRequest) (ops.LabelReceipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.LabelReview, q, q.Claims)
}

func (c *Client) CheckReview(q ops.CheckRequest) (ops.CheckView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.CheckReview, q, ops.Claims{})
}

func (c *Client) CloseOwed(q ops.CloseOwedRequest) (ops.Receipt, *commands.Refusal, error) {
	c.named(&q.Asker)
	return ask(c, context.Background(), api.CloseOwed, q, q.Claims)
}

func (c *Client) Lease(q ops.LeaseRequest) (ops.Offered, *commands.Refusal, error) {
	c.named(&q.Asker)
	within, began := q.Within, time.Now()
	a, r, err := askEach(c, context.Background(), api.Lease, func() (ops.LeaseRequest, bool) {
		if within == nil {
			return q, true
		}
		left := *within - time.Since(began).Microseconds()
		q.Within = &left
		return q, left > 0
	}, q.Claims)
	a.Offered.Sought = a.Sought
	return a.Offered, r, err
}

func (c *Client) Confirm(a ops.Asker, lease events.LeaseID) (ops.Receipt, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Confirm, api.ConfirmRequest{Asker: a, Lease: lease}, a.Claims)
}

// Wait prints what comes, and confirms each lease once it is printed. A server that
// went away is asked again, for what had not come yet; not where what came is all
// that was waited for.
func (c *Client) Wait(ctx context.Context, q ops.WaitRequest, print func(ops.Waited) error) (ops.Waited, *commands.Refusal, error) {
	w := waiting{Client: c, print: print, given: map[events.MessageID]bool{}}
	w.all = ops.Waited{Messages: []projections.Shown{}, Notices: []ops.LeasedNotice{}, Calls: []ops.LeasedCall{}}
	all := &w.all
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		ended, refused, err := w.once(ctx, q)
		q.Since = max(q.Since, w.since)
		over := ctx.Err() != nil
		switch {
		case refused != nil:
			return *all, refused, nil
		case errors.Is(err, errAgain) && (q.ID == "" && len(all.Messages)+len(all.Notices)+len(all.Calls) > 0 || q.Once && w.leased):
			return *all, nil, nil // the server had only to say that it ends with that
		case err != nil && over && (errors.Is(err, errAgain) || isContext(err)):
			all.TimedOut = true
			return *all, nil, nil
		case errors.Is(err, errAgain):
			select {
			case <-time.After(pause):
			case <-ctx.Done(): // the next look says so
			}
			continue
		case err != nil:
			return *all, nil, err
		case ended.TimedOut && !over: // by the bound of a request, and not by the caller's
			pause = pauseFirst / 2
			continue
		}
		all.At, all.TimedOut = ended.At, ended.TimedOut
		return *all, nil, nil
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// errAgain says that the answer broke off between two lines.
var errAgain = errors.New("the answer broke off")

// nextLine reads a line of an answer, the last of which may end without a break.
func nextLine(body *bufio.Reader) ([]byte, error) {
	data, err := body.ReadBytes('\n')
	if err != nil && (len(data) == 0 || !errors.Is(err, io.EOF)) {
		return nil, errAgain
	}
	return data, nil
}

// The pauses before what broke off is asked for again.
const (
	pauseFirst = 20 * time.Millisecond
	pauseMost  = time.Second
)

// waiting is a wait, of which one server after the other may answer a part.
type waiting struct {
	*Client
	print  func(ops.Waited) error
	since  events.Position           // where it began, in a thread
	given  map[events.MessageID]bool // what was printed
	leased bool                      // some of it
	all    ops.Waited
}

// fresh leaves out of what is only shown what was printed before; false when
// nothing is left to print.
func (w *waiting) fresh(came *ops.Waited) bool {
	if came.Lease != "" || len(w.given) == 0 {
		return true
	}
	came.Messages = slices.DeleteFunc(came.Messages, func(m projections.Shown) bool { return w.given[m.ID] })
	return len(came.Messages) > 0
}

func (w *waiting) once(ctx context.Context, q ops.WaitRequest) (ended ops.Waited, refused *commands.Refusal, err error) {
	c, all := w.Client, &w.all
	ctx, within, end := patience(ctx)
	defer end()
	res, err := c.open(ctx, &api.Wait.Route, api.WaitRequest{WaitRequest: q, Within: within}, q.Claims, "application/x-ndjson")
	if err != nil {
		return ended, nil, err
	}
	defer res.Body.Close()
	body := bufio.NewReader(res.Body)
	for {
		data, err := nextLine(body)
		if err != nil {
			return ended, nil, err
		}
		var line struct {
			api.WaitLine
			Error *failure.Failure `json:"error"`
		}
		if err := json.Unmarshal(data, &line); err != nil {
			return ended, nil, c.notOurs(res, err)
		}
		switch {
		case line.Error != nil && line.Error.Code == "shutdown":
			return ended, nil, errAgain
		case line.Error != nil:
			return ended, nil, line.Error.Error()
		case line.Refusal != nil:
			return ended, line.Refusal, nil
		case line.Ended != nil:
			return *line.Ended, nil, nil
		case line.Began != nil:
			w.since = *line.Began
			continue
		case line.Came == nil:
			return ended, nil, c.notOurs(res, errors.New("a line that tells nothing"))
		}
		came := *line.Came
		if !w.fresh(&came) {
			continue
		}
		if err := w.print(came); err != nil {
			return ended, nil, err
		}
		w.leased = w.leased || came.Lease != ""
		for _, m := range came.Messages {
			w.given[m.ID] = true
		}
		if came.Lease != "" {
			asker := ops.Asker{As: q.As, Claims: q.Claims}
			if _, r, err := c.Confirm(asker, came.Lease); r != nil || err != nil {
				return ended, r, err
			}
		}
		all.At = came.At
		all.Messages = append(all.Messages, came.Messages...)
		all.Notices = append(all.Notices, came.Notices...)
		all.Calls = append(all.Calls, came.Calls...)
	}
}

func (c *Client) Waits(q ops.LeaseRequest) (bool, error) {
	a, _, err := ask(c, context.Background(), api.Waits, q, q.Claims)
	return a.Yes, err
}

// Wake also looks again when the caller's own machine noted something of the session.
func (c *Client) Wake(ctx context.Context, q ops.WakeRequest) (commands.Post, error) {
	for {
		once, cancel := context.WithCancel(ctx)
		stirred := make(chan struct{})
		go func() {
			defer close(stirred)
			select {
			case <-q.Stirred:
				cancel()
			case <-once.Done():
			}
		}()
		a, _, err := ask(c, once, api.Wake, q, ops.Claims{})
		noted := once.Err() != nil
		cancel()
		<-stirred
		switch {
		case ctx.Err() != nil:
			return commands.Post{}, nil
		case noted, err == nil && a.Again:
			continue
		}
		return a.Post, err
	}
}

func (c *Client) Standing(id events.SessionID, began events.Time) (ops.Standing, events.Policy, error) {
	a, _, err := ask(c, context.Background(), api.Standing, api.StandingRequest{Session: id, Began: began}, ops.Claims{})
	return a.Standing, a.Policy, err
}

// Silence is nothing to do where no bells are.
func (c *Client) Silence(id events.SessionID) error {
	if c.World.Bells == (bell.Bells{}) {
		return nil
	}
	_, _, err := ask(c, context.Background(), api.Silence, api.SessionRequest{Session: id}, ops.Claims{})
	return err
}

// Ignore is nothing to do where no bells are.
func (c *Client) Ignore(q ops.IgnoreRequest) error {
	if c.World.Bells == (bell.Bells{}) {
		return nil
	}
	_, _, err := ask(c, context.Background(), api.Ignore, q, ops.Claims{})
	return err
}

func (c *Client) Note(q ops.NoteRequest) (*commands.Refusal, error) {
	_, r, err := ask(c, context.Background(), api.Note, q, q.Claims)
	return r, err
}

func (c *Client) Sought(id events.SessionID) ([]commands.Sought, error) {
	a, _, err := ask(c, context.Background(), api.Sought, api.SessionRequest{Session: id}, ops.Claims{})
	return a.Sought, err
}

// GiveToken asks the server, which answers who holds its machine's own token.
func (c *Client) GiveToken(a ops.Asker, to string) (events.Participant, *commands.Refusal, error) {
	c.named(&a)
	v, r, err := ask(c, context.Background(), api.Give, api.GiveRequest{Asker: a, For: to}, a.Claims)
	return v.Participant, r, err
}

func (c *Client) Read(q ops.ReadRequest) (*commands.Refusal, error) {
	_, r, err := ask(c, context.Background(), api.ReadBack, q, ops.Claims{})
	return r, err
}

func (c *Client) Inbox(q ops.InboxRequest) (projections.InboxView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Inbox, q, q.Claims)
}

func (c *Client) Thread(q ops.ThreadRequest) (projections.ThreadView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Thread, q, ops.Claims{})
}

func (c *Client) Driver(q ops.DriverRequest) (projections.DriverView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Driver, q, ops.Claims{})
}

func (c *Client) Owed(q ops.OwedRequest) (projections.OwedView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Owed, q, q.Claims)
}

func (c *Client) Peers(q ops.PeersRequest) (projections.PeersView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Peers, q, ops.Claims{})
}

func (c *Client) Threads(q ops.ThreadsRequest) (projections.ThreadsView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Threads, q, ops.Claims{})
}

func (c *Client) Mailboxes(q ops.MailboxesRequest) (projections.MailboxesView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Mailboxes, q, ops.Claims{})
}

func (c *Client) Refusals(q ops.RefusalsRequest) (projections.RefusalsView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Refusals, q, ops.Claims{})
}

func (c *Client) Health(q ops.HealthRequest) (projections.HealthView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Health, q, ops.Claims{})
}

func (c *Client) Moment(q ops.MomentRequest) (ops.MomentView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Moment, q, ops.Claims{})
}

func (c *Client) Bodies(q ops.BodiesRequest) (ops.BodiesView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Bodies, q, ops.Claims{})
}

func (c *Client) Notify(a ops.Asker) (ops.WaitingView, *commands.Refusal, error) {
	return ask(c, context.Background(), api.Notify, a, a.Claims)
}

func (c *Client) Status(a ops.Asker) (ops.StatusView, error) {
	view, _, err := ask(c, context.Background(), api.Status, a, a.Claims)
	return view, err
}

// Events visits what there is now. Where the answer breaks off it is asked for
// again, from there on, unless nothing comes of that for as long as the client is
// patient.
func (c *Client) Events(q ops.EventsRequest, visit func(events.Recorded) error) (last events.Position, refused *commands.Refusal, err error) {
	began, pause := time.Now(), pauseFirst
	for {
		last, refused, err = c.eventsOnce(q, visit)
		if !errors.Is(err, errAgain) {
			return last, refused, err
		}
		if last >= q.From {
			began, pause = time.Now(), pauseFirst
		}
		if time.Since(began)+pause > c.Patience {
			return last, nil, c.cut(&api.Events.Route, err)
		}
		time.Sleep(pause)
		q.From, pause = last+1, min(2*pause, pauseMost)
	}
}

func (c *Client) eventsOnce(q ops.EventsRequest, visit func(events.Recorded) error) (last events.Position, refused *commands.Refusal, err error) {
	last = max(0, q.From-1)
	res, err := c.open(context.Background(), &api.Events.Route, q, ops.Claims{}, "application/x-ndjson")
	if err != nil {
		return last, nil, err
	}
	defer res.Body.Close()
	c.stale.Store(res.Header.Get(api.StaleHeader) != "")
	body := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		data, err := nextLine(body)
		if err != nil {
			return last, nil, err
		}
		var line struct {
			answered
			ops.EventShown
			Last *events.Position `json:"last"`
		}
		if err := json.Unmarshal(data, &line); err != nil {
			return last, nil, c.notOurs(res, err)
		}
		switch {
		case line.Error != nil:
			return last, nil, line.Error.Error()
		case line.Refusal != nil:
			return last, line.Refusal, nil
		case line.Last != nil:
			return *line.Last, nil, nil
		}
		recorded, err := line.EventShown.Recorded()
		if err != nil {
			return last, nil, err
		}
		last = recorded.Position
		if err := visit(recorded); err != nil {
			return last, nil, err
		}
	}
}

func (c *Client) End() (events.Position, error) {
	a, _, err := ask(c, context.Background(), api.Position, api.PositionRequest{}, ops.Claims{})
	return a.At, err
}

func (c *Client) Past(ctx context.Context, after events.Position) error {
	for {
		a, _, err := ask(c, ctx, api.Position, api.PositionRequest{After: &after}, ops.Claims{})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case a.At > after:
			return nil
		}
	}
}

func (c *Client) Policy() (ops.PolicyInForce, error) {
	a, _, err := ask(c, context.Background(), api.Policy, api.None{}, ops.Claims{})
	return a, err
}

func (c *Client) AdoptPolicy(a ops.Asker, p events.Policy) (ops.Receipt, *commands.Refusal, error) {
	c.named(&a)
	return ask(c, context.Background(), api.AdoptPolicy, api.PolicyRequest{Asker: a, Policy: p}, a.Claims)
}

func (c *Client) Examine(a ops.Asker) (ops.Examined, error) {
	x, _, err := ask(c, context.Background(), api.Examine, a, a.Claims)
	return x, err
}

func (c *Client) Verify() (ops.Audited, error) {
	a, _, err := ask(c, context.Background(), api.Verify, api.None{}, ops.Claims{})
	return a, err
}

func (c *Client) Rebuild() (ops.Rebuilt, error) {
	a, _, err := ask(c, context.Background(), api.Rebuild, api.None{}, ops.Claims{})
	return a, err
}
