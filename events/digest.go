package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Digest is the SHA-256 of a recorded event's stored bytes and of the digest of
// the event before it in its stream. A changed byte, or an event left out of
// the middle of a stream, shows at once and in its place.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Chain computes the digest that the recorded event must have after the given
// one; the zero digest stands before a stream's first. The encoding is each
// field's length as a varint and its bytes, in this order, after a version line.
func (r Recorded) Chain(before Digest) Digest {
	b := make([]byte, 0, 512+len(r.Data))
	b = append(b, "decklog event v1\n"...)
	field := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	number := func(n int64) { field(strconv.FormatInt(n, 10)) }
	number(int64(r.Position))
	field(string(r.Stream))
	number(int64(r.Revision))
	field(string(r.ID))
	field(string(r.Type()))
	number(int64(r.Version))
	number(int64(r.Time))
	field(string(r.Actor))
	field(string(r.Cause.Command))
	field(string(r.Cause.Event))
	number(int64(r.Policy))
	b = binary.AppendUvarint(b, uint64(len(r.Data)))
	b = append(b, r.Data...)
	b = append(b, before[:]...)
	return sha256.Sum256(b)
}

// Metadata is the same facts as a flat object of strings, the form in which
// EventStoreDB's tools follow correlation and cause.
func (r Recorded) Metadata() map[string]string {
	m := map[string]string{}
	r.EachMetadata(func(key, value string) { m[key] = value })
	return m
}

// EachMetadata calls visit with each entry of [Recorded.Metadata], in the order of
// the keys.
func (r Recorded) EachMetadata(visit func(key, value string)) {
	correlation, causation := string(r.Cause.Command), string(r.Cause.Command)
	if t := ThreadOf(r.Event); t != "" {
		correlation = string(t)
	}
	if r.Cause.Event != "" {
		causation = string(r.Cause.Event)
	}
	visit("$causationId", causation)
	visit("$correlationId", correlation)
	visit("actor", string(r.Actor))
	visit("command", string(r.Cause.Command))
	visit("policy", strconv.FormatInt(int64(r.Policy), 10))
	visit("schema", strconv.Itoa(r.Version))
	visit("time", r.Time.String())
}
