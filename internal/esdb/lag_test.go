package esdb

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// brisk makes the ledger look, and lose patience, within moments.
func brisk(l *Ledger) {
	l.bounds = bounds{
		open: 2 * time.Second, send: 2 * time.Second, attempt: 500 * time.Millisecond, apply: 2 * time.Second,
		look: 20 * time.Millisecond, fresh: time.Minute,
	}
}

// strict makes it stale as soon as it has not looked for a while, besides.
func strict(l *Ledger) {
	brisk(l)
	l.bounds.fresh = 400 * time.Millisecond
}

// looks waits until a ledger has found out so often that it has everything.
func looks(t testing.TB, l *Ledger, times int) {
	t.Helper()
	var last time.Time
	becomes(t, l, func(lag events.Lag) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.whole != last {
			last = l.whole
			times--
		}
		return times < 0
	})
}

// subscribed is an effect on subscriptions alone: what is read is read soon, or not.
func subscribed(effect esdbdouble.Effect) esdbdouble.Effect {
	return func(c *esdbdouble.Call) error {
		if at, has := c.Deadline(); has && time.Until(at) < time.Hour {
			return nil
		}
		return effect(c)
	}
}

// becomes waits until a ledger stands in a way.
func becomes(t testing.TB, l *Ledger, how func(events.Lag) bool) events.Lag {
	t.Helper()
	for {
		if lag := l.Lag(); how(lag) {
			return lag
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("it stands so: %+v", l.Lag())
		case <-time.After(5 * time.Millisecond): // it also changes with time alone
		}
	}
}

func isLive(lag events.Lag) bool  { return lag.Live }
func isStale(lag events.Lag) bool { return !lag.Live }

func code(err error) string { return failure.Of(err).Code }

// refuses finds that a ledger does not open, and why.
func (c cluster) refuses(a Address, as string, more ...Option) {
	c.t.Helper()
	var tried *Ledger
	l, err := Open(a, count, append(more, func(l *Ledger) { tried = l })...)
	if err == nil {
		l.Close()
		c.t.Errorf("it opens, and not with %s", as)
	} else if code(err) != as {
		c.t.Errorf("it does not open: %v", err)
	}
	// The client looks for a cluster that is away until it is there again, and what
	// was called waits for that.
	must(c.t, c.Start())
	tried.fence.calls.Wait()
}

func TestALedgerThatIsToldOfEverythingIsNotStale(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count, brisk), c.open(t.TempDir(), count)
	must(t, once(there, note("a", "1"), holding("b", "2", "text")))
	reaches(t, here, 2)
	lag := becomes(t, here, func(lag events.Lag) bool { return lag.Live && lag.Place > 0 && lag.Waiting == 0 })
	log := c.log.Events("dl.")
	if lag.Why != nil || lag.Ended || lag.Behind != 0 || lag.Heard < 0 || lag.Place != log[len(log)-1].Position || lag.LogEnd < lag.Place || here.Stale() {
		t.Errorf("it stands so: %+v", lag)
	}
	looks(t, here, 3) // while nothing happens
	if here.Stale() {
		t.Errorf("it stands so: %+v", here.Lag())
	}
}

// Others' events at the end of the log say nothing of ours.
func TestWhatOthersWriteMakesNobodyStale(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, brisk)
	must(t, once(l, note("a", "1")))
	a := c.address(t.TempDir())
	a.Prefix = "other."
	other, err := Open(a, count)
	must(t, err)
	t.Cleanup(func() { other.Close() })
	for i := range backMax + 10 {
		must(t, once(other, note("a", fmt.Sprint(i))))
		if i == 0 {
			looks(t, l, 2)
		}
	}
	looks(t, l, 2)
	if l.Stale() {
		t.Errorf("it stands so: %+v", l.Lag())
	}
}

