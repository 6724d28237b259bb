package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// The bounds of a thread's page.
const (
	EntriesShownMax = 400  // of the timeline, the latest; the rest on demand
	TicksMax        = 300  // of the scrubber's track
	StepsMax        = 5000 // events of a thread that the scrubber knows
)

// threadPage is a thread as of a moment, and the scrubber that moves the moment.
type threadPage struct {
	projections.ThreadView
	Title   string
	Why     []projections.Because
	Amend   *projections.Amend
	Entries []entry
	Hidden  int    // entries before those shown
	All     string // the address that shows them too
	Scrub   scrub
	Forms   forms
}

// scrub is where the page stands among the events of the thread.
type scrub struct {
	Replay    bool // the page is as of a moment; else it is of now
	Index     int  // of the step that it stands at
	Count     int
	Here      step
	Prev      events.Position // 0: there is none
	Next      events.Position
	First     events.Position
	Ticks     []tick
	Positions string // of all steps, for the script
	Cut       bool   // there are more events than StepsMax
}

// tick is a step's mark on the track, or that of several that lie too close.
type tick struct {
	At    events.Position
	X, W  string // of a track that is 1000 wide
	Class string
	Says  string
	Ahead bool // it lies after the moment that the page shows
	Here  bool
}

// forms are what the viewer can do in the thread; the zero value is nothing.
type forms struct {
	Speaks   bool             // it may have a word in the thread
	Write    events.CommandID // empty: nobody may, the thread is done
	ReplyTo  events.MessageID
	Answers  *projections.ShownInThread // the message that would be answered
	Stickers []stickerForm
	Handoffs []handoffForm
	Owed     []owedItem
	Acks     map[events.MessageID]events.CommandID
}

type stickerForm struct {
	Seat    string
	Places  bool
	Lies    bool // and may be taken off
	Command events.CommandID
}

type handoffForm struct {
	projections.HandoffShown
	Command events.CommandID
	Open    bool // it is offered, and not answered
	Mine    bool // it is offered to the viewer's seat, which answers
	Moves   bool // the viewer may move the thread there all the same
	Ends    bool // the viewer may end it
}

// thread shows a thread, as of now or, with at, as of then.
func (v *visit) thread() error {
	return v.threadPage(http.StatusOK, v.r.PathValue("id"), v.query("at"))
}

func (v *visit) threadPage(status int, id, at string) error {
	view, refused, err := v.desk.Thread(ops.ThreadRequest{ID: id, At: at})
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	if string(view.Thread) != id && v.r.Method == http.MethodGet {
		to := url.URL{Path: "/threads/" + string(view.Thread), RawQuery: v.r.URL.RawQuery}
		http.Redirect(v.w, v.r, to.String(), http.StatusSeeOther)
		return nil
	}
	driver, refused, err := v.desk.Driver(ops.DriverRequest{ID: string(view.Thread), At: at})
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuse(refused.Status, refused)
	}
	recorded, cut, err := v.eventsOf(view.Thread)
	if err != nil {
		return err
	}
	p := threadPage{ThreadView: view, Why: driver.Why, Amend: driver.Amend}
	moment := events.Position(0)
	if at != "" {
		moment = view.At
	}
	t := tell(view, recorded, moment)
	p.Entries = t.Entries
	if len(p.Entries) > EntriesShownMax && v.query("all") == "" {
		p.Hidden = len(p.Entries) - EntriesShownMax
		p.Entries, p.All = p.Entries[p.Hidden:], v.with("all", "1")
	}
	p.Scrub = scrubOf(t.Steps, moment)
	p.Scrub.Cut = cut
	if moment == 0 && v.Acts() {
		p.Forms = v.forms(view)
	}
	if moment != 0 && view.Time != nil {
		v.Now = *view.Time // ages are as they were
	}
	for _, m := range view.Messages {
		if m.ID == view.Root {
			p.Title = headline(m.Shown)
		}
	}
	if p.Title == "" {
		p.Title = "Thread " + short(view.Thread)
	}
	v.Title, v.Nav = p.Title, "threads"
	v.render(status, "thread", p)
	return nil
}

// headline is a message in a line.
func headline(m projections.Shown) string {
	switch {
	case m.Preview != "":
		return m.Preview
	case m.Redacted:
		return "The text is gone"
	}
	return "Thread " + short(m.Thread)
}

// eventsOf reads the events that name a thread.
func (v *visit) eventsOf(id events.ThreadID) (found []events.Recorded, cut bool, err error) {
	_, refused, err := v.desk.Events(ops.EventsRequest{Thread: string(id)}, func(r events.Recorded) error {
		if len(found) == StepsMax {
			cut = true
			return errEnough
		}
		found = append(found, r)
		return nil
	})
	if cut {
		return found, cut, nil
	}
	return found, cut, failure(refused, err)
}

// errEnough ends a reading of events.
var errEnough = errors.New("enough was read")

// scrubOf places a moment among the steps; 0 is now.
func scrubOf(steps []step, at events.Position) scrub {
	s := scrub{Replay: at != 0, Count: len(steps)}
	if len(steps) == 0 {
		return s
	}
	s.First, s.Index = steps[0].Position, len(steps)-1
	if at != 0 {
		s.Index = max(0, sort.Search(len(steps), func(i int) bool { return steps[i].Position > at })-1)
	}
	s.Here = steps[s.Index]
	if s.Index > 0 {
		s.Prev = steps[s.Index-1].Position
	}
	if s.Index+1 < len(steps) {
		s.Next = steps[s.Index+1].Position
	}
	var all strings.Builder
	for i, st := range steps {
		if i > 0 {
			all.WriteByte(' ')
		}
		all.WriteString(strconv.FormatInt(int64(st.Position), 10))
	}
	s.Positions = all.String()
	s.Ticks = ticks(steps, s.Index)
	return s
}

