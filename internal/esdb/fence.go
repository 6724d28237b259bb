package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// fence stands between the ledger and the client, whose faults it keeps to itself
// (EventStore-Client-Go v4.2.0; ADR 0025 names the successor without the first
// three):
//
//   - A call may hang for ever when the server goes away, whatever its context
//     says. So each runs in a goroutine of its own, which its caller leaves behind
//     when the context ends; slots bound how many there can be.
//   - One discovery that fails ends the client's only worker: all that is in flight
//     then hangs, and every later call fails. So discovery never gives up (fenced),
//     and a client that says it is closed is replaced.
//   - When it looks for a server anew it forgets the connection that it had, which
//     then lives on and connects again and again. So a client that found a server
//     unavailable is replaced before it looks, and closed with its connection.
//   - Close panics when a call is in flight. So a client is closed when its last
//     call is over, and left behind when that does not happen.
//   - It never tells the server that only a leader may answer. So the fence puts
//     that into the call's metadata itself; without it, a leader that was voted out
//     answers with what is old.
//   - An append that is cancelled while it is being sent reads what grpc may still
//     write. So a call is never cancelled: its caller leaves, and it ends at its
//     deadline. What is behind it may happen until then.
//   - Which error came is asked with errors.As, for some are wrapped (see kindOf).
//   - An append that is too large ends in EOF, and the server's reason is lost. So
//     sizes are checked before (see sizeOf), and EOF means that nobody knows.
//   - An append without events is answered with a wrong revision. None is sent.
//   - It logs on standard error unless it is told not to (fenced).
//   - It panics when it reads what it has no word for. So a panic in a call is the
//     call's error.
//
// What it cannot keep out:
//
//   - An event without its time of creation ends the process. Servers have always
//     sent it.
//   - A server whose version is no three numbers, as that of a preview, is never
//     reached, and nothing says why.
//   - Without TLS no user is sent, so that a server that wants one has to have TLS.
//
// And what does not concern the ledger: which error a delete at a wrong revision ends
// with, for tombstones expect none; that metadata of a stream without any cannot be
// read, for none is read; and that its successor gives an event without content where
// old servers say that a subscription is live.
type fence struct {
	connection string
	life       context.Context // ends with Close

	made  atomic.Int64   // clients, since the process began
	calls sync.WaitGroup // all that run, those that were left behind too

	mu   sync.Mutex
	now  *fencedClient // nil until it is needed
	shut bool
}

// slotsMax bounds the calls of one client, also those that were left behind.
const slotsMax = 128

// drainMax is how long Close waits for calls that are under way.
const drainMax = 3 * time.Second

// fencedClient is one client with the calls that run on it.
type fencedClient struct {
	*client.Client
	slots   chan struct{}
	done    *sync.Cond // a call is over
	running int
	doomed  bool // it is closed when the last is
}

// fenced sets what keeps a client alive and quiet.
func fenced(c *client.Configuration) {
	c.MaxDiscoverAttempts = math.MaxInt32
	c.GossipTimeout = 1 // seconds, and also how long it asks a server what it can
	c.NodePreference = client.NodePreferenceLeader
	c.Logger = client.NoopLogging()
}

func newFence(life context.Context, connection string) *fence {
	return &fence{connection: connection, life: life}
}

var errShut = errors.New("the ledger is closed")

// take gives the client, and counts a call of it.
func (f *fence) take() (*fencedClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return nil, errShut
	}
	if f.now == nil {
		config, err := configure(f.connection)
		if err != nil {
			return nil, err
		}
		c, err := client.NewClient(config) // connects to nobody yet
		if err != nil {
			return nil, fmt.Errorf("make client: %w", err)
		}
		f.made.Add(1)
		f.now = &fencedClient{Client: c, slots: make(chan struct{}, slotsMax), done: sync.NewCond(&f.mu)}
	}
	f.now.running++
	return f.now, nil
}

// over notes that a call is, and closes a client that waits for it.
func (f *fence) over(c *fencedClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.running--
	if c.doomed && c.running == 0 {
		_ = c.Close()
	}
	c.done.Broadcast()
}

// doom has the next call use another client.
func (f *fence) doom(c *fencedClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doomed(c)
}

func (f *fence) doomed(c *fencedClient) {
	if f.now == c {
		f.now = nil
	}
	if !c.doomed {
		c.doomed = true
		if c.running == 0 {
			_ = c.Close()
		}
	}
}

