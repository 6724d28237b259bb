// Package metrics tells Prometheus how a `decklog serve` and its ledger fare:
// what was sent, refused, delivered and lost, what is owed, how hook runs went,
// how long commits take, and who listens.
//
// What happened in the ledger is counted from its events, those of other
// processes on the same file included, and from the moment on at which this
// process began: a counter begins at 0 with each process, as Prometheus expects.
// What is so at present is read from the views when somebody asks, by rows that
// are found without going through the ledger.
//
// A label has a value out of a closed list; whatever else turns up counts as
// `other`, so that nobody can make series without end. No name of a session, a
// person, a seat or a thread is in any of it, and nothing that anybody wrote.
//
// Beside the package, in board, lie a dashboard for Grafana and rules for
// Prometheus that make alerts of these metrics. The package knows nothing of who
// may ask: that is for whoever serves it.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"decklog/events"
)

// Config is what the metrics are given by their surroundings.
type Config struct {
	// View reads the ledger, once for each time that somebody asks.
	View func(func(events.Reader) error) error
	Now  func() events.Time
	// Lag is how the ledger stands towards the cluster that it lies in; false where it
	// lies in none. It may be nil.
	Lag func() (events.Lag, bool)
	// Size is how many bytes the ledger takes on its disk. Nil: nobody can tell.
	Size func() (int64, error)
	// Routes are the patterns by which requests are counted, such as
	// "POST /v1/messages".
	Routes []string
	// Version, Commit and Go are of the program.
	Version, Commit, Go string
}

// Metrics are those of one serving process. Any number of goroutines may use
// them.
type Metrics struct {
	registry *prometheus.Registry
	config   Config
	routes   words
	counted
	served
	heard

	mu   sync.Mutex // over what follows
	seen events.Position
	fed  bool // seen says something
	open openLeases
}

// scrapesMax is how many may ask at once; one more is told to come again.
const scrapesMax = 4

// scrapeWithin bounds one answer. Prometheus itself gives up after 10 s.
const scrapeWithin = 9 * time.Second

// New makes the metrics of this process, in a registry of their own.
func New(c Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), config: c, routes: listed(c.Routes),
		open: openLeases{running: map[events.LeaseID]leased{}},
	}
	m.counted, m.served, m.heard = newCounted(), newServed(), newHeard()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "decklog_build_info", Help: "Which decklog this is; always 1.",
		ConstLabels: prometheus.Labels{"version": c.Version, "commit": c.Commit, "goversion": c.Go},
	})
	build.Set(1)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	m.registry.MustRegister(m.counted.all()...)
	m.registry.MustRegister(m.served.all()...)
	m.registry.MustRegister(m.heard.all()...)
	m.registry.MustRegister(newPresent(m), newCluster(m))
	return m
}

// Handler answers with the metrics in the text form of Prometheus or OpenMetrics,
// as it is asked. It knows nothing of tokens.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: scrapesMax, Timeout: scrapeWithin,
	})
}
