// Package stamp is how the pre-tool hook tells decklog's MCP server who calls.
// Before a harness calls a tool of decklog's, its hook writes a stamp into the
// call's input: the session, signed with a key that lies beside the ledger. A
// model has not seen that key, and a stamp is good for one call and a minute, so
// that a session cannot call as another by writing its name.
//
// The package is pure: the key and the time come in.
package stamp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Field is the field of a tool's input in which the stamp stands. No model fills
// it in.
const Field = "_decklog"

// KeyBytes is the length of a key.
const KeyBytes = 32

// Lifetime is how long a stamp is good for: longer than a harness takes between
// its hook and the call, a person's approval left out.
const Lifetime = 60 * time.Second

// skew is how far ahead of the reader's clock a stamp may have been made.
const skew = 5 * time.Second

// Claim is what a stamp says: who makes which call.
type Claim struct {
	Session string `json:"session"`
	Harness string `json:"harness"`
	Agent   string `json:"agent,omitempty"` // a subagent's id; empty: the session itself
	Tool    string `json:"tool"`            // as its server knows it
	Use     string `json:"use,omitempty"`   // the harness's id of the call; empty: it has none
	Input   string `json:"input"`           // the sum of the rest of the input
	Made    int64  `json:"made"`            // microseconds since 1970
}

// A stamp is the claim and its sum, both in letters that need no escape:
//
//	v1.eyJzZXNzaW9uIjoi….hR3k…
const version = "v1"

// ErrBad is wrapped by what [Verify] says of a stamp that is none.
var ErrBad = errors.New("the stamp is none")

// Sign makes the stamp of a call that is about to be made with this input, an
// object with or without a stamp in it.
func Sign(key []byte, c Claim, input []byte, now time.Time) (string, error) {
	sum, err := Sum(input)
	if err != nil {
		return "", err
	}
	c.Input, c.Made = sum, now.UnixMicro()
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("sign stamp: %w", err)
	}
	text := version + "." + base64.RawURLEncoding.EncodeToString(payload)
	mac, err := mac(key, text)
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(mac), nil
}

func mac(key []byte, text string) ([]byte, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("the key has %d bytes, and not %d", len(key), KeyBytes)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("decklog stamp v1\n" + text))
	return h.Sum(nil), nil
}

// Verify reads a stamp that came with a call: of which tool, with which input,
// and under which id, where its harness says that of a call too. The error says
// why it is none, in words for whoever called.
func Verify(key []byte, stamp, tool, use string, input []byte, now time.Time) (Claim, error) {
	text, sum, _ := cutLast(stamp)
	given, err := base64.RawURLEncoding.Strict().DecodeString(sum) // one text for one sum
	want, keyed := mac(key, text)
	if keyed != nil {
		return Claim{}, keyed
	}
	if err != nil || !hmac.Equal(given, want) {
		return Claim{}, bad("decklog's hook did not make it")
	}
	var c Claim
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, version+"."))
	if err == nil {
		err = json.Unmarshal(payload, &c)
	}
	if err != nil || c.Session == "" {
		return Claim{}, bad("it cannot be read")
	}
	rest, err := Sum(input)
	if err != nil {
		return Claim{}, err
	}
	age := now.Sub(time.UnixMicro(c.Made))
	switch {
	case c.Tool != tool:
		return Claim{}, bad("it was made for a call of " + c.Tool + ", and not of " + tool)
	case c.Use != "" && use != "" && c.Use != use:
		return Claim{}, bad("it was made for another call")
	case c.Input != rest:
		return Claim{}, bad("it was made for a call with another input")
	case age > Lifetime:
		return Claim{}, bad(fmt.Sprintf("it was made %s ago, and is good for %s", age.Truncate(time.Second), Lifetime))
	case age < -skew:
		return Claim{}, bad("it was made in the future")
	}
	return c, nil
}

func bad(why string) error { return fmt.Errorf("%w: %s", ErrBad, why) }

func cutLast(s string) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// Sum is the sum of an input without its stamp. It is one for all the ways in
// which the harness may write the input anew between its hook and the call: the
// order of the fields, blanks, escapes, the form of a number.
func Sum(input []byte) (string, error) {
	var fields map[string]any
	if len(bytes.TrimSpace(input)) > 0 {
		if err := json.Unmarshal(input, &fields); err != nil {
			return "", fmt.Errorf("the input is no JSON object: %w", err)
		}
	}
	if fields == nil {
		fields = map[string]any{}
	}
	delete(fields, Field)
	rest, err := json.Marshal(fields) // its keys sorted, at every depth
	if err != nil {
		return "", fmt.Errorf("sum the input: %w", err)
	}
	sum := sha256.Sum256(rest)
	return hex.EncodeToString(sum[:]), nil
}

// Into writes a stamp into an input, in place of one that stands there.
func Into(input []byte, stamp string) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(input)) > 0 {
		if err := json.Unmarshal(input, &fields); err != nil {
			return nil, fmt.Errorf("the input is no JSON object: %w", err)
		}
	}
	if fields == nil { // it was null
		fields = map[string]json.RawMessage{}
	}
	text, err := json.Marshal(stamp)
	if err != nil {
		return nil, fmt.Errorf("write stamp: %w", err)
	}
	fields[Field] = text
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields); err != nil {
		return nil, fmt.Errorf("write stamp: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Out takes the stamp out of an input; empty when there is none.
func Out(input map[string]json.RawMessage) (stamp string, there bool) {
	text, there := input[Field]
	if !there || string(text) == "null" {
		delete(input, Field)
		return "", false
	}
	_ = json.Unmarshal(text, &stamp) // what is no text is a stamp that is none
	delete(input, Field)
	return stamp, true
}
