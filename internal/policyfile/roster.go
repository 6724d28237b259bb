package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"decklog/commands"
	"decklog/events"
)

// roster collects what a policy says of seats and persons in more than one
// place, to see whether it fits together.
type roster struct {
	seats      []string
	owners     map[string]string // the seats by the owner that their stickers name
	names      []claim
	stickers   []claim // fallbacks too: a seat is told by any of them
	users      []claim
	matches    []claim
	priorities []claim
	lanes      []lane
	channels   []claim
	groups     []claim
	refers     []claim
}

// claim is a word that belongs to one owner only.
type claim struct {
	key, word, owner string
	at               place
}

// lane is a phrase of the content map with its area's priority.
type lane struct {
	claim
	priority int
}

func (r *roster) seat(key string, s events.Seat, v *value) {
	if s.Name != "" {
		r.seats = append(r.seats, s.Name)
	}
	r.names = claims(r.names, key+".name", "seat", v.get("name"), s.Name)
	owner := fmt.Sprint(v.at) // a seat whose name is at fault still owns its stickers
	if r.owners == nil {
		r.owners = map[string]string{}
	}
	r.owners[owner] = s.Name
	r.stickers = claims(r.stickers, key+".stickers", owner, v.get("stickers"), s.Stickers...)
	r.stickers = claims(r.stickers, key+".fallback", owner, v.get("fallback"), s.Fallback)
}

func (r *roster) person(key string, p events.Person, v *value) {
	r.names = claims(r.names, key+".name", "person", v.get("name"), p.Name)
	r.users = claims(r.users, key+".os_user", "", v.get("os_user"), p.OSUser)
}

func (r *roster) area(key string, a events.Area, v *value) {
	words := make([]string, len(a.Match))
	for i, w := range a.Match {
		words[i] = strings.ToLower(strings.TrimSpace(w)) // they are compared blind to case
	}
	r.matches = claims(r.matches, key+".match", a.Seat, v.get("match"), words...)
}

// priority notes an area's priority, where it is written or, left out, where the
// area begins.
func (r *roster) priority(key string, a events.Area, v *value) {
	if a.Seat == "" {
		return
	}
	at := v.at
	if e := v.get("priority"); e != nil {
		at = e.value.at
	}
	r.priorities = append(r.priorities, claim{key + ".priority", fmt.Sprint(a.Priority), a.Seat, at})
	for _, c := range claims(nil, key+".match", a.Seat, v.get("match"), a.Match...) {
		r.lanes = append(r.lanes, lane{c, a.Priority})
	}
}

func (r *roster) group(key string, names []string, v *value) {
	for _, item := range v.items {
		if slices.Contains(names, item.text) {
			r.groups = append(r.groups, claim{key: key, word: strings.ToLower(item.text), at: item.at})
		}
	}
}

func (r *roster) alert(key string, a events.Alert, v *value) {
	r.channels = claims(r.channels, key+".channel", "", v.get("channel"), a.Channel)
}

// refer notes that a seat is named somewhere, and so must be on the roster.
func (r *roster) refer(key, seat string, at place) {
	r.refers = append(r.refers, claim{key: key, word: seat, at: at})
}

// claims adds the words that one key holds, each where it stands.
func claims(all []claim, key, owner string, e *entry, words ...string) []claim {
	for _, w := range words {
		if e == nil || w == "" {
			continue
		}
		at := e.value.at
		for _, item := range e.items {
			if strings.EqualFold(strings.TrimSpace(item.text), w) {
				at = item.at
				break
			}
		}
		all = append(all, claim{key, w, owner, at})
	}
	return all
}

