package esdb

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"
	"google.golang.org/grpc/metadata"
)

// Probe asks a server for what this package relies on. All streams that it makes
// have names that begin with its Prefix, so that no two probes and no ledger meet.
type Probe struct {
	Server string // its address, as it may be shown
	Prefix string

	address Address
	fence   *fence
	end     context.CancelFunc
	began   *place // the end of the log before it; nil: there was none
}

// Promise is one thing that a server has to do.
type Promise struct {
	Says string
	// Holds asks for it, until the context ends, which has a deadline. The note is
	// what is worth knowing although it holds.
	Holds func(context.Context) (note string, err error)
}

// NewProbe reaches the server at an address. The address's own prefix is left
// alone: what comes to be there would come to a ledger.
func NewProbe(ctx context.Context, a Address) (*Probe, error) {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	p := &Probe{Server: a.Server(), address: a}
	p.Prefix = "engine-check-" + hex.EncodeToString(random[:]) + "."
	if err := Knock(ctx, a); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	p.fence, p.end = newFence(life, a.Connection), end
	last, err := p.fence.reached(ctx, p.Server, openMax)
	if err != nil {
		p.Close()
		return nil, err
	}
	if last != nil {
		at := placeOf(last.Position)
		p.began = &at
	}
	return p, nil
}

// Close ends the probe, and leaves on the server what is there.
func (p *Probe) Close() {
	p.end()
	p.fence.close()
}

// Ledger is the address of a ledger of the probe's own; another for each name.
func (p *Probe) Ledger(name, views string) Address {
	return Address{Connection: p.address.Connection, Prefix: p.Prefix + name + ".", Views: views}
}

// Server is where the cluster is, without what names a ledger on it, and without
// the password.
func (a Address) Server() string {
	shown, _, _ := strings.Cut(a.Shown(), "?")
	return shown
}

// reached reads the log's last event once a server answers; nil when there is none.
func (f *fence) reached(told context.Context, server string, within time.Duration) (*client.RecordedEvent, error) {
	ctx, cancel := context.WithTimeout(told, within)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		attempt, cancel := context.WithTimeout(ctx, attemptMax)
		last, err := f.end(attempt)
		cancel()
		if err == nil || refusedFor(err) != nil {
			return last, denied(about(server, err))
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			if told.Err() != nil {
				return nil, told.Err()
			}
			return nil, unreachable(about(server, fmt.Errorf("it did not answer within %s: %w", within, f.obstacle(err))))
		}
	}
}

func about(server string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reach %s: %w", server, err)
}

// denied says what to do about an error by which the server refuses something; every
// other it gives back as it is.
func denied(err error) error {
	if err == nil || refusedFor(err) == nil {
		return err
	}
	why, _ := explained(err)
	return why
}

// Promises are what is asked, in an order in which each needs no more than those
// before it.
func (p *Probe) Promises() []Promise {
	return []Promise{
		{"what is appended reads back byte for byte, in its order", p.readsBack},
		{"an append of several events is recorded whole", p.whole},
		{"what was acknowledged is read at once", p.readAtOnce},
		{"an append at another revision than the stream's last is a conflict, and appends nothing", p.conflicts},
		{"the same append again, as the stream's first, is known by its ids and appends nothing", p.firstAgain},
		{"the same append again, at an exact revision, is known by its ids and appends nothing", p.exactAgain},
		{"an append of 1 MiB is taken, as decklog counts it", p.large},
		{"a stream that is ended is gone for ever, as a body is that was taken back", p.tombstoned},
		{"an event is found again at its place in the log", p.foundAtItsPlace},
		{"what only the leader may answer is answered by it", p.leaderOnly},
		{"one subscription tells of every event under a prefix once, in the log's order, and of no other", p.subscribed},
		{"a subscription tells of what comes while it runs", p.live},
		{"a subscription that goes on behind an event misses none, and tells of none again", p.resumed},
		{"a subscription says when it has caught up", p.caughtUp},
	}
}

// checked is an event of the probe's.
func checked(says string) client.EventData {
	return client.EventData{
		EventID: uuid.New(), EventType: "engine.checked", ContentType: client.ContentTypeJson,
		Data: fmt.Appendf(nil, `{"says":%q}`, says), Metadata: []byte(`{"$correlationId":"engine-check"}`),
	}
}

func several(n int) (all []client.EventData) {
	for i := range n {
		all = append(all, checked(fmt.Sprint(i)))
	}
	return all
}

