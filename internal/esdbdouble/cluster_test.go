package esdbdouble_test

import (
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"decklog/internal/esdbdouble"
)

func three(t *testing.T) (*esdbdouble.Cluster, *esdbdouble.Log) {
	t.Helper()
	l := esdbdouble.NewLog()
	c, err := esdbdouble.StartCluster(l, esdbdouble.Config{}, esdbdouble.Config{}, esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c, l
}

func TestGossipLeadsAClientToTheLeader(t *testing.T) {
	cluster, _ := three(t)
	for _, leader := range cluster.Nodes() {
		cluster.Elect(leader)
		before := leader.Calls(esdbdouble.Append)
		dial(t, cluster.Seeds()).append("s", esdb.Any{}, "by seeds "+leader.Address())
		for _, seed := range cluster.Nodes() {
			dial(t, cluster.Discover(seed)).append("s", esdb.Any{}, "by "+seed.Address()+" to "+leader.Address())
		}
		if n := leader.Calls(esdbdouble.Append) - before; n != 4 {
			t.Errorf("%d of 4 appends came to the leader", n)
		}
	}
}

func TestAFollowerHandsOnWhatIsNotForALeaderOnly(t *testing.T) {
	cluster, l := three(t)
	follower := cluster.Followers()[0]
	c := dial(t, follower.URL())
	c.append("s", esdb.NoStream{}, "a")
	c.append("s", esdb.NoStream{}, "a")
	if _, err := c.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Revision(0)}); err != nil {
		t.Fatal(err)
	}
	if n := cluster.Leader().Calls(esdbdouble.Append); n != 0 {
		t.Errorf("%d calls came to the leader over the network", n)
	}

	cluster.Leader().Stop()
	_, err := c.try("s", esdb.NoStream{}, "b")
	c.wants(err, esdb.ErrorAborted)
	cluster.Elect(nil)
	_, err = c.try("s", esdb.NoStream{}, "b")
	c.wants(err, esdb.ErrorUnavailable)
	cluster.Elect(follower)
	c.append("s", esdb.NoStream{}, "b")
	if n := len(l.Events("s")); n != 2 {
		t.Errorf("%d events", n)
	}
}

// What a leader remembers of the events that it wrote, the next does not.
func TestAnElectionLosesTheMemoryOfIDs(t *testing.T) {
	cluster, l := three(t)
	c := dial(t, cluster.Nodes()[2].URL())
	c.append("s", esdb.Any{}, "a")
	c.append("s", esdb.Any{}, "a")
	cluster.Elect(cluster.Nodes()[1])
	c.append("s", esdb.Any{}, "a")
	if n := len(l.Events("s")); n != 2 {
		t.Errorf("%d events", n)
	}
}

func appendTo(t *testing.T, s *esdbdouble.Server, header ...string) (metadata.MD, error) {
	t.Helper()
	var trailers metadata.MD
	ctx := metadata.AppendToOutgoingContext(t.Context(), header...)
	stream, err := raw(t, s).Append(ctx, grpc.Trailer(&trailers))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&streams.AppendReq{Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{
		StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte("s")},
		ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
	}}}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.CloseAndRecv()
	return trailers, err
}

func TestAFollowerNamesTheLeaderToOneWhoWantsOnlyThat(t *testing.T) {
	cluster, _ := three(t)
	trailers, err := appendTo(t, cluster.Followers()[0], "requires-leader", "true")
	host, port := trailers.Get("leader-endpoint-host"), trailers.Get("leader-endpoint-port")
	if status.Code(err) != codes.NotFound || len(host) != 1 || host[0]+":"+port[0] != cluster.Leader().Address() {
		t.Errorf("%v, %v", err, trailers)
	}
	if _, err := appendTo(t, cluster.Leader(), "requires-leader", "true"); err != nil {
		t.Error(err)
	}
}

