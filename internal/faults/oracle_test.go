//go:build faults && linux

package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// history is what the world outside knows of a ledger: what it asked for, what
// it was answered, and what was printed into its contexts. It shares nothing
// with the ledger.
type history struct {
	sends    map[events.CommandID]*asked // every send that was tried
	leases   map[events.LeaseID]bool     // whose opening was acknowledged
	confirms map[events.LeaseID]bool     // that were acknowledged
	deletes  map[events.MessageID]bool   // that were tried; true: acknowledged
	printed  []shown
}

// asked is one send.
type asked struct {
	body     string
	position events.Position // of its receipt; 0: no answer came
	refused  bool            // it was told that nothing was recorded
}

func newHistory() *history {
	return &history{
		sends: map[events.CommandID]*asked{}, leases: map[events.LeaseID]bool{},
		confirms: map[events.LeaseID]bool{}, deletes: map[events.MessageID]bool{},
	}
}

func (h *history) try(id events.CommandID, body string) *asked {
	if h.sends[id] == nil {
		h.sends[id] = &asked{body: body}
	}
	return h.sends[id]
}

// acknowledged counts the answers.
func (h *history) acknowledged() (n int) {
	for _, s := range h.sends {
		if s.position > 0 {
			n++
		}
	}
	return n + len(h.leases) + len(h.confirms)
}

// verdict is what the oracle says.
type verdict struct {
	wrong   []string // what must never be
	lost    int      // acknowledged, and not there
	unheard int      // recorded, and never acknowledged: the test is alive
	events  events.Position
	// confirmed are the messages that were confirmed, and the sessions whose
	// instruction was.
	confirmed map[string]bool
}

func (v *verdict) say(format string, args ...any) {
	if len(v.wrong) < 20 {
		v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
	}
}

// missing notes that something acknowledged is not there.
func (v *verdict) missing(format string, args ...any) {
	v.lost++
	v.say(format, args...)
}

// judge is the oracle, after any fault: it opens the ledger as the next process
// would, and compares it with the history.
func (h *history) judge(t testing.TB, path string, options ...sqlite.Option) (v verdict) {
	t.Helper()
	v.confirmed = map[string]bool{}
	l, err := sqlite.Open(path, projections.Project, options...)
	if err != nil {
		v.say("the ledger does not open: %v", err)
		v.lost = h.acknowledged()
		return v
	}
	defer l.Close()
	if audited, err := (&ops.Ops{Ledger: l}).Verify(); err != nil || !audited.OK {
		v.say("verify: %+v %v", audited, err)
	}
	if err := l.View(func(r events.Reader) error { return h.compare(r, &v, filepath.Dir(path)) }); err != nil {
		v.say("read the ledger: %v", err)
	}
	return v
}

// holds is judge for a ledger with which all must be well.
func (h *history) holds(t testing.TB, path, when string, options ...sqlite.Option) verdict {
	t.Helper()
	v := h.judge(t, path, options...)
	if len(v.wrong) > 0 {
		t.Fatalf("%s: %d acknowledged are lost\n%s", when, v.lost, strings.Join(v.wrong, "\n"))
	}
	return v
}

// settle asks again for every send to which no answer came, as its sender would,
// and twice: the same command is answered alike, whether it had been recorded
// or is now.
func (h *history) settle(t testing.TB, path string, now time.Time) (settled int) {
	t.Helper()
	m := newMachineAt(t, path)
	m.at(now)
	for id, s := range h.sends {
		if s.position > 0 {
			continue
		}
		sender, _, _ := strings.Cut(s.body, " ")
		var answers [2]ran
		for n := range answers {
			answers[n] = m.run("", "--json", "send", "--as", "worker-"+sender, "--to", hub, "--command", string(id), "--", s.body)
		}
		if answers[0].code != 0 || string(answers[0].stdout) != string(answers[1].stdout) {
			t.Fatalf("command %s was asked again and answered %s\nand then %s", id, answers[0], answers[1])
		}
		s.position, s.refused = answers[0].answer().Receipt.Position, false
		settled++
	}
	h.holds(t, path, "after all commands without an answer were asked again")
	return settled
}

func (h *history) compare(r events.Reader, v *verdict, folder string) error {
	all, err := r.All(1, 1_000_000)
	if err != nil {
		return err
	}
	v.events = events.Position(len(all))
	h.places(all, v)
	if err := h.recorded(r, all, v); err != nil {
		return err
	}
	h.deliveries(all, v)
	if err := rebuilt(r, all, v); err != nil {
		return err
	}
	return bellsRing(r, v, folder)
}

