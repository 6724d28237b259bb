//go:build linux

package main

func folding() row {
	const memory = 250
	return row{
		name: "fold",
		lines: []line{
			{"fold in memory", "bare scan of the same rows", perSecond, atLeast(0.25)},
			{"rebuild into rows", "bare scan of the same rows", perSecond, atLeast(0.1)},
			{"fold in memory, peak memory", "bare scan", megabytes, atMost(memory)},
			{"rebuild into rows, peak memory", "bare scan", megabytes, atMost(memory)},
		},
		begin: func(b *bench) (round, error) {
			m, err := b.ledger(b.events)
			if err != nil {
				return nil, err
			}
			return func() ([]sample, error) {
				var speed, peak []sample
				for _, work := range []string{"fold", "rebuild"} {
					scan, err := b.work("scan", m.path)
					if err != nil {
						return nil, err
					}
					told, err := b.work(work, m.path)
					if err != nil {
						return nil, err
					}
					if told.Count != scan.Count {
						return nil, errNothing
					}
					n := float64(told.Count)
					speed = append(speed, sample{measured: n / told.Seconds, reference: n / scan.Seconds})
					peak = append(peak, sample{measured: told.PeakMB, reference: scan.PeakMB})
				}
				return append(speed, peak...), nil
			}, nil
		},
	}
}