// weights order what a tick shows of several steps: what tells most wins.
var weights = map[string]int{"delivery": 0, "small": 1, "message": 2, "owing": 3, "driving": 4, "done": 5, "lost": 6, "refused": 7}

// ticks are the marks of the track: one for each step, or one for several where
// there are more than the eye can tell apart.
func ticks(steps []step, here int) (found []tick) {
	n := min(len(steps), TicksMax)
	slot := 1000 / float64(n)
	width := min(slot*0.62, 9)
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	for i := range n {
		from, to := i*len(steps)/n, (i+1)*len(steps)/n
		best := from
		for j := from; j < to; j++ {
			if weights[steps[j].Class] > weights[steps[best].Class] {
				best = j
			}
		}
		st := steps[best]
		found = append(found, tick{
			At: st.Position, X: f(slot*(float64(i)+0.5) - width/2), W: f(width), Class: st.Class, Says: clock(st.Time) + "  " + st.Says,
			Ahead: from > here, Here: from <= here && here < to,
		})
	}
	return found
}

// forms are what the viewer can do in a thread: only what may succeed. Whether it
// does, the commands say.
func (v *visit) forms(view projections.ThreadView) forms {
	f := forms{Acks: map[events.MessageID]events.CommandID{}}
	if v.speaks(view) {
		f.Speaks = true
		v.answering(&f, view)
	}
	f.Stickers = v.stickers(view)
	for _, h := range view.Handoffs {
		form := handoffForm{HandoffShown: h, Command: v.command(), Open: h.State == projections.HandoffIsOffered}
		if !form.Open && h.State != projections.HandoffIsAccepted {
			continue
		}
		form.Mine = form.Open && v.Seat != "" && v.Seat == h.To
		form.Moves = form.Open && v.IsPerson()
		form.Ends = v.IsPerson() || v.Seat != "" && (v.Seat == h.From || v.Seat == h.To && !form.Open)
		for _, o := range view.Owed {
			form.Ends = form.Ends || !form.Open && o.ID == string(h.ID) && v.Seat != "" && o.Debtor == events.Named(v.Seat)
		}
		if form.Mine || form.Moves || form.Ends {
			f.Handoffs = append(f.Handoffs, form)
		}
	}
	if v.closes() {
		for _, o := range view.Owed {
			f.Owed = append(f.Owed, owedItem{OwedShown: o, Command: v.command()})
		}
	}
	return f
}

// speaks says whether the viewer may have a word in a thread: a person, a seat of
// the roster, or who takes part.
func (v *visit) speaks(view projections.ThreadView) bool {
	if _, known := v.Roster.marks[v.Seat]; known || v.IsPerson() || slices.ContainsFunc(view.Participants, v.means) {
		return true
	}
	return slices.ContainsFunc(view.Messages, v.reached)
}

// means says whether a participant is the viewer, or the seat that it acts on.
func (v *visit) means(p events.Participant) bool {
	return p != "" && (p == v.Viewer.Name || p == v.Actor || v.Seat != "" && p == events.Named(v.Seat))
}

// reached says whether a message was addressed to the viewer, or delivered to it.
func (v *visit) reached(m projections.ShownInThread) bool {
	return v.means(m.To) || slices.ContainsFunc(m.Deliveries, func(d projections.DeliveryShown) bool { return d.To == v.Actor })
}

// answering finds out which message a word of the viewer's would answer: the chosen
// one, else the newest that came to the viewer, else the root.
func (v *visit) answering(f *forms, view projections.ThreadView) {
	if view.State != "done" {
		f.Write, f.ReplyTo = v.command(), view.Root
	}
	reply := v.query("reply")
	if t := v.Trouble; t != nil && t.Where == "write" {
		reply = t.Typed("reply_to") // the form carries it again
	}
	var root, mine, chosen *projections.ShownInThread
	for i := range view.Messages {
		m := &view.Messages[i]
		if m.Deleted != nil || m.Kind == events.KindCard {
			continue
		}
		own := v.means(m.From)
		if !own {
			f.Acks[m.ID] = v.command()
		}
		if m.ID == view.Root {
			root = m
		}
		if !own && v.reached(*m) {
			mine = m
		}
		if reply == string(m.ID) {
			chosen = m
		}
	}
	if f.Answers = cmp.Or(chosen, mine, root); f.Answers != nil && f.Write != "" {
		f.ReplyTo = f.Answers.ID
	}
}

// stickers are the marks that the viewer may place, or take off: a person any but
// another person's, a seat its own while it drives.
func (v *visit) stickers(view projections.ThreadView) (all []stickerForm) {
	for _, seat := range v.Seats() {
		form := stickerForm{Seat: seat, Places: v.IsPerson(), Command: v.command()}
		if seat == v.Seat {
			form.Places = view.Driver.Seat != nil && *view.Driver.Seat == seat
		}
		for _, s := range view.Stickers {
			switch {
			case s.Seat != seat:
			case v.IsPerson():
				form.Lies = form.Lies || s.By == v.Actor || s.Hand != events.HandPerson || !v.Roster.names[s.By.Name()]
			default:
				form.Lies = form.Lies || seat == v.Seat && s.Hand == events.HandSeat && v.means(s.By)
			}
		}
		if form.Places || form.Lies {
			all = append(all, form)
		}
	}
	return all
}
