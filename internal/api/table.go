package api

import (
	"context"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

// The groups of the table.
const (
	conversation = "conversation"
	driving      = "driving"
	delivery     = "delivery"
	presence     = "presence"
	audit        = "audit"
	adapters     = "adapters"
)

// The table.
var (
	Send   = changes("POST", "/v1/messages", "send", conversation, "Sends a message. The same command id, or the same key of the same sender, gets the first receipt again.", ops.Operations.Send)
	Edit   = changes("PATCH", "/v1/messages/{message}", "edit", conversation, "Edits an own message, or flips its turn state.", ops.Operations.Edit)
	Delete = changes("DELETE", "/v1/messages/{message}", "delete", conversation, "Takes an own message back: its text goes, its events stay.", ops.Operations.Delete)
	Alert  = changes("POST", "/v1/alerts", "alert", conversation, "Begins a thread with an alert, as a bot or a person.", ops.Operations.Alert)
	Ack    = changes("POST", "/v1/messages/{message}/ack", "ack", conversation, "Says that one acts on a message, or has no input.", ops.Operations.Ack)
	Turn   = enter(Route{Name: "turn", Method: "POST", Path: "/v1/threads/{thread}/turn", Group: conversation, Access: Write, Weighs: true,
		Does: "Asks whether the caller may answer in a thread. With block it acks where that is due, waits, and reads the thread again."},
		func(ctx context.Context, desk ops.Operations, q TurnRequest) (ops.TurnAnswer, *commands.Refusal, error) {
			ctx, cancel := Bounded(ctx, q.Within)
			defer cancel()
			return desk.Turn(ctx, q.TurnRequest)
		})
	Inbox  = shows("/v1/inbox", "inbox", conversation, "What was sent to somebody, or what they sent, newest first.", ops.Operations.Inbox)
	Thread = shows("/v1/threads/{id}", "thread", conversation, "A thread with everything that happened in it, now or as of a position or a time.", ops.Operations.Thread)

	Threads   = shows("/v1/threads", "threads", conversation, "The threads, the one in which something happened last first.", ops.Operations.Threads)
	Mailboxes = shows("/v1/mailboxes", "mailboxes", presence, "In whose mailboxes something waits, who is here, and who sits on which seat.", ops.Operations.Mailboxes)
	Refusals  = shows("/v1/refusals", "refusals", audit, "How often commands were refused, and the latest of them.", ops.Operations.Refusals)
	Health    = shows("/v1/health", "health", audit, "How the ledger stands.", ops.Operations.Health)
	Moment    = shows("/v1/moment", "moment", audit, "The position that a moment has.", ops.Operations.Moment)
	Bodies    = enter(Route{Name: "bodies", Method: "POST", Path: "/v1/bodies", Group: audit, Access: Read, Does: "The texts beside events, as far as they are there."},
		func(_ context.Context, desk ops.Operations, q ops.BodiesRequest) (ops.BodiesView, *commands.Refusal, error) {
			return desk.Bodies(q)
		})

	Driver         = shows("/v1/threads/{id}/driver", "driver", driving, "Who drives a thread, and which events decide it.", ops.Operations.Driver)
	PlaceSticker   = changes("PUT", "/v1/threads/{thread}/stickers/{seat}", "placeSticker", driving, "Puts a seat's sticker on a thread.", ops.Operations.PlaceSticker)
	RemoveSticker  = changes("DELETE", "/v1/threads/{thread}/stickers/{seat}", "removeSticker", driving, "Takes a seat's sticker off a thread.", ops.Operations.RemoveSticker)
	OfferHandoff   = changes("POST", "/v1/threads/{thread}/handoffs", "offerHandoff", driving, "Offers the work of a thread to another seat.", ops.Operations.OfferHandoff)
	AcceptHandoff  = changes("POST", "/v1/handoffs/{handoff}/accept", "acceptHandoff", driving, "Takes the work of a thread over.", ops.Operations.AcceptHandoff)
	DeclineHandoff = changes("POST", "/v1/handoffs/{handoff}/decline", "declineHandoff", driving, "Leaves the work where it is.", ops.Operations.DeclineHandoff)
	CloseHandoff   = changes("POST", "/v1/handoffs/{handoff}/close", "closeHandoff", driving, "Says that the work that was handed over is done.", ops.Operations.CloseHandoff)
	RouteThread    = changes("POST", "/v1/threads/{thread}/route", "route", driving, "Records a verdict of the routing gate, and moves the thread where it is to route.", ops.Operations.Route)
	Judge          = enter(Route{Name: "judge", Method: "POST", Path: "/v1/messages/{message}/judge", Group: driving, Access: Write, Receipt: true,
		Does: "Asks the policy's classifier about a message that mentions another seat, if one is to be asked. Only its author has it asked."}, judge)
	Card        = changes("PUT", "/v1/threads/{thread}/card", "card", driving, "Posts the driver card of a thread, or edits it.", ops.Operations.Card)
	AskReview   = changes("POST", "/v1/threads/{thread}/reviews", "askReview", driving, "Asks another seat for a critique of one commit.", ops.Operations.AskReview)
	LabelReview = changes("POST", "/v1/reviews/{review}/label", "labelReview", driving, "Records a reviewer's word on a commit.", ops.Operations.LabelReview)
	CheckReview = shows("/v1/threads/{thread}/reviews/{commit}", "checkReview", driving, "Whether a label in a thread clears a commit.", ops.Operations.CheckReview)
	Owed        = shows("/v1/owed", "owed", driving, "The open items, oldest first.", ops.Operations.Owed)
	CloseOwed   = changes("POST", "/v1/owed/{item}/close", "closeOwed", driving, "Closes an open item, for a person.", ops.Operations.CloseOwed)

	Lease   = changes("POST", "/v1/leases", "lease", delivery, "Offers the caller its oldest messages that fit, and nobody else while the lease runs.", lease)
	Confirm = changes("POST", "/v1/leases/{lease}/confirm", "confirm", delivery, "Says that what a lease offered was printed.", confirm)
	Wait    = stream[WaitRequest, WaitLine]("POST", "/v1/wait", "wait", delivery, Write,
		"Blocks until what is waited for came. Where that is in a thread, the first line tells where the wait began, to be given as since by who asks again. Each line that holds a lease is to be confirmed before the next one comes; the last line tells how it ended.")
	Waits  = adapter(Read, "POST", "/v1/waits", "waits", "Whether a lease would hold anything for the caller.", waits)
	Wake   = adapter(Read, "POST", "/v1/sessions/{session}/wake", "wake", "Blocks until something waits for an idle session that is worth a turn, or the bound of a request is over.", wake)
	Notify = shows("/v1/waiting", "waiting", delivery, "What waits for the caller, without anything that anybody wrote.", func(o ops.Operations, q ops.Asker) (ops.WaitingView, *commands.Refusal, error) { return o.Notify(q) })
	Status = shows("/v1/status", "status", delivery, "What a status line tells of a participant.", func(o ops.Operations, q ops.Asker) (ops.StatusView, *commands.Refusal, error) {
		v, err := o.Status(q)
		return v, nil, err
	})

	Join  = changes("POST", "/v1/sessions", "join", presence, "Registers a session, and may give it a seat.", ops.Operations.Join)
	Leave = changes("POST", "/v1/sessions/leave", "leave", presence, "Ends a session.", ops.Operations.Leave)
	Peers = shows("/v1/peers", "peers", presence, "Who is here, with the evidence and its age.", ops.Operations.Peers)

	Events = stream[EventsQuery, ops.EventShown]("GET", "/v1/events", "events", audit, Read,
		"The ledger as server-sent events, from a position on and as they come; resumable by Last-Event-ID. A position behind the one that comes next is refused as beyond_end: it is of another ledger. As application/x-ndjson: what is there now, one event a line.")
	Position = enter(Route{Name: "position", Method: "GET", Path: "/v1/position", Group: audit, Access: Read,
		Does: "The position of the last event. With after it waits until there is one behind that, or the bound of a request is over."}, position)
	Policy = shows("/v1/policy", "policy", audit, "The policy in force.", func(o ops.Operations, _ None) (ops.PolicyInForce, *commands.Refusal, error) {
		p, err := o.Policy()
		return p, nil, err
	})
	AdoptPolicy = ofMachine(changes("POST", "/v1/policy", "adoptPolicy", audit, "Puts another policy in force, which only a person does.", func(o ops.Operations, q PolicyRequest) (ops.Receipt, *commands.Refusal, error) {
		return o.AdoptPolicy(q.Asker, q.Policy)
	}))
	Verify = shows("/v1/verify", "verify", audit, "Reads the whole ledger, and names the first position that is not as it was written.", func(o ops.Operations, _ None) (ops.Audited, *commands.Refusal, error) {
		a, err := o.Verify()
		return a, nil, err
	})
	Rebuild = enter(Route{Name: "rebuild", Method: "POST", Path: "/v1/rebuild", Group: audit, Access: Machine, Receipt: true, Does: "Throws the views away and folds them anew."},
		func(_ context.Context, o ops.Operations, _ None) (ops.Rebuilt, *commands.Refusal, error) {
			b, err := o.Rebuild()
			return b, nil, err
		})

	Standing = adapter(Read, "POST", "/v1/sessions/{session}/standing", "standing", "How a session stands for a hook that began at a moment.", standing)
	Silence  = adapter(Machine, "POST", "/v1/sessions/{session}/silence", "silence", "Makes a session's bell silent when nothing waits for it.", silence)
	Sought   = adapter(Read, "GET", "/v1/sessions/{session}/sought", "sought", "What a hook printed for a session and nobody found in its transcript yet.", sought)
	Note     = adapter(Write, "PUT", "/v1/sessions/{session}/note", "note", "Notes that a session is busy or idle, as a hook saw it.", note)
	ReadBack = adapter(Write, "POST", "/v1/leases/{lease}/read", "read", "Records that delivered messages were found in their recipient's own transcript.", read)
	Ignore   = adapter(Machine, "PUT", "/v1/ignored", "ignore", "Notes which directories' sessions take no part.", ignore)
	Give     = adapter(Machine, "POST", "/v1/tokens/give", "giveToken", "Says whether who asks may give out a token, or take one back, and whom it is to name. No route makes any: they lie in a file beside the ledger, which who holds the machine's token can write.", give)
	Examine  = adapter(Read, "POST", "/v1/examine", "examine", "What a look at the end of the ledger tells of its health.", examine)
)

// adapter is a route that hooks and adapters use.
func adapter[Q, A any](access Access, method, path, name, does string, do func(context.Context, ops.Operations, Q) (A, *commands.Refusal, error)) *Call[Q, A] {
	return enter(Route{Name: name, Method: method, Path: path, Group: adapters, Does: does, Access: access}, do)
}

// stream is a route whose answer the server writes as it comes.
func stream[Q, A any](method, path, name, group string, access Access, does string) *Call[Q, A] {
	c := enter[Q, A](Route{Name: name, Method: method, Path: path, Group: group, Does: does, Access: access, Stream: true}, nil)
	c.Do = nil
	return c
}

// ofMachine keeps a route for the ledger's own machine: a policy names a program
// that the server runs.
func ofMachine[Q, A any](c *Call[Q, A]) *Call[Q, A] {
	c.Access = Machine
	return c
}

// None is a request that asks for nothing in particular, or an answer that says
// nothing but that it was done.
type None struct{}

// JudgeRequest asks for a verdict on a message.
type JudgeRequest struct {
	Message events.MessageID `json:"message,omitempty"`
}

// Judged is a verdict; Asked says whether anybody was asked.
type Judged struct {
	ops.DrivingReceipt
	Asked bool `json:"asked"`
}

func judge(ctx context.Context, o ops.Operations, q JudgeRequest) (a Judged, r *commands.Refusal, err error) {
	a.DrivingReceipt, a.Asked, r, err = o.JudgeRouting(ctx, q.Message)
	return a, r, err
}

// Leased is a lease, with what was printed before and is yet to be found.
type Leased struct {
	ops.Offered
	Sought []commands.Sought `json:"sought"`
}

func lease(o ops.Operations, q ops.LeaseRequest) (Leased, *commands.Refusal, error) {
	if q.Within != nil {
		late := time.Now().Add(span(*q.Within)) // counted from here: clocks of two machines differ
		q.Late = func() bool { return !time.Now().Before(late) }
	}
	offered, r, err := o.Lease(q)
	return Leased{offered, append([]commands.Sought{}, offered.Sought...)}, r, err
}

// ConfirmRequest says that a lease was printed.
type ConfirmRequest struct {
	ops.Asker
	Lease events.LeaseID `json:"lease,omitempty"`
}

func confirm(o ops.Operations, q ConfirmRequest) (ops.Receipt, *commands.Refusal, error) {
	return o.Confirm(q.Asker, q.Lease)
}

// WaitRequest asks to be told when something comes.
type WaitRequest struct {
	ops.WaitRequest
	Within *int64 `json:"within_us,omitempty"` // microseconds that the caller waits; absent: as long as a request may
}

// Bounded ends a context when the caller's patience does. At least one look is
// taken, however short that is.
func Bounded(ctx context.Context, within *int64) (context.Context, context.CancelFunc) {
	if within == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, span(*within))
}

