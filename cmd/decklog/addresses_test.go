package main

import (
	"slices"
	"strings"
	"testing"

	"decklog/cmd/internal/surroundings"
	"decklog/commands"
)

// F31: a seat that somebody took under the name of the operating system's user,
// who is the one known person where the policy has none. Everybody whom the name
// may have meant is listed, sorted.
func TestF31AnAddressOfASeatAndAPersonListsThemAllSorted(t *testing.T) {
	m := aboard(t)
	want := []string{"s-alpha-01", "s-delta-04", "s-gamma-03", "s-omega-05"}
	for _, session := range []string{"s-omega-05", "s-alpha-01", "s-gamma-03", "s-delta-04"} {
		m.join(session, "--branch", "branch-of-"+session)
	}
	me := m.join("sender-01")
	m.done("send", "--as", me, "--to", "@"+surroundings.OSUser(), "--", "to the person")
	m.join("s-gamma-03", "--seat", surroundings.OSUser())

	r := m.run(nil, "send", "--json", "--as", me, "--to", "@"+surroundings.OSUser(), "--", "to whom?")
	refusal := read[struct{ Refusal commands.Refusal }](t, r.stdout).Refusal
	if r.code != 3 || refusal.Code != commands.AmbiguousRecipient || refusal.Status != 409 {
		t.Fatal(r)
	}
	var listed []string
	for _, c := range refusal.Candidates {
		if c.Session == me {
			continue // one of the person's sessions too
		}
		listed = append(listed, c.Session)
		if !c.Live || c.Directory == "" || c.Branch != "branch-of-"+c.Session && c.Session != "s-gamma-03" {
			t.Errorf("candidate %+v", c)
		}
	}
	if !slices.Equal(listed, want) {
		t.Errorf("listed are %v, want %v", listed, want)
	}
	if r = m.run(nil, "send", "--as", me, "--to", "@"+surroundings.OSUser(), "--", "to whom?"); r.code != 3 ||
		strings.Index(string(r.stderr), want[0]) > strings.Index(string(r.stderr), want[1]) || !strings.Contains(string(r.stderr), "Fix: ") {
		t.Errorf("as text: %s", r)
	}
	m.send(me, "s-gamma-03", "a full id is never ambiguous")
	m.verified()
}
