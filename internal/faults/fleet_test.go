//go:build faults && linux

package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/cli"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/remote"
	"decklog/internal/sqlite"
	"decklog/internal/token"
	"decklog/projections"
)

// fleetPrograms are decklogd, which is told the time, and the double.
var fleetPrograms = sync.OnceValues(func() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "fleet") + string(filepath.Separator)
	out, err := exec.Command("go", "build", "-tags", "testclock", "-o", dir, "decklog/cmd/decklogd", "decklog/internal/esdbdouble/cmd/double").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

const (
	sessionsEach = 4 // on each ship
	fleetSeat    = "smith"
	// hasty is how long a session asks a server that may be dead.
	hasty = 300 * time.Millisecond
)

// fleet is two machines, its ships, with one ledger, which a double of a cluster
// keeps in a file. The sessions on board are goroutines of this process; the rest are
// processes, or the double is in this one so that a call can be struck at any of
// its steps.
type fleet struct {
	testing.TB
	dir     string
	clock   string
	now     time.Time
	log     string             // the double's file
	address string             // and where it listens
	process *exec.Cmd          // the double by itself, or
	server  *esdbdouble.Server // in this process
	kept    *esdbdouble.Log
	ships   [2]*ship

	mu sync.Mutex // of what follows
	*history
	done     map[events.CommandID]events.Position // other commands that were acknowledged, and where the last of each lies
	open     []*given                             // without an answer
	mine     map[string][]events.MessageID        // what a session sent and may still change
	seen     map[string][]events.MessageID        // what it was shown and may answer
	racers   int
	answers  int
	unheard  int // commands that had no answer at first
	refusals map[string]int
	refused  string // what the last refusal said
	failures map[string]int
	heard    *sync.Cond // there was an answer
}

// ship is one machine: a serve, with what it has of the ledger in a folder.
type ship struct {
	*fleet
	name    string
	folder  string
	cmd     *exec.Cmd
	patient *remote.Client
	hasty   *remote.Client
	racer   *racer // that is under way
	answers int    // guarded by the fleet's lock
}

// given is a command that a session gave, and gives again until it is answered.
type given struct {
	what string
	id   events.CommandID
	ship *ship
	give func(*remote.Client) error // notes the answer; the error: there was none
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{
		TB: t, dir: t.TempDir(), now: begun, history: newHistory(), done: map[events.CommandID]events.Position{},
		mine: map[string][]events.MessageID{}, seen: map[string][]events.MessageID{}, refusals: map[string]int{}, failures: map[string]int{},
	}
	f.heard = sync.NewCond(&f.mu)
	f.clock, f.log, f.address = filepath.Join(f.dir, "clock"), filepath.Join(f.dir, "log"), ownPort(t)
	f.tick()
	for n, name := range []string{"port", "starboard"} {
		s := &ship{fleet: f, name: name, folder: filepath.Join(f.dir, name)}
		must(t, os.MkdirAll(s.folder, 0o700))
		must(t, os.WriteFile(filepath.Join(s.folder, cli.PolicyName), []byte(unbounded+"\n[[seats]]\nname = \""+fleetSeat+"\"\nstickers = [\"driver-smith\"]\n"), 0o600))
		secret, err := token.MakeMachine(s.folder)
		must(t, err)
		world := ops.World{
			Now: func() events.Time { return events.At(begun) }, Random: func(b []byte) { _, _ = crandom{}.Read(b) }, Bells: bell.Beside(s.folder),
			Device: name, OSUser: "ana", Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		}
		config := remote.Config{Server: "unix:" + s.socket(), Token: secret, World: world, Patience: patience}
		s.patient = remote.New(config)
		config.Patience = hasty
		s.hasty = remote.New(config)
		f.ships[n] = s
	}
	return f
}