func TestWhileTheClusterIsAwayViewsAreReadAndStaleAndNothingIsAppended(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	told := make(chan error, 10)
	l := c.open(t.TempDir(), count, brisk, Told(func(why error) { told <- why }))
	must(t, once(l, note("a", "1")))
	becomes(t, l, isLive)
	connected := l.Lag().Connected
	c.Stop()
	lag := becomes(t, l, isStale)
	if code(lag.Why) != "unreachable" || lag.Ended || !l.Stale() {
		t.Errorf("it stands so: %+v", lag)
	}
	if e := everything(t, l); len(e.Events) != 1 {
		t.Errorf("%d events are read", len(e.Events))
	}
	becomes(t, l, func(events.Lag) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return time.Since(l.since) > l.bounds.apply
	})
	// Who comes now is not made to wait for what does not come.
	began := c.Calls(esdbdouble.Append)
	err := once(l, note("a", "2"))
	if code(err) != "unreachable" || !errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrUnknown) {
		t.Errorf("an update ends with %v", err)
	}
	must(t, c.Start())
	lag = becomes(t, l, isLive)
	if why := <-told; code(why) != "unreachable" {
		t.Errorf("told of %v", why)
	}
	if why := <-told; why != nil || len(told) > 0 {
		t.Errorf("and then of %v, and of %d more", why, len(told))
	}
	if lag.Dropped == 0 || lag.Connected <= connected || c.Calls(esdbdouble.Append) != began {
		t.Errorf("it stands so: %+v", lag)
	}
	must(t, once(l, note("a", "2")))
}

// deafened leaves both ledgers with subscriptions that tell nothing any more, while an
// event is appended there that neither has.
func deafened(c cluster, here, there *Ledger) (held *esdbdouble.Injected, done chan error) {
	c.t.Helper()
	must(c.t, once(here, note("a", "1")))
	reaches(c.t, there, 1)
	becomes(c.t, here, isLive)
	held = c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Times: esdbdouble.Always, Effect: subscribed(esdbdouble.Hold(c.t.Context().Done()))})
	done = make(chan error)
	go func() { done <- once(there, note("a", "2")) }()
	<-held.Struck()
	return held, done
}

// A server may go on without ever telling a subscriber again, and without a word.
func TestThatASubscriptionIsDeadIsNoticedAlthoughNobodyWaits(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count, brisk), c.open(t.TempDir(), count)
	held, done := deafened(c, here, there)
	held.Lift()
	reaches(t, here, 2) // by the one who looks
	becomes(t, here, isLive)
	must(t, <-done)
}

func TestAClusterThatDoesNotAnswerMakesViewsStaleAlthoughNobodyHangsUp(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, strict)
	must(t, once(l, note("a", "1")))
	becomes(t, l, isLive)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Point: esdbdouble.Begin, Times: esdbdouble.Always, Effect: esdbdouble.Hold(t.Context().Done())})
	if lag := becomes(t, l, isStale); code(lag.Why) != "unreachable" {
		t.Errorf("it stands so: %+v", lag)
	}
	c.Heal()
	becomes(t, l, isLive)
}

// A disk may hang in the middle of a commit.
func TestViewsToWhichNothingCanBeBroughtAreStaleAlthoughTheClusterTellsEverything(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	hang := make(chan struct{})
	here := c.open(t.TempDir(), count, strict, Apply(func(events.Reader, []events.Recorded) error {
		<-hang
		return nil
	}))
	becomes(t, here, isLive)
	must(t, once(c.open(t.TempDir(), count), note("a", "1")))
	if lag := becomes(t, here, isStale); code(lag.Why) != "stale" || lag.Waiting != 1 {
		t.Errorf("it stands so: %+v", lag)
	}
	close(hang)
	reaches(t, here, 1)
	becomes(t, here, isLive)
}

func TestWhatIsRecordedAndNotSeenIsSaidSoAndItsReceiptIsGivenLater(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, brisk)
	must(t, once(l, note("a", "1")))
	held := c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Times: esdbdouble.Always, Effect: subscribed(esdbdouble.Say(esdbdouble.NotReady()))})
	err := once(l, note("a", "2"))
	if code(err) != "recorded_unseen" || !errors.Is(err, events.ErrUnknown) {
		t.Errorf("an update ends with %v", err)
	}
	if again := failure.Of(err).Error(); !errors.Is(again, events.ErrUnknown) {
		t.Errorf("over a wire it becomes %v", again)
	}
	if log := c.log.Events("dl.a"); len(log) != 2 {
		t.Errorf("%d events are in the cluster", len(log))
	}
	held.Lift()
	becomes(t, l, isLive)
	must(t, once(l, note("a", "2")))
	if e := everything(t, l); len(e.Events) != 2 {
		t.Errorf("%d events are there", len(e.Events))
	}
}

