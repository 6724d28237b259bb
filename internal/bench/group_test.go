//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// The views that groups write are those that the events make, also where a fold
// that one member failed with was the next one's, and another appends alone.
func TestTheViewsOfGroupsAreWhatTheEventsMakeOfThem(t *testing.T) {
	const size, rounds = 24, 6
	path := filepath.Join(t.TempDir(), "ledger.db")
	grouped, err := openTogether(path, size)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := openTogether(path, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := grouped.each(grouped.joins); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	if err := grouped.each(func(session string) error {
		c := grouped
		if session == grouped.sessions[0] {
			c = alone
		}
		for n := range rounds {
			if _, refused, err := c.ops.Send(messageTo(session, c.sessions[n])); session != c.sessions[n] {
				if err := settled(refused, err); err != nil {
					return err
				}
			}
			if err := c.ledger.Update(func(tx events.Tx) error {
				s := projections.On(tx.Rows())
				if s.Session(events.SessionID(session)) == nil {
					return errNothing
				}
				// A member that fails leaves neither its rows nor its fold.
				if err := tx.Rows().Put("checkpoint", []byte(`{"position":1,"fold":1}`)); err != nil {
					return err
				}
				return mine
			}); err != mine {
				return fmt.Errorf("update gave %w", err)
			}
			if err := drain(c.ops, session); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := alone.ledger.Close(); err != nil {
		t.Error(err)
	}
	audited, err := grouped.ops.Verify()
	if err != nil || !audited.OK || audited.Checked == 0 {
		t.Errorf("verify: %+v, %v", audited, err)
	}
	if err := grouped.ledger.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkSends is what a ledger takes of so many goroutines that send at once.
func BenchmarkSends(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			var groups, in atomic.Int64
			c, err := openTogether(filepath.Join(b.TempDir(), "ledger.db"), 1000, sqlite.OnCommit(func(members, events int, took time.Duration) {
				groups.Add(1)
				in.Add(int64(took))
			}))
			if err != nil {
				b.Fatal(err)
			}
			defer c.ledger.Close()
			if err := c.join(); err != nil {
				b.Fatal(err)
			}
			var n atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			groups.Store(0)
			var before, after unix.Rusage
			unix.Getrusage(unix.RUSAGE_SELF, &before)
			in.Store(0)
			for range writers {
				all.Go(func() {
					for i := int(n.Add(1)); i <= b.N; i = int(n.Add(1)) {
						_, refused, err := c.ops.Send(messageTo(c.sessions[i%len(c.sessions)], c.sessions[(i+1)%len(c.sessions)]))
						if err := settled(refused, err); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N)/1e3, "cpu-us/send")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
			b.ReportMetric(float64(b.N)/float64(groups.Load()), "sends/commit")
			b.ReportMetric(float64(in.Load())/float64(groups.Load())/1e3, "us/commit")
		})
	}
}
