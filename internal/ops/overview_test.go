package ops_test

import (
	"testing"

	"decklog/commands"
	"decklog/internal/ops"
)

// A session whose process is gone is no live candidate, whoever lists it.
func TestTheCandidatesOfAFilterAreLiveAsThosePresentAre(t *testing.T) {
	d := newDesk(t)
	d.running("twins-0001", 1)
	d.running("twins-0002", 2)
	d.dead[2] = true
	_, r, err := d.Threads(ops.ThreadsRequest{Participant: "twins-000"})
	d.told(commands.AmbiguousRecipient, r, err)
	live := map[string]bool{}
	for _, c := range r.Candidates {
		live[c.Session] = c.Live
	}
	if len(live) != 2 || !live["twins-0001"] || live["twins-0002"] {
		t.Errorf("live: %v", live)
	}
}