// ownPort is an address on which nobody listens and from which nobody calls: a
// client that calls and calls where nobody listens must not get through to
// itself.
func ownPort(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// tick is a minute later: all leases are over.
func (f *fleet) tick() {
	f.Helper()
	f.now = f.now.Add(time.Minute)
	must(f, os.WriteFile(f.clock+".next", []byte(f.now.Format(time.RFC3339Nano)), 0o600))
	must(f, os.Rename(f.clock+".next", f.clock))
}

// begin starts a process of the fleet, and waits for the line by which it says
// that it listens.
func (f *fleet) begin(said string, name string, args ...string) *exec.Cmd {
	f.Helper()
	programs, err := fleetPrograms()
	must(f, err)
	cmd := exec.Command(programs+name, args...)
	cmd.Env = []string{"HOME=" + f.dir, "PATH=" + os.Getenv("PATH"), "DECKLOG_TEST_CLOCK=" + f.clock}
	errs, err := os.OpenFile(said, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(f, err)
	defer errs.Close()
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	must(f, err)
	_, err = cmd.StdinPipe()
	must(f, err)
	must(f, cmd.Start())
	f.Cleanup(func() { kill(cmd) })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		f.Fatalf("%s does not start: %q %v\n%s", name, line, err, f.says())
	}
	return cmd
}

// kill ends a process as kill -9 does.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// says is the end of what the processes said.
func (f *fleet) says() string {
	var all strings.Builder
	for _, name := range []string{"double", "port", "starboard"} {
		text, _ := os.ReadFile(filepath.Join(f.dir, name+".stderr"))
		fmt.Fprintf(&all, "%s said:\n%s\n", name, text[max(0, len(text)-4000):])
	}
	return all.String()
}

// startDouble starts the double by itself.
func (f *fleet) startDouble() {
	f.Helper()
	f.process = f.begin(filepath.Join(f.dir, "double.stderr"), "double", "-insecure", f.address, "-log", f.log)
}

// startDoubleHere starts it in this process.
func (f *fleet) startDoubleHere() {
	f.Helper()
	var err error
	f.kept, err = esdbdouble.Durable(f.log)
	must(f, err)
	f.server, err = esdbdouble.Start(f.kept, esdbdouble.Config{Address: f.address})
	must(f, err)
	f.Cleanup(func() { f.server.Stop(); _ = f.kept.Close() })
}

func (s *ship) views() string  { return filepath.Join(s.folder, "views.db") }
func (s *ship) socket() string { return filepath.Join(s.folder, cli.SocketName) }

func (s *ship) start() {
	s.Helper()
	s.cmd = s.begin(s.folder+".stderr", "decklogd", "serve", "--ledger", "esdb://"+s.address+"?tls=false&views="+s.views(),
		"--socket", s.socket(), "--listen", "none", "--json", "--quiet")
}

// set has a new ledger's sessions join, each on its ship.
func (f *fleet) set() {
	f.Helper()
	var joining sync.WaitGroup
	for _, s := range f.ships {
		s.start()
	}
	for _, s := range f.ships {
		for n := range sessionsEach {
			joining.Go(func() {
				if _, r, err := s.patient.Join(ops.JoinRequest{Session: s.session(n), Harness: "by-hand", Cwd: "/"}); r != nil || err != nil {
					f.Errorf("join: %v %v", r, err)
				}
			})
		}
	}
	joining.Wait()
	if f.Failed() {
		f.Fatal(f.says())
	}
}

func (s *ship) session(n int) string { return fmt.Sprintf("%s-session-%d", s.name, n) }

// any is one of all sessions.
func (f *fleet) any() string { return f.ships[rand.IntN(2)].session(rand.IntN(sessionsEach)) }

// ask gives a command, and keeps it where no answer comes.
func (s *ship) ask(o *given) (answered bool) {
	o.ship = s
	if s.answer(o) {
		return true
	}
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, o)
	return false
}

// answer gives a command once.
func (s *ship) answer(o *given) bool {
	err := o.give(s.hasty)
	f := s.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.answers++
		s.answers++
		f.heard.Broadcast()
		return true
	}
	f.unheard++
	f.failures[failure.Of(err).Code]++
	return false
}

