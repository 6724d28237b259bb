package ops_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/esdb"
	"decklog/internal/esdbdouble"
	"decklog/internal/ops"
	"decklog/projections"
)

// machines are several on one cluster, each with a mirror of its own. They share a
// clock, and each hears what the others tell through the cluster alone.
type machines struct {
	*esdbdouble.Server
	t   *testing.T
	log *esdbdouble.Log
	all []*deck
}

func onACluster(t *testing.T, names ...string) *machines {
	t.Helper()
	m := &machines{t: t, log: esdbdouble.NewLog()}
	var err error
	m.Server, err = esdbdouble.Start(m.log, esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	for i, name := range names {
		address, err := esdb.Parse(m.URL() + "&views=" + filepath.Join(t.TempDir(), "views.db"))
		if err != nil {
			t.Fatal(err)
		}
		d := aDeck(t, name, nil, i+1)
		ledger, err := esdb.Open(address, projections.Project, esdb.Prepare(ops.Refold), esdb.Hear(d.hears),
			esdb.Apply(ops.Rings(func() bell.Bells { return bell.Bells{} })))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		d.Ledger, d.fleet.Publish, d.all = ledger, ledger.Publish, &m.all
		m.all = append(m.all, d)
		clock := m.all[0]
		d.World.Now = func() events.Time { return clock.now }
		d.fleet.World.Now = d.World.Now
		d.policy = m.all[0].policy
	}
	return m
}

// hears is told what came through the cluster.
func (d *deck) hears(machine string, said []byte) {
	d.fleet.Hear(machine, said)
	select {
	case d.heard <- struct{}{}:
	default: // it will look anyway
	}
}

// until waits for what is heard of other machines.
func (d *deck) until(is func() bool) {
	d.t.Helper()
	for !is() {
		select {
		case <-d.heard:
		case <-d.t.(*testing.T).Context().Done():
			d.t.Fatal("it was not heard")
		}
	}
}

// level waits until each machine has what any of them has.
func (m *machines) level() {
	m.t.Helper()
	var end events.Position
	for _, d := range m.all {
		end = max(end, d.end())
	}
	for _, d := range m.all {
		if err := d.Past(m.t.Context(), end-1); err != nil {
			m.t.Fatal(err)
		}
	}
}

// agree finds the machines with the same events and views, each in order.
func (m *machines) agree() {
	m.t.Helper()
	m.level()
	first := m.all[0].rows()
	for _, d := range m.all {
		d.verified()
		if rows := d.rows(); !slices.Equal(rows, first) {
			m.t.Fatalf("%s has other views than %s", d.World.Device, m.all[0].World.Device)
		}
	}
}

// between lets others act after what the first has sent to a stream has come to the
// cluster, and before it is recorded: each of the others in the same way in the midst
// of the one before it. So all decide before any knows of another.
func (m *machines) between(stream string, acts ...func()) {
	m.t.Helper()
	var mu sync.Mutex
	next := 1
	f := m.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl." + stream, Point: esdbdouble.Commit, Times: len(acts), Effect: esdbdouble.Do(func() {
		mu.Lock()
		i := next
		next++
		mu.Unlock()
		if i < len(acts) {
			acts[i]()
		}
	})})
	acts[0]()
	f.Lift()
	if next <= len(acts)-1 {
		m.t.Fatalf("only %d of %d were in the midst of it", next, len(acts))
	}
}

// each is the same for all machines.
func (m *machines) each(stream string, act func(d *deck)) {
	m.t.Helper()
	var acts []func()
	for _, d := range m.all {
		acts = append(acts, func() { act(d) })
	}
	m.between(stream, acts...)
}

// The same end of a session is noticed by two machines at once: its events have ids
// made of their cause, and are recorded once.
func TestMachinesThatNoticeTheSameEndRecordItOnce(t *testing.T) {
	m := onACluster(t, "deck-a", "deck-b")
	a, b := m.all[0], m.all[1]
	a.join(alice, a.process(1), on("smith"))
	a.take(alice)
	a.join(bob, a.process(2))
	m.level()
	b.join(carol, b.process(3))
	a.take(bob)
	b.take(carol)
	m.level()
	one := a.send(bob, inform(alice, "one"))
	two := b.send(carol, inform(alice, "two"))
	three := b.send(carol, inform("@smith", "three"))
	m.level()
	a.offers(a.lease(alice), one.ID, two.ID, three.ID) // and she dies with it
	a.after(time.Minute)
	a.dead[1] = true
	if err := a.fleet.Tell(t.Context(), a.Ops); err != nil {
		t.Fatal(err)
	}
	b.until(func() bool { return !b.sees(alice).Live })
	who := map[*deck]string{a: bob, b: carol}
	notices := func(d *deck) { d.take(who[d]) }
	m.each("session-"+alice, notices)
	m.level()
	if left := a.recorded(0, events.TypeSessionLeft); len(left) != 1 || left[0].Event.(events.SessionLeft).Reason != events.EndProcessGone {
		t.Errorf("left: %+v", left)
	}
	if back := a.recorded(0, events.TypeMailboxReturned); len(back) != 1 {
		t.Errorf("returned: %+v", back)
	}
	m.agree()

	a.after(events.DefaultPolicy().Limits.ResumeWithin.Std())
	m.each("mailbox-"+alice, notices)
	m.level()
	if lost := a.recorded(0, events.TypeMessageUndelivered); len(lost) != 2 {
		t.Errorf("undelivered: %+v", lost)
	}
	for _, d := range m.all {
		d.stands(one.ID, events.StateUndelivered, events.LostSessionEnded)
		d.stands(two.ID, events.StateUndelivered, events.LostSessionEnded)
		d.stands(three.ID, events.StateHeld, "")
	}
	m.agree()
}

