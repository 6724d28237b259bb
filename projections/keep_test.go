package projections_test

import (
	"testing"

	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// work is the rows of one unit of work, of a ledger that keeps its fold.
type work struct {
	*rows.Rows
	fold *any
}

func (w *work) Kept() any     { return *w.fold }
func (w *work) Keep(fold any) { *w.fold = fold }

func TestAStateGoesOnUntilSomebodyElseWrites(t *testing.T) {
	var fold any
	r := rows.New()
	begin := func() *work { return &work{r, &fold} }
	history := placed(
		events.SessionJoined{Session: "s1", Cwd: "/a"}, events.SessionJoined{Session: "s1", Cwd: "/b"}, events.SessionJoined{Session: "s1", Cwd: "/c"},
	)
	first := begin()
	if err := projections.Project(first, history[:1]); err != nil {
		t.Fatal(err)
	}
	ours := projections.On(first)
	if ours.Session("s1").Cwd != "/a" || projections.On(begin()) != ours {
		t.Error("one who wrote alone begins anew")
	}
	if err := projections.Project(r, history[1:2]); err != nil { // another process
		t.Fatal(err)
	}
	theirs := projections.On(begin())
	if theirs == ours || theirs.Session("s1").Cwd != "/b" {
		t.Errorf("after another's event the session is in %s", theirs.Session("s1").Cwd)
	}
	if err := projections.Project(begin(), history[2:]); err != nil {
		t.Fatal(err)
	}
	if s := projections.On(begin()); s != theirs || s.Session("s1").Cwd != "/c" || s.Position() != 3 {
		t.Errorf("at %d the session is in %s", s.Position(), s.Session("s1").Cwd)
	}
	if s := projections.On(r); s.Session("s1").Cwd != "/c" {
		t.Errorf("its row has %s", s.Session("s1").Cwd)
	}
}
