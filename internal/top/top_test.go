package top

import (
	"encoding/binary"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/projections"
)

const (
	alice = "aaaaaaaa-0000-4000-8000-000000000001"
	bob   = "bbbbbbbb-0000-4000-8000-000000000002"
)

// desk is a ledger in memory whose clock the test sets.
type desk struct {
	*ops.Ops
	t   rapid.TB
	now events.Time
}

func newDesk(t rapid.TB) *desk {
	d := &desk{t: t, now: events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))}
	n := uint64(0)
	policy := events.DefaultPolicy()
	policy.Seats = []events.Seat{{Name: "smith"}, {Name: "trinity"}}
	policy.Persons = []events.Person{{Name: "ana", OSUser: "ana", Home: "smith", Roles: []string{"owner"}}}
	d.Ops = &ops.Ops{Ledger: memory.New(projections.Project), World: ops.World{
		Now: func() events.Time { return d.now },
		Random: func(b []byte) {
			n++
			binary.BigEndian.PutUint64(b[len(b)-8:], n)
		},
		Alive:  func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return true, d.now, true },
		Device: "deck", OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return policy, nil },
	}}
	return d
}

func (d *desk) config() Config { return Config{Desk: d.Ops, Now: func() events.Time { return d.now }} }

func (d *desk) join(id, title, seat string) {
	d.t.Helper()
	if _, r, err := d.Join(ops.JoinRequest{Session: id, Harness: "codex", Title: title, Branch: title, Seat: seat}); r != nil || err != nil {
		d.t.Fatalf("join: %+v %v", r, err)
	}
}

func (d *desk) send(as string, q ops.SendRequest) (thread events.ThreadID) {
	d.t.Helper()
	q.As = as
	receipt, r, err := d.Send(q)
	if r != nil || err != nil {
		d.t.Fatalf("send: %+v %v", r, err)
	}
	return receipt.Thread
}

// style is what this package sends to a terminal besides text: colours and weights.
var style = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// harmless demands that a drawing does nothing to a terminal but to be read, and
// that no line is wider than its screen.
func harmless(t rapid.TB, drawing string, width int) {
	t.Helper()
	for l := range strings.Lines(drawing) {
		l = strings.TrimSuffix(l, "\n")
		if w := ansi.StringWidth(l); w > width {
			t.Fatalf("the line %q takes %d columns of %d", l, w, width)
		}
		for _, r := range style.ReplaceAllString(l, "") {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2028' || r >= 0xe0000 && r <= 0xe007f {
				t.Fatalf("the line %q sends %q to the terminal", l, r)
			}
		}
	}
}

func TestNothingThatAnybodyWroteActsOnTheTerminalAtAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"\x1b]0;pwned\x07", "\x1b[2J\x1b[H", "a\u202eb", "\u009b2J", "tab\tand\nline", "\U000e0041", "船の航海日誌は墨で書かれる", "👩‍👩‍👧‍👦 e\u0301", "\u2028", strings.Repeat("long ", 200),
		}))
		text := func(what string) string {
			s := texts.Draw(t, what)
			if strings.TrimSpace(strings.Map(func(r rune) rune {
				if r < 0x20 && r != '\n' || r == 0x7f {
					return -1
				}
				return r
			}, s)) == "" {
				return "text"
			}
			return s[:min(len(s), 3000)]
		}
		d := newDesk(t)
		d.join(alice, text("title"), "smith")
		d.join(bob, text("title"), "trinity")
		thread := events.ThreadID("")
		send := func(as string, q ops.SendRequest) {
			q.As = as
			receipt, refused, err := d.Send(q)
			if err != nil {
				t.Fatal(err)
			}
			if refused == nil {
				thread = receipt.Thread
			}
		}
		send(alice, ops.SendRequest{To: bob, Intent: "request", Body: []byte(text("body"))})
		send("@ana", ops.SendRequest{To: "@smith", Intent: "request", Body: []byte(text("body"))})
		send(alice, ops.SendRequest{To: text("address"), Body: []byte("refused")})
		if thread != "" {
			if _, _, err := d.OfferHandoff(ops.OfferRequest{Asker: ops.Asker{As: alice}, Thread: string(thread), To: "trinity", Reason: []byte(text("reason")), Link: text("link")}); err != nil {
				t.Fatal(err)
			}
		}
		s := newScreen(t.Context(), d.config())
		s.width, s.height = rapid.IntRange(1, 150).Draw(t, "width"), rapid.IntRange(1, 40).Draw(t, "height")
		p := lookInto(d.config(), thread)
		s.Update(looked{p})
		for range panes {
			harmless(t, s.draw(), max(s.width, len("too small")))
			s.turn(1)
		}
		s.filters = [2]string{text("filter"), text("filter")}
		harmless(t, s.draw(), max(s.width, len("too small")))
		s.typing = true
		harmless(t, s.draw(), max(s.width, len("too small")))
		s.typing, s.open = false, thread
		s.settle()
		harmless(t, s.draw(), max(s.width, len("too small")))
		width := max(widthMin, s.width)
		harmless(t, whole(p, width), max(width, 60)) // its titles are not cut
	})
}

