package ops

import (
	"slices"
	"strings"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/stamp"
	"decklog/projections"
)

// sessionVariables are where harnesses, and decklog itself, tell a process its
// session, in the order in which they are believed. In a subagent of Codex the
// thread is the subagent's own, which never joined, and the session its parent's.
var sessionVariables = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "GEMINI_SESSION_ID", "DECKLOG_SESSION"}

// Claims are what a door learned of its caller besides the caller's own word.
// The door only passes them on: which of them counts is decided here.
type Claims struct {
	// Agents says that only agents come through this door: whose session is not
	// found is nobody there, and never the user.
	Agents bool
	// Stamp is the session that the pre-tool hook stamped into the call;
	// StampFault, instead, why the stamp that came with it is none.
	Stamp      events.SessionID
	StampFault string
	// Meta are the sessions that the harness names beside the call. More than one:
	// the call is of a subagent, whose own id never joined, and then its parent's.
	Meta []events.SessionID
	// ToolUse is the session whose pre-tool hook saw this very call.
	ToolUse events.SessionID
	// Subagent says that a subagent of the session calls.
	Subagent bool
	// Token is whom the caller's token names: a session, a seat or person with an @,
	// or a bot. Nothing else says who calls then, and nobody acts as anybody else:
	// but a person's token also speaks for the person's sessions.
	Token events.Participant
}

// identify finds out who asks. The first that answers decides: who is named with
// --as; the stamp; what the harness says beside the call; who made this very
// call, as its hook saw it; the environment; the processes. Nobody of all these:
// the person who is the operating system's user, unless only agents come through
// this door.
//
// Of the first four two may not differ. And inside a harness nobody who is named
// is believed to be anybody but the session that runs there, or its seat.
func (o *Ops) identify(s *projections.State, p events.Policy, a Asker, now events.Time) (commands.Caller, *commands.Refusal) {
	claims := o.claims(a)
	if strings.HasPrefix(string(claims.Token), "bot:") {
		return bot(claims.Token), onlyAlerts(string(claims.Token))
	}
	caller, r := o.found(s, p, a, claims, now)
	if r != nil || claims.Token == "" {
		return caller, r
	}
	return o.vouched(s, p, caller, claims, now)
}

// found is who asks, as far as anything says it.
func (o *Ops) found(s *projections.State, p events.Policy, a Asker, claims Claims, now events.Time) (commands.Caller, *commands.Refusal) {
	said, r := o.said(s, claims)
	if r != nil {
		return commands.Caller{}, r
	}
	as := a.As
	if as == "" {
		as = o.World.Environ("DECKLOG_AS")
	}
	if as != "" {
		return o.believed(s, p, as, said, now)
	}
	if said.session != "" {
		return session(said.session), nil
	}
	inside, claimed, ended := o.inside(s, now)
	switch {
	case inside != nil:
		return session(inside.ID), nil
	case claimed != "":
		return session(claimed), nil
	case claims.Agents:
		return commands.Caller{}, nobodySaid()
	case claims.Token != "":
		return commands.Caller{}, nil
	}
	if name := commands.PersonOf(p, o.World.OSUser); name != "" {
		return commands.Caller{ID: events.Named(name), Kind: events.KindPerson, Left: ended}, nil
	}
	return commands.Caller{}, nil
}

// claims are what the door learned of who asks: of this call, or of all its calls.
func (o *Ops) claims(a Asker) Claims {
	if o.World.Claims != nil {
		return *o.World.Claims
	}
	return a.Claims
}

// vouched is the caller, if the token is theirs, or their person's: nobody acts as
// somebody else. Where nothing else says who calls, the token does.
func (o *Ops) vouched(s *projections.State, p events.Policy, caller commands.Caller, claims Claims, now events.Time) (commands.Caller, *commands.Refusal) {
	of, r := o.named(s, p, string(claims.Token), now)
	if r != nil || !caller.Known() {
		return of, r
	}
	if o.speaksFor(s, p, of, caller.ID) {
		return caller, nil
	}
	return of, notVouched(claims.Token, string(caller.ID)) // it is recorded whose token it was
}

