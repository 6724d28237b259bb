package dashboard

import (
	"bytes"
	"crypto/hmac"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// visit is one request for a page.
type visit struct {
	*dashboard
	w      http.ResponseWriter
	r      *http.Request
	desk   Desk
	policy events.Policy // in force
	page
}

// page is what every page knows.
type page struct {
	Title     string
	Nav       string // which of the pages of the bar it is
	Theme     string // light or dark; empty: as the system has it
	Path      string // the address that was asked for
	Viewer    Viewer
	Actor     events.Participant // whom the viewer's commands come from: of a seat, its occupant; empty: nobody can act
	Seat      string             // that the viewer acts on
	FormToken string
	End       events.Position // of the ledger when the page was made
	Now       events.Time
	BeatMS    int64 // how long a live stream is silent at most
	Roster    roster
	Sits      map[events.SessionID]string // the seats that sessions occupy
	Health    projections.HealthView
	Did       string   // what a command before this page did; empty: nothing
	Trouble   *trouble // a command that was refused
	Body      any      // what the page is about
}

// trouble is a command that was refused, and what had been asked for.
type trouble struct {
	Where   string // the form: write, sticker, ack, handoff, owed or new
	About   string // the id that the form was about
	Refusal *commands.Refusal
	Values  map[string]string // as they were typed
	shown   bool              // beside its form
}

// surroundings reads what every page needs of the ledger.
func (v *visit) surroundings() (err error) {
	if v.End, err = v.desk.End(); err != nil {
		return err
	}
	inForce, err := v.desk.Policy()
	if err != nil {
		return err
	}
	v.policy, v.Roster = inForce.Policy, rosterOf(inForce.Policy)
	health, refused, err := v.desk.Health(ops.HealthRequest{})
	if err != nil || refused != nil {
		return failure(refused, err)
	}
	v.Health = health
	if v.Sits, err = v.sitting.at(v.End, v.desk); err != nil {
		return err
	}
	v.Seat, v.Actor = v.Sits[v.Viewer.Name.Session()], v.Viewer.Name
	name, occupant := v.Viewer.Name.Name(), events.Participant("")
	for session, seat := range v.Sits {
		if seat == name {
			occupant = events.Participant(session)
		}
	}
	switch {
	case v.Roster.seat(v.Viewer.Name), len(v.Roster.order) == 0 && occupant != "":
		v.Seat, v.Actor = name, occupant
	case bot(v.Viewer.Name):
		v.Actor = ""
	}
	v.Did = did(v.r.URL.Query().Get("did"))
	return nil
}

// sitting remembers who sits where, which every page shows and which is read from
// all mailboxes: once for each position of the ledger.
type sitting struct {
	mu    sync.Mutex
	end   events.Position
	seats map[events.SessionID]string
}

func (s *sitting) at(end events.Position, desk Desk) (map[events.SessionID]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seats != nil && s.end == end {
		return s.seats, nil
	}
	boxes, refused, err := desk.Mailboxes(ops.MailboxesRequest{})
	if err != nil || refused != nil {
		return nil, failure(refused, err)
	}
	s.end, s.seats = end, map[events.SessionID]string{} // a new one: pages still read the old
	for _, seat := range boxes.Seats {
		if seat.Occupant != "" {
			s.seats[seat.Occupant] = seat.Seat
		}
	}
	return s.seats, nil
}

// failure is a refusal where none is to be expected, as an error.
func failure(r *commands.Refusal, err error) error {
	if err == nil && r != nil {
		err = fmt.Errorf("%s: %s", r.Code, r.Message)
	}
	return err
}

// mayPost says whether a form may be acted on; where not, it has answered.
func (v *visit) mayPost() bool {
	if err := v.r.ParseForm(); err != nil {
		v.refuse(http.StatusBadRequest, commands.Refuse(commands.BadRequest, "the form cannot be read, or holds more than %d bytes", FormBytesMax))
		return false
	}
	switch {
	case !v.Viewer.MayWrite:
		r := commands.Refuse(commands.PersonOnly, "this token may only read").
			Better("open the dashboard with a token that may write", "decklog token create --for @NAME --scope write")
		v.refuse(http.StatusForbidden, r)
		return false
	case !hmac.Equal([]byte(v.r.PostFormValue("form")), []byte(v.FormToken)):
		v.refuse(http.StatusForbidden, commands.Refuse(commands.BadRequest, "this form is of another session of the dashboard, and nothing was sent").
			Better("go back, load the page again and send the form from there", "decklog serve"))
		return false
	}
	return true
}

// render writes a page. What goes wrong while it is made is no half page.
func (v *visit) render(status int, name string, body any) {
	v.Body = body
	var b bytes.Buffer
	if err := v.pages[name].ExecuteTemplate(&b, "frame", v.page); err != nil {
		v.failed(v.r, fmt.Errorf("write the page %s: %w", name, err))
		http.Error(v.w, "The page could not be written.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // a browser that went away needs no answer
}

// broken says that the machine failed, and nobody was refused.
func (v *visit) broken(err error) {
	v.failed(v.r, err)
	v.Title = "It failed"
	v.render(http.StatusInternalServerError, "trouble", troublePage{Failed: true})
}

// refuse is a page that holds nothing but a refusal.
func (v *visit) refuse(status int, r *commands.Refusal) error {
	v.Title = "Refused"
	v.render(status, "trouble", troublePage{Refusal: r})
	return nil
}

type troublePage struct {
	Failed  bool
	Refusal *commands.Refusal
	Nowhere string // why there is no page
	Method  string // that was asked with
}

func (v *visit) nowhere(status int) error {
	v.Title = nothingLies(status)
	v.render(status, "trouble", troublePage{Nowhere: v.Title, Method: v.r.Method})
	return nil
}

// nothingLies says why a path is answered with a status that is not 200.
func nothingLies(status int) string {
	if status == http.StatusMethodNotAllowed {
		return "This page does not take that"
	}
	return "No such page"
}

func (v *visit) keys() error {
	v.Title = "Keys"
	v.render(http.StatusOK, "keys", nil)
	return nil
}

// query is a value of the address, without what surrounds it.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// who is a participant as a page shows it.
type who struct {
	Text string
	Full string
	Mark *mark // of its seat
	ID   bool  // the text is the beginning of an id
	You  bool
}

// Who shows a participant: a seat by its mark and name, a session by the seat that
// it occupies now, else by the beginning of its id.
func (p page) Who(of events.Participant) who {
	return p.WhoOn(of, p.Sits[of.Session()])
}

// WhoOn shows a participant that occupied a seat when it acted.
func (p page) WhoOn(of events.Participant, seat string) who {
	w := who{Text: string(of), Full: string(of)}
	if of == "" {
		w.Text = "this machine"
	}
	if p.Roster.seat(of) {
		seat = of.Name()
	}
	switch {
	case seat != "":
		m := p.Roster.of(seat)
		w.Mark, w.Text = &m, "@"+seat
		if of.Session() != "" {
			w.Full = "@" + seat + ": " + w.Full
		}
	case of.Session() != "":
		w.Text, w.ID = short(of), true
	}
	w.You = of == p.Viewer.Name && of != ""
	return w
}

// People shows participants, each once: a seat and the session on it are one.
func (p page) People(all []events.Participant) (people []who) {
	seen := map[string]bool{}
	for _, of := range all {
		if w := p.Who(of); !seen[w.Text] {
			seen[w.Text] = true
			people = append(people, w)
		}
	}
	return people
}

// Acts says whether the viewer can do anything here: a bot sends nothing but alerts,
// and a seat that nobody occupies does nothing.
func (p page) Acts() bool { return p.Viewer.MayWrite && p.Actor != "" }

// Idle says why a viewer who may write can do nothing here; empty: it can.
func (p page) Idle() string {
	switch {
	case !p.Viewer.MayWrite || p.Acts():
		return ""
	case bot(p.Viewer.Name):
		return "a bot sends nothing but alerts"
	}
	return "nobody sits on the seat " + p.Seat + " now"
}

func bot(p events.Participant) bool { return strings.HasPrefix(string(p), "bot:") }

// IsPerson says whether the viewer is a person.
func (p page) IsPerson() bool { return p.Actor.Name() != "" }

// term is something in words, and how decklog calls it.
type term struct{ Says, Term string }

// Source says by which rule somebody drives, and by which of its cases.
func (p page) Source(d projections.DriverShown) term {
	if d.Source == nil {
		return term{}
	}
	if d.Detail == nil || *d.Detail == *d.Source || *d.Detail == "" {
		return term{sourceSays(*d.Source, ""), *d.Source}
	}
	return term{sourceSays(*d.Source, *d.Detail), *d.Source + ", " + *d.Detail}
}

// Mark is a seat's mark.
func (p page) Mark(seat string) mark { return p.Roster.of(seat) }

// Seats are the seats of the roster, in their order.
func (p page) Seats() []string { return p.Roster.order }

// Command is an id for a form, so that sending it twice is sending it once.
func (v *visit) command() events.CommandID { return v.desk.NewCommand() }

// age is a moment as a page shows it: how long ago, and when exactly.
type age struct{ ISO, Exact, Text string }

// Age shows how long ago a moment was.
func (p page) Age(t events.Time) age {
	return age{ISO: t.String(), Exact: exact(t), Text: ago(p.Now.Sub(t))}
}

// Due shows when something is due, or for how long it has been.
func (p page) Due(t events.Time) string { return due(t, p.Now) }

// Left says how long something is still waited for.
func (p page) Left(until events.Time) string {
	if d := until.Sub(p.Now); d > 0 {
		return ago(d) + " left"
	}
	return "given up"
}

// Over says whether a moment is past.
func (p page) Over(t *events.Time) bool { return t != nil && *t <= p.Now }

// MS is how old something is that is so many milliseconds old.
func (p page) MS(ms *int64) string {
	if ms == nil {
		return ""
	}
	return ago(time.Duration(*ms) * time.Millisecond)
}

// OwedOpen and OwedOver count the open items, and those that are due.
func (p page) OwedOpen() (n int) {
	for _, o := range p.Health.Owed {
		n += o.Open
	}
	return n
}

// OwedOver counts the items that are due.
func (p page) OwedOver() (n int) {
	for _, o := range p.Health.Owed {
		n += o.Overdue
	}
	return n
}

// On is the part of a trouble that a form shows: what was refused when it was sent.
func (p page) On(where, about string) *trouble {
	if p.Trouble != nil && p.Trouble.Where == where && p.Trouble.About == about {
		p.Trouble.shown = true
		return p.Trouble
	}
	return nil
}

// Alone is a trouble whose form is not on the page, such as that of an offer which
// somebody else has answered meanwhile.
func (p page) Alone() *trouble {
	if p.Trouble == nil || p.Trouble.shown {
		return nil
	}
	return p.Trouble
}

// Typed is what was typed into a field of a form that was refused.
func (t *trouble) Typed(field string) string {
	if t == nil {
		return ""
	}
	return t.Values[field]
}