// span is a number of microseconds that a caller gave, as far as one can count.
func span(microseconds int64) time.Duration {
	const most = int64(24 * time.Hour / time.Microsecond)
	return time.Duration(max(-most, min(microseconds, most))) * time.Microsecond
}

// TurnRequest asks whether the caller may answer.
type TurnRequest struct {
	ops.TurnRequest
	Within *int64 `json:"within_us,omitempty"` // microseconds that the caller waits; absent: as long as a request may
}

// WaitLine is one line of a wait: where the wait for a thread began, what came, or
// how it ended.
type WaitLine struct {
	// Began is what a wait gives as since when it is asked again.
	Began   *events.Position  `json:"began,omitempty"`
	Came    *ops.Waited       `json:"came,omitempty"`
	Ended   *ops.Waited       `json:"ended,omitempty"`
	Refusal *commands.Refusal `json:"refusal,omitempty"`
}

// Yes answers a question of yes and no.
type Yes struct {
	Yes bool `json:"yes"`
}

func waits(_ context.Context, o ops.Operations, q ops.LeaseRequest) (Yes, *commands.Refusal, error) {
	yes, err := o.Waits(q)
	return Yes{yes}, nil, err
}

// Woken is what waits for an idle session. Again says that the request's bound
// was over before anything did.
type Woken struct {
	commands.Post
	Again bool `json:"again"`
}

