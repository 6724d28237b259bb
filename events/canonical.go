package events

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"
)

// decodeCanonical reads the commonest events from the text that Encode writes,
// several times as fast as encoding/json. It is no second opinion on what an
// event is: whatever differs from that text by a single byte (a field in another
// place, an escape, a blank, a null) it leaves to encoding/json, which alone says
// whether it is damaged. What it does read, encoding/json reads as the same
// event; a fuzz test holds the two against each other.
func decodeCanonical(t Type, data []byte) (Event, bool) {
	switch t {
	case TypeMessageSent:
		var e MessageSent
		c := canonicalText(data)
		e.read(&c)
		return e, c.done()
	case TypeMessageEdited:
		var e MessageEdited
		c := canonicalText(data)
		e.read(&c)
		return e, c.done()
	case TypeThreadDone:
		var e ThreadDone
		c := canonicalText(data)
		e.read(&c)
		return e, c.done()
	case TypeMailboxLeased:
		var e MailboxLeased
		c := canonicalText(data)
		e.read(&c)
		return e, c.done()
	case TypeMailboxConfirmed:
		var e MailboxConfirmed
		c := canonicalText(data)
		e.read(&c)
		return e, c.done()
	}
	return nil, false
}

func (e *MessageSent) read(c *canonical) {
	text(c, `{"message":"`, &e.Message)
	text(c, `,"thread":"`, &e.Thread)
	text(c, `,"kind":"`, &e.Kind)
	text(c, `,"author":{"id":"`, &e.Author.ID)
	text(c, `,"kind":"`, &e.Author.Kind)
	optional(c, `,"harness":"`, &e.Author.Harness)
	optional(c, `,"seat":"`, &e.Author.Seat)
	optional(c, `,"person":"`, &e.Author.Person)
	optional(c, `,"repo":"`, &e.Author.Repo)
	optional(c, `,"branch":"`, &e.Author.Branch)
	optional(c, `,"device":"`, &e.Author.Device)
	e.Author.Subagent = c.has(`,"subagent":true`)
	text(c, `},"to":{"id":"`, &e.To.ID)
	text(c, `,"kind":"`, &e.To.Kind)
	optional(c, `,"seat":"`, &e.To.Seat)
	c.next(`}`)
	optional(c, `,"addressed":"`, &e.Addressed)
	optional(c, `,"reply_to":"`, &e.ReplyTo)
	text(c, `,"intent":"`, &e.Intent)
	text(c, `,"turn":"`, &e.Turn)
	e.Body.read(c)
	e.Refs = optionalTexts[string](c, `,"refs":[`)
	moment(c, `,"expires":"`, &e.Expires)
	e.Due = optionalMoment(c, `,"due":"`)
	e.FinalBy = optionalMoment(c, `,"final_by":"`)
	c.next(`,"deliveries":[`)
	e.Deliveries = list(c, func(d *Delivery) {
		text(c, `{"to":"`, &d.To)
		text(c, `,"state":"`, &d.State)
		d.Hold = optionalMoment(c, `,"hold":"`)
		c.next(`}`)
	})
	c.next(`,"evidence":{"live":`)
	e.Evidence.Live = c.yes()
	c.next(`,"busy":`)
	e.Evidence.Busy = c.yes()
	optional(c, `,"session":"`, &e.Evidence.Session)
	text(c, `,"says":"`, &e.Evidence.Says)
	if c.has(`,"age_ms":`) {
		age := c.number()
		e.Evidence.AgeMS = &age
	}
	text(c, `},"arrives":"`, &e.Arrives)
	e.Masked = optionalMasked(c)
	optional(c, `,"resend_of":"`, &e.ResendOf)
	optional(c, `,"key":"`, &e.Key)
	e.Mentions = optionalTexts[string](c, `,"mentions":[`)
	e.Group = c.has(`,"group":true`)
	if c.has(`,"hop":`) {
		e.Hop = int(c.number())
	}
	if c.has(`,"area":`) {
		e.Area = new(AreaOf)
		text(c, `{"seat":"`, &e.Area.Seat)
		text(c, `,"reason":"`, &e.Area.Reason)
		optional(c, `,"says":"`, &e.Area.Says)
		c.next(`}`)
	}
	optional(c, `,"channel":"`, &e.Channel)
	e.AnsweredOver = optionalTexts[MessageID](c, `,"answered_over":[`)
	c.next(`}`)
}