func TestRetriesAndConflictsAndWhatIsLeftToDoAreCounted(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	must(t, once(here, holding("a", "1", "goes")))
	reaches(t, there, 1)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.b", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() { must(t, once(there, note("b", "between"))) })})
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.c", Point: esdbdouble.Commit, Effect: esdbdouble.Say(esdbdouble.TimedOut())})
	away := make(chan struct{})
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: esdbdouble.Hold(away)})
	drop := note("a", "4")
	drop.Drops = []events.EventID{"1"}
	must(t, once(here, note("b", "2")))
	must(t, once(here, note("c", "3")))
	must(t, once(here, drop))
	if lag := here.Lag(); lag.Conflicts != 1 || lag.Retried != 1 || lag.Undropped != 1 || lag.Unsent != 0 {
		t.Errorf("it stands so: %+v", lag)
	}
	close(away)
	becomes(t, here, func(lag events.Lag) bool { return lag.Undropped == 0 })
	must(t, here.note(outKey+"left", []byte(`{"batches":[]}`)))
	becomes(t, here, func(lag events.Lag) bool { return lag.Unsent == 1 })
}

func TestAMachineThatStartsWhileTheClusterIsAwayReadsAndComesAliveByItself(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := c.open(folder, count)
	must(t, once(l, note("a", "1")))
	must(t, l.Close())
	c.Stop()
	l = c.open(folder, count, brisk)
	if e := everything(t, l); len(e.Events) != 1 || !l.Stale() {
		t.Errorf("%d events; it stands so: %+v", len(e.Events), l.Lag())
	}
	if lag := l.Lag(); lag.Behind >= 0 || lag.Heard >= 0 || lag.Ended {
		t.Errorf("nobody answered yet, and it stands so: %+v", lag)
	}
	if err := once(l, note("a", "2")); code(err) != "unreachable" || !errors.Is(err, events.ErrConflict) {
		t.Errorf("an update ends with %v", err)
	}
	if err := l.Publish(t.Context(), []byte("{}")); code(err) != "unreachable" {
		t.Errorf("it tells the others: %v", err)
	}
	must(t, c.Start())
	becomes(t, l, isLive)
	must(t, once(l, note("a", "2")))
}

// What is read before the cluster answers must be of that cluster, as far as anybody
// can tell, and is not read any more when it is not.
func TestViewsOfAnotherLedgerAreReadAtMostUntilTheClusterAnswers(t *testing.T) {
	one, two := start(t, esdbdouble.Config{}), start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := one.open(folder, count)
	must(t, once(l, note("a", "1")))
	must(t, l.Close())
	must(t, once(two.open(t.TempDir(), count), note("a", "other")))
	one.Stop()
	two.Stop()
	two.refuses(two.address(folder), "unreachable", brisk)
	l = one.open(folder, count, brisk)
	if e := everything(t, l); len(e.Events) != 1 {
		t.Errorf("%d events", len(e.Events))
	}
	// Another cluster has come to be at this address.
	s, err := esdbdouble.Start(two.log, esdbdouble.Config{Address: one.Address()})
	must(t, err)
	t.Cleanup(s.Stop)
	lag := becomes(t, l, func(lag events.Lag) bool { return lag.Ended })
	if code(lag.Why) != "other_ledger" {
		t.Errorf("it stands so: %+v", lag)
	}
	none := func(events.Reader) error { t.Error("it is read"); return nil }
	for what, err := range map[string]error{
		"a view": l.View(none), "a settled view": l.Settled(none), "an update": once(l, note("a", "2")), "a rebuild": l.Rebuild(nil),
	} {
		if code(err) != "other_ledger" {
			t.Errorf("%s ends with %v", what, err)
		}
	}
	must(t, l.Close())
}

// A mirror without events may be of any ledger, so there is nothing to be read.
func TestAMachineThatHasNothingYetDoesNotStartWithoutTheCluster(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	must(t, c.open(folder, count).Close())
	c.Stop()
	c.refuses(c.address(folder), "unreachable", brisk)
}

