package esdb

import (
	"strings"

	"decklog/events"
	"decklog/internal/sqlite"
)

// A command that was decided twice, because its process died or its first decision
// came to nothing, may have put its text into two bodies. Its event names one. The
// other is nobody's, and would stay when the message is deleted. So each machine notes
// the bodies that came and that no event has named, and has those go whose event names
// another.
//
// A body whose event was never recorded stays: nobody can know that it never will be.

// heldKey is how the note of such a body begins.
const heldKey = "held/"

// unnamed are the bodies that came and that no event has named.
type unnamed struct {
	fresh map[string]bool             // the streams of those that are not noted yet
	noted map[events.EventID][]string // those of the others, by the event that they were made for
}

// recall reads which bodies a mirror has noted.
func (u *unnamed) recall(m sqlite.Noted) error {
	u.fresh, u.noted = map[string]bool{}, map[events.EventID][]string{}
	return m.Notes(heldKey, func(key string, _ []byte) { u.note(key[len(heldKey):]) })
}

func (u *unnamed) note(stream string) {
	u.noted[eventOf(stream)] = append(u.noted[eventOf(stream)], stream)
}

// look finds, in the transaction that brings these appends, which bodies are to be
// noted from now on, and notes which have to go.
func (u *unnamed) look(m sqlite.Mirror, groups [][]arrival) (note []string, drops bool, err error) {
	came, named := map[events.EventID]bool{}, map[string]bool{}
	var orphans []string
	for _, group := range groups {
		for _, a := range group {
			came[a.ID] = true
			if a.body != "" {
				named[bodyStream(a.ID, a.body)] = true
			}
			for _, stream := range u.noted[a.ID] {
				orphans = append(orphans, stream)
				if err := m.Note(heldKey+stream, nil); err != nil {
					return nil, false, err
				}
			}
		}
	}
	for stream := range u.fresh {
		there := came[eventOf(stream)]
		if !there {
			if _, there, err = m.Event(eventOf(stream)); err != nil {
				return nil, false, err
			}
		}
		if there {
			orphans = append(orphans, stream)
			continue
		}
		note = append(note, stream)
		if err := m.Note(heldKey+stream, []byte{}); err != nil {
			return nil, false, err
		}
	}
	for _, stream := range orphans {
		if named[stream] {
			continue
		}
		drops = true
		if err := m.Note(dropKey+stream, []byte{}); err != nil {
			return nil, false, err
		}
	}
	return note, drops, nil
}

// looked says that what look found was kept.
func (u *unnamed) looked(groups [][]arrival, note []string) {
	clear(u.fresh)
	for _, group := range groups {
		for _, a := range group {
			delete(u.noted, a.ID)
		}
	}
	for _, stream := range note {
		u.note(stream)
	}
}

// eventOf is the event that a body's stream was made for.
func eventOf(stream string) events.EventID {
	id := strings.TrimPrefix(stream, bodyMark)
	return events.EventID(id[:max(0, strings.LastIndexByte(id, '-'))])
}
