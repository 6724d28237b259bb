//go:build linux

package main

import (
	"fmt"
	"strconv"
	"time"

	"decklog/internal/ops"
)

const asks = 50 // in a round, of each ledger

func threadAt() row {
	return row{
		name:  "thread-at",
		lines: []line{{"thread --at, 100 events, in the large ledger", "in 1,000 events", seconds, atMost(1.5)}},
		begin: func(b *bench) (round, error) {
			return b.inBoth(func(m *made) error {
				at := strconv.FormatInt(int64(m.end), 10)
				view, refused, err := m.ops.Thread(ops.ThreadRequest{ID: string(m.hundred), At: at})
				if err == nil && refused == nil && len(view.Messages) == 0 {
					err = errNothing
				}
				return settled(refused, err)
			})
		},
	}
}

func queries() row {
	return row{
		name: "query",
		lines: []line{
			{"pending query, in the large ledger", "in 1,000 events", seconds, atMost(1.5)},
			{"inbox page, in the large ledger", "in 1,000 events", seconds, atMost(1.5)},
			{"owed page, in the large ledger", "in 1,000 events", seconds, atMost(1.5)},
			{"page of threads, in the large ledger", "in 1,000 events", seconds, atMost(1.5)},
		},
		begin: func(b *bench) (round, error) {
			return b.inBoth(
				func(m *made) error {
					waits, err := m.ops.Waits(ops.LeaseRequest{Asker: ops.Asker{As: string(m.probe)}})
					if err == nil && !waits {
						err = errNothing
					}
					return err
				},
				func(m *made) error {
					page, refused, err := m.ops.Inbox(ops.InboxRequest{As: string(m.probe)})
					if err == nil && refused == nil && len(page.Messages) != ops.InboxDefault {
						err = errNothing
					}
					return settled(refused, err)
				},
				func(m *made) error {
					view, refused, err := m.ops.Owed(ops.OwedRequest{By: string(m.probe)})
					if err == nil && refused == nil && len(view.Items) != owedByProbe {
						err = fmt.Errorf("%d items are owed, not %d", len(view.Items), owedByProbe)
					}
					return settled(refused, err)
				},
				func(m *made) error {
					page, refused, err := m.ops.Threads(ops.ThreadsRequest{Limit: 5})
					if err == nil && refused == nil && len(page.Threads) != 5 {
						err = errNothing
					}
					return settled(refused, err)
				},
			)
		},
	}
}

// inBoth gives the round in which the large and the small ledger are asked in turn.
func (b *bench) inBoth(questions ...func(*made) error) (round, error) {
	var both []*made
	for _, count := range []int{b.events, smallEvents} {
		m, err := b.ledger(count)
		if err != nil {
			return nil, err
		}
		both = append(both, m)
	}
	for _, ask := range questions { // once without the clock: statements are prepared, pages are read
		for _, m := range both {
			if err := ask(m); err != nil {
				return nil, err
			}
		}
	}
	return func() (samples []sample, err error) {
		for _, ask := range questions {
			var times [2][]float64
			for range asks {
				for i, m := range both {
					began := time.Now()
					if err := ask(m); err != nil {
						return nil, err
					}
					times[i] = append(times[i], time.Since(began).Seconds())
				}
			}
			samples = append(samples, sample{measured: median(times[0]), reference: median(times[1])})
		}
		return samples, nil
	}, nil
}
