//go:build faults && linux

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/internal/faults"
)

// journals are the journal modes, both of which a ledger may have.
var journals = []string{"wal", "delete"}

// cuts plays power cuts on one ledger, one after the other, with two processes
// at work. What is left of the disk is what the next round begins with. judge
// is told of each.
func cuts(t *testing.T, rounds int, lies, torn bool, judge func(h *history, ledger string, round int)) (taken int) {
	t.Helper()
	const workers = 2
	h := newHistory()
	files := map[string][]byte{}
	for round := range rounds {
		d := newDisk(files)
		d.lies = lies
		folder, eject := d.mount(t)
		begin := begun.Add(time.Duration(round) * time.Minute)
		var staff []*hired
		for n := range workers {
			staff = append(staff, hire(t, filepath.Join(folder, "ledger.db"), fmt.Sprint(round, "-", n), begin))
		}
		// Now and then it is dark before the ledger is made, or opened again.
		lines := rand.IntN(100)
		if lies {
			lines += 20 // it needs the time to lie
		}
		for line := range lines {
			if _, more := staff[line%workers].hear(h); !more {
				t.Fatalf("round %d: a worker ended by itself: %v", round, staff[line%workers].fails)
			}
		}
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		taken += d.unsynced()
		files = d.cut(torn)
		for _, w := range staff {
			w.kill(h)
		}
		eject()
		if lies && d.did.lied == 0 {
			t.Fatalf("round %d: the disk did not lie", round)
		}
		left := pour(t, files)
		judge(h, filepath.Join(left, "ledger.db"), round)
		files = drain(t, left)
	}
	return taken
}

func TestAPowerCutTakesNothingThatWasAcknowledged(t *testing.T) {
	for _, journal := range journals {
		for name, torn := range map[string]bool{"unsynced is gone": false, "unsynced is torn": true} {
			t.Run(journal+"/"+name, func(t *testing.T) {
				t.Setenv(faults.JournalVar, journal)
				rounds := often(50, 4)
				var last *history
				var end verdict
				unheard := 0
				taken := cuts(t, rounds, false, torn, func(h *history, ledger string, round int) {
					last, end = h, h.holds(t, ledger, fmt.Sprintf("after cut %d", round))
					unheard += end.unheard
					h.settle(t, ledger, begun.Add(time.Duration(round)*time.Minute+30*time.Second))
				})
				t.Logf("%s, %s: %d cuts, %d answers acknowledged, 0 lost, %d more were there without an answer; the ledger has %d events; %d unsynced changes were at stake",
					journal, name, rounds, last.acknowledged(), unheard, end.events, taken)
				if taken == 0 || last.acknowledged() == 0 {
					t.Error("no cut took anything: nothing was tested")
				}
			})
		}
	}
}

// The control: a disk that says it synced, and did not, must lose, and the
// oracle must see it. Else the test above proves nothing.
func TestADiskThatLiesLosesAndTheOracleSeesIt(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			t.Setenv(faults.JournalVar, journal)
			rounds, lost, acknowledged := often(6, 2), 0, 0
			for round := range rounds {
				cuts(t, 1, true, false, func(h *history, ledger string, _ int) {
					v := h.judge(t, ledger)
					lost, acknowledged = lost+v.lost, acknowledged+h.acknowledged()
					if h.acknowledged() > 0 && v.lost == 0 {
						t.Errorf("round %d: %d were acknowledged, and none is lost: %s", round, h.acknowledged(), strings.Join(v.wrong, "\n"))
					}
				})
			}
			t.Logf("%s: %d cuts of a lying disk, %d answers acknowledged, %d lost", journal, rounds, acknowledged, lost)
			if lost == 0 {
				t.Error("nothing was lost")
			}
		})
	}
}
