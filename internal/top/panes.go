package top

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"decklog/events"
	"decklog/projections"
)

// The panes, in their order.
const (
	threadsPane = iota
	owedPane
	mailboxesPane
	healthPane
	panes
)

var paneNames = [panes]string{"threads", "owed", "mailboxes", "health"}

// column is one of a pane's. The last one that stretches takes what is left; one
// with a rank is left out of a screen that is narrower than its rank says.
type column struct {
	name    string
	width   int
	rank    int // the least width of a screen that shows it; 0: any
	right   bool
	stretch bool
}

// field is a text in a column.
type field struct {
	text  string
	style lipgloss.Style
}

// row is a line of a pane, and the thread that it opens.
type row struct {
	fields []field
	thread events.ThreadID
}

// says is the row's text, for a filter.
func (r row) says() string {
	var all []string
	for _, f := range r.fields {
		all = append(all, f.text)
	}
	return strings.ToLower(strings.Join(all, " "))
}

// table is a pane's content.
type table struct {
	columns []column
	rows    []row
	more    string // what is not shown
}

func (t table) filtered(filter string) table {
	if filter == "" {
		return t
	}
	kept := t
	kept.rows = nil
	for _, r := range t.rows {
		if strings.Contains(r.says(), strings.ToLower(filter)) {
			kept.rows = append(kept.rows, r)
		}
	}
	return kept
}

// shown are the columns that a width has room for, with the stretching one's width.
func (t table) shown(width int) (columns []column, at []int) {
	left := width
	for i, c := range t.columns {
		if c.rank > width {
			continue
		}
		columns, at = append(columns, c), append(at, i)
		left -= c.width + 1
	}
	for i := range columns {
		if columns[i].stretch {
			columns[i].width = max(columns[i].width, columns[i].width+left+1)
		}
	}
	return columns, at
}

func (t table) head(width int) string {
	columns, _ := t.shown(width)
	var cells []string
	for _, c := range columns {
		cells = append(cells, aligned(strings.ToUpper(c.name), c))
	}
	return strong.Render(cell(strings.Join(cells, " "), width))
}

func aligned(s string, c column) string {
	s = cell(s, c.width)
	if trimmed := strings.TrimRight(s, " "); c.right {
		return strings.Repeat(" ", len(s)-len(trimmed)) + trimmed
	}
	return s
}

func (t table) line(r row, width int, isChosen bool) string {
	columns, at := t.shown(width)
	var cells []string
	for i, c := range columns {
		f := field{style: plain}
		if at[i] < len(r.fields) {
			f = r.fields[at[i]]
		}
		text := aligned(f.text, c)
		if !isChosen {
			text = f.style.Render(text)
		}
		cells = append(cells, text)
	}
	if isChosen {
		return chosen.Render(cell(strings.Join(cells, " "), width))
	}
	return cell(strings.Join(cells, " "), width)
}

func of(text string) field                           { return field{text, plain} }
func styled(text string, style lipgloss.Style) field { return field{text, style} }

func counted(n int, style lipgloss.Style) field {
	if n == 0 {
		return styled("·", faint)
	}
	return styled(strconv.Itoa(n), style)
}

// table makes what a pane shows at a moment.
func (p picture) table(pane int, now events.Time) table {
	switch pane {
	case threadsPane:
		return p.threadTable(now)
	case owedPane:
		return p.owedTable(now)
	case mailboxesPane:
		return p.mailboxTable(now)
	}
	return p.healthTable(now)
}

