package ops

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// The bounds of a page of the overview.
const (
	OverviewDefault = 50
	OverviewMax     = 200
)

// ThreadsRequest asks for a page of the threads.
type ThreadsRequest struct {
	State       string `json:"state,omitempty"`       // open or done; empty: both
	Seat        string `json:"seat,omitempty"`        // that drives, with or without its @
	Participant string `json:"participant,omitempty"` // that takes part: a session's id or a prefix of it, @name, bot:NAME
	Text        string `json:"text,omitempty"`        // in the preview, whatever its case
	Waiting     bool   `json:"waiting,omitempty"`     // something in it is owed, or waits in a mailbox
	Cursor      string `json:"cursor,omitempty"`
	Limit       int    `json:"limit,omitempty"` // 0: OverviewDefault
	At          string `json:"at,omitempty"`
}

// Threads gives a page of the threads, the one in which something happened last
// first. It changes nothing. A seat or participant that nobody here is or was is
// refused: an empty page would look as if it had no threads.
func (o *Ops) Threads(q ThreadsRequest) (view projections.ThreadsView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, projections.OverviewRows, func(v *reading, live bool) error {
		query := projections.ThreadsQuery{State: q.State, Seat: strings.TrimPrefix(q.Seat, "@"), Text: q.Text, Waiting: q.Waiting}
		if q.State != "" && q.State != "open" && q.State != "done" {
			return refusal{commands.Refuse(commands.BadRequest, "%q is no state of a thread", q.State).
				Better("ask for open or done", "decklog threads --state open")}
		}
		policy, err := v.policy()
		if err != nil {
			return err
		}
		who, stranger, err := v.takingPart(policy, q.Participant, live)
		if err != nil {
			return err
		}
		query.Participant = who
		if stranger == nil {
			stranger = v.noSuchSeat(policy, query.Seat)
		}
		var r *commands.Refusal
		if query.Limit, query.Before, r = pageOf(q.Limit, q.Cursor, "decklog threads", query.Resume); r != nil {
			return refusal{r}
		}
		view = v.s.Threads(query, v.r, v.now)
		if stranger != nil && len(view.Threads) == 0 { // else somebody was it
			return refusal{stranger}
		}
		return nil
	})
	return view, refused, err
}

// takingPart is the participant that a filter names, and a refusal when nobody here
// is known by it.
func (v *reading) takingPart(p events.Policy, name string, live bool) (events.Participant, *commands.Refusal, error) {
	if name == "" || strings.HasPrefix(name, "bot:") { // a bot is known by what it sent alone
		return events.Participant(name), nil, nil
	}
	if strings.HasPrefix(name, "@") {
		who := events.Participant(name)
		if seat := who.Name(); v.noSuchSeat(p, seat) == nil || commands.KnownPerson(p, v.World.OSUser, seat) || len(v.s.SessionsOf(seat)) > 0 {
			return who, nil, nil
		}
		return who, v.nobodyHere(p, name), nil
	}
	if v.s.Session(events.SessionID(name)) != nil {
		return events.Participant(name), nil, nil
	}
	found := v.s.SessionsWith(name, commands.CandidatesMax)
	switch {
	case len(name) < commands.PrefixMin || len(found) == 0:
		return events.Participant(name), v.nobodyHere(p, name), nil
	case len(found) == 1:
		return events.Participant(found[0].ID), nil, nil
	}
	r := commands.Refuse(commands.AmbiguousRecipient, "%q begins the ids of several sessions", cut(name)).
		Better("use the full id of one of the candidates", "decklog peers --session "+commands.Word(name, "SESSION"))
	for _, row := range found {
		r.Candidates = append(r.Candidates, commands.Candidate{Session: string(row.ID), Harness: row.Harness, Directory: row.Cwd, Branch: row.Branch, Live: v.presence(row, live).Live})
	}
	return "", nil, refusal{r}
}