func (e *MessageEdited) read(c *canonical) {
	text(c, `{"message":"`, &e.Message)
	text(c, `,"thread":"`, &e.Thread)
	e.Body.read(c)
	e.Masked = optionalMasked(c)
	c.next(`}`)
}

func (e *ThreadDone) read(c *canonical) {
	text(c, `{"thread":"`, &e.Thread)
	text(c, `,"message":"`, &e.Message)
	text(c, `,"by":"`, &e.By)
	c.next(`}`)
}

func (e *MailboxLeased) read(c *canonical) {
	text(c, `{"lease":"`, &e.Lease)
	text(c, `,"mailbox":"`, &e.Mailbox)
	optional(c, `,"harness":"`, &e.Harness)
	optional(c, `,"hook":"`, &e.Hook)
	moment(c, `,"until":"`, &e.Until)
	c.next(`,"items":[`)
	e.Items = list(c, func(l *Leased) { l.read(c) })
	c.next(`}`)
}

func (e *MailboxConfirmed) read(c *canonical) {
	text(c, `{"lease":"`, &e.Lease)
	text(c, `,"mailbox":"`, &e.Mailbox)
	c.next(`,"items":[`)
	e.Items = list(c, func(l *Leased) { l.read(c) })
	e.Late = c.has(`,"late":true`)
	c.next(`}`)
}

func (l *Leased) read(c *canonical) {
	text(c, `{"kind":"`, &l.Kind)
	optional(c, `,"message":"`, &l.Message)
	optional(c, `,"call":"`, &l.Call)
	text(c, `,"thread":"`, &l.Thread)
	c.next(`,"attempt":`)
	l.Attempt = int(c.number())
	l.Pending = c.has(`,"pending":true`)
	l.Edited = c.has(`,"edited":true`)
	optional(c, `,"reason":"`, &l.Reason)
	optional(c, `,"to":"`, &l.To)
	c.next(`}`)
}

func (b *BodyRef) read(c *canonical) {
	text(c, `,"body":{"commitment":"`, &b.Commitment)
	c.next(`,"bytes":`)
	b.Bytes = int(c.number())
	c.next(`}`)
}

func optionalTexts[T ~string](c *canonical, before string) []T {
	if !c.has(before) {
		return nil
	}
	return list(c, func(t *T) { text(c, `"`, t) })
}

func optionalMasked(c *canonical) []Masked {
	if !c.has(`,"masked":[`) {
		return nil
	}
	return list(c, func(m *Masked) {
		text(c, `{"kind":"`, &m.Kind)
		c.next(`,"count":`)
		m.Count = int(c.number())
		c.next(`}`)
	})
}

// canonical is what is left to read of a text. Once something else comes than
// what was expected it is odd, and nothing more is read from it.
type canonical struct {
	rest  string
	plain bool // every byte of it stands for itself
	odd   bool
}

func canonicalText(data []byte) canonical { return canonical{rest: string(data), plain: plain(data)} }

