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
	"payload.attached", "ack.placed", "sticker.placed", "sticker.removed", "handoff.offered", "handoff.accepted", "handoff.declined", "handoff.closed", "an offer lapsed",
	"an item closed to its creditor", "routing.judged", "judged route", "judged no_move", "routing.undone", "owed.passed", "owed.closed", "owed.nudged", "owed.paged",
	"review.asked", "review.labelled", "seat.absent", "seat.returned", "stamped by another", "held", "two copies", "a call", "hop 3",
	"refused not_driver", "refused already_decided", "refused hop_limit", "refused pending", "refused no_such_seat",
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
			if len(e.Deliveries) > 1 {
				happened["two copies"]++
			}
			if e.Hop == 3 {
				happened["hop 3"]++
			}
			for _, d := range e.Deliveries {
				if d.Hold != nil {
					happened["held"]++
				}
			}
		case events.StickerPlaced:
			if e.Hand == events.HandSeat && e.BySeat != e.Seat {
				happened["stamped by another"]++
			}
		case events.HandoffClosed:
			switch e.Reason {
			case events.HandoffLapsed:
				happened["an offer lapsed"]++
			case events.HandoffCreditor:
				happened["an item closed to its creditor"]++
			}
		case events.OwedClosed:
			if e.Why == events.OwedToOneself {
				happened["an item closed to its creditor"]++
			}
		case events.RoutingJudged:
			happened["judged "+string(e.Verdict)]++
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
				case it.Kind == events.ItemCall:
					happened["a call"]++
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
	h.steps(10 + random.IntN(70))
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
