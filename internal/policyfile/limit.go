package policyfile

import (
	"time"

	"decklog/events"
)

// limit is one key of [limits]: its meaning, its place in the policy, and what
// it may be. It is a count or a span.
type limit struct {
	name, says string

	count    func(*events.Limits) *int
	countMax int // the least is 0

	span             func(*events.Limits) *events.Span
	spanMin, spanMax time.Duration
	always           bool // a span that must not be 0
}

const day = 24 * time.Hour

// limits lists the keys of [limits] in the order in which they are written. The
// greatest values keep slips out, such as a rate in place of a length of time;
// who wants more wants 0.
func limits() []limit {
	type l = *events.Limits
	count := func(name string, most int, at func(l) *int, says string) limit {
		return limit{name: name, says: says, count: at, countMax: most}
	}
	span := func(name string, most time.Duration, at func(l) *events.Span, says string) limit {
		return limit{name: name, says: says, span: at, spanMin: 100 * time.Millisecond, spanMax: most}
	}
	lease := span("lease", 10*time.Minute, func(l l) *events.Span { return &l.Lease }, "how long one hook run has to print and confirm")
	lease.spanMin, lease.always = time.Second, true
	return []limit{
		count("body_bytes", 1_000_000, func(l l) *int { return &l.BodyBytes }, "of a message"),
		count("refs", 1_000, func(l l) *int { return &l.Refs }, "of a message"),
		count("session_rate", 1_000_000, func(l l) *int { return &l.SessionRate }, "sends an hour"),
		count("device_rate", 1_000_000, func(l l) *int { return &l.DeviceRate }, "sends an hour"),
		count("person_rate", 1_000_000, func(l l) *int { return &l.PersonRate }, "sends an hour"),
		count("thread_rate", 1_000_000, func(l l) *int { return &l.ThreadRate }, "agents' messages an hour in one thread"),
		count("recipient_full", 1_000_000, func(l l) *int { return &l.RecipientFull }, "undelivered messages for one recipient"),
		span("duplicate_window", 30*day, func(l l) *events.Span { return &l.DuplicateWindow }, "in which the same text is sent once"),
		span("expires_after", 365*day, func(l l) *events.Span { return &l.ExpiresAfter }, "a message that nobody took"),
		lease,
		count("lease_attempts", 100, func(l l) *int { return &l.LeaseAttempts }, "unconfirmed leases, then it is undelivered"),
		span("wait_final", day, func(l l) *events.Span { return &l.WaitFinal }, "how long an answer that is being worked on is waited for"),
		span("owner_window", time.Hour, func(l l) *events.Span { return &l.OwnerWindow }, "a person's message is the driver's alone for so long"),
		count("hops", 100, func(l l) *int { return &l.Hops }, "mentions from seat to seat without a person"),
		span("review_within", 30*day, func(l l) *events.Span { return &l.ReviewWithin }, "then the owners are paged"),
		span("owed_after", 30*day, func(l l) *events.Span { return &l.OwedAfter }, "a request or hand-off is due; nudged as often again, at most three times, then paged"),
		span("resume_within", 30*day, func(l l) *events.Span { return &l.ResumeWithin }, "how long an ended session's mail waits for a resume"),
		span("absent_after", 30*day, func(l l) *events.Span { return &l.AbsentAfter }, "a seat without a live session"),
	}
}
