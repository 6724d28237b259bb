package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"decklog/events"
	"decklog/internal/failure"
)

const (
	// restMin is how long a look is shown at least before the next, however much
	// is recorded meanwhile.
	restMin = 200 * time.Millisecond
	// lookEvery is how often it looks though nothing was recorded: who is busy and
	// whose process runs is observed, and no event tells of it.
	lookEvery = 15 * time.Second
	// tryEvery is how long after a look that failed the next one is tried.
	tryEvery = time.Second
	// answerMax is how long an answer may take until that is said.
	answerMax = 5 * time.Second
	// redrawEvery is how often the ages are drawn anew.
	redrawEvery = time.Second
	// widthMin and heightMin are the least that anything can be shown in.
	widthMin, heightMin = 24, 6
)

// The messages that come to the screen from outside.
type (
	looked  struct{ picture }   // what was seen
	stirred struct{ err error } // something was recorded since, or it is time to look
	rested  struct{}            // a look was shown long enough
	ticked  struct{}            // the ages are older
)

// screen is what is shown, and where its user is in it.
type screen struct {
	Config
	ctx           context.Context
	width, height int
	seen          *picture    // nil: nothing yet
	failed        error       // before anything was seen
	trouble       error       // why the last look failed; what was seen before stays
	lost          events.Time // since then; 0: it did not
	asked         events.Time // when the look that is under way began; 0: none is
	pane          int
	at, top       [panes]int // the chosen row, and the first that is shown
	open          events.ThreadID
	scroll        int       // in the open thread
	filters       [2]string // of the panes' rows, and of the lines of the open thread
	typing        bool      // the filter
	helping       bool
}

func newScreen(ctx context.Context, c Config) *screen {
	return &screen{Config: c, ctx: ctx, width: 80, height: 24}
}

// Init looks for the first time.
func (s *screen) Init() tea.Cmd { return tea.Batch(s.look(), tick()) }

func tick() tea.Cmd { return tea.Tick(redrawEvery, func(time.Time) tea.Msg { return ticked{} }) }

func (s *screen) look() tea.Cmd {
	s.asked = s.Now()
	c, open := s.Config, s.open
	return func() tea.Msg { return looked{lookInto(c, open)} }
}

// watch waits until something is recorded after a position, or it is time to look
// again all the same.
func (s *screen) watch(after events.Position) tea.Cmd {
	return func() tea.Msg {
		ctx, stop := context.WithTimeout(s.ctx, lookEvery)
		defer stop()
		err := s.Desk.Past(ctx, after)
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			err = nil
		}
		return stirred{err}
	}
}

// Update takes what happened, and says what to do next. One look or one wait is
// under way at a time: each begins where the one before it ended.
func (s *screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
		s.settle()
	case ticked:
		return s, tick()
	case looked:
		return s, s.saw(m.picture)
	case rested: // it comes after a look alone
		return s, s.watch(s.seen.after)
	case stirred:
		if s.ctx.Err() != nil {
			return s, tea.Quit
		}
		if m.err != nil {
			return s, s.lose(m.err)
		}
		return s, s.look()
	case readInto:
		if m.err != nil {
			s.trouble = m.err
		} else if s.seen != nil && m.thread != nil && m.thread.Thread == s.open {
			s.seen.thread = m.thread
		}
		s.settle()
	case tea.PasteMsg:
		if s.typing {
			*s.filter() += line(m.Content)
		}
	case tea.KeyPressMsg:
		return s, s.key(m)
	}
	return s, nil
}

// saw shows what was seen, and lets it be shown for a while.
func (s *screen) saw(p picture) tea.Cmd {
	s.asked = 0
	if p.err != nil {
		if s.seen == nil {
			s.failed = p.err
			return tea.Quit
		}
		return s.lose(p.err)
	}
	if p.thread == nil && s.seen != nil && s.open != "" {
		p.thread = s.seen.thread // it was opened while this was looked for
	}
	s.seen, s.trouble, s.lost = &p, nil, 0
	s.settle()
	return tea.Tick(restMin, func(time.Time) tea.Msg { return rested{} })
}

// lose keeps why nothing was seen, and since when, and tries again after a while.
func (s *screen) lose(err error) tea.Cmd {
	if s.trouble = err; s.lost == 0 {
		s.lost = s.Now()
	}
	return tea.Tick(tryEvery, func(time.Time) tea.Msg { return stirred{} })
}