// told notes what is answered to any command: a refusal, or where its last event is.
func (f *fleet) told(what string, id events.CommandID, position events.Position, refused *commands.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if refused != nil {
		f.refusals[what+" "+string(refused.Code)]++
		f.refused = refused.Message
		if _, before := f.done[id]; before {
			f.Errorf("%s %s was acknowledged, asked again, and refused: %s", what, id, refused.Message)
		}
		return
	}
	f.done[id] = position
}

// claims notes an error that says that nothing was recorded.
func (f *fleet) claims(id events.CommandID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked := f.sends[id]; asked != nil && !errors.Is(err, events.ErrUnknown) && asked.position == 0 {
		asked.refused = asked.refused || strings.Contains(failure.Of(err).Fix+failure.Of(err).Message, "nothing was recorded")
	}
}

func (f *fleet) send(from, to, replyTo string) *given {
	id := commandID(crandom{})
	q := ops.SendRequest{Asker: ops.Asker{As: from, Command: id}, To: to, ReplyTo: replyTo,
		Body: []byte(fmt.Sprintf("%s says %s%s", from, id, strings.Repeat(".", rand.IntN(1000))))}
	f.mu.Lock()
	asked := f.try(id, string(q.Body))
	f.mu.Unlock()
	return &given{what: "send", id: id, give: func(c *remote.Client) error {
		receipt, refused, err := c.Send(q)
		if err != nil {
			f.claims(id, err)
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if refused != nil {
			f.refusals["send "+string(refused.Code)]++
			if asked.refused = true; asked.position > 0 {
				f.Errorf("send %s was acknowledged, asked again, and refused: %s", id, refused.Message)
			}
			return nil
		}
		if asked.position == 0 {
			f.mine[from] = append(f.mine[from], receipt.ID)
		}
		asked.position, asked.refused = receipt.Position, false
		return nil
	}}
}

// pick takes one of what is listed for a session; empty when nothing is.
func (f *fleet) pick(from map[string][]events.MessageID, session string, take bool) events.MessageID {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := from[session]
	if len(all) == 0 {
		return ""
	}
	n := rand.IntN(len(all))
	m := all[n]
	if take {
		from[session] = slices.Delete(all, n, n+1)
	}
	return m
}

func (f *fleet) edit(session string, m events.MessageID) *given {
	id := commandID(crandom{})
	q := ops.EditRequest{Asker: ops.Asker{As: session, Command: id}, Message: string(m), Body: []byte("better: " + id)}
	return &given{what: "edit", id: id, give: func(c *remote.Client) error {
		receipt, refused, err := c.Edit(q)
		if err == nil {
			f.told("edit", id, receipt.Position, refused)
		}
		return err
	}}
}

func (f *fleet) delete(session string, m events.MessageID) *given {
	id := commandID(crandom{})
	f.mu.Lock()
	f.deletes[m] = false
	f.mu.Unlock()
	return &given{what: "delete", id: id, give: func(c *remote.Client) error {
		receipt, refused, err := c.Delete(ops.DeleteRequest{Asker: ops.Asker{As: session, Command: id}, Message: string(m)})
		if err == nil {
			f.told("delete", id, receipt.Position, refused)
			f.mu.Lock()
			f.deletes[m] = refused == nil
			f.mu.Unlock()
		}
		return err
	}}
}

func (f *fleet) join(session string) *given {
	id := commandID(crandom{})
	return &given{what: "join", id: id, give: func(c *remote.Client) error {
		receipt, refused, err := c.Join(ops.JoinRequest{Asker: ops.Asker{Command: id}, Session: session, Harness: "by-hand", Cwd: "/", Seat: fleetSeat})
		if err == nil {
			f.told("join", id, receipt.Position, refused)
		}
		return err
	}}
}

func (f *fleet) leave(session string) *given {
	id := commandID(crandom{})
	q := ops.LeaveRequest{Asker: ops.Asker{As: session, Command: id}, Session: session, FreesSeat: rand.IntN(2) == 0}
	return &given{what: "leave", id: id, give: func(c *remote.Client) error {
		receipt, refused, err := c.Leave(q)
		if err == nil {
			f.told("leave", id, receipt.Position, refused)
		}
		return err
	}}
}

// lease is what a hook run does: it leases, prints, and confirms. Whoever asks a
// second time for the same lease prints nothing a second time.
func (f *fleet) lease(session string, offered *ops.Offered) *given {
	id := commandID(crandom{})
	return &given{what: "lease", id: id, give: func(c *remote.Client) error {
		o, refused, err := c.Lease(ops.LeaseRequest{Asker: ops.Asker{As: session, Command: id}})
		if err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if refused != nil {
			f.refusals["lease "+string(refused.Code)]++
			return nil
		}
		if o.Busy != nil {
			f.refusals["lease busy"]++
		}
		if o.ID == "" || offered.ID == o.ID {
			return nil
		}
		*offered = o
		if len(o.Messages) > 0 {
			f.leases[o.ID] = true
		}
		for _, m := range framesIn([]byte(o.Text)) {
			f.printed = append(f.printed, m)
			f.seen[session] = append(f.seen[session], m.message)
		}
		return nil
	}}
}

func (f *fleet) confirm(session string, offered *ops.Offered) *given {
	id := commandID(crandom{})
	return &given{what: "confirm", id: id, give: func(c *remote.Client) error {
		_, refused, err := c.Confirm(ops.Asker{As: session, Command: id}, offered.ID)
		if err != nil {
			return err
		}
		f.told("confirm", id, 0, refused)
		if refused == nil && len(offered.Messages) > 0 {
			f.mu.Lock()
			f.confirms[offered.ID] = true
			f.mu.Unlock()
		}
		return nil
	}}
}

// deliver leases and confirms for a session, as one hook run of it.
func (s *ship) deliver(session string) {
	var offered ops.Offered
	if s.ask(s.lease(session, &offered)) && offered.ID != "" {
		s.ask(s.confirm(session, &offered))
		return
	}
	_ = s.hasty.Silence(events.SessionID(session))
}

// step is one thing that a session does.
func (s *ship) step(me string) {
	f := s.fleet
	switch n := rand.IntN(20); {
	case n < 7:
		to := f.any()
		if n == 0 {
			to = "@" + fleetSeat
		}
		if to != me {
			s.ask(f.send(me, to, ""))
		}
	case n < 10:
		if m := f.pick(f.seen, me, false); m != "" {
			s.ask(f.send(me, "", string(m)))
		}
	case n < 16:
		s.deliver(me)
	case n < 17: // by a hook run that has strayed to the other ship
		s.other().deliver(me)
	case n < 18:
		if m := f.pick(f.mine, me, false); m != "" {
			s.ask(f.edit(me, m))
		}
	default:
		if m := f.pick(f.mine, me, true); m != "" {
			s.ask(f.delete(me, m))
		}
	}
}

func (s *ship) other() *ship {
	if s.ships[0] == s {
		return s.ships[1]
	}
	return s.ships[0]
}

// racer is a session that wants the seat, takes what lies in its mailbox, and
// leaves.
type racer struct {
	name        string
	join, leave *given
}

// race goes on with the ship's racer, until a step of it has no answer.
func (s *ship) race() {
	f := s.fleet
	if s.racer == nil {
		f.mu.Lock()
		f.racers++
		name := fmt.Sprintf("%s-racer-%04d", s.name, f.racers)
		f.mu.Unlock()
		s.racer = &racer{name: name, join: f.join(name)}
	}
	r := s.racer
	if r.leave == nil {
		if !s.answer(r.join) {
			return
		}
		f.mu.Lock()
		_, joined := f.done[r.join.id]
		f.mu.Unlock()
		if !joined {
			s.racer = nil
			return
		}
		s.deliver(r.name)
		r.leave = f.leave(r.name)
	}
	if s.answer(r.leave) {
		s.racer = nil
	}
}

// sail has all sessions at work until the end is called, which waits for them.
func (f *fleet) sail() (end func()) {
	stop := make(chan struct{})
	var sailing sync.WaitGroup
	work := func(do func()) {
		sailing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	for _, s := range f.ships {
		for n := range sessionsEach {
			work(func() { s.step(s.session(n)) })
		}
		work(s.race)
	}
	end = sync.OnceFunc(func() { close(stop); sailing.Wait() })
	f.Cleanup(end)
	return end
}

// progress waits until each ship has given so many more answers.
func (f *fleet) progress(more int) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	late := time.AfterFunc(patience, f.heard.Broadcast)
	defer late.Stop()
	began := time.Now()
	for _, s := range f.ships {
		for want := s.answers + more; s.answers < want; f.heard.Wait() {
			if time.Since(began) >= patience {
				f.Fatalf("%s gives no answers any more\n%s", s.name, f.says())
			}
		}
	}
}

// settle gives all commands again that have no answer: as often as it takes, and
// then once more, for the same answer. Some are given on the other ship, once that
// has what is had here.
func (f *fleet) settle() (settled int) {
	f.Helper()
	f.level()
	f.mu.Lock()
	open := f.open
	f.open = nil
	f.mu.Unlock()
	for _, o := range open {
		// The other ship does not know whether all of it is recorded, and whether what
		// is confirmed went back to its seat a moment ago.
		if o.what != "confirm" && rand.IntN(4) == 0 {
			f.insist(o, o.ship.other())
		}
		if first, second := f.insist(o, o.ship), f.insist(o, o.ship); first != second {
			f.Fatalf("%s %s was asked again and is at %d, and then at %d", o.what, o.id, first, second)
		}
		settled++
	}
	late := time.Now().Add(patience)
	for _, s := range f.ships {
		hasty := s.hasty
		for s.hasty = s.patient; s.racer != nil; s.race() {
			if time.Now().After(late) {
				f.Fatalf("%s gets no answer\n%s", s.racer.name, f.says())
			}
		}
		s.hasty = hasty
	}
	return settled
}

// insist gives a command on a ship until there is an answer, and says where that puts it.
func (f *fleet) insist(o *given, on *ship) events.Position {
	f.Helper()
	for began := time.Now(); ; {
		err := o.give(on.patient)
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			f.Fatalf("%s %s has no answer: %v\n%s", o.what, o.id, err, f.says())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked := f.sends[o.id]; asked != nil {
		return asked.position
	}
	return f.done[o.id]
}

// level waits until both ships have the same events, and gives the last position.
func (f *fleet) level() events.Position {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for {
		var ends [2]events.Position
		for n, s := range f.ships {
			end, err := s.patient.End()
			must(f, err)
			ends[n] = end
		}
		if ends[0] == ends[1] {
			return ends[0]
		}
		behind, end := f.ships[0], ends[1]
		if ends[1] < ends[0] {
			behind, end = f.ships[1], ends[0]
		}
		if err := behind.patient.Past(ctx, end-1); err != nil {
			f.Fatalf("%s has %d and %d events, and stays there: %v\n%s", behind.name, ends[0], ends[1], err, f.says())
		}
	}
}

// had is all that a ship has.
type had struct {
	events []events.Recorded
	rows   []string
	bodies map[events.EventID]string
}

func (s *ship) had() (h had) {
	s.Helper()
	l, err := sqlite.Open(s.views(), projections.Project, sqlite.Mirrors())
	must(s, err)
	defer l.Close()
	must(s, l.View(func(r events.Reader) error {
		h.bodies = map[events.EventID]string{}
		if h.events, err = r.All(1, 1_000_000); err != nil {
			return err
		}
		for _, e := range h.events {
			b, there, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			if there {
				h.bodies[e.ID] = string(b.Text)
			}
		}
		h.rows, err = dump(r.Rows())
		return err
	}))
	return h
}

// same finds the ships with the same events, in the same places, with the same
// digests, bodies and rows; and on each what the oracle wants.
func (f *fleet) same(when string) (v verdict) {
	f.Helper()
	var both [2]had
	for {
		f.level()
		for n, s := range f.ships {
			both[n] = s.had()
		}
		if len(both[0].events) == len(both[1].events) {
			break // else one of them sent yet what a dead process had left
		}
	}
	for n, e := range both[0].events {
		if o := both[1].events[n]; e.Digest != o.Digest || e.Position != o.Position || e.ID != o.ID {
			f.Fatalf("%s: at %d the ships have\n%+v\n%+v", when, e.Position, e, o)
		}
	}
	if !slices.Equal(both[0].rows, both[1].rows) {
		f.Fatalf("%s: the ships' views differ", when)
	}
	for id, text := range both[0].bodies {
		if other, there := both[1].bodies[id]; !there || other != text {
			f.Fatalf("%s: the body of %s is on one ship %q, on the other %q", when, id, text, other)
		}
	}
	if len(both[0].bodies) != len(both[1].bodies) {
		f.Fatalf("%s: the ships have %d and %d bodies", when, len(both[0].bodies), len(both[1].bodies))
	}
	for _, s := range f.ships {
		v = f.holds(f, s.views(), when+", on "+s.name, sqlite.Mirrors())
		if audited, err := s.patient.Verify(); err != nil || !audited.OK {
			f.Fatalf("%s: verify on %s: %+v %v", when, s.name, audited, err)
		}
	}
	f.commands(both[0].events, &v)
	seats(both[0].events, &v)
	if len(v.wrong) > 0 {
		f.Fatalf("%s:\n%s\n%s", when, strings.Join(v.wrong, "\n"), f.says())
	}
	return v
}

// commands says that what was acknowledged beside sends, leases and confirms is
// where its answer said, and that none was recorded by both ships.
func (f *fleet) commands(all []events.Recorded, v *verdict) {
	causes := map[events.CommandID]bool{}
	for _, e := range all {
		causes[e.Cause.Command] = true
		if e.Type() == "event.repeated" {
			v.say("position %d repeats an event of command %s", e.Position, e.Cause.Command)
		}
	}
	for id, position := range f.done {
		switch {
		case position == 0:
		case int(position) > len(all) || !causes[id]:
			v.missing("command %s was acknowledged at %d and is lost", id, position)
		case all[position-1].Cause.Command != id:
			v.say("command %s was acknowledged at %d, where %s lies", id, position, all[position-1].Cause.Command)
		}
	}
}

// seats says that nobody took a seat from one who was there.
func seats(all []events.Recorded, v *verdict) {
	occupant, live := map[string]events.SessionID{}, map[events.SessionID]bool{}
	for _, e := range all {
		switch ev := e.Event.(type) {
		case events.SessionJoined:
			live[ev.Session] = true
		case events.SessionLeft:
			live[ev.Session] = false
		case events.SeatTaken:
			if by := occupant[ev.Seat]; by != "" && by != ev.Session && live[by] {
				v.say("position %d: %s takes the seat %s, which %s occupies", e.Position, ev.Session, ev.Seat, by)
			}
			occupant[ev.Seat] = ev.Session
		case events.SeatLeft:
			if occupant[ev.Seat] == ev.Session {
				occupant[ev.Seat] = ""
			}
		}
	}
}

// harbour has everything delivered that waits, and finds that nothing was lost on
// the way: what was sent was confirmed, or deleted, or given up and said to be.
func (f *fleet) harbour() {
	f.Helper()
	f.tick()
	sailor := f.ships[0].session(9)
	if o := f.join(sailor); o.give(f.ships[0].patient) != nil || f.done[o.id] == 0 {
		f.Fatalf("nobody can take the seat: %s", f.refused)
	}
	for _, s := range f.ships {
		for n := range sessionsEach + 1 {
			session := s.session(n)
			if n == sessionsEach {
				if session = sailor; s != f.ships[0] {
					continue
				}
			}
			for {
				var offered ops.Offered
				must(f, f.lease(session, &offered).give(s.patient))
				if offered.ID == "" {
					break
				}
				must(f, f.confirm(session, &offered).give(s.patient))
			}
		}
	}
	v := f.same("in harbour")
	over := map[events.MessageID]bool{}
	all := f.ships[0].had()
	var deleted []events.EventID
	for _, e := range all.events {
		switch ev := e.Event.(type) {
		case events.MessageDeleted:
			over[ev.Message] = true
			deleted = append(deleted, ev.Bodies...)
		case events.MessageUndelivered:
			over[ev.Message] = true
		}
	}
	for _, e := range all.events {
		if ev, is := e.Event.(events.MessageSent); is && !v.confirmed[string(ev.Message)] && !over[ev.Message] {
			f.Errorf("message %s to %s at %d was never delivered", ev.Message, ev.To, e.Position)
		}
	}
	if f.kept != nil {
		f.redacted(deleted, len(all.bodies))
	}
}

// redacted waits until the cluster has no text of what was deleted, and counts the
// texts that belong to nothing that was recorded.
func (f *fleet) redacted(deleted []events.EventID, kept int) {
	f.Helper()
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		texts := map[string]bool{}
		for _, e := range f.kept.Events("dl.body-") {
			texts[e.Stream] = true
			if e.Type == "$streamDeleted" {
				delete(texts, e.Stream)
			}
		}
		left := 0
		for _, id := range deleted {
			for stream := range texts {
				if strings.HasPrefix(stream, "dl.body-"+string(id)) {
					left++
				}
			}
		}
		if left == 0 {
			f.Logf("%d texts were deleted, %d are left, and of these %d of no message", len(deleted), len(texts), len(texts)-kept)
			return
		}
		if time.Since(began) > patience {
			f.Fatalf("of what was deleted %d texts are in the cluster\n%s", left, f.says())
		}
	}
}

// stop ends the ships as they should end.
func (f *fleet) stop() {
	f.Helper()
	for _, s := range f.ships {
		must(f, s.cmd.Process.Signal(os.Interrupt))
	}
	for _, s := range f.ships {
		if err := s.cmd.Wait(); err != nil {
			f.Errorf("%s ended with %v\n%s", s.name, err, f.says())
		}
	}
}

// voyage plays rounds on ledgers of so many rounds each.
func voyage(t *testing.T, rounds int, double func(*fleet), strike func(f *fleet, round int) string) {
	const perLedger = 25
	var answers, unheard, settled, recorded, contested int
	var f *fleet
	for round := range rounds {
		if f == nil {
			f = newFleet(t)
			double(f)
			f.set()
		}
		f.tick()
		end := f.sail()
		f.progress(2 + rand.IntN(6))
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		what := strike(f, round)
		f.progress(3)
		end()
		n := f.settle()
		settled += n
		v := f.same(fmt.Sprintf("round %d, %s", round, what))
		t.Logf("round %3d: %-44s %4d events, %2d commands settled", round, what, v.events, n)
		if round%perLedger < perLedger-1 && round < rounds-1 {
			continue
		}
		f.harbour()
		f.stop()
		answers += f.answers
		unheard += f.unheard
		for _, asked := range f.sends {
			if asked.position > 0 {
				recorded++
			}
		}
		contested += f.refusals["join seat_taken"] + f.refusals["lease busy"]
		t.Logf("refused: %v; failed: %v", f.refusals, f.failures)
		if f.server != nil {
			t.Logf("%d appends in conflict", f.server.Conflicts())
			if f.server.Conflicts() == 0 {
				t.Error("no append was in another's way")
			}
			f.server.Stop()
			must(t, f.kept.Close())
		} else {
			kill(f.process)
		}
		f = nil
	}
	t.Logf("%d rounds: %d answers, of which none is lost; %d commands had no answer at first, and were settled by asking again; %d sends; %d times two wanted the same",
		rounds, answers, unheard, recorded, contested)
	if unheard == 0 || settled == 0 || contested == 0 {
		t.Errorf("%d commands had no answer, %d were settled, and %d times two wanted the same: nothing was tested", unheard, settled, contested)
	}
}

func TestAFleetOfWhichAnyPartIsKilledLosesNothing(t *testing.T) {
	voyage(t, often(100, 4), (*fleet).startDouble, func(f *fleet, round int) string {
		dead := []string{"port", "starboard", "the double", "all three"}[round%4]
		all := dead == "all three"
		if all || dead == "the double" {
			kill(f.process)
		}
		for _, s := range f.ships {
			if all || dead == s.name {
				kill(s.cmd)
			}
		}
		<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond)
		if all || dead == "the double" {
			f.startDouble()
		}
		for _, s := range f.ships {
			if all || dead == s.name {
				s.start()
			}
		}
		return dead + " killed"
	})
}

