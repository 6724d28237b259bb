package esdb

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

func TestServersOfOtherVersionsServeToo(t *testing.T) {
	for name, quirks := range map[string]esdbdouble.Quirks{
		"that say no position":           {NoPosition: true},
		"that say caught up barely":      {CaughtUp: esdbdouble.CaughtUpBare},
		"that never say caught up":       {CaughtUp: esdbdouble.CaughtUpNever},
		"that say nothing at all":        {CaughtUp: esdbdouble.CaughtUpNever, Checkpoints: esdbdouble.CheckpointsNever},
		"whose checkpoints are parked":   {Checkpoints: esdbdouble.CheckpointsParked},
		"whose checkpoints skip":         {Checkpoints: esdbdouble.CheckpointsAhead},
		"whose checkpoints are no place": {Checkpoints: esdbdouble.CheckpointsUnset},
		"that cannot be asked":           {Features: esdbdouble.FeaturesUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, esdbdouble.Config{Quirks: quirks})
			folder := t.TempDir()
			for i := range 3 {
				l := c.open(folder, count, quick)
				must(t, once(l, note("a", fmt.Sprint("a", i)), holding("b", fmt.Sprint("b", i), "text")))
				must(t, l.Close())
			}
			if e := same(t, c.open(folder, count), c.open(t.TempDir(), count)); len(e.Events) != 6 || len(e.Bodies) != 3 {
				t.Errorf("%d events, %d bodies", len(e.Events), len(e.Bodies))
			}
		})
	}
}

// Whoever led when an append was sent, and whoever leads when its answer is lost.
func TestLeadersComeAndGo(t *testing.T) {
	nodes, err := esdbdouble.StartCluster(esdbdouble.NewLog(), esdbdouble.Config{}, esdbdouble.Config{}, esdbdouble.Config{})
	must(t, err)
	t.Cleanup(nodes.Stop)
	open := func() *Ledger {
		a, err := Parse(nodes.Seeds() + "&views=" + filepath.Join(t.TempDir(), "views.db"))
		must(t, err)
		l, err := Open(a, count, quick)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	machines := []*Ledger{open(), open()}
	a := &acked{ids: map[events.EventID]bool{}}
	for round := range 6 {
		var working sync.WaitGroup
		struck := nodes.Leader().Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Answer, Skip: 2, Effect: func(c *esdbdouble.Call) error {
			nodes.Elect(nodes.Followers()[round%2])
			return esdbdouble.Cut()(c)
		}})
		for m, l := range machines {
			working.Go(func() { work(t, l, fmt.Sprintf("m%d-%d", m, round), 3, a) })
		}
		working.Wait()
		<-struck.Struck()
		for _, n := range nodes.Nodes() {
			n.Heal()
		}
	}
	a.kept(t, same(t, machines...))
}
