package ops_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/projections"
)

// history is a desk at which a crew of sessions and persons does whatever comes
// to be chosen, with a clock that jumps. What is chosen comes from below: rapid,
// which shrinks what fails, or a seed.
type history struct {
	*desk
	below  func(n int) int // a number from 0 to n-1
	pids   map[string]int  // the process that a session runs in; 0: none
	leases []ops.Offered
	sent   []commands.SendReceipt
	by     map[events.MessageID]string // who sent it
	repeat func() error                // the last send once more, by the same command
	echo   func() bool                 // the same message, by another command
	keen   bool                        // on driving, and less on talk
	silent map[events.SessionID]bool   // whose bells are silent until something happens
	offers []string                    // hand-offs
	asked  []string                    // reviews
	views  []seen                      // as they were shown live
	seen   events.Position             // up to where it was looked at what commands recorded
	heard  events.Position             // up to where the bells have rung
	log    []string
}

// The crew: two sessions of ana's, two of ben's, and one that joins by hand,
// without a process.
var (
	crew    = []string{"session-1-of-ana", "session-2-of-ana", "session-3-of-ben", "session-4-of-ben", "session-5-by-hand"}
	people  = []string{"@ana", "@ben"}
	offices = []string{"smith", "trinity", "oracle"}
	desks   = []string{"@smith", "@trinity", "@oracle"}
)

func newHistory(t rapid.TB, below func(int) int) *history {
	h := &history{
		desk: newDesk(t), below: below, pids: map[string]int{}, by: map[events.MessageID]string{}, silent: map[events.SessionID]bool{},
	}
	persons(h.desk)
	h.policy.Seats = seats(offices...)
	h.policy.Persons[0].Home = "smith"
	h.policy.Persons[0].Roles = []string{"owner"}
	h.policy.Areas = []events.Area{{Seat: "trinity", Priority: 1, Match: []string{"text 1", "text 2"}}, {Seat: "oracle", Priority: 2, Match: []string{"text 3"}}}
	h.policy.Alerts = []events.Alert{{Channel: "#alerts", Triager: "smith"}}
	l := &h.policy.Limits
	l.RecipientFull = []int{0, 2, 50}[below(3)]
	l.ThreadRate = []int{0, 3, 8}[below(3)]
	l.SessionRate = []int{0, 4, 30}[below(3)]
	l.DuplicateWindow = []events.Span{0, l.DuplicateWindow}[below(3)%2]
	h.keen = below(2) == 0
	for i := range crew {
		if below(5) > 0 {
			h.joinsAs(i, events.SourceStartup)
		}
	}
	return h
}

func one[T any](h *history, of ...T) T { return of[h.below(len(of))] }