// joins says whether who calls may register a session: with a token only the
// session that it names, or a person who takes part for one of theirs.
func (o *Ops) joins(s *projections.State, p events.Policy, a Asker, id events.SessionID) *commands.Refusal {
	token := o.claims(a).Token
	if token == "" || token == events.Participant(id) {
		return nil
	}
	row := s.Session(id)
	if token.Name() != "" && commands.KnownPerson(p, o.World.OSUser, token.Name()) && (row == nil || row.Person == token.Name()) {
		return nil
	}
	return notVouched(token, string(id))
}

// touches says whether the holder of a token may do something to what is another's
// by its id alone: a lease, a session, a message to be judged. It may to its own,
// a person also to what is of the person's sessions, and the token of a seat to
// what is of its occupant.
func (o *Ops) touches(s *projections.State, p events.Policy, a Asker, of events.Participant, now events.Time) *commands.Refusal {
	token := o.claims(a).Token
	if token == "" || token == of {
		return nil
	}
	holder, r := o.named(s, p, string(token), now)
	if r != nil {
		return r
	}
	if o.speaksFor(s, p, holder, of) {
		return nil
	}
	return notVouched(token, string(of))
}

// speaksFor says whether the holder of a token is a participant, or the person, who
// takes part, of the session that it is.
func (o *Ops) speaksFor(s *projections.State, p events.Policy, holder commands.Caller, of events.Participant) bool {
	if holder.ID == of {
		return true
	}
	row := s.Session(of.Session())
	return row != nil && holder.Kind == events.KindPerson && commands.KnownPerson(p, o.World.OSUser, holder.ID.Name()) &&
		events.Named(row.Person) == holder.ID
}

// osUserOf is the user of the operating system that the holder of a person's token
// is, wherever that runs; without such a token it is the one that was observed.
func (o *Ops) osUserOf(p events.Policy, a Asker) string {
	name, named := strings.CutPrefix(string(o.claims(a).Token), "@")
	if !named {
		return o.World.OSUser
	}
	for _, person := range p.Persons {
		if person.Name == name && person.OSUser != "" {
			return person.OSUser
		}
	}
	return name
}

func notVouched(token events.Participant, as string) *commands.Refusal {
	return commands.Refuse(commands.NoCaller, "the token names %s, and the command %s; nobody acts as somebody else", token, as).
		Better("leave out --as, or use a token of "+as+": decklog token create --for "+as, "decklog token list")
}

// believed is the caller who is named, if nothing says otherwise.
func (o *Ops) believed(s *projections.State, p events.Policy, as string, said saying, now events.Time) (commands.Caller, *commands.Refusal) {
	caller, r := o.named(s, p, as, now)
	if r != nil {
		return caller, r
	}
	if said.session != "" {
		if caller != session(said.session) {
			return commands.Caller{}, contradicts(saying{"--as or DECKLOG_AS", events.SessionID(as)}, said)
		}
		return caller, nil
	}
	if inside, _, _ := o.inside(s, now); inside != nil && caller != session(inside.ID) {
		return commands.Caller{}, actsAsOther(inside, as)
	}
	return caller, nil
}

// saying is who calls, as something said it.
type saying struct {
	what    string
	session events.SessionID
}

// said is who calls by what came with the call; nobody when nothing did.
func (o *Ops) said(s *projections.State, c Claims) (saying, *commands.Refusal) {
	if c.StampFault != "" {
		return saying{}, commands.Refuse(commands.NoCaller, "the stamp in this call is no identity: %s", c.StampFault).
			Better("leave the field "+stamp.Field+" out and make the call again: decklog's hook fills it in, where it is installed", "decklog doctor")
	}
	var first saying
	for _, next := range []saying{
		{"the stamp of the pre-tool hook", c.Stamp},
		{"what the harness says beside the call", ofMeta(s, c)},
		{"the hook that saw this call", c.ToolUse},
	} {
		switch {
		case next.session == "":
		case first.session == "":
			first = next
		case next.session != first.session:
			return saying{}, contradicts(first, next)
		}
	}
	return first, nil
}

