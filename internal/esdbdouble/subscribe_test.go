package esdbdouble_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"decklog/internal/esdbdouble"
)

// subscription is one with what came over it, in words.
type subscription struct {
	*esdb.Subscription
	c    client
	last esdb.Position // of the last event or checkpoint
}

// prefixes is the filter that decklog uses: two kinds of streams.
func prefixes() *esdb.SubscriptionFilter {
	return &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"dl.thread-", "dl.seat-"}}
}

func (c client) subscribe(o esdb.SubscribeToAllOptions) *subscription {
	c.t.Helper()
	ctx, end := context.WithCancel(c.t.Context())
	s, err := c.SubscribeToAll(ctx, o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(end)
	return &subscription{Subscription: s, c: c}
}

// next waits for the next thing that comes.
func (s *subscription) next() string {
	switch e := s.Recv(); {
	case e.EventAppeared != nil:
		o := e.EventAppeared.OriginalEvent()
		s.last = o.Position
		return fmt.Sprintf("%s %d", o.StreamID, o.EventNumber)
	case e.CheckPointReached != nil:
		s.last = *e.CheckPointReached
		return "checkpoint"
	case e.CaughtUp != nil:
		return "caught up"
	case e.SubscriptionDropped != nil:
		return "dropped: " + status.Code(e.SubscriptionDropped.Error).String()
	default:
		return "something else"
	}
}

func (s *subscription) wants(want ...string) {
	s.c.t.Helper()
	for _, w := range want {
		if got := s.next(); got != w {
			s.c.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestASubscriptionCatchesUpAndGoesOnLive(t *testing.T) {
	c, _, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a", "b")
	c.append("other-1", esdb.NoStream{}, "x")
	c.append("dl.seat-1", esdb.NoStream{}, "c")

	s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes()})
	s.wants("dl.thread-1 0", "dl.thread-1 1", "dl.seat-1 0", "checkpoint", "caught up")
	c.append("other-1", esdb.Revision(0), "y")
	c.append("dl.thread-1", esdb.Revision(1), "d")
	s.wants("dl.thread-1 2")
}

func TestAFilterIsOfStreamsOrTypesByPrefixOrExpression(t *testing.T) {
	c, _, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a")
	c.append("other-1", esdb.NoStream{}, "b")
	for _, of := range []struct {
		filter *esdb.SubscriptionFilter
		want   []string
	}{
		{&esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: `^dl\.`}, []string{"dl.thread-1 0"}},
		{&esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"sai"}}, []string{"dl.thread-1 0", "other-1 0"}},
		{&esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"dl."}}, nil}, // what forgetting the type comes to
		{esdb.ExcludeSystemEventsFilter(), []string{"dl.thread-1 0", "other-1 0"}},
	} {
		s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: of.filter})
		s.wants(append(of.want, "checkpoint", "caught up")...)
	}
	_, err := c.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: "("}})
	c.wants(err, esdb.ErrorCodeUnknown)
}

func TestASubscriptionResumesAfterThePositionThatItIsGiven(t *testing.T) {
	c, _, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a", "b", "c")
	s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes()})
	s.wants("dl.thread-1 0", "dl.thread-1 1")
	from := s.last
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.wants("dropped: Unknown")

	s = c.subscribe(esdb.SubscribeToAllOptions{From: from, Filter: prefixes()})
	s.wants("dl.thread-1 2", "checkpoint", "caught up")
	s = c.subscribe(esdb.SubscribeToAllOptions{From: s.last, Filter: prefixes()})
	s.wants("caught up")
	s = c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}, Filter: prefixes()})
	s.wants("caught up")
	c.append("dl.thread-1", esdb.Revision(2), "d")
	s.wants("dl.thread-1 3")
}

