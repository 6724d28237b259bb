package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWakingIsInstalledOnlyForWhoAskedAndStaysUntilARemoval(t *testing.T) {
	for harness, listens := range map[string]struct {
		sign  string
		times int
	}{
		"claude-code": {`"command": "decklog wake claude-code",`, 2}, "codex": {`"command": "decklog wake codex",`, 2}, "opencode": {"// decklog wake opencode", 1},
	} {
		t.Run(harness, func(t *testing.T) {
			h := newHome(t, harness, nil)
			h.place.OpencodeWake = []byte("// decklog wake opencode\n")
			wakes := func() (n int) {
				for _, text := range h.files() {
					n += strings.Count(text, listens.sign)
				}
				return n
			}
			before := h.tree()
			h.install()
			if wakes() > 0 {
				t.Fatal("it wakes unasked")
			}
			plain := h.tree()
			h.place.Wake = true
			h.install()
			if n := wakes(); n != listens.times {
				t.Fatalf("there are %d listeners", n)
			}
			h.place.Wake = false
			if plan := h.install(); len(plan.Changes) > 0 || wakes() != listens.times {
				t.Errorf("an installation without it changes %v", plan.Changes)
			}
			h.remove()
			if d := cmp.Diff(before, h.tree()); d != "" {
				t.Error(d)
			}
			h.install()
			if d := cmp.Diff(plain, h.tree()); d != "" {
				t.Error(d)
			}
		})
	}
}
