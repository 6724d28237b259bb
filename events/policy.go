package events

import "time"

// Policy is what the owners of a ledger decided: the bounds, the sessions that
// take no part, and who is on the roster. It is adopted by an event, and each
// event names the policy that it was decided under, so that an old thread
// replays with the values of its time.
type Policy struct {
	Limits   Limits   `json:"limits"`
	Sessions Sessions `json:"sessions"`
	Seats    []Seat   `json:"seats,omitempty"` // in order; the first is the default seat
	Persons  []Person `json:"persons,omitempty"`
	Areas    []Area   `json:"areas,omitempty"`
	Alerts   []Alert  `json:"alerts,omitempty"`
	Routing  *Routing `json:"routing,omitempty"`
}

// Limits are the bounds; 0 is no bound.
type Limits struct {
	BodyBytes       int  `json:"body_bytes"`
	Refs            int  `json:"refs"`
	SessionRate     int  `json:"session_rate"`   // sends an hour
	DeviceRate      int  `json:"device_rate"`    // sends an hour
	PersonRate      int  `json:"person_rate"`    // sends an hour
	ThreadRate      int  `json:"thread_rate"`    // agents' messages an hour in one thread
	RecipientFull   int  `json:"recipient_full"` // messages that wait for one recipient
	DuplicateWindow Span `json:"duplicate_window"`
	ExpiresAfter    Span `json:"expires_after"`
	Lease           Span `json:"lease"`
	LeaseAttempts   int  `json:"lease_attempts"`
	WaitFinal       Span `json:"wait_final"`
	OwnerWindow     Span `json:"owner_window"`
	Hops            int  `json:"hops"`
	ReviewWithin    Span `json:"review_within"`
	OwedAfter       Span `json:"owed_after"`
	ResumeWithin    Span `json:"resume_within"`
	AbsentAfter     Span `json:"absent_after"`
}

// Sessions says which sessions take no part.
type Sessions struct {
	Ignore []string `json:"ignore,omitempty"` // directories
}

// Seat is one seat of the roster.
type Seat struct {
	Name     string   `json:"name"`
	Stickers []string `json:"stickers,omitempty"`
	Fallback string   `json:"fallback,omitempty"`
}

// Person is a human being who takes part.
type Person struct {
	Name   string   `json:"name"`
	OSUser string   `json:"os_user,omitempty"`
	Home   string   `json:"home,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

// Area is one line of the content map.
type Area struct {
	Seat     string   `json:"seat"`
	Priority int      `json:"priority"`
	Match    []string `json:"match"`
	Reason   string   `json:"reason,omitempty"`
}

// Alert names the one triager of a channel.
type Alert struct {
	Channel string `json:"channel"`
	Triager string `json:"triager"`
}

// Routing says who answers whether a mention moves a thread.
type Routing struct {
	Classifier []string `json:"classifier,omitempty"` // a command, or one address
	// Group are further names by which all seats are mentioned at once, beside
	// GroupName.
	Group   []string `json:"group,omitempty"`
	Timeout Span     `json:"timeout"`
}

// GroupName is the name by which all seats are mentioned at once under every
// policy; no seat and no person is called so.
const GroupName = "seats"

// DefaultPolicy is what holds without a policy file.
func DefaultPolicy() Policy {
	return Policy{Limits: Limits{
		BodyBytes:       4000,
		Refs:            10,
		SessionRate:     30,
		DeviceRate:      120,
		PersonRate:      300,
		ThreadRate:      8,
		RecipientFull:   50,
		DuplicateWindow: Span(10 * time.Minute),
		ExpiresAfter:    Span(24 * time.Hour),
		Lease:           Span(10 * time.Second),
		LeaseAttempts:   3,
		WaitFinal:       Span(180 * time.Second),
		OwnerWindow:     Span(12 * time.Second),
		Hops:            3,
		ReviewWithin:    Span(30 * time.Minute),
		OwedAfter:       Span(30 * time.Minute),
		ResumeWithin:    Span(10 * time.Minute),
		AbsentAfter:     Span(30 * time.Minute),
	}}
}

// PolicyAdopted says that from here on another policy is in force.
type PolicyAdopted struct {
	Policy Policy `json:"policy"`
}
