package dashboard

import (
	"strconv"
	"strings"
	"time"

	"decklog/events"
	"decklog/projections"
)

// ago is a length of time as a glance takes it in: its largest unit, and the next
// where that still tells something.
func ago(d time.Duration) string {
	if d < 0 {
		return "ahead" // a clock went back since
	}
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 10*time.Hour:
		if m := int(d/time.Minute) % 60; m > 0 {
			return strconv.Itoa(int(d/time.Hour)) + "h " + strconv.Itoa(m) + "m"
		}
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// due is a length of time that lies ahead or behind: "in 4m", "4m over".
func due(at, now events.Time) string {
	if d := at.Sub(now); d >= 0 {
		return "in " + ago(d)
	}
	return ago(now.Sub(at)) + " over"
}

func clock(t events.Time) string { return t.Std().Format("15:04:05") }
func day(t events.Time) string   { return t.Std().Format("Mon 2 Jan 2006") }
func exact(t events.Time) string { return t.Std().Format("2006-01-02 15:04:05.000 UTC") }

// sized is a size in the unit in which people read it.
func sized(n int64) string {
	const kib = 1 << 10
	switch {
	case n < kib:
		return strconv.FormatInt(n, 10) + " B"
	case n < kib*kib:
		return strconv.FormatFloat(float64(n)/kib, 'f', 1, 64) + " KiB"
	case n < kib*kib*kib:
		return strconv.FormatFloat(float64(n)/kib/kib, 'f', 1, 64) + " MiB"
	}
	return strconv.FormatFloat(float64(n)/kib/kib/kib, 'f', 2, 64) + " GiB"
}

// number is a count with its thousands apart, by a blank that no line breaks at.
func number[N ~int | ~int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// spaced is a name of the wire as words.
func spaced[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }

// did says what a command did, for the page that comes after it. The page's address
// carries only the key: no sentence of anybody else's can be shown by a link.
func did(key string) string {
	switch key {
	case "sent":
		return "Recorded. A receipt is no reply."
	case "closed-thread":
		return "Recorded, and the thread is closed."
	case "routed":
		return "Recorded, and the thread moves to the seat that you mentioned."
	case "not-routed":
		return "Recorded. The thread stays with its driver."
	case "placed":
		return "Your sticker lies on the root."
	case "removed":
		return "The sticker is off."
	case "unchanged":
		return "It was so already; nothing was recorded."
	case "acked":
		return "Your ack lies on the message."
	case "accepted":
		return "The hand-off is accepted."
	case "given":
		return "Your sticker moves the thread, and the offer is over."
	case "declined":
		return "The offer is declined. Nothing moved."
	case "handoff-closed":
		return "The hand-off is closed. Who drives did not change."
	case "owed-closed":
		return "The item is owed no more."
	}
	return ""
}

// sourceSays says why a seat drives, as people would.
func sourceSays(source, detail string) string {
	switch projections.Source(source) {
	case projections.SourcePerson:
		switch detail {
		case "human-last":
			return "a person’s sticker, the latest of several"
		case "human-area":
			return "persons’ stickers differ, and the content map decides"
		case "human-order":
			return "persons’ stickers differ, and the order of the seats decides"
		}
		return "a person’s sticker"
	case projections.SourceHandoff:
		return "it was handed over"
	case projections.SourceSolo:
		return "no other seat has written here"
	case projections.SourceSticker:
		if detail == "sticker-tie" {
			return "several seats’ stickers, and the order of the seats decides"
		}
		return "its own sticker"
	case projections.SourceMirror:
		return "its work is mirrored here"
	case projections.SourceArea:
		switch events.AreaReason(detail) {
		case events.AreaAuthor:
			return "home seat of who began it"
		case events.AreaMap:
			return "the content map names it"
		case events.AreaDefault:
			return "the first of the seats"
		}
		return "by how the thread began"
	}
	return source
}
