package esdb

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

// turn is how many appends each does before the other has its turn.
const turn = 400

// BenchmarkAppend measures what a machine appends beside what the bare client
// does, in turn with it, on the same double, with as many at once. `make bench`
// does so with processes; this is to be profiled.
func BenchmarkAppend(b *testing.B) {
	for _, log := range []string{"memory", "durable"} {
		for _, workers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", log, workers), func(b *testing.B) {
				c := startOn(b, log)
				f := newFence(b.Context(), c.URL())
				defer f.close()
				l := c.open(b.TempDir(), count)
				bare, own := make([]worker, workers), make([]worker, workers)
				var took, busy [2]time.Duration
				n := 0
				for b.Loop() {
					n++
					since := cpu()
					took[0] += together(b, bare, func(w, i int) error {
						stream, r := events.Stream(fmt.Sprint("bare-", w)), events.Revision(i)
						o, err := prepared(stream, r, fmt.Sprintf("bare-%d-%d", w, i))
						if err != nil {
							return err
						}
						return f.appendTo(b.Context(), "dl2."+string(stream), expectation(r-1), o.data)
					})
					busy[0] += cpu() - since
					since = cpu()
					took[1] += together(b, own, func(w, i int) error {
						p := note(events.Stream(fmt.Sprint("s", w)), fmt.Sprintf("%d-%d", w, i))
						return l.Update(func(tx events.Tx) error {
							tx.(events.Placer).Placed(func(func(events.Position) events.Position) {})
							return onceIn(tx, p)
						})
					})
					busy[1] += cpu() - since
				}
				c.holds("dl.", n*turn)
				c.holds("dl2.", n*turn)
				rate := func(i int) float64 { return float64(n*turn) / took[i].Seconds() }
				b.ReportMetric(rate(0), "bare/s")
				b.ReportMetric(rate(1), "ledger/s")
				b.ReportMetric(rate(1)/rate(0), "ratio")
				b.ReportMetric(busy[0].Seconds()/busy[1].Seconds(), "cpu-ratio")
				b.ReportMetric(float64(busy[1].Microseconds())/float64(n*turn), "cpu-µs/op")
			})
		}
	}
}

// startOn starts a double on a log in memory, or on one that syncs.
func startOn(b *testing.B, log string) cluster {
	if log == "memory" {
		return start(b, esdbdouble.Config{})
	}
	l, err := esdbdouble.Durable(filepath.Join(b.TempDir(), "log"))
	must(b, err)
	s, err := esdbdouble.Start(l, esdbdouble.Config{})
	must(b, err)
	b.Cleanup(func() { s.Stop(); must(b, l.Close()) })
	return cluster{s, l, b}
}

// prepared is what the bare client sends: the same as a ledger sends of the same event.
func prepared(stream events.Stream, at events.Revision, id string) (outgoing, error) {
	p := note(stream, id)
	r := events.Recorded{Stream: stream, Revision: at, ID: p.ID, Time: 1, Actor: p.Actor, Cause: p.Cause, Event: p.Event}
	r.Data, r.Version, _ = events.Encode(p.Event)
	return encode(events.Batch{Stream: stream, Events: []events.Proposed{p}}, []events.Recorded{r})
}

// holds finds as many events in the log: what was not appended was not measured.
func (c cluster) holds(prefix string, n int) {
	c.t.Helper()
	if got := len(c.log.Events(prefix)); got != n {
		c.t.Fatalf("the log holds %d events of %s, not %d", got, prefix, n)
	}
}

// cpu is how long this process has kept cores busy.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// worker is how many things one has done.
type worker int

// together has workers do a turn's things, each its own in order.
func together(b *testing.B, workers []worker, do func(worker, i int) error) time.Duration {
	began := time.Now()
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for i := w; i < turn; i += len(workers) {
				if err := do(w, int(workers[w])); err != nil {
					b.Error(err)
					return
				}
				workers[w]++
			}
		})
	}
	working.Wait()
	return time.Since(began)
}

// BenchmarkProject measures how fast a new machine has a whole ledger, beside a
// bare subscription that looks at nothing.
func BenchmarkProject(b *testing.B) {
	const size = 20_000
	c := start(b, esdbdouble.Config{})
	fill := c.open(b.TempDir(), count)
	for from := 0; from < size; from += 500 {
		var all []events.Proposed
		for i := range 500 {
			p := note(events.Stream(fmt.Sprint("s", i%50)), fmt.Sprint(from+i))
			p.Actor = "@one"
			all = append(all, p)
		}
		must(b, once(fill, all...))
	}
	var took, busy [2]time.Duration
	n := 0
	for b.Loop() {
		n++
		began, since := time.Now(), cpu()
		ctx, end := context.WithCancel(b.Context())
		f := newFence(ctx, c.URL())
		s, err := f.subscribe(ctx, "dl.", nil, time.Minute)
		must(b, err)
		for n := 0; n < size; {
			if e := s.Recv(); e.EventAppeared != nil {
				n++
			} else if e.SubscriptionDropped != nil {
				b.Fatal(e.SubscriptionDropped.Error)
			}
		}
		end()
		f.close()
		took[0] += time.Since(began)
		busy[0] += cpu() - since
		began, since = time.Now(), cpu()
		l := c.open(b.TempDir(), func(events.Rows, []events.Recorded) error { return nil })
		must(b, l.Wait(b.Context(), size-1))
		must(b, l.Close())
		took[1] += time.Since(began)
		busy[1] += cpu() - since
	}
	rate := func(i int) float64 { return float64(n*size) / took[i].Seconds() }
	b.ReportMetric(rate(0), "bare/s")
	b.ReportMetric(rate(1), "mirror/s")
	b.ReportMetric(rate(1)/rate(0), "ratio")
	b.ReportMetric(busy[0].Seconds()/busy[1].Seconds(), "cpu-ratio")
	b.ReportMetric(float64(busy[1].Nanoseconds())/float64(n*size*1000), "cpu-µs/op")
}
