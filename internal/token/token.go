// Package token keeps who may use the doors of a running decklog from outside
// of its ledger's folder: the tokens that a person gave out, and the one of this
// machine. They lie in files beside the ledger that are their owner's alone, and
// of a token that was given out only a hash is kept.
//
// A token says for whom its holder acts and whether it may change anything. The
// package knows neither HTTP nor the operations, and does not know whether a
// participant exists: it keeps what it is told.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"decklog/events"
)

// Scope is how far a token reaches.
type Scope string

// The scopes. One that writes reads as well.
const (
	Read  Scope = "read"
	Write Scope = "write"
)

// Scopes lists the scopes.
func Scopes() []Scope { return []Scope{Read, Write} }

// May says whether a token of this scope is enough for what needs another. A
// scope that is none is enough for nothing.
func (s Scope) May(needs Scope) bool {
	switch s {
	case Write:
		return needs == Write || needs == Read
	case Read:
		return needs == Read
	}
	return false
}

// Machine is whom the machine's own token names: whoever can read the ledger's
// folder. It is believed about who calls, as the command line is on a file.
const Machine events.Participant = "machine"

// Token is what is known of a token, without what makes it one.
type Token struct {
	ID          string             `json:"id"` // not secret
	Participant events.Participant `json:"participant"`
	Scope       Scope              `json:"scope"`
	Label       string             `json:"label"` // for people
	Created     events.Time        `json:"created"`
	Expires     *events.Time       `json:"expires"` // from then on it is good no more; nil: never
	Revoked     *events.Time       `json:"revoked"` // nil: it was not
}

// OfMachine says whether it is the machine's own.
func (t Token) OfMachine() bool { return t.Participant == Machine }

// State says in one word what a token is at a moment.
func (t Token) State(now events.Time) string {
	switch {
	case t.Revoked != nil:
		return "revoked"
	case t.Expires != nil && now >= *t.Expires:
		return "expired"
	}
	return "good"
}

// What is wrong with a token, or with where they are kept.
var (
	// ErrUnknown says that it is no token of this ledger. It does not say whether
	// the id in it is one's.
	ErrUnknown = errors.New("no token of this ledger")
	ErrRevoked = errors.New("the token was revoked")
	ErrExpired = errors.New("the token has expired")
	// ErrDamaged says that the tokens cannot be read. Until they can be, nobody
	// gets in by one.
	ErrDamaged = errors.New("the tokens cannot be read")
	ErrFull    = errors.New("there are too many tokens")
)

// A token is written as
//
//	dlk_k3v9x2ab_bq7m...   the id (8 characters), the secret (52: 32 random bytes)
//
// in lower case and without a character that a shell, an address or a cookie
// takes for its own. That of the machine has the id "machine".
const (
	opens       = "dlk_"
	idBytes     = 5
	secretBytes = 32
	machineID   = "machine"
)

// TextBytesMax bounds a token as text; what is longer is none.
const TextBytesMax = 80

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: the program would have been ended
	return letters.EncodeToString(b)
}

// text is a new token with this id.
func text(id string) string { return opens + id + "_" + random(secretBytes) }

// IDIn is the id within a token's text; empty when it has not the form of one.
// It says nothing of whether the token is good.
func IDIn(text string) string {
	rest, is := strings.CutPrefix(text, opens)
	id, secret, _ := strings.Cut(rest, "_")
	if !is || len(text) > TextBytesMax || id != machineID && !written(id, idBytes) || !written(secret, secretBytes) {
		return ""
	}
	return id
}

// written says whether a text is that of so many bytes.
func written(s string, n int) bool {
	b, err := letters.DecodeString(s)
	return err == nil && len(b) == n && letters.EncodeToString(b) == s
}

// hashOf is what is kept of a token. Its secret has the whole strength of the
// hash, so nothing slower is needed to keep it one.
func hashOf(text string) [sha256.Size]byte {
	return sha256.Sum256([]byte("decklog token v1\n" + text))
}

// LabelBytesMax bounds a label.
const LabelBytesMax = 100

// check says what is wrong with a token that is to be kept.
func (t Token) check() error {
	switch {
	case !t.Scope.May(Read):
		return fmt.Errorf("the scope %q is neither read nor write", t.Scope)
	case t.Participant == "" || t.Participant == Machine:
		return fmt.Errorf("a token is not given out for %q", t.Participant)
	case len(t.Participant) > events.SessionIDBytesMax || !shown(string(t.Participant)):
		return errors.New("the participant is no name that can be shown")
	case len(t.Label) > LabelBytesMax || !shown(t.Label):
		return fmt.Errorf("the label has more than %d bytes, or a character that cannot be shown", LabelBytesMax)
	}
	return nil
}

func shown(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
