package api

import (
	"decklog/events"
	"decklog/internal/ops"
)

// CallerHeader holds a [Caller] as JSON, in base64 for URLs.
const CallerHeader = "Decklog-Caller"

// Caller is what a client found out of its caller. With the machine's token it is
// believed, as the command line is on a file. With another token it only says which
// of those that the token may speak for it is: an agent is not taken for its user.
type Caller struct {
	Device    string            `json:"device,omitempty"`
	OSUser    string            `json:"os_user,omitempty"`
	Environ   map[string]string `json:"environ,omitempty"`
	Ancestors []events.Process  `json:"ancestors,omitempty"`
	Claims    ops.Claims        `json:"claims"`
}

// Variables are those of a caller's environment by which it is known.
var Variables = append([]string{"DECKLOG_AS"}, ops.SessionVariables()...)

// Line is a line of an answer that comes in lines, before the last: how far long
// work has come.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is how far long work has come.
type Progress struct {
	What string          `json:"what"`
	Done events.Position `json:"done"`
	End  events.Position `json:"end"`
}