func TestACheckpointThatIsNotOfThisLedgerIsRefused(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := c.open(folder, count)
	for i := range 5 {
		must(t, once(l, note("a", string(rune('a'+i)))))
	}
	must(t, l.Close())
	views := filepath.Join(folder, "views.db")
	noted := func(change func(string) string) {
		t.Helper()
		m, err := sqlite.Open(views, count, sqlite.Mirrors())
		must(t, err)
		must(t, m.Update(func(tx events.Tx) error {
			old, err := tx.(sqlite.Noted).Noted(checkpointKey)
			if err != nil {
				return err
			}
			now := change(string(old))
			if now == string(old) {
				t.Errorf("%s stays as it is", old)
			}
			return tx.(sqlite.Mirror).Note(checkpointKey, []byte(now))
		}))
		must(t, m.Close())
	}
	noted(func(s string) string { return strings.Replace(s, `"engine":"esdb 1"`, `"engine":"esdb 0"`, 1) })
	c.refuses(c.address(folder), "other_ledger")
	noted(func(s string) string { return strings.Replace(s, `"engine":"esdb 0"`, `"engine":"esdb 1"`, 1) })
	noted(func(s string) string { return s[1:] })
	c.refuses(c.address(folder), "views_damaged")
	noted(func(s string) string { return "{" + s })
	must(t, c.open(folder, count).Close())

	// The cluster was restored to an earlier time, and has gone on since.
	earlier := start(t, esdbdouble.Config{})
	again := earlier.open(t.TempDir(), count)
	for i := range 4 {
		must(t, once(again, note("a", string(rune('a'+i)))))
	}
	earlier.refuses(earlier.address(folder), "other_ledger")
	must(t, once(again, note("b", "e"))) // as large as that which the mirror has last, with the same id, in the same place
	earlier.refuses(earlier.address(folder), "other_ledger")
	for i := range 4 {
		must(t, once(again, note("b", string(rune('f'+i)))))
	}
	earlier.refuses(earlier.address(folder), "other_ledger")
}

// Whoever copies a machine's folder to another machine saves that one the reading of
// everything. Both are then of the same ledger, and neither is in the other's way.
func TestAMirrorThatWasCopiedToAnotherMachineGoesOnThere(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder, copied := t.TempDir(), t.TempDir()
	l := c.open(folder, count)
	must(t, once(l, note("a", "1"), holding("b", "2", "text")))
	half(c, l, "3") // what is left of it is sent by both, and recorded once
	must(t, l.Close())
	c.Heal()
	must(t, os.CopyFS(copied, os.DirFS(folder)))
	machines := []*Ledger{c.open(folder, count, quick), c.open(copied, count, quick)}
	for i, m := range machines {
		becomes(t, m, func(lag events.Lag) bool { return lag.Unsent == 0 })
		must(t, once(m, note("e", string(rune('5'+i)))))
	}
	if e := same(t, machines...); len(e.Events) != 6 {
		t.Errorf("%d events", len(e.Events))
	}
}

// Of two ledgers in one cluster the streams of one must not pass for the other's,
// although their names begin as its own do.
func TestALedgerWhosePrefixBeginsAnothersSaysThatItIsNotAlone(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	outer := c.open(t.TempDir(), count)
	must(t, once(outer, note("a", "1")))
	a := c.address(t.TempDir())
	a.Prefix = "dl.inner."
	inner, err := Open(a, count)
	must(t, err)
	t.Cleanup(func() { inner.Close() })
	must(t, once(inner, note("a", "2")))
	lag := becomes(t, outer, func(lag events.Lag) bool { return lag.Ended })
	if code(lag.Why) != "foreign_event" {
		t.Errorf("it stands so: %+v", lag)
	}
	if e := everything(t, outer); len(e.Events) != 1 {
		t.Errorf("%d events are read", len(e.Events))
	}
}

func TestAUserWhoMayNotReadEverythingIsToldSo(t *testing.T) {
	other := httptest.NewTLSServer(nil) // has a certificate
	t.Cleanup(other.Close)
	c := start(t, esdbdouble.Config{TLS: &tls.Config{Certificates: other.TLS.Certificates}, Users: []esdbdouble.User{{Name: "ops", Password: "s", Admin: false}}})
	a, err := Parse("esdb://ops:s@" + c.Address() + "?tlsVerifyCert=false&views=" + filepath.Join(t.TempDir(), "views.db"))
	must(t, err)
	c.refuses(a, "access_denied")
}