// call runs one call of the client, and returns when it or the context is over.
// After the context's error the call may still go on, and do what it was for; so
// the context should have a deadline.
func (f *fence) call(ctx context.Context, do func(context.Context, *fencedClient) error) error {
	c, err := f.take()
	if err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		f.over(c)
		return notSent{ctx.Err()}
	}
	if ctx.Err() != nil {
		<-c.slots
		f.over(c)
		return notSent{ctx.Err()}
	}
	ended := make(chan error, 1)
	f.calls.Go(func() {
		defer f.over(c)
		defer func() { <-c.slots }()
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("the client panicked: %v", p)
			}
		}()
		its := context.WithoutCancel(ctx)
		if deadline, has := ctx.Deadline(); has {
			var end context.CancelFunc
			its, end = context.WithDeadline(its, deadline)
			defer end()
		}
		err := do(metadata.AppendToOutgoingContext(its, "requires-leader", "true"), c)
		switch kindOf(err) {
		case client.ErrorCodeConnectionClosed, client.ErrorUnavailable:
			f.doom(c)
		}
		ended <- err
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renew has the next call use another client, which looks for the leader anew.
func (f *fence) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now != nil {
		f.doomed(f.now)
	}
}

// close ends the client. Calls that do not end with the ledger are left behind.
func (f *fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut = true
	c := f.now
	if c == nil {
		return
	}
	f.doomed(c)
	late := time.AfterFunc(drainMax, c.done.Broadcast)
	defer late.Stop()
	for began := time.Now(); c.running > 0 && time.Since(began) < drainMax; {
		c.done.Wait()
	}
}

// notSent is the error of a call that never began.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// kindOf is the client's code for an error; ErrorCodeUnknown for one without.
func kindOf(err error) client.ErrorCode {
	var e *client.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return client.ErrorCodeUnknown
}

// refusedFor is why the server will not do this, however often it is asked; nil
// when it may have done it, or may do it yet.
func refusedFor(err error) error {
	switch kindOf(err) {
	case client.ErrorCodeAccessDenied, client.ErrorCodeUnauthenticated, client.ErrorCodeUnsupportedFeature:
		return err
	}
	switch statusOf(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return err
	}
	if errors.Is(err, errShut) {
		return err
	}
	return nil
}

// refusedForAccess says that the caller may not do this.
func refusedForAccess(err error) bool {
	switch statusOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}

// statusOf is the status that an error came with, however it was wrapped.
func statusOf(err error) codes.Code {
	var e interface{ GRPCStatus() *status.Status }
	if errors.As(err, &e) {
		return e.GRPCStatus().Code()
	}
	return codes.Unknown
}

// appendTo appends to a stream. The errors: see kindOf and refusedFor; after all
// others nobody knows.
func (f *fence) appendTo(ctx context.Context, stream string, expected client.ExpectedRevision, all []client.EventData) error {
	return f.call(ctx, func(ctx context.Context, c *fencedClient) error {
		_, err := c.AppendToStream(ctx, stream, client.AppendToStreamOptions{ExpectedRevision: expected, RequiresLeader: true}, all...)
		return err
	})
}

// last reads a stream's last event; nil when there is none.
func (f *fence) last(ctx context.Context, stream string) (*client.RecordedEvent, error) {
	return f.one(ctx, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadStream(ctx, stream, client.ReadStreamOptions{Direction: client.Backwards, From: client.End{}, RequiresLeader: true}, 1)
	})
}

// first reads the first event of a stream; nil when there is none.
func (f *fence) first(ctx context.Context, stream string) (*client.RecordedEvent, error) {
	return f.one(ctx, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadStream(ctx, stream, client.ReadStreamOptions{Direction: client.Forwards, From: client.Start{}, RequiresLeader: true}, 1)
	})
}

// at reads the event at a place of the cluster's log; nil when there is none at
// or after it.
func (f *fence) at(ctx context.Context, p place) (*client.RecordedEvent, error) {
	return f.one(ctx, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadAll(ctx, client.ReadAllOptions{From: p.position(), RequiresLeader: true}, 1)
	})
}

// end reads the last event of the cluster's log, whosever it is.
func (f *fence) end(ctx context.Context) (*client.RecordedEvent, error) {
	return f.one(ctx, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadAll(ctx, client.ReadAllOptions{Direction: client.Backwards, From: client.End{}, RequiresLeader: true}, 1)
	})
}