// The client does not say that it wants a leader only, so that a server must be
// told to refuse it; and it must have sent all of an append, as a real server
// waits for, else it sees the end of the call and not the reason.
func TestAClientThatIsSentToTheLeaderGoesThere(t *testing.T) {
	cluster, _ := three(t)
	host, port := "127.0.0.1", 0
	for _, m := range members(t, cluster.Nodes()[0]) {
		if m.State == gossip.MemberInfo_Leader {
			host, port = m.HttpEndPoint.Address, int(m.HttpEndPoint.Port)
		}
	}
	follower := cluster.Followers()[0]
	follower.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.NotLeader(host, port))})
	c := dial(t, follower.URL())
	_, err := c.try("s", esdb.NoStream{}, "a")
	c.wants(err, esdb.ErrorCodeNotLeader)
	c.append("s", esdb.NoStream{}, "a")
	if n := cluster.Leader().Calls(esdbdouble.Append); n != 1 {
		t.Errorf("%d appends came to the leader", n)
	}
}

func members(t *testing.T, s *esdbdouble.Server) []*gossip.MemberInfo {
	t.Helper()
	conn, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	info, err := gossip.NewGossipClient(conn).Read(t.Context(), &shared.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return info.Members
}

func TestGossipMayBeMistaken(t *testing.T) {
	cluster, _ := three(t)
	one, two := cluster.Nodes()[0], cluster.Nodes()[1]
	one.SetGossip(func(all []*gossip.MemberInfo) []*gossip.MemberInfo {
		all[0].State, all[1].State = all[1].State, all[0].State
		return all
	})
	dial(t, cluster.Discover(one)).append("s", esdb.NoStream{}, "a")
	if two.Calls(esdbdouble.Append) != 1 {
		t.Error("the append went to who leads, and not to who was said to")
	}

	cluster.Nodes()[2].Stop()
	one.SetGossip(nil)
	alive := 0
	for _, m := range members(t, one) {
		if m.IsAlive {
			alive++
		}
	}
	if alive != 2 {
		t.Errorf("%d nodes are said to live", alive)
	}
	dial(t, cluster.Seeds()).append("s", esdb.Revision(0), "b")
}

func TestAFollowerMayLag(t *testing.T) {
	cluster, _ := three(t)
	follower := cluster.Followers()[0]
	leads, follows := dial(t, cluster.Leader().URL()), dial(t, follower.URL())
	leads.append("s", esdb.NoStream{}, "a")
	sub := follows.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}})
	sub.wants("caught up")
	follower.Lag()
	follows.append("s", esdb.Revision(0), "b") // which the leader writes
	leads.same(leads.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a", "s 1 b"})
	leads.same(follows.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a"})
	got, _, err := follows.drain(follows.ReadAll(t.Context(), esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, 1))
	follows.wants(err, -1)
	follows.same(got, []string{"s 0 a"})
	if _, err := leads.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{}); err != nil {
		t.Fatal(err)
	}
	leads.same(follows.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 a"})

	follower.CatchUp()
	sub.wants("s 1", "$$s 0")
	_, _, err = follows.drain(follows.ReadStream(t.Context(), "s", esdb.ReadStreamOptions{}, 1))
	follows.wants(err, esdb.ErrorCodeResourceNotFound)
}

func TestAnElectionFallsBetweenAnyTwoStepsOfAnAppend(t *testing.T) {
	for _, at := range []esdbdouble.Point{esdbdouble.Begin, esdbdouble.Message, esdbdouble.Commit, esdbdouble.Answer} {
		cluster, l := three(t)
		next := cluster.Nodes()[1]
		c := dial(t, cluster.Seeds())
		cluster.Leader().Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: at, Effect: esdbdouble.Do(func() { cluster.Elect(next) })})
		if _, err := c.try("s", esdb.NoStream{}, "a"); err != nil {
			c.wants(err, esdb.ErrorAborted)
			c.append("s", esdb.NoStream{}, "a")
		}
		if n := len(l.Events("s")); n != 1 {
			t.Errorf("point %d: %d events", at, n)
		}
	}
}
