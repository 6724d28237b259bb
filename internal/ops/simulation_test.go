package ops_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "play only the history of this seed")
	histories = flag.Int("histories", 0, "how many histories to play; 0: as many as the tier has time for")
)

// Short histories find what long ones hide: there are thousands of them, each
// from a seed that plays it again.
func TestThousandsOfShortHistoriesKeepEveryPromise(t *testing.T) {
	n := *histories
	if n == 0 {
		if n = 500; testing.Short() {
			n = 150
		}
	}
	first, last := uint64(1), uint64(n)
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	happened := map[string]int{}
	for seed := first; seed <= last; seed++ {
		if play(t, seed, happened); t.Failed() {
			return
		}
	}
	if n < 500 || *oneSeed != 0 {
		return
	}
	// A simulation in which nothing goes wrong proves nothing.
	for _, what := range rare {
		if happened[what] == 0 {
			t.Errorf("in %d histories it never happened: %s", n, what)
		}
	}
	t.Logf("what happened in %d histories: %v", n, happened)
}

// rare is what a simulation must have come across.
var rare = []string{
	"session.joined", "session.left", "left process_gone", "left unseen", "left cleared", "seat.taken", "seat.left", "message.sent", "message.edited", "message.deleted",
	"message.expired", "turn.flipped", "thread.done", "command.refused", "mailbox.leased", "mailbox.confirmed", "mailbox.taken", "mailbox.returned", "lease.expired",
	"instruction.leased", "instruction.confirmed", "policy.adopted", "lost unconfirmed", "lost session_ended", "notice given up", "a late confirm", "offered as edited",
	"offered as pending", "a third attempt", "two items", "told of a loss", "resent", "the clock went back", "refused bad_request", "refused sender_not_live",
	"refused unknown_recipient", "refused ambiguous_recipient", "refused not_participant", "refused reply_to_done", "refused key_reused", "refused duplicate", "refused session_rate", "refused thread_rate",
	"refused recipient_full", "refused stale_lease", "refused turn_final", "refused not_yours", "refused seat_taken", "refused not_found",
}

// notes counts what a history came across.
func (h *history) notes(happened map[string]int) {
	var last events.Time
	for _, r := range h.recorded(0) {
		happened[string(r.Type())]++
		if r.Time < last {
			happened["the clock went back"]++
		}
		last = r.Time
		switch e := r.Event.(type) {
		case events.SessionLeft:
			happened["left "+string(e.Reason)]++
		case events.CommandRefused:
			happened["refused "+e.Code]++
		case events.MessageSent:
			if e.ResendOf != "" {
				happened["resent"]++
			}
		case events.MailboxConfirmed:
			if e.Late {
				happened["a late confirm"]++
			}
		case events.MessageUndelivered:
			if e.Kind == events.ItemNotice {
				happened["notice given up"]++
			} else {
				happened["lost "+string(e.Reason)]++
			}
		case events.MailboxLeased:
			if len(e.Items) > 1 {
				happened["two items"]++
			}
			for _, it := range e.Items {
				switch {
				case it.Kind == events.ItemNotice:
					happened["told of a loss"]++
				case it.Pending:
					happened["offered as pending"]++
				case it.Edited:
					happened["offered as edited"]++
				}
				if it.Attempt == 3 {
					happened["a third attempt"]++
				}
			}
		}
	}
}

func play(t *testing.T, seed uint64, happened map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			fmt.Printf("play it again: go test ./internal/ops -run TestThousandsOfShortHistories -seed %d\n", seed)
		}
	}()
	h := newHistory(t, random.IntN)
	h.steps(10 + random.IntN(50))
	h.keepsPromises()
	if random.IntN(4) == 0 {
		h.replayed()
	}
	h.notes(happened)
	h.ends()
	h.keepsPromises()
}

// The same acts, drawn by rapid, which makes a failing history as short as it can.
func TestAnyHistoryKeepsEveryPromiseAndReplaysTheSame(t *testing.T) {
	numbers := make([]int, 10_000) // drawn evenly from these; a range favours its ends
	for i := range numbers {
		numbers[i] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, func(n int) int { return rapid.SampledFrom(numbers[:n]).Draw(t, "choice") })
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			h.steps(rapid.IntRange(1, 12).Draw(t, "steps"))
			h.keepsPromises()
			h.replayed()
		}
	})
}
