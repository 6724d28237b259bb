package dashboard

import (
	"decklog/events"
)

// marks is how many shapes and colours a sticker can have. The style knows the same
// number.
const marks = 8

// outlines are the shapes of the stickers in a square of 16, so that a seat is told
// from another without its colour.
var outlines = [marks]string{
	"M8 1.75a6.25 6.25 0 1 0 0 12.5A6.25 6.25 0 0 0 8 1.75z",
	"M8 .9 15.1 8 8 15.1.9 8z",
	"M3.2 2h9.6A1.2 1.2 0 0 1 14 3.2v9.6a1.2 1.2 0 0 1-1.2 1.2H3.2A1.2 1.2 0 0 1 2 12.8V3.2A1.2 1.2 0 0 1 3.2 2z",
	"M8 1.4 15.2 14H.8z",
	"M4.5 1.9h7L15 8l-3.5 6.1h-7L1 8z",
	"M8 .6l2.1 5.3L15.4 8l-5.3 2.1L8 15.4l-2.1-5.3L.6 8l5.3-2.1z",
	"M8 1.5A6.5 6.5 0 1 0 8 14.500 6.5 6.5 0 0 0 8 1.5zM8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
	"M2.200 8a5.8 5.8 0 0 1 11.6 0v4.800a1.2 1.2 0 0 1-1.200 1.200H3.400a1.2 1.2 0 0 1-1.200-1.200z",
}

// mark is a seat's sticker as a page shows it.
type mark struct {
	Seat  string
	Shape string // a path
	Hue   int    // 1 to marks; 0: a seat that is on no roster
}

// roster gives the seats their marks, in the order of the policy.
type roster struct {
	marks map[string]mark
	order []string
	names map[string]bool // of persons
}

func rosterOf(p events.Policy) roster {
	r := roster{marks: map[string]mark{}, names: map[string]bool{}}
	for i, s := range p.Seats {
		r.marks[s.Name] = mark{Seat: s.Name, Shape: outlines[i%marks], Hue: i%marks + 1}
		r.order = append(r.order, s.Name)
	}
	for _, person := range p.Persons {
		r.names[person.Name] = true
	}
	return r
}

// of is the mark of a seat. One that is on no roster is a ring, in no colour.
func (r roster) of(seat string) mark {
	if m, known := r.marks[seat]; known {
		return m
	}
	return mark{Seat: seat, Shape: outlines[6]}
}

// seat says whether a participant is named as a seat of the roster.
func (r roster) seat(p events.Participant) bool { _, is := r.marks[p.Name()]; return is }
