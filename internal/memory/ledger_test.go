package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/ledgertest"
	"decklog/internal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheMemoryLedgerKeepsTheContract(t *testing.T) {
	ledgertest.Contract(t, func(_ *testing.T, p events.Projector) events.Ledger { return memory.New(p) })
}
