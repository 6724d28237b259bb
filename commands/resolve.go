package commands

import (
	"slices"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// PrefixMin is the fewest characters of a session's id, or of a thread's or
// message's, that may stand for it.
const PrefixMin = 6

// resolved is what an address stands for.
type resolved struct {
	events.Recipient
	session *projections.Session // that would take it now; nil: nobody
}

// resolve finds the recipient that an address names. A title, a directory or a
// branch is never an address.
func (c Call) resolve(s *projections.State, to string, now events.Time, p events.Policy, from events.Author) (resolved, *Refusal) {
	if name, named := strings.CutPrefix(to, "@"); named {
		return c.resolveName(s, name, now, p, from)
	}
	if exact := s.Session(events.SessionID(to)); exact != nil {
		return c.toSession(s, exact), nil
	}
	if len(to) < PrefixMin {
		return resolved{}, refuse(BadRequest, "%q is no session's full id, and too short for a prefix: at least %d characters", to, PrefixMin).
			fix("use the full session id, or %d characters of it or more", PrefixMin).
			example("decklog peers")
	}
	found := s.SessionsWith(to, CandidatesMax+1)
	switch len(found) {
	case 0:
		r := refuse(UnknownRecipient, "no session's id is or begins with %q", to)
		r.To = to
		r.Candidates = c.nearSessions(s, to, now)
		return resolved{}, r
	case 1:
		return c.toSession(s, found[0]), nil
	}
	r := refuse(AmbiguousRecipient, "%q begins the ids of %s sessions", to, several(len(found)))
	r.To = to
	for _, f := range found[:min(len(found), CandidatesMax)] {
		r.Candidates = append(r.Candidates, c.candidate(f, now))
	}
	return resolved{}, r.example(`decklog send --to %s -- "text"`, or(safeWord(string(found[0].ID)), "SESSION"))
}

func several(n int) string {
	if n > CandidatesMax {
		return "more than 10"
	}
	return []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}[n]
}

func (c Call) toSession(s *projections.State, row *projections.Session) resolved {
	return resolved{
		Recipient: events.Recipient{ID: events.Participant(row.ID), Kind: events.KindSession, Seat: s.SeatOf(row)}, session: row,
	}
}

func (c Call) resolveName(s *projections.State, name string, now events.Time, p events.Policy, from events.Author) (resolved, *Refusal) {
	seat, person := KnownSeat(s, p, name), KnownPerson(p, c.OSUser, name)
	switch {
	case seat && person:
		r := refuse(AmbiguousRecipient, "@%s is a seat and a person", name).
			fix("send to a session's full id; and have a person give the seat or the person another name in the policy").
			example("decklog peers")
		r.To = "@" + name
		occupant := c.occupant(s, name, now)
		if occupant != nil {
			r.Candidates = append(r.Candidates, c.candidate(occupant, now))
		}
		for _, row := range s.SessionsOf(name) {
			if len(r.Candidates) < CandidatesMax && (occupant == nil || row.ID != occupant.ID) {
				r.Candidates = append(r.Candidates, c.candidate(row, now))
			}
		}
		slices.SortFunc(r.Candidates, func(a, b Candidate) int { return strings.Compare(a.Session, b.Session) })
		return resolved{}, r
	case seat:
		return resolved{Recipient: events.Recipient{ID: events.Named(name), Kind: events.KindSeat}, session: c.occupant(s, name, now)}, nil
	case person:
		return resolved{Recipient: events.Recipient{ID: events.Named(name), Kind: events.KindPerson}, session: c.sessionFor(s, name, from, now)}, nil
	}
	r := refuse(UnknownRecipient, "nobody here is called @%s", name)
	r.To = "@" + name
	r.Candidates = c.nearNames(s, p, name, now)
	return resolved{}, r
}

// resolveKnown is the recipient of a reply that leaves the address out.
func (c Call) resolveKnown(s *projections.State, to events.Recipient, now events.Time, from events.Author) resolved {
	r := resolved{Recipient: to}
	switch to.Kind {
	case events.KindSession:
		if r.session = s.Session(to.ID.Session()); r.session != nil {
			r.Seat = s.SeatOf(r.session)
		}
	case events.KindSeat:
		r.session = c.occupant(s, to.ID.Name(), now)
	case events.KindPerson:
		r.session = c.sessionFor(s, to.ID.Name(), from, now)
	}
	return r
}

// occupant is the live session on a seat; nil when there is none.
func (c Call) occupant(s *projections.State, seat string, now events.Time) *projections.Session {
	if row := s.Seat(seat); row != nil && row.Occupant != "" {
		if session := s.Session(row.Occupant); c.live(session, now) {
			return session
		}
	}
	return nil
}

// sessionFor is the live session of a person that takes a message of this
// author: on the author's repository, a busy one first; else any; never the
// author itself.
func (c Call) sessionFor(s *projections.State, person string, from events.Author, now events.Time) (best *projections.Session) {
	score := -1
	for _, row := range s.SessionsOf(person) {
		pr := c.presence(row, now)
		if !pr.Live || events.Participant(row.ID) == from.ID {
			continue
		}
		n := 0
		if from.Repo != "" && row.Repo == from.Repo {
			n += 2
		}
		if pr.Busy {
			n++
		}
		if n > score {
			best, score = row, n
		}
	}
	return best
}

func (c Call) candidate(row *projections.Session, now events.Time) Candidate {
	return Candidate{
		Session: string(row.ID), Harness: row.Harness, Directory: row.Cwd, Branch: row.Branch,
		Live: c.presence(row, now).Live,
	}
}

func (c Call) nearSessions(s *projections.State, to string, now events.Time) (near []Candidate) {
	for _, row := range s.SessionsWith(to[:min(len(to), 4)], CandidatesMax) {
		near = append(near, c.candidate(row, now))
	}
	return near
}

// nearNames lists the names that somebody may have meant, by name.
func (c Call) nearNames(s *projections.State, p events.Policy, name string, now events.Time) (near []Candidate) {
	var names []string
	for _, seat := range p.Seats {
		names = append(names, seat.Name)
	}
	for _, person := range p.Persons {
		names = append(names, person.Name)
	}
	if len(p.Persons) == 0 && c.OSUser != "" {
		names = append(names, c.OSUser)
	}
	if len(p.Seats) == 0 {
		names = append(names, s.SeatsWith("", 100)...)
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if !alike(n, name) || len(near) == CandidatesMax {
			continue
		}
		candidate := Candidate{Session: "@" + n}
		if row := c.occupant(s, n, now); row != nil {
			candidate.Harness, candidate.Directory, candidate.Branch, candidate.Live = row.Harness, row.Cwd, row.Branch, true
		}
		near = append(near, candidate)
	}
	return near
}

// alike says whether one name may be a slip of the other: one begins with the
// other's first three characters, or they are at most two edits apart.
func alike(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) >= 3 && len(b) >= 3 && a[:3] == b[:3] {
		return true
	}
	return Distance(a, b) <= 2
}

// Distance is the number of single characters to put in, take out or change to
// turn a into b (Levenshtein).
func Distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
