package commands

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"decklog/events"
	"decklog/projections"
)

// Call is a command's envelope: its id, who asks, and what was observed of the
// world when it was asked.
type Call struct {
	ID     events.CommandID
	Caller Caller
	Device string // the machine's host name
	OSUser string // whose process asks
	// Look tells what was observed of a session. It answers the same for the
	// whole of one decision. Nil: nothing was ever observed.
	Look func(*projections.Session) Observation
	Salt events.Salt // for the commitment of a body, if the command has one
	// Nobody is why it cannot be told who asks, where more is known of it than
	// that nobody said.
	Nobody *Refusal
	// Subagent says that a subagent of the caller asks.
	Subagent bool
}

// Caller is who acts. The zero value is somebody who cannot be told.
type Caller struct {
	ID   events.Participant
	Kind events.ParticipantKind
	// Left is the session that a harness names and that has ended, when nobody
	// was named and the caller is therefore its user. What only a person may do
	// is then refused: it may be the agent that asks.
	Left events.SessionID
}

// Known says whether it can be told who acts.
func (c Caller) Known() bool { return c.ID != "" }

// nobody refuses a caller who cannot be told, and says what was looked for.
func (c Call) nobody(what string) *Refusal {
	if c.OSUser == "" {
		return refuse(NoCaller, "nobody can tell %s", what)
	}
	return refuse(NoCaller, "nobody can tell %s: this runs in no session that is known, and its user %s is no person of the policy", what, c.OSUser)
}

// Observation is what was seen of a session, outside of its events.
type Observation struct {
	Gone bool         // its process is there no more
	Busy bool         // it was in a turn when it was seen last
	Seen *events.Time // last; nil: never
	// Home is set where another machine observed it, and told.
	Home *Home
}

// Home is the machine that a session joined on, for who asks on another one.
type Home struct {
	Device string
	Told   *events.Time // when it last told of this session; nil: it has not since that joined
	Silent bool         // it has told nothing for longer than it said it would, or never anything
	Deaf   bool         // who asks hears no other machine at present, so that silence says nothing
}

func (c Call) look(s *projections.Session) Observation {
	if c.Look == nil {
		return Observation{}
	}
	return c.Look(s)
}

// Presence is whether a session lives, and how that is known.
type Presence struct {
	Live, Busy bool
	Says       string
	Age        *int64 // milliseconds since it was seen
}

// PresenceOf judges a session at this moment: live from joining until leaving,
// unless its process is gone, or nobody can be asked about a process and it was not
// seen for projections.UnseenMax. Idle for long is not ended, and neither is what a
// machine that fell silent had told of: there it is known no more whether the session
// is in a turn, and how old the rest is.
func PresenceOf(s *projections.Session, o Observation, now events.Time) Presence {
	seen := s.Joined
	if o.Seen != nil && *o.Seen > seen {
		seen = *o.Seen
	}
	age := max(0, now.Sub(seen).Milliseconds())
	p := Presence{Age: &age}
	unseen := (s.Process == nil || o.Home != nil && o.Home.Silent) && (o.Home == nil || !o.Home.Deaf) &&
		now.Sub(o.known(s)) >= projections.UnseenMax
	switch {
	case s.Left != nil:
		age = max(0, now.Sub(*s.Left).Milliseconds())
		p.Says = "left: " + string(s.Reason)
	case o.Gone && o.Home != nil:
		p.Says = "its process is gone, as " + o.Home.Device + " told"
	case o.Gone:
		p.Says = "its process is gone"
	case unseen && s.Process != nil:
		p.Says = "not seen for 12h, and nobody tells of its process"
	case unseen:
		p.Says = "not seen for 12h, and no process to ask"
	case s.Process == nil:
		p.Live, p.Says = true, "joined, no process recorded"
	case o.Home == nil:
		p.Live, p.Says = true, "its process runs"
	case o.Home.Told == nil:
		p.Live, p.Says = true, "joined on "+o.Home.Device+", which has not told of its process"
	default:
		p.Live, p.Says = true, "its process ran "+ago(*o.Home.Told, now)+" ago, as "+o.Home.Device+" told"
	}
	hushed := o.Home != nil && o.Home.Silent && o.Home.Told != nil
	p.Busy = p.Live && o.Busy && !hushed
	if !p.Live {
		return p
	}
	switch {
	case o.Seen == nil:
		p.Says += "; no hook run seen"
	case o.Busy:
		p.Says += "; in a turn when last seen"
	default:
		p.Says += "; idle when last seen"
	}
	if hushed {
		p.Says += "; " + o.Home.Device + " has been silent since"
	}
	return p
}