// cutSteps are those of an append and of a subscription at which a call is struck.
var cutSteps = []struct {
	name  string
	fault esdbdouble.Fault
}{
	{"when an append has come", esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Begin}},
	{"when a stream was named", esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Message}},
	{"when an event had come", esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Message, Skip: 1}},
	{"before a body is written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.body-", Point: esdbdouble.Commit}},
	{"when a body was written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.body-", Point: esdbdouble.Answer}},
	{"before events are written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.thread-", Point: esdbdouble.Commit}},
	{"when events were written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.thread-", Point: esdbdouble.Answer}},
	{"when a mailbox was written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.mailbox-", Point: esdbdouble.Answer}},
	{"when a seat was written", esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.seat-", Point: esdbdouble.Answer}},
	{"when a subscription is confirmed", esdbdouble.Fault{Call: esdbdouble.Read, Point: esdbdouble.SendConfirmation}},
	{"when an event is told of", esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.SendEvent}},
	{"when a checkpoint is told of", esdbdouble.Fault{Call: esdbdouble.Read, Point: esdbdouble.SendCheckpoint}},
	{"when a subscription has caught up", esdbdouble.Fault{Call: esdbdouble.Read, Point: esdbdouble.SendCaughtUp}},
	{"before a body is taken away", esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Commit}},
}