// A mailbox has one taker at a time, wherever that is: its stream's revision lets one
// through. Where its session joined decides nothing of that.
func TestOfTwoMachinesThatTakeFromOneMailboxOneGetsTheMessages(t *testing.T) {
	m := onACluster(t, "deck-a", "deck-b")
	a, b := m.all[0], m.all[1]
	a.join(alice, a.process(1))
	a.take(alice)
	m.level()
	b.join(bob, b.process(2))
	b.take(bob)
	m.level()
	for round := range 6 {
		sent := b.send(bob, inform(alice, fmt.Sprint("round ", round)))
		m.level()
		offered := map[*deck]ops.Offered{}
		take := func(d *deck) { offered[d] = d.lease(alice) }
		if first := m.all[round%2]; first == a {
			m.each("mailbox-"+alice, take)
		} else {
			m.between("mailbox-"+alice, func() { take(b) }, func() { take(a) })
		}
		got := 0
		for d, o := range offered {
			if o.ID == "" {
				continue
			}
			got++
			d.offers(o, sent.ID)
			d.confirm(o)
		}
		if got != 1 {
			t.Fatalf("round %d: %d got it: %+v", round, got, offered)
		}
	}
	m.level()
	if leased := a.recorded(0, events.TypeMailboxLeased); len(leased) != 6 {
		t.Errorf("%d leases", len(leased))
	}
	m.agree()
}

// What is decided of a sender over many streams is decided on what a machine knows. Of
// what another one sends in the same moment it does not know: so each may admit one
// more, and none a second one.
func TestWhatIsDecidedPerSenderIsExceededByOneForEachOtherMachine(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(*events.Limits)
		code  commands.Code
		body  func(i int) string
		ahead int // sends before
	}{
		"duplicates":       {func(*events.Limits) {}, commands.Duplicate, func(int) string { return "the same" }, 0},
		"a session's rate": {func(l *events.Limits) { l.SessionRate = 3 }, commands.SessionRate, func(i int) string { return fmt.Sprint(i) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := onACluster(t, "deck-a", "deck-b", "deck-c")
			a := m.all[0]
			c.limit(&a.policy.Limits)
			for _, d := range m.all {
				d.policy = a.policy
			}
			a.join(alice)
			a.join(bob)
			n := 0
			next := func() ops.SendRequest { n++; return inform(bob, c.body(n)) }
			for range c.ahead {
				a.send(alice, next())
			}
			m.level()
			m.each("thread-", func(d *deck) { d.send(alice, next()) })
			m.level()
			if sent := a.recorded(0, events.TypeMessageSent); len(sent) != c.ahead+len(m.all) {
				t.Errorf("%d were sent", len(sent))
			}
			for _, d := range m.all {
				d.refused(alice, c.code, next())
			}
			m.agree()
		})
	}
}

// On one machine the same is strict, for one sender, however many ask at once.
func TestWhatIsDecidedPerSenderIsStrictOnOneMachine(t *testing.T) {
	m := onACluster(t, "deck-a")
	a := m.all[0]
	a.policy.Limits.SessionRate = 5
	a.join(alice)
	a.join(bob)
	a.join(carol)
	admitted := func(from string, body func(i int) string, code commands.Code) (n int) {
		var mu sync.Mutex
		atOnce(12, func(i int) {
			_, r, err := a.Send(ops.SendRequest{Asker: ops.Asker{As: from}, To: bob, Body: []byte(body(i))})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case r == nil:
				n++
			case r.Code != code:
				t.Errorf("refused: %+v", r)
			}
		})
		return n
	}
	if n := admitted(alice, func(int) string { return "the same" }, commands.Duplicate); n != 1 {
		t.Errorf("the same was admitted %d times", n)
	}
	if n := admitted(carol, func(i int) string { return fmt.Sprint(i) }, commands.SessionRate); n != 5 {
		t.Errorf("%d were admitted, of at most 5", n)
	}
	m.agree()
}

