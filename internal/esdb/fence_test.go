package esdb

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

func TestEveryCallSaysThatOnlyALeaderMayAnswer(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	var mu sync.Mutex
	asked := map[string]bool{}
	c.Inject(esdbdouble.Fault{Point: esdbdouble.Begin, Times: esdbdouble.Always, Effect: func(call *esdbdouble.Call) error {
		if call.Name == esdbdouble.Features {
			return nil // the client's own, before it has anything to ask
		}
		what := call.Name
		if at, has := call.Deadline(); call.Name == esdbdouble.Read && has && time.Until(at) > time.Hour {
			what = "Subscribe"
		}
		mu.Lock()
		defer mu.Unlock()
		asked[what] = true
		if values := metadata.ValueFromIncomingContext(call, "requires-leader"); len(values) != 1 || values[0] != "true" {
			t.Errorf("%s of %q says requires-leader %q", what, call.Stream, values)
		}
		return nil
	}})
	here, there := c.open(t.TempDir(), count, brisk), c.open(t.TempDir(), count)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.a", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("a", "between"))) // so that a stream's end is read
	})})
	must(t, once(here, holding("a", "1", "goes")))
	drop := note("a", "2")
	drop.Drops = []events.EventID{"1"}
	must(t, once(here, drop))
	looks(t, here, 1)
	becomes(t, here, func(lag events.Lag) bool { return lag.Undropped == 0 })
	mu.Lock()
	defer mu.Unlock()
	for _, what := range []string{esdbdouble.Append, esdbdouble.Read, "Subscribe", esdbdouble.Tombstone} {
		if !asked[what] {
			t.Errorf("there was no %s", what)
		}
	}
}

// Whatever node an address names, and however far that one is behind, what is read is
// what the leader has.
func TestAMachineThatFindsAFollowerFirstReadsWhatTheLeaderHas(t *testing.T) {
	nodes, err := esdbdouble.StartCluster(esdbdouble.NewLog(), esdbdouble.Config{}, esdbdouble.Config{}, esdbdouble.Config{})
	must(t, err)
	t.Cleanup(nodes.Stop)
	open := func(url string) *Ledger {
		a, err := Parse(url + "&views=" + filepath.Join(t.TempDir(), "views.db"))
		must(t, err)
		l, err := Open(a, count, quick)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	follower := nodes.Followers()[0]
	follower.Lag()
	there := open(nodes.Leader().URL())
	must(t, once(there, note("a", "1")))
	here := open(follower.URL())
	reaches(t, here, 1)
	must(t, once(there, note("a", "2")))
	must(t, once(here, note("a", "3")))
	same(t, here, there)
}

// A server may tell of an event again. It is there once.
func TestWhatIsToldAgainIsBroughtOnce(t *testing.T) {
	c := start(t, esdbdouble.Config{Quirks: esdbdouble.Quirks{Repeats: true}})
	here, there := c.open(t.TempDir(), count, quick), c.open(t.TempDir(), count, quick)
	for i := range 5 {
		must(t, once(here, note("a", string(rune('a'+i))), holding("b", "b"+string(rune('a'+i)), "text")))
		reaches(t, there, events.Position(2*i+2))
		c.DropSubscriptions(esdbdouble.NotReady())
	}
	if e := same(t, here, there); len(e.Events) != 10 || len(e.Bodies) != 5 {
		t.Errorf("%d events and %d bodies", len(e.Events), len(e.Bodies))
	}
}

// strange answers each read with what the client has no word for.
type strange struct {
	streams.UnimplementedStreamsServer
}

func (strange) Read(_ *streams.ReadReq, to streams.Streams_ReadServer) error {
	return to.Send(&streams.ReadResp{Content: &streams.ReadResp_FirstStreamPosition{}})
}

func TestAPanicOfTheClientIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	streams.RegisterStreamsServer(server, strange{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	f := newFence(t.Context(), "esdb://"+l.Addr().String()+"?tls=false")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if e, err := f.last(ctx, "s"); e != nil || err == nil || !strings.Contains(err.Error(), "panicked") || kindOf(err) != client.ErrorCodeUnknown {
		t.Errorf("got %v, %v", e, err)
	}
	f.close()
	f.calls.Wait()
}
