package ops_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"decklog/internal/ops"
)

// F10: what the status line counts is what the inbox lists.
func TestTheStatusLineCountsWhatTheInboxListsAsQueued(t *testing.T) {
	n, counted := 60, 0
	if testing.Short() { // each is a history of its own
		n = 20
	}
	for seed := range uint64(n) {
		h := newHistory(t, rand.New(rand.NewPCG(seed, 1)).IntN)
		for range 12 {
			h.steps(4)
			for _, who := range slices.Concat(crew, people, desks) {
				inbox, refused, err := h.Inbox(ops.InboxRequest{As: who, State: "queued", Limit: ops.InboxMax})
				if err != nil {
					t.Fatal(err)
				}
				status, err := h.Status(ops.Asker{As: who})
				if err != nil {
					t.Fatal(err)
				}
				if refused != nil && status.Waiting > 0 || status.Waiting != len(inbox.Messages) {
					t.Fatalf("seed %d: the status line of %s counts %d, and the inbox lists %d", seed, who, status.Waiting, len(inbox.Messages))
				}
				counted += status.Waiting
			}
		}
	}
	if counted == 0 {
		t.Error("nothing ever waited")
	}
}
