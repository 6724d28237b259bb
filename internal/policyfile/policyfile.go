// Package policyfile reads a ledger's policy from TOML, and writes it. It tells
// all that is wrong with a file at once, each fault with its line and its fix,
// because a policy is edited by people and adopted by an event: a fault that is
// found after that stays in the ledger.
package policyfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"decklog/events"
)

// FileBytesMax bounds a policy file, so that the event that adopts it fits any ledger.
const FileBytesMax = 256 << 10

// RoutingTimeout is how long a classifier has when the policy does not say.
const RoutingTimeout = 10 * time.Second

// Load reads the policy in the file at path. The error is the file's: it is not
// there (fs.ErrNotExist), cannot be read, or is larger than FileBytesMax.
func Load(path string) (events.Policy, []Fault, error) {
	f, err := os.Open(path)
	if err != nil {
		return events.Policy{}, nil, fmt.Errorf("read policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, FileBytesMax+1))
	if err != nil {
		return events.Policy{}, nil, fmt.Errorf("read policy: %w", err)
	}
	if len(text) > FileBytesMax {
		return events.Policy{}, nil, fmt.Errorf("read policy %s: larger than %d bytes", path, FileBytesMax)
	}
	p, faults := Parse(path, text)
	return p, faults, nil
}

// Parse reads a policy; what its text leaves out is as in events.DefaultPolicy.
// The faults are in the order of the text, and name the file as given here. With
// a fault the policy is what could be read, to be shown and not adopted.
func Parse(name string, text []byte) (events.Policy, []Fault) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // some editors put it there
	f := &faults{file: name}
	d := readDocument(text, f)
	r := reader{faults: f, broken: d.broken}
	p := r.policy(d.root)
	r.roster.check(f, r.broken)
	d.compare()
	return p, f.sorted()
}