// nobodyHere refuses a filter that names nobody.
func (v *reading) nobodyHere(p events.Policy, name string) *commands.Refusal {
	names := v.seatNames()
	for _, person := range p.Persons {
		names = append(names, person.Name)
	}
	there := "there are sessions, by " + strconv.Itoa(commands.PrefixMin) + " characters of their ids or more"
	if len(names) > 0 {
		there += ", and @" + strings.Join(names, ", @")
	}
	return commands.Refuse(commands.NotFound, "nobody here is %s; %s", cut(name), there).
		Better("take the id from those who take part, or @name of a seat or person of the policy", "decklog peers")
}

// noSuchSeat refuses a seat that is on no roster and was never taken.
func (v *reading) noSuchSeat(p events.Policy, seat string) *commands.Refusal {
	names := v.seatNames()
	switch {
	case seat == "", slices.Contains(names, seat), commands.KnownSeat(v.s, p, seat):
		return nil
	case len(names) == 0:
		return commands.Refuse(commands.NoSuchSeat, "no seat is called %s: the policy has none, and none was taken", cut(seat)).
			Better("leave the seat out, or have a person write seats into the policy and adopt it", "decklog threads")
	}
	return commands.Refuse(commands.NoSuchSeat, "no seat is called %s; there are %s", cut(seat), strings.Join(names, ", ")).
		Better("name one of them, or leave the seat out", "decklog threads --seat "+commands.Word(names[0], "SEAT"))
}

// seatNames are the seats of the policy and those that were taken once.
func (v *reading) seatNames() (names []string) {
	for _, l := range v.s.SeatLines() {
		names = append(names, l.Seat)
	}
	return names
}