func wake(ctx context.Context, o ops.Operations, q ops.WakeRequest) (w Woken, r *commands.Refusal, err error) {
	w.Post, err = o.Wake(ctx, q)
	w.Again = w.Newest == 0 && ctx.Err() != nil
	return w, nil, err
}

// PositionRequest asks for the ledger's end.
type PositionRequest struct {
	After *events.Position `json:"after,omitempty"` // to wait for one behind it
}

// PositionView is the ledger's end.
type PositionView struct {
	At events.Position `json:"at"`
}

func position(ctx context.Context, o ops.Operations, q PositionRequest) (v PositionView, r *commands.Refusal, err error) {
	if q.After != nil {
		if err := o.Past(ctx, *q.After); err != nil && ctx.Err() == nil {
			return v, nil, err
		}
	}
	v.At, err = o.End()
	return v, nil, err
}

// EventsQuery asks for the events.
type EventsQuery struct {
	ops.EventsRequest
	// Wait says that a stream goes on as events come; else it ends with the last.
	Wait *bool `json:"wait,omitempty"`
}

// PolicyRequest puts a policy in force.
type PolicyRequest struct {
	ops.Asker
	Policy events.Policy `json:"policy"`
}

// StandingRequest asks how a session stands.
type StandingRequest struct {
	Session events.SessionID `json:"session,omitempty"`
	Began   events.Time      `json:"began"`
}

