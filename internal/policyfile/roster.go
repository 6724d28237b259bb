package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"decklog/events"
)

// roster collects what a policy says of seats and persons in more than one
// place, to see whether it fits together.
type roster struct {
	seats    []string
	names    []claim
	stickers []claim // fallbacks too: a seat is told by any of them
	users    []claim
	matches  []claim
	channels []claim
	refers   []claim
}

// claim is a word that belongs to one owner only.
type claim struct {
	key, word, owner string
	at               place
}

func (r *roster) seat(key string, s events.Seat, v *value) {
	if s.Name != "" {
		r.seats = append(r.seats, s.Name)
	}
	r.names = claims(r.names, key+".name", "seat", v.get("name"), s.Name)
	owner := fmt.Sprint(v.at) // a seat whose name is at fault still owns its stickers
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
	again(r.stickers, func(first, second claim) {
		if first.owner != second.owner {
			f.add(second.at, second.key, "give each seat stickers of its own", "%q is a sticker of another seat (line %d), so that it names no driver", second.word, first.at.line)
		}
	})
	again(r.users, func(first, second claim) {
		f.add(second.at, second.key, "give it to one person", "%q is another person's (line %d), so that a session's person could not be told", second.word, first.at.line)
	})
	again(r.matches, func(first, second claim) {
		if first.owner != second.owner {
			f.add(second.at, second.key, "leave it to one of them", "%q is of seat %s (line %d) and of seat %s", second.word, first.owner, first.at.line, second.owner)
		}
	})
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