// Whoever resumes at any checkpoint has missed nothing, and need not have come
// far: a checkpoint lies where the page began.
func TestNothingIsMissedAfterACheckpoint(t *testing.T) {
	c, _, _ := open(t)
	for i := range 20 {
		c.append("other", esdb.Any{}, fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i), fmt.Sprintf("z%d", i), fmt.Sprintf("u%d", i), fmt.Sprintf("v%d", i))
		c.append("dl.thread-1", esdb.Any{}, fmt.Sprint(i))
	}
	type stop struct {
		at   esdb.Position
		seen int
	}
	var stops []stop
	o := esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes(), MaxSearchWindow: 4, CheckpointInterval: 2}
	s := c.subscribe(o)
	seen := 0
	for live := false; !live; {
		switch got := s.next(); {
		case got == "caught up":
			live = true
		case got == "checkpoint":
			stops = append(stops, stop{s.last, seen})
		case strings.HasPrefix(got, "dl."):
			seen++
		}
	}
	if seen != 20 || len(stops) < 5 {
		t.Fatalf("%d events and %d checkpoints came", seen, len(stops))
	}
	aside := false
	for i, at := range stops {
		aside = aside || at.at.Commit != at.at.Prepare
		if i > 0 && at.at.Commit <= stops[i-1].at.Commit {
			t.Errorf("checkpoint %d comes again or goes back", i)
		}
		o.From = at.at
		s := c.subscribe(o)
		for n := at.seen; n < 20; {
			switch got := s.next(); got {
			case "checkpoint":
			case fmt.Sprintf("dl.thread-1 %d", n):
				n++
			default:
				t.Fatalf("after checkpoint %d comes %q, and not event %d", i, got, n)
			}
		}
	}
	if !aside {
		t.Error("each checkpoint has equal positions, and the server's have not")
	}
}

func TestALiveSubscriptionIsToldHowFarTheServerHasLooked(t *testing.T) {
	c, _, _ := open(t)
	s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}, Filter: prefixes(), MaxSearchWindow: 2, CheckpointInterval: 2})
	s.wants("caught up")
	c.append("other", esdb.Any{}, "a", "b", "c")
	c.append("dl.thread-1", esdb.Any{}, "d")
	c.append("other", esdb.Any{}, "e", "f", "g", "h")
	s.wants("dl.thread-1 0", "checkpoint", "checkpoint")
}

func TestServersOfOtherVersionsCheckpointOtherwise(t *testing.T) {
	resumed := func(t *testing.T, q esdbdouble.Checkpoints) (first, second esdb.Position, c client) {
		server, _ := start(t, esdbdouble.Config{Quirks: esdbdouble.Quirks{Checkpoints: q}})
		c = dial(t, server.URL())
		c.append("other", esdb.Any{}, "1", "2")
		s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes(), MaxSearchWindow: 2})
		first = esdb.Position{Commit: math.MaxUint64}
		for got := ""; got != "caught up"; got = s.next() {
			if got == "checkpoint" {
				first = s.last
			}
		}
		if q == esdbdouble.CheckpointsNever {
			return first, s.last, c
		}
		c.append("other", esdb.Any{}, "3", "4")
		s.wants("checkpoint")
		return first, s.last, c
	}
	t.Run("not at all", func(t *testing.T) {
		if _, last, _ := resumed(t, esdbdouble.CheckpointsNever); last != (esdb.Position{}) {
			t.Errorf("a checkpoint at %v", last)
		}
	})
	t.Run("at the same place again", func(t *testing.T) {
		if first, second, _ := resumed(t, esdbdouble.CheckpointsParked); first != second {
			t.Errorf("at %v and then at %v", first, second)
		}
	})
	t.Run("at nothing", func(t *testing.T) {
		if _, last, _ := resumed(t, esdbdouble.CheckpointsUnset); last.Commit != math.MaxUint64 {
			t.Errorf("at %v", last)
		}
	})
	t.Run("ahead, and an event is missed", func(t *testing.T) {
		_, last, c := resumed(t, esdbdouble.CheckpointsAhead)
		c.append("dl.thread-1", esdb.NoStream{}, "a", "b")
		c.subscribe(esdb.SubscribeToAllOptions{From: last, Filter: prefixes()}).wants("dl.thread-1 1")
	})
}

// A client that knows the younger fields reads them; ours has them as unknown.
func TestCaughtUpIsSaidAsTheVersionOfTheServerSays(t *testing.T) {
	for _, of := range []struct {
		quirk   esdbdouble.CaughtUp
		unknown bool
	}{{esdbdouble.CaughtUpWithPlace, true}, {esdbdouble.CaughtUpBare, false}} {
		server, _ := start(t, esdbdouble.Config{Quirks: esdbdouble.Quirks{CaughtUp: of.quirk}})
		wire, err := raw(t, server).Read(t.Context(), &streams.ReadReq{Options: &streams.ReadReq_Options{
			StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{AllOption: &streams.ReadReq_Options_AllOptions_Start{}}},
			CountOption:  &streams.ReadReq_Options_Subscription{},
			FilterOption: &streams.ReadReq_Options_NoFilter{},
			UuidOption:   &streams.ReadReq_Options_UUIDOption{Content: &streams.ReadReq_Options_UUIDOption_String_{String_: &shared.Empty{}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := wire.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e := m.GetEvent(); e != nil && e.GetEvent().GetId().GetString_() == "" {
				t.Error("an id is no text, though text was asked for")
			}
			if c := m.GetCaughtUp(); c != nil {
				if got := len(c.ProtoReflect().GetUnknown()) > 0; got != of.unknown {
					t.Errorf("quirk %d: fields beyond the bare message: %v", of.quirk, got)
				}
				break
			}
		}
	}

	c, server, _ := open(t)
	server.SetQuirks(esdbdouble.Quirks{CaughtUp: esdbdouble.CaughtUpNever})
	s := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}, Filter: prefixes()})
	c.append("dl.thread-1", esdb.NoStream{}, "a")
	s.wants("dl.thread-1 0")
}

