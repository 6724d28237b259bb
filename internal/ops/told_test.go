package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/memory"
	"decklog/internal/ops"
	"decklog/projections"
)

// deck is one of the machines that share a ledger and a clock.
type deck struct {
	*desk
	number int
	fleet  *ops.Fleet
	says   []ops.Telling
	down   error         // why what it tells reaches nobody
	heard  chan struct{} // something came through the cluster
	all    *[]*deck
}

// aFleet is machines on one ledger, which have what the others told at once.
func aFleet(t *testing.T, names ...string) []*deck {
	var all []*deck
	ledger := memory.New(projections.Project)
	for i, name := range names {
		all = append(all, aDeck(t, name, ledger, i+1))
	}
	for _, d := range all {
		clock := all[0]
		d.World.Now = func() events.Time { return clock.now }
		d.fleet.World.Now = d.World.Now
		d.all = &all
	}
	return all
}

// aDeck is a machine whose commands have ids of their own.
func aDeck(t *testing.T, name string, ledger ops.Ledger, number int) *deck {
	d := &deck{desk: newDesk(t), number: number, heard: make(chan struct{}, 1)}
	d.n.Store(uint64(number) << 40)
	d.Ledger, d.World.Device = ledger, name
	d.fleet = &ops.Fleet{World: d.World, Boot: "boot of " + name, Publish: d.publish}
	d.World.Fleet = d.fleet
	return d
}

// publish brings what the machine tells to all of them.
func (d *deck) publish(_ context.Context, said []byte) error {
	if d.down != nil {
		return d.down
	}
	var told ops.Telling
	if err := json.Unmarshal(said, &told); err != nil {
		return err
	}
	d.says = append(d.says, told)
	for _, other := range *d.all {
		other.fleet.Hear(fmt.Sprint("id ", d.number), said)
	}
	return nil
}

// after sets the clock of all machines.
func (d *deck) after(span time.Duration) { (*d.all)[0].desk.after(span) }

// process is that of a session on this machine.
func (d *deck) process(pid int) func(*ops.JoinRequest) {
	return func(q *ops.JoinRequest) { q.Process = &events.Process{PID: pid, Start: 1, Boot: d.fleet.Boot} }
}

// tells lets the machine look after its sessions, and gives what it told; nil when it
// found nothing to tell, or that it was too early.
func (d *deck) tells() *ops.Telling {
	d.t.Helper()
	before := len(d.says)
	if err := d.fleet.Tell(d.t.(*testing.T).Context(), d.Ops); !errors.Is(err, d.down) {
		d.t.Fatal(err)
	}
	if len(d.says) == before {
		return nil
	}
	return &d.says[before]
}

// sees is a session as the machine's presence view shows it.
func (d *deck) sees(id string) projections.Peer {
	d.t.Helper()
	view, _, err := d.Peers(ops.PeersRequest{Session: id})
	if err != nil || len(view.Peers) != 1 {
		d.t.Fatalf("peers: %+v %v", view, err)
	}
	return view.Peers[0]
}

func (d *deck) shows(id string, live, busy bool, evidence string) {
	d.t.Helper()
	if p := d.sees(id); p.Live != live || p.Busy != busy || p.Evidence != evidence {
		d.t.Errorf("%s shows %s live %t, busy %t: %s; want %t %t: %s", d.World.Device, id[:4], p.Live, p.Busy, p.Evidence, live, busy, evidence)
	}
}

