package projections

import "decklog/events"

// packPolicy is the policy in force, in a row that each command reads before
// anything else.
func packPolicy(p *packer, y *events.Policy) {
	l := &y.Limits
	for _, n := range []*int{
		&l.BodyBytes, &l.Refs, &l.SessionRate, &l.DeviceRate, &l.PersonRate, &l.ThreadRate, &l.RecipientFull, &l.LeaseAttempts, &l.Hops,
	} {
		number(p, n)
	}
	for _, span := range []*events.Span{
		&l.DuplicateWindow, &l.ExpiresAfter, &l.Lease, &l.WaitFinal, &l.OwnerWindow, &l.ReviewWithin, &l.OwedAfter, &l.ResumeWithin, &l.AbsentAfter,
	} {
		number(p, span)
	}
	list(p, &y.Sessions.Ignore, text)
	list(p, &y.Seats, func(p *packer, s *events.Seat) {
		text(p, &s.Name)
		list(p, &s.Stickers, text)
		text(p, &s.Fallback)
	})
	list(p, &y.Persons, func(p *packer, s *events.Person) {
		text(p, &s.Name)
		text(p, &s.OSUser)
		text(p, &s.Home)
		list(p, &s.Roles, text)
	})
	list(p, &y.Areas, func(p *packer, a *events.Area) {
		text(p, &a.Seat)
		number(p, &a.Priority)
		none := a.Match == nil // which its event tells from an empty list
		p.flags(&none)
		list(p, &a.Match, text)
		if p.reads && !none && a.Match == nil {
			a.Match = []string{}
		}
		text(p, &a.Reason)
	})
	list(p, &y.Alerts, func(p *packer, a *events.Alert) {
		text(p, &a.Channel)
		text(p, &a.Triager)
	})
	some(p, &y.Routing, func(p *packer, r *events.Routing) {
		list(p, &r.Classifier, text)
		number(p, &r.Timeout)
		list(p, &r.Group, text)
	})
}