// backMax is how far back in the log the newest of our events is looked for. With
// more of others' behind it nobody can tell by looking, and what the subscription
// says is believed.
const backMax = 64

// newest reads where the log ends, and the place of the last event of streams whose
// names begin with a prefix; nil when there is none among the last backMax, and whole
// when those are all that there are.
func (f *fence) newest(ctx context.Context, prefix string) (end place, newest *place, whole bool, err error) {
	all, err := f.some(ctx, backMax, func(ctx context.Context, c *fencedClient) (*client.ReadStream, error) {
		return c.ReadAll(ctx, client.ReadAllOptions{Direction: client.Backwards, From: client.End{}, RequiresLeader: true}, backMax)
	})
	for i, e := range all {
		at := placeOf(e.Position)
		if i == 0 {
			end = at
		}
		if newest == nil && strings.HasPrefix(e.StreamID, prefix) {
			newest = &at
		}
	}
	return end, newest, len(all) < backMax, err
}

func (f *fence) one(ctx context.Context, read func(context.Context, *fencedClient) (*client.ReadStream, error)) (*client.RecordedEvent, error) {
	all, err := f.some(ctx, 1, read)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// some reads so many events at most.
func (f *fence) some(ctx context.Context, most int, read func(context.Context, *fencedClient) (*client.ReadStream, error)) ([]*client.RecordedEvent, error) {
	answer := make(chan []*client.RecordedEvent, 1) // nobody else's when the call is left behind
	err := f.call(ctx, func(ctx context.Context, c *fencedClient) error {
		r, err := read(ctx, c)
		if err != nil {
			return err
		}
		defer r.Close()
		var all []*client.RecordedEvent
		for len(all) < most {
			e, err := r.Recv()
			if errors.Is(err, io.EOF) || gone(err) {
				break
			}
			if err != nil {
				return err
			}
			if o := e.OriginalEvent(); o != nil {
				all = append(all, o)
			}
		}
		answer <- all
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// gone says that there is no such stream, or no longer.
func gone(err error) bool {
	switch kindOf(err) {
	case client.ErrorCodeResourceNotFound, client.ErrorCodeStreamDeleted:
		return true
	}
	return false
}

// tombstone ends a stream for ever. Of a stream that is only deleted the cluster keeps the
// last event, and of a body's stream that is all.
func (f *fence) tombstone(ctx context.Context, stream string) error {
	err := f.call(ctx, func(ctx context.Context, c *fencedClient) error {
		_, err := c.TombstoneStream(ctx, stream, client.TombstoneStreamOptions{ExpectedRevision: client.Any{}, RequiresLeader: true})
		return err
	})
	if gone(err) {
		return nil
	}
	return err
}

// subscribe follows all streams whose names begin with a prefix, after a place;
// from the beginning when that is nil. It is over when the context is, or when the
// server has not confirmed it in time.
func (f *fence) subscribe(ctx context.Context, prefix string, after *place, within time.Duration) (*client.Subscription, error) {
	ctx, end := context.WithCancel(ctx)
	late := time.AfterFunc(within, end)
	options := client.SubscribeToAllOptions{
		From: client.Start{}, // the client's default is the end
		// The client's default is to filter by type.
		Filter: &client.SubscriptionFilter{Type: client.StreamFilterType, Prefixes: []string{prefix}},
		// So it tells how far it has looked each time that it has passed over half as many
		// events of others as newest reads: silence behind more is no sign of life.
		MaxSearchWindow: backMax / 2, CheckpointInterval: 1,
		RequiresLeader: true,
	}
	if after != nil {
		options.From = after.position()
	}
	made := make(chan *client.Subscription, 1)
	err := f.call(ctx, func(_ context.Context, c *fencedClient) error {
		s, err := c.SubscribeToAll(metadata.AppendToOutgoingContext(ctx, "requires-leader", "true"), options)
		if err != nil {
			return err
		}
		f.mu.Lock()
		c.running++ // for as long as the subscription lives
		f.mu.Unlock()
		context.AfterFunc(ctx, func() { f.over(c) })
		made <- s
		return nil
	})
	if err == nil && !late.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		end()
		return nil, err
	}
	s := <-made
	context.AfterFunc(ctx, end)
	return s, nil
}
