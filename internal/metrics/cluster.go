package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"decklog/events"
)

// cluster is how a ledger stands towards the cluster that it lies in, asked when
// somebody asks. Of a ledger that lies in none there is nothing to tell.
type cluster struct {
	m                                               *Metrics
	live, ended, behind, behindEvents, heard        *prometheus.Desc
	place, log, unsent, undropped, rebuilding       *prometheus.Desc
	connected, subscriptionsDropped, retried, moved *prometheus.Desc
}

func newCluster(m *Metrics) *cluster {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("decklog_cluster_"+name, help, nil, nil)
	}
	return &cluster{
		m:                    m,
		live:                 desc("live", "Whether the views had everything that the ledger's cluster has, moments ago, and are told of what comes: 1 or 0. Without a cluster this and all that follows is absent."),
		ended:                desc("ended", "Whether the views will not come alive by themselves: 1 or 0. decklog doctor says why."),
		behind:               desc("behind_seconds", "Time since the views were last known to have everything; 0 while they are live, absent before they first were."),
		behindEvents:         desc("behind_events", "Events that came from the cluster and are not in the views yet. How many have not come nobody can tell: absent while the views are not live."),
		heard:                desc("heard_timestamp_seconds", "When the cluster last answered or told anything, in seconds since the epoch; absent before it first did."),
		place:                desc("place_bytes", "How far the views are in the cluster's log, in that log's bytes."),
		log:                  desc("log_bytes", "Where the cluster's log ended when it was last asked, in its bytes, whoever wrote there; absent before it first answered."),
		unsent:               desc("unsent_commands", "Commands of which a part is recorded and the rest is still to be sent, or that are being sent."),
		undropped:            desc("undropped_bodies", "Bodies that were taken back, or whose events were never recorded, and that the cluster still has."),
		rebuilding:           desc("rebuilding", "Whether the views are being made anew: 1 or 0."),
		connected:            desc("connections_total", "Connections to the cluster that this process began"+sinceStart),
		subscriptionsDropped: desc("subscriptions_dropped_total", "How often the subscription by which the views are told ended"+sinceStart),
		retried:              desc("append_retries_total", "Appends that were tried again because nobody knew what had become of them"+sinceStart),
		moved:                desc("append_conflicts_total", "Appends that others were quicker than, and that were decided anew"+sinceStart),
	}
}

// Describe says what Collect gives.
func (c *cluster) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.live, c.ended, c.behind, c.behindEvents, c.heard, c.place, c.log, c.unsent, c.undropped, c.rebuilding,
		c.connected, c.subscriptionsDropped, c.retried, c.moved,
	} {
		to <- d
	}
}

// Collect gives how it stands.
func (c *cluster) Collect(to chan<- prometheus.Metric) {
	if c.m.config.Lag == nil {
		return
	}
	lag, is := c.m.config.Lag()
	if !is {
		return
	}
	to <- gauge(c.live, one(lag.Live))
	to <- gauge(c.ended, one(lag.Ended))
	if lag.Behind >= 0 {
		to <- gauge(c.behind, lag.Behind.Seconds())
	}
	if lag.Live {
		to <- gauge(c.behindEvents, float64(lag.Waiting))
	}
	if lag.Heard >= 0 {
		to <- gauge(c.heard, seconds(c.m.config.Now()-events.Time(lag.Heard/time.Microsecond)))
	}
	to <- gauge(c.place, float64(lag.Place))
	if lag.Heard >= 0 {
		to <- gauge(c.log, float64(lag.LogEnd))
	}
	if lag.Unsent >= 0 && lag.Undropped >= 0 {
		to <- gauge(c.unsent, float64(lag.Unsent))
		to <- gauge(c.undropped, float64(lag.Undropped))
	}
	to <- gauge(c.rebuilding, one(lag.Rebuilding))
	for d, n := range map[*prometheus.Desc]int64{c.connected: lag.Connected, c.subscriptionsDropped: lag.Dropped, c.retried: lag.Retried, c.moved: lag.Conflicts} {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