// plain says whether a text is printable ASCII without a backslash, eight bytes
// at a time: one that is needs no look at each byte of each value.
func plain(data []byte) bool {
	const high, blanks = 0x8080808080808080, 0x2020202020202020
	if bytes.IndexByte(data, '\\') >= 0 {
		return false
	}
	for ; len(data) >= 8; data = data[8:] {
		if eight := binary.LittleEndian.Uint64(data); (eight|(eight-blanks))&high != 0 {
			return false
		}
	}
	for _, b := range data {
		if b < ' ' || b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// done says whether all of it was read, and nothing was odd.
func (c *canonical) done() bool { return !c.odd && c.rest == "" }

// has reads these bytes if they come next.
func (c *canonical) has(this string) bool {
	if c.odd || !strings.HasPrefix(c.rest, this) {
		return false
	}
	c.rest = c.rest[len(this):]
	return true
}

// next reads these bytes, which must come next.
func (c *canonical) next(this string) {
	if !c.has(this) {
		c.odd = true
	}
}

// text reads a value whose bytes stand for themselves, behind what introduces it.
func text[T ~string](c *canonical, before string, into *T) {
	c.next(before)
	if !c.odd {
		*into = T(c.value())
	}
}

func optional[T ~string](c *canonical, before string, into *T) {
	if c.has(before) {
		*into = T(c.value())
	}
}

// value reads up to the closing quote, and that.
func (c *canonical) value() string {
	if end := strings.IndexByte(c.rest, '"'); c.plain && end >= 0 {
		value := c.rest[:end]
		c.rest = c.rest[end+1:]
		return value
	}
	ascii := true
	for i := 0; i < len(c.rest); i++ {
		switch b := c.rest[i]; {
		case b == '"':
			value := c.rest[:i]
			c.rest = c.rest[i+1:]
			c.odd = !ascii && !utf8.ValidString(value)
			return value
		case b < ' ' || b == '\\':
			c.odd = true
			return ""
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	c.odd = true
	return ""
}

// list reads elements up to the closing bracket, and that; it is never nil.
func list[T any](c *canonical, element func(*T)) []T {
	several := strings.Count(c.rest[:max(0, strings.IndexByte(c.rest, ']'))], "},{")
	all := make([]T, 0, 1+several)
	for !c.odd && !c.has(`]`) {
		if len(all) > 0 {
			c.next(`,`)
		}
		var one T
		element(&one)
		all = append(all, one)
	}
	return all
}

func (c *canonical) yes() bool {
	if c.has(`true`) {
		return true
	}
	c.next(`false`)
	return false
}

// number reads a whole number of at most nine digits, so that it fits an int
// wherever this runs. Longer ones are odd.
func (c *canonical) number() (n int64) {
	negative := c.has(`-`)
	digits := 0
	for digits < len(c.rest) && '0' <= c.rest[digits] && c.rest[digits] <= '9' && digits <= 9 {
		n = 10*n + int64(c.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 9 || c.rest[0] == '0' && (digits > 1 || negative) {
		c.odd = true
		return 0
	}
	c.rest = c.rest[digits:]
	if negative {
		return -n
	}
	return n
}

func moment(c *canonical, before string, into *Time) {
	c.next(before)
	if !c.odd {
		*into = c.time()
	}
}

func optionalMoment(c *canonical, before string) *Time {
	if !c.has(before) {
		return nil
	}
	t := c.time()
	return &t
}

// time reads a moment as MarshalJSON writes it, and the closing quote.
func (c *canonical) time() Time {
	const form = "0000-00-00T00:00:00.000000Z\""
	if len(c.rest) < len(form) {
		c.odd = true
		return 0
	}
	for i := range len(form) {
		if b := c.rest[i]; form[i] == '0' && (b < '0' || b > '9') || form[i] != '0' && b != form[i] {
			c.odd = true
			return 0
		}
	}
	part := func(from, to int) (n int) {
		for _, b := range []byte(c.rest[from:to]) {
			n = 10*n + int(b-'0')
		}
		return n
	}
	year, month, day := part(0, 4), time.Month(part(5, 7)), part(8, 10)
	hour, minute, second := part(11, 13), part(14, 16), part(17, 19)
	t := time.Date(year, month, day, hour, minute, second, part(20, 26)*1000, time.UTC)
	// Date carries over what is too large: the 30th of February becomes a day in March.
	if t.Month() != month || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		c.odd = true
		return 0
	}
	c.rest = c.rest[len(form):]
	return At(t)
}