// known is when a session was last known to be there.
func (o Observation) known(s *projections.Session) events.Time {
	at := s.Joined
	if o.Seen != nil {
		at = max(at, *o.Seen)
	}
	if s.Process != nil && o.Home != nil && o.Home.Told != nil {
		at = max(at, *o.Home.Told)
	}
	return at
}

func ago(then, now events.Time) string {
	return max(0, now.Sub(then)).Round(time.Second).String()
}

func (c Call) presence(s *projections.Session, now events.Time) Presence {
	return PresenceOf(s, c.look(s), now)
}

func (c Call) live(s *projections.Session, now events.Time) bool {
	return s != nil && c.presence(s, now).Live
}

// author says who acts, with what is known of them; false when the caller is no
// live session and no known person.
func (c Call) author(s *projections.State, now events.Time, p events.Policy) (events.Author, bool) {
	a := events.Author{ID: c.Caller.ID, Kind: c.Caller.Kind, Device: c.Device}
	switch c.Caller.Kind {
	case events.KindSession:
		row := s.Session(c.Caller.ID.Session())
		if row == nil {
			return a, false
		}
		a.Harness, a.Person, a.Repo, a.Branch, a.Subagent = row.Harness, row.Person, row.Repo, row.Branch, c.Subagent
		if row.Device != "" {
			a.Device = row.Device
		}
		if seat := s.SeatOf(row); OnRoster(p, seat) {
			a.Seat = seat
		}
		return a, c.live(row, now)
	case events.KindPerson:
		a.Person = c.Caller.ID.Name()
		return a, KnownPerson(p, c.OSUser, a.Person)
	}
	return a, false
}

// PersonOf names the person whose process runs as an operating system's user;
// without persons in the policy, that user is the one known person. Empty when
// the policy has persons and none of them is this user.
func PersonOf(p events.Policy, osUser string) string {
	if len(p.Persons) == 0 {
		return osUser
	}
	for _, person := range p.Persons {
		if person.OSUser == osUser && osUser != "" {
			return person.Name
		}
	}
	return ""
}

// KnownPerson says whether a name is that of a person who takes part.
func KnownPerson(p events.Policy, osUser, name string) bool {
	if len(p.Persons) == 0 {
		return name != "" && name == osUser
	}
	for _, person := range p.Persons {
		if person.Name == name {
			return true
		}
	}
	return false
}

// KnownSeat says whether a name is that of a seat: one of the roster, or, where
// the policy has no roster, one that somebody took.
func KnownSeat(s *projections.State, p events.Policy, name string) bool {
	return onRoster(p, name) || len(p.Seats) == 0 && s.Seat(name) != nil
}

// OnRoster says whether a seat is one of the policy's; without a roster every seat is.
func OnRoster(p events.Policy, name string) bool {
	return len(p.Seats) == 0 || onRoster(p, name)
}

func onRoster(p events.Policy, name string) bool {
	return slices.ContainsFunc(p.Seats, func(s events.Seat) bool { return s.Name == name })
}

// CheckSessionID says what is wrong with a session's id; empty when it can be one.
func CheckSessionID(id string) string {
	switch {
	case id == "":
		return "a session's id is empty"
	case len(id) > events.SessionIDBytesMax:
		return "a session's id is longer than 200 bytes"
	case strings.HasPrefix(id, "@") || strings.HasPrefix(id, "bot:"):
		return `a session's id begins with "@" or "bot:", which name seats, persons and bots`
	case !utf8.ValidString(id):
		return "a session's id is not UTF-8"
	}
	for _, r := range id {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return "a session's id holds a blank or a character that cannot be shown"
		}
	}
	return ""
}

// CheckName says what is wrong with the name of a seat or a person.
func CheckName(name string) string {
	if name == "" {
		return "a name is empty"
	}
	if len(name) > 64 {
		return "a name is longer than 64 bytes"
	}
	for _, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '/' || r == '@' {
			return "a name holds a blank, a slash, an @ or a character that cannot be shown"
		}
	}
	return ""
}
