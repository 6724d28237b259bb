package commands

import (
	"strings"
	"unicode/utf8"

	"decklog/events"
)

// The bounds of what only an alert has.
const (
	ChannelBytesMax = 256
	PayloadBytesMax = 64 << 10
)

// TriagerOf is the one seat that decides on the alerts of a channel (R10); false
// when the policy names none.
func TriagerOf(p events.Policy, channel string) (string, bool) {
	for _, a := range p.Alerts {
		if a.Channel == channel {
			return a.Triager, true
		}
	}
	return "", false
}

// badAlert is what can be wrong with an alert alone.
func (d *draft) badAlert() *Refusal {
	bad := func(format string, args ...any) *Refusal {
		return refuse(BadRequest, format, args...).example(`decklog alert "#alerts" --payload alert.json -- "the sync is failing"`)
	}
	switch {
	case !oneLine(d.Channel) || d.Channel == "" || len(d.Channel) > ChannelBytesMax:
		return bad("the channel is no name of 1 to %d bytes in one line", ChannelBytesMax).fix("name the channel as the policy does")
	case len(d.Payload) > PayloadBytesMax:
		return bad("the payload takes %d bytes; at most %d", len(d.Payload), PayloadBytesMax).
			fix("keep what must be looked at, and say in the body where the rest lies; nothing was sent")
	case !utf8.Valid(d.Payload):
		return bad("the payload has bytes that are not UTF-8, the first at byte %d", firstInvalid(d.Payload)).fix("attach text")
	}
	return nil
}

// oneLine says whether a text is UTF-8 without control characters.
func oneLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// triager is whom an alert goes to: the seat that decides on its channel,
// whichever seat will drive.
func (d *draft) triager() *Refusal {
	seat, known := TriagerOf(d.policy, d.Channel)
	if known {
		d.to = d.resolveKnown(d.s, events.Recipient{ID: events.Named(seat), Kind: events.KindSeat}, d.now, d.from)
		return nil
	}
	if len(d.policy.Alerts) == 0 {
		return refuse(NotFound, "the policy has no alert channels, and none is called %q", d.Channel).
			fix("have a person write the channel and its triager under [[alerts]] into the policy and adopt it").
			example("decklog policy adopt --policy decklog.toml")
	}
	var channels []string
	for _, a := range d.policy.Alerts {
		channels = append(channels, a.Channel)
	}
	return refuse(NotFound, "no alert channel is called %q; there are %s", d.Channel, strings.Join(channels, ", ")).
		fix("use one of the policy's channels").example(`decklog alert "%s" -- "the sync is failing"`, or(quotable(channels[0]), "CHANNEL"))
}

// quotable gives back a text that can stand between double quotes in a command
// line as it is; else nothing.
func quotable(s string) string {
	if strings.ContainsAny(s, "\"$`\\!") || !oneLine(s) {
		return ""
	}
	return s
}

// noAlerter refuses an alert by anybody but a bot or a person.
func (d *draft) noAlerter() *Refusal {
	if d.Kind != events.KindAlert || d.from.Kind == events.KindBot || d.from.Kind == events.KindPerson {
		return nil
	}
	return refuse(PersonOnly, "an alert comes from a bot or a person, and %s is neither", d.from.ID).
		fix("say it in a message of your own to the channel's triager").
		example(`decklog send --to @%s --intent request -- "the sync is failing"`, or(d.someTriager(), "SEAT"))
}

func (d *draft) someTriager() string {
	seat, _ := TriagerOf(d.policy, d.Channel)
	return seat
}

// attach adds what came with an alert, beside an event of its own.
func (d *draft) attach(out []events.Proposed, e events.MessageSent) []events.Proposed {
	if len(d.payload) == 0 {
		return out
	}
	body := events.Body{Salt: d.Salt, Text: d.payload}
	return append(out, events.Proposed{
		Stream: events.ThreadStream(e.Thread), ID: d.ID.Event(len(out)), Actor: d.from.ID,
		Cause: events.Cause{Command: d.ID, Event: d.ID.Event(0)},
		Event: events.PayloadAttached{Message: e.Message, Thread: e.Thread, Payload: body.Commit()}, Body: &body,
	})
}
