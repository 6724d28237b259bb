package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// threadsPage is the list of the threads.
type threadsPage struct {
	projections.ThreadsView
	State, Seat, Text        string
	Participant              events.Participant
	Waiting, Filtered, Paged bool
	Next                     string // the next page; empty: there is none
	Days                     []dayOf
}

// dayOf is the threads of one stretch of time, the latest first.
type dayOf struct {
	Name    string
	Threads []projections.ThreadLine
}

// threads shows the threads, the one in which something happened last first.
func (v *visit) threads() error {
	q := ops.ThreadsRequest{
		State: v.query("state"), Seat: v.query("seat"), Participant: v.query("who"), Text: v.query("text"), Waiting: v.query("waiting") != "", Cursor: v.query("cursor"),
	}
	view, refused, err := v.desk.Threads(q)
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	p := threadsPage{
		ThreadsView: view, State: q.State, Seat: q.Seat, Participant: events.Participant(q.Participant), Text: q.Text, Waiting: q.Waiting, Paged: q.Cursor != "",
		Filtered: q.State != "" || q.Seat != "" || q.Participant != "" || q.Text != "" || q.Waiting,
	}
	if view.NextCursor != "" {
		p.Next = v.with("cursor", view.NextCursor)
	}
	for _, t := range view.Threads {
		name := stretch(t.Last, v.Now)
		if n := len(p.Days); n == 0 || p.Days[n-1].Name != name {
			p.Days = append(p.Days, dayOf{Name: name})
		}
		d := &p.Days[len(p.Days)-1]
		d.Threads = append(d.Threads, t)
	}
	v.Title, v.Nav = "Threads", "threads"
	v.render(http.StatusOK, "threads", p)
	return nil
}

// stretch names how far back a moment lies.
func stretch(t, now events.Time) string {
	switch d := now.Sub(t); {
	case d < time.Hour:
		return "This hour"
	case d < 24*time.Hour:
		return "Last 24 hours"
	case d < 7*24*time.Hour:
		return "This week"
	}
	return "Earlier"
}

// with is the address of the page with one value of its query changed.
func (v *visit) with(name, to string) string {
	q := v.r.URL.Query()
	q.Del("did")
	if q.Del(name); to != "" {
		q.Set(name, to)
	}
	u := url.URL{Path: v.r.URL.Path, RawQuery: q.Encode()}
	return u.String()
}

// owedPage is the board of what is owed.
type owedPage struct {
	projections.OwedView
	Kind   string
	Kinds  []owedKind
	Shown  []owedItem
	Over   int
	Titles map[events.ThreadID]string // the first lines of the threads, as far as they were looked up
}

type owedKind struct {
	Kind  projections.OwedKind
	Name  string
	Count int
}

// owedItem is an item with the id of the form that closes it.
type owedItem struct {
	projections.OwedShown
	Command events.CommandID
}

var owedKinds = []owedKind{
	{Kind: projections.OwedReply, Name: "Replies"},
	{Kind: projections.OwedHandoff, Name: "Hand-offs"},
	{Kind: projections.OwedReview, Name: "Reviews"},
}

// owed shows what is owed, oldest first.
func (v *visit) owed() error { return v.owedBoard(http.StatusOK) }

func (v *visit) owedBoard(status int) error {
	view, refused, err := v.desk.Owed(ops.OwedRequest{})
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	p := owedPage{OwedView: view, Kind: v.query("kind"), Kinds: slices.Clone(owedKinds)}
	for _, it := range view.Items {
		for i := range p.Kinds {
			if p.Kinds[i].Kind == it.Kind {
				p.Kinds[i].Count++
			}
		}
		if v.Over(it.Due) {
			p.Over++
		}
		if p.Kind == "" || p.Kind == string(it.Kind) {
			item := owedItem{OwedShown: it}
			if v.closes() {
				item.Command = v.command()
			}
			p.Shown = append(p.Shown, item)
		}
	}
	// One look at the threads in which something is owed tells most first lines.
	lines, refused, err := v.desk.Threads(ops.ThreadsRequest{Waiting: true, Limit: ops.OverviewMax})
	if err != nil || refused != nil {
		return failure(refused, err)
	}
	p.Titles = map[events.ThreadID]string{}
	for _, t := range lines.Threads {
		p.Titles[t.Thread] = t.Preview
	}
	v.Title, v.Nav = "Owed", "owed"
	v.render(status, "owed", p)
	return nil
}

// closes says whether the viewer may close what is owed, as persons alone may.
func (v *visit) closes() bool { return v.Acts() && v.IsPerson() }

// mailboxes shows who has mail, who takes part, and who sits where.
func (v *visit) mailboxes() error {
	view, refused, err := v.desk.Mailboxes(ops.MailboxesRequest{})
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	v.Title, v.Nav = "Mailboxes", "mailboxes"
	v.render(http.StatusOK, "mailboxes", view)
	return nil
}

// mailboxPage is one participant's inbox, or what it sent.
type mailboxPage struct {
	projections.InboxView
	Sent    bool
	Waiting bool // only what lies in the mailbox
	Next    string
}

// waits are the states of a message that lies in a mailbox.
var waits = []events.DeliveryState{events.StateQueued, events.StateHeld, events.StateLeased}