var plain = insecure.NewCredentials()

func raw(t *testing.T, s *esdbdouble.Server) streams.StreamsClient {
	t.Helper()
	conn, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(plain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return streams.NewStreamsClient(conn)
}

func TestAStreamIsFollowedUntilItEnds(t *testing.T) {
	c, _, _ := open(t)
	follow := func(o esdb.SubscribeToStreamOptions) *subscription {
		t.Helper()
		s, err := c.SubscribeToStream(t.Context(), "s", o)
		if err != nil {
			t.Fatal(err)
		}
		return &subscription{Subscription: s, c: c}
	}
	s := follow(esdb.SubscribeToStreamOptions{From: esdb.Start{}})
	s.wants("caught up")
	c.append("s", esdb.NoStream{}, "a", "b")
	s.wants("s 0", "s 1")
	after := follow(esdb.SubscribeToStreamOptions{From: esdb.Revision(0)})
	after.wants("s 1", "caught up")
	end := follow(esdb.SubscribeToStreamOptions{From: esdb.End{}})
	end.wants("caught up")

	if _, err := c.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{}); err != nil {
		t.Fatal(err)
	}
	c.append("s", esdb.NoStream{}, "c")
	for _, s := range []*subscription{s, after, end} {
		s.wants("s 2")
	}
	if _, err := c.TombstoneStream(t.Context(), "s", esdb.TombstoneStreamOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*subscription{s, after, end} {
		s.wants(fmt.Sprintf("s %d", math.MaxInt64), "dropped: FailedPrecondition")
	}
	_, err := c.SubscribeToStream(t.Context(), "s", esdb.SubscribeToStreamOptions{})
	c.wants(err, esdb.ErrorCodeStreamDeleted)
}

func TestALinkIsResolvedWhenThatIsAskedFor(t *testing.T) {
	c, _, _ := open(t)
	c.append("s", esdb.NoStream{}, "a", "b")
	for _, to := range []string{"1@s", "7@s"} {
		link := event("link to " + to)
		link.EventType, link.Data = "$>", []byte(to)
		if _, err := c.AppendToStream(t.Context(), "links", esdb.AppendToStreamOptions{}, link); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.ReadStream(t.Context(), "links", esdb.ReadStreamOptions{ResolveLinkTos: true}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	resolved, err := r.Recv()
	if err != nil || resolved.Event.StreamID != "s" || resolved.Event.EventNumber != 1 || resolved.Link.StreamID != "links" {
		t.Errorf("the link gives %+v, %v", resolved, err)
	}
	dangling, err := r.Recv()
	if err != nil || dangling.Event != nil || dangling.OriginalEvent().StreamID != "links" {
		t.Errorf("the link to nothing gives %+v, %v", dangling, err)
	}
}

func TestSubscriptionsAreDropped(t *testing.T) {
	c, server, _ := open(t)
	one := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}})
	two := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}, Filter: prefixes()})
	one.wants("caught up")
	two.wants("caught up")
	server.DropSubscriptions(esdbdouble.NotReady())
	one.wants("dropped: Unavailable")
	two.wants("dropped: Unavailable")
	c.append("s", esdb.NoStream{}, "a") // on the connection that was there
	three := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}})
	three.wants("caught up")
	server.Stop()
	if got := three.Recv(); got.SubscriptionDropped == nil || errors.Is(got.SubscriptionDropped.Error, context.Canceled) {
		t.Errorf("a subscription outlives its server: %+v", got)
	}
}

func TestASubscriptionThatCannotBeIsRefused(t *testing.T) {
	server, _ := start(t, esdbdouble.Config{})
	wire, err := raw(t, server).Read(t.Context(), &streams.ReadReq{Options: &streams.ReadReq_Options{
		StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{}},
		CountOption:  &streams.ReadReq_Options_Subscription{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without saying how ids are written: %v", err)
	}
}
