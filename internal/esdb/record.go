package esdb

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// AppendBytesMax is the most that one append may have, as the cluster counts it:
// data, metadata, and twice the types' names. It is the server's default.
const AppendBytesMax = 1 << 20

// The parts of a name behind the prefix, and the types, that are not of events.
const (
	bodyMark = "body-"
	bodyType = "body"
	// repeatedType is that of an event whose id was recorded before, in another
	// stream: see sameAgain.
	repeatedType events.Type = "event.repeated"
)

// The keys of an event's metadata besides those of [events.Recorded.Metadata].
//
//	{"$causationId": "5d9c…", "$correlationId": "31a7…", "actor": "@smith", "batch": "1/2", "body": "9f86d081884c7d65",
//	 "command": "5d9c…", "digest": "2c26…", "policy": "1", "schema": "1", "time": "2026-11-30T12:00:00.000000Z"}
const (
	keyID     = "id"        // the event's id where it is no UUID
	keyCaused = "caused_by" // the event that it answers
	keyBatch  = "batch"     // its place in its append, and how many that has
	keyDigest = "digest"    // over all that it says, without its place
	keyBody   = "body"      // the end of its body's stream
	keyDrops  = "drops"     // the events whose bodies go, with commas
)

// place is a place in the cluster's log.
type place struct {
	Commit  uint64 `json:"commit"`
	Prepare uint64 `json:"prepare"`
}

func placeOf(p client.Position) place { return place{p.Commit, p.Prepare} }

func (p place) position() client.Position {
	return client.Position{Commit: p.Commit, Prepare: p.Prepare}
}

func (p place) after(q place) bool {
	return p.Commit > q.Commit || p.Commit == q.Commit && p.Prepare > q.Prepare
}

// serverID is the id that the cluster knows an event by.
func serverID(id events.EventID) uuid.UUID {
	if u, is := events.ParseUUID(string(id)); is && uuid.UUID(u) != uuid.Nil {
		return u
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("decklog event\n"+string(id)))
}

// seal is what an event says of itself so that whoever reads it knows that
// nothing of it was lost on the way: its digest at no place and after nothing.
// Its place is not known before it is appended.
func seal(r events.Recorded) string {
	r.Position = 0
	return r.Chain(events.Digest{}).String()
}

// sealOf is the seal that an event came with.
func sealOf(metadata []byte) (seal string) {
	eachOf(metadata, func(key, value string) {
		if key == keyDigest {
			seal = value
		}
	})
	return seal
}

// outgoing is one append.
type outgoing struct {
	stream   events.Stream
	expected events.Revision
	proposed []events.Proposed
	recorded []events.Recorded // as the decision saw them
	data     []client.EventData
	bodies   []string // the end of each body's stream; empty where there is none
}

// bodyStream is the stream of the i-th event's body, which has one.
func (o outgoing) bodyStream(i int) string {
	if len(o.bodies) > i {
		return bodyStream(o.proposed[i].ID, o.bodies[i])
	}
	return bodyStream(o.proposed[i].ID, bodyShort(*o.proposed[i].Body)) // it is not encoded
}

// expectation is the revision as the client takes it. It is never Any: only at
// an exact revision does the server know an event that it has already.
func expectation(r events.Revision) client.ExpectedRevision {
	if r == events.NoStream {
		return client.NoStream{}
	}
	return client.Revision(uint64(r))
}

// encode makes what is sent of a batch that the mirror took.
func encode(b events.Batch, recorded []events.Recorded) (outgoing, error) {
	o := outgoing{stream: b.Stream, expected: b.Expected, proposed: b.Events, recorded: recorded}
	for _, mark := range []string{bodyMark, toldMark} {
		if strings.HasPrefix(string(b.Stream), mark) {
			return o, fmt.Errorf("append to %s: streams of this name hold no events", b.Stream)
		}
	}
	size := 0
	for i, r := range recorded {
		p := b.Events[i]
		if err := readsBack(r); err != nil {
			return o, fmt.Errorf("append to %s: event %s would not read back: %w", b.Stream, r.ID, err)
		}
		m := make(flat, 0, 512)
		r.EachMetadata(m.put)
		id, short := serverID(r.ID), ""
		if string(r.ID) != id.String() {
			m.put(keyID, string(r.ID))
		}
		if r.Cause.Event != "" {
			m.put(keyCaused, string(r.Cause.Event))
		}
		m.put(keyBatch, strconv.Itoa(i+1)+"/"+strconv.Itoa(len(recorded)))
		m.put(keyDigest, seal(r))
		if p.Body != nil {
			short = bodyShort(*p.Body)
			m.put(keyBody, short)
		}
		if len(p.Drops) > 0 {
			ids := make([]string, len(p.Drops))
			for i, id := range p.Drops {
				if strings.Contains(string(id), ",") {
					return o, fmt.Errorf("append to %s: the event id %q has a comma", b.Stream, id)
				}
				ids[i] = string(id)
			}
			m.put(keyDrops, strings.Join(ids, ","))
		}
		e := client.EventData{EventID: id, EventType: string(r.Type()), ContentType: client.ContentTypeJson, Data: r.Data, Metadata: m.bytes()}
		size += sizeOf(e)
		o.data, o.bodies = append(o.data, e), append(o.bodies, short)
	}
	return o, fits(size, string(b.Stream))
}

// readsBack says why an event would not read back as it is. It must not be
// recorded: it could never be taken away.
func readsBack(r events.Recorded) error {
	for _, text := range []string{
		string(r.Stream), string(r.ID), string(r.Type()), string(r.Actor), string(r.Cause.Command), string(r.Cause.Event),
	} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not UTF-8", text)
		}
	}
	if events.At(r.Time.Std()) != r.Time {
		return fmt.Errorf("its time %d cannot be written", r.Time)
	}
	return nil
}