// waiting is all that lies in a mailbox, the newest first.
func (v *visit) waiting(q ops.InboxRequest) (all projections.InboxView, refused *commands.Refusal, err error) {
	q.Limit, q.Sent, q.Cursor = ops.InboxMax, false, ""
	for i, state := range waits {
		q.State = string(state)
		view, refused, err := v.desk.Inbox(q)
		if refused != nil || err != nil {
			return all, refused, err
		}
		if i == 0 {
			all.Participant, all.At = view.Participant, view.At
		}
		all.Messages = append(all.Messages, view.Messages...)
	}
	slices.SortStableFunc(all.Messages, func(a, b projections.Shown) int { return cmp.Compare(b.Sent, a.Sent) })
	return all, nil, nil
}

// mailbox shows what went to a participant, or what it sent, newest first.
func (v *visit) mailbox() error {
	q := ops.InboxRequest{As: v.r.PathValue("who"), Sent: v.query("sent") != "", State: v.query("state"), Cursor: v.query("cursor"), Limit: 50}
	ask, waiting := v.desk.Inbox, q.State == "waiting"
	if waiting {
		ask = v.waiting
	}
	view, refused, err := ask(q)
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	p := mailboxPage{InboxView: view, Sent: q.Sent && !waiting, Waiting: waiting}
	if view.NextCursor != "" {
		p.Next = v.with("cursor", view.NextCursor)
	}
	v.Title, v.Nav = "Mailbox of "+short(view.Participant), "mailboxes"
	v.render(http.StatusOK, "mailbox", p)
	return nil
}

// refusalsPage is how often commands were refused, and the latest.
type refusalsPage struct {
	projections.RefusalsView
	Code string
	Next string
	Most int // the count of the most frequent code
}

// refusals shows the refusals by their codes, and the latest of them.
func (v *visit) refusals() error {
	q := ops.RefusalsRequest{Code: v.query("code"), Cursor: v.query("cursor")}
	view, refused, err := v.desk.Refusals(q)
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	p := refusalsPage{RefusalsView: view, Code: q.Code}
	for _, c := range view.Counts {
		p.Most = max(p.Most, c.Count)
	}
	if view.NextCursor != "" {
		p.Next = v.with("cursor", view.NextCursor)
	}
	v.Title, v.Nav = "Refusals", "refusals"
	v.render(http.StatusOK, "refusals", p)
	return nil
}

// healthPage is how the ledger stands.
type healthPage struct {
	projections.HealthView
	Audit  *Audit
	Policy events.Policy
	Limits []limit
}

type limit struct{ Name, Value string }

// health shows how the ledger stands.
func (v *visit) health() error {
	p := healthPage{HealthView: v.Health, Policy: v.policy, Limits: limits(v.policy.Limits)}
	if v.Audited != nil {
		if a, known := v.Audited(); known {
			p.Audit = &a
		}
	}
	v.Title, v.Nav = "Health", "health"
	v.render(http.StatusOK, "health", p)
	return nil
}

func limits(l events.Limits) []limit {
	count := func(n int, unit string) string {
		if n == 0 {
			return "no limit"
		}
		return number(n) + unit
	}
	span := func(s events.Span) string {
		if s == 0 {
			return "no limit"
		}
		text := s.String() // 24h0m0s is 24h
		if cut, whole := strings.CutSuffix(text, "m0s"); whole {
			text = cut + "m"
		}
		if cut, whole := strings.CutSuffix(text, "h0m"); whole {
			text = cut + "h"
		}
		return text
	}
	return []limit{
		{"Body", count(l.BodyBytes, " bytes")},
		{"Session’s sends", count(l.SessionRate, " an hour")},
		{"Person’s sends", count(l.PersonRate, " an hour")},
		{"Machine’s sends", count(l.DeviceRate, " an hour")},
		{"Thread", count(l.ThreadRate, " an hour")},
		{"Mailbox", count(l.RecipientFull, " waiting")},
		{"Lease", span(l.Lease)},
		{"Attempts", count(l.LeaseAttempts, "")},
		{"Expires after", span(l.ExpiresAfter)},
		{"Waits for final", span(l.WaitFinal)},
		{"Owner window", span(l.OwnerWindow)},
		{"Hops", count(l.Hops, "")},
		{"Owed after", span(l.OwedAfter)},
		{"Review within", span(l.ReviewWithin)},
		{"Absent after", span(l.AbsentAfter)},
	}
}

// composePage is the form of a new thread.
type composePage struct {
	Command events.CommandID
	To      string
}

// compose shows the form that begins a thread.
func (v *visit) compose() error { return v.composing(http.StatusOK) }

func (v *visit) composing(status int) error {
	if !v.Acts() {
		says := "this token may only read"
		if v.Viewer.MayWrite {
			says = v.Idle()
		}
		return v.refuse(http.StatusForbidden, commands.Refuse(commands.PersonOnly, "%s", says).
			Better("open the dashboard with a token of a person that may write", "decklog token create --for @NAME --scope write"))
	}
	v.Title = "New thread"
	v.render(status, "compose", composePage{Command: v.command(), To: v.query("to")})
	return nil
}