func (p picture) threadTable(now events.Time) table {
	t := table{columns: []column{
		{name: "thread", width: 8, rank: 64}, {name: "turn", width: 8}, {name: "driver", width: 11}, {name: "last", width: 6, right: true, rank: 44},
		{name: "msgs", width: 4, right: true, rank: 70}, {name: "mail", width: 4, right: true, rank: 60}, {name: "owed", width: 6, right: true},
		{name: "from", width: 12, rank: 110}, {name: "about", width: 10, stretch: true},
	}}
	for _, l := range p.threads.Threads {
		turn := styled("final", faint)
		switch {
		case l.State == "done":
			turn = styled("done", faint)
		case writing(l.Turn, now) > 0:
			turn = styled("working", warning)
		}
		driver := styled("·", faint)
		if l.Driver.Seat != nil {
			driver = styled("@"+line(*l.Driver.Seat), named)
		}
		owed := counted(l.Owed, warning)
		if l.Overdue > 0 {
			owed = styled(fmt.Sprintf("%d/%d!", l.Owed, l.Overdue), alarm)
		}
		t.rows = append(t.rows, row{thread: l.Thread, fields: []field{
			styled(short(l.Thread), faint), turn, driver, of(age(l.Last, now)), counted(l.Messages, plain), counted(l.Waiting, warning), owed,
			of(who(l.OpenedBy, l.OpenedSeat)), styled(about(l), aboutStyle(l)),
		}})
	}
	if p.threads.NextCursor != "" {
		t.more = fmt.Sprintf("the latest %d threads; the others: decklog threads", len(p.threads.Threads))
	}
	return t
}

// writing is how many are waited for at this moment.
func writing(t projections.TurnShown, now events.Time) (n int) {
	for _, p := range t.Pending {
		if now < p.Until {
			n++
		}
	}
	return n
}

func who(p events.Participant, seat string) string {
	if seat != "" {
		return "@" + line(seat)
	}
	return short(p)
}

func about(l projections.ThreadLine) string {
	text := line(l.Preview)
	if l.Redacted {
		text = "[redacted]"
	}
	if l.Channel != "" {
		text = line(l.Channel) + ": " + text
	}
	if h := l.Handoff; h != nil {
		text = fmt.Sprintf("[hand-off %s to @%s] %s", h.State, line(h.To), text)
	}
	if v := l.Review; v != nil && v.Labelled == nil {
		text = "[review asked] " + text
	}
	return text
}

func aboutStyle(l projections.ThreadLine) lipgloss.Style {
	if l.State == "done" {
		return faint
	}
	return plain
}

func (p picture) owedTable(now events.Time) table {
	t := table{columns: []column{
		{name: "kind", width: 7}, {name: "owes", width: 12}, {name: "to", width: 12, rank: 48}, {name: "age", width: 6, right: true},
		{name: "due", width: 10, right: true}, {name: "nudges", width: 6, right: true, rank: 80}, {name: "thread", width: 8, rank: 64}, {name: "state", width: 4, stretch: true},
	}}
	for _, o := range p.owed.Items {
		due := styled("·", faint)
		if o.Due != nil {
			if *o.Due <= now {
				due = styled("over "+age(*o.Due, now), alarm)
			} else {
				due = of("in " + span(o.Due.Sub(now)))
			}
		}
		state := o.State
		if o.Paged != nil {
			state += ", owners called " + age(*o.Paged, now) + " ago"
		}
		t.rows = append(t.rows, row{thread: o.Thread, fields: []field{
			of(string(o.Kind)), styled(short(o.Debtor), named), of(short(o.Creditor)), of(age(o.Since, now)), due, counted(o.Nudges, warning),
			styled(short(o.Thread), faint), of(line(state)),
		}})
	}
	return t
}