// cut keeps a name that anybody may have given to a length that is read.
func cut(name string) string {
	const most = 80
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// pageOf is how much of the overview is asked for, and from where on.
func pageOf(limit int, cursor, example string, resume func(string) (events.Position, bool)) (most int, before events.Position, r *commands.Refusal) {
	if most, r = limited(limit, OverviewDefault, OverviewMax, example); r == nil {
		before, r = resumed(cursor, example, resume)
	}
	return most, before, r
}

// MailboxesRequest asks who has mail.
type MailboxesRequest struct {
	At string `json:"at,omitempty"`
}

// Mailboxes gives the mailboxes in which something waits and those of the live
// sessions, the seats and the persons. It changes nothing. As with Peers, who is
// busy and whose process runs is observed only of the present.
func (o *Ops) Mailboxes(q MailboxesRequest) (view projections.MailboxesView, refused *commands.Refusal, err error) {
	only := projections.OverviewRows | projections.QueueRows | projections.LeaseRows
	refused, err = o.replay(q.At, only, func(v *reading, live bool) error {
		policy, err := v.policy()
		if err != nil {
			return err
		}
		view = projections.MailboxesView{Seats: v.s.SeatLines(), At: v.s.Position()}
		v.mailboxes(&view, live)
		view.Persons = v.persons(policy, view.Mailboxes)
		return nil
	})
	return view, refused, err
}

func (v *reading) mailboxes(view *projections.MailboxesView, live bool) {
	waiting, idle := v.s.WithMail(), []events.Participant{}
	for _, row := range v.s.LiveSessions() {
		who := events.Participant(row.ID)
		if v.s.Mailbox(who).Waiting > 0 {
			waiting = append(waiting, who)
		} else {
			idle = append(idle, who)
		}
	}
	view.Mailboxes = []projections.MailboxLine{}
	for _, who := range waiting {
		view.Mailboxes = append(view.Mailboxes, v.s.MailboxLine(who, v.now))
	}
	slices.SortStableFunc(view.Mailboxes, func(a, b projections.MailboxLine) int { return cmp.Compare(oldest(a), oldest(b)) })
	for _, who := range idle[:min(len(idle), max(0, projections.MailboxesMax-len(view.Mailboxes)))] {
		view.Mailboxes = append(view.Mailboxes, v.s.MailboxLine(who, v.now))
	}
	view.Mailboxes = view.Mailboxes[:min(len(view.Mailboxes), projections.MailboxesMax)]
	view.More = len(waiting)+len(idle) > len(view.Mailboxes)
	for i := range view.Mailboxes {
		l := &view.Mailboxes[i]
		if name := l.Participant.Name(); name != "" {
			l.Kind = events.KindPerson
			if slices.ContainsFunc(view.Seats, func(s projections.SeatLine) bool { return s.Seat == name }) {
				l.Kind = events.KindSeat
			}
			continue
		}
		row := v.s.Session(l.Participant.Session())
		if row == nil {
			continue
		}
		pr := v.presence(row, live)
		l.Live, l.Busy, l.Evidence, l.EvidenceAgeMS = pr.Live, pr.Busy, pr.Says, pr.Age
		switch {
		case pr.Busy:
			l.Presence = "busy"
		case pr.Live:
			l.Presence = "idle"
		default:
			l.Presence = "gone"
		}
	}
}

func oldest(l projections.MailboxLine) events.Time {
	if l.Oldest == nil {
		return 0
	}
	return *l.Oldest
}

// persons lists those of the policy, those who have a session here and those
// whose mailbox holds something, by name.
func (v *reading) persons(policy events.Policy, boxes []projections.MailboxLine) []projections.PersonLine {
	names := v.s.Persons()
	for _, p := range policy.Persons {
		names = append(names, p.Name)
	}
	for _, l := range boxes {
		if l.Kind == events.KindPerson {
			names = append(names, l.Participant.Name())
		}
	}
	slices.Sort(names)
	lines := []projections.PersonLine{}
	for _, name := range slices.Compact(names) {
		l := v.s.PersonLine(name)
		for _, p := range policy.Persons {
			if p.Name == name {
				l.Known, l.Roles = true, append(l.Roles, p.Roles...)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// RefusalsRequest asks for a page of the refusals.
type RefusalsRequest struct {
	Code   string `json:"code,omitempty"` // empty: all
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 0: OverviewDefault
	At     string `json:"at,omitempty"`
}

// Refusals counts the refusals by their codes, and gives a page of them, the
// latest first. It changes nothing.
func (o *Ops) Refusals(q RefusalsRequest) (view projections.RefusalsView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, projections.OverviewRows, func(v *reading, _ bool) error {
		query := projections.RefusalsQuery{Code: q.Code}
		var r *commands.Refusal
		if query.Limit, query.Before, r = pageOf(q.Limit, q.Cursor, "decklog refusals", query.Resume); r != nil {
			return refusal{r}
		}
		view = v.s.Refusals(query, v.r)
		if q.Code != "" && !slices.Contains(commands.Codes(), commands.Code(q.Code)) && !slices.ContainsFunc(view.Counts, func(c projections.RefusalCount) bool { return c.Code == q.Code }) {
			return refusal{noSuchCode(q.Code, view.Counts)}
		}
		return nil
	})
	return view, refused, err
}

// noSuchCode refuses a code that decklog does not give, and that none was given.
func noSuchCode(code string, counts []projections.RefusalCount) *commands.Refusal {
	var names []string
	for _, c := range counts {
		names = append(names, c.Code)
	}
	there, example := "nothing was refused yet", "decklog refusals"
	if len(names) > 0 {
		there, example = "there are "+strings.Join(names, ", "), "decklog refusals --code "+commands.Word(names[0], "CODE")
	}
	return commands.Refuse(commands.BadRequest, "no refusal has the code %s; %s", cut(code), there).Better("name one of them, or leave the code out", example)
}

// HealthRequest asks how the ledger stands.
type HealthRequest struct {
	At string `json:"at,omitempty"`
}

// storing is what a ledger may tell of its store besides.
type storing interface {
	// Stored is how many bytes the ledger takes.
	Stored() (bytes int64, err error)
}

// Health says how the ledger stands. It changes nothing, and proves nothing:
// that is what Verify is for.
func (o *Ops) Health(q HealthRequest) (view projections.HealthView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, projections.OverviewRows, func(v *reading, _ bool) error {
		view = v.s.Health(v.now)
		if view.Position > 0 {
			last, err := v.timeAt(view.Position)
			if err != nil {
				return err
			}
			view.Last = &last
		}
		return nil
	})
	if store, is := o.Ledger.(storing); is && refused == nil && err == nil && q.At == "" {
		var bytes int64
		if bytes, err = store.Stored(); err == nil {
			view.SizeBytes, view.Journal = &bytes, o.journal()
		}
	}
	if refused == nil && q.At == "" {
		view.Cluster = o.cluster()
	}
	return view, refused, err
}