// Others' events at the end of the log hide whether there are any of ours behind them.
func TestADeadSubscriptionIsNoticedAlthoughOthersWriteMuch(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count, strict), c.open(t.TempDir(), count)
	held, done := deafened(c, here, there)
	others := newFence(t.Context(), c.URL())
	defer others.close()
	flood := func() {
		var all []client.EventData
		for range 2 * backMax {
			all = append(all, client.EventData{EventID: uuid.New(), EventType: "others", ContentType: client.ContentTypeJson, Data: []byte("{}")})
		}
		must(t, others.appendTo(t.Context(), "others-"+uuid.NewString(), client.NoStream{}, all))
	}
	becomes(t, here, func(lag events.Lag) bool {
		flood()
		return !lag.Live
	})
	held.Lift()
	reaches(t, here, 2)
	becomes(t, here, func(lag events.Lag) bool {
		flood()
		return lag.Live
	})
	must(t, <-done)
}

// Views that were filled up to where the log ended when they began are not up to date
// when that took longer than is called fresh.
func TestViewsThatTookLongAreNotFreshByWhatTheyHadWhenTheyBegan(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	there := c.open(t.TempDir(), count, brisk)
	must(t, once(there, note("a", "1")))
	in, goOn := make(chan struct{}), make(chan struct{})
	here := c.open(t.TempDir(), count, strict, Apply(func(events.Reader, []events.Recorded) error {
		in <- struct{}{}
		<-goOn // a disk may be slow
		return nil
	}))
	<-in
	must(t, once(there, note("a", "2"))) // recorded while the first is on its way
	recorded := time.Now()
	becomes(t, here, func(events.Lag) bool { return time.Since(recorded) > 2*here.bounds.fresh })
	goOn <- struct{}{}
	<-in // the second is on its way, and not there
	if lag := here.Lag(); lag.Live {
		t.Errorf("it lacks what was recorded %s ago, and stands so: %+v", time.Since(recorded), lag)
	}
	close(goOn)
	reaches(t, here, 2)
	becomes(t, here, isLive)
}

// Views that cannot be written for long are as good as a cluster that is away.
func TestNothingIsDecidedOnViewsThatCannotBeWrittenForLong(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	var full atomic.Bool
	l := c.open(t.TempDir(), count, brisk, Apply(func(events.Reader, []events.Recorded) error {
		if full.Load() {
			return events.ErrNoSpace
		}
		return nil
	}))
	must(t, once(l, note("a", "1")))
	full.Store(true)
	must(t, once(c.open(t.TempDir(), count), note("b", "2")))
	becomes(t, l, func(lag events.Lag) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !lag.Live && code(lag.Why) == "no_space" && time.Since(l.lost) > l.bounds.apply
	})
	began := c.Calls(esdbdouble.Append)
	if err := once(l, note("c", "3")); code(err) != "no_space" || errors.Is(err, events.ErrUnknown) || c.Calls(esdbdouble.Append) != began {
		t.Errorf("an update ends with %v", err)
	}
	full.Store(false)
	becomes(t, l, isLive)
	must(t, once(l, note("c", "3")))
}

// What a stream leaves that was taken away, and was nobody's, is nothing to stop at:
// the cluster keeps it for ever. One of ours must not go.
func TestATombstoneStopsTheViewsOnlyWhereTheStreamIsOurs(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, brisk)
	must(t, once(l, note("a", "1")))
	must(t, l.fence.tombstone(t.Context(), l.address.Prefix+"nobodys"))
	must(t, once(l, note("b", "2")))
	reaches(t, c.open(t.TempDir(), count, brisk), 2)
	must(t, l.fence.tombstone(t.Context(), l.address.Prefix+"a"))
	lag := becomes(t, l, func(lag events.Lag) bool { return lag.Ended })
	if f := failure.Of(lag.Why); f.Code != "foreign_event" || !strings.Contains(f.Message, l.address.Prefix+"a") || !strings.Contains(f.Fix, "delete nothing") {
		t.Errorf("told of %+v", f)
	}
}