// Only an id that is one is cut unread.
func TestANameThatLooksLikeAnIdIsNotDrawnAsItIs(t *testing.T) {
	if got := short(events.Participant(alice)); got != alice[:8] {
		t.Errorf("an id is %q", got)
	}
	name := "\x1b]0;run\x07-aaaa-4000-8000-000000000001"
	if len(name) != len(alice) {
		t.Fatalf("the name has %d bytes", len(name))
	}
	harmless(t, short(events.Participant(name)), 100)
}

func pressed(s *screen, keys ...rune) {
	for _, k := range keys {
		m := tea.KeyPressMsg{Code: k}
		if k >= ' ' && k < 0x7f {
			m.Text = string(k)
		}
		s.Update(m)
	}
}

func TestWhatIsChosenStaysInSightAndAmongWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(t)
		d.join(alice, "", "")
		d.join(bob, "", "")
		for range rapid.IntRange(0, 12).Draw(t, "threads") {
			d.send(alice, ops.SendRequest{To: bob, Body: []byte(rapid.StringMatching(`[a-c]{3,9}`).Draw(t, "body"))})
			d.now = d.now.Add(11 * time.Minute) // the same words again are no duplicate
		}
		s := newScreen(t.Context(), d.config())
		s.Update(looked{look(d.config())})
		for range rapid.IntRange(0, 60).Draw(t, "keys") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				s.Update(tea.WindowSizeMsg{Width: rapid.IntRange(1, 120).Draw(t, "width"), Height: rapid.IntRange(1, 30).Draw(t, "height")})
			case 1:
				s.Update(looked{look(d.config())})
			default:
				pressed(s, rapid.SampledFrom([]rune{'j', 'k', 'g', 'G', '\t', '1', '2', '3', '4', '/', 'a', tea.KeyEnter, tea.KeyEscape, tea.KeyPgDown, tea.KeyPgUp, '?', tea.KeyBackspace}).Draw(t, "key"))
			}
			if s.open != "" {
				if s.scroll < 0 {
					t.Fatalf("scrolled to %d", s.scroll)
				}
				continue
			}
			n, at, top := len(s.table().rows), s.at[s.pane], s.top[s.pane]
			if at < 0 || at > 0 && at >= n || top < 0 || at < top || at >= top+s.room() {
				t.Fatalf("row %d of %d is chosen, and %d to %d are shown", at, n, top, top+s.room()-1)
			}
		}
	})
}

func TestAThreadShowsAllThatHappenedInItsOrder(t *testing.T) {
	d := newDesk(t)
	d.join(alice, "", "")
	d.join(bob, "", "")
	thread := d.send(alice, ops.SendRequest{To: bob, Intent: "request", Body: []byte("Which commit?")})
	d.now = d.now.Add(time.Second)
	o, _, err := d.Lease(ops.LeaseRequest{Asker: ops.Asker{As: bob}})
	if err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(time.Second)
	if _, r, err := d.Confirm(ops.Asker{}, o.ID); r != nil || err != nil {
		t.Fatal(r, err)
	}
	view, _, err := d.Thread(ops.ThreadRequest{ID: string(thread)})
	if err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(31 * time.Minute)
	drawn := ansi.Strip(strings.Join(timeline(view, 100, d.now), "\n"))
	at := 0
	for _, want := range []string{
		"thread " + string(thread) + "  open", "nobody drives it", "owed: bbbbbbbb owes aaaaaaaa a reply, 31m old, overdue 1m",
		"09:00:00  aaaaaaaa → bbbbbbbb  request, delivered", "Which commit?", "09:00:01  bbbbbbbb was offered", "attempt 1", "09:00:02  bbbbbbbb has it printed",
	} {
		i := strings.Index(drawn[at:], want)
		if i < 0 {
			t.Fatalf("%q does not come next in\n%s", want, drawn)
		}
		at += i
	}
}

