package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"decklog/events"
	"decklog/projections"
)

// OwedScanMax is how many open items are looked at for the oldest of their kind
// and for those that are due.
const OwedScanMax = 1000

// present is what is so when somebody asks: read from the views, in one look.
type present struct {
	m                                                  *Metrics
	readable, position, viewLag, followLag, size       *prometheus.Desc
	sessions, messages, mailboxes, openLeases, oldest  *prometheus.Desc
	owed, owedOverdue, owedPaged, owedOldest, openDone *prometheus.Desc
}

func newPresent(m *Metrics) *present {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("decklog_"+name, help, labels, nil)
	}
	oldest := fmt.Sprintf(" Looked for among the %d oldest open items.", OwedScanMax)
	return &present{
		m:           m,
		readable:    desc("ledger_readable", "Whether the ledger and its views could be read for this answer: 1 or 0. Where they could not, what comes from them is absent."),
		position:    desc("ledger_position", "Position of the ledger's last event."),
		viewLag:     desc("view_lag_events", "How many events the views are behind the ledger."),
		followLag:   desc("follow_lag_events", "How many events this process has yet to count, and to tell its subscribers of."),
		size:        desc("ledger_size_bytes", "What the ledger takes on its disk, its write-ahead log included."),
		sessions:    desc("sessions_live", "Sessions that joined and have not left."),
		messages:    desc("messages_waiting", "Copies of messages that lie in mailboxes."),
		mailboxes:   desc("mailboxes_waiting", "Mailboxes in which a message lies."),
		openDone:    desc("threads", "Threads, by state: open or done.", "state"),
		openLeases:  desc("leases_open", "Leases taken since this process began that were neither confirmed nor seen to end."),
		oldest:      desc("lease_oldest_age_seconds", "Age of the oldest of the open leases; 0 when there is none."),
		owed:        desc("owed_items", "Open items that somebody owes, by kind.", "kind"),
		owedOverdue: desc("owed_overdue_items", "Open items that are due, by kind."+oldest, "kind"),
		owedPaged:   desc("owed_paged_items", "Open items to which the owners were called, because reminders did not help, by kind."+oldest, "kind"),
		owedOldest:  desc("owed_oldest_age_seconds", "Age of the oldest open item, by kind; 0 when there is none."+oldest, "kind"),
	}
}

// Describe says what Collect gives.
func (p *present) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		p.readable, p.position, p.viewLag, p.followLag, p.size, p.sessions, p.messages, p.mailboxes, p.openDone, p.openLeases, p.oldest,
		p.owed, p.owedOverdue, p.owedPaged, p.owedOldest,
	} {
		to <- d
	}
}

// looked is what one look at the ledger gave.
type looked struct {
	end, views events.Position
	folded     bool // by this program's folds: the counts say something
	counts     projections.Counts
	owed       []projections.Owed
}

// Collect reads the ledger, and what this process keeps.
func (p *present) Collect(to chan<- prometheus.Metric) {
	now := p.m.config.Now()
	l, err := p.m.look()
	p.m.mu.Lock()
	seen, fed, open, age := p.m.seen, p.m.fed, len(p.m.open.running), p.m.open.age(now)
	p.m.mu.Unlock()
	to <- gauge(p.openLeases, float64(open))
	to <- gauge(p.oldest, age.Seconds())
	if p.m.config.Size != nil {
		if size, err := p.m.config.Size(); err == nil {
			to <- gauge(p.size, float64(size))
		}
	}
	if err != nil {
		to <- gauge(p.readable, 0)
		return
	}
	to <- gauge(p.readable, 1)
	to <- gauge(p.position, float64(l.end))
	to <- gauge(p.viewLag, float64(max(0, l.end-l.views)))
	if fed {
		to <- gauge(p.followLag, float64(max(0, l.end-seen)))
	}
	if !l.folded {
		return
	}
	to <- gauge(p.sessions, float64(l.counts.Live))
	to <- gauge(p.messages, float64(l.counts.Waiting))
	to <- gauge(p.mailboxes, float64(l.counts.Boxes))
	to <- gauge(p.openDone, float64(l.counts.Threads-l.counts.Done), "open")
	to <- gauge(p.openDone, float64(l.counts.Done), "done")
	p.debts(to, l, now)
}

func (p *present) debts(to chan<- prometheus.Metric, l looked, now events.Time) {
	for _, kind := range owedKinds {
		open := l.counts.Replies
		switch kind {
		case projections.OwedHandoff:
			open = l.counts.Handoffs
		case projections.OwedReview:
			open = l.counts.Reviews
		}
		var overdue, paged int
		age := 0.0
		for _, o := range l.owed {
			if o.Kind != kind {
				continue
			}
			age = max(age, now.Sub(o.Since).Seconds())
			if o.Due != nil && *o.Due <= now {
				overdue++
			}
			if o.Paged != nil {
				paged++
			}
		}
		to <- gauge(p.owed, float64(open), string(kind))
		to <- gauge(p.owedOverdue, float64(overdue), string(kind))
		to <- gauge(p.owedPaged, float64(paged), string(kind))
		to <- gauge(p.owedOldest, age, string(kind))
	}
}

// look reads what is so at present, in one snapshot: the ledger's end, one row of
// counts, and the oldest open items.
func (m *Metrics) look() (l looked, err error) {
	err = m.config.View(func(r events.Reader) (err error) {
		l = looked{}
		if l.end, err = r.End(); err != nil {
			return err
		}
		s := projections.On(r.Rows())
		l.views, l.folded = s.Position(), l.end == 0 || s.Fold() == projections.FoldVersion
		if l.folded {
			l.counts, l.owed = s.Counts(), s.OwedItems(nil, nil, OwedScanMax)
		}
		return s.Err()
	})
	return l, err
}