// StandingView says how a session stands, and the policy in force.
type StandingView struct {
	Standing ops.Standing  `json:"standing"`
	Policy   events.Policy `json:"policy"`
}

func standing(_ context.Context, o ops.Operations, q StandingRequest) (v StandingView, r *commands.Refusal, err error) {
	v.Standing, v.Policy, err = o.Standing(q.Session, q.Began)
	return v, nil, err
}

// SessionRequest names a session.
type SessionRequest struct {
	Session events.SessionID `json:"session,omitempty"`
}

func silence(_ context.Context, o ops.Operations, q SessionRequest) (None, *commands.Refusal, error) {
	return None{}, nil, o.Silence(q.Session)
}

// SoughtView lists what is sought.
type SoughtView struct {
	Sought []commands.Sought `json:"sought"`
}

func sought(_ context.Context, o ops.Operations, q SessionRequest) (v SoughtView, r *commands.Refusal, err error) {
	found, err := o.Sought(q.Session)
	v.Sought = append([]commands.Sought{}, found...)
	return v, nil, err
}

func note(_ context.Context, o ops.Operations, q ops.NoteRequest) (None, *commands.Refusal, error) {
	r, err := o.Note(q)
	return None{}, r, err
}

func read(_ context.Context, o ops.Operations, q ops.ReadRequest) (None, *commands.Refusal, error) {
	r, err := o.Read(q)
	return None{}, r, err
}

func ignore(_ context.Context, o ops.Operations, q ops.IgnoreRequest) (None, *commands.Refusal, error) {
	return None{}, nil, o.Ignore(q)
}

// GiveRequest asks whether a token may be given out.
type GiveRequest struct {
	ops.Asker
	For string `json:"for,omitempty"`
}

// GiveView is whom it is to name; empty where one is taken back.
type GiveView struct {
	Participant events.Participant `json:"participant"`
}

func give(_ context.Context, o ops.Operations, q GiveRequest) (v GiveView, r *commands.Refusal, err error) {
	if o, here := o.(ops.Tokens); here {
		v.Participant, r, err = o.GiveToken(q.Asker, q.For)
	}
	return v, r, err
}

func examine(_ context.Context, o ops.Operations, q ops.Asker) (ops.Examined, *commands.Refusal, error) {
	x, err := o.Examine(q)
	return x, nil, err
}
