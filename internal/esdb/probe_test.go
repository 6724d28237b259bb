package esdb

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
)

// probed asks a server for everything, and gives what did not hold, and what was
// noted, by what was asked.
func probed(t *testing.T, url string) (p *Probe, faults, notes map[string]string) {
	t.Helper()
	a, err := Parse(url)
	must(t, err)
	p, err = NewProbe(t.Context(), a)
	must(t, err)
	t.Cleanup(p.Close)
	faults, notes = map[string]string{}, map[string]string{}
	for _, promise := range p.Promises() {
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		note, err := promise.Holds(ctx)
		end()
		if err != nil {
			faults[promise.Says] = err.Error()
		}
		notes[promise.Says] = note
	}
	return p, faults, notes
}

func TestADoubleKeepsWhatAServerHasToKeep(t *testing.T) {
	for name, quirks := range map[string]esdbdouble.Quirks{
		"the newest":                     {},
		"that say no position":           {NoPosition: true},
		"that say caught up barely":      {CaughtUp: esdbdouble.CaughtUpBare},
		"that say nothing at all":        {CaughtUp: esdbdouble.CaughtUpNever, Checkpoints: esdbdouble.CheckpointsNever},
		"whose checkpoints are parked":   {Checkpoints: esdbdouble.CheckpointsParked},
		"whose checkpoints skip":         {Checkpoints: esdbdouble.CheckpointsAhead},
		"whose checkpoints are no place": {Checkpoints: esdbdouble.CheckpointsUnset},
		"that cannot be asked":           {Features: esdbdouble.FeaturesUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, esdbdouble.Config{Quirks: quirks})
			p, faults, notes := probed(t, c.URL())
			for says, why := range faults {
				t.Errorf("%s: %s", says, why)
			}
			if silent := quirks.CaughtUp == esdbdouble.CaughtUpNever; silent != (notes["a subscription says when it has caught up"] != "") {
				t.Errorf("noted: %v", notes)
			}
			cleaned(t, c, p)
		})
	}
}

// cleaned takes away what was made, and finds that nobody's ledger has any of it, nor
// any stream under the probe's prefix an event.
func cleaned(t *testing.T, c cluster, p *Probe) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	streams, err := p.Clean(ctx)
	must(t, err)
	if streams == 0 {
		t.Error("nothing was taken away")
	}
	for _, name := range []string{"reads-back", "whole", "body", "large"} {
		if last, err := p.fence.last(ctx, p.stream(name)); err != nil || last != nil {
			t.Errorf("%s is there: %v, %v", name, last, err)
		}
		if err := p.append(ctx, p.stream(name), expectation(events.NoStream), checked("again")); err == nil {
			t.Errorf("%s can be written", name)
		}
	}
	if again, err := p.Clean(ctx); err != nil || again != streams {
		t.Errorf("cleaned again: %d streams, not %d: %v", again, streams, err)
	}
}

func TestAFollowerSendsOnWhatOnlyTheLeaderMayAnswer(t *testing.T) {
	nodes, err := esdbdouble.StartCluster(esdbdouble.NewLog(), esdbdouble.Config{}, esdbdouble.Config{}, esdbdouble.Config{})
	must(t, err)
	t.Cleanup(nodes.Stop)
	_, faults, notes := probed(t, nodes.Seeds())
	if note := notes["what only the leader may answer is answered by it"]; len(faults) > 0 || note != "a follower sent it on" {
		t.Errorf("%v, noted %q", faults, note)
	}
}

// Each server breaks one promise, and the probe says which and why.
func TestWhatAServerDoesNotKeepIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		config      esdbdouble.Config
		fault       *esdbdouble.Fault
		breaks, why string
	}{
		"takes little at once": {config: esdbdouble.Config{AppendBytesMax: 500_000}, breaks: "an append of 1 MiB is taken, as decklog counts it", why: "1048576 bytes"},
		"ends no stream": {fault: &esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Begin, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.AccessDenied())},
			breaks: "a stream that is ended is gone for ever, as a body is that was taken back", why: "Access Denied"},
		"gives no $all page": {fault: &esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Skip: 30, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.NotReady())},
			breaks: "one subscription tells of every event under a prefix once, in the log's order, and of no other", why: "the subscription ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, c.config)
			if c.fault != nil {
				server.Inject(*c.fault)
			}
			_, faults, _ := probed(t, server.URL())
			if !strings.Contains(faults[c.breaks], c.why) {
				t.Errorf("it says %v", faults)
			}
		})
	}
}

func TestAProbeThatMayNotAskSaysSo(t *testing.T) {
	locked := start(t, esdbdouble.Config{Users: []esdbdouble.User{{Name: "ops", Password: "secret", Admin: true}}})
	a, err := Parse(locked.URL())
	must(t, err)
	if _, err := NewProbe(t.Context(), a); failure.Of(err).Code != "access_denied" {
		t.Errorf("without a user: %v", err)
	}
}

// What a probe makes comes to no ledger.
func TestAProbeKeepsAwayFromTheLedgerOfItsAddress(t *testing.T) {
	for _, prefix := range []string{"dl.", "engine-check.", "e."} {
		a := start(t, esdbdouble.Config{}).address(t.TempDir())
		a.Prefix = prefix
		l, err := Open(a, count)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		p, err := NewProbe(t.Context(), a)
		must(t, err)
		_, err = p.Promises()[0].Holds(t.Context())
		must(t, err)
		own, err := Open(p.Ledger("one", filepath.Join(t.TempDir(), "views.db")), count)
		must(t, err)
		must(t, once(own, note("a", "of "+prefix)))
		must(t, own.Close())
		p.Close()
		must(t, once(l, note("b", prefix)))
		if e := everything(t, l); len(e.Events) != 1 {
			t.Errorf("the ledger of %s has %d events", prefix, len(e.Events))
		}
	}
}
