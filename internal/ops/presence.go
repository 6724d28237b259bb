package ops

import (
	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// JoinRequest registers a session.
type JoinRequest struct {
	Asker
	Session    string          `json:"session,omitempty"`
	Harness    string          `json:"harness,omitempty"`
	Cwd        string          `json:"cwd,omitempty"`
	Repo       string          `json:"repo,omitempty"`
	Branch     string          `json:"branch,omitempty"`
	Title      string          `json:"title,omitempty"`
	Seat       string          `json:"seat,omitempty"`
	Source     events.Source   `json:"source,omitempty"`
	Process    *events.Process `json:"process,omitempty"`
	Transcript string          `json:"transcript,omitempty"`
	// FoundOut says that directory, repository and branch are not what the caller
	// said but where it happens to be: a session that is known keeps its own.
	FoundOut bool `json:"found_out,omitempty"`
}

// JoinReceipt says who joined, and on which seat.
type JoinReceipt struct {
	Receipt
	Session string `json:"session"`
	Seat    string `json:"seat"`
	Person  string `json:"person"`
}

// Join registers a session, and may give it a seat. It needs no caller.
func (o *Ops) Join(q JoinRequest) (receipt JoinReceipt, refused *commands.Refusal, err error) {
	q.As = ""
	refused, err = o.update("join", q.Asker, func(u *unit) (*commands.Refusal, error) {
		if r := o.joins(u.s, u.policy.Policy, q.Asker, events.SessionID(q.Session)); r != nil {
			return r, nil
		}
		u.call.OSUser = o.osUserOf(u.policy.Policy, q.Asker)
		u.call.Caller = session(events.SessionID(q.Session))
		if commands.CheckSessionID(q.Session) == "" {
			if err := u.sweep(u.call.Caller.ID); err != nil {
				return nil, err
			}
		}
		if q.FoundOut && u.s.Session(events.SessionID(q.Session)) != nil {
			q.Cwd, q.Repo, q.Branch = "", "", ""
		}
		recorded, r, err := u.run(commands.Join{
			Call: u.call, Session: q.Session, Harness: q.Harness, Source: q.Source, Cwd: q.Cwd, Repo: q.Repo, Branch: q.Branch,
			Title: q.Title, Seat: q.Seat, Process: q.Process, Transcript: q.Transcript,
		}, events.TypeSeatTaken, events.TypeSessionLeft, events.TypeSessionJoined)
		if r != nil || err != nil {
			return r, err
		}
		row := u.s.Session(events.SessionID(q.Session))
		if row != nil {
			receipt.Seat, receipt.Person = row.Seat, row.Person
		}
		receipt.Session = q.Session
		receipt.Receipt, err = u.receipt(q.Session, recorded)
		return nil, err
	})
	return receipt, refused, err
}

// LeaveRequest ends a session.
type LeaveRequest struct {
	Asker
	Session   string           `json:"session,omitempty"` // empty: the caller
	Reason    events.EndReason `json:"reason,omitempty"`
	FreesSeat bool             `json:"frees_seat,omitempty"`
}

// Leave ends a session.
func (o *Ops) Leave(q LeaveRequest) (receipt Receipt, refused *commands.Refusal, err error) {
	refused, err = o.update("leave", q.Asker, func(u *unit) (*commands.Refusal, error) {
		id := q.Session
		if id == "" {
			if u.call.Caller.Kind != events.KindSession {
				return commands.Refuse(commands.NoCaller, "only a session leaves, and nobody can tell which one is meant"), nil
			}
			id = string(u.call.Caller.ID)
		}
		if r := o.touches(u.s, u.policy.Policy, q.Asker, events.Participant(id), u.now); r != nil {
			return r, nil
		}
		recorded, r, err := u.run(commands.Leave{Call: u.call, Session: id, Reason: q.Reason, FreesSeat: q.FreesSeat}, events.TypeSessionLeft)
		if r != nil || err != nil {
			return r, err
		}
		receipt, err = u.receipt(id, recorded)
		return nil, err
	})
	return receipt, refused, err
}

// PeersRequest asks who takes part.
type PeersRequest struct {
	Session string `json:"session,omitempty"` // a prefix of an id; with it the ended ones are listed too
	Repo    string `json:"repo,omitempty"`
	Harness string `json:"harness,omitempty"`
	At      string `json:"at,omitempty"`
}

// PeersMax bounds the presence view.
const PeersMax = 500

// Peers gives the presence view. A replay shows what the events say; whether a
// process runs, and who is busy, is observed only of the present.
func (o *Ops) Peers(q PeersRequest) (view projections.PeersView, refused *commands.Refusal, err error) {
	refused, err = o.replay(q.At, 0, func(v *reading, live bool) error {
		view = projections.PeersView{Peers: []projections.Peer{}, At: v.s.Position()}
		rows := v.s.LiveSessions()
		if q.Session != "" {
			rows = v.s.SessionsWith(q.Session, PeersMax)
		}
		for _, row := range rows {
			if q.Repo != "" && row.Repo != q.Repo || q.Harness != "" && row.Harness != q.Harness || len(view.Peers) == PeersMax {
				continue
			}
			peer := v.s.Peer(row)
			pr := v.presence(row, live)
			peer.Live, peer.Busy, peer.Evidence, peer.EvidenceAgeMS = pr.Live, pr.Busy, pr.Says, pr.Age
			view.Peers = append(view.Peers, peer)
		}
		return nil
	})
	return view, refused, err
}

// presence is whether a session lives; without live it is what the events say.
func (v *reading) presence(row *projections.Session, live bool) commands.Presence {
	var ob commands.Observation
	if live {
		ob = v.call("", commands.Caller{}).Look(row)
	}
	return commands.PresenceOf(row, ob, v.now)
}

// Standing is where a session stands for a hook run.
type Standing int

// The standings.
const (
	Here    Standing = iota // it is registered, and lives
	Missing                 // it has to join first: it ended before the run began, or its process did
	Ended                   // it ended since the run began
	Unknown                 // it has to join first: it never did
)

// Standing says how a session stands for a hook that began at a moment, and the
// policy in force, by which it may take no part at all. An end that lies ahead is
// of a clock that went back since: it keeps nobody out.
func (o *Ops) Standing(id events.SessionID, began events.Time) (standing Standing, inForce events.Policy, err error) {
	err = o.look(func(v *reading) (err error) {
		row := v.s.Session(id)
		switch {
		case row == nil:
			standing = Unknown
		case row.Left != nil && (*row.Left < began || *row.Left > v.now):
			standing = Missing
		case row.Left != nil:
			standing = Ended
		case !v.presence(row, true).Live:
			standing = Missing
		}
		inForce, err = v.policy()
		return err
	})
	return standing, inForce, err
}