// check says what does not fit together. When part of the file is unread, a
// seat that seems to be missing may stand there, and is not asked for.
func (r *roster) check(f *faults, broken bool) {
	again(r.names, func(first, second claim) {
		if first.owner == second.owner {
			f.add(second.at, second.key, "give each its own name", "%s %q is here twice; the first is in line %d", second.owner, second.word, first.at.line)
		}
		// A seat and a person may share a name. Then neither is addressed by it: who
		// tries is told so, with the sessions that it may have meant.
	})
	for _, c := range r.names {
		if strings.EqualFold(c.word, events.GroupName) {
			f.add(c.at, c.key, "give it another name", "%q names all seats at once, and so no %s", c.word, c.owner)
		}
	}
	again(r.groups, func(_, second claim) {
		f.add(second.at, second.key, "keep one of them", "%q is here twice, whatever the case", second.word)
	})
	for _, g := range r.groups {
		if c := r.called(g.word); c != nil {
			f.add(g.at, g.key, "call the group something else", "%q is the name of a %s (line %d)", g.word, c.owner, c.at.line)
		}
	}
	again(r.stickers, func(first, second claim) {
		if first.owner != second.owner {
			f.add(second.at, second.key, "give each seat stickers of its own", "%q is a sticker of another seat (line %d), so that it names no driver", second.word, first.at.line)
		}
	})
	for _, st := range r.stickers {
		if c := r.called(st.word); c != nil && c.owner == "seat" && r.owners[st.owner] != st.word {
			f.add(st.at, st.key, "give the sticker another name", "%q is the name of another seat (line %d), so that it names no driver", st.word, c.at.line)
		}
	}
	again(r.users, func(first, second claim) {
		f.add(second.at, second.key, "give it to one person", "%q is another person's (line %d), so that a session's person could not be told", second.word, first.at.line)
	})
	again(r.matches, func(first, second claim) {
		if first.owner != second.owner {
			f.add(second.at, second.key, "leave it to one of them", "%q is of seat %s (line %d) and of seat %s", second.word, first.owner, first.at.line, second.owner)
		}
	})
	again(r.priorities, func(first, second claim) {
		if first.owner != second.owner {
			f.add(second.at, second.key, "give the areas of each seat priorities of their own; the lowest wins",
				"%s is also the priority of an area of seat %s (line %d), so that neither wins", second.word, first.owner, first.at.line)
		}
	})
	r.hidden(f)
	again(r.channels, func(first, second claim) {
		f.add(second.at, second.key, "name one triager for each channel", "%q has a triager already (line %d)", second.word, first.at.line)
	})
	if broken {
		return
	}
	for _, c := range r.refers {
		if slices.Contains(r.seats, c.word) {
			continue
		}
		fix := fmt.Sprintf("add [[seats]] with name = %q", c.word)
		if near := nearest(c.word, r.seats); near != "" {
			fix = fmt.Sprintf("write %q", near)
		} else if len(r.seats) > 0 {
			fix = "name one of " + strings.Join(r.seats, ", ")
		}
		f.add(c.at, c.key, fix, "seat %q is not on the roster", c.word)
	}
}

// called finds the seat or person of a name; nil when there is none.
func (r *roster) called(name string) *claim {
	for i := range r.names {
		if r.names[i].word == name {
			return &r.names[i]
		}
	}
	return nil
}

// hidden tells of each phrase that sends nothing to its seat, because another
// seat's phrase stands in it and wins.
func (r *roster) hidden(f *faults) {
	for _, l := range r.lanes {
		for _, wins := range r.lanes {
			if wins.owner != l.owner && wins.priority < l.priority && !strings.EqualFold(wins.word, l.word) && commands.Within(wins.word, l.word) {
				f.add(l.at, l.key, fmt.Sprintf("give its area a priority below %d, or take it away", wins.priority),
					"%q sends nothing to seat %s: %q stands in it, is of seat %s (line %d), and wins", l.word, l.owner, wins.word, wins.owner, wins.at.line)
				break
			}
		}
	}
}

// again calls tell for each claim of a word that was claimed before, with the
// first that did.
func again(claims []claim, tell func(first, second claim)) {
	first := map[string]claim{}
	for _, c := range claims {
		if f, taken := first[c.word]; taken {
			tell(f, c)
			continue
		}
		first[c.word] = c
	}
}
