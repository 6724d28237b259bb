package ops

import (
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

// sessionVariables are where harnesses, and decklog itself, tell a process its
// session, in the order in which they are believed. In a subagent of Codex the
// thread is the subagent's own, which never joined, and the session its parent's.
var sessionVariables = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "GEMINI_SESSION_ID", "DECKLOG_SESSION"}

// identify finds out who asks. Who is named is believed, except inside a
// harness: there nobody acts as anybody but the session that runs it, or its
// seat. Nobody named and no session: the person who is the operating system's user.
func (o *Ops) identify(s *projections.State, p events.Policy, as string, now events.Time) (commands.Caller, *commands.Refusal) {
	if as == "" {
		as = o.World.Environ("DECKLOG_AS")
	}
	inside, claimed, ended := o.inside(s, now)
	if as == "" {
		switch {
		case inside != nil:
			return session(inside.ID), nil
		case claimed != "":
			return session(claimed), nil
		}
		if name := commands.PersonOf(p, o.World.OSUser); name != "" {
			return commands.Caller{ID: events.Named(name), Kind: events.KindPerson, Left: ended}, nil
		}
		return commands.Caller{}, nil
	}
	caller, r := o.named(s, p, as, now)
	if r != nil || inside == nil || caller == session(inside.ID) {
		return caller, r
	}
	return commands.Caller{}, actsAsOther(inside, as)
}

func actsAsOther(inside *projections.Session, as string) *commands.Refusal {
	return commands.Refuse(commands.NoCaller,
		"this runs inside session %s, and --as names %s; inside a harness nobody acts as somebody else", inside.ID, as).
		Better("leave out --as and DECKLOG_AS: the session is known", "decklog peers")
}

// identifyBot also takes a bot at its name, except inside a harness.
func (o *Ops) identifyBot(s *projections.State, p events.Policy, as string, now events.Time) (commands.Caller, *commands.Refusal) {
	if as == "" {
		as = o.World.Environ("DECKLOG_AS")
	}
	name, bot := strings.CutPrefix(as, "bot:")
	if !bot {
		return o.identify(s, p, as, now)
	}
	if why := commands.CheckName(name); why != "" {
		return commands.Caller{}, commands.Refuse(commands.NoCaller, "--as %q names no bot: %s", as, why).
			Better("name the bot as bot:NAME", `decklog alert "#alerts" --as bot:pager -- "the sync is failing"`)
	}
	if inside, _, _ := o.inside(s, now); inside != nil {
		return commands.Caller{}, actsAsOther(inside, as)
	}
	return commands.Caller{ID: events.Participant(as), Kind: events.KindBot}, nil
}

func session(id events.SessionID) commands.Caller {
	return commands.Caller{ID: events.Participant(id), Kind: events.KindSession}
}

// named is the participant that --as names.
func (o *Ops) named(s *projections.State, p events.Policy, as string, now events.Time) (commands.Caller, *commands.Refusal) {
	if strings.HasPrefix(as, "bot:") {
		return commands.Caller{}, commands.Refuse(commands.NoCaller, "%s is a bot, and a bot sends nothing but alerts", as)
	}
	if name, is := strings.CutPrefix(as, "@"); is {
		seat, person := commands.KnownSeat(s, p, name), commands.KnownPerson(p, o.World.OSUser, name)
		switch {
		case seat && person:
			return commands.Caller{}, commands.Refuse(commands.NoCaller, "@%s is a seat and a person", name)
		case person:
			return commands.Caller{ID: events.Named(name), Kind: events.KindPerson}, nil
		}
		if row := s.Seat(name); row != nil && row.Occupant != "" {
			occupant := s.Session(row.Occupant)
			if occupant != nil && commands.PresenceOf(occupant, o.call("", commands.Caller{}).Look(occupant), now).Live {
				return session(occupant.ID), nil
			}
		}
		if seat {
			return commands.Caller{ID: events.Named(name), Kind: events.KindSeat}, nil
		}
		return commands.Caller{ID: events.Named(name), Kind: events.KindPerson}, nil
	}
	if s.Session(events.SessionID(as)) != nil || len(as) < commands.PrefixMin {
		return session(events.SessionID(as)), nil
	}
	switch found := s.SessionsWith(as, 2); len(found) {
	case 1:
		return session(found[0].ID), nil
	case 0:
		return session(events.SessionID(as)), nil
	}
	return commands.Caller{}, commands.Refuse(commands.NoCaller, "--as %q begins the ids of several sessions", as)
}

// inside is the live session that the calling process belongs to, by its
// environment, else by the processes that it descends from. claimed is one that
// the environment names and nobody knows. A variable that names a session that
// ended says nothing while a live one is found: some harnesses leave an old one
// there. ended is that one when none is.
func (o *Ops) inside(s *projections.State, now events.Time) (live *projections.Session, claimed, ended events.SessionID) {
	look := o.call("", commands.Caller{}).Look
	lives := func(row *projections.Session) bool { return commands.PresenceOf(row, look(row), now).Live }
	var named []*projections.Session
	for _, variable := range sessionVariables {
		id := events.SessionID(o.World.Environ(variable))
		if commands.CheckSessionID(string(id)) != "" {
			continue
		}
		switch row := s.Session(id); {
		case row == nil:
			if claimed == "" {
				claimed = id
			}
		case lives(row):
			named = append(named, row)
		case ended == "":
			ended = id
		}
	}
	if len(named) == 1 {
		return named[0], "", ""
	}
	// None is named, or several: one harness was started inside another. The
	// nearest ancestor that a session joined from decides.
	for _, process := range o.World.Ancestors() {
		row := s.RanIn(process)
		if row == nil || !lives(row) {
			continue
		}
		for _, n := range named {
			if n.ID == row.ID {
				return row, "", ""
			}
		}
		if len(named) == 0 {
			return row, "", ""
		}
	}
	if len(named) > 0 {
		return named[0], "", ""
	}
	return nil, claimed, ended
}
