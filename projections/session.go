package projections

import (
	"strconv"
	"time"

	"decklog/events"
)

// Session is what is known of one run of an agent.
type Session struct {
	ID         events.SessionID
	Harness    string
	Cwd        string
	Repo       string
	Branch     string
	Title      string
	Person     string
	Device     string
	Process    *events.Process
	Transcript string
	Source     events.Source
	Seat       string      // that it occupies
	Joined     events.Time // last time
	Left       *events.Time
	Reason     events.EndReason
	Joins      int // 0: it took a seat, and was not seen to join
}

// UnseenMax is how long a session without a process is live after it was last seen.
const UnseenMax = 12 * time.Hour

// Seat is a named place that one session occupies at a time.
type Seat struct {
	Name     string
	Occupant events.SessionID
	Protocol int
	Since    events.Time
	Absent   *Because // why it is passed over
}

func (s *Session) pack(p *packer) {
	text(p, &s.ID)
	text(p, &s.Harness)
	text(p, &s.Cwd)
	text(p, &s.Repo)
	text(p, &s.Branch)
	text(p, &s.Title)
	text(p, &s.Person)
	text(p, &s.Device)
	some(p, &s.Process, func(p *packer, run *events.Process) {
		number(p, &run.PID)
		wide(p, &run.Start)
		text(p, &run.Boot)
		wide(p, &run.Space)
	})
	text(p, &s.Transcript)
	text(p, &s.Source)
	text(p, &s.Seat)
	p.moment(&s.Joined)
	p.maybe(&s.Left)
	text(p, &s.Reason)
	number(p, &s.Joins)
}

func (s *Seat) pack(p *packer) {
	text(p, &s.Name)
	text(p, &s.Occupant)
	number(p, &s.Protocol)
	p.moment(&s.Since)
	some(p, &s.Absent, packBecause)
}

// Session finds a session that joined at some time; nil when none with this id did.
func (s *State) Session(id events.SessionID) *Session {
	if row := s.sessions.find(s, string(id)); row != nil && row.Joins > 0 {
		return row
	}
	return nil
}

// SeatOf is the seat that a session occupies; empty when it has none.
func (s *State) SeatOf(row *Session) string {
	if row == nil {
		return ""
	}
	if seat := s.Seat(row.Seat); seat != nil && seat.Occupant == row.ID {
		return row.Seat
	}
	return ""
}

// Seat finds a seat that was taken at some time; nil when none with this name was.
func (s *State) Seat(name string) *Seat { return s.seats.find(s, name) }

// SessionsWith lists the sessions whose id begins with prefix, at most limit,
// by id; the ended ones too.
func (s *State) SessionsWith(prefix string, limit int) (found []*Session) {
	s.scan(key("session", prefix), "", false, func(k string, _ []byte) bool {
		if row := s.Session(events.SessionID(last(k))); row != nil {
			found = append(found, row)
		}
		return len(found) < limit
	})
	return found
}

// LiveSessions lists the sessions that have not left, by id.
func (s *State) LiveSessions() (found []*Session) {
	s.scan(key("live", ""), "", false, func(k string, _ []byte) bool {
		if row := s.Session(events.SessionID(last(k))); row != nil {
			found = append(found, row)
		}
		return true
	})
	return found
}

// SessionsOf lists a person's sessions that have not left, by id.
func (s *State) SessionsOf(person string) (found []*Session) {
	s.scan(key("of", person, ""), "", false, func(k string, _ []byte) bool {
		if row := s.Session(events.SessionID(last(k))); row != nil {
			found = append(found, row)
		}
		return true
	})
	return found
}

// RanIn is the session that joined last from a process; nil when none did.
func (s *State) RanIn(p events.Process) *Session {
	if id := s.get(processKey(p)); id != nil {
		return s.Session(events.SessionID(id))
	}
	return nil
}

func processKey(p events.Process) string {
	k := key("process", p.Boot, strconv.Itoa(p.PID), strconv.FormatUint(p.Start, 10))
	if p.Space != 0 {
		k = key(k, strconv.FormatUint(p.Space, 10))
	}
	return k
}

// SeatsWith lists the names of the seats taken at some time that begin with prefix.
func (s *State) SeatsWith(prefix string, limit int) (names []string) {
	s.scan(key("seat", prefix), "", false, func(k string, _ []byte) bool {
		names = append(names, last(k))
		return len(names) < limit
	})
	return names
}

func (s *State) sessionJoined(e events.SessionJoined, r events.Recorded) {
	was := s.Session(e.Session)
	if was != nil && was.Person != e.Person {
		s.unmark(key("of", was.Person, string(e.Session)))
	}
	s.came(e.Session)
	row := s.sessions.change(s, string(e.Session))
	seat, joins := row.Seat, row.Joins
	*row = Session{
		ID: e.Session, Harness: e.Harness, Cwd: e.Cwd, Repo: e.Repo, Branch: e.Branch, Title: e.Title,
		Person: e.Person, Device: e.Device, Process: e.Process, Transcript: e.Transcript,
		Source: e.Source, Seat: seat, Joined: r.Time, Joins: joins + 1,
	}
	s.mark(key("live", string(e.Session)), "-")
	if e.Person != "" {
		s.mark(key("of", e.Person, string(e.Session)), "-")
	}
	if e.Process != nil {
		s.mark(processKey(*e.Process), string(e.Session))
	}
	s.instructionOwed(e)
}

func (s *State) sessionLeft(e events.SessionLeft, r events.Recorded) {
	s.went(e.Session)
	row := s.sessions.change(s, string(e.Session))
	row.ID = e.Session
	at := r.Time
	row.Left, row.Reason = &at, e.Reason
	s.unmark(key("live", string(e.Session)))
	s.unmark(key("of", row.Person, string(e.Session)))
}

func (s *State) seatTaken(e events.SeatTaken, r events.Recorded) {
	seat := s.seats.change(s, e.Seat)
	if before := seat.Occupant; before != "" && before != e.Session {
		s.sessions.change(s, string(before)).Seat = ""
	}
	*seat = Seat{Name: e.Seat, Occupant: e.Session, Protocol: e.Protocol, Since: r.Time, Absent: seat.Absent}
	session := s.sessions.change(s, string(e.Session))
	session.ID = e.Session
	if old := session.Seat; old != "" && old != e.Seat {
		s.seats.change(s, old).Occupant = ""
	}
	session.Seat = e.Seat
}

func (s *State) seatLeft(e events.SeatLeft, r events.Recorded) {
	seat := s.seats.change(s, e.Seat)
	seat.Name = e.Seat
	if seat.Occupant == e.Session {
		seat.Occupant, seat.Since = "", r.Time
	}
	if session := s.sessions.change(s, string(e.Session)); session.Seat == e.Seat {
		session.Seat = ""
	}
}