// ofMeta is the session among those that the harness names beside a call: the
// one that the hook names too, else the first that is known here, else the first.
func ofMeta(s *projections.State, c Claims) events.SessionID {
	for _, id := range c.Meta {
		if id == c.Stamp || id == c.ToolUse {
			return id
		}
	}
	for _, id := range c.Meta {
		if s.Session(id) != nil {
			return id
		}
	}
	if len(c.Meta) > 0 {
		return c.Meta[0]
	}
	return ""
}

// underCodex says whether a command runs in a subagent of Codex: there the
// environment names a thread of its own, which never joined, beside the session.
func (o *Ops) underCodex(s *projections.State, c commands.Caller) bool {
	thread, parent := o.World.Environ("CODEX_THREAD_ID"), o.World.Environ("CODEX_SESSION_ID")
	return thread != "" && thread != parent && parent == string(c.ID) && s.Session(events.SessionID(thread)) == nil
}

func contradicts(a, b saying) *commands.Refusal {
	return commands.Refuse(commands.NoCaller, "two things say who calls, and differ: by %s it is %s, by %s %s", a.what, a.session, b.what, b.session).
		Better("take out DECKLOG_AS where it is set for this server, or begin the session anew; decklog believes neither", "decklog peers")
}

func nobodySaid() *commands.Refusal {
	return commands.Refuse(commands.NoCaller,
		"nothing says which session calls: no hook stamped the call, the harness names none, and neither does the environment or a process above this one").
		Better("have the person who runs this harness install decklog's hooks, and begin the session anew", "decklog doctor")
}

func actsAsOther(inside *projections.Session, as string) *commands.Refusal {
	return commands.Refuse(commands.NoCaller,
		"this runs inside session %s, and --as names %s; inside a harness nobody acts as somebody else", inside.ID, as).
		Better("leave out --as and DECKLOG_AS: the session is known", "decklog peers")
}

// identifyBot also takes a bot at its name, except inside a harness.
func (o *Ops) identifyBot(s *projections.State, p events.Policy, a Asker, now events.Time) (commands.Caller, *commands.Refusal) {
	as, token := a.As, string(o.claims(a).Token)
	if as == "" && token == "" {
		as = o.World.Environ("DECKLOG_AS")
	}
	if as == "" {
		as = token
	}
	name, isBot := strings.CutPrefix(as, "bot:")
	if isBot && token != "" && token != as {
		if strings.HasPrefix(token, "bot:") {
			return bot(events.Participant(token)), notVouched(events.Participant(token), as)
		}
		of, r := o.named(s, p, token, now)
		if r == nil {
			r = notVouched(events.Participant(token), as)
		}
		return of, r
	}
	if !isBot {
		return o.identify(s, p, a, now)
	}
	if why := commands.CheckName(name); why != "" {
		return commands.Caller{}, commands.Refuse(commands.NoCaller, "--as %q names no bot: %s", as, why).
			Better("name the bot as bot:NAME", `decklog alert "#alerts" --as bot:pager -- "the sync is failing"`)
	}
	if inside, _, _ := o.inside(s, now); inside != nil {
		return commands.Caller{}, actsAsOther(inside, as)
	}
	return bot(events.Participant(as)), nil
}

func bot(id events.Participant) commands.Caller {
	return commands.Caller{ID: id, Kind: events.KindBot}
}

func onlyAlerts(name string) *commands.Refusal {
	return commands.Refuse(commands.NoCaller, "%s is a bot, and a bot sends nothing but alerts", name).
		Better("send an alert, or ask as a person, a seat or a session", `decklog alert "#alerts" --as `+name+` -- "the sync is failing"`)
}

func session(id events.SessionID) commands.Caller {
	return commands.Caller{ID: events.Participant(id), Kind: events.KindSession}
}

// named is the participant that --as names.
func (o *Ops) named(s *projections.State, p events.Policy, as string, now events.Time) (commands.Caller, *commands.Refusal) {
	if strings.HasPrefix(as, "bot:") {
		return commands.Caller{}, onlyAlerts(as)
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

// SessionVariables lists the variables by which harnesses, and decklog itself,
// tell a process its session.
func SessionVariables() []string { return slices.Clone(sessionVariables) }