func TestASessionIsShownElsewhereAsItsHomeToldAndNotAsItLooksThere(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	b.dead[1] = true // which is no process of deck-a
	a.join(alice, a.process(1))
	b.join(bob, b.process(2))
	b.shows(alice, true, false, "joined on deck-a, which has not told of its process; no hook run seen")
	a.busy[alice] = a.now
	if a.tells() == nil {
		t.Fatal("deck-a told nothing")
	}
	a.after(10 * time.Second)
	says := "its process ran 10s ago, as deck-a told; in a turn when last seen"
	b.shows(alice, true, true, says)
	a.shows(alice, true, true, "its process runs; in a turn when last seen")

	// Every door goes by that, and the message names it.
	receipt := b.send(bob, inform(alice, "Are you in a turn?"))
	sent := b.recorded(0, events.TypeMessageSent)[0].Event.(events.MessageSent)
	if receipt.Arrives != events.ArrivesNextToolCall || receipt.To.Evidence != says || sent.Evidence.Says != says || !sent.Evidence.Busy {
		t.Errorf("the receipt is %+v, the event %+v", receipt, sent.Evidence)
	}
	boxes, _, err := b.Mailboxes(ops.MailboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(boxes.Mailboxes, func(l projections.MailboxLine) bool { return l.Participant == alice })
	if l := boxes.Mailboxes[i]; l.Presence != "busy" || l.Evidence != says {
		t.Errorf("its mailbox is %+v", l)
	}
	if x, err := b.Examine(ops.Asker{As: bob}); err != nil || x.Heard["claude-code"].Live != 2 {
		t.Errorf("examined: %+v %v", x.Heard["claude-code"], err)
	}

	a.dead[1] = true
	if told := a.tells(); told == nil || told.Sessions[0].Process != "gone" {
		t.Fatalf("deck-a told %+v", told)
	}
	b.shows(alice, false, false, "its process is gone, as deck-a told")
	a.shows(alice, false, false, "its process is gone")
}

// Whoever runs may record the end of a session, on its home's word alone.
func TestTheEndOfASessionIsRecordedOnItsHomesWordAndOnNoOther(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	a.join(alice, a.process(1))
	b.join(bob, b.process(2))
	b.dead[1] = true
	a.tells()
	sent := b.send(bob, inform(alice, "one"))
	b.after(time.Minute)
	b.send(bob, inform(alice, "two"))
	if left := b.recorded(0, events.TypeSessionLeft); left != nil {
		t.Fatalf("deck-b took a number of its own for the process: %+v", left)
	}
	a.dead[1] = true
	a.tells()
	for range 2 { // the first command notices, the next finds it done
		_, _, _ = b.Send(ops.SendRequest{Asker: ops.Asker{As: bob}, To: alice, Body: []byte("three")})
	}
	left := b.recorded(0, events.TypeSessionLeft)
	if len(left) != 1 || left[0].Event.(events.SessionLeft).Reason != events.EndProcessGone {
		t.Fatalf("left: %+v", left)
	}
	a.after(events.DefaultPolicy().Limits.ResumeWithin.Std())
	b.take(bob)
	b.stands(sent.ID, events.StateUndelivered, events.LostSessionEnded)
	b.verified()
}

func TestWhatASilentMachineToldGrowsOldAndEndsNothingForTwelveHours(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	a.join(alice, a.process(1), on("smith"))
	a.busy[alice] = a.now
	a.tells()
	promised := a.says[0].Until.Sub(a.now)
	a.after(promised)
	b.shows(alice, true, true, fmt.Sprintf("its process ran %s ago, as deck-a told; in a turn when last seen", promised))
	a.after(time.Second)
	b.shows(alice, true, false, fmt.Sprintf("its process ran %s ago, as deck-a told; in a turn when last seen; deck-a has been silent since", promised+time.Second))
	a.after(12 * time.Hour)
	behind := true
	b.fleet.Behind = func() bool { return behind }
	if p := b.sees(alice); !p.Live {
		t.Errorf("a machine that hears nothing takes that for silence: %+v", p)
	}
	behind = false
	b.shows(alice, false, false, "not seen for 12h, and nobody tells of its process")
	b.join(bob, b.process(2), on("smith"))
	if row := b.session(alice); row.Left == nil || row.Reason != events.EndUnseen || b.occupant("smith") != bob {
		t.Errorf("the seat is %s's, and who had it %+v", b.occupant("smith"), row)
	}
	b.verified()
}

// Since when a seat has nobody is known by what its home told last.
func TestTheSeatOfASessionWhoseHomeIsSilentIsAbsentSinceItWasKnownLast(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	a.policy.Seats = seats("smith")
	a.join(alice, a.process(1), on("smith"))
	b.join(bob, b.process(2))
	a.after(time.Hour)
	told := a.now
	a.tells()
	a.after(12*time.Hour + time.Minute)
	b.send(bob, request("@smith", "Is anybody there?"))
	b.take(bob)
	if found := b.recorded(0, events.TypeSeatAbsent); len(found) != 0 {
		t.Fatalf("absent: %+v", found)
	}
	a.after(events.DefaultPolicy().Limits.AbsentAfter.Std())
	b.take(bob)
	found := b.recorded(0, events.TypeSeatAbsent)
	if len(found) != 1 || found[0].Event.(events.SeatAbsent).Since != told.Add(12*time.Hour) {
		t.Errorf("absent: %+v", found)
	}
}

// A session that goes on elsewhere has its home there: neither what its old home told
// nor what lies there of it counts.
func TestTheHomeOfASessionMovesWithIt(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b", "deck-c")
	a, b, c := m[0], m[1], m[2]
	a.join(alice, a.process(1))
	a.busy[alice] = a.now
	a.tells()
	b.tells()
	a.after(time.Minute)
	a.dead[1] = true
	told := a.tells()
	if told == nil || told.Sessions[0].Process != "gone" {
		t.Fatalf("deck-a told %+v", told)
	}
	c.shows(alice, false, false, "its process is gone, as deck-a told")

	b.join(alice, b.process(1), by(events.SourceResume))
	for _, d := range []*deck{a, c} {
		d.shows(alice, true, false, "joined on deck-b, which has not told of its process; no hook run seen")
	}
	b.shows(alice, true, false, "its process runs; no hook run seen")
	a.after(time.Minute)
	a.busy[alice] = a.now // a clock ahead would leave such a note
	if told := a.tells(); told == nil || len(told.Sessions) != 0 {
		t.Errorf("its old home tells of it: %+v", told)
	}
	if told := b.tells(); told == nil || len(told.Sessions) != 1 || told.Sessions[0].Joins != 2 {
		t.Errorf("its new home tells %+v", told)
	}
	for _, d := range []*deck{a, c} {
		d.shows(alice, true, false, "its process ran 0s ago, as deck-b told; no hook run seen")
	}
}

func TestAMachineTellsSeldomWhoIsBusyAndSoonThatAProcessIsThereOrGone(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a := m[0]
	a.join(alice, a.process(1))
	a.join(bob, a.process(2))
	begin := a.now
	at := func(after time.Duration, tells bool) *ops.Telling {
		t.Helper()
		a.now = begin.Add(after)
		told := a.tells()
		if (told != nil) != tells {
			t.Fatalf("after %s it told %+v", after, told)
		}
		if told != nil && (told.At != a.now || told.Until.Sub(told.At) < ops.PromiseMin || told.Until.Sub(told.At) > ops.PromiseMax) {
			t.Fatalf("after %s it promised to tell again by %s", after, told.Until)
		}
		return told
	}
	at(0, true)
	a.busy[alice] = begin.Add(time.Second)
	at(ops.TellEvery-time.Second, false)
	at(ops.TellEvery, true)
	a.busy[bob] = begin.Add(ops.TellEvery)
	at(ops.TellEvery+ops.NewsEvery, false)
	a.dead[1] = true
	at(ops.TellEvery+ops.NewsEvery-time.Second, false)
	at(ops.TellEvery+ops.NewsEvery, true)
	a.dead[2] = true
	at(ops.TellEvery+2*ops.NewsEvery-time.Second, false)
	a.now = begin.Add(ops.TellEvery + 2*ops.NewsEvery)
	a.down = errors.New("the cluster is away")
	at(ops.TellEvery+2*ops.NewsEvery, false)
	a.down = nil
	at(ops.TellEvery+2*ops.NewsEvery, true) // what did not get out is told when it can be
	a.join(carol)
	at(ops.TellEvery+3*ops.NewsEvery, false) // of which there is nothing to tell that its joining does not
	a.join(carol, a.process(3))
	at(ops.TellEvery+3*ops.NewsEvery, true)
	a.join(carol, a.process(4))
	at(ops.TellEvery+4*ops.NewsEvery-time.Second, false)
	last := at(ops.TellEvery+4*ops.NewsEvery, true)

	// And when nothing changes, the seldomer the longer: but always before its promise ends.
	for before, n := last, 0; n < 6; n++ {
		at(before.Until.Sub(begin)-time.Minute-time.Second, false)
		now := at(before.Until.Sub(begin)-time.Minute, true)
		if want := min(2*before.Until.Sub(before.At), ops.PromiseMax); now.Until.Sub(now.At) != want {
			t.Errorf("it promised to tell again within %s, not %s", now.Until.Sub(now.At), want)
		}
		before, last = now, now
	}
	if span := last.Until.Sub(last.At); span != ops.PromiseMax {
		t.Errorf("after an hour without news it tells within %s", span)
	}
	a.now = begin.Add(-time.Hour)
	if a.tells() == nil {
		t.Error("a clock that went back silences a machine")
	}
}

// Two homes on one system may serve one ledger, and have its name and its boot. Each says
// so, although nobody's process is there to be judged, and nothing else is told.
func TestTwoServesOfOneNameOnOneSystemBothSaySo(t *testing.T) {
	m := aFleet(t, "deck", "deck", "other")
	a, b := m[0], m[1]
	for _, d := range m {
		d.fleet.Boot = "boot"
	}
	share := func(d *deck) error { return d.fleet.Tell(t.Context(), d.Ops) }
	named := func(d *deck, want bool) {
		t.Helper()
		err := share(d)
		x, e := d.Examine(ops.Asker{As: "@ana"})
		if is := err != nil && strings.Contains(err.Error(), "has this one's name: deck"); is != want || e != nil || (x.Namesake == "deck") != want {
			t.Errorf("it says %v, and when it is looked at %q %v", err, x.Namesake, e)
		}
	}
	named(m[2], false)
	named(a, false)
	// It may be what this one told itself, before its views were lost.
	a.after(time.Minute)
	named(b, false)
	a.after(time.Second)
	named(a, true)
	named(b, true)
	named(m[2], false)
	told := len(a.says) + len(b.says)
	a.after(time.Second)
	named(a, true)
	named(b, true)
	if n := len(a.says) + len(b.says); n != told {
		t.Errorf("they tell each other without an end: %d times", n)
	}
	// The other one is gone.
	a.after(time.Hour)
	named(a, false)
}

// Two machines may have one name. Their processes are told apart by the boot that
// each is of: else one would take those of the other for gone.
func TestTwoMachinesOfOneNameDoNotJudgeEachOthersProcesses(t *testing.T) {
	m := aFleet(t, "deck", "deck", "other")
	a, b := m[0], m[1]
	for i, d := range m {
		d.fleet.Boot = fmt.Sprint("boot ", i)
	}
	share := func(d *deck) error { return d.fleet.Tell(t.Context(), d.Ops) }
	if err := errors.Join(share(a), share(m[2])); err != nil { // before anybody joins there
		t.Fatal(err)
	}
	b.dead[1] = true
	a.join(alice, a.process(1))
	b.shows(alice, true, false, "joined on deck, which has not told of its process; no hook run seen")
	if err := share(b); err != nil {
		t.Error(err) // what it hears may be what it told itself before it was started anew
	}
	a.after(time.Minute)
	if err := errors.Join(share(a), share(b)); err == nil || !strings.Contains(err.Error(), "has this one's name") {
		t.Errorf("nobody is told that they have one name: %v", err)
	}
	b.shows(alice, true, false, "its process ran 0s ago, as deck told; no hook run seen")
	m[2].shows(alice, true, false, "its process ran 0s ago, as deck told; no hook run seen")
	// That the one tells is no word of the other.
	a.after(time.Hour)
	_ = share(b)
	b.shows(alice, true, false, "its process ran 1h0m0s ago, as deck told; no hook run seen; deck has been silent since")
	// It was started anew, and what ran before is gone: that is for it alone to say.
	a.fleet.Boot = "boot 9"
	a.after(time.Minute)
	_ = share(a)
	a.dead[1], b.dead[1] = true, false
	a.after(time.Minute)
	_ = share(a)
	for _, d := range m[:2] {
		d.shows(alice, false, false, "its process is gone")
	}
	m[2].shows(alice, false, false, "its process is gone, as deck told")
}

// Who reaches the ledger through a machine is of no machine that could tell of it: the
// one that it reaches tells what its hooks said there.
func TestASessionThatReachesTheLedgerThroughAMachineIsToldOfByThatOne(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	caller := *a.Ops
	caller.World.Device = "token 7"
	caller.World.Alive = func(events.Process) bool { return true }
	if _, r, err := caller.Join(ops.JoinRequest{Session: carol, Harness: "codex", Process: &events.Process{PID: 9, Start: 1, Boot: "far away"}}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	a.dead[9], b.dead[9] = true, true
	// One that went on there was seen here before, and that says nothing any more.
	a.join(alice, a.process(1))
	a.busy[alice] = a.now
	a.after(time.Second)
	if _, r, err := caller.Join(ops.JoinRequest{Session: alice, Source: events.SourceResume}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	a.shows(alice, true, false, "joined, no process recorded; no hook run seen")
	b.shows(carol, true, false, "joined on token 7, which has not told of its process; no hook run seen")
	a.after(time.Second)
	a.busy[carol] = a.now
	if told := a.tells(); told == nil || len(told.Sessions) != 1 || told.Sessions[0].Process != "" {
		t.Fatalf("told %+v", told)
	}
	if told := b.tells(); told == nil || len(told.Sessions) != 0 {
		t.Fatalf("told %+v", told)
	}
	if p := b.sees(carol); !p.Live || !p.Busy {
		t.Errorf("deck-b shows %+v", p)
	}
	a.after(12 * time.Hour)
	if p := b.sees(carol); p.Live {
		t.Errorf("nobody saw it for twelve hours: %+v", p)
	}
}

func TestWhatAMachineTellsIsBounded(t *testing.T) {
	a := aFleet(t, "deck-a")[0]
	long := strings.Repeat("&", events.SessionIDBytesMax-4)
	for i := range ops.ToldMax + 10 {
		id := fmt.Sprintf("%04d%s", i, long)
		a.join(id)
		if i >= 10 {
			a.busy[events.SessionID(id)] = a.now
		}
	}
	var bytes int
	publish := a.fleet.Publish
	a.fleet.Publish = func(ctx context.Context, said []byte) error {
		bytes = len(said)
		return publish(ctx, said)
	}
	told := a.tells()
	if n := len(told.Sessions); n == 0 || n > ops.ToldMax || bytes > 1<<20 {
		t.Errorf("%d sessions in %d bytes", n, bytes)
	}
	if told.Sessions[0].Seen == nil {
		t.Error("those that were not seen stand before those that were")
	}
}

func TestWhatNobodyCanReadIsNotHeard(t *testing.T) {
	m := aFleet(t, "deck-a", "deck-b")
	a, b := m[0], m[1]
	a.join(alice, a.process(1))
	a.tells()
	said := "its process ran 0s ago, as deck-a told; no hook run seen"
	for _, odd := range []string{"", "x", `[]`, `{"sessions":7}`, "null"} {
		b.fleet.Hear("another", []byte(odd))
		b.fleet.Hear("id 1", []byte(odd))
	}
	b.shows(alice, true, false, "joined on deck-a, which has not told of its process; no hook run seen")
	a.after(time.Minute)
	a.busy[alice] = a.now
	a.tells()
	b.shows(alice, true, true, strings.Replace(said, "no hook run seen", "in a turn when last seen", 1))
	b.fleet.Hear("id 1", nil)
	b.shows(alice, true, false, "joined on deck-a, which has not told of its process; no hook run seen")
}