// sizeOf is what an event counts towards AppendBytesMax.
func sizeOf(e client.EventData) int { return len(e.Data) + len(e.Metadata) + 2*len(e.EventType) }

func fits(size int, what string) error {
	if size <= AppendBytesMax {
		return nil
	}
	return failure.New("too_large", "send less at once",
		fmt.Errorf("append to %s: %d bytes, and the cluster takes at most %d in one append; nothing was recorded", what, size, AppendBytesMax))
}

// arrival is one event as it came from the cluster.
type arrival struct {
	sqlite.Arrived
	server       uuid.UUID // the id that the cluster knows it by
	body         string    // the end of its body's stream; empty when it has none
	index, total int       // in its append
	at           place
}

// decode reads an event of ours.
func decode(stream events.Stream, revision events.Revision, id uuid.UUID, kind string, data, metadata []byte) (a arrival, err error) {
	damaged := func(what string) (arrival, error) {
		return a, fmt.Errorf("event %d of %s: %s: %w", revision, stream, what, events.ErrDamaged)
	}
	if data == nil {
		data = []byte{}
	}
	r := events.Recorded{Stream: stream, Revision: revision, Data: data}
	var time, policy, version, digest, batch, drops string
	is := eachOf(metadata, func(key, value string) {
		switch key {
		case keyID:
			r.ID = events.EventID(value)
		case "actor":
			r.Actor = events.Participant(value)
		case "command":
			r.Cause.Command = events.CommandID(value)
		case keyCaused:
			r.Cause.Event = events.EventID(value)
		case "time":
			time = value
		case "policy":
			policy = value
		case "schema":
			version = value
		case keyDigest:
			digest = value
		case keyBatch:
			batch = value
		case keyBody:
			a.body = value
		case keyDrops:
			drops = value
		}
	})
	if !is {
		return damaged("its metadata is not of decklog")
	}
	var err2, err3 error
	r.Time, err = events.ParseTime(time)
	r.Version, err2 = strconv.Atoi(version)
	at, err3 := strconv.ParseInt(policy, 10, 64)
	r.Policy = events.Position(at)
	if err := errors.Join(err, err2, err3); err != nil {
		return damaged(err.Error())
	}
	if r.ID == "" {
		r.ID = events.EventID(id.String())
	}
	r.Event, _ = events.Decode(events.Type(kind), r.Version, data)
	if seal(r) != digest || serverID(r.ID) != id {
		return damaged("it is not what its digest says")
	}
	a.Arrived.Recorded, a.server = r, id
	index, total, _ := strings.Cut(batch, "/")
	a.index, err = strconv.Atoi(index)
	a.total, err2 = strconv.Atoi(total)
	if err := errors.Join(err, err2); err != nil || a.index < 1 || a.index > a.total {
		return damaged("it has no place in its append")
	}
	if drops != "" {
		for id := range strings.SplitSeq(drops, ",") {
			a.Drops = append(a.Drops, events.EventID(id))
		}
	}
	return a, nil
}

// sameAgain is an event whose id is in the ledger already, from another stream:
// two machines were given the same command at once, and decided it differently.
// The first in the log's order is the one. The second keeps its place, under an
// id of its own and as a type that no fold knows, so that every mirror, which
// sees the same two in the same order, ends with the same.
func sameAgain(r events.Recorded) events.Recorded {
	r.ID = events.EventID(uuid.NewSHA1(serverID(r.ID), fmt.Appendf(nil, "%s %d", r.Stream, r.Revision)).String())
	r.Event = events.Unknown{Type: repeatedType, Version: r.Version, Data: r.Data}
	return r
}

// bodyShort tells the bodies of one event apart that decisions made anew gave it.
func bodyShort(b events.Body) string { return b.Commit().Commitment[:shortBytes] }

const shortBytes = 16 // of a commitment's text

// bodyStream is the stream of an event's body, behind the prefix.
func bodyStream(id events.EventID, short string) string { return bodyMark + string(id) + "-" + short }

// bodyData is what a body's stream holds: the text as it is, and the rest in
// the metadata.
func bodyData(id events.EventID, b events.Body) (client.EventData, error) {
	m := make(flat, 0, 256)
	m.put("event", string(id))
	m.put("salt", hex.EncodeToString(b.Salt[:]))
	m.put("fingerprint", hex.EncodeToString(b.Fingerprint[:]))
	e := client.EventData{
		EventID:   uuid.NewSHA1(serverID(id), []byte("body "+b.Commit().Commitment)),
		EventType: bodyType, ContentType: client.ContentTypeBinary, Data: b.Text, Metadata: m.bytes(),
	}
	return e, fits(sizeOf(e), "the body's stream")
}

// readBody reads what a body's stream holds.
func readBody(e *client.RecordedEvent) (events.EventID, events.Body, error) {
	var b events.Body
	var id, salt, fingerprint string
	is := eachOf(e.UserMetadata, func(key, value string) {
		switch key {
		case "event":
			id = value
		case "salt":
			salt = value
		case "fingerprint":
			fingerprint = value
		}
	})
	err := errors.Join(fill(b.Salt[:], salt), fill(b.Fingerprint[:], fingerprint))
	if !is || err != nil {
		return "", b, fmt.Errorf("body in %s: %w: its metadata is not of decklog: %w", e.StreamID, events.ErrDamaged, err)
	}
	b.Text = append([]byte{}, e.Data...)
	return events.EventID(id), b, nil
}

func fill(into []byte, text string) error {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != len(into) {
		err = fmt.Errorf("%d bytes, not %d", len(b), len(into))
	}
	copy(into, b)
	return err
}