// missing says that what is shown is no more what is: since when, and in what way.
// Empty while it is.
func (s *screen) missing() string {
	since, how := s.lost, "not seen"
	switch {
	case since != 0:
		if code := failure.Of(s.trouble).Code; code == "no_server" || code == "no_answer" {
			how = "not connected"
		}
	case s.seen != nil && s.asked != 0 && s.Now().Sub(s.asked) > answerMax:
		since, how = s.asked, "no answer"
	default:
		return ""
	}
	return how + " since " + clock(since) + ", trying"
}

// filter is that of what is shown: the rows of the panes, or an open thread's lines.
func (s *screen) filter() *string {
	if s.open != "" {
		return &s.filters[1]
	}
	return &s.filters[0]
}

// show opens a thread, or none; a filter of the one before it is not of this one.
func (s *screen) show(id events.ThreadID) { s.open, s.scroll, s.filters[1] = id, 0, "" }

// readInto is a thread that was read for itself.
type readInto struct{ picture }

func (s *screen) read(id events.ThreadID) tea.Cmd {
	c := s.Config
	return func() tea.Msg { return readInto{readThread(c, id)} }
}

func (s *screen) key(m tea.KeyPressMsg) tea.Cmd {
	key := m.String()
	if key == "ctrl+c" {
		return tea.Quit
	}
	if s.typing {
		s.types(m)
		return nil
	}
	if s.helping {
		s.helping = false
		if key != "q" {
			return nil
		}
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		s.helping = true
	case "/":
		s.typing = true
	case "esc", "backspace", "left", "h":
		switch {
		case key == "esc" && *s.filter() != "":
			*s.filter() = ""
		case s.open != "":
			s.show("")
		}
	case "tab", "right", "l":
		s.turn(1)
	case "shift+tab":
		s.turn(panes - 1)
	case "1", "2", "3", "4":
		s.pane = int(key[0] - '1')
		s.show("")
	case "down", "j":
		s.move(1)
	case "up", "k":
		s.move(-1)
	case "pgdown", "ctrl+f", "space":
		s.move(s.room())
	case "pgup", "ctrl+b":
		s.move(-s.room())
	case "home", "g":
		s.move(-1 << 30)
	case "end", "G":
		s.move(1 << 30)
	case "enter":
		if id := s.chosen(); s.open == "" && id != "" {
			s.show(id)
			if s.seen != nil {
				s.seen.thread = nil
			}
			return s.read(id)
		}
	case "r":
		if s.open != "" {
			return s.read(s.open)
		}
	}
	s.settle()
	return nil
}

// types takes a key for the filter.
func (s *screen) types(m tea.KeyPressMsg) {
	filter := s.filter()
	switch m.String() {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, *filter = false, ""
	case "backspace":
		if r := []rune(*filter); len(r) > 0 {
			*filter = string(r[:len(r)-1])
		}
	case "ctrl+u":
		*filter = ""
	default:
		*filter += line(m.Text) + strings.Repeat(" ", len(m.Text)-len(strings.TrimRight(m.Text, " ")))
	}
	s.settle()
}

func (s *screen) turn(by int) {
	if s.open == "" {
		s.pane = (s.pane + by) % panes
	}
}

func (s *screen) move(by int) {
	if s.open != "" {
		s.scroll += by
	} else {
		s.at[s.pane] += by
	}
}

// table is what the pane shows now.
func (s *screen) table() table {
	if s.seen == nil {
		return table{}
	}
	return s.seen.table(s.pane, s.Now()).filtered(strings.TrimSpace(s.filters[0]))
}

// chosen is the thread of the chosen row.
func (s *screen) chosen() events.ThreadID {
	t := s.table()
	if at := s.at[s.pane]; at >= 0 && at < len(t.rows) {
		return t.rows[at].thread
	}
	return ""
}

// room is how many lines there are between the head and the foot.
func (s *screen) room() int {
	if s.open != "" {
		return max(1, s.height-2)
	}
	return max(1, s.height-3)
}

// settle keeps what is chosen among what there is, and in sight.
func (s *screen) settle() {
	if s.open != "" {
		s.scroll = max(0, min(s.scroll, len(s.timeline())-s.room()))
		return
	}
	n, at, top := len(s.table().rows), &s.at[s.pane], &s.top[s.pane]
	*at = max(0, min(*at, n-1))
	*top = max(*at-s.room()+1, min(*top, *at), 0)
}