func (h *history) did(format string, args ...any) {
	h.log = append(h.log, h.now.String()+" "+fmt.Sprintf(format, args...))
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

// steps does so many things, and looks after each whether a promise was broken.
func (h *history) steps(n int) {
	h.t.Helper()
	for range n {
		h.step()
	}
}

// act is something that may be chosen, the more often the greater its weight.
type act struct {
	weight int
	does   func() (refused bool)
}

func (h *history) step() {
	h.t.Helper()
	acts := []act{
		{6, h.joins}, {2, h.leaves}, {2, h.dies}, {14, h.sends}, {12, h.replies}, {8, h.edits}, {2, h.deletes}, {20, h.takesSome},
		{16, h.confirmsOne}, {6, h.finds}, {12, h.waits}, {2, h.jumps}, {2, h.again}, {5, h.echoes}, {3, h.neglects}, {2, h.stalls}, {1, h.rushes}, {1, h.looks}, {3, h.silences},
	}
	drives := 1
	if h.keen {
		drives = 4
	}
	for _, a := range h.driving() {
		a.weight *= drives
		acts = append(acts, a)
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	chosen := h.below(total)
	for _, a := range acts {
		if chosen -= a.weight; chosen < 0 {
			a.does()
			h.silence()
			h.shows()
			return
		}
	}
}

// unmoved: a refused command moves no thread, and no mailbox by itself; what was
// due is recorded whatever becomes of it.
func (h *history) unmoved(recorded []events.Recorded) {
	h.t.Helper()
	if len(recorded) == 0 {
		return // one of many within a minute
	}
	last := recorded[len(recorded)-1]
	if last.Type() != events.TypeCommandRefused {
		h.fail("a refused command recorded %s last", last.Type())
	}
	for _, r := range recorded {
		// Whoever looks records these: a reminder, and that an absent seat drives no more.
		due := slices.Contains([]events.Type{events.TypeOwedNudged, events.TypeOwedPaged, events.TypeReviewTimedOut, events.TypeDriverMoved}, r.Type())
		if strings.HasPrefix(string(r.Stream), "thread-") && !due || r.Cause.Command == last.Cause.Command && r.Type() != events.TypeCommandRefused {
			h.fail("a refused command recorded %s in %s", r.Type(), r.Stream)
		}
	}
}

// silence: a bell that is silent until something happens has nothing to ring for.
func (h *history) silence() {
	h.t.Helper()
	recorded := h.recorded(h.heard)
	h.see(func(s *projections.State) {
		for _, r := range recorded {
			h.heard = r.Position
			for _, id := range append(s.Stirs(r.Event), commands.Overseers(s, r.Event, h.policy)...) {
				delete(h.silent, id)
			}
		}
		for id := range h.silent {
			call := h.calls(string(id))
			offer := commands.Taking{Call: call, Who: call.Caller.ID}.Offer(s, h.now)
			own := h.policy
			own.Limits.AbsentAfter = 0 // which seats are absent is noticed by whoever runs next
			due := commands.Due(s, call, call.Caller.ID, h.now, own)
			if !offer.Empty() || len(due) > 0 {
				h.fail("the bell of %s is silent, and it could be offered %+v, or record %+v", id, offer, due)
			}
		}
	})
}

// calls is the envelope of a command of this session, with what the desk knows.
func (h *history) calls(session string) commands.Call {
	return commands.Call{
		Caller: commands.Caller{ID: events.Participant(session), Kind: events.KindSession}, Device: "deck", OSUser: "ana",
		Look: func(s *projections.Session) (o commands.Observation) {
			if s.Process != nil {
				o.Gone = h.dead[s.Process.PID]
			}
			if at, known := h.busy[s.ID]; known {
				o.Busy, o.Seen = true, &at
			}
			return o
		},
	}
}

// told says whether a command was refused, and fails when the machine did, or
// when the refused command moved anything.
func (h *history) told(what string, r *commands.Refusal, err error) (refused bool) {
	h.t.Helper()
	if err != nil {
		h.fail("%s: %v", what, err)
	}
	recorded := h.recorded(h.seen)
	h.seen += events.Position(len(recorded))
	if r != nil {
		h.did("  refused %s: %s", r.Code, r.Message)
		h.unmoved(recorded)
	}
	return r != nil
}

func (h *history) joins() bool {
	return h.joinsAs(h.below(len(crew)), one(h, events.SourceResume, events.SourceResume, events.SourceCompact, events.SourceCompact, events.SourceClear, events.SourceFork, events.SourceManual))
}

func (h *history) joinsAs(i int, source events.Source) bool {
	id := crew[i]
	h.World.OSUser = []string{"ana", "ana", "ben", "ben", "ana"}[i]
	if h.below(10) == 0 {
		h.World.OSUser = "ben"
	}
	q := ops.JoinRequest{Session: id, Harness: "codex", Repo: one(h, "/w/one", "/w/two"), Branch: "main", Source: source}
	if h.below(3) > 0 {
		if q.Seat = one(h, offices...); h.keen && source == events.SourceStartup {
			q.Seat = offices[i%3]
		}
	}
	if i != 4 {
		if pid := h.pids[id]; pid == 0 || h.dead[pid] {
			h.pids[id] = 100 + len(h.log)
		}
		if other := h.pids[one(h, crew[:4]...)]; q.Source == events.SourceClear && other != 0 && !h.dead[other] {
			h.pids[id] = other // in the process of another
		}
		q.Process = &events.Process{PID: h.pids[id], Start: 1, Boot: "boot"}
	}
	_, r, err := h.Join(q)
	h.did("%s joins by %s from process %d of %s, seat %q", id, q.Source, h.pids[id], h.World.OSUser, q.Seat)
	h.World.OSUser = "ana"
	return h.told("join", r, err)
}

func (h *history) leaves() bool {
	id := one(h, crew...)
	frees := h.below(3) == 0
	h.did("%s leaves, frees its seat %t", id, frees)
	_, r, err := h.Leave(ops.LeaveRequest{Session: id, Reason: events.EndLeft, FreesSeat: frees})
	return h.told("leave", r, err)
}

func (h *history) dies() bool {
	if pid := h.pids[one(h, crew...)]; pid != 0 {
		h.did("process %d dies", pid)
		h.dead[pid] = true
	}
	return false
}

// speaker is mostly a session that lives.
func (h *history) speaker() (who string) {
	if h.below(6) == 0 {
		return one(h, people...)
	}
	for range 3 {
		who = one(h, crew...)
		if h.lives(who) {
			break
		}
	}
	return who
}

func (h *history) lives(who string) (lives bool) {
	h.see(func(s *projections.State) {
		row := s.Session(events.SessionID(who))
		lives = row != nil && row.Left == nil && (row.Process == nil || !h.dead[row.Process.PID])
	})
	return lives
}

// debtor is mostly somebody for whom something waits.
func (h *history) debtor() (who string) {
	for range 4 {
		who = h.speaker()
		if waits, err := h.Waits(ops.LeaseRequest{Asker: ops.Asker{As: who}}); err == nil && waits {
			break
		}
	}
	return who
}

func (h *history) send(from string, q ops.SendRequest) bool {
	q.Body = []byte(fmt.Sprint("text ", h.below(12)))
	if h.below(6) < 1 || h.keen && h.below(2) == 0 {
		q.Body = fmt.Append(q.Body, one(h, " @smith", " @trinity", " @oracle", " @seats", " @trinity @oracle"))
	}
	q.Intent = one(h, "request", "request", "inform", "inform", "inform", "done")
	if h.below(4) == 0 {
		q.Turn = "working"
	}
	if h.below(6) == 0 {
		q.Key = fmt.Sprint("key ", h.below(3))
	}
	if h.below(3) == 0 {
		h.busy[events.SessionID(from)] = h.now
	}
	return h.carry(from, q)
}

func (h *history) carry(from string, q ops.SendRequest) bool {
	q.As, q.Command = from, h.NewCommand()
	receipt, r, err := h.Send(q)
	h.did("%s sends %s to %q in reply to %.8s, %s %s, key %q: %s", from, receipt.ID, q.To, q.ReplyTo, q.Intent, q.Turn, q.Key, receipt.State)
	if h.told("send", r, err) {
		return true
	}
	if h.by[receipt.ID] == "" {
		h.sent = append(h.sent, receipt)
		h.by[receipt.ID] = from
	}
	h.repeat = h.repeating(q, receipt)
	h.echo = func() bool { return h.carry(from, q) }
	return false
}

// repeating is the same send once more: it must get the same receipt.
func (h *history) repeating(q ops.SendRequest, first commands.SendReceipt) func() error {
	return func() error {
		again, r, err := h.Send(q)
		switch {
		case err != nil:
			return err
		case r != nil:
			return fmt.Errorf("refused %s: %s", r.Code, r.Message)
		case asJSON(again) != asJSON(first):
			return fmt.Errorf("the receipt is %s, and was %s", asJSON(again), asJSON(first))
		}
		return nil
	}
}

func (h *history) sends() bool {
	return h.send(h.speaker(), ops.SendRequest{To: one(h, append(slices.Concat(crew, crew, people, people), "@smith", "@smith", "@trinity", "@oracle", "session-1", "session-", "nobody-here")...)})
}

func (h *history) message() (commands.SendReceipt, bool) {
	if len(h.sent) == 0 {
		return commands.SendReceipt{}, false
	}
	recent := h.sent[max(0, len(h.sent)-6):]
	return one(h, recent...), true
}

func (h *history) replies() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.SendRequest{ReplyTo: string(m.ID)}
	if h.below(4) == 0 {
		q.To = one(h, append(slices.Clone(crew), "@ana", "@smith")...)
	}
	from := h.speaker()
	if to := m.To.ID.Session(); to != "" && h.below(3) > 0 { // mostly the one who was asked
		from = string(to)
	}
	return h.send(from, q)
}

func (h *history) edits() bool {
	m, any := h.message()
	if !any {
		return false
	}
	who := h.by[m.ID]
	if h.below(6) == 0 {
		who = h.speaker()
	}
	q := ops.EditRequest{Asker: ops.Asker{As: who}, Message: string(m.ID)}
	if h.below(2) == 0 {
		q.Body = []byte(fmt.Sprint("edited ", h.below(12)))
	}
	q.Turn = one(h, "final", "final", "", "working")
	h.did("%s edits %s, turn %q", who, m.ID, q.Turn)
	_, r, err := h.Edit(q)
	return h.told("edit", r, err)
}

func (h *history) deletes() bool {
	m, any := h.message()
	if !any {
		return false
	}
	who := h.by[m.ID]
	h.did("%s deletes %s", who, m.ID)
	_, r, err := h.Delete(ops.DeleteRequest{Asker: ops.Asker{As: who}, Message: string(m.ID)})
	return h.told("delete", r, err)
}

func (h *history) takesSome() bool {
	q := ops.LeaseRequest{Asker: ops.Asker{As: h.debtor()}, Stopping: h.below(8) == 0, Harness: "claude-code", Hook: "Stop"}
	if h.below(6) == 0 {
		q.Budget = 1500
	}
	return h.lease(q)
}

func (h *history) lease(q ops.LeaseRequest) bool {
	o, r, err := h.Lease(q)
	h.did("%s leases, stopping %t: %s %v and %d notices", q.As, q.Stopping, o.ID, ids(o), len(o.Notices))
	if o.ID != "" {
		h.leases = append(h.leases, o)
	}
	return h.told("lease", r, err)
}

// neglects is a harness whose hook runs print into a closed pipe.
func (h *history) neglects() bool {
	who := h.debtor()
	for range 1 + h.below(4) {
		if h.lease(ops.LeaseRequest{Asker: ops.Asker{As: who}}) {
			return true
		}
		h.after(10 * time.Second)
	}
	return false
}

// stalls is an answer that takes longer than anybody waits, and is made final
// before, after or while it is shown as a stub.
func (h *history) stalls() bool {
	from, to := h.speaker(), h.debtor()
	known := len(h.sent)
	if h.carry(from, ops.SendRequest{To: to, Turn: "working", Body: []byte(fmt.Sprint("looking ", len(h.log)))}) || len(h.sent) == known {
		return true
	}
	id := string(h.sent[known].ID)
	h.after(180 * time.Second)
	if h.lease(ops.LeaseRequest{Asker: ops.Asker{As: to}}) {
		return true
	}
	final := func() bool {
		_, r, err := h.Edit(ops.EditRequest{Asker: ops.Asker{As: from}, Message: id, Turn: "final"})
		h.did("%s makes %s final", from, id)
		return h.told("edit", r, err)
	}
	first := h.below(2) == 0
	if first && final() {
		return true
	}
	if h.below(3) > 0 && len(h.leases) > 0 && h.confirms(ops.Asker{}, h.leases[len(h.leases)-1]) {
		return true
	}
	return !first && final()
}

// rushes is a session that writes to everybody.
func (h *history) rushes() bool {
	from := h.speaker()
	for _, to := range crew {
		if to != from && h.carry(from, ops.SendRequest{To: to, Body: []byte(fmt.Sprint("to all ", len(h.log)))}) {
			return true
		}
	}
	return false
}

// echoes says the last thing once more.
func (h *history) echoes() bool { return h.echo != nil && h.echo() }

func (h *history) confirmsOne() bool {
	if len(h.leases) == 0 {
		return false
	}
	o := h.leases[len(h.leases)-1]
	if h.below(3) == 0 {
		o = one(h, h.leases[max(0, len(h.leases)-4):]...)
	}
	a := ops.Asker{}
	if h.below(8) == 0 {
		a.As = one(h, crew...)
	}
	if h.below(8) == 0 {
		a.Command = h.NewCommand()
	}
	return h.confirms(a, o)
}

func (h *history) confirms(a ops.Asker, o ops.Offered) bool {
	h.did("%q confirms %s", a.As, o.ID)
	_, r, err := h.Confirm(a, o.ID)
	return h.told("confirm", r, err)
}

// finds is a transcript in which what was printed stands, and perhaps what was not.
func (h *history) finds() bool {
	if len(h.leases) == 0 {
		return false
	}
	o := one(h, h.leases[max(0, len(h.leases)-6):]...)
	q := ops.ReadRequest{Lease: o.ID, Harness: "claude-code", Transcript: "/t"}
	for _, m := range o.Messages {
		if h.below(4) > 0 {
			q.Seen = append(q.Seen, commands.Seen{Message: m.ID, Attempt: m.Attempt + h.below(10)/9, Offset: int64(len(h.log))})
		}
	}
	h.did("%d messages of %s are found", len(q.Seen), o.ID)
	r, err := h.Read(q)
	return h.told("read", r, err)
}

func (h *history) waits() bool {
	h.after(one(h, time.Millisecond, time.Second, 3*time.Second, 9999*time.Millisecond, 10*time.Second, 11*time.Second, 179*time.Second, 180*time.Second, 10*time.Minute))
	h.did("")
	return false
}

func (h *history) jumps() bool {
	h.after(one(h, -time.Hour, -10*time.Second, -time.Second, time.Hour, 13*time.Hour, 24*time.Hour, 25*time.Hour))
	h.did("the clock jumped here")
	return false
}

func (h *history) again() bool {
	if h.repeat == nil {
		return false
	}
	h.did("the last send is sent again")
	if err := h.repeat(); err != nil {
		h.fail("a send repeated: %v", err)
	}
	h.seen = h.end() // it may have swept before it answered
	return false
}

func (h *history) looks() bool {
	before := h.end()
	m, _ := h.message()
	if m.ID == "" {
		return false
	}
	h.did("somebody looks")
	who := "@ana"
	h.see(func(s *projections.State) {
		if s.Session(events.SessionID(crew[0])) != nil {
			who = one(h, crew[0], "@ana")
		}
	})
	h.peeks(who, m.Thread, one(h, "", strconv.Itoa(h.below(int(before)+1))))
	if h.end() != before {
		h.fail("looking recorded %+v", h.recorded(before))
	}
	return false
}

// silences makes bells silent that have nothing to ring for, until something happens.
func (h *history) silences() bool {
	h.see(func(s *projections.State) {
		for _, id := range crew {
			call := h.calls(id)
			if s.Session(events.SessionID(id)) == nil {
				continue
			}
			if quiet, until := commands.Quiet(s, call, call.Caller.ID, bell.LookEvery, h.now, h.policy); quiet && until == nil {
				h.silent[events.SessionID(id)] = true
			} else if until != nil && until.Sub(h.now) > bell.LookEvery {
				h.fail("the bell of %s is silent for %s", id, until.Sub(h.now))
			}
		}
	})
	return false
}

// replayed compares the stored rows with those that other ways of folding make,
// and a thread as of a position, found by the index, with the same thread in a
// fold of everything up to there.
func (h *history) replayed() {
	h.t.Helper()
	h.verified()
	recorded := h.recorded(0)
	if len(recorded) == 0 {
		return
	}
	again := rows.New()
	for from := 0; from < len(recorded); {
		to := min(from+1+h.below(9), len(recorded))
		for range 2 { // what was seen already changes nothing
			if err := projections.Project(again, recorded[from:to]); err != nil {
				h.fail("fold: %v", err)
			}
		}
		from = to
	}
	var folded []string
	if err := again.Scan("", "", false, func(k string, v []byte) bool { folded = append(folded, k+" "+string(v)); return true }); err != nil {
		h.fail("scan: %v", err)
	}
	if live := h.rows(); !slices.Equal(live, folded) {
		h.fail("the live rows are not those of a fold in pages:\n%s\nand\n%s", strings.Join(live, "\n"), strings.Join(folded, "\n"))
	}
	h.showsTheSame(recorded)
	if len(h.sent) == 0 {
		return
	}
	at := events.Position(1 + h.below(len(recorded)))
	upTo := rows.New()
	if err := projections.Project(upTo, recorded[:at]); err != nil {
		h.fail("fold up to %d: %v", at, err)
	}
	thread := one(h, h.sent...).Thread
	err := h.Ledger.View(func(r events.Reader) error {
		s := projections.On(upTo)
		want, there := s.ThreadView(thread, r, recorded[at-1].Time, at)
		got, refused, err := h.Thread(ops.ThreadRequest{ID: string(thread), At: strconv.FormatInt(int64(at), 10)})
		if err != nil || there == (refused != nil) {
			h.fail("thread %s at %d: there %t, refused %+v, %v", thread, at, there, refused, err)
		}
		got.Time, want.Time = nil, nil
		if a, b := asJSON(got), asJSON(want); there && a != b {
			h.fail("thread %s at %d is\n%s\nby its own events, and in the fold of all\n%s", thread, at, a, b)
		}
		return s.Err()
	})
	if err != nil {
		h.fail("view: %v", err)
	}
	h.overviewAsOf(projections.On(upTo), recorded[at-1])
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// ends lets some of the crew come back, and a day go by, and then everybody:
// what its sender was there to hear of is settled, and in the end all of it.
func (h *history) ends() {
	h.t.Helper()
	for _, r := range h.recorded(0) {
		h.now = max(h.now, r.Time)
	}
	var some []string
	for _, id := range crew {
		if h.below(2) == 0 {
			some = append(some, id)
		}
	}
	h.comesBack(some)
	h.takesAll(some)
	h.after(25 * time.Hour)
	h.comesBack(some)
	h.takesAll(some)
	h.nothingWaits(append(some, people...))
	h.comesBack(crew)
	h.takesAll(crew)
	h.after(25 * time.Hour)
	for _, id := range crew {
		if _, r, err := h.Leave(ops.LeaveRequest{Session: id, Reason: events.EndLeft, FreesSeat: true}); r != nil || err != nil {
			h.fail("leave: %+v %v", r, err)
		}
	}
	h.comesBack(crew, offices...)
	h.takesAll(crew)
	h.nothingWaits(append(slices.Clone(crew), people...))
	h.see(func(s *projections.State) {
		for _, who := range slices.Concat(crew, people, desks) {
			if n := s.Mailbox(events.Participant(who)).Waiting; n != 0 {
				h.fail("in the end %d wait for %s", n, who)
			}
		}
	})
}

// comesBack joins them again; the first of them to these seats.
func (h *history) comesBack(who []string, seats ...string) {
	h.t.Helper()
	h.after(time.Hour)
	h.World.OSUser = "ana"
	for i, id := range who {
		q := ops.JoinRequest{Session: id, Source: events.SourceResume, Repo: "/w/one"}
		if i < len(seats) {
			q.Seat = seats[i]
		}
		if id != crew[4] {
			h.pids[id] = 10_000 + len(h.log) + i
			q.Process = &events.Process{PID: h.pids[id], Start: 1, Boot: "boot"}
		}
		h.did("%s comes back", id)
		if _, r, err := h.Join(q); r != nil || err != nil {
			h.fail("join: %+v %v", r, err)
		}
	}
}

// takesAll lets them, and both persons, print all that they are offered.
func (h *history) takesAll(who []string) {
	h.t.Helper()
	for runs, printed := 0, true; printed; {
		printed = false
		for _, who := range append(slices.Clone(who), people...) {
			h.after(11 * time.Second)
			o, r, err := h.Lease(ops.LeaseRequest{Asker: ops.Asker{As: who}})
			if r != nil || err != nil {
				h.fail("lease of %s: %+v %v", who, r, err)
			}
			if o.ID == "" {
				continue
			}
			h.did("%s leases %s %v and %d notices", who, o.ID, ids(o), len(o.Notices))
			if _, r, err := h.Confirm(ops.Asker{As: who}, o.ID); r != nil || err != nil {
				h.fail("confirm of %s: %+v %v", who, r, err)
			}
			printed = true
			if runs++; runs > 500 {
				h.fail("there is no end to it: %s is offered %+v", who, o)
			}
		}
	}
}

// nothingWaits: of what these sent nothing waits, and its loss, if it was lost,
// was told.
func (h *history) nothingWaits(who []string) {
	h.t.Helper()
	h.see(func(s *projections.State) {
		for _, m := range h.sent {
			row := s.Message(m.ID)
			if !slices.Contains(who, string(row.Author.ID)) {
				continue
			}
			for _, d := range row.Deliveries {
				if d.Waits() {
					h.fail("after a day message %s, whose sender was there, still waits: %+v", m.ID, d)
				}
				if d.Notice != nil && d.Notice.State != events.StateDelivered && d.Notice.State != events.StateUndelivered && row.Deleted == nil {
					h.fail("the loss of message %s was told to nobody: %+v", m.ID, d.Notice)
				}
			}
		}
	})
}
