package esdbdouble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"go.uber.org/goleak"

	"decklog/internal/esdbdouble"
)

func TestAnAnswerIsLostAfterTheCommit(t *testing.T) {
	for name, effect := range map[string]esdbdouble.Effect{
		"the connection is cut":   esdbdouble.Cut(),
		"the server is busy":      esdbdouble.Say(esdbdouble.TooBusy()),
		"the write took too long": esdbdouble.Say(esdbdouble.TimedOut()),
		"the call took too long":  esdbdouble.Say(esdbdouble.DeadlineExceeded()),
	} {
		t.Run(name, func(t *testing.T) {
			c, s, l := open(t)
			f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "s", Point: esdbdouble.Answer, Effect: effect})
			if _, err := c.try("s", esdb.NoStream{}, "a"); err == nil {
				t.Error("the append is answered")
			}
			<-f.Struck()
			if n := len(l.Events("s")); n != 1 {
				t.Errorf("%d events are there", n)
			}
			w, err := c.try("s", esdb.NoStream{}, "a")
			if errors.Is(err, io.EOF) || code(err) == esdb.ErrorUnavailable {
				w, err = c.try("s", esdb.NoStream{}, "a") // the client has noticed only now that its connection is gone
			}
			if err != nil || w.NextExpectedVersion != 0 || len(l.Events("s")) != 1 || f.Times() != 1 {
				t.Errorf("asked again: %+v, %v, %d events, struck %d times", w, err, len(l.Events("s")), f.Times())
			}
		})
	}
}

func TestAnAppendFailsBeforeTheCommit(t *testing.T) {
	for n, at := range map[string]esdbdouble.Fault{
		"when it begins":                 {Point: esdbdouble.Begin},
		"at the stream's name":           {Point: esdbdouble.Message},
		"between its events":             {Point: esdbdouble.Message, Skip: 1},
		"after its last event":           {Point: esdbdouble.Message, Skip: 3},
		"when it is about to be written": {Point: esdbdouble.Commit},
	} {
		for name, effect := range map[string]esdbdouble.Effect{
			"cut": esdbdouble.Cut(), "not ready": esdbdouble.Say(esdbdouble.NotReady()), "the server is killed": esdbdouble.Kill(),
		} {
			t.Run(n+", "+name, func(t *testing.T) {
				c, s, l := open(t)
				at.Call, at.Effect = esdbdouble.Append, effect
				s.Inject(at)
				if _, err := c.try("s", esdb.NoStream{}, "a", "b", "c"); err == nil {
					t.Error("the append is answered")
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				if n := len(l.Events("s")); n != 0 {
					t.Errorf("%d events are there", n)
				}
				dial(t, s.URL()).append("s", esdb.NoStream{}, "a", "b", "c")
			})
		}
	}
}

func TestACallIsHeldUntilItsClientGivesUp(t *testing.T) {
	c, s, l := open(t)
	f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Answer, Effect: esdbdouble.Hold(nil)})
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-f.Struck()
		giveUp()
	}()
	_, err := c.AppendToStream(ctx, "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, event("a"))
	if err == nil || len(l.Events("s")) != 1 {
		t.Errorf("%v, and %d events", err, len(l.Events("s")))
	}
	c.append("s", esdb.NoStream{}, "a")
}

func TestAFaultStrikesUntilTheServerIsHealed(t *testing.T) {
	c, s, _ := open(t)
	f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.TimedOut())})
	for range 3 {
		_, err := c.try("s", esdb.NoStream{}, "a")
		c.wants(err, esdb.ErrorAborted)
	}
	s.Heal()
	c.append("s", esdb.NoStream{}, "a")
	if f.Times() != 3 {
		t.Errorf("it struck %d times", f.Times())
	}
}

func TestSomethingHappensBetweenTwoSteps(t *testing.T) {
	c, s, _ := open(t)
	other := dial(t, s.URL())
	s.Inject(esdbdouble.Fault{
		Call: esdbdouble.Append, Stream: "s", Point: esdbdouble.Commit,
		Effect: esdbdouble.Do(func() { other.append("s", esdb.NoStream{}, "b") }),
	})
	_, err := c.try("s", esdb.NoStream{}, "a")
	c.wants(err, esdb.ErrorCodeWrongExpectedVersion)
	c.same(c.stream("s", esdb.ReadStreamOptions{}), []string{"s 0 b"})
}

