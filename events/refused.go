package events

// CommandRefused says that somebody asked for something and was refused, with
// the code, the text and the values at stake. It never holds a body.
type CommandRefused struct {
	Command string      `json:"command"` // the command's name: send, edit, confirm, ...
	Code    string      `json:"code"`
	Status  int         `json:"status"`
	Says    string      `json:"says"`
	Thread  ThreadID    `json:"thread,omitempty"`
	Message MessageID   `json:"message,omitempty"` // that the refusal names: the closing, the duplicate, the parent
	Lease   LeaseID     `json:"lease,omitempty"`
	To      string      `json:"to,omitempty"` // the address as it was given
	By      Participant `json:"by"`
	Limit   int         `json:"limit,omitempty"`
	Free    *Time       `json:"free,omitempty"` // when it would be admitted
	// Counted is how many refusals this one event stands for beyond those that
	// were recorded one by one within a minute; 0 for an event of one refusal.
	Counted int `json:"counted,omitempty"`
}
