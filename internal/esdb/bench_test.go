package esdb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/sqlite"
)

// BenchmarkAppend measures what a machine appends beside what the bare client
// does, on the same double, with as many at once.
func BenchmarkAppend(b *testing.B) {
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("client/%d", workers), func(b *testing.B) {
			c := start(b, esdbdouble.Config{})
			f := newFence(b.Context(), c.URL())
			defer f.close()
			spread(b, workers, func(w, i int) error {
				p := note(events.Stream(fmt.Sprint("s", w)), fmt.Sprintf("%d-%d", w, i))
				r := events.Recorded{Stream: p.Stream, Revision: events.Revision(i), ID: p.ID, Time: 1, Actor: p.Actor, Cause: p.Cause, Event: p.Event}
				r.Data, r.Version, _ = events.Encode(p.Event)
				o, err := encode(events.Batch{Stream: p.Stream, Events: []events.Proposed{p}}, []events.Recorded{r})
				if err != nil {
					return err
				}
				cl, err := f.take()
				if err != nil {
					return err
				}
				defer f.over(cl)
				_, err = cl.AppendToStream(b.Context(), "dl."+string(p.Stream), client.AppendToStreamOptions{ExpectedRevision: expectation(events.Revision(i) - 1)}, o.data...)
				return err
			})
			c.holds(b.N)
		})
		b.Run(fmt.Sprintf("ledger/%d", workers), func(b *testing.B) {
			c := start(b, esdbdouble.Config{})
			l := c.open(b.TempDir(), count, MirrorWith(sqlite.Grouped(sqlite.DefaultGroups)))
			spread(b, workers, func(w, i int) error {
				return once(l, note(events.Stream(fmt.Sprint("s", w)), fmt.Sprintf("%d-%d", w, i)))
			})
			c.holds(b.N)
		})
	}
}

// holds finds as many events of ours in the log: what was not appended was not measured.
func (c cluster) holds(n int) {
	c.t.Helper()
	if got := len(c.log.Events("dl.")); got != n {
		c.t.Fatalf("the log holds %d events, not %d", got, n)
	}
}

// spread has workers do b.N things together, each its own in order.
func spread(b *testing.B, workers int, do func(worker, i int) error) {
	b.ResetTimer()
	var next atomic.Int64
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for i := 0; next.Add(1) <= int64(b.N); i++ {
				if err := do(w, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkProject measures how fast a new machine has a whole ledger, beside a
// bare subscription that looks at nothing.
func BenchmarkProject(b *testing.B) {
	const size = 20_000
	c := start(b, esdbdouble.Config{})
	fill := c.open(b.TempDir(), count, MirrorWith(sqlite.Grouped(sqlite.DefaultGroups)))
	for from := 0; from < size; from += 500 {
		var all []events.Proposed
		for i := range 500 {
			p := note(events.Stream(fmt.Sprint("s", i%50)), fmt.Sprint(from+i))
			p.Actor = "@one"
			all = append(all, p)
		}
		must(b, once(fill, all...))
	}
	b.Run("subscription", func(b *testing.B) {
		for b.Loop() {
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
		}
		b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("mirror", func(b *testing.B) {
		for b.Loop() {
			l := c.open(b.TempDir(), func(events.Rows, []events.Recorded) error { return nil }, MirrorWith(sqlite.Grouped(sqlite.DefaultGroups)))
			must(b, l.Wait(b.Context(), size-1))
			must(b, l.Close())
		}
		b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
	})
}
