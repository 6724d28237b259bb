package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"decklog/events"
)

// The kinds of subscriber, and the reasons for which one is sent away, as who
// serves them says them. Whoever goes by itself, or has what it waited for, goes
// for another reason, and is not counted as dropped.
var (
	subscribers = listed([]string{"events", "wait"})
	drops       = listed([]string{"stalled", "token", "failed", "shutdown"})
)

// served is what the process tells of its own work.
type served struct {
	commitTime     prometheus.Histogram
	commitCommands prometheus.Histogram
	commitEvents   prometheus.Histogram
	subscribers    *prometheus.GaugeVec
	dropped        *prometheus.CounterVec
	requests       *prometheus.CounterVec
	requestTime    *prometheus.HistogramVec
	verify         *verified
}

func newServed() served {
	s := served{
		commitTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "decklog_commit_duration_seconds",
			Help: "Time that a commit of this process took until it was durable; in a cluster, from its first append until the views had all of it.",
			// One sync takes a third of a millisecond to a hundred; a cluster may be waited
			// for as long as a request is.
			Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2.5, 5, 10, 20},
		}),
		commitCommands: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "decklog_commit_commands", Help: "Commands that became durable together in one commit of this process; in a cluster each is one by itself.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
		commitEvents: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "decklog_commit_events", Help: "Events in one commit of this process.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		subscribers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "decklog_subscribers", Help: "Clients that wait for what happens in the ledger, by kind: events are streams of all that does.",
		}, []string{"kind"}),
		dropped:  counter("decklog_subscribers_dropped_total", "Subscribers that were sent away, by kind and reason: stalled took nothing for too long"+sinceStart, "kind", "reason"),
		requests: counter("decklog_http_requests_total", "Requests answered, by route, method and class of the status"+sinceStart, "route", "method", "code"),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "decklog_http_request_duration_seconds",
			Help:    "Time from a request's head to the end of its answer, by route. Routes that wait, or stream, take as long as they are asked to.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"route"}),
		verify: &verified{},
	}
	subscribers.each(func(kind string) {
		s.subscribers.WithLabelValues(kind)
		drops.each(func(reason string) { s.dropped.WithLabelValues(kind, reason) })
	})
	return s
}

func (s served) all() []prometheus.Collector {
	return []prometheus.Collector{s.commitTime, s.commitCommands, s.commitEvents, s.subscribers, s.dropped, s.requests, s.requestTime, s.verify}
}

// Commit notes a commit of this process: how many commands it made durable, with
// how many events, and how long it took.
func (m *Metrics) Commit(commands, events int, took time.Duration) {
	m.commitTime.Observe(took.Seconds())
	m.commitCommands.Observe(float64(commands))
	m.commitEvents.Observe(float64(events))
}

// Opened notes that a subscriber came. Closed is called once for each.
func (m *Metrics) Opened(kind string) { m.subscribers.WithLabelValues(subscribers.of(kind)).Inc() }

// Closed notes that a subscriber is no more, and why.
func (m *Metrics) Closed(kind, reason string) {
	kind = subscribers.of(kind)
	m.subscribers.WithLabelValues(kind).Dec()
	if drops[reason] {
		m.dropped.WithLabelValues(kind, reason).Inc()
	}
}

// Request notes an answered request. The route is the pattern that it matched, not
// its path.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	route = m.routes.of(route)
	class := classes.of(strconv.Itoa(status/100) + "xx")
	m.requests.WithLabelValues(route, methods.of(method), class).Inc()
	m.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

// Verified notes what an audit of the whole ledger found, and when it ended.
func (m *Metrics) Verified(faults int, at events.Time) { m.verify.set(faults, at) }

// verified is the last audit. Before the first there is nothing to tell.
type verified struct {
	mu     sync.Mutex
	faults int
	at     events.Time
	known  bool
}

var (
	verifyOK     = prometheus.NewDesc("decklog_verify_ok", "Whether the last audit of the whole ledger found nothing wrong: 1 or 0. Absent before the first of this process.", nil, nil)
	verifyFaults = prometheus.NewDesc("decklog_verify_faults", "What the last audit of the whole ledger found wrong; it names at most 100.", nil, nil)
	verifyTime   = prometheus.NewDesc("decklog_verify_timestamp_seconds", "When the last audit of the whole ledger ended, in seconds since the epoch.", nil, nil)
)

func (v *verified) set(faults int, at events.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults, v.at, v.known = faults, at, true
}

// Describe says what Collect gives.
func (v *verified) Describe(to chan<- *prometheus.Desc) {
	to <- verifyOK
	to <- verifyFaults
	to <- verifyTime
}

// Collect gives the last audit.
func (v *verified) Collect(to chan<- prometheus.Metric) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known {
		return
	}
	ok := 1.0
	if v.faults > 0 {
		ok = 0
	}
	to <- gauge(verifyOK, ok)
	to <- gauge(verifyFaults, float64(v.faults))
	to <- gauge(verifyTime, seconds(v.at))
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// seconds is a moment in seconds since the epoch.
func seconds(t events.Time) float64 { return float64(t) / 1e6 }
