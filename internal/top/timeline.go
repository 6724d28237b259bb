package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"decklog/events"
	"decklog/projections"
)

// happening is something that happened in a thread.
type happening struct {
	time  events.Time
	text  string
	style lipgloss.Style
	body  []string
}

// timeline is a thread with all that happened in it, in lines.
func timeline(v projections.ThreadView, width int, now events.Time) []string {
	var out []string
	add := func(style lipgloss.Style, format string, args ...any) {
		for _, l := range lines(fmt.Sprintf(format, args...), width) {
			out = append(out, style.Render(l))
		}
	}
	state := v.State
	if c := v.ClosedBy; c != nil {
		state = fmt.Sprintf("done, by %s %s ago", short(c.By), age(c.Time, now))
	}
	add(strong, "thread %s  %s", line(string(v.Thread)), state)
	driver := "nobody drives it"
	if v.Driver.Seat != nil {
		driver = fmt.Sprintf("@%s drives it by %s, for %s", *v.Driver.Seat, *v.Driver.Source, age(*v.Driver.Since, now))
	}
	for _, s := range v.Stickers {
		driver += fmt.Sprintf("; sticker %s by %s", s.Seat, short(s.By))
	}
	add(named, "%s", line(driver))
	var with []string
	for _, p := range v.Participants {
		with = append(with, short(p))
	}
	add(faint, "with %s", line(strings.Join(with, ", ")))
	for _, p := range v.Pending {
		if now < p.Until {
			add(warning, "%s is writing, and is waited for %s more", line(p.Who()), span(p.Until.Sub(now)))
		}
	}
	for _, o := range v.Owed {
		says := fmt.Sprintf("owed: %s owes %s a %s, %s old", short(o.Debtor), short(o.Creditor), o.Kind, age(o.Since, now))
		style := warning
		if o.Due != nil && *o.Due <= now {
			says, style = says+", overdue "+age(*o.Due, now), alarm
		}
		add(style, "%s", says)
	}
	if c := v.Card; c != nil {
		add(plain, "card: %s; %s of %s, %s", line(c.Subject), line(string(c.Status)), line(c.Work), line(c.Driver))
	}
	out = append(out, "")
	for _, h := range happenings(v) {
		first := lines(h.text, width-10)
		for i, l := range first {
			when := strings.Repeat(" ", 8)
			if i == 0 {
				when = faint.Render(clock(h.time))
			}
			out = append(out, when+"  "+h.style.Render(l))
		}
		for _, text := range h.body {
			for _, l := range lines(text, width-12) {
				out = append(out, strings.Repeat(" ", 12)+l)
			}
		}
	}
	return out
}

// clock is the time of day of a moment, in UTC, as the ledger has it.
func clock(t events.Time) string { return t.Std().Format("15:04:05") }

// happenings are what the view tells, in the order in which it happened.
func happenings(v projections.ThreadView) (all []happening) {
	add := func(t events.Time, style lipgloss.Style, body []string, format string, args ...any) {
		all = append(all, happening{time: t, style: style, body: body, text: line(fmt.Sprintf(format, args...))})
	}
	for _, m := range v.Messages {
		from := short(m.From)
		if m.FromSeat != "" {
			from += " (@" + m.FromSeat + ")"
		}
		var body []string
		switch {
		case m.Deleted != nil:
			body = []string{"[deleted]"}
		case m.Redacted:
			body = []string{"[redacted]"}
		default:
			body = strings.Split(m.Body, "\n")
		}
		if m.Payload != "" {
			body = append(body, strings.Split("payload: "+m.Payload, "\n")...)
		}
		for _, ref := range m.Refs {
			body = append(body, "ref: "+ref)
		}
		says := fmt.Sprintf("%s → %s  %s", from, short(m.To), m.Intent)
		if m.Turn == events.Working {
			says += ", still writing"
		}
		if m.Kind != events.KindMessage {
			says += ", " + string(m.Kind)
		}
		add(m.Sent, strong, body, "%s, %s  %s", says, m.State, short(m.ID))
		if m.Edited != nil {
			add(*m.Edited, faint, nil, "%s edited %s", from, short(m.ID))
		}
		for _, d := range m.Deliveries {
			add(d.Leased, faint, nil, "%s was offered %s, attempt %d", short(d.To), short(m.ID), d.Attempt)
			if d.Confirmed != nil {
				late := ""
				if d.Late {
					late = ", late"
				}
				add(*d.Confirmed, faint, nil, "%s has it printed%s", short(d.To), late)
			}
			if d.Expired != nil {
				add(*d.Expired, warning, nil, "the offer to %s ended unconfirmed", short(d.To))
			}
			if d.Read != nil {
				add(*d.Read, faint, nil, "%s has read %s", short(d.To), short(m.ID))
			}
		}
	}
	for _, r := range v.Refusals {
		add(r.Time, alarm, nil, "%s was refused %s: %s: %s", short(r.By), r.Command, r.Code, r.Message)
	}
	for _, a := range v.Acks {
		add(a.Time, plain, nil, "%s acked %s: %s", short(a.By), short(a.Message), a.Ack)
	}
	for _, s := range v.Stickers {
		add(s.Placed, plain, nil, "%s placed the sticker of %s", short(s.By), s.Seat)
	}
	for _, h := range v.Handoffs {
		var reason []string
		if h.Reason != "" {
			reason = []string{h.Reason}
		}
		add(h.Offered, named, reason, "@%s offered the thread to @%s; it is %s", h.From, h.To, h.State)
		if h.Accepted != nil {
			add(*h.Accepted, named, nil, "@%s accepted it", h.To)
		}
	}
	for _, r := range v.Reviews {
		add(r.Asked, named, nil, "a review of %s was asked of @%s", r.Commit, r.Reviewer)
		if r.Labelled != nil {
			add(*r.Labelled, named, nil, "@%s labels it %s, %s", r.Reviewer, r.Label, r.Risk)
		}
	}
	if c := v.ClosedBy; c != nil {
		add(c.Time, strong, nil, "%s closed the thread", short(c.By))
	}
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Compare(a.time, b.time) })
	return all
}