// The limits that several senders share are exceeded by what is on its way on one
// machine, too: else no two of its sessions could send at once.
func TestWhatSeveralSendersShareIsExceededByWhatIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(*events.Limits)
		code  commands.Code
	}{
		"a person's rate":  {func(l *events.Limits) { l.PersonRate = 1 }, commands.PersonRate},
		"a machine's rate": {func(l *events.Limits) { l.DeviceRate = 1 }, commands.DeviceRate},
		"a full mailbox":   {func(l *events.Limits) { l.RecipientFull = 1 }, commands.RecipientFull},
	} {
		t.Run(name, func(t *testing.T) {
			m := onACluster(t, "deck-a")
			a := m.all[0]
			c.limit(&a.policy.Limits)
			for _, id := range []string{alice, bob, carol} {
				a.join(id)
			}
			m.between("thread-", func() { a.send(alice, inform(carol, "from alice")) }, func() { a.send(bob, inform(carol, "from bob")) })
			a.refused(alice, c.code, inform(carol, "one more"))
			a.refused(bob, c.code, inform(carol, "and another"))
			m.agree()
		})
	}
}

// What machines tell comes to the others through the cluster, and is no event.
func TestPresenceReachesTheOtherMachinesThroughTheCluster(t *testing.T) {
	m := onACluster(t, "deck-a", "deck-b")
	a, b := m.all[0], m.all[1]
	a.join(alice, a.process(1))
	a.busy[alice] = a.now
	before := a.end()
	if err := errors.Join(a.fleet.Tell(t.Context(), a.Ops), b.fleet.Tell(t.Context(), b.Ops)); err != nil {
		t.Fatal(err)
	}
	m.level()
	says := "its process ran 0s ago, as deck-a told; in a turn when last seen"
	b.until(func() bool {
		p := b.sees(alice)
		if p.Evidence != says && !strings.Contains(p.Evidence, "has not told") {
			t.Fatalf("it shows %+v", p)
		}
		return p.Evidence == says
	})
	if a.end() != before {
		t.Error("what was told is an event")
	}
	m.agree()
}

// meet lets alice join on one machine and bob on another, or the same, and sends him a
// message of hers.
func (m *machines) meet(a, b *deck, text string) commands.SendReceipt {
	m.t.Helper()
	a.join(alice, a.process(1))
	a.take(alice)
	m.level()
	b.join(bob, b.process(2))
	b.take(bob)
	m.level()
	sent := a.send(alice, inform(bob, text))
	m.level()
	return sent
}

// What others change while a lease is on its way comes before the lease in the ledger,
// and what it prints has to be what the ledger holds there: nothing is offered again
// for it. An edit of one session and a lease of another have neither a stream nor an
// actor in common, so it is the same on one machine.
func TestALeaseThatIsRecordedBehindAnEditPrintsTheNewText(t *testing.T) {
	for _, names := range [][]string{{"deck-a", "deck-b"}, {"deck-a"}} {
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			m := onACluster(t, names...)
			a, b := m.all[0], m.all[len(names)-1]
			sent := m.meet(a, b, "the old text")
			var edited ops.EditReceipt
			var o ops.Offered
			m.between("mailbox-"+bob, func() { o = b.lease(bob) }, func() {
				var err error
				if edited, _, err = a.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID), Body: []byte("the new text")}); err != nil {
					t.Error(err)
				}
			})
			if edited.Position >= o.Position || len(o.Messages) != 1 || o.Messages[0].Body != "the new text" || !strings.Contains(o.Text, "the new text") {
				t.Errorf("the edit lies at %d, and the lease at %d prints %q, %+v", edited.Position, o.Position, o.Text, o.Messages)
			}
		})
	}
}

func TestALeaseThatIsRecordedBehindADeletionPrintsNoText(t *testing.T) {
	m := onACluster(t, "deck-a", "deck-b")
	a, b := m.all[0], m.all[1]
	sent := m.meet(a, b, "a secret")
	var deleted ops.Receipt
	var o ops.Offered
	m.between("mailbox-"+bob, func() { o = b.lease(bob) }, func() {
		var err error
		if deleted, _, err = a.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: string(sent.ID)}); err != nil {
			t.Error(err)
		}
	})
	if deleted.Position >= o.Position || strings.Contains(o.Text, "a secret") || len(o.Messages) == 1 && o.Messages[0].Body != "" {
		t.Errorf("it was taken back at %d, and the lease at %d prints %q, %+v", deleted.Position, o.Position, o.Text, o.Messages)
	}
}
