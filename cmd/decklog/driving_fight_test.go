package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// Two programs fight for one thread, 200 times: each time both place a sticker,
// hand over, or route at the same moment. One seat drives at every position, and
// a replay to any of them says so.
func TestTwoProgramsThatFightForOneThreadLeaveOneDriverAtEveryPosition(t *testing.T) {
	if testing.Short() { // `make check` has to answer in seconds; `make test` runs it
		t.Skip("starts 400 processes")
	}
	program, err := toldTheTime()
	if err != nil {
		t.Fatal(err)
	}
	f := newFight(t)
	clock := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(clock, []byte(scenarioStart.Format(time.RFC3339Nano)), 0o600); err != nil {
		t.Fatal(err)
	}
	ledger := "sqlite:" + f.file
	run := func(args ...string) (refusal commands.Code) {
		cmd := exec.Command(program, append(args, "--json")...)
		cmd.Env = append(os.Environ(), "DECKLOG_LEDGER="+ledger, "DECKLOG_TEST_CLOCK="+clock, "DECKLOG_AS=",
			"CLAUDE_CODE_SESSION_ID=", "CODEX_THREAD_ID=", "CODEX_SESSION_ID=", "GEMINI_SESSION_ID=", "DECKLOG_SESSION=")
		out, err := cmd.Output()
		var answer struct{ Refusal struct{ Code commands.Code } }
		if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil || err != nil && answer.Refusal.Code == "" {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return answer.Refusal.Code
	}
	refused := 0
	const rounds = 200
	for round := range rounds {
		seats := []string{"smith", "trinity", "oracle"}
		var acts [2][]string
		switch round % 3 {
		case 0: // two persons lay, and take off, different stickers
			verb := []string{"place", "remove"}[round/3%2]
			acts[0] = []string{"sticker", verb, string(f.thread), seats[round/6%3], "--as", "@owner-a"}
			acts[1] = []string{"sticker", verb, string(f.thread), seats[(round/6+1)%3], "--as", "@owner-b"}
		case 1: // whoever drives offers it to both others
			driver, _, err := f.ops.Driver(ops.DriverRequest{ID: string(f.thread)})
			if err != nil || driver.Driver.Seat == nil {
				t.Fatal(driver, err)
			}
			i := 0
			for _, seat := range seats {
				if seat != *driver.Driver.Seat {
					acts[i] = []string{"handoff", "offer", string(f.thread), "--to", seat, "--reason", "yours", "--as", *driver.Driver.Seat + "-0001"}
					i++
				}
			}
		default: // an offer that lies open is accepted while a person re-stickers
			acts[0] = []string{"sticker", "place", string(f.thread), seats[round/9%3], "--as", "@owner-b"}
			acts[1] = []string{"driver", string(f.thread)}
			if offer := f.openOffer(); offer != nil {
				acts[1] = []string{"handoff", "accept", string(offer.ID), "--as", offer.To + "-0001"}
			}
		}
		var both sync.WaitGroup
		var codes [2]commands.Code
		for i, args := range acts {
			both.Go(func() { codes[i] = run(args...) })
		}
		both.Wait()
		for _, code := range codes {
			if code != "" {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("nobody was refused: no two acts met")
	}
	f.holds()
	// The replay from the thread's own events agrees with the fold of them all.
	all := f.recorded()
	for at := f.position; at <= all[len(all)-1].Position; at += 17 {
		view, r, err := f.ops.Driver(ops.DriverRequest{ID: string(f.thread), At: strconv.FormatInt(int64(at), 10)})
		if r != nil || err != nil {
			t.Fatal(r, err)
		}
		if want := f.driverAt(all, at); view.Driver.Seat == nil || *view.Driver.Seat != want {
			t.Errorf("position %d: replayed to %v, folded to %s", at, view.Driver.Seat, want)
		}
	}
}

func (f *fight) openOffer() (offer *projections.Handoff) {
	f.t.Helper()
	m := f.model()
	if t := projections.On(m.rows).Thread(f.thread); t != nil {
		offer = t.OpenOffer()
	}
	return offer
}

func (f *fight) driverAt(all []events.Recorded, at events.Position) string {
	f.t.Helper()
	m := threadModel{rows: folded(f.t, all[:at])}
	s := projections.On(m.rows)
	return s.Driver(s.Thread(f.thread)).Seat
}
