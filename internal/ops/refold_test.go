package ops_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"decklog/events"
	"decklog/internal/esdb"
	"decklog/internal/esdbdouble"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// The views of a ledger in a cluster are folded anew, from what this machine has,
// before anything is brought to rows of a form that the folds do not know.
func TestViewsOfAnOlderFoldAreMadeAnewBeforeALedgerInAClusterIsServed(t *testing.T) {
	double, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(double.Stop)
	views := filepath.Join(t.TempDir(), "views.db")
	address, err := esdb.Parse(double.URL() + "&views=" + views)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *desk {
		d := newDesk(t)
		ledger, err := esdb.Open(address, projections.Project, esdb.Prepare(ops.Refold))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		d.Ledger = ledger
		return d
	}
	d := open()
	d.join(alice)
	d.join(bob)
	d.send(alice, inform(bob, "x"))
	want := d.rows()
	folded := func(version int) {
		t.Helper()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		mirror, err := sqlite.Open(views, projections.Project, sqlite.Mirrors())
		if err != nil {
			t.Fatal(err)
		}
		defer mirror.Close()
		err = mirror.Update(func(tx events.Tx) error {
			c, err := projections.ReadCheckpoint(tx.Rows())
			return errors.Join(err, tx.Rows().Put("checkpoint", fmt.Appendf(nil, `{"position":%d,"fold":%d}`, c.Position, version)),
				tx.Rows().Put("session\tan older form", []byte("?")))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	folded(projections.FoldVersion - 1)
	d = open()
	if rows := d.rows(); !slices.Equal(rows, want) {
		t.Errorf("there are %q, not %q", rows, want)
	}
	d.verified()
	folded(projections.FoldVersion + 1)
	if ledger, err := esdb.Open(address, projections.Project, esdb.Prepare(ops.Refold)); !errors.Is(err, events.ErrNewer) {
		t.Errorf("it opens: %v", err)
		ledger.Close()
	}
}
