package policyfile

import (
	"bytes"
	"fmt"
	"strings"

	"decklog/events"
)

// Render writes a policy as TOML that Parse reads back as the same policy, with
// a comment where a key does not explain itself.
func Render(p events.Policy) []byte {
	var b bytes.Buffer
	line := func(key, value, says string) {
		text := key + " = " + value
		if says != "" {
			text = fmt.Sprintf("%-26s # %s", text, says)
		}
		b.WriteString(text + "\n")
	}
	optional := func(key, value, says string) {
		if value != "" {
			line(key, quote(value), says)
		}
	}

	b.WriteString("# The policy of a decklog ledger. 0 is no limit.\n\n[limits]\n")
	for _, l := range limits() {
		if l.count != nil {
			line(l.name, fmt.Sprint(*l.count(&p.Limits)), l.says)
		} else {
			line(l.name, quote(writeSpan(*l.span(&p.Limits))), l.says)
		}
	}
	b.WriteString("\n[sessions]\n")
	line("ignore", quoteAll(p.Sessions.Ignore), "directories whose sessions take no part")

	if len(p.Seats)+len(p.Persons)+len(p.Areas)+len(p.Alerts) == 0 {
		b.WriteString(rosterExample)
	}
	for i, s := range p.Seats {
		b.WriteString("\n[[seats]]\n")
		says := ""
		if i == 0 {
			says = "the first is the default seat"
		}
		line("name", quote(s.Name), says)
		if len(s.Stickers) > 0 {
			line("stickers", quoteAll(s.Stickers), "the first that exists is used")
		}
		optional("fallback", s.Fallback, "")
	}
	for _, person := range p.Persons {
		b.WriteString("\n[[persons]]\n")
		line("name", quote(person.Name), "")
		optional("os_user", person.OSUser, "a session's person owns its process")
		optional("home", person.Home, "the seat that this person's threads go to")
		if len(person.Roles) > 0 {
			line("roles", quoteAll(person.Roles), "")
		}
	}
	for _, a := range p.Areas {
		b.WriteString("\n[[areas]]\n")
		line("seat", quote(a.Seat), "")
		line("priority", fmt.Sprint(a.Priority), "the lowest wins")
		line("match", quoteAll(a.Match), "any of them, as whole words")
		optional("reason", a.Reason, "")
	}
	for _, a := range p.Alerts {
		b.WriteString("\n[[alerts]]\n")
		line("channel", quote(a.Channel), "")
		line("triager", quote(a.Triager), "")
	}
	if r := p.Routing; r != nil {
		b.WriteString("\n[routing]\n")
		switch {
		case len(r.Classifier) == 1 && isAddress(r.Classifier[0]):
			line("classifier", quote(r.Classifier[0]), "")
		case len(r.Classifier) > 0:
			line("classifier", quoteAll(r.Classifier), "")
		}
		if len(r.Group) > 0 {
			line("group", quoteAll(r.Group), "mention all seats at once, as @"+events.GroupName+" does")
		}
		line("timeout", quote(writeSpan(r.Timeout)), "then the verdict is unavailable")
	}
	return b.Bytes()
}

// rosterExample is what a file without a roster shows of how to write one.
const rosterExample = `
# A roster, which has nobody yet. Once it names persons, nobody else is one; once
# it names seats, nobody takes another.
#
# [[seats]]                  # in order; the first is the default seat
# name = "smith"
#
# [[persons]]
# name = "ana"
# os_user = "ana"            # whose processes are this person's sessions
# home = "smith"
# roles = ["owner"]
`

// writeSpan is a length of time without the zeros that Go puts behind it.
func writeSpan(s events.Span) string {
	text := s.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// quote writes a TOML string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoteAll(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