func (p *Probe) stream(name string) string { return p.Prefix + "server." + name }

// append appends, and tries again while there is nobody who can.
func (p *Probe) append(ctx context.Context, stream string, expected client.ExpectedRevision, all ...client.EventData) error {
	for {
		err := p.fence.appendTo(ctx, stream, expected, all)
		switch kindOf(err) {
		case client.ErrorCodeNotLeader, client.ErrorUnavailable, client.ErrorCodeConnectionClosed:
			pause := time.NewTimer(50 * time.Millisecond)
			select {
			case <-pause.C:
				continue
			case <-ctx.Done():
				pause.Stop()
			}
		}
		return err
	}
}

// has finds exactly these events in a stream.
func (p *Probe) has(ctx context.Context, stream string, want ...client.EventData) error {
	answer := make(chan []*client.RecordedEvent, 1) // nobody else's when the call is left behind
	err := p.fence.call(ctx, func(ctx context.Context, c *fencedClient) error {
		r, err := c.ReadStream(ctx, stream, client.ReadStreamOptions{Direction: client.Forwards, From: client.Start{}, RequiresLeader: true}, uint64(len(want)+1))
		if err != nil {
			return err
		}
		defer r.Close()
		var all []*client.RecordedEvent
		for {
			e, err := r.Recv()
			if err != nil {
				answer <- all
				if gone(err) || errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			all = append(all, e.OriginalEvent())
		}
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	got := <-answer
	if len(got) != len(want) {
		return fmt.Errorf("stream %s has %d events, not %d", stream, len(got), len(want))
	}
	for i, e := range got {
		w := want[i]
		if e.EventNumber != uint64(i) || e.EventID != w.EventID || e.EventType != w.EventType || !bytes.Equal(e.Data, w.Data) || !bytes.Equal(e.UserMetadata, w.Metadata) {
			return fmt.Errorf("event %d of %s is not what was appended", i, stream)
		}
	}
	return nil
}

func (p *Probe) readsBack(ctx context.Context) (string, error) {
	stream, all := p.stream("reads-back"), several(3)
	all[1].ContentType, all[1].Data = client.ContentTypeBinary, []byte("\x00\xff no JSON, and ä")
	all[2].Data = []byte(`{ "odd" :  1,"b":"<\u00e4>" }`)
	for i, e := range all {
		expected := client.ExpectedRevision(client.NoStream{})
		if i > 0 {
			expected = client.Revision(uint64(i - 1))
		}
		if err := p.append(ctx, stream, expected, e); err != nil {
			return "", fmt.Errorf("append event %d: %w", i, denied(err))
		}
	}
	return "", p.has(ctx, stream, all...)
}

func (p *Probe) whole(ctx context.Context) (string, error) {
	stream, all := p.stream("whole"), several(50)
	if err := p.append(ctx, stream, client.NoStream{}, all...); err != nil {
		return "", err
	}
	return "", p.has(ctx, stream, all...)
}

func (p *Probe) readAtOnce(ctx context.Context) (string, error) {
	stream := p.stream("at-once")
	for i, e := range several(20) {
		expected := client.ExpectedRevision(client.NoStream{})
		if i > 0 {
			expected = client.Revision(uint64(i - 1))
		}
		if err := p.append(ctx, stream, expected, e); err != nil {
			return "", err
		}
		last, err := p.fence.last(ctx, stream)
		if err != nil {
			return "", err
		}
		if last == nil || last.EventID != e.EventID {
			return "", fmt.Errorf("event %d of %s was acknowledged, and is not the last that is read", i, stream)
		}
	}
	return "", nil
}

func (p *Probe) conflicts(ctx context.Context) (string, error) {
	stream, all := p.stream("conflict"), several(3)
	if err := p.append(ctx, stream, client.NoStream{}, all...); err != nil {
		return "", err
	}
	for _, c := range []struct {
		stream   string
		expected client.ExpectedRevision
		says     string
	}{
		{stream, client.NoStream{}, "as the first of a stream that is there"},
		{stream, client.Revision(1), "at a revision that the stream has passed"},
		{stream, client.Revision(7), "at a revision that the stream has not reached"},
		{p.stream("conflict-none"), client.Revision(0), "behind an event of a stream that is not there"},
	} {
		switch err := p.append(ctx, c.stream, c.expected, checked("no")); {
		case err == nil:
			return "", fmt.Errorf("an append %s was taken", c.says)
		case kindOf(err) != client.ErrorCodeWrongExpectedVersion:
			return "", fmt.Errorf("an append %s is no conflict: %w", c.says, err)
		}
	}
	if err := p.has(ctx, p.stream("conflict-none")); err != nil {
		return "", err
	}
	return "", p.has(ctx, stream, all...)
}

func (p *Probe) firstAgain(ctx context.Context) (string, error) {
	return "", p.again(ctx, p.stream("again-first"), client.NoStream{}, nil)
}

func (p *Probe) exactAgain(ctx context.Context) (string, error) {
	return "", p.again(ctx, p.stream("again-exact"), client.Revision(1), several(2))
}

// again appends twice at the same revision, with others' events in between, as a
// client does whose answer was lost.
func (p *Probe) again(ctx context.Context, stream string, expected client.ExpectedRevision, before []client.EventData) error {
	if len(before) > 0 {
		if err := p.append(ctx, stream, client.NoStream{}, before...); err != nil {
			return err
		}
	}
	same, later := several(3), several(2)
	if err := p.append(ctx, stream, expected, same...); err != nil {
		return err
	}
	if err := p.append(ctx, stream, expected, same...); err != nil {
		return fmt.Errorf("the same append at once again: %w", err)
	}
	if err := p.append(ctx, stream, client.Revision(uint64(len(before)+2)), later...); err != nil {
		return err
	}
	if err := p.append(ctx, stream, expected, same...); err != nil {
		return fmt.Errorf("the same append again, when the stream had gone on: %w", err)
	}
	return p.has(ctx, stream, slices.Concat(before, same, later)...)
}

func (p *Probe) large(ctx context.Context) (string, error) {
	stream, e := p.stream("large"), checked("")
	e.ContentType = client.ContentTypeBinary
	e.Data = nil
	e.Data = bytes.Repeat([]byte{'x'}, AppendBytesMax-sizeOf(e))
	if err := p.append(ctx, stream, client.NoStream{}, e); err != nil {
		return "", fmt.Errorf("append one event of %d bytes: %w", sizeOf(e), err)
	}
	if err := p.has(ctx, stream, e); err != nil {
		return "", err
	}
	parts := several(8)
	for i := range parts {
		parts[i].Data = nil
		parts[i].Data = bytes.Repeat([]byte{' '}, AppendBytesMax/8-sizeOf(parts[i]))
	}
	if err := p.append(ctx, p.stream("large-parts"), client.NoStream{}, parts...); err != nil {
		return "", fmt.Errorf("append %d events of %d bytes together: %w", len(parts), AppendBytesMax, err)
	}
	return "", p.has(ctx, p.stream("large-parts"), parts...)
}

func (p *Probe) tombstoned(ctx context.Context) (string, error) {
	stream, body := p.stream("body"), checked("what somebody wrote")
	if err := p.append(ctx, stream, client.NoStream{}, body); err != nil {
		return "", err
	}
	if err := p.fence.tombstone(ctx, stream); err != nil {
		return "", fmt.Errorf("end %s: %w", stream, denied(err))
	}
	if err := p.fence.tombstone(ctx, stream); err != nil {
		return "", fmt.Errorf("end %s once more: %w", stream, err)
	}
	if err := p.has(ctx, stream); err != nil {
		return "", err
	}
	switch err := p.append(ctx, stream, client.NoStream{}, checked("again")); {
	case err == nil:
		return "", errors.New("the stream took an event after its end")
	case kindOf(err) != client.ErrorCodeStreamDeleted && kindOf(err) != client.ErrorCodeWrongExpectedVersion:
		return "", fmt.Errorf("an append after the stream's end is refused with another error: %w", err)
	}
	return "", nil
}

func (p *Probe) foundAtItsPlace(ctx context.Context) (string, error) {
	stream, all := p.stream("place"), several(2)
	for i, e := range all {
		expected := client.ExpectedRevision(client.NoStream{})
		if i > 0 {
			expected = client.Revision(uint64(i - 1))
		}
		if err := p.append(ctx, stream, expected, e); err != nil {
			return "", err
		}
		last, err := p.fence.last(ctx, stream)
		if err != nil || last == nil {
			return "", fmt.Errorf("read the end of %s: %w", stream, err)
		}
		there, err := p.fence.at(ctx, placeOf(last.Position))
		if err != nil {
			return "", err
		}
		if there == nil || there.EventID != e.EventID || there.Position != last.Position {
			return "", fmt.Errorf("at place %d of the log lies another event than the one that was read from there", last.Position.Commit)
		}
	}
	return "", nil
}

// leaderOnly appends through a client that keeps to followers where there are any:
// one that is told that only the leader will do has to say who that is.
func (p *Probe) leaderOnly(ctx context.Context) (note string, err error) {
	config, err := configure(p.address.Connection)
	if err != nil {
		return "", err
	}
	config.NodePreference = client.NodePreferenceFollower
	c, err := client.NewClient(config)
	if err != nil {
		return "", err
	}
	stream, e := p.stream("leader"), checked("leader")
	type outcome struct {
		sentOn bool
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		defer c.Close()
		var o outcome
		for ctx.Err() == nil {
			_, o.err = c.AppendToStream(metadata.AppendToOutgoingContext(ctx, "requires-leader", "true"), stream,
				client.AppendToStreamOptions{ExpectedRevision: client.NoStream{}, RequiresLeader: true}, e)
			if kindOf(o.err) != client.ErrorCodeNotLeader {
				break
			}
			o.sentOn = true
		}
		ended <- o
	}()
	select {
	case o := <-ended:
		switch {
		case o.err != nil:
			return "", o.err
		case o.sentOn:
			note = "a follower sent it on"
		default:
			note = "no follower was met"
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return note, p.has(ctx, stream, e)
}

// follow has see look at what a subscription brings, until it has seen enough or
// nothing has come for quiet.
func (p *Probe) follow(ctx context.Context, prefix string, after *place, quiet time.Duration, see func(*client.SubscriptionEvent) (enough bool, err error)) (silent bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := p.fence.subscribe(ctx, prefix, after, applyMax)
	if err != nil {
		return false, fmt.Errorf("subscribe: %w", denied(err))
	}
	came := make(chan *client.SubscriptionEvent)
	go func() {
		for {
			e := s.Recv()
			select {
			case came <- e:
			case <-ctx.Done():
				return
			}
			if e.SubscriptionDropped != nil {
				return
			}
		}
	}()
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		select {
		case e := <-came:
			if e.SubscriptionDropped != nil {
				return false, fmt.Errorf("the subscription ended: %w", e.SubscriptionDropped.Error)
			}
			if enough, err := see(e); enough || err != nil {
				return false, err
			}
			silence.Reset(quiet)
		case <-silence.C:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// gathered is the ids that a subscription tells of, in their order, and sees that their places rise.
type gathered struct {
	ids []uuid.UUID
	at  place
}

func (t *gathered) add(e *client.SubscriptionEvent, prefix string) error {
	if e.EventAppeared == nil {
		return nil
	}
	o := e.EventAppeared.OriginalEvent()
	at := placeOf(o.Position)
	switch {
	case !strings.HasPrefix(o.StreamID, prefix):
		return fmt.Errorf("it tells of %s, which does not begin with %s", o.StreamID, prefix)
	case len(t.ids) > 0 && !at.after(t.at):
		return fmt.Errorf("it tells of place %d of the log after place %d", at.Commit, t.at.Commit)
	}
	t.ids, t.at = append(t.ids, o.EventID), at
	return nil
}

// hears follows until as many have come as are wanted, and finds these.
func (p *Probe) hears(ctx context.Context, prefix string, after *place, want []uuid.UUID) error {
	var t gathered
	_, err := p.follow(ctx, prefix, after, applyMax, func(e *client.SubscriptionEvent) (bool, error) {
		err := t.add(e, prefix)
		return len(t.ids) >= len(want), err
	})
	if err == nil && !slices.Equal(t.ids, want) {
		err = fmt.Errorf("it told of %d events, and not of the %d that were appended, in their order", len(t.ids), len(want))
	}
	return err
}

// scatter appends events to several streams under a prefix, and to one that is not,
// and gives the ids of those under it.
func (p *Probe) scatter(ctx context.Context, prefix string, n int) (ids []uuid.UUID, err error) {
	next := map[string]int{}
	for i := range n {
		e := checked(fmt.Sprint(i))
		stream := fmt.Sprint(prefix, "stream-", i%3)
		if i%4 == 3 {
			stream = p.stream("elsewhere-" + strings.TrimPrefix(prefix, p.Prefix))
		} else {
			ids = append(ids, e.EventID)
		}
		expected := client.ExpectedRevision(client.NoStream{})
		if next[stream] > 0 {
			expected = client.Revision(uint64(next[stream] - 1))
		}
		next[stream]++
		if err := p.append(ctx, stream, expected, e); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (p *Probe) subscribed(ctx context.Context) (string, error) {
	prefix := p.Prefix + "subscribed."
	ids, err := p.scatter(ctx, prefix, 200)
	if err != nil {
		return "", err
	}
	return "", p.hears(ctx, prefix, p.began, ids)
}

func (p *Probe) live(ctx context.Context) (string, error) {
	prefix, all := p.Prefix+"live.", several(5)
	if err := p.append(ctx, prefix+"s", client.NoStream{}, all[0]); err != nil {
		return "", err
	}
	var t gathered
	silent, err := p.follow(ctx, prefix, p.began, applyMax, func(e *client.SubscriptionEvent) (bool, error) {
		had := len(t.ids)
		if err := t.add(e, prefix); err != nil || len(t.ids) == had {
			return false, err
		}
		if len(t.ids) == len(all) {
			return true, nil
		}
		return false, p.append(ctx, prefix+"s", client.Revision(uint64(had)), all[len(t.ids)])
	})
	if silent {
		err = fmt.Errorf("of %d events it told only of %d within %s", len(all), len(t.ids), applyMax)
	}
	return "", err
}

func (p *Probe) resumed(ctx context.Context) (string, error) {
	prefix := p.Prefix + "resumed."
	ids, err := p.scatter(ctx, prefix, 100)
	if err != nil {
		return "", err
	}
	var places []place
	if _, err := p.follow(ctx, prefix, p.began, applyMax, func(e *client.SubscriptionEvent) (bool, error) {
		if e.EventAppeared != nil {
			places = append(places, placeOf(e.EventAppeared.OriginalEvent().Position))
		}
		return len(places) == len(ids), nil
	}); err != nil {
		return "", err
	}
	for i := 0; i < len(places)-1; i += 7 {
		if err := p.hears(ctx, prefix, &places[i], ids[i+1:]); err != nil {
			return "", fmt.Errorf("behind the event %d of %d: %w", i+1, len(ids), err)
		}
	}
	return "", nil
}

func (p *Probe) caughtUp(ctx context.Context) (note string, err error) {
	prefix := p.Prefix + "caught-up."
	if err := p.append(ctx, prefix+"s", client.NoStream{}, several(3)...); err != nil {
		return "", err
	}
	seen, said := 0, false
	silent, err := p.follow(ctx, prefix, p.began, quietFor, func(e *client.SubscriptionEvent) (bool, error) {
		if e.EventAppeared != nil {
			seen++
		}
		said = said || e.CaughtUp != nil
		return said, nil
	})
	switch {
	case err != nil:
		return "", err
	case seen != 3:
		return "", fmt.Errorf("it had told of %d events of 3", seen)
	case silent:
		// So it is with servers before 23.10: the projector goes by the silence.
		note = fmt.Sprintf("this one does not, and is taken to have after %s of silence: serve opens that much later", quietFor)
	}
	return note, nil
}

// Clean ends all streams that were made under the probe's prefix, and says how many
// they were. What they held is on the server's disk until its next scavenge.
func (p *Probe) Clean(ctx context.Context) (streams int, err error) {
	last, err := p.fence.reached(ctx, p.Server, openMax)
	if err != nil {
		return 0, err
	}
	if last == nil {
		return 0, nil
	}
	until := placeOf(last.Position)
	made := map[string]bool{}
	_, err = p.follow(ctx, p.Prefix, p.began, quietFor, func(e *client.SubscriptionEvent) (bool, error) {
		switch {
		case e.EventAppeared != nil:
			o := e.EventAppeared.OriginalEvent()
			made[o.StreamID] = true
			return !until.after(placeOf(o.Position)), nil
		case e.CheckPointReached != nil:
			looked := placeOf(*e.CheckPointReached)
			return !until.after(looked) && looked.Commit < unsetFrom, nil
		}
		return e.CaughtUp != nil, nil
	})
	if err != nil {
		return 0, fmt.Errorf("find what was made: %w", err)
	}
	for stream := range made {
		if err := p.ends(ctx, stream); err != nil {
			return streams, fmt.Errorf("end %s: %w", stream, denied(err))
		}
		streams++
	}
	return streams, nil
}

// ends ends a stream, and tries again while nobody can.
func (p *Probe) ends(ctx context.Context, stream string) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		attempt, cancel := context.WithTimeout(ctx, attemptMax)
		err := p.fence.tombstone(attempt, stream)
		cancel()
		if err == nil || refusedFor(err) != nil {
			return err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}