func (s *screen) timeline() []string {
	if s.seen == nil || s.seen.thread == nil {
		return []string{faint.Render("reading …")}
	}
	out := timeline(*s.seen.thread, s.width, s.Now())
	if filter := strings.ToLower(strings.TrimSpace(s.filters[1])); filter != "" {
		var kept []string
		for _, l := range out {
			if strings.Contains(strings.ToLower(stripped(l)), filter) {
				kept = append(kept, l)
			}
		}
		return kept
	}
	return out
}

// View draws the screen.
func (s *screen) View() tea.View {
	v := tea.NewView(s.draw())
	v.AltScreen = true
	v.WindowTitle = "decklog top"
	return v
}

func (s *screen) draw() string {
	if s.width < widthMin || s.height < heightMin {
		return "too small"
	}
	var body []string
	switch {
	case s.seen == nil:
		body = []string{faint.Render("reading the ledger …")}
	case s.helping:
		body = strings.Split(help, "\n")
	case s.open != "":
		all := s.timeline()
		body = all[min(s.scroll, len(all)):min(len(all), s.scroll+s.room())]
	default:
		t := s.table()
		body = append(body, t.head(s.width))
		for i := s.top[s.pane]; i < min(len(t.rows), s.top[s.pane]+s.room()); i++ {
			body = append(body, t.line(t.rows[i], s.width, i == s.at[s.pane]))
		}
		if len(t.rows) == 0 {
			body = append(body, faint.Render("nothing here"))
		}
	}
	room := s.height - 2
	out := make([]string, 0, s.height)
	out = append(out, s.title())
	for i := range room {
		if i < len(body) {
			out = append(out, cell(body[i], s.width))
		} else {
			out = append(out, "")
		}
	}
	return strings.Join(append(out, s.foot()), "\n")
}

// title names the panes, and the moment that is shown.
func (s *screen) title() string {
	var names []string
	for i, name := range paneNames {
		says := fmt.Sprintf("%d %s", i+1, name)
		if s.seen != nil {
			switch i {
			case threadsPane:
				says += fmt.Sprintf(" %d", s.seen.health.Threads.Open)
			case owedPane:
				says += fmt.Sprintf(" %d", len(s.seen.owed.Items))
			case mailboxesPane:
				says += fmt.Sprintf(" %d", s.seen.health.Waiting)
			}
		}
		if i == s.pane {
			says = "[" + says + "]"
			names = append(names, strong.Render(says))
		} else {
			names = append(names, " "+says+" ")
		}
	}
	left := strings.Join(names, "")
	right := ""
	if missing := s.missing(); missing != "" { // this above all: all else is old
		if room := s.width - wide(missing) - 1; room > 0 {
			return cell(left, room) + " " + alarm.Render(missing)
		}
		return cell(alarm.Render(missing), s.width)
	}
	if s.seen != nil {
		right = fmt.Sprintf("at %d  %s UTC", s.seen.after, clock(s.Now()))
	}
	if gap := s.width - wide(left) - wide(right); right != "" && gap > 0 {
		left += strings.Repeat(" ", gap) + faint.Render(right)
	}
	return cell(left, s.width)
}

func (s *screen) foot() string {
	switch {
	case s.typing:
		return cell("/"+line(*s.filter())+"▏  Enter keeps it, Esc forgets it", s.width)
	case s.trouble != nil:
		return cell(alarm.Render(line(s.trouble.Error())), s.width)
	}
	var says []string
	if filter := *s.filter(); filter != "" {
		says = append(says, strong.Render("only with “"+line(filter)+"”")+", Esc for all")
	} else if s.open != "" {
		says = append(says, "Esc back")
	}
	if s.open == "" {
		if t := s.table(); t.more != "" {
			says = append(says, t.more)
		}
		says = append(says, "Enter opens a thread")
	}
	says = append(says, "/ filter", "? help", "q quit")
	return cell(faint.Render(strings.Join(says, "  ·  ")), s.width)
}

const help = `decklog top shows the ledger, and goes on as things happen.

  Tab, 1 2 3 4     the panes: threads, owed items, mailboxes, health
  ↑ ↓, j k         the next row, the row before; PgUp PgDn, g G
  Enter            the row's thread, with all that happened in it
  Esc              all rows or lines again; or back
  /                only the rows with a text in them; in a thread, its lines
  q                ends it

TURN is working while somebody is waited for. MAIL counts the copies
of messages that lie in a mailbox; OWED the open items, and behind
the stroke those that are overdue. It changes nothing: see decklog help.

Any key goes on.`
