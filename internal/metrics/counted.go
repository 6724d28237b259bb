package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"decklog/events"
)

// counted is what is counted from the ledger's events.
type counted struct {
	events       *prometheus.CounterVec
	sends        *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	deliveries   *prometheus.CounterVec
	redeliveries *prometheus.CounterVec
	undelivered  *prometheus.CounterVec
	moves        *prometheus.CounterVec
	confirms     prometheus.Histogram
}

const sinceStart = ", since this process began."

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func newCounted() counted {
	c := counted{
		events:       counter("decklog_events_total", "Events appended to the ledger by any process, by type"+sinceStart, "type"),
		sends:        counter("decklog_sends_total", "Messages sent, by intent"+sinceStart, "intent"),
		refusals:     counter("decklog_refusals_total", "Commands refused, by code, those that were only counted included"+sinceStart, "code"),
		deliveries:   counter("decklog_deliveries_total", "Items whose delivery was confirmed, by kind"+sinceStart, "kind"),
		redeliveries: counter("decklog_redeliveries_total", "Items offered again after a lease that ended unconfirmed, by kind"+sinceStart, "kind"),
		undelivered:  counter("decklog_undelivered_total", "Items given up or expired before anybody took them, by kind and reason"+sinceStart, "kind", "reason"),
		moves:        counter("decklog_driver_moves_total", "Threads that came to be driven by another seat, by the rule that names it; none: by no seat any more"+sinceStart, "source"),
		confirms: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "decklog_lease_confirm_delay_seconds",
			Help: "Time from a lease to its confirm, of leases taken" + sinceStart,
			// A hook run confirms in milliseconds; a lease lasts 10 s by default.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60},
		}),
	}
	// Series that are there from the start make the first of a kind an increase.
	types.each(func(t string) { c.events.WithLabelValues(t) })
	intents.each(func(i string) { c.sends.WithLabelValues(i) })
	codes.each(func(code string) { c.refusals.WithLabelValues(code) })
	sources.each(func(s string) { c.moves.WithLabelValues(s) })
	kinds.each(func(k string) {
		c.deliveries.WithLabelValues(k)
		c.redeliveries.WithLabelValues(k)
		reasons.each(func(r string) { c.undelivered.WithLabelValues(k, r) })
	})
	return c
}

func (c counted) all() []prometheus.Collector {
	return []prometheus.Collector{c.events, c.sends, c.refusals, c.deliveries, c.redeliveries, c.undelivered, c.moves, c.confirms}
}

// From says up to where the ledger had come when this process began: what lies
// there and before is not counted.
func (m *Metrics) From(at events.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.fed = max(m.seen, at), true
}

// Observe counts an event. They come in the ledger's order; one that was counted
// before, or lies before [Metrics.From], is passed over.
func (m *Metrics) Observe(r events.Recorded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Position <= m.seen {
		return
	}
	m.seen, m.fed = r.Position, true
	m.events.WithLabelValues(types.of(string(r.Type()))).Inc()
	switch e := r.Event.(type) {
	case events.MessageSent:
		m.sends.WithLabelValues(intents.of(string(e.Intent))).Inc()
	case events.CommandRefused:
		m.refusals.WithLabelValues(codes.of(e.Code)).Add(float64(max(1, e.Counted)))
	case events.MailboxLeased:
		m.open.lease(e.Lease, e.Mailbox, r.Time)
		for _, it := range e.Items {
			if it.Attempt > 1 {
				m.redeliveries.WithLabelValues(kinds.of(string(it.Kind))).Inc()
			}
		}
	case events.InstructionLeased:
		m.open.lease(e.Lease, e.Mailbox, r.Time)
	case events.MailboxConfirmed:
		m.confirmed(e.Lease, r.Time)
		for _, it := range e.Items {
			m.deliveries.WithLabelValues(kinds.of(string(it.Kind))).Inc()
		}
	case events.InstructionConfirmed:
		m.confirmed(e.Lease, r.Time)
	case events.LeaseExpired:
		m.open.end(e.Lease)
	case events.SessionLeft:
		m.open.endOf(events.Participant(e.Session)) // nobody may come any more to see them end
	case events.MessageExpired:
		m.undelivered.WithLabelValues(string(events.ItemMessage), string(events.LostExpired)).Inc()
	case events.MessageUndelivered:
		m.undelivered.WithLabelValues(kinds.of(string(e.Kind)), reasons.of(string(e.Reason))).Inc()
	case events.DriverMoved:
		source := "none"
		if e.To != "" {
			source = sources.of(e.Source)
		}
		m.moves.WithLabelValues(source).Inc()
	}
}

// confirmed notes how long a lease took; of one from before this process nobody knows.
func (m *Metrics) confirmed(id events.LeaseID, at events.Time) {
	if l, known := m.open.end(id); known {
		m.confirms.Observe(max(0, at.Sub(l.at)).Seconds())
	}
}

// followPage is how many events one look at the ledger gives.
const followPage = 500

// Followed is a ledger whose commits can be waited for.
type Followed interface {
	View(func(events.Reader) error) error
	// Wait returns nil as soon as the ledger has an event after this position.
	Wait(ctx context.Context, after events.Position) error
}

// Follow observes what is appended to a ledger from now on, by whichever process,
// until the context ends; then it returns nil. began, which may be nil, is called
// once it is known from where.
func (m *Metrics) Follow(ctx context.Context, l Followed, began func()) error {
	var at events.Position
	if err := l.View(func(r events.Reader) (err error) { at, err = r.End(); return err }); err != nil {
		return fmt.Errorf("follow the ledger: %w", err)
	}
	m.From(at)
	if began != nil {
		began()
	}
	for {
		switch err := l.Wait(ctx, at); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("follow the ledger: %w", err)
		}
		err := l.View(func(r events.Reader) error {
			page, err := r.All(at+1, followPage)
			for _, one := range page {
				m.Observe(one)
				at = one.Position
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("follow the ledger: %w", err)
		}
	}
}

// openLeases are the leases that were taken since this process began, and neither
// confirmed nor seen to have ended.
type openLeases struct {
	running map[events.LeaseID]leased
}

type leased struct {
	mailbox events.Participant
	at      events.Time
}

// openMax bounds how many are kept. Of more the oldest is forgotten, which is then
// counted neither as open nor by its time.
const openMax = 10_000

func (o *openLeases) lease(id events.LeaseID, of events.Participant, at events.Time) {
	if _, known := o.running[id]; known {
		return // one lease holds the instruction and messages
	}
	if len(o.running) >= openMax {
		delete(o.running, o.oldest())
	}
	o.running[id] = leased{of, at}
}

func (o *openLeases) end(id events.LeaseID) (leased, bool) {
	l, known := o.running[id]
	delete(o.running, id)
	return l, known
}

func (o *openLeases) endOf(mailbox events.Participant) {
	for id, l := range o.running {
		if l.mailbox == mailbox {
			delete(o.running, id)
		}
	}
}

// oldest is the lease that was taken first; empty when there is none.
func (o *openLeases) oldest() (first events.LeaseID) {
	for id, l := range o.running {
		if first == "" || l.at < o.running[first].at {
			first = id
		}
	}
	return first
}

// age is how long the oldest has been open; 0 when none is.
func (o *openLeases) age(now events.Time) time.Duration {
	first := o.oldest()
	if first == "" {
		return 0
	}
	return max(0, now.Sub(o.running[first].at))
}
