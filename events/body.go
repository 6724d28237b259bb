package events

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Salt is the 32 random bytes that keep a short body from being guessed from
// its commitment once the body is gone.
type Salt [32]byte

// Body is what lies beside an event: the text that somebody wrote, the salt of
// its commitment, and a fingerprint by which an equal message is found while
// the body is there. No fold and no row of a view holds any of it.
type Body struct {
	Salt        Salt
	Text        []byte
	Fingerprint Fingerprint
}

// BodyRef is all that an event says of its body.
type BodyRef struct {
	Commitment string `json:"commitment"` // hex of HMAC-SHA256(salt, "decklog body v1\n" || body)
	Bytes      int    `json:"bytes"`
}

// Commit makes what the event holds.
func (b Body) Commit() BodyRef {
	m := hmac.New(sha256.New, b.Salt[:])
	m.Write([]byte("decklog body v1\n"))
	m.Write(b.Text)
	return BodyRef{Commitment: hex.EncodeToString(m.Sum(nil)), Bytes: len(b.Text)}
}

// Opens says whether this body is the one that was committed to.
func (b Body) Opens(ref BodyRef) bool { return b.Commit() == ref }

// TextOf is what an event says of the text beside it; false when none was laid there.
func TextOf(e Event) (BodyRef, bool) {
	switch e := e.(type) {
	case MessageSent:
		return e.Body, true
	case MessageEdited:
		return e.Body, true
	case PayloadAttached:
		return e.Payload, true
	case HandoffOffered:
		return e.Reason, true
	case HandoffDeclined:
		if e.Reason != nil {
			return *e.Reason, true
		}
	case OwedClosed:
		if e.Reason != nil {
			return *e.Reason, true
		}
	}
	return BodyRef{}, false
}

// Fingerprint tells equal messages without comparing their text. It lies with
// the body, not in the event, and goes when the body goes.
type Fingerprint [32]byte

// FingerprintOf is made of parts of which none may run into the next.
func FingerprintOf(parts ...string) Fingerprint {
	h := sha256.New()
	h.Write([]byte("decklog fingerprint v1\n"))
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return Fingerprint(h.Sum(nil))
}