// places says that positions and revisions have no gaps and no event is there twice.
func (h *history) places(all []events.Recorded, v *verdict) {
	heads, ids := map[events.Stream]events.Revision{}, map[events.EventID]bool{}
	for i, e := range all {
		if e.Position != events.Position(i+1) {
			v.say("the event after position %d has position %d", i, e.Position)
		}
		if want := heads[e.Stream]; e.Revision != want {
			v.say("position %d has revision %d of %s, want %d", e.Position, e.Revision, e.Stream, want)
		}
		heads[e.Stream] = e.Revision + 1
		if ids[e.ID] {
			v.say("event %s is there twice", e.ID)
		}
		ids[e.ID] = true
	}
}

// recorded says that every acknowledged command is there exactly once, and that
// nothing is there that nobody asked for.
func (h *history) recorded(r events.Reader, all []events.Recorded, v *verdict) error {
	sent := map[events.CommandID]events.Position{}
	leases, confirms, deletes := map[events.LeaseID]int{}, map[events.LeaseID]int{}, map[events.MessageID]int{}
	for _, e := range all {
		switch ev := e.Event.(type) {
		case events.MessageSent:
			id := e.Cause.Command
			if sent[id] != 0 {
				v.say("command %s is recorded at %d and at %d", id, sent[id], e.Position)
			}
			sent[id] = e.Position
			if h.sends[id] == nil {
				v.say("position %d holds a message that nobody sent", e.Position)
				continue
			}
			body, there, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			_, taken := h.deletes[ev.Message]
			if (there || !taken) && string(body.Text) != h.sends[id].body {
				v.say("command %s has the body %.40q, want %.40q", id, body.Text, h.sends[id].body)
			}
		case events.MailboxLeased:
			leases[ev.Lease]++
		case events.MailboxConfirmed:
			confirms[ev.Lease]++
		case events.InstructionLeased:
			leases[ev.Lease] += 0
		case events.MessageDeleted:
			deletes[ev.Message]++
		}
	}
	for id, s := range h.sends {
		switch {
		case s.position != 0 && sent[id] == 0:
			v.missing("command %s was acknowledged at position %d and is lost", id, s.position)
		case s.position != 0 && sent[id] != s.position:
			v.say("command %s was acknowledged at position %d and is at %d", id, s.position, sent[id])
		case s.position == 0 && sent[id] != 0:
			v.unheard++
			if s.refused {
				v.say("command %s was told that nothing was recorded, and is at %d", id, sent[id])
			}
		}
	}
	for id := range h.leases {
		if leases[id] != 1 {
			v.missing("lease %s was acknowledged and is there %d times", id, leases[id])
		}
	}
	for id := range h.confirms {
		if confirms[id] != 1 {
			v.missing("the confirm of lease %s was acknowledged and is there %d times", id, confirms[id])
		}
	}
	for id, acknowledged := range h.deletes {
		if n := deletes[id]; acknowledged && n != 1 || n > 1 {
			v.missing("the deletion of message %s is there %d times", id, n)
		}
	}
	return nil
}

// item is what can be offered to a mailbox.
type item struct {
	mailbox events.Participant
	kind    events.ItemKind
	message events.MessageID
	to      events.Participant
}

