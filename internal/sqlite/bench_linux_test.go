package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"decklog/events"
)

// sent is a batch of one event of about 600 bytes with a body.
func sent(n int) events.Batch {
	text := strings.Repeat("what was said ", 20)
	command := events.KeyedCommand("@smith", fmt.Sprint(n))
	body := events.Body{Text: []byte(text), Fingerprint: events.FingerprintOf(text, fmt.Sprint(n))}
	return events.Batch{Stream: "thread-" + events.Stream(command.Thread()), Expected: events.NoStream, Time: events.Time(n),
		Events: []events.Proposed{{
			Stream: "thread-" + events.Stream(command.Thread()),
			ID:     command.Event(0),
			Actor:  "@smith",
			Cause:  events.Cause{Command: command},
			Event: events.MessageSent{Message: command.Message(), Thread: command.Thread(), Kind: events.KindMessage,
				Author: events.Author{ID: "@smith", Kind: events.KindSeat}, Intent: events.Request, Turn: events.Final,
				Addressed: "@trinity", Body: body.Commit(), Refs: []string{"src/main.go:10-20"},
				Deliveries: []events.Delivery{{To: "@trinity", State: events.StateQueued}}},
			Body: &body,
		}}}
}

// twoRows is what a small view writes for each event.
func twoRows(rows events.Rows, recorded []events.Recorded) error {
	for _, r := range recorded {
		if err := rows.Put("inbox/@trinity/"+fmt.Sprintf("%012d", r.Position), r.Data[:100]); err != nil {
			return err
		}
		if err := rows.Put("thread/"+string(r.Stream), r.Data[:100]); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkAppend makes one durable commit an operation; raw is the least that
// any such commit costs on this disk.
func BenchmarkAppend(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		record := make([]byte, 700)
		for b.Loop() {
			f.Write(record)
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, project := range map[string]events.Projector{"event": none, "event and two rows": twoRows} {
		b.Run(name, func(b *testing.B) {
			l, err := Open(filepath.Join(b.TempDir(), "ledger.db"), project)
			must(b, err)
			defer l.Close()
			n := 0
			for b.Loop() {
				n++
				if err := l.Update(func(tx events.Tx) error {
					_, err := tx.Append(sent(n))
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	keep, err := Open(path, none)
	if err != nil {
		b.Fatal(err)
	}
	defer keep.Close()
	for b.Loop() {
		l, err := Open(path, none)
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}

func BenchmarkScan(b *testing.B) {
	l := opened(b, filepath.Join(b.TempDir(), "ledger.db"), testOptions())
	const count = 20_000
	if err := l.Update(func(tx events.Tx) error {
		for n := range count {
			if _, err := tx.Append(sent(n)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for from := events.Position(1); from <= count; from += 1000 {
			if err := l.View(func(r events.Reader) error {
				page, err := r.All(from, 1000)
				if err == nil && len(page) != 1000 {
					err = fmt.Errorf("a page of %d", len(page))
				}
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "events/s")
}