func TestASubscriptionIsCutAtAnyOfItsMessages(t *testing.T) {
	c, s, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a", "b")
	want := []string{"dl.thread-1 0", "dl.thread-1 1", "checkpoint", "caught up"}
	for n := range want {
		read := make(chan struct{}) // a cut takes with it what is on its way
		f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Skip: n + 1, Effect: func(c *esdbdouble.Call) error {
			<-read
			return esdbdouble.Cut()(c)
		}})
		c := dial(t, s.URL())
		sub := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes()})
		sub.wants(want[:n]...)
		close(read)
		if got := sub.Recv(); got.SubscriptionDropped == nil {
			t.Errorf("after %d messages comes %+v", n, got)
		}
		f.Lift()
	}
}

// A reader that is slow, or a network that is: what is written in the meantime
// comes after what was.
func TestAReaderIsKeptWaiting(t *testing.T) {
	c, s, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a")
	gate := make(chan struct{})
	f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Point: esdbdouble.Send, Skip: 1, Times: esdbdouble.Always, Effect: esdbdouble.Hold(gate)})
	sub := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: prefixes()})
	<-f.Struck()
	names := make([]string, 200)
	want := make([]string, 200)
	for i := range names {
		names[i], want[i] = fmt.Sprint(i), fmt.Sprintf("dl.thread-1 %d", i+1)
	}
	c.append("dl.thread-1", esdb.Revision(0), names...)
	close(gate)
	sub.wants("dl.thread-1 0")
	for _, w := range want {
		for got := "caught up"; got != w; {
			if got = sub.next(); got != w && got != "caught up" && got != "checkpoint" {
				t.Fatalf("got %q, want %q", got, w)
			}
		}
	}
}

func TestConnectionsAreCutAndMadeAnew(t *testing.T) {
	c, s, _ := open(t)
	c.append("s", esdb.NoStream{}, "a")
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	sub := c.subscribe(esdb.SubscribeToAllOptions{From: esdb.End{}})
	sub.wants("caught up")
	s.CutConnections()
	if got := sub.Recv(); got.SubscriptionDropped == nil {
		t.Errorf("the subscription outlives its connection: %+v", got)
	}
	dial(t, s.URL()).append("s", esdb.Revision(0), "b")
}

func TestAServerIsNotAskedWhatItCanBeforeItKnowsTheQuestion(t *testing.T) {
	s, _ := start(t, esdbdouble.Config{Quirks: esdbdouble.Quirks{Features: esdbdouble.FeaturesUnknown}})
	c := dial(t, s.URL())
	c.append("s", esdb.NoStream{}, "a")
	if v, err := c.GetServerVersion(); err != nil || v.Major != 0 {
		t.Errorf("version %+v, %v", v, err)
	}

	s, _ = start(t, esdbdouble.Config{Version: "22.10.5"})
	c = dial(t, s.URL())
	if v, err := c.GetServerVersion(); err != nil || v.Major != 22 || v.Minor != 10 || v.Patch != 5 {
		t.Errorf("version %+v, %v", v, err)
	}
	if s.Calls(esdbdouble.Features) != 1 {
		t.Errorf("it was asked %d times", s.Calls(esdbdouble.Features))
	}

	s, _ = start(t, esdbdouble.Config{Version: "25.1.0-rc"})
	config, err := esdb.ParseConnectionString(s.URL() + "&maxDiscoverAttempts=1")
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = esdb.NoopLogging()
	rc, err := esdb.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rc.GetServerVersion(); err == nil {
		t.Error("the client reads a version that it is known to stumble over")
	}
}

func TestAnAnswerNamesNoPosition(t *testing.T) {
	s, _ := start(t, esdbdouble.Config{Quirks: esdbdouble.Quirks{NoPosition: true}})
	c := dial(t, s.URL())
	c.append("s", esdb.NoStream{}, "a")
	if w := c.append("s", esdb.Revision(0), "b"); w.CommitPosition != 0 || w.NextExpectedVersion != 1 {
		t.Errorf("%+v", w)
	}
}

// kill -9 leaves nothing of a process, whatever it was doing.
func TestAServerThatWasStoppedLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("with a client", func(t *testing.T) {
		calls := raw(t, s)
		f := s.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Effect: esdbdouble.Hold(nil)})
		held, err := calls.Append(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sub, err := calls.Read(t.Context(), &streams.ReadReq{Options: &streams.ReadReq_Options{
			StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{}},
			CountOption:  &streams.ReadReq_Options_Subscription{},
			UuidOption:   &streams.ReadReq_Options_UUIDOption{Content: &streams.ReadReq_Options_UUIDOption_Structured{}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := sub.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetCaughtUp() != nil {
				break
			}
		}
		<-f.Struck()
		s.Stop()
		if _, err := held.CloseAndRecv(); err == nil {
			t.Error("a held call is answered")
		}
	})
	goleak.VerifyNone(t, before)
}