// deliveries says that no mailbox ever had two live leases, that nothing was
// confirmed twice, that no attempt number was used twice, and that what was
// printed had been leased, and what was leased had been sent.
func (h *history) deliveries(all []events.Recorded, v *verdict) {
	sent := map[events.MessageID]bool{}
	live := map[events.Participant]events.LeaseID{} // neither confirmed nor seen to have ended
	attempts, confirmed := map[item]int{}, map[item]bool{}
	offered := map[shown]bool{}
	// What a session took out of the mailbox of a seat or a person is that one's
	// item still, whoever is offered it.
	type took struct {
		session events.Participant
		message events.MessageID
	}
	taken := map[took]events.Participant{}
	of := func(mailbox events.Participant, it events.Leased) item {
		if shared := taken[took{mailbox, it.Message}]; shared != "" && it.Kind == events.ItemMessage {
			mailbox = shared
		}
		return item{mailbox, it.Kind, it.Message, it.To}
	}
	for _, e := range all {
		switch ev := e.Event.(type) {
		case events.MessageSent:
			sent[ev.Message] = true
		case events.MailboxTaken:
			for _, it := range ev.Items {
				if confirmed[item{mailbox: ev.Mailbox, kind: events.ItemMessage, message: it.Message}] {
					v.say("position %d: %s takes message %s out of %s, which was confirmed", e.Position, ev.Session, it.Message, ev.Mailbox)
				}
				taken[took{events.Participant(ev.Session), it.Message}] = ev.Mailbox
			}
		case events.MailboxReturned:
			for _, it := range ev.Items {
				delete(taken, took{events.Participant(ev.Session), it.Message})
			}
		case events.InstructionLeased:
			if l := live[ev.Mailbox]; l != "" && l != ev.Lease {
				v.say("position %d: %s has the leases %s and %s at once", e.Position, ev.Mailbox, l, ev.Lease)
			}
			live[ev.Mailbox] = ev.Lease
		case events.MailboxLeased:
			if l := live[ev.Mailbox]; l != "" && l != ev.Lease {
				v.say("position %d: %s has the leases %s and %s at once", e.Position, ev.Mailbox, l, ev.Lease)
			}
			live[ev.Mailbox] = ev.Lease
			for _, it := range ev.Items {
				if !sent[it.Message] {
					v.say("position %d leases message %s, which was not sent", e.Position, it.Message)
				}
				k := of(ev.Mailbox, it)
				if it.Attempt != attempts[k]+1 {
					v.say("position %d: attempt %d of %v follows attempt %d", e.Position, it.Attempt, k, attempts[k])
				}
				if confirmed[k] {
					v.say("position %d leases %v, which was confirmed", e.Position, k)
				}
				attempts[k] = it.Attempt
				if it.Kind == events.ItemMessage {
					offered[shown{it.Message, it.Attempt}] = true
				}
			}
		case events.LeaseExpired:
			if live[ev.Mailbox] == ev.Lease {
				live[ev.Mailbox] = ""
			}
		case events.InstructionConfirmed:
			v.confirmed[string(ev.Mailbox)] = true
			if live[ev.Mailbox] == ev.Lease {
				live[ev.Mailbox] = ""
			}
		case events.MailboxConfirmed:
			if live[ev.Mailbox] == ev.Lease {
				live[ev.Mailbox] = ""
			}
			for _, it := range ev.Items {
				k := of(ev.Mailbox, it)
				if confirmed[k] {
					v.say("position %d confirms %v a second time", e.Position, k)
				}
				if it.Attempt != attempts[k] {
					v.say("position %d confirms attempt %d of %v, and attempt %d was leased", e.Position, it.Attempt, k, attempts[k])
				}
				confirmed[k] = true
				v.confirmed[string(it.Message)] = true
			}
		}
	}
	seen := map[shown]bool{}
	for _, s := range h.printed {
		if !offered[s] {
			v.say("attempt %d of message %s was printed and is not leased", s.attempt, s.message)
		}
		if seen[s] {
			v.say("attempt %d of message %s was printed twice", s.attempt, s.message)
		}
		seen[s] = true
	}
}

// rebuilt says that the views are, byte for byte, what the events make of them.
func rebuilt(r events.Reader, all []events.Recorded, v *verdict) error {
	fresh := rows.New()
	s := projections.On(fresh)
	for _, e := range all {
		s.Apply(e)
	}
	if err := s.Flush(); err != nil {
		return err
	}
	want, err := dump(fresh)
	if err != nil {
		return err
	}
	got, err := dump(r.Rows())
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		v.say("the views have %d rows, and their rebuild %d others", len(got), len(want))
	}
	return nil
}

func dump(from events.Rows) (all []string, err error) {
	err = from.Scan("", "", false, func(k string, value []byte) bool {
		all = append(all, k+" = "+string(bytes.Clone(value)))
		return true
	})
	return all, err
}

// bellsRing says that no bell is silent for a message that waits.
func bellsRing(r events.Reader, v *verdict, folder string) error {
	s := projections.On(r.Rows())
	for _, row := range s.LiveSessions() {
		waits := false
		who := events.Participant(row.ID)
		s.Queue(who, func(projections.Queued) bool { waits = true; return false })
		silence, err := os.Lstat(filepath.Join(folder, "bells", bell.Name(string(row.ID))))
		if waits && err == nil && !silence.ModTime().Equal(time.Unix(0, 0)) {
			v.say("something waits for %s, and its bell is silent until %s", row.ID, silence.ModTime())
		}
	}
	return s.Err()
}