func TestALookThatFailsLeavesWhatWasSeen(t *testing.T) {
	d := newDesk(t)
	d.join(alice, "", "")
	d.join(bob, "", "")
	d.send(alice, ops.SendRequest{To: bob, Body: []byte("Seen before.")})
	s := newScreen(t.Context(), d.config())
	s.Update(looked{look(d.config())})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s.Update(looked{look(d.config())})
	if drawn := ansi.Strip(s.draw()); !strings.Contains(drawn, "Seen before.") || !strings.Contains(drawn, "not seen since 09:00:00, trying") {
		t.Errorf("drawn\n%s", drawn)
	}
	// Where nothing was seen yet there is nothing to show: it ends with the reason.
	first := newScreen(t.Context(), d.config())
	first.Update(looked{look(d.config())})
	if first.failed == nil {
		t.Error("it goes on with nothing")
	}
}

// Its user looks at the head of the screen: what stands there is not old without
// saying so, at any width.
func TestTheHeadSaysThatNothingIsSeenAndSinceWhen(t *testing.T) {
	d := newDesk(t)
	s := newScreen(t.Context(), d.config())
	s.Update(looked{look(d.config())})
	head := func() string { return strings.TrimSpace(strings.Split(ansi.Strip(s.draw()), "\n")[0]) }
	gone := failure.New("no_server", "start it", errors.New("reach the ledger: connection refused"))
	d.now = d.now.Add(time.Minute)
	s.Update(stirred{gone})
	d.now = d.now.Add(time.Minute)
	s.Update(looked{picture{err: gone}}) // a second time: since the first
	for _, width := range []int{30, 45, 100, 200} {
		s.Update(tea.WindowSizeMsg{Width: width, Height: 20})
		want := "not connected since 09:01:00, trying"
		if got := head(); !strings.HasSuffix(got, want[:min(len(want), width-1)]) && !strings.HasPrefix(got, want[:min(len(want), width-1)]) {
			t.Errorf("at %d columns the head is %q", width, got)
		}
	}
	if drawn := ansi.Strip(s.draw()); !strings.Contains(drawn, "connection refused") {
		t.Errorf("nothing says why:\n%s", drawn)
	}
	s.Update(looked{look(d.config())})
	if got := head(); strings.Contains(got, "since") || !strings.Contains(got, "at 0") {
		t.Errorf("it is there again, and the head is %q", got)
	}
	// A server that takes a question and never answers is gone as well.
	s.Update(stirred{})
	d.now = d.now.Add(answerMax + time.Second)
	if got := head(); !strings.HasSuffix(got, "no answer since 09:02:00, trying") {
		t.Errorf("without an answer the head is %q", got)
	}
}

func TestAFilterOfTheListLeavesTheOpenedThreadWhole(t *testing.T) {
	d := newDesk(t)
	d.join(alice, "", "")
	d.join(bob, "", "")
	thread := d.send(alice, ops.SendRequest{To: bob, Body: []byte("The release notes.\nTheir second line.")})
	s := newScreen(t.Context(), d.config())
	s.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	s.Update(looked{look(d.config())})
	pressed(s, []rune("/release")...)
	pressed(s, tea.KeyEnter, tea.KeyEnter)
	s.Update(readInto{readThread(d.config(), thread)})
	drawn := func() string { return ansi.Strip(s.draw()) }
	if got := drawn(); !strings.Contains(got, "Their second line.") || strings.Contains(got, "only with") {
		t.Errorf("the thread is\n%s", got)
	}
	// It has one of its own, which goes with it.
	pressed(s, []rune("/second")...)
	pressed(s, tea.KeyEnter)
	if got := drawn(); !strings.Contains(got, "Their second line.") || strings.Contains(got, "release notes") || !strings.Contains(got, "only with “second”") {
		t.Errorf("the thread's lines are\n%s", got)
	}
	pressed(s, tea.KeyEscape)
	if got := drawn(); !strings.Contains(got, "release notes") {
		t.Errorf("all lines again are\n%s", got)
	}
	pressed(s, tea.KeyEscape)
	if got := drawn(); !strings.Contains(got, "only with “release”") {
		t.Errorf("back in the list it is\n%s", got)
	}
}

func TestTheWidthOfAPictureIsThatOfItsReader(t *testing.T) {
	for columns, want := range map[string]int{"": 100, "80": 80, "3": 100, "many": 100, "999999": 100} {
		if got := Width(func(string) string { return columns }); got != want {
			t.Errorf("with COLUMNS=%q it is %d", columns, got)
		}
	}
}
