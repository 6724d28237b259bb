package events_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
)

func TestACommitmentIsTheHMACThatTheDesignNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var salt events.Salt
		copy(salt[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "salt"))
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		m := hmac.New(sha256.New, salt[:])
		m.Write(append([]byte("decklog body v1\n"), text...))
		want := events.BodyRef{Commitment: hex.EncodeToString(m.Sum(nil)), Bytes: len(text)}
		body := events.Body{Salt: salt, Text: text}
		if got := body.Commit(); got != want || !body.Opens(want) {
			t.Fatalf("committed to %+v, want %+v", got, want)
		}
	})
}

func TestACommitmentIsFrozen(t *testing.T) {
	var salt events.Salt
	for i := range salt {
		salt[i] = byte(i)
	}
	b := events.Body{Salt: salt, Text: []byte("Which commit fixed the lease test?")}
	const want = "66b25f74fc6445d47df83ee8f995ce8e2fdadf4dae944a9afb128fe0c30de375"
	if got := b.Commit(); got.Commitment != want || got.Bytes != 34 {
		t.Errorf("committed to %+v, want %s", got, want)
	}
}

func TestAnotherTextOrSaltDoesNotOpenACommitment(t *testing.T) {
	b := events.Body{Salt: events.Salt{1}, Text: []byte("text")}
	ref := b.Commit()
	for what, other := range map[string]events.Body{
		"another text": {Salt: b.Salt, Text: []byte("texT")}, "a longer text": {Salt: b.Salt, Text: []byte("text ")},
		"another salt": {Salt: events.Salt{2}, Text: b.Text}, "nothing": {},
	} {
		if other.Opens(ref) {
			t.Errorf("%s opens it", what)
		}
	}
	if b.Opens(events.BodyRef{Commitment: ref.Commitment, Bytes: 5}) {
		t.Error("it opens a commitment to another length")
	}
	b.Fingerprint = events.FingerprintOf("anything")
	if !b.Opens(ref) {
		t.Error("the fingerprint is part of the commitment")
	}
}

func TestOnlyTheSamePartsHaveTheSameFingerprint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x01\x02\x00")), 0, 4, -1)
		a, b := rapid.SliceOfN(part, 0, 4).Draw(t, "a"), rapid.SliceOfN(part, 0, 4).Draw(t, "b")
		if same := events.FingerprintOf(a...) == events.FingerprintOf(b...); same != slices.Equal(a, b) {
			t.Fatalf("%q and %q: same fingerprint is %t", a, b, same)
		}
	})
	if events.FingerprintOf("ab", "c") == events.FingerprintOf("a", "bc") {
		t.Error("one part runs into the next")
	}
	if events.FingerprintOf(strings.Repeat("a", 300), "b") == events.FingerprintOf(strings.Repeat("a", 300)+"b") {
		t.Error("a long part runs into the next")
	}
}