func TestAFleetThatIsStruckAtAnyStepOfACallLosesNothing(t *testing.T) {
	voyage(t, often(len(cutSteps)*8, len(cutSteps)/2), (*fleet).startDoubleHere, func(f *fleet, round int) string {
		step := cutSteps[5*round%len(cutSteps)] // of each kind some, also in a few rounds
		fault := step.fault
		fault.Skip += rand.IntN(3)
		fault.Times = 1 + rand.IntN(3)
		effect := "cut"
		fault.Effect = esdbdouble.Cut()
		sunk := f.ships[rand.IntN(2)]
		var sink sync.Once
		switch (round + round/len(cutSteps)) % 3 {
		case 1:
			effect = "the double dies"
			fault.Effect = func(c *esdbdouble.Call) error {
				c.Server.Stop()
				if err := c.Server.Start(); err != nil {
					return err
				}
				<-c.Done()
				return c.Err()
			}
		case 2:
			effect = sunk.name + " dies"
			fault.Effect = esdbdouble.Do(func() { sink.Do(func() { kill(sunk.cmd) }) })
		}
		struck := f.server.Inject(fault)
		late := time.After(patience)
		for waiting := true; waiting; {
			if fault.Call == esdbdouble.Read {
				f.server.CutConnections() // who subscribes anew meets it
			}
			select {
			case <-struck.Struck():
				waiting = false
			case <-time.After(300 * time.Millisecond):
			case <-late:
				f.Fatalf("%s: nothing came by\n%s", step.name, f.says())
			}
		}
		struck.Lift()
		if effect == sunk.name+" dies" {
			sink.Do(func() { kill(sunk.cmd) })
			sunk.start()
		}
		return step.name + ": " + effect
	})
}
