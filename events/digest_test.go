package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
)

func recorded() events.Recorded {
	data := []byte(`{"session":"s","reason":"left"}`)
	e, _ := events.Decode(events.TypeSessionLeft, 1, data)
	return events.Recorded{
		Position: 17, Stream: "session-s", Revision: 3, ID: "0d9c8b7a-6f5e-5d4c-8b3a-291807f6e5d4", Time: 1_796_029_210_250_000, Actor: "s",
		Cause: events.Cause{Command: "019b2f3c-7d10-7e44-b0aa-51c20f5d9e17", Event: "1e0d9c8b-7a6f-5e5d-8c4b-3a291807f6e5"}, Policy: 1, Version: 1, Data: data, Event: e,
	}
}

func TestADigestIsOverEveryFieldInTheDocumentedForm(t *testing.T) {
	r, before := recorded(), events.Digest(sha256.Sum256([]byte("before")))
	var b bytes.Buffer
	b.WriteString("decklog event v1\n")
	for _, field := range []any{r.Position, r.Stream, r.Revision, r.ID, r.Event.EventType(), r.Version, int64(r.Time), r.Actor, r.Cause.Command, r.Cause.Event, r.Policy, string(r.Data)} {
		text := fmt.Sprint(field)
		b.Write(binary.AppendUvarint(nil, uint64(len(text))))
		b.WriteString(text)
	}
	b.Write(before[:])
	if got, want := r.Chain(before), events.Digest(sha256.Sum256(b.Bytes())); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
	const first = "d12e04b2bee08b1f1c461d958d0d579cc202fa03ff9e4460ee357beb8dbbd3f5"
	if got := r.Chain(events.Digest{}).String(); got != first {
		t.Errorf("the digest of a stream's first event is %s, and was %s", got, first)
	}
}

func TestAnotherValueInAnyFieldGivesAnotherDigest(t *testing.T) {
	before := events.Digest{9}
	was := recorded().Chain(before)
	for what, change := range map[string]func(*events.Recorded){
		"position": func(r *events.Recorded) { r.Position++ },
		"stream":   func(r *events.Recorded) { r.Stream = "session-t" },
		"revision": func(r *events.Recorded) { r.Revision++ },
		"id":       func(r *events.Recorded) { r.ID = "1d9c8b7a-6f5e-5d4c-8b3a-291807f6e5d4" },
		"type":     func(r *events.Recorded) { r.Event = events.SessionJoined{} },
		"version":  func(r *events.Recorded) { r.Version++ },
		"time":     func(r *events.Recorded) { r.Time++ },
		"actor":    func(r *events.Recorded) { r.Actor = "t" },
		"command":  func(r *events.Recorded) { r.Cause.Command = "" },
		"cause":    func(r *events.Recorded) { r.Cause.Event = "" },
		"policy":   func(r *events.Recorded) { r.Policy++ },
	} {
		r := recorded()
		change(&r)
		if r.Chain(before) == was {
			t.Errorf("another %s gives the same digest", what)
		}
	}
	for i := range recorded().Data {
		for bit := range 8 {
			r := recorded()
			r.Data = bytes.Clone(r.Data)
			r.Data[i] ^= 1 << bit
			if r.Chain(before) == was {
				t.Errorf("bit %d of byte %d of the data is not in the digest", bit, i)
			}
		}
	}
	for i := range before {
		other := before
		other[i] ^= 1
		if recorded().Chain(other) == was {
			t.Errorf("byte %d of the digest before is not in the digest", i)
		}
	}
}

func TestNoFieldRunsIntoTheNext(t *testing.T) {
	a, b := recorded(), recorded()
	a.Actor, a.Cause.Command = "ab", "c"
	b.Actor, b.Cause.Command = "a", "bc"
	if a.Chain(events.Digest{}) == b.Chain(events.Digest{}) {
		t.Error("the actor runs into the command")
	}
	a, b = recorded(), recorded()
	a.Cause.Event, b.Cause.Event = "", ""
	a.Cause.Command, b.Cause.Command = "x", ""
	b.Cause.Event = "x"
	if a.Chain(events.Digest{}) == b.Chain(events.Digest{}) {
		t.Error("the command passes for the event that it answered")
	}
}

func TestAChainTellsTheOrderOfItsEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "events")
		var chain []events.Recorded
		for i := range n {
			r := recorded()
			r.Revision, r.Position = events.Revision(i), events.Position(i+1)
			r.Data = []byte(fmt.Sprintf(`{"session":"s%d","reason":"left"}`, i))
			chain = append(chain, r)
		}
		end := func(order []events.Recorded) (d events.Digest) {
			for _, r := range order {
				d = r.Chain(d)
			}
			return d
		}
		was := end(chain)
		i := rapid.IntRange(0, n-2).Draw(t, "swapped with the next")
		swapped := append([]events.Recorded{}, chain...)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		if end(swapped) == was {
			t.Fatal("swapping two events leaves the digest")
		}
		left := append(append([]events.Recorded{}, chain[:i]...), chain[i+1:]...)
		if end(left) == was {
			t.Fatal("leaving out an event leaves the digest")
		}
	})
}

func TestMetadataIsAFlatObjectOfStringsWithCorrelationAndCause(t *testing.T) {
	r := recorded()
	got := r.Metadata()
	for key, want := range map[string]string{
		"$correlationId": string(r.Cause.Command), "$causationId": string(r.Cause.Event), "command": string(r.Cause.Command), "actor": "s",
		"time": r.Time.String(), "policy": "1", "schema": "1",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	r.Cause.Event = ""
	r.Event = events.ThreadDone{Thread: "the thread"}
	if got := r.Metadata(); got["$causationId"] != string(r.Cause.Command) || got["$correlationId"] != "the thread" {
		t.Errorf("of a thread's event without a cause: %v", got)
	}
}
