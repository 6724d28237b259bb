package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"decklog/internal/runs"
)

// heard is what hook runs told of themselves.
type heard struct {
	runs    *prometheus.CounterVec
	took    *prometheus.HistogramVec
	strange prometheus.Counter
}

var outcomes = listed(runs.Outcomes())

func newHeard() heard {
	h := heard{
		runs: counter("decklog_hook_runs_total",
			"Hook runs on this machine that told of themselves, by harness and outcome; of many at once some may be missing. `decklog doctor` says what failed"+sinceStart, "harness", "outcome"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "decklog_hook_run_duration_seconds",
			Help: "Time that a hook run took, by outcome, without the millisecond or so in which the system starts its program.",
			// Nothing waiting takes a fraction of a millisecond, a delivery several, and a
			// run that is 3 s old leases nothing any more.
			Buckets: []float64{.00025, .0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2, 3, 5, 10},
		}, []string{"outcome"}),
		strange: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decklog_hook_reports_malformed_total", Help: "What came where hook runs tell of themselves, and was nothing that one tells" + sinceStart,
		}),
	}
	outcomes.each(func(o string) {
		h.took.WithLabelValues(o)
		harnesses.each(func(name string) { h.runs.WithLabelValues(name, o) })
	})
	return h
}

func (h heard) all() []prometheus.Collector {
	return []prometheus.Collector{h.runs, h.took, h.strange}
}

// HookRun notes what a hook run told of itself. With [Metrics.HookStrange] it is
// what a [runs.Listener] is given.
func (m *Metrics) HookRun(t runs.Told) {
	outcome := outcomes.of(string(t.Outcome))
	m.heard.runs.WithLabelValues(harnesses.of(t.Harness), outcome).Inc()
	m.took.WithLabelValues(outcome).Observe(t.Took.Seconds())
}

// HookStrange notes that something came where hook runs tell of themselves, and
// was nothing that one tells.
func (m *Metrics) HookStrange() { m.strange.Inc() }