func (p picture) mailboxTable(now events.Time) table {
	t := table{columns: []column{
		{name: "who", width: 12}, {name: "kind", width: 7, rank: 48}, {name: "seat", width: 10, rank: 60}, {name: "here", width: 5}, {name: "mail", width: 4, right: true},
		{name: "oldest", width: 6, right: true, rank: 40}, {name: "lease", width: 10, rank: 76}, {name: "lost", width: 4, right: true, rank: 84},
		{name: "harness", width: 11, rank: 96}, {name: "evidence", width: 4, stretch: true},
	}}
	for _, l := range p.mailboxes.Mailboxes {
		here := styled(l.Presence, faint)
		switch l.Presence {
		case "busy":
			here = styled("busy", fine)
		case "idle":
			here = of("idle")
		case "":
			here = styled("·", faint)
		}
		oldest := styled("·", faint)
		if l.Oldest != nil {
			oldest = of(age(*l.Oldest, now))
		}
		lease := styled("·", faint)
		if l.Lease != nil {
			lease = styled(fmt.Sprintf("attempt %d", l.Lease.Attempt), warning)
		}
		seat := styled("·", faint)
		if l.Seat != "" {
			seat = styled("@"+line(l.Seat), named)
		}
		says := l.Evidence
		if l.Title != "" {
			says = l.Title + "; " + says
		}
		t.rows = append(t.rows, row{fields: []field{
			of(short(l.Participant)), styled(string(l.Kind), faint), seat, here, counted(l.Waiting, warning), oldest, lease, counted(l.Undelivered, alarm),
			of(line(l.Harness)), styled(line(says), faint),
		}})
	}
	if p.mailboxes.More {
		t.more = "more mailboxes are live, and nothing waits in them"
	}
	return t
}

func (p picture) healthTable(now events.Time) table {
	t := table{columns: []column{{name: "what", width: 12}, {name: "how it stands", width: 20, stretch: true}}}
	add := func(what string, style lipgloss.Style, format string, args ...any) {
		t.rows = append(t.rows, row{fields: []field{styled(what, strong), styled(line(fmt.Sprintf(format, args...)), style)}})
	}
	h := p.health
	last := "no event yet"
	if h.Last != nil {
		last = "the last " + age(*h.Last, now) + " ago"
	}
	add("ledger", plain, "%d events, %s", h.Events, last)
	if h.SizeBytes != nil {
		add("store", plain, "%s, journal %s", bytes(*h.SizeBytes), h.Journal)
	}
	if c := h.Cluster; c != nil && c.Live {
		add("cluster", plain, "live")
	} else if c != nil {
		add("cluster", alarm, "what is shown is stale: %s", c.Says)
	}
	add("threads", plain, "%d open, %d done, %d messages", h.Threads.Open, h.Threads.Done, h.Messages)
	add("mail", plain, "%d waiting, %d lost ever", h.Waiting, h.Undelivered)
	for _, o := range h.Owed {
		style := plain
		if o.Overdue > 0 {
			style = alarm
		}
		add("owed", style, "%d of kind %s, %d overdue", o.Open, o.Kind, o.Overdue)
	}
	for _, s := range p.mailboxes.Seats {
		says, style := "nobody sits there", faint
		if s.Occupant != "" {
			says, style = "session "+short(s.Occupant), plain
		}
		if s.Absent != nil {
			says, style = says+"; absent, and passed over", warning
		}
		add("@"+line(s.Seat), style, "%s; %d waiting", says, s.Waiting)
	}
	for _, n := range p.mailboxes.Persons {
		add("@"+line(n.Person), plain, "person; %d sessions, %d waiting", n.Sessions, n.Waiting)
	}
	if h.Policy != nil {
		add("policy", plain, "in force since position %d, %s ago", h.Policy.Position, age(h.Policy.Time, now))
	}
	add("refusals", plain, "%d", h.Refusals)
	for _, c := range p.refusals.Counts {
		add("", faint, "%6d  %s", c.Count, c.Code)
	}
	for _, r := range p.refusals.Refusals {
		t.rows = append(t.rows, row{thread: r.Thread, fields: []field{
			styled(age(r.Time, now)+" ago", faint), of(line(fmt.Sprintf("%s: %s of %s: %s", short(r.By), r.Code, r.Command, r.Message))),
		}})
	}
	return t
}

// whole is every pane, one below the other.
func whole(p picture, width int) string {
	var b strings.Builder
	for pane := range panes {
		t := p.table(pane, p.now)
		if pane > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n%s\n", strong.Render(fmt.Sprintf("%s, %d", paneNames[pane], len(t.rows))), strings.TrimRight(t.head(width), " "))
		for _, r := range t.rows {
			b.WriteString(strings.TrimRight(t.line(r, width, false), " ") + "\n")
		}
		if t.more != "" {
			b.WriteString(faint.Render(t.more) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
